//! Replacing everything a table holds, entry by entry, without holding it twice.
//!
//! ```text
//! entries ──> fresh shards ── finish ──> swapped in, all at once; cursors of the time before end
//!                 ^
//! old shards ─────┘ objects that did not change are shared
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::{Storage, StorageId};
use store::{Entry, Reload, Revision};

use super::{Table, is_protobuf, object};
use crate::Obj;
use crate::shard::Shard;

pub(super) struct TableReload<'a> {
    table: &'a Table,
    fresh: Vec<Shard>,
}

impl<'a> TableReload<'a> {
    pub(super) fn new(table: &'a Table) -> TableReload<'a> {
        TableReload { table, fresh: table.catalog.storages().iter().map(Shard::new).collect() }
    }

    /// The object as it is in the table, or a new one; `None`: the value is no object.
    fn object(&self, id: StorageId, storage: &Storage, entry: &Entry) -> Option<Arc<Obj>> {
        let same = |old: &Arc<Obj>| {
            // The revision alone does not tell: it may be of another log, of an etcd that was restored.
            old.revision() == entry.revision
                && old.expires_at() == entry.expires_at
                && old.is_stored_as(&entry.value)
        };
        if let Some(old) = self.table.get(id, &entry.key).filter(same) {
            return Some(old);
        }
        let new = object(storage, &entry.key, &entry.value, entry.revision, entry.expires_at);
        new.ok().map(Arc::new)
    }
}

impl Reload for TableReload<'_> {
    fn add(&mut self, entry: Entry) {
        let Some((id, _)) = self.table.catalog.storage_of_key(&entry.key) else { return };
        let obj = self.object(id, self.table.catalog.storage(id), &entry);
        let shard = &mut self.fresh[id.0 as usize];
        match obj {
            Some(obj) => shard.load(obj),
            None => {
                // As when such a value is published: the last one that could be read stays.
                if let Some(last) = self.table.get(id, &entry.key) {
                    shard.load(last);
                }
                shard.break_key(entry.revision, entry.key, is_protobuf(&entry.value));
            }
        }
    }

    fn finish(self: Box<Self>, revision: Revision) {
        let TableReload { table, fresh } = *self;
        let mut guards: Vec<_> = table.shards.iter().map(|c| c.shard.write()).collect();
        {
            let mut history = table.history.lock();
            history.clear();
            for ((guard, mut shard), storage) in guards.iter_mut().zip(fresh).zip(table.storages()) {
                shard.forget_upto(revision);
                history.set_live(storage, shard.live_bytes());
                **guard = shard;
                table.watchers(storage).lock().reset();
            }
        }
        table.epoch.fetch_add(1, Ordering::AcqRel);
        table.revision.store(revision.0, Ordering::Release);
        drop(guards);
        table.news.send_replace(revision.0);
        for cell in &table.shards {
            cell.watchers.lock().notify_everyone();
        }
    }
}

#[cfg(test)]
mod tests;
