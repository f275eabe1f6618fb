//! The history of a set: each template it had, and the hash by which pods say of which they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use client::resources::{CONTROLLER_REVISIONS, DAEMON_SETS, PODS};
use client::{Patch, WriteOptions};
use object::{Obj, Value};
use runtime::owners::{self, Claimant, Verdict};
use runtime::{Failure, Key};

use super::DaemonSets;
use super::template::HASH;
use super::view::DaemonSet;
use crate::claim::{candidates, matches};
use crate::deployment::template_hash;
use crate::history::{Revision, template_patch};

/// Where a set stands in its history.
pub struct Past {
    pub current: Revision,
    pub old: Vec<Revision>,
}

impl Past {
    /// The label of pods of the present template.
    pub fn hash(&self) -> &str {
        self.current.obj.label(HASH).unwrap_or("")
    }
}

pub fn claimant(set: &Obj) -> Claimant<'_> {
    Claimant {
        resource: &DAEMON_SETS,
        api_version: "apps/v1",
        kind: "DaemonSet",
        owner: set,
        finalizer: None,
    }
}

impl DaemonSets {
    pub(super) async fn past(&self, key: &Key, obj: &Arc<Obj>, set: &DaemonSet) -> Result<Past, Failure> {
        let revisions = candidates(self.history.informer(), obj, &set.selector);
        let decided = owners::decide(obj, revisions, |revision| matches(&set.selector, revision));
        let mut wrote = |_: Verdict, written: &Obj| self.writes.note(key, &CONTROLLER_REVISIONS, written);
        let claimed =
            owners::apply(&*self.client, &claimant(obj), &CONTROLLER_REVISIONS, decided, &mut wrote).await?;
        let (mut current, mut old) = (Vec::new(), Vec::new());
        for revision in claimed {
            let revision = Revision::new(self.labelled(key, revision).await?);
            if revision.data() == set.data { current.push(revision) } else { old.push(revision) }
        }
        let number = old.iter().map(Revision::number).max().unwrap_or(0).saturating_add(1);
        let current = match current.len() {
            0 => self.snapshot(key, obj, set, number).await?,
            _ => {
                let kept = self.deduplicate(key, obj, set, current).await?;
                if kept.number() < number {
                    let renumbered = self.history.renumber(&kept, number).await?;
                    self.writes.note(key, &CONTROLLER_REVISIONS, &renumbered.obj);
                    renumbered
                } else {
                    kept
                }
            }
        };
        Ok(Past { current, old })
    }

    /// One from before there were labels is told apart by its name.
    async fn labelled(&self, key: &Key, revision: Arc<Obj>) -> Result<Arc<Obj>, Failure> {
        if revision.label(HASH).is_some() {
            return Ok(revision);
        }
        let mut tree = runtime::tree(&revision);
        tree.map_at(&["metadata", "labels"]).set(HASH, revision.name().to_owned());
        let target = CONTROLLER_REVISIONS.of(&revision);
        let written = self.client.update(target, tree, WriteOptions::default()).await?;
        self.writes.note(key, &CONTROLLER_REVISIONS, &written);
        Ok(written)
    }

    async fn snapshot(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        set: &DaemonSet,
        number: i64,
    ) -> Result<Revision, Failure> {
        let tree = runtime::tree(obj);
        let template = tree.at(&["spec", "template"]).cloned().unwrap_or_else(Value::map);
        let hash = template_hash(&template, set.status.collisions);
        let name = format!("{}-{hash}", obj.name());
        let mut body = Value::map();
        let metadata = body.map_at(&["metadata"]);
        metadata.set("name", name.clone());
        for (field, from) in [
            ("labels", template.at(&["metadata", "labels"])),
            ("annotations", tree.at(&["metadata", "annotations"])),
        ] {
            if let Some(value) = from {
                metadata.set(field, value.clone());
            }
        }
        metadata.set("ownerReferences", vec![owners::controller_ref("apps/v1", "DaemonSet", obj)]);
        body.map_at(&["metadata", "labels"]).set(HASH, hash);
        body.make_map().set("data", template_patch(&tree));
        body.make_map().set("revision", number);
        let target = CONTROLLER_REVISIONS.within(obj.namespace());
        let refused = match self.client.create(target, body, WriteOptions::default()).await {
            Ok(created) => {
                self.writes.note(key, &CONTROLLER_REVISIONS, &created);
                return Ok(Revision::new(created));
            }
            Err(refused) if refused.reason != "AlreadyExists" => return Err(refused.into()),
            Err(refused) => refused,
        };
        let there = self.client.get(CONTROLLER_REVISIONS.at(obj.namespace(), &name)).await?;
        let there = Revision::new(there);
        if there.data() == set.data {
            return Ok(there);
        }
        // Another template of the same hash: the next one counts the collision in. Only if the count was not old.
        let fresh = self.client.get(DAEMON_SETS.of(obj)).await?;
        let mut tree = runtime::tree(&fresh);
        let count = tree.at(&["status", "collisionCount"]).and_then(Value::as_int);
        if count != set.status.collisions {
            let (expected, found) = (count.unwrap_or(0), set.status.collisions.unwrap_or(0));
            return Err(Failure::Other(format!(
                "found a stale collision count ({found}, expected {expected}) of DaemonSet {:?} while processing; \
                 will retry until it is updated",
                obj.name()
            )));
        }
        tree.map_at(&["status"]).set("collisionCount", count.unwrap_or(0) + 1);
        let target = DAEMON_SETS.of(obj).sub("status");
        let written = self.client.update(target, tree, WriteOptions::default()).await?;
        self.writes.note(key, &DAEMON_SETS, &written);
        Err(refused.into())
    }

    /// Several revisions of one template: the newest stays, and pods of the others become its.
    async fn deduplicate(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        set: &DaemonSet,
        mut same: Vec<Revision>,
    ) -> Result<Revision, Failure> {
        same.sort_by_key(Revision::number);
        let Some(kept) = same.pop() else { return Err(Failure::Other("no revision is left".to_owned())) };
        if same.is_empty() {
            return Ok(kept);
        }
        let hash = kept.obj.label(HASH);
        for pod in self.claimed(key, obj, set).await?.iter().filter(|pod| pod.obj.label(HASH) != hash) {
            let mut patch = Value::map();
            patch.map_at(&["metadata", "labels"]).set(HASH, hash.unwrap_or("").to_owned());
            let target = PODS.of(&pod.obj);
            let written = self.client.patch(target, Patch::Merge(patch), WriteOptions::default()).await?;
            self.writes.note(key, &PODS, &written);
        }
        for revision in &same {
            self.history.delete(revision).await?;
        }
        Ok(kept)
    }

    /// Old revisions no pod is of are deleted, oldest first, until the history is as short as the set wants it.
    pub(super) async fn shorten(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        set: &DaemonSet,
        mut old: Vec<Revision>,
    ) -> Result<(), Failure> {
        let surplus = old.len().saturating_sub(usize::try_from(set.history_limit).unwrap_or(0));
        if surplus == 0 {
            return Ok(());
        }
        let pods = self.claimed(key, obj, set).await?;
        let live: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.obj.label(HASH)).collect();
        old.sort_by_key(Revision::number);
        let dead =
            old.iter().filter(|revision| revision.obj.label(HASH).is_none_or(|hash| !live.contains(hash)));
        for revision in dead.take(surplus) {
            self.history.delete(revision).await?;
        }
        Ok(())
    }
}
