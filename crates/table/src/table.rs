//! The table itself: shards, the revision, reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use catalog::{Catalog, Storage, StorageId};
use env::Env;
use object::{NotAnObject, Obj};
use parking_lot::{Mutex, RwLock};
use store::{Change, Key, Reload, Revision, State, Unreadable};
use tokio::sync::watch;

use crate::history::{Bounds, Due, History};
use crate::shard::{Found, Shard};
use crate::unclaimed::{Stored, Unclaimed};
use crate::watchers::{Topic, Watchers};
use crate::{Cursor, Scope, Selection, foreign};

mod reload;

/// How many keys a read visits before it lets the writer in.
const STRETCH: usize = 4096;
/// A selection that looked at fewer objects than this is quick enough without an index.
const MANY: usize = 1024;
/// An index helps who takes at most one of so many objects.
const WORTH: usize = 8;

/// Every object of a cluster. See the crate document.
pub struct Table {
    env: Env,
    /// What is defined, and where its objects are: swapped as one.
    pub(crate) layout: ArcSwap<Layout>,
    /// Taken for writing while a definition comes or goes, for reading while guards are checked and commits published: a key
    /// does not change its home in between. Before every other lock.
    pub(crate) defining: RwLock<()>,
    /// Guards the keys that no definition claims.
    pub(crate) unclaimed: Mutex<Unclaimed>,
    /// The last complete revision. Raised while the locks of all shards it touches are held.
    revision: AtomicU64,
    /// Grows with every reset; cursors of an older epoch end.
    epoch: AtomicU64,
    /// Guards the order in which history is forgotten; no shard lock is waited for while it is held.
    pub(crate) history: Mutex<History>,
    /// There may be indexes made on demand.
    indexed: AtomicBool,
    /// Tells those who wait for a revision that has not come yet.
    news: watch::Sender<u64>,
    /// Tells those who derive something from the catalogue that there is another one.
    pub(crate) generation: watch::Sender<u64>,
}

/// A catalogue and a cell for each of its storages.
pub(crate) struct Layout {
    pub catalog: Arc<Catalog>,
    /// By the number of the storage; numbers of definitions that are gone have none.
    pub cells: Vec<Option<Arc<Cell>>>,
}

impl Layout {
    fn new(catalog: Arc<Catalog>) -> Layout {
        let mut layout = Layout { catalog, cells: Vec::new() };
        for storage in layout.catalog.clone().storages() {
            layout.add(Arc::new(Cell::new(storage.clone(), Shard::new(storage))));
        }
        layout
    }

    pub fn cell(&self, storage: StorageId) -> Option<&Arc<Cell>> {
        self.cells.get(storage.0 as usize)?.as_ref()
    }

    pub fn add(&mut self, cell: Arc<Cell>) {
        let at = cell.storage.id.0 as usize;
        if self.cells.len() <= at {
            self.cells.resize(at + 1, None);
        }
        self.cells[at] = Some(cell);
    }

    pub fn remove(&mut self, storage: StorageId) {
        if let Some(cell) = self.cells.get_mut(storage.0 as usize) {
            *cell = None;
        }
    }

    fn of_key(&self, key: &str) -> Option<&Arc<Cell>> {
        self.cell(self.catalog.storage_of_key(key)?.id)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Cell>> {
        self.cells.iter().flatten()
    }
}

/// The objects of one storage resource.
pub(crate) struct Cell {
    pub storage: Arc<Storage>,
    /// Guards versions and log.
    pub shard: RwLock<Shard>,
    /// Guards who watches it; never taken before `shard`.
    pub watchers: Mutex<Watchers>,
    /// The position of the selectable field that is always indexed.
    indexed: Option<usize>,
    /// Its definition is gone, or there is another one.
    retired: AtomicBool,
}

impl Cell {
    pub fn new(storage: Arc<Storage>, shard: Shard) -> Cell {
        let indexed = storage.indexed.as_ref().and_then(|name| storage.selectable_at(name));
        let (shard, retired) = (RwLock::new(shard), AtomicBool::new(false));
        Cell { storage, shard, watchers: Mutex::default(), indexed, retired }
    }

    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.watchers.lock().notify_everyone();
    }

    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
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
    /// The resource is not defined any more, or has another definition by now.
    Undefined,
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
        let layout = Layout::new(catalog);
        let mut history = History::new(bounds);
        layout.all().for_each(|cell| history.renew(cell.storage.id));
        Arc::new(Table {
            env,
            generation: watch::Sender::new(layout.catalog.generation()),
            layout: ArcSwap::from_pointee(layout),
            defining: RwLock::new(()),
            unclaimed: Mutex::default(),
            revision: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            history: Mutex::new(history),
            indexed: AtomicBool::new(false),
            news: watch::Sender::new(0),
        })
    }

    /// What is defined now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.layout.load().catalog.clone()
    }

    /// Changes with every definition that comes or goes, to its [`Catalog::generation`].
    pub fn catalog_changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// How many keys no definition claims.
    pub fn unclaimed(&self) -> usize {
        self.unclaimed.lock().len()
    }

    /// The last complete revision.
    pub fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// Reads and watches of a storage resource below this are 410.
    pub fn floor(&self, storage: StorageId) -> Revision {
        self.cell(storage).map_or(self.revision(), |cell| cell.shard.read().floor())
    }

    /// How many objects a storage resource holds.
    pub fn count(&self, storage: StorageId) -> usize {
        self.size(storage).0
    }

    /// How many objects a storage resource holds, and the bytes of their bodies.
    pub fn size(&self, storage: StorageId) -> (usize, u64) {
        let Some(cell) = self.cell(storage) else { return (0, 0) };
        let shard = cell.shard.read();
        (shard.live(), shard.live_bytes())
    }

    /// Changes whenever anything of a storage resource does: what was derived from it can be kept until then.
    pub fn version(&self, storage: StorageId) -> Version {
        let changed = self.cell(storage).map_or(Revision(0), |cell| cell.shard.read().changed());
        Version { epoch: self.epoch(), changed }
    }

    /// The newest object of a key that could be read; whoever serves it to others wants [`Table::read`].
    pub fn get(&self, storage: StorageId, key: &str) -> Option<Arc<Obj>> {
        self.layout().cell(storage)?.shard.read().get(key).cloned()
    }

    /// The newest object of a key; `Err` when there is something newer that is no object.
    pub fn read(&self, storage: StorageId, key: &str) -> Result<Option<Arc<Obj>>, Unreadable> {
        let layout = self.layout();
        let Some(cell) = layout.cell(storage) else { return Ok(None) };
        let shard = cell.shard.read();
        match shard.unreadable_keys().get(key) {
            Some(unreadable) => Err(unreadable),
            None => Ok(shard.get(key).cloned()),
        }
    }

    /// Whether a definition that was looked up a moment ago is the current one still.
    pub fn is_defined(&self, storage: StorageId) -> bool {
        self.layout().cell(storage).is_some()
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
        let cell = self.cell(storage).ok_or(ReadError::Undefined)?;
        let row = &*cell.storage;
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut items: Vec<Arc<Obj>> = Vec::new();
        let mut after: Option<Key> = behind.map(|behind| Key::from(behind.key));
        // How many there are in all; told by the page before, or counted where it is the newest state that is read.
        let mut total = behind.and_then(|behind| behind.left);
        let mut at = at;
        let mut visited_before = 0;
        let mut unreadable = None;
        loop {
            let shard = cell.shard.read();
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
                    self.index_if_worth_it(&cell, selection, visited_before + here, items.len());
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
    fn index_if_worth_it(&self, cell: &Cell, selection: &Selection, visited: usize, found: usize) {
        if visited < MANY || found * WORTH > visited {
            return;
        }
        let (row, now) = (&*cell.storage, self.env.now_seconds() as u32);
        let Some(field) = cell.shard.read().narrowest(row, selection, MANY / WORTH) else { return };
        // A stretch at a time, with the writer in between.
        while cell.shard.write().build_index(row, field, now) {}
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
        let layout = self.layout();
        for cell in layout.all().filter(|cell| cell.shard.read().indexes_made() > 0) {
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
        self.layout().all().map(|cell| cell.shard.read().indexes_made()).sum()
    }

    /// A cursor right after `from`, which may lie in the future.
    pub fn watch_from(
        self: &Arc<Table>,
        storage: StorageId,
        selection: Selection,
        from: Revision,
    ) -> Result<Cursor, ReadError> {
        let cell = self.cell(storage).ok_or(ReadError::Undefined)?;
        let shard = cell.shard.read();
        if from < shard.floor() {
            return Err(ReadError::Expired { floor: shard.floor() });
        }
        Ok(Cursor::new(self.clone(), cell.clone(), selection, from, &shard))
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

    fn storages(&self) -> Vec<StorageId> {
        self.layout().all().map(|cell| cell.storage.id).collect()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
    /// For one look: whoever keeps it keeps shards that may be gone by then.
    pub(crate) fn layout(&self) -> arc_swap::Guard<Arc<Layout>> {
        self.layout.load()
    }
    pub(crate) fn cell(&self, storage: StorageId) -> Option<Arc<Cell>> {
        self.layout().cell(storage).cloned()
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
        if let Some(cell) = self.layout().cell(due.storage) {
            cell.shard.write().forget_upto(due.revision);
        }
    }
}

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
        Box::new(reload::TableReload::new(self))
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

/// A stored value as readers see it, whoever wrote it.
pub(crate) fn object(
    storage: &Storage,
    key: &str,
    value: &[u8],
    revision: Revision,
    expires_at: Option<u64>,
) -> Result<Obj, NotAnObject> {
    let value = foreign::in_our_order(storage, value).ok_or(NotAnObject)?;
    Obj::publish(storage, key, &value, revision, expires_at)
}

/// What kube-apiserver's values begin with unless it is told otherwise.
pub(crate) const PROTOBUF: &[u8] = b"k8s\0";

pub(crate) fn is_protobuf(value: &[u8]) -> bool {
    value.starts_with(PROTOBUF)
}
