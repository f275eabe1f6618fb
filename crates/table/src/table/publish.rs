//! What the engine tells the table: guards, commits in revision order, everything anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::StorageId;
use object::Obj;
use store::{Change, Key, Reload, Revision, State, Unreadable};

use super::reload::TableReload;
use super::{Cell, Table, is_protobuf, object};
use crate::unclaimed::Stored;
use crate::watchers::Topic;

impl State for Table {
    fn current(&self, key: &str) -> Option<Revision> {
        let _steady = self.defining.read();
        match self.layout().of_key(key) {
            None => self.unclaimed.lock().revision(key),
            Some(cell) => {
                let shard = cell.shard.read();
                shard.unreadable_keys().changed(key).or_else(|| shard.get(key).map(|o| o.revision()))
            }
        }
    }

    fn reload(&self) -> Box<dyn Reload + '_> {
        Box::new(TableReload::new(self))
    }

    fn unreadable(&self) -> Option<Unreadable> {
        let layout = self.layout();
        let of_shards = layout.all().filter_map(|cell| cell.shard.read().unreadable_keys().all());
        of_shards.reduce(|first, other| Unreadable { count: first.count + other.count, ..first })
    }

    fn unreadable_at(&self, key: &str) -> Option<Unreadable> {
        self.layout().of_key(key)?.shard.read().unreadable_keys().get(key)
    }

    fn publish(&self, changes: Vec<Change>, upto: Revision) {
        let _steady = self.defining.read();
        let layout = self.layout();
        // Encode outside the locks.
        let mut ready: Vec<(&Arc<Cell>, Revision, Key, New)> = Vec::with_capacity(changes.len());
        for Change { revision, key, value, expires_at } in changes {
            let Some(cell) = layout.of_key(&key) else {
                let mut unclaimed = self.unclaimed.lock();
                match value {
                    Some(value) => unclaimed.put(key, Stored { value, revision, expires_at }),
                    None => unclaimed.remove(&key),
                }
                continue;
            };
            let obj = match &value {
                None => New::Gone,
                Some(value) => match object(&cell.storage, &key, value, revision, expires_at) {
                    Ok(obj) => New::Object(Arc::new(obj)),
                    Err(_) => New::Unreadable { protobuf: is_protobuf(value) },
                },
            };
            ready.push((cell, revision, key, obj));
        }
        let mut touched: Vec<&Arc<Cell>> = ready.iter().map(|(cell, ..)| *cell).collect();
        touched.sort_unstable_by_key(|cell| cell.storage.id);
        touched.dedup_by_key(|cell| cell.storage.id);

        let now = self.env.now_seconds() as u32;
        let mut past = Vec::with_capacity(ready.len());
        let mut concerned: Vec<Arc<Topic>> = Vec::new();
        let mut broken: Vec<&Cell> = Vec::new();
        let live: Vec<(StorageId, u64)>;
        {
            let mut guards: Vec<_> =
                touched.iter().map(|cell| (cell.shard.write(), cell.watchers.lock())).collect();
            for (cell, revision, key, obj) in ready {
                let at = touched.binary_search_by_key(&cell.storage.id, |cell| cell.storage.id);
                let (shard, watchers) = &mut guards[at.expect("every cell of `ready` is in `touched`")];
                // A deletion's event has a copy of its own.
                let copies = if matches!(obj, New::Gone) { 2 } else { 1 };
                let (new, prev) = match obj {
                    New::Object(obj) => (Some(obj.clone()), shard.put(revision, obj)),
                    New::Unreadable { protobuf } => {
                        shard.mark_unreadable(revision, key, protobuf);
                        broken.push(cell);
                        continue;
                    }
                    New::Gone => match shard.delete(&cell.storage, revision, &key) {
                        Some(prev) => (None, Some(prev)),
                        None => continue,
                    },
                };
                past.push((revision, cell.storage.id, prev.as_ref().map_or(0, |p| p.weight() * copies)));
                let number = shard.end() - 1;
                for state in [prev, new].into_iter().flatten() {
                    watchers.note((number, upto), &state, cell.indexed, &mut concerned);
                }
            }
            concerned.extend(guards.iter().map(|(_, watchers)| watchers.all().clone()));
            live = touched
                .iter()
                .zip(&guards)
                .map(|(cell, (shard, _))| (cell.storage.id, shard.live_bytes()))
                .collect();
            self.revision.store(upto.0, Ordering::Release);
        }
        self.news.send_replace(upto.0);
        concerned.iter().for_each(|topic| topic.notify());
        // Whose watches may end.
        for cell in broken {
            cell.watchers.lock().notify_everyone();
        }
        let count = past.len();
        {
            let mut history = self.history.lock();
            for (revision, storage, bytes) in past {
                history.push(revision, storage, now, bytes);
            }
            live.into_iter().for_each(|(storage, bytes)| history.set_live(storage, bytes));
        }
        // More than came in: the bounds hold, and one publish never pays for a whole history.
        let most = (count / 64 + 2).div_ceil(touched.len().max(1));
        for cell in touched {
            self.forget_some(cell.storage.id, most);
        }
    }
}

/// What a change leaves at its key.
enum New {
    Object(Arc<Obj>),
    /// Something that is no object.
    Unreadable {
        protobuf: bool,
    },
    Gone,
}
