//! Objects the server stores for itself and serves to nobody (the bitmap of node ports): no resource, so no verbs, but the same
//! guarded commit.

use catalog::Storage;
use object::{Obj, Status};
use store::{Commit, CommitError, Guard, Key, Op};

use crate::{Registry, store_failed};

/// How often a write may lose to others before it is reported as an error.
const ATTEMPTS: usize = 32;

impl Registry {
    /// Writes what `make` makes of the current object, again after each conflict. `make` must depend on nothing that changes
    /// without the object changing too; if it fails, nothing is written.
    pub async fn write_internal(
        &self,
        storage: &Storage,
        name: &str,
        make: impl Fn(Option<&Obj>) -> Result<Vec<u8>, Status>,
    ) -> Result<(), Status> {
        let key: Key = storage.key("", name).into();
        for _ in 0..ATTEMPTS {
            self.linearizable_read().await?;
            let old = self.find(storage, &key)?;
            let value = make(old.as_deref())?;
            let guard = match &old {
                Some(old) if old.is_stored_as(&value) => return Ok(()),
                Some(old) => Guard::At(old.revision()),
                None => Guard::Absent,
            };
            let put = Op::Put { value: value.into(), expires_at: None };
            let commit =
                Commit { guards: vec![(key.clone(), guard)], ops: vec![(key.clone(), put)], removal: false };
            match self.engine().commit(commit).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(store_failed(error)),
            }
        }
        Err(Status::internal(format!("{key} cannot be written: other writers are faster")))
    }
}
