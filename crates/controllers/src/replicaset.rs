//! ReplicaSets, and ReplicationControllers, which are the same under an older name: as many pods as wanted, no more, no less.
//!
//! ```text
//! pods ────┐ handlers: meet expectations, wake the owner (or who would adopt an orphan)
//! sets ────┴──> key ──> count pods (or claim them) ── create or delete up to 500 ── status
//! ```
//! Pods are counted as they change ([`tally`]); a set goes through them one by one only where some must be adopted, let go or chosen
//! for deletion.
//! While a creation or deletion of its own has not been seen yet, a set is not counted: it would be counted wrong.

mod manage;
mod plan;
mod rank;
mod set;
mod status;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::{PODS, REPLICA_SETS};
use client::{Client, Gvr, WriteOptions};
use futures_util::future::BoxFuture;
use object::Obj;
use runtime::{
    Action, BY_CONTROLLER, Controller, Expectations, Failure, Informer, InformerEvent, Key, Reconcile,
    ReconcileRequest, Recorder, owners,
};
use tokio::task::JoinHandle;

use crate::claim::{candidates, index_orphans, index_selectors, matches, selecting, wanted_orphans};
use crate::pods::Pod;
use crate::{Context, pod_view};
use owners::Claimant;
use plan::Change;
use status::Counted;
use tally::PodTally;

pub(crate) use plan::pod_from_template;
pub(crate) use set::{Set, TEMPLATE_HASH, strings, without_hash};
pub(crate) use status::REPLICA_FAILURE;
#[cfg(test)]
pub(crate) use status::SetStatus;

/// What the two kinds of sets differ in.
#[derive(Clone, Copy)]
pub(crate) struct SetKind {
    pub resource: &'static Gvr,
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The controller's name.
    pub name: &'static str,
    pub account: &'static str,
    /// The flag that says how many are worked on at once.
    pub concurrency: &'static str,
    /// Has `status.terminatingReplicas`.
    pub counts_terminating: bool,
}

const REPLICA_SET: SetKind = SetKind {
    resource: &REPLICA_SETS,
    api_version: "apps/v1",
    kind: "ReplicaSet",
    name: "replicaset-controller",
    account: "replicaset-controller",
    concurrency: "concurrent-replicaset-syncs",
    counts_terminating: true,
};

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    start_kind(context, REPLICA_SET)
}

pub(crate) fn start_kind(context: &Context, kind: SetKind) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(kind.account, &mut tasks);
    let (sets, pods) = (context.informers.of(kind.resource), context.informers.of(&PODS));
    index_orphans(&pods);
    index_selectors(&sets, |set| Set::of(set).selector.clone());
    pods.store().add_tally::<PodTally>(BY_CONTROLLER);
    let sync = Arc::new(Sync {
        env: context.env.clone(),
        kind,
        client,
        recorder,
        sets: sets.clone(),
        pods: pods.clone(),
        expectations: Expectations::new(&context.env),
    });
    let (of_set, of_pod) = (sync.clone(), sync.clone());
    let controller = Controller::new(&context.env, kind.name)
        .workers(context.settings.workers(kind.concurrency))
        .max_retries(None)
        .watches(&sets, move |event| of_set.set_changed(event))
        .watches(&pods, move |event| of_pod.pod_changed(event));
    tasks.extend(controller.start(&context.controllers, sync, context.stop.clone()));
    tasks
}

struct Sync {
    env: env::Env,
    kind: SetKind,
    client: Arc<dyn Client>,
    recorder: Recorder,
    sets: Arc<Informer>,
    pods: Arc<Informer>,
    expectations: Expectations,
}

impl Reconcile for Sync {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.sync(request))
    }
}

impl Sync {
    async fn sync(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        let Some(obj) = self.sets.store().get_key(request.key) else {
            self.expectations.forget(request.key);
            return Ok(Action::AwaitChange);
        };
        let set = Set::of(&obj);
        // Asked before the pods are looked at: what is seen after the answer can only be newer.
        let may_count = self.expectations.satisfied(request.key);
        if let Err(why) = &set.selector {
            tracing::warn!(set = %request.key, kind = self.kind.kind, why, "invalid selector, ignoring pods");
            return Ok(Action::AwaitChange);
        }
        let now_nanos = self.env.now_nanos() as i128;
        let now = (now_nanos / 1_000_000_000) as i64;
        let namespace = obj.namespace();
        let change = |active: i64| {
            let may_change = may_count && !obj.deleting();
            if may_change { plan::change(active as usize, set.replicas) } else { Change::Nothing }
        };
        // One look at the cache gives what is decided on and what is said of it.
        let counted = self.pods.store().tally(BY_CONTROLLER, obj.uid(), |tally: &PodTally| {
            let counted = plan::count(&set, namespace, tally, now);
            let next = plan::next_available(&set, namespace, tally, now_nanos);
            (!plan::must_release(&set, namespace, tally)).then_some((counted, next))
        });
        let is_enough = |counted: i64| {
            !matches!(change(counted), Change::Delete(_))
                && !wanted_orphans(&self.pods, &obj, &set.selector)
                    .iter()
                    .any(|pod| pod_view(pod).is_active())
        };
        let (active, counted, next) = match counted.filter(|(counted, _)| is_enough(counted.active)) {
            Some((counted, next)) => (Vec::new(), counted, next),
            None => {
                let (active, tally) = self.claim(&obj, &set).await?;
                let counted = plan::count(&set, namespace, &tally, now);
                (active, counted, plan::next_available(&set, namespace, &tally, now_nanos))
            }
        };
        let change = change(counted.active);
        request.plan(|| {
            format!("{}: {} of {} pods are active", change.describe(), counted.active, set.replicas)
        });
        let failed = self.manage(request.key, &obj, &active, change).await;

        let message = failed.as_ref().map(Failure::to_string);
        let counted =
            Counted { terminating: counted.terminating.filter(|_| self.kind.counts_terminating), ..counted };
        let status = set.status.after(counted, set.generation, message.as_deref(), set.replicas, now);
        if status != set.status {
            self.write_status(&obj, &status).await?;
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        Ok(next.map_or(Action::AwaitChange, Action::Requeue))
    }

    /// Adopts and lets go; returns the active pods of the set, and what they and those that are going count.
    async fn claim(&self, obj: &Arc<Obj>, set: &Set) -> Result<(Vec<Pod>, PodTally), Failure> {
        let candidates = candidates(&self.pods, obj, &set.selector).into_iter().map(Pod::new);
        let (active, going): (Vec<Pod>, Vec<Pod>) = candidates.partition(|pod| pod.view.is_active());
        let is_own = |pod: &&Pod| owners::controller_of(&pod.obj).is_some_and(|owner| owner.uid == obj.uid());
        let SetKind { resource, api_version, kind, .. } = self.kind;
        let claimant = Claimant { resource, api_version, kind, owner: obj, finalizer: None };
        let (active, fits) = (active.into_iter().map(|pod| pod.obj), |pod: &Obj| matches(&set.selector, pod));
        let active = owners::claim(&*self.client, &claimant, &PODS, active, fits).await?;
        let active: Vec<Pod> = active.into_iter().map(Pod::new).collect();
        let mut tally = PodTally::default();
        for pod in active.iter().chain(going.iter().filter(is_own)) {
            tally.count(&pod.obj, &pod.view, 1);
        }
        Ok((active, tally))
    }

    /// Once more with a fresh copy if somebody else wrote meanwhile.
    async fn write_status(&self, obj: &Arc<Obj>, status: &status::SetStatus) -> Result<(), Failure> {
        let mut tree = runtime::tree(obj);
        tree.make_map().set("status", status.to_value());
        let target = self.kind.resource.of(obj).sub("status");
        match self.client.update(target, tree, WriteOptions::default()).await {
            Ok(_) => return Ok(()),
            Err(refused) if refused.code != 409 => return Err(refused.into()),
            Err(_) => {}
        }
        let fresh = self.client.get(self.kind.resource.of(obj)).await?;
        if fresh.uid() != obj.uid() {
            return Ok(());
        }
        let mut tree = runtime::tree(&fresh);
        tree.make_map().set("status", status.to_value());
        self.client.update(target, tree, WriteOptions::default()).await?;
        Ok(())
    }

    fn set_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let key = Key::of(event.obj());
        if let InformerEvent::Deleted { .. } = event {
            // One of the same name starts clean.
            self.expectations.forget(&key);
        }
        vec![key]
    }

    fn pod_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        match event {
            InformerEvent::Added { obj, .. } => self.pod_added(obj),
            InformerEvent::Deleted { obj, .. } => self.pod_gone(obj),
            InformerEvent::Updated { sync: true, .. } => Vec::new(),
            // A pod that is going is as good as gone: its successor need not wait for it.
            InformerEvent::Updated { old, new, .. } if new.deleting() => {
                let mut keys = self.pod_gone(new);
                if old.owners() != new.owners() {
                    keys.extend(self.pod_gone(old));
                }
                keys
            }
            InformerEvent::Updated { old, new, .. } => {
                let mut keys = Vec::new();
                if old.owners() != new.owners() {
                    keys.extend(self.owner_of(old));
                }
                match owners::controller_of(new) {
                    Some(owner) => keys.extend(self.resolve(new.namespace(), &owner)),
                    None => {
                        let was_orphan = owners::controller_of(old).is_none();
                        keys.extend(self.wanted_by(new, was_orphan.then_some(&***old)));
                    }
                }
                keys.dedup();
                keys
            }
        }
    }

    fn pod_added(&self, pod: &Obj) -> Vec<Key> {
        // After a restart a pod may come up already going: nobody waits for its creation.
        if pod.deleting() {
            return self.pod_gone(pod);
        }
        let Some(owner) = owners::controller_of(pod) else { return self.wanted_by(pod, None) };
        let key = self.resolve(pod.namespace(), &owner);
        if let Some(key) = &key {
            self.expectations.creation_seen(key);
        }
        key.into_iter().collect()
    }

    fn pod_gone(&self, pod: &Obj) -> Vec<Key> {
        let key = self.owner_of(pod);
        if let Some(key) = &key {
            self.expectations.deletion_seen(key, &Key::of(pod));
        }
        key.into_iter().collect()
    }

    fn owner_of(&self, pod: &Obj) -> Option<Key> {
        self.resolve(pod.namespace(), &owners::controller_of(pod)?)
    }

    /// The set a reference means, if it is the very one.
    fn resolve(&self, namespace: &str, owner: &owners::Owner) -> Option<Key> {
        if owner.kind != self.kind.kind {
            return None;
        }
        let set = self.sets.store().get(namespace, &owner.name)?;
        (set.uid() == owner.uid).then(|| Key::of(&set))
    }

    /// Sets that would adopt an orphan; with what it was before, only those that would not have done so then.
    fn wanted_by(&self, orphan: &Obj, before: Option<&Obj>) -> Vec<Key> {
        let sets = selecting(&self.sets, orphan);
        let wants = |set: &&Arc<Obj>| {
            let set = Set::of(set);
            matches(&set.selector, orphan) && !before.is_some_and(|before| matches(&set.selector, before))
        };
        sets.iter().filter(wants).map(|set| Key::of(set)).collect()
    }
}
