//! Something derived from all objects of a resource, kept until one of them changes.

use std::sync::Arc;

use object::{Obj, Status};
use parking_lot::Mutex;
use table::Version;

use crate::Attempt;

/// Cheap to ask on every write: one comparison while nothing changed.
pub struct Memo<T> {
    group: &'static str,
    plural: &'static str,
    /// Guards what was derived last, and from which state.
    kept: Mutex<Option<(Version, Arc<T>)>>,
}

impl<T> Memo<T> {
    pub fn of(group: &'static str, plural: &'static str) -> Memo<T> {
        Memo { group, plural, kept: Mutex::new(None) }
    }

    /// `Ok(None)`: there is no such resource. What cannot be read now is an error, and nothing is kept.
    pub fn get(
        &self,
        attempt: &Attempt<'_>,
        derive: impl FnOnce(Vec<Arc<Obj>>) -> T,
    ) -> Result<Option<Arc<T>>, Status> {
        let Some(storage) = attempt.stored(self.group, self.plural) else { return Ok(None) };
        // Before the objects are read: a change in between makes the next one derive again.
        let version = attempt.table.version(storage.id);
        if let Some((at, value)) = &*self.kept.lock()
            && *at == version
        {
            return Ok(Some(value.clone()));
        }
        let value = Arc::new(derive(attempt.all(self.group, self.plural, "")?));
        *self.kept.lock() = Some((version, value.clone()));
        Ok(Some(value))
    }
}
