//! Definitions that come and go while the table is in use.

use std::sync::Arc;

use catalog::{DefineError, ResourceDef};

use crate::Table;
use crate::shard::Shard;
use crate::table::{Cell, Layout};

impl Table {
    /// Makes a resource known, or gives one that is known another definition; the definition with its ids comes back. What is
    /// stored under its keys are its objects from now on. Watches that an earlier definition served end.
    pub fn define(&self, def: ResourceDef) -> Result<ResourceDef, DefineError> {
        // Between a key's guard and its change nobody may move it elsewhere.
        let _alone = self.defining.write();
        let before = self.layout();
        let (catalog, def) = before.catalog.define(def)?;
        let mut after = Layout { catalog: Arc::new(catalog), cells: before.cells.clone() };
        let old = def.storage.as_ref().and_then(|storage| {
            let old = before.catalog.find_storage(&storage.group, &storage.plural)?;
            before.cell(old.id).cloned()
        });
        if let Some(storage) = &def.storage {
            let mut shard = Shard::new(storage);
            match &old {
                // The same fields stand in the same places: the objects stay as they are.
                Some(old)
                    if old.storage.prefix == storage.prefix
                        && old.storage.selectable == storage.selectable =>
                {
                    shard.take_over(&old.shard.read());
                }
                Some(old) => self.unclaimed.lock().release(&old.shard.read()),
                None => {}
            }
            self.unclaimed.lock().claim(storage, &mut shard);
            // Nobody can have watched it before.
            shard.forget_upto(self.revision());
            let mut history = self.history.lock();
            history.renew(storage.id);
            history.set_live(storage.id, shard.live_bytes());
            drop(history);
            after.add(Arc::new(Cell::new(storage.clone(), shard)));
        }
        if let Some(old) = &old {
            after.remove(old.storage.id);
        }
        self.layout.store(Arc::new(after));
        if let Some(old) = old {
            self.retire(&old);
        }
        Ok(def)
    }

    /// Shows that a definition is being deleted, to requests that begin from now on. Its watches go on: they are to see its
    /// objects go.
    pub fn mark_terminating(&self, group: &str, plural: &str) {
        let _alone = self.defining.write();
        let before = self.layout();
        if let Some(catalog) = before.catalog.mark_terminating(group, plural) {
            let after = Layout { catalog: Arc::new(catalog), cells: before.cells.clone() };
            self.layout.store(Arc::new(after));
        }
    }

    /// Forgets a definition; `None` when there was none of that name. What is stored under its keys stays there, unclaimed.
    pub fn undefine(&self, group: &str, plural: &str) -> Option<ResourceDef> {
        let _alone = self.defining.write();
        let before = self.layout();
        let (catalog, def) = before.catalog.undefine(group, plural)?;
        let mut after = Layout { catalog: Arc::new(catalog), cells: before.cells.clone() };
        let cell = def.storage.as_ref().and_then(|storage| before.cell(storage.id).cloned());
        if let Some(cell) = &cell {
            self.unclaimed.lock().release(&cell.shard.read());
            after.remove(cell.storage.id);
        }
        self.layout.store(Arc::new(after));
        if let Some(cell) = cell {
            self.retire(&cell);
        }
        Some(def)
    }

    /// Ends the watches of a cell that is no longer in the layout.
    fn retire(&self, cell: &Cell) {
        self.history.lock().renew(cell.storage.id);
        cell.retire();
    }
}
