//! PodDisruptionBudget: keeps the status that evictions are decided by.
//!
//! ```text
//! budgets, pods that match ──> queue ── sync: pods, their controllers' scales ── plan ── status
//! pods said to be disrupted, two minutes later ──> stale: the condition turns to False
//! ```

mod plan;
mod scale;
mod stale;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS,
};
use client::{Client, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::Obj;
use runtime::{
    Action, Cause, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Recorder,
    Severity,
};
use tokio::task::JoinHandle;

use crate::claim::{index_selectors, selecting};
use crate::{Context, pod_view};
use plan::{Budget, Requirement};

struct Budgets {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    budgets: Arc<Informer>,
    pods: Arc<Informer>,
    scales: scale::Scales,
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
    let state = Arc::new(Budgets {
        env: context.env.clone(),
        client: client.clone(),
        recorder,
        budgets,
        pods: pods.clone(),
        scales,
    });
    let (for_pods, queue, stale_queue) = (state.clone(), main.queue(), stale.queue());
    let env = context.env.clone();
    pods.add_resyncing_handler(Box::new(move |event| {
        let pod = event.obj();
        for budget in for_pods.budgets_of(pod) {
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
            let Some(obj) = self.budgets.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
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
    fn budgets_of(&self, pod: &Obj) -> Vec<Key> {
        let mut all = selecting(&self.budgets, pod);
        all.retain(|budget| budget_view(budget).selects(pod));
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
        let tell = |severity, reason: &str, message: String| {
            self.recorder.event(&POD_DISRUPTION_BUDGETS, obj, severity, reason, message);
        };
        let mut pods = self.pods.store().list_namespace(obj.namespace());
        pods.retain(|pod| budget.selects(pod));
        if pods.is_empty() {
            tell(Severity::Normal, "NoPods", "No matching pods found".to_owned());
        }
        let mut scale = None;
        if budget.wanted.needs_scale() {
            match self.scales.of(&pods).await {
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
        let seen: Vec<plan::Seen<'_>> = pods
            .iter()
            .map(|pod| plan::Seen { name: pod.name(), deleting: pod.deleting(), ready: pod_view(pod).ready })
            .collect();
        let expected = scale.map_or(pods.len() as i64, |scale| scale.expected);
        let plan = budget.plan(&seen, expected, now);
        request.plan(|| format!("{plan:?}"));
        for name in &plan.not_deleted {
            if let Some(pod) = pods.iter().find(|pod| pod.name() == name) {
                // Differs from kube-controller-manager: the budget's name, where that says its namespace twice.
                let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", obj.path());
                self.recorder.event(&PODS, pod, Severity::Warning, "NotDeleted", message);
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
