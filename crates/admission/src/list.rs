//! Everything that is selected as it stands now, or an error: a read that failed is never taken for an empty one.

use catalog::StorageId;
use object::Status;
use table::{Page, ReadError, Selection, Table};

/// A long list is read in stretches at one revision. It fails when the table is loaded anew between two of them, or the
/// history passes that revision; the next try reads at a newer one. Losing this often in a row is no bad luck any more.
const TRIES: usize = 8;

/// All of a selection, for those who take what is not there for free: it fails also while something cannot be read.
pub fn list_readable(table: &Table, storage: StorageId, selection: &Selection) -> Result<Page, Status> {
    let page = list_newest(table, storage, selection)?;
    match &page.unreadable {
        None => Ok(page),
        Some(unreadable) => Err(Status::internal(unreadable.to_string())),
    }
}

/// The newest state of a selection, with the last that could be read of each object.
pub fn list_newest(table: &Table, storage: StorageId, selection: &Selection) -> Result<Page, Status> {
    again(|| table.list(storage, selection, None, None, 0)).map_err(|_| {
        let catalog = table.catalog();
        let row = catalog.storages().iter().find(|row| row.id == storage);
        let plural = row.map_or("objects", |row| &row.plural);
        Status::unavailable(format!("{plural} could not be read: the state is being loaded anew; try again"))
    })
}

fn again<T>(mut read: impl FnMut() -> Result<T, ReadError>) -> Result<T, ReadError> {
    let mut outcome = read();
    for _ in 1..TRIES {
        if outcome.is_ok() {
            break;
        }
        outcome = read();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use catalog::Catalog;
    use env::Env;
    use store::{Entry, Revision, State};
    use table::Scope;

    use super::*;

    fn expired() -> ReadError {
        ReadError::Expired { floor: Revision(7) }
    }

    #[test]
    fn a_read_that_lost_its_history_is_retried() {
        let mut failures = vec![expired(), expired()];
        let read = again(|| failures.pop().map_or(Ok("all"), Err));
        assert_eq!(read, Ok("all"));
    }

    #[test]
    fn a_read_that_never_succeeds_is_an_error_and_not_empty() {
        let mut tries = 0;
        let read: Result<Vec<u8>, _> = again(|| {
            tries += 1;
            Err(expired())
        });
        assert_eq!((read, tries), (Err(expired()), TRIES));
    }

    /// More than a stretch of services, in a table that another thread loads anew all the time.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the table is to change between two stretches of one read")]
    fn a_table_that_is_loaded_anew_never_looks_empty() {
        const SERVICES: usize = 4200;
        let catalog = Arc::new(Catalog::builtin());
        let table = Table::new(catalog.clone(), Env::machine());
        let storage = catalog.find_storage("", "services").unwrap();
        let entry = |at: usize| {
            let name = format!("s{at:05}");
            let value = format!(
                r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}","namespace":"d"}}}}"#
            );
            let key = storage.key("d", &name).into();
            Entry { key, value: Bytes::from(value), revision: Revision(1), expires_at: None }
        };
        let entries: Vec<Entry> = (0..SERVICES).map(entry).collect();
        table.reset(Revision(1), entries.clone());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for revision in 2.. {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    table.reset(Revision(revision), entries.clone());
                }
            });
            let everything = Selection::everything(Scope::All);
            let read = || list_readable(&table, storage.id, &everything).map(|page| page.items.len());
            let found: Vec<usize> = (0..300).filter_map(|_| read().ok()).collect();
            // Before the assertions: the other thread must end either way.
            stop.store(true, Ordering::Release);
            assert!(!found.is_empty(), "every read failed");
            assert_eq!(found.iter().find(|read| **read != SERVICES), None);
        });
    }
}
