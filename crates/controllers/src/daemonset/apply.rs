//! A reconcile on a set: history, pods node by node, rollout, status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::resources::{DAEMON_SETS, PODS};
use client::{DeleteOptions, WriteOptions};
use object::{Obj, Status, Value};
use runtime::owners::{self, Verdict};
use runtime::{Action, Failure, Key, ReconcileRequest, Severity, batch};

use super::handlers::{node_part, pod_part};
use super::plan::Changes;
use super::pods::Pod;
use super::revisions::claimant;
use super::status::Counted;
use super::view::{DaemonSet, daemon_set_view};
use super::world::World;
use super::{Basis, DaemonSets, Known, template};
use crate::changed::Parts;
use crate::claim::{candidates, matches};

/// So many pods at most are made, and as many deleted, in one reconcile.
const BURST: usize = 250;
/// So many deletions are under way at once.
const DELETIONS_AT_ONCE: usize = 100;

impl DaemonSets {
    pub(super) async fn sync(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        let key = request.key;
        self.writes.seen(key).await?;
        let Some(obj) = self.sets.store().get_key(key) else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        let set = daemon_set_view(&obj);
        if set.selects_all {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.tell(&obj, Severity::Warning, "SelectingAll", message.to_owned());
            return Ok(Action::AwaitChange);
        }
        // Whether its history still exists while it is being deleted nobody can tell.
        if obj.deleting() {
            return Ok(Action::AwaitChange);
        }
        if let Err(why) = &set.selector {
            return Err(Failure::Other(format!("couldn't convert DaemonSet selector: {why}")));
        }
        let past = self.past(key, &obj, &set).await?;
        // Asked before the pods are looked at: what is seen after the answer can only be newer.
        let may_count = self.expectations.satisfied(key);
        let Known { basis, mut world } = self.known(key, &obj, &set, past.hash()).await?;
        let now = (self.env.now_nanos() / 1_000_000_000) as i64;
        let counted = world.count(&set, past.hash(), now);
        let (mut wait, mut failed) = (None, None);
        if may_count {
            let mut changes = self.remember(key, |memory| {
                world.manage(&set, past.hash(), now, &mut memory.backoff, self.env.monotonic())
            });
            wait = changes.wait;
            if changes.is_empty() {
                let rollout = world.roll(&set, past.hash(), now);
                (changes.create, changes.delete) = (rollout.create, rollout.delete);
            }
            request.plan(|| describe(&changes, counted));
            self.remember(key, |memory| memory.known = Some(Known { basis, world }));
            failed = self.act(key, &obj, &set, past.hash(), changes).await;
            if failed.is_none() {
                failed = self.shorten(key, &obj, &set, past.old.clone()).await.err();
            }
        } else {
            self.remember(key, |memory| memory.known = Some(Known { basis, world }));
        }
        let written = self.write_status(key, &obj, &set, counted, may_count).await;
        if let Some(failure) = failed {
            return Err(failure);
        }
        written?;
        if set.min_ready_seconds > 0 && counted.ready != counted.available {
            let ready = Duration::from_secs(set.min_ready_seconds.unsigned_abs());
            wait = Some(wait.map_or(ready, |wait: Duration| wait.min(ready)));
        }
        Ok(wait.map_or(Action::AwaitChange, Action::Requeue))
    }

    /// The set's nodes and pods: as they were, with what changed of them, or all looked up anew.
    async fn known(&self, key: &Key, obj: &Arc<Obj>, set: &DaemonSet, hash: &str) -> Result<Known, Failure> {
        let basis = Basis {
            uid: obj.uid().to_owned(),
            generation: set.generation,
            template_generation: set.template_generation,
            hash: hash.to_owned(),
        };
        // Taken before anything is read: what changes meanwhile is for the next time.
        let changed = self.changed.take(key);
        let known = self.remember(key, |memory| memory.known.take());
        if let (Parts::Only(parts), Some(known)) = (changed, known.filter(|known| known.basis == basis))
            && let Some(world) = self.update(known.world, &parts, obj, set)
        {
            return Ok(Known { basis, world });
        }
        let mut world = World::default();
        for pod in self.claimed(key, obj, set).await? {
            let obj = pod.obj.clone();
            world.set_pod(obj.name(), Some(pod));
        }
        for node in self.nodes.store().list() {
            world.set_node(node.name(), Some(set.placement.fit(&node)));
        }
        Ok(Known { basis, world })
    }

    /// `None`: a pod is to be adopted or let go, which is decided with all of them.
    fn update(
        &self,
        mut world: World,
        parts: &BTreeSet<String>,
        obj: &Obj,
        set: &DaemonSet,
    ) -> Option<World> {
        let mut nodes: BTreeSet<String> =
            parts.iter().filter_map(|part| node_part(part)).map(str::to_owned).collect();
        for name in parts.iter().filter_map(|part| pod_part(part)) {
            let pod = self.pods.store().get(obj.namespace(), name);
            let owner = pod.as_deref().and_then(owners::controller_of);
            let fits = pod.as_deref().is_some_and(|pod| matches(&set.selector, pod));
            let pod = match owner {
                Some(owner) if owner.uid == obj.uid() && !fits => return None,
                None if fits => return None,
                Some(owner) if owner.uid == obj.uid() => pod.map(Pod::new),
                _ => None,
            };
            world.set_pod(name, pod);
            nodes.extend(world.place_of(name).cloned());
        }
        for name in nodes {
            let node = self.nodes.store().get("", &name);
            world.set_node(&name, node.map(|node| set.placement.fit(&node)));
        }
        Some(world)
    }

    /// The set's pods, after adoption and release.
    pub(super) async fn claimed(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        set: &DaemonSet,
    ) -> Result<Vec<Pod>, Failure> {
        let pods = candidates(&self.pods, obj, &set.selector);
        let decided = owners::decide(obj, pods, |pod| matches(&set.selector, pod));
        let mut wrote = |_: Verdict, pod: &Obj| self.writes.note(key, &PODS, pod);
        let claimed = owners::apply(&*self.client, &claimant(obj), &PODS, decided, &mut wrote).await?;
        Ok(claimed.into_iter().map(Pod::new).collect())
    }

    /// Expectations first, then the calls, then what did not come to pass is no longer expected. The first failure.
    async fn act(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        set: &DaemonSet,
        hash: &str,
        mut changes: Changes,
    ) -> Option<Failure> {
        for told in changes.events.drain(..) {
            self.tell(obj, told.severity, told.reason, told.message);
        }
        changes.create.truncate(BURST);
        changes.delete.truncate(BURST);
        if changes.is_empty() {
            return None;
        }
        self.expectations.expect_creations(key, changes.create.len());
        self.expectations.expect_deletions(key, changes.delete.iter().map(|pod| Key::of(pod)));
        let created = self.create(key, obj, &template::pod(obj, set, hash), &changes.create).await;
        let deleted = self.delete(key, obj, &changes.delete).await;
        created.or(deleted)
    }

    async fn create(&self, key: &Key, obj: &Arc<Obj>, pod: &Value, nodes: &[String]) -> Option<Failure> {
        let (well, failed) = batch::slow_start(nodes.len(), &|at| {
            Box::pin(async move {
                let body = template::pod_for(pod, &nodes[at]);
                match self.client.create(PODS.within(obj.namespace()), body, WriteOptions::default()).await {
                    Ok(created) => {
                        self.writes.note(key, &PODS, &created);
                        let message = format!("Created pod: {}", created.name());
                        self.tell(obj, Severity::Normal, "SuccessfulCreate", message);
                        Ok(())
                    }
                    // Nobody needs it there, and none can come.
                    Err(refused) if crate::namespace_is_going(&refused) => Err(None),
                    Err(refused) => {
                        let message = format!("Error creating: {}", refused.message);
                        self.tell(obj, Severity::Warning, "FailedCreate", message);
                        Err(Some(Box::new(refused)))
                    }
                }
            })
        })
        .await;
        for _ in well..nodes.len() {
            self.expectations.creation_seen(key);
        }
        failed.flatten().map(|refused: Box<Status>| Failure::Api(*refused))
    }

    async fn delete(&self, key: &Key, obj: &Arc<Obj>, pods: &[Arc<Obj>]) -> Option<Failure> {
        batch::all(pods.len(), DELETIONS_AT_ONCE, &|at| {
            Box::pin(async move {
                let pod = &pods[at];
                let Err(refused) = self.client.delete(PODS.of(pod), DeleteOptions::exactly(pod)).await else {
                    let message = format!("Deleted pod: {}", pod.name());
                    self.tell(obj, Severity::Normal, "SuccessfulDelete", message);
                    return Ok(());
                };
                // Its deletion will not be seen.
                self.expectations.deletion_seen(key, &Key::of(pod));
                if refused.code == 404 {
                    return Ok(());
                }
                let message = format!("Error deleting: {}", refused.message);
                self.tell(obj, Severity::Warning, "FailedDelete", message);
                Err(Failure::Other(format!("unable to delete pods: {}", refused.message)))
            })
        })
        .await
    }

    /// Once more with a fresh copy if somebody else wrote meanwhile.
    async fn write_status(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        set: &DaemonSet,
        counted: Counted,
        observed: bool,
    ) -> Result<(), Failure> {
        if set.status.counted == counted && set.status.observed_generation >= set.generation {
            return Ok(());
        }
        if set.status.counted == counted && !observed {
            return Ok(());
        }
        let generation = observed.then_some(set.generation);
        let mut tree = runtime::tree(obj);
        counted.write(&mut tree, generation);
        let target = DAEMON_SETS.of(obj).sub("status");
        let written = match self.client.update(target, tree, WriteOptions::default()).await {
            Err(refused) if refused.code == 409 => {
                let fresh = self.client.get(DAEMON_SETS.of(obj)).await?;
                if fresh.uid() != obj.uid() {
                    return Ok(());
                }
                let mut tree = runtime::tree(&fresh);
                counted.write(&mut tree, generation);
                self.client.update(target, tree, WriteOptions::default()).await?
            }
            other => other?,
        };
        self.writes.note(key, &DAEMON_SETS, &written);
        Ok(())
    }

    fn tell(&self, obj: &Obj, severity: Severity, reason: &str, message: String) {
        self.recorder.event(&DAEMON_SETS, obj, severity, reason, message);
    }
}

fn describe(changes: &Changes, counted: Counted) -> String {
    let (create, delete) = (changes.create.len(), changes.delete.len());
    format!("create {create}, delete {delete}; {} nodes want a pod", counted.desired)
}
