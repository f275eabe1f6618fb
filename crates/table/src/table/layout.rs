//! Where the objects of each definition are: catalogue and shards as one value that is swapped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use catalog::{Catalog, Storage, StorageId};
use parking_lot::{Mutex, RwLock};

use crate::shard::Shard;
use crate::watchers::Watchers;

/// A catalogue and a cell for each of its storages.
pub(crate) struct Layout {
    pub catalog: Arc<Catalog>,
    /// By the number of the storage; numbers of definitions that are gone have none.
    pub cells: Vec<Option<Arc<Cell>>>,
}

impl Layout {
    pub fn new(catalog: Arc<Catalog>) -> Layout {
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

    pub fn of_key(&self, key: &str) -> Option<&Arc<Cell>> {
        self.cell(self.catalog.storage_of_key(key)?.id)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Cell>> {
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
    pub indexed: Option<usize>,
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
