//! delete and deletecollection: at once, gracefully, or not before the finalizers are gone.

use std::sync::Arc;

use admission::{Effects, Operation};
use catalog::Storage;
use codec::json;
use kinds::Decision;
use object::normalise::{Strict, normalise};
use object::{DeleteOptions, ListOptions, Obj, Status, Value};
use store::{Commit, CommitError, Guard, Key, Op, Revision};

use crate::{Registry, RequestContext, convert, store_failed};

/// What a deletion led to.
pub struct Deleted {
    /// The object as it last was, or as it is now while it waits for finalizers or its grace period.
    pub obj: Arc<Obj>,
    /// It is gone.
    pub removed: bool,
}

impl Registry {
    pub async fn delete(
        &self,
        request: &RequestContext<'_>,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let storage = request.storage()?;
        if let Some(why) = kinds::kind_of(storage).undeletable(request.name) {
            return Err(Status::forbidden(request.about(), request.name, why));
        }
        if kinds::kind_of(storage).converts_by_webhook() {
            // Nobody deletes in a version what cannot be read in it, as upstream.
            self.linearizable_read().await?;
            if let Some(old) = self.find(storage, &storage.key(request.namespace, request.name))? {
                self.convert_for(request.resource, &[old]).await?;
            }
        }
        self.remove(request, storage, options).await
    }

    async fn remove(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let key: Key = storage.key(request.namespace, request.name).into();
        let mut options = options.clone();
        // Marked as deleted by us: a node agent that saw the mark may remove it before we do.
        let mut going: Option<Arc<Obj>> = None;
        let mut contended = None;
        self.linearizable_read().await?;
        loop {
            let old = match (self.find(storage, &key)?, &going) {
                (None, None) => return Err(Status::not_found(request.about(), request.name)),
                (Some(old), None) => old,
                (Some(old), Some(gone)) if old.uid() == gone.uid() => old,
                (_, Some(gone)) => return Ok(Deleted { obj: gone.clone(), removed: true }),
            };
            let old_tree = convert::tree(storage, &old);
            let mut attempt =
                self.attempt(request, storage, Operation::Delete, request.name, options.dry_run);
            attempt.old = Some(&old_tree);
            let mut effects = Effects::default();
            self.admission.validate(&attempt, None, &mut effects).map_err(|refusal| refusal.status)?;

            let now = self.env().now_seconds() as i64;
            let version = old.revision().to_string();
            let kind = kinds::kind_of(storage);
            let (op, answer) = match kinds::decide(kind, storage, &old_tree, &version, &options, now)? {
                Decision::Nothing => return Ok(Deleted { obj: old, removed: false }),
                // A kind with graceful deletion is marked first even if it goes at once: watchers see both.
                Decision::Remove { marked: Some(marked) } if !options.dry_run => {
                    let value = bytes::Bytes::from(self.encode_marked(storage, marked)?);
                    if let Some(marked_at) = self.mark(request, &key, &old, value).await? {
                        // Our own mark must not fail the client's precondition on the version.
                        let named = &mut options.preconditions.resource_version;
                        *named = named.take().map(|_| marked_at.to_string());
                        going = Some(old);
                    }
                    continue;
                }
                // Nothing is removed, so the marked object is the answer.
                Decision::Remove { marked: Some(marked) } => {
                    let value = self.encode_marked(storage, marked)?;
                    return Ok(Deleted { obj: shown(storage, &old, &value, old.revision())?, removed: true });
                }
                Decision::Remove { .. } => (Op::Delete, None),
                Decision::Keep(new) => {
                    let value = self.encode_marked(storage, new)?;
                    if old.is_stored_as(&value) {
                        return Ok(Deleted { obj: old, removed: false });
                    }
                    let value = bytes::Bytes::from(value);
                    (Op::Put { value: value.clone(), expires_at: old.expires_at() }, Some(value))
                }
            };
            if options.dry_run {
                let Some(value) = answer else { return Ok(Deleted { removed: true, obj: old }) };
                return Ok(Deleted { obj: shown(storage, &old, &value, old.revision())?, removed: false });
            }
            if answer.is_none()
                && let Some(allocator) = self.admission.allocator(storage)
            {
                allocator.released(&attempt, &old_tree, &mut effects);
            }
            let mut commit = effects.join(&key, Guard::At(old.revision()), op);
            commit.removal = true;
            self.guard_by_fence(request, &mut commit)?;
            let committed = self.engine().commit(commit).await;
            if let Ok(revision) = &committed {
                self.writers.note(*revision, request.user);
            }
            match committed {
                Ok(_) if answer.is_none() => return Ok(Deleted { obj: old, removed: true }),
                Ok(revision) => {
                    let value = answer.unwrap_or_default();
                    return Ok(Deleted { obj: shown(storage, &old, &value, revision)?, removed: false });
                }
                // A side object (a service's ports) is shared with other writers: wait for them, then read again. A conflict
                // over the object itself means that somebody changed it, and the next read shows that.
                Err(CommitError::Conflict { key: lost }) => {
                    self.check_readable(&lost)?;
                    self.check_deadline(request)?;
                    if lost != key {
                        drop(contended.take());
                        contended = Some(self.contended.lock(&lost).await);
                    }
                }
                Err(error) => return Err(store_failed(error)),
            }
        }
    }

    /// Deletes everything a list selects. Objects that vanish meanwhile are no error.
    pub async fn delete_collection(
        &self,
        request: &RequestContext<'_>,
        options: &DeleteOptions,
        list: &ListOptions,
    ) -> Result<crate::List, Status> {
        let storage = request.storage()?;
        let selected = self.list(request, list).await?;
        for obj in &selected.items {
            let one = RequestContext { name: obj.name(), namespace: obj.namespace(), ..*request };
            match self.remove(&one, storage, options).await {
                Ok(_) => {}
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        Ok(selected)
    }

    /// Writes the deletion mark and returns its revision; `None` after a conflict: the caller reads again.
    async fn mark(
        &self,
        request: &RequestContext<'_>,
        key: &Key,
        old: &Obj,
        value: bytes::Bytes,
    ) -> Result<Option<Revision>, Status> {
        let guards = vec![(key.clone(), Guard::At(old.revision()))];
        let ops = vec![(key.clone(), Op::Put { value, expires_at: old.expires_at() })];
        let mut commit = Commit { guards, ops, removal: true };
        self.guard_by_fence(request, &mut commit)?;
        match self.engine().commit(commit).await {
            Ok(revision) => {
                self.writers.note(revision, request.user);
                Ok(Some(revision))
            }
            Err(CommitError::Conflict { key: lost }) => {
                self.check_readable(&lost)?;
                self.check_deadline(request).map(|()| None)
            }
            Err(error) => Err(store_failed(error)),
        }
    }

    fn encode_marked(&self, storage: &Storage, mut new: Value) -> Result<Vec<u8>, Status> {
        new.map_at(&["metadata"]).remove("resourceVersion");
        normalise(storage.schema(), storage.ty, &mut new, &mut Strict::off())
            .map_err(|e| Status::internal(format!("the object no longer fits its type: {e}")))?;
        Ok(json::to_vec(&new))
    }
}

/// The object with another value, as it is at a revision.
fn shown(storage: &Storage, old: &Obj, value: &[u8], revision: Revision) -> Result<Arc<Obj>, Status> {
    let obj = Obj::publish(storage, old.key(), value, revision, old.expires_at());
    obj.map(Arc::new).map_err(|_| Status::internal("the marked object could not be encoded"))
}
