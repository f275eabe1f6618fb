//! Which revision a set is at, and which one it is on its way to.

use client::WriteOptions;
use client::resources::{CONTROLLER_REVISIONS, STATEFUL_SETS};
use object::{Obj, Status};
use runtime::owners::{self, Claimant};
use runtime::{Failure, Key, retry};

use super::Sync;
use super::set::StatefulSet;
use super::status::SetStatus;
use crate::history::{Change, Draft, Revision, change, template_patch};
use crate::namespace_is_going;

/// Where a set stands in its history.
pub(super) struct Standing {
    pub current: Revision,
    pub update: Revision,
    pub collisions: i64,
}

/// A set and a revision that mean the same though their bytes differ.
#[derive(PartialEq, Eq)]
pub(super) struct Same {
    uid: String,
    generation: i64,
    revision: object::Revision,
}

impl Sync {
    /// The set's revisions, sorted; what was nobody's is now its own.
    pub(super) async fn adopted_revisions(
        &self,
        key: &Key,
        claimant: &Claimant<'_>,
        set: &StatefulSet,
    ) -> Result<Vec<Revision>, Status> {
        let revisions = self.history.list(claimant.owner, &set.selector);
        if !claimant.owner.deleting() {
            let mut wrote = |revision: &Obj| self.writes.note(key, &CONTROLLER_REVISIONS, revision);
            self.history.adopt_orphans(claimant, &revisions, &mut wrote).await?;
        }
        Ok(revisions)
    }

    /// Writes the history on if need be. `None`: the set, or its namespace, is going.
    pub(super) async fn revisions_of(
        &self,
        key: &Key,
        obj: &Obj,
        set: &StatefulSet,
        revisions: &[Revision],
    ) -> Result<Option<Standing>, Failure> {
        let mut collisions = set.status.collisions.unwrap_or(0);
        let change = change(revisions, &set.data, |newest| self.is_same(key, obj, set, newest));
        let update = match change {
            Change::Keep { at } => revisions[at].clone(),
            // Differs from kube-controller-manager: there, a set that is going goes on writing revisions, for the garbage collector.
            _ if obj.deleting() => match revisions.last() {
                Some(newest) => newest.clone(),
                None => return Ok(None),
            },
            Change::Renumber { at, number } => self.history.renumber(&revisions[at], number).await?,
            Change::Create { number } => match self.create_revision(obj, number, &mut collisions).await {
                Err(refused) if namespace_is_going(&refused) => return Ok(None),
                created => created?,
            },
        };
        self.writes.note(key, &CONTROLLER_REVISIONS, &update.obj);
        let current = revisions.iter().find(|revision| revision.name() == set.status.current_revision);
        let current = current.unwrap_or(&update).clone();
        Ok(Some(Standing { current, update, collisions }))
    }

    async fn create_revision(
        &self,
        obj: &Obj,
        number: i64,
        collisions: &mut i64,
    ) -> Result<Revision, Status> {
        let tree = runtime::tree(obj);
        let draft = Draft {
            controller: owners::controller_ref("apps/v1", "StatefulSet", obj),
            labels: tree.at(&["spec", "template", "metadata", "labels"]),
            annotations: tree.at(&["metadata", "annotations"]),
            data: template_patch(&tree),
            number,
        };
        self.history.create(obj, draft, collisions).await
    }

    /// Compared once for each generation and version of the revision: it is dear, and asked in every reconcile of such a set.
    fn is_same(&self, key: &Key, obj: &Obj, set: &StatefulSet, newest: &Revision) -> bool {
        let generation = set.generation;
        let same = Same { uid: obj.uid().to_owned(), generation, revision: newest.obj.revision() };
        if self.same.lock().get(key) == Some(&same) {
            return true;
        }
        let is_same = self.restorer.means_the_same(&runtime::tree(obj), &set.data, newest.data());
        if is_same {
            self.same.lock().insert(key.clone(), same);
        }
        is_same
    }

    /// With a fresh copy if somebody else wrote meanwhile.
    pub(super) async fn write_status(&self, key: &Key, obj: &Obj, status: &SetStatus) -> Result<(), Status> {
        match self.put_status(key, obj, status).await {
            Err(refused) if retry::is_conflict(&refused) => {}
            other => return other,
        }
        retry::on_conflict(&self.env, retry::FEW_WRITERS, || async {
            let fresh = self.client.get(STATEFUL_SETS.of(obj)).await?;
            if fresh.uid() != obj.uid() {
                return Ok(());
            }
            self.put_status(key, &fresh, status).await
        })
        .await
    }

    async fn put_status(&self, key: &Key, obj: &Obj, status: &SetStatus) -> Result<(), Status> {
        let mut tree = runtime::tree(obj);
        tree.make_map().set("status", status.to_value());
        let target = STATEFUL_SETS.of(obj).sub("status");
        let written = self.client.update(target, tree, WriteOptions::default()).await?;
        self.writes.note(key, &STATEFUL_SETS, &written);
        Ok(())
    }
}
