//! delete and deletecollection: at once, gracefully, or not before the finalizers are gone.

use std::sync::Arc;

use admission::{Attempt, Effects, Operation, Phase};
use catalog::{Storage, Verbs};
use codec::json;
use kinds::Decision;
use object::normalise::{Strict, normalise};
use object::{DeleteOptions, ListOptions, Obj, Status, Value};
use store::{Commit, CommitError, Guard, Key, Op, Revision};

use crate::admit::Phases;
use crate::convert::webhook::{Asked, converted_storage};
use crate::write::Extended;
use crate::{Registry, RequestContext, convert, store_failed};

/// What a deletion led to.
pub struct Deleted {
    /// The object as it last was, or as it is now while it waits for finalizers or its grace period.
    pub obj: Arc<Obj>,
    /// It is gone.
    pub removed: bool,
    pub warnings: Vec<String>,
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
        self.remove(request, storage, options, Extended::Whole).await
    }

    /// The same for a client that is shown the object. As upstream: a webhook that cannot convert it now keeps it from being
    /// deleted in that version.
    pub async fn delete_shown(
        &self,
        request: &RequestContext<'_>,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let storage = request.storage()?;
        if converted_storage(request.resource).is_some() {
            self.linearizable_read().await?;
            let old = self.find(storage, &storage.key(request.namespace, request.name))?;
            let old = old.ok_or_else(|| Status::not_found(request.about(), request.name))?;
            self.convert_one(request.resource, &old, Asked::Now).await?;
        }
        let mut deleted = self.delete(request, options).await?;
        if !deleted.removed || storage.returns_deleted {
            deleted.obj = self.convert_one(request.resource, &deleted.obj, Asked::Now).await?;
        }
        Ok(deleted)
    }

    pub(crate) async fn remove(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        options: &DeleteOptions,
        extended: Extended<'_>,
    ) -> Result<Deleted, Status> {
        let mut warnings = Vec::new();
        let (obj, removed) = self.take_away(request, storage, options, extended, &mut warnings).await?;
        Ok(Deleted { obj, removed, warnings })
    }

    /// The object, and whether it is gone.
    async fn take_away(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        options: &DeleteOptions,
        extended: Extended<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(Arc<Obj>, bool), Status> {
        let key: Key = storage.key(request.namespace, request.name).into();
        let mut asked = options.clone();
        let mut options = options.clone();
        // Marked as deleted by us: a node agent that saw the mark may remove it before we do.
        let mut going: Option<Arc<Obj>> = None;
        let mut contended = None;
        self.linearizable_read().await?;
        let mark = request.mark();
        loop {
            let old = match (self.find(storage, &key)?, &going) {
                (None, None) => return Err(Status::not_found(request.about(), request.name)),
                (Some(old), None) => old,
                (Some(old), Some(gone)) if old.uid() == gone.uid() => old,
                (_, Some(gone)) => return Ok((gone.clone(), true)),
            };
            request.begin_attempt(mark);
            let old_tree = convert::tree(storage, &old);
            let version = old.revision().to_string();
            let kind = kinds::kind_of(storage);
            let decide = || {
                let now = self.env().now_seconds() as i64;
                kinds::decide(kind, storage, &old_tree, &version, &options, now)
            };
            // Nobody is asked about what fails a precondition, or is being deleted already.
            let mut decided = decide()?;
            if matches!(decided, Decision::Nothing) {
                return Ok((old, false));
            }
            let mut attempt =
                self.attempt(request, storage, Operation::Delete, request.name, options.dry_run);
            attempt.old = Some(&old_tree);
            // As upstream, which writes the period it chooses into the options that admission is shown. Of a collection each object is
            // deleted with a copy: admission sees what the client sent.
            if !request.verb.contains(Verbs::DELETE_COLLECTION) {
                let seconds = |seconds: i64| if seconds < 0 { 1 } else { seconds };
                asked.grace_period_seconds = asked.grace_period_seconds.map(seconds);
                if old_tree.at(&["metadata", "deletionTimestamp"]).is_none()
                    && let Some(chosen) = kind.grace_seconds(&old_tree, &options)
                {
                    asked.grace_period_seconds = Some(seconds(chosen));
                }
            }
            attempt.delete_options = Some(&asked);
            let mut effects = Effects::default();
            let is_shown = !matches!(extended, Extended::Not);
            let seen = as_extensions_see(&attempt);
            let phases = if is_shown { self.phases(&seen) } else { Phases::default() };
            if !phases.any() {
                for phase in [Phase::Admit, Phase::Validate].into_iter().filter(|_| is_shown) {
                    self.admission.note_unmatched(&seen, phase);
                }
                self.admission.pass_deletion(&attempt);
                let judged = self.admission.validate_built_in(&attempt, None, &mut effects);
                judged.map_err(|refusal| refusal.status)?;
            } else {
                // A webhook may take its time: nobody waits for us meanwhile.
                drop(contended.take());
                Box::pin(self.judge_deletion(&attempt, &old, &mut effects)).await?;
                // It may be asked again, after the object was marked.
                warnings.clear();
                warnings.append(&mut effects.warnings);
                // That took time, and a grace period may be over.
                decided = decide()?;
            }

            let (op, answer) = match decided {
                Decision::Nothing => return Ok((old, false)),
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
                    return Ok((shown(storage, &old, &value, old.revision())?, true));
                }
                Decision::Remove { .. } => (Op::Delete, None),
                Decision::Keep(new) => {
                    let value = self.encode_marked(storage, new)?;
                    if old.is_stored_as(&value) {
                        return Ok((old, false));
                    }
                    let value = bytes::Bytes::from(value);
                    (Op::Put { value: value.clone(), expires_at: old.expires_at() }, Some(value))
                }
            };
            if options.dry_run {
                let Some(value) = answer else { return Ok((old, true)) };
                return Ok((shown(storage, &old, &value, old.revision())?, false));
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
                Ok(revision) if answer.is_none() => {
                    return Ok((Arc::new(old.at_revision(storage, revision)), true));
                }
                Ok(revision) => {
                    let value = answer.unwrap_or_default();
                    return Ok((shown(storage, &old, &value, revision)?, false));
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

    /// A deletion that policies or webhooks are asked about.
    async fn judge_deletion(
        &self,
        attempt: &Attempt<'_>,
        old: &Arc<Obj>,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let mut attempt = as_extensions_see(attempt);
        let served;
        if kinds::kind_of(attempt.storage).converts_last() {
            // In the request's version, as admission has objects of such kinds.
            let converted = self.convert_one(attempt.resource, old, Asked::Now).await?;
            served = convert::body_in(attempt.resource, attempt.storage, &converted);
            attempt.old = Some(&served);
        }
        let judged = async {
            self.admission.mutate_deletion(&attempt, effects).await?;
            self.admission.validate(&attempt, None, effects).await
        };
        let judged = judged.await;
        judged.map_err(|refusal| refusal.status.after_warnings(std::mem::take(&mut effects.warnings)))
    }

    /// Deletes everything a list selects, and returns that list. Objects that vanish meanwhile are no error.
    pub async fn delete_collection(
        &self,
        request: &RequestContext<'_>,
        options: &DeleteOptions,
        list: &ListOptions,
    ) -> Result<(crate::List, Vec<String>), Status> {
        let selected = self.list(request, list).await?;
        let warnings = self.delete_listed(request, options, &selected).await?;
        Ok((selected, warnings))
    }

    /// The same for those who need no list: nothing is converted to be shown.
    pub async fn delete_unseen(
        &self,
        request: &RequestContext<'_>,
        options: &DeleteOptions,
        list: &ListOptions,
    ) -> Result<(), Status> {
        let selected = self.list_to_delete(request, list).await?;
        self.delete_listed(request, options, &selected).await.map(|_| ())
    }

    async fn delete_listed(
        &self,
        request: &RequestContext<'_>,
        options: &DeleteOptions,
        selected: &crate::List,
    ) -> Result<Vec<String>, Status> {
        let storage = request.storage()?;
        let mut warnings = Vec::new();
        for obj in &selected.items {
            // What a webhook is asked about is one of many: the work goes on after its answer.
            let (name, namespace) = (obj.name(), obj.namespace());
            let one = RequestContext { name, namespace, seats: None, ..*request };
            match self.remove(&one, storage, options, Extended::Whole).await {
                Ok(mut deleted) => warnings.append(&mut deleted.warnings),
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status.after_warnings(warnings)),
            }
        }
        Ok(warnings)
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

/// For policies and webhooks: of a whole collection nobody is named.
fn as_extensions_see<'a>(attempt: &Attempt<'a>) -> Attempt<'a> {
    let is_collection = attempt.verb.contains(Verbs::DELETE_COLLECTION);
    Attempt { name: if is_collection { "" } else { attempt.name }, ..*attempt }
}

/// The object with another value, as it is at a revision.
fn shown(storage: &Storage, old: &Obj, value: &[u8], revision: Revision) -> Result<Arc<Obj>, Status> {
    let obj = Obj::publish(storage, old.key(), value, revision, old.expires_at());
    obj.map(Arc::new).map_err(|_| Status::internal("the marked object could not be encoded"))
}
