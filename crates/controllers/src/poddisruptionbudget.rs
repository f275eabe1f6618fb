//! PodDisruptionBudget: keeps the status that evictions are decided by.
//!
//! ```text
//! budgets, pods that match ──> queue ── sync: pods that changed, all pods' controllers' scales ── plan ── status
//! pods said to be disrupted, two minutes later ──> stale: the condition turns to False
//! ```

mod members;
mod plan;
mod scale;
mod stale;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::resources::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS,
};
use client::{Client, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::Obj;
use object::selector::LabelSelector;
use parking_lot::Mutex;
use runtime::{
    Action, Cause, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::changed::{Changed, Parts};
use crate::claim::{index_labels, index_selectors, selected, selecting};
use members::{Members, Seen};
use plan::{Budget, Requirement};

struct Budgets {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    budgets: Arc<Informer>,
    pods: Arc<Informer>,
    scales: scale::Scales,
    /// Pods of each budget that changed since it was last looked at.
    changed: Changed,
    /// Guards what was counted for each budget; taken for a few instructions.
    counted: Mutex<BTreeMap<Key, Counted>>,
}

/// The pods of a budget as they were last seen.
struct Counted {
    uid: String,
    selector: LabelSelector,
    pods: Members,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let client = context.clients.controller("disruption-controller");
    // Its events, unlike those of all other controllers, do not bear its name.
    let (recorder, task) =
        Recorder::start(&context.env, client.clone(), "controllermanager", context.stop.clone());
    tasks.push(task);
    let of = |resource| context.informers.of(resource);
    let (budgets, pods) = (of(&POD_DISRUPTION_BUDGETS), of(&PODS));
    let owners = [&REPLICATION_CONTROLLERS, &REPLICA_SETS, &DEPLOYMENTS, &STATEFUL_SETS].map(of);
    // One worker, as upstream: budgets are few, and each reconcile is short.
    let mut main = Controller::new(&context.env, "disruption").workers(1).max_retries(None);
    for informer in &owners {
        main = main.reads(informer);
    }
    let stale = Controller::new(&context.env, "disruption-stale-pods").workers(1).max_retries(None);
    let main = main.owns_keys_of(&budgets).reads(&pods);
    let stale = stale.reads(&pods);
    let [replication_controllers, replica_sets, deployments, stateful_sets] = owners;
    let scales = scale::Scales {
        client: client.clone(),
        replication_controllers,
        replica_sets,
        deployments,
        stateful_sets,
    };
    index_selectors(&budgets, |budget| Ok(budget_view(budget).selector.clone()));
    index_labels(&pods);
    let state = Arc::new(Budgets {
        env: context.env.clone(),
        client: client.clone(),
        recorder,
        budgets,
        pods: pods.clone(),
        scales,
        changed: Changed::default(),
        counted: Mutex::default(),
    });
    let for_budgets = state.clone();
    state.budgets.add_resyncing_handler(Box::new(move |event| {
        if matches!(event, InformerEvent::Updated { sync: true, .. }) {
            for_budgets.changed.forget(&Key::of(event.obj()));
        }
    }));
    let (for_pods, queue, stale_queue) = (state.clone(), main.queue(), stale.queue());
    let env = context.env.clone();
    pods.add_resyncing_handler(Box::new(move |event| {
        let pod = event.obj();
        if let InformerEvent::Updated { old, new, sync: false } = event
            && !old.labels().eq(new.labels())
        {
            for budget in for_pods.matching(old) {
                for_pods.changed.note(&Key::of(&budget), old.name());
            }
        }
        for budget in for_pods.budgets_of(pod) {
            for_pods.changed.note(&budget, pod.name());
            queue.add(budget, runtime::queue::NORMAL, Some(Cause::new(&PODS, pod, "changed")));
        }
        if !matches!(event, InformerEvent::Deleted { .. })
            && let Some(wait) = stale::clean_in(pod, env.now_seconds() as i64)
        {
            stale_queue.add_after(Key::of(pod), Duration::from_secs(wait), None);
        }
    }));
    tasks.extend(main.start(&context.controllers, state, context.stop.clone()));
    let cleaner = Arc::new(stale::Cleaner { env: context.env.clone(), client, pods });
    tasks.extend(stale.start(&context.controllers, cleaner, context.stop.clone()));
    tasks
}

impl Reconcile for Budgets {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(obj) = self.budgets.store().get_key(request.key) else {
                self.changed.forget(request.key);
                self.counted.lock().remove(request.key);
                return Ok(Action::AwaitChange);
            };
            let now = self.env.now_seconds() as i64;
            match self.sync(&obj, now, &request).await {
                Ok(next) => Ok(next),
                Err(Failure::Api(status)) if status.code == 409 => Err(status.into()),
                // At least no eviction is allowed by numbers that are wrong.
                Err(failure) => {
                    let mut tree = runtime::tree(&obj);
                    plan::fail_safe(&mut tree, &failure.to_string(), now);
                    self.client
                        .update(POD_DISRUPTION_BUDGETS.of(&obj).sub("status"), tree, WriteOptions::default())
                        .await?;
                    Ok(Action::AwaitChange)
                }
            }
        })
    }
}

impl Budgets {
    /// Budgets whose selector fits the pod.
    fn matching(&self, pod: &Obj) -> Vec<Arc<Obj>> {
        let mut all = selecting(&self.budgets, pod);
        all.retain(|budget| budget_view(budget).selects(pod));
        all
    }

    /// Those to look at when a pod changes.
    fn budgets_of(&self, pod: &Obj) -> Vec<Key> {
        let all = self.matching(pod);
        if let [first, _, ..] = &all[..] {
            let (namespace, name) = (pod.namespace(), pod.name());
            let message = format!(
                "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
                first.name()
            );
            self.recorder.event(&PODS, pod, Severity::Warning, "MultiplePodDisruptionBudgets", message);
        }
        // Differs from kube-controller-manager: all of them are looked at, not one of them.
        all.iter().map(|budget| Key::of(budget)).collect()
    }

    async fn sync(
        &self,
        obj: &Arc<Obj>,
        now: i64,
        request: &ReconcileRequest<'_>,
    ) -> Result<Action, Failure> {
        let budget = budget_view(obj);
        let pods = self.members(request.key, obj, &budget);
        let result = self.sync_with(obj, &budget, &pods, now, request).await;
        let counted = Counted { uid: obj.uid().to_owned(), selector: budget.selector.clone(), pods };
        self.counted.lock().insert(request.key.clone(), counted);
        result
    }

    /// The budget's pods: those it had, with what changed of them, or all looked up anew.
    fn members(&self, key: &Key, obj: &Obj, budget: &Budget) -> Members {
        let (changed, counted) = (self.changed.take(key), self.counted.lock().remove(key));
        let same = |counted: &Counted| counted.uid == obj.uid() && counted.selector == budget.selector;
        match (changed, counted.filter(same)) {
            (Parts::Only(names), Some(Counted { mut pods, .. })) => {
                for name in names {
                    let pod = self.pods.store().get(obj.namespace(), &name);
                    pods.set(&name, pod.filter(|pod| budget.selects(pod)).map(|pod| Seen::of(&pod)));
                }
                pods
            }
            _ => {
                let mut pods = Members::default();
                for pod in selected(&self.pods, obj.namespace(), &budget.selector) {
                    pods.set(pod.name(), Some(Seen::of(&pod)));
                }
                pods
            }
        }
    }

    async fn sync_with(
        &self,
        obj: &Arc<Obj>,
        budget: &Budget,
        pods: &Members,
        now: i64,
        request: &ReconcileRequest<'_>,
    ) -> Result<Action, Failure> {
        let tell = |severity, reason: &str, message: String| {
            self.recorder.event(&POD_DISRUPTION_BUDGETS, obj, severity, reason, message);
        };
        if pods.len() == 0 {
            tell(Severity::Normal, "NoPods", "No matching pods found".to_owned());
        }
        let mut scale = None;
        if budget.wanted.needs_scale() {
            match self.scales.of(obj.namespace(), pods).await {
                Ok(found) => scale = Some(found),
                Err(failure) => {
                    let message = format!("Failed to calculate the number of expected pods: {failure}");
                    tell(Severity::Warning, "CalculateExpectedPodCountFailed", message);
                    return Err(failure);
                }
            }
        }
        if scale.as_ref().is_some_and(|scale| scale.unmanaged > 0) {
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the \
                 status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
                 for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.",
                budget.selector_text
            );
            tell(Severity::Warning, "UnmanagedPods", message);
        }
        let expected = scale.map_or(pods.len() as i64, |scale| scale.expected);
        let plan = budget.plan(pods, expected, now);
        request.plan(|| format!("{plan:?}"));
        for name in &plan.not_deleted {
            if let Some(pod) = self.pods.store().get(obj.namespace(), name) {
                // Differs from kube-controller-manager: the budget's name, where that says its namespace twice.
                let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", obj.path());
                self.recorder.event(&PODS, &pod, Severity::Warning, "NotDeleted", message);
            }
        }
        if !budget.is_told(&plan) {
            let mut tree = runtime::tree(obj);
            budget.tell(&plan, &mut tree, now);
            self.client
                .update(POD_DISRUPTION_BUDGETS.of(obj).sub("status"), tree, WriteOptions::default())
                .await?;
        }
        Ok(plan.recheck_in.map_or(Action::AwaitChange, |wait| Action::Requeue(Duration::from_secs(wait))))
    }
}

fn budget_view(obj: &Obj) -> Arc<Budget> {
    obj.view(|obj| Budget::read(&runtime::tree(obj)))
}

impl Requirement {
    /// Is it a part of what controllers want, rather than a number?
    fn needs_scale(&self) -> bool {
        !matches!(self, Requirement::Available(plan::Amount::Count(_)) | Requirement::Nothing)
    }
}
