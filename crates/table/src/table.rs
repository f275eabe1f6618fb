//! The table itself: shards, the revision, reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use catalog::{Catalog, Storage, StorageId};
use env::Env;
use object::{NotAnObject, Obj};
use parking_lot::{Mutex, RwLock};
use store::{Revision, Unreadable};
use tokio::sync::watch;

use crate::history::{Bounds, Due, History};
use crate::unclaimed::Unclaimed;
use crate::{Cursor, Selection, foreign};

mod layout;
mod list;
mod publish;
mod reload;

pub(crate) use layout::{Cell, Layout};

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
pub struct PageStart<'a> {
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
