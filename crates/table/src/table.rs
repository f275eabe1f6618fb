//! The table itself: shards, the revision, reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use catalog::{Catalog, Storage, StorageId};
use env::Env;
use parking_lot::{Mutex, RwLock};
use store::{Change, Key, Reload, Revision, State, Unreadable};
use tokio::sync::watch;

use crate::history::{Bounds, Due, History};
use crate::shard::{Found, Shard};
use crate::watchers::{Topic, Watchers};
use crate::{Cursor, NotAnObject, Obj, Scope, Selection, foreign};

mod reload;

/// How many keys a read visits before it lets the writer in.
const STRETCH: usize = 4096;
/// A selection that looked at fewer objects than this is quick enough without an index.
const MANY: usize = 1024;
/// An index helps who takes at most one of so many objects.
const WORTH: usize = 8;

/// Every object of a cluster. See the crate document.
pub struct Table {
    catalog: Arc<Catalog>,
    env: Env,
    shards: Box<[Cell]>,
    /// The last complete revision. Raised while the locks of all shards it touches are held.
    revision: AtomicU64,
    /// Grows with every reset; cursors of an older epoch end.
    epoch: AtomicU64,
    /// Guards the order in which history is forgotten; no shard lock is waited for while it is held.
    history: Mutex<History>,
    /// There may be indexes made on demand.
    indexed: AtomicBool,
    /// Tells those who wait for a revision that has not come yet.
    news: watch::Sender<u64>,
}

struct Cell {
    /// Guards versions and log of one storage resource.
    shard: RwLock<Shard>,
    /// Guards who watches it; never taken before `shard`.
    watchers: Mutex<Watchers>,
}

/// Part of a list.
pub struct Page {
    pub items: Vec<Arc<Obj>>,
    /// The revision the whole list is read at.
    pub revision: Revision,
    /// More follow after the last item.
    pub more: bool,
    /// How many follow, when that is known without looking at them.
    pub remaining: Option<usize>,
    /// What belongs here, perhaps, but cannot be read: the items are not the whole truth.
    pub unreadable: Option<Unreadable>,
}

/// Where a page of a list begins.
#[derive(Clone, Copy, Debug)]
pub struct Behind<'a> {
    /// The last one of the page before.
    pub key: &'a str,
    /// How many follow it, if that is known.
    pub left: Option<usize>,
}

/// A state of one storage resource, to compare with a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    epoch: u64,
    changed: Revision,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The revision is below the history kept.
    Expired { floor: Revision },
    /// The revision has not happened yet.
    Future { current: Revision },
}

impl Table {
    pub fn new(catalog: Arc<Catalog>, env: Env) -> Arc<Table> {
        Table::with_bounds(catalog, env, Bounds::DEFAULT)
    }

    /// A table that forgets earlier, for tests of what happens then.
    pub fn with_history_bytes(catalog: Arc<Catalog>, env: Env, history_bytes: usize) -> Arc<Table> {
        Table::with_bounds(catalog, env, Bounds::fixed(history_bytes))
    }

    fn with_bounds(catalog: Arc<Catalog>, env: Env, bounds: Bounds) -> Arc<Table> {
        let shards: Box<[Cell]> = catalog
            .storages()
            .iter()
            .map(|s| Cell { shard: RwLock::new(Shard::new(s)), watchers: Mutex::default() })
            .collect();
        let history = Mutex::new(History::new(bounds, shards.len()));
        Arc::new(Table {
            catalog,
            env,
            shards,
            revision: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            history,
            indexed: AtomicBool::new(false),
            news: watch::Sender::new(0),
        })
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The last complete revision.
    pub fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// Reads and watches of a storage resource below this are 410.
    pub fn floor(&self, storage: StorageId) -> Revision {
        self.shard(storage).read().floor()
    }

    /// How many objects a storage resource holds.
    pub fn count(&self, storage: StorageId) -> usize {
        self.shard(storage).read().live()
    }

    /// How many objects a storage resource holds, and the bytes of their bodies.
    pub fn size(&self, storage: StorageId) -> (usize, u64) {
        let shard = self.shard(storage).read();
        (shard.live(), shard.live_bytes())
    }

    /// Changes whenever anything of a storage resource does: what was derived from it can be kept until then.
    pub fn version(&self, storage: StorageId) -> Version {
        let changed = self.shard(storage).read().changed();
        Version { epoch: self.epoch(), changed }
    }

    /// The newest object of a key that could be read; whoever serves it to others wants [`Table::read`].
    pub fn get(&self, storage: StorageId, key: &str) -> Option<Arc<Obj>> {
        self.shard(storage).read().get(key).cloned()
    }

    /// The newest object of a key; `Err` when there is something newer that is no object.
    pub fn read(&self, storage: StorageId, key: &str) -> Result<Option<Arc<Obj>>, Unreadable> {
        let shard = self.shard(storage).read();
        match shard.broken().get(key) {
            Some(unreadable) => Err(unreadable),
            None => Ok(shard.get(key).cloned()),
        }
    }

    /// Waits until the table has seen `revision`.
    pub async fn wait_for(&self, revision: Revision) {
        let mut news = self.news.subscribe();
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = news.wait_for(|seen| *seen >= revision.0).await;
    }

    /// Objects of a selection in key order: at `at`, or at the newest revision; what comes behind `behind`; at most `limit` (0: all).
    pub fn list(
        &self,
        storage: StorageId,
        selection: &Selection,
        at: Option<Revision>,
        behind: Option<Behind<'_>>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let row = self.catalog.storage(storage);
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut items: Vec<Arc<Obj>> = Vec::new();
        let mut after: Option<Key> = behind.map(|behind| Key::from(behind.key));
        // How many there are in all; told by the page before, or counted where it is the newest state that is read.
        let mut total = behind.and_then(|behind| behind.left);
        let mut at = at;
        let mut visited_before = 0;
        let mut unreadable = None;
        loop {
            let shard = self.shard(storage).read();
            let seen = self.revision();
            let revision = at.unwrap_or(seen);
            if revision > seen {
                return Err(ReadError::Future { current: seen });
            }
            if revision < shard.floor() {
                return Err(ReadError::Expired { floor: shard.floor() });
            }
            if visited_before == 0 {
                unreadable = shard.unreadable(row, selection, revision);
                if after.is_none() && revision >= shard.changed() {
                    total = Some(shard.live_in(&selection.scope));
                }
            }
            if let Some(key) = selection.exact_key(row) {
                let found = shard.get_at(&key, revision).filter(|o| selection.matches(o)).cloned();
                let items =
                    found.into_iter().filter(|o| after.as_ref().is_none_or(|a| o.key() > &**a)).collect();
                return Ok(Page { items, revision, more: false, remaining: None, unreadable });
            }
            // Not in the middle of a scan: that goes on where it was.
            if visited_before == 0
                && let Some(found) = shard.find(
                    row,
                    selection,
                    after.as_deref(),
                    revision,
                    limit,
                    self.env.now_seconds() as u32,
                )
            {
                let Found { items, more } = found;
                return Ok(Page { items, revision, more, remaining: None, unreadable });
            }
            if items.is_empty()
                && limit == usize::MAX
                && selection.is_whole_scope()
                && selection.scope == Scope::All
            {
                items.reserve(shard.live());
            }
            let mut last = None;
            let mut here = 0;
            let mut full = None;
            for (visited, obj) in shard.range(row, &selection.scope, after.as_deref(), revision).enumerate() {
                if visited == STRETCH {
                    break;
                }
                // As upstream: whether what follows is selected too is only known to who goes on.
                if items.len() == limit && selection.matches_index(row, obj) {
                    let count = || {
                        let last = items.last().map(|o| o.key());
                        shard.range(row, &selection.scope, last, revision).count()
                    };
                    let remaining = selection
                        .is_whole_scope()
                        .then(|| total.map_or_else(count, |total| total.saturating_sub(items.len())));
                    full = Some(remaining);
                    last = None;
                    here = visited;
                    break;
                }
                if items.len() < limit && selection.matches_selectors(obj) {
                    items.push(obj.clone());
                }
                last = (visited + 1 == STRETCH).then(|| Key::from(obj.key()));
                here = visited + 1;
            }
            drop(shard);
            match last {
                None => {
                    self.index_if_worth_it(storage, selection, visited_before + here, items.len());
                    let (more, remaining) = (full.is_some(), full.flatten());
                    return Ok(Page { items, revision, more, remaining, unreadable });
                }
                Some(last) => {
                    visited_before += here;
                    // Let the writer in, then go on at the same revision.
                    after = Some(last);
                    at = Some(revision);
                }
            }
        }
    }

    /// Makes an index where a selection looked at many objects for few, so that the next one need not.
    fn index_if_worth_it(&self, storage: StorageId, selection: &Selection, visited: usize, found: usize) {
        if visited < MANY || found * WORTH > visited {
            return;
        }
        let (row, now) = (self.catalog.storage(storage), self.env.now_seconds() as u32);
        let Some(field) = self.shard(storage).read().narrowest(row, selection, MANY / WORTH) else { return };
        // A stretch at a time, with the writer in between.
        while self.shard(storage).write().build_index(row, field, now) {}
        self.indexed.store(true, Ordering::Relaxed);
    }

    /// Drops indexes that nobody asked for in a while.
    fn drop_idle_indexes(&self) {
        if !self.indexed.load(Ordering::Relaxed) {
            return;
        }
        let now = self.env.now_seconds() as u32;
        // Before the count: an index that is made meanwhile says so again.
        self.indexed.store(false, Ordering::Relaxed);
        let mut left = 0;
        for cell in self.shards.iter().filter(|cell| cell.shard.read().indexes_made() > 0) {
            let mut shard = cell.shard.write();
            shard.drop_idle_indexes(now);
            left += shard.indexes_made();
        }
        if left > 0 {
            self.indexed.store(true, Ordering::Relaxed);
        }
    }

    /// How many indexes were made on demand and are still there.
    pub fn indexes(&self) -> usize {
        self.shards.iter().map(|cell| cell.shard.read().indexes_made()).sum()
    }

    /// A cursor right after `from`, which may lie in the future.
    pub fn watch_from(
        self: &Arc<Table>,
        storage: StorageId,
        selection: Selection,
        from: Revision,
    ) -> Result<Cursor, ReadError> {
        let shard = self.shard(storage).read();
        if from < shard.floor() {
            return Err(ReadError::Expired { floor: shard.floor() });
        }
        Ok(Cursor::new(self.clone(), storage, selection, from, &shard))
    }

    /// What superseded versions and the log weigh.
    pub fn history_bytes(&self) -> usize {
        self.history.lock().bytes()
    }

    /// Forgets what became too old; call about once a second. `publish` keeps the size bound by itself.
    pub fn forget_old(&self) {
        for storage in self.storages() {
            while self.forget_some(storage, 1024) {}
        }
        self.drop_idle_indexes();
    }

    /// Forgets all history up to `upto` at once, for tests of 410: a server forgets by age and size, in [`Table::forget_old`].
    pub fn compact(&self, upto: Revision) {
        for storage in self.storages() {
            loop {
                let popped = self.history.lock().pop_upto(storage, upto);
                let Some(due) = popped else { break };
                self.forget(due);
            }
            self.forget(Due { revision: upto.min(self.revision()), storage });
        }
    }

    fn storages(&self) -> impl Iterator<Item = StorageId> + use<> {
        (0..self.shards.len()).map(|at| StorageId(at as _))
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
    pub(crate) fn shard(&self, storage: StorageId) -> &RwLock<Shard> {
        &self.shards[storage.0 as usize].shard
    }
    pub(crate) fn watchers(&self, storage: StorageId) -> &Mutex<Watchers> {
        &self.shards[storage.0 as usize].watchers
    }

    /// Of a storage resource, and of all when they are too much together. True when `most` were forgotten and more may be due.
    fn forget_some(&self, storage: StorageId, most: usize) -> bool {
        let now = self.env.now_seconds() as u32;
        for _ in 0..most {
            let mut history = self.history.lock();
            let popped = history.pop_due(storage, now).or_else(|| history.pop_excess());
            drop(history);
            let Some(due) = popped else { return false };
            self.forget(due);
        }
        true
    }

    pub(crate) fn forget(&self, due: Due) {
        self.shard(due.storage).write().forget_upto(due.revision);
    }
}

impl State for Table {
    fn current(&self, key: &str) -> Option<Revision> {
        let (storage, _) = self.catalog.storage_of_key(key)?;
        let shard = self.shard(storage).read();
        shard.broken().changed(key).or_else(|| shard.get(key).map(|o| o.revision()))
    }

    fn reload(&self) -> Box<dyn Reload + '_> {
        Box::new(reload::TableReload::new(self))
    }

    fn unreadable(&self) -> Option<Unreadable> {
        let of_shards = self.shards.iter().filter_map(|cell| cell.shard.read().broken().all());
        of_shards.reduce(|first, other| Unreadable { count: first.count + other.count, ..first })
    }

    fn unreadable_at(&self, key: &str) -> Option<Unreadable> {
        let (storage, _) = self.catalog.storage_of_key(key)?;
        self.shard(storage).read().broken().get(key)
    }

    fn publish(&self, changes: Vec<Change>, upto: Revision) {
        // Encode outside the locks.
        let mut ready: Vec<(StorageId, Revision, Key, New)> = Vec::with_capacity(changes.len());
        for change in changes {
            let Some((storage, _)) = self.catalog.storage_of_key(&change.key) else { continue };
            let row = self.catalog.storage(storage);
            let obj = match &change.value {
                None => New::Gone,
                Some(value) => match object(row, &change.key, value, change.revision, change.expires_at) {
                    Ok(obj) => New::Object(Arc::new(obj)),
                    Err(_) => New::Broken { protobuf: is_protobuf(value) },
                },
            };
            ready.push((storage, change.revision, change.key, obj));
        }
        let mut touched: Vec<StorageId> = ready.iter().map(|(s, ..)| *s).collect();
        touched.sort_unstable();
        touched.dedup();

        let now = self.env.now_seconds() as u32;
        let mut past = Vec::with_capacity(ready.len());
        let mut concerned: Vec<Arc<Topic>> = Vec::new();
        let mut broken: Vec<StorageId> = Vec::new();
        let live: Vec<(StorageId, u64)>;
        {
            let lock = |storage: &StorageId| {
                let row = self.catalog.storage(*storage);
                let indexed = row.indexed.as_ref().and_then(|name| row.selectable_at(name));
                (self.shard(*storage).write(), self.watchers(*storage).lock(), indexed)
            };
            let mut guards: Vec<_> = touched.iter().map(lock).collect();
            for (storage, revision, key, obj) in ready {
                let at = touched.binary_search(&storage).expect("every storage of `ready` is in `touched`");
                let (shard, watchers, indexed) = &mut guards[at];
                // A deletion's event has a copy of its own.
                let copies = if matches!(obj, New::Gone) { 2 } else { 1 };
                let (new, prev) = match obj {
                    New::Object(obj) => (Some(obj.clone()), shard.put(revision, obj)),
                    New::Broken { protobuf } => {
                        shard.break_key(revision, key, protobuf);
                        broken.push(storage);
                        continue;
                    }
                    New::Gone => match shard.delete(self.catalog.storage(storage), revision, &key) {
                        Some(prev) => (None, Some(prev)),
                        None => continue,
                    },
                };
                past.push((revision, storage, prev.as_ref().map_or(0, |p| p.weight() * copies)));
                let number = shard.end() - 1;
                for state in [prev, new].into_iter().flatten() {
                    watchers.note((number, upto), &state, *indexed, &mut concerned);
                }
            }
            concerned.extend(guards.iter().map(|(_, watchers, _)| watchers.all().clone()));
            live = touched
                .iter()
                .zip(&guards)
                .map(|(storage, (shard, ..))| (*storage, shard.live_bytes()))
                .collect();
            self.revision.store(upto.0, Ordering::Release);
        }
        self.news.send_replace(upto.0);
        concerned.iter().for_each(|topic| topic.notify());
        // Whose watches may end.
        for storage in broken {
            self.watchers(storage).lock().notify_everyone();
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
        for storage in touched {
            self.forget_some(storage, most);
        }
    }
}

/// What a change leaves at its key.
enum New {
    Object(Arc<Obj>),
    /// Something that is no object.
    Broken {
        protobuf: bool,
    },
    Gone,
}

/// A stored value as readers see it, whoever wrote it.
fn object(
    storage: &Storage,
    key: &str,
    value: &[u8],
    revision: Revision,
    expires_at: Option<u64>,
) -> Result<Obj, NotAnObject> {
    let value = foreign::in_our_order(storage, value).ok_or(NotAnObject)?;
    Obj::publish(storage, key, &value, revision, expires_at)
}

/// As kube-apiserver writes unless it is told otherwise.
fn is_protobuf(value: &[u8]) -> bool {
    value.starts_with(b"k8s\0")
}
