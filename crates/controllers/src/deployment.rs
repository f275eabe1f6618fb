//! Deployments: a ReplicaSet for every template, the newest of them as large as wanted, step by step.
//!
//! ```text
//! deployments, ReplicaSets, deleted pods ──> key ──> claim sets ── plan ── write sets in order ── status, once
//! ```

mod apply;
mod create;
mod plan;
mod revision;
mod rolling;
mod scale;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use client::resources::{DEPLOYMENTS, PODS, REPLICA_SETS};
use futures_util::future::BoxFuture;
use object::{Obj, Revision};
use parking_lot::Mutex;
use runtime::{
    Action, BY_CONTROLLER, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest,
    Recorder, Severity, owners,
};
use tokio::task::JoinHandle;

use crate::claim::{candidates, index_orphans, index_selectors, matches, selecting};
use crate::replicaset::Set;
use crate::{Context, pod_view};
use owners::Claimant;
use spec::Deployment;

pub(crate) use create::template_hash;

const NAME: &str = "deployment-controller";

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(NAME, &mut tasks);
    let deployments = context.informers.of(&DEPLOYMENTS);
    let (sets, pods) = (context.informers.of(&REPLICA_SETS), context.informers.of(&PODS));
    index_orphans(&sets);
    index_selectors(&deployments, |deployment| Deployment::of(deployment).selector.clone());
    let sync = Arc::new(Sync {
        env: context.env.clone(),
        client,
        recorder,
        deployments: deployments.clone(),
        sets: sets.clone(),
        pods: pods.clone(),
        written: Mutex::default(),
    });
    let (of_set, of_pod) = (sync.clone(), sync.clone());
    let controller = Controller::new(&context.env, NAME)
        .workers(context.settings.workers("concurrent-deployment-syncs"))
        .owns_keys_of(&deployments)
        .watches(&sets, move |event| of_set.set_changed(event))
        .watches(&pods, move |event| of_pod.pod_changed(event));
    tasks.extend(controller.start(&context.controllers, sync, context.stop.clone()));
    tasks
}

/// An informer that is further behind than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);

struct Sync {
    env: env::Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    deployments: Arc<Informer>,
    sets: Arc<Informer>,
    pods: Arc<Informer>,
    /// Guards the newest revision each Deployment's last reconcile wrote, of itself and of its sets: a reconcile on an older view would
    /// write again what is written. An entry goes when it was seen.
    written: Mutex<BTreeMap<Key, Written>>,
}

#[derive(Clone, Copy, Default)]
struct Written {
    deployment: Revision,
    sets: Revision,
}

impl Reconcile for Sync {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.sync(request))
    }
}

impl Sync {
    async fn sync(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        self.see_own_writes(request.key).await?;
        let Some(obj) = self.deployments.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
        let deployment = Deployment::of(&obj);
        if deployment.selects_all() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            self.recorder.event(&DEPLOYMENTS, &obj, Severity::Warning, "SelectingAll", message);
            let mut status = deployment.status.clone();
            status.observed_generation = deployment.generation;
            if status != deployment.status {
                self.write_status(request.key, &obj, &status, None).await?;
            }
            return Ok(Action::AwaitChange);
        }
        let mut sets = self.own_sets(&obj, &deployment).await?;
        sets.sort_by_cached_key(|set| {
            let view = Set::of(set);
            (view.created, view.name.clone())
        });
        let views: Vec<Arc<Set>> = sets.iter().map(|set| Set::of(set)).collect();
        let has_pods = |at: usize| {
            let pods = self.pods.store().by_index(BY_CONTROLLER, sets[at].uid());
            pods.iter().any(|pod| !pod_view(pod).is_terminal())
        };
        let plan = plan::plan(&deployment, &views, &has_pods, self.env.now_nanos() as i128);
        request.plan(|| apply::describe(&plan, &views));
        self.apply(request.key, &obj, &deployment, sets, plan).await
    }

    async fn see_own_writes(&self, key: &Key) -> Result<(), Failure> {
        let Some(written) = self.written.lock().get(key).copied() else { return Ok(()) };
        let seen = async {
            self.sets.reached(written.sets).await;
            self.deployments.reached(written.deployment).await;
        };
        tokio::select! {
            biased;
            () = seen => {}
            () = self.env.sleep(PATIENCE) => {
                return Err(Failure::Other("the informers have not seen this controller's own writes yet".to_owned()));
            }
        }
        self.written.lock().remove(key);
        Ok(())
    }

    fn wrote(&self, key: &Key, note: impl FnOnce(&mut Written)) {
        note(self.written.lock().entry(key.clone()).or_default());
    }

    async fn own_sets(&self, obj: &Obj, deployment: &Deployment) -> Result<Vec<Arc<Obj>>, Failure> {
        if let Err(why) = &deployment.selector {
            let (namespace, name) = (obj.namespace(), obj.name());
            let words = format!("deployment {namespace}/{name} has invalid label selector: {why}");
            return Err(Failure::Other(words));
        }
        let candidates = candidates(&self.sets, obj, &deployment.selector);
        let claimant = Claimant {
            resource: &DEPLOYMENTS,
            api_version: "apps/v1",
            kind: "Deployment",
            owner: obj,
            finalizer: None,
        };
        let fits = |set: &Obj| matches(&deployment.selector, set);
        Ok(owners::claim(&*self.client, &claimant, &REPLICA_SETS, candidates, fits).await?)
    }

    fn set_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let (old, set) = match event {
            InformerEvent::Updated { sync: true, .. } => return Vec::new(),
            InformerEvent::Updated { old, new, .. } => (Some(*old), *new),
            InformerEvent::Added { obj, .. } => (None, *obj),
            InformerEvent::Deleted { obj, .. } => return self.owner_of(obj).into_iter().collect(),
        };
        let mut keys = Vec::new();
        if let Some(old) = old
            && old.owners() != set.owners()
        {
            keys.extend(self.owner_of(old));
        }
        match owners::controller_of(set) {
            Some(owner) => keys.extend(self.resolve(set.namespace(), &owner).map(|obj| Key::of(&obj))),
            None => {
                let was_orphan = old.filter(|old| owners::controller_of(old).is_none());
                keys.extend(self.wanted_by(set, was_orphan));
            }
        }
        keys.dedup();
        keys
    }

    /// Of pods only the end of the last matters, and only to those who wait for it before they make new ones.
    fn pod_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let InformerEvent::Deleted { obj: pod, .. } = event else { return Vec::new() };
        let waits = || {
            let owner = owners::controller_of(pod).filter(|owner| owner.kind == "ReplicaSet")?;
            let set = self.sets.store().get(pod.namespace(), &owner.name)?;
            let deployment = self.resolve(set.namespace(), &owners::controller_of(&set)?)?;
            if set.uid() != owner.uid || Deployment::of(&deployment).rolling.is_some() {
                return None;
            }
            let sets = self.sets.store().by_index(BY_CONTROLLER, deployment.uid());
            let left = |set: &Arc<Obj>| !self.pods.store().by_index(BY_CONTROLLER, set.uid()).is_empty();
            (!sets.iter().any(left)).then(|| Key::of(&deployment))
        };
        waits().into_iter().collect()
    }

    fn owner_of(&self, set: &Obj) -> Option<Key> {
        self.resolve(set.namespace(), &owners::controller_of(set)?).map(|obj| Key::of(&obj))
    }

    /// The Deployment a reference means, if it is the very one.
    fn resolve(&self, namespace: &str, owner: &owners::Owner) -> Option<Arc<Obj>> {
        if owner.kind != "Deployment" {
            return None;
        }
        self.deployments.store().get(namespace, &owner.name).filter(|obj| obj.uid() == owner.uid)
    }

    /// Deployments that would adopt an orphan; with what it was before, only those that would not have done so then.
    fn wanted_by(&self, orphan: &Obj, before: Option<&Arc<Obj>>) -> Vec<Key> {
        let all = selecting(&self.deployments, orphan);
        let wants = |obj: &&Arc<Obj>| {
            let deployment = Deployment::of(obj);
            let wants = |set: &Obj| matches(&deployment.selector, set);
            !deployment.selects_all() && wants(orphan) && !before.is_some_and(|before| wants(before))
        };
        all.iter().filter(wants).map(|obj| Key::of(obj)).collect()
    }
}
