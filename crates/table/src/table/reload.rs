//! Replacing everything a table holds, entry by entry, without holding it twice.
//!
//! ```text
//! entries ──> fresh shards ── finish ──> swapped in, all at once; cursors of the time before end
//!                 ^
//! old shards ─────┘ objects that did not change are shared
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use object::Obj;
use store::{Entry, Reload, Revision};

use super::{Cell, Layout, Table, is_protobuf, object};
use crate::shard::Shard;
use crate::unclaimed::{Stored, Unclaimed};

pub(super) struct TableReload<'a> {
    table: &'a Table,
    /// What was defined when it began. Definitions may come and go until it is finished.
    layout: Arc<Layout>,
    /// By the number of the storage, as the layout's cells.
    fresh: Vec<Option<Shard>>,
    unclaimed: Unclaimed,
}

impl<'a> TableReload<'a> {
    pub(super) fn new(table: &'a Table) -> TableReload<'a> {
        let layout = table.layout.load_full();
        let shard = |cell: &Option<Arc<Cell>>| cell.as_ref().map(|cell| Shard::new(&cell.storage));
        let fresh = layout.cells.iter().map(shard).collect();
        TableReload { table, layout, fresh, unclaimed: Unclaimed::default() }
    }
}

/// The object as it is in the table, or a new one; `None`: the value is no object.
fn shared(cell: &Cell, entry: &Entry) -> Option<Arc<Obj>> {
    let same = |old: &&Arc<Obj>| {
        // The revision alone does not tell: it may be of another log, of an etcd that was restored.
        old.revision() == entry.revision
            && old.expires_at() == entry.expires_at
            && old.is_stored_as(&entry.value)
    };
    if let Some(old) = cell.shard.read().get(&entry.key).filter(same) {
        return Some(old.clone());
    }
    let new = object(&cell.storage, &entry.key, &entry.value, entry.revision, entry.expires_at);
    new.ok().map(Arc::new)
}

impl Reload for TableReload<'_> {
    fn add(&mut self, entry: Entry) {
        let cell = self.layout.of_key(&entry.key);
        let shard = cell.and_then(|cell| self.fresh[cell.storage.id.0 as usize].as_mut());
        let (Some(cell), Some(shard)) = (cell, shard) else {
            let Entry { key, value, revision, expires_at } = entry;
            return self.unclaimed.put(key, Stored { value, revision, expires_at });
        };
        match shared(cell, &entry) {
            Some(obj) => shard.load(obj),
            None => {
                // As when such a value is published: the last one that could be read stays.
                if let Some(last) = cell.shard.read().get(&entry.key) {
                    shard.load(last.clone());
                }
                shard.mark_unreadable(entry.revision, entry.key, is_protobuf(&entry.value));
            }
        }
    }

    fn finish(self: Box<Self>, revision: Revision) {
        let TableReload { table, mut fresh, mut unclaimed, .. } = *self;
        let _alone = table.defining.write();
        let layout = table.layout();
        fresh.resize_with(fresh.len().max(layout.cells.len()), || None);
        // What was defined meanwhile gets what it claims, also of what was defined before it.
        let gone = |at: &usize| layout.cells.get(*at).is_none_or(Option::is_none);
        for at in (0..fresh.len()).filter(gone) {
            fresh[at].take().into_iter().for_each(|shard| unclaimed.release(&shard));
        }
        for cell in
            layout.all().filter(|cell| fresh[cell.storage.id.0 as usize].is_none()).collect::<Vec<_>>()
        {
            let mut shard = Shard::new(&cell.storage);
            unclaimed.claim(&cell.storage, &mut shard);
            fresh[cell.storage.id.0 as usize] = Some(shard);
        }
        let mut guards: Vec<_> = layout.all().map(|cell| (cell, cell.shard.write())).collect();
        {
            let mut history = table.history.lock();
            for ((cell, guard), mut shard) in guards.iter_mut().zip(fresh.into_iter().flatten()) {
                shard.forget_upto(revision);
                history.renew(cell.storage.id);
                history.set_live(cell.storage.id, shard.live_bytes());
                **guard = shard;
                cell.watchers.lock().reset();
            }
        }
        *table.unclaimed.lock() = unclaimed;
        table.epoch.fetch_add(1, Ordering::AcqRel);
        table.revision.store(revision.0, Ordering::Release);
        drop(guards);
        table.news.send_replace(revision.0);
        layout.all().for_each(|cell| cell.watchers.lock().notify_everyone());
    }
}

#[cfg(test)]
mod tests;
