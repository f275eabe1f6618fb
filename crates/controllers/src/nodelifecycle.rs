//! Watches over nodes: taints that say what their conditions say, and nodes that became unreachable.
//!
//! ```text
//! node changed ──> conditions    NoSchedule taints, labels of old           (8 workers)
//! pod bound ─────> not_ready     Ready=False on a node that is not          (4 workers)
//! every 5 s ─────> look          no heartbeat: conditions Unknown; zones    (1 worker)
//!                  give up       NoExecute taints, 0.1 a second and zone
//! ```
//! Who must leave a tainted node is taint eviction's affair.

mod health;
mod monitor;
pub mod node;
mod plan;
mod write;
mod zones;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::{LEASES, NODES, PODS};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Scope,
};
use tokio::task::JoinHandle;

use self::health::Grace;
use self::monitor::{Monitor, State, look};
use self::node::NodeFacts;
use self::plan::Mend;
use self::write::Writer;
use self::zones::{Rates, Zones};
use crate::{Context, PodFields, pod_view};

pub const NAME: &str = "node-lifecycle-controller";
/// Who it acts as.
pub const IDENTITY: &str = "node-controller";
/// The index of pods by the node they are bound to.
pub const BY_NODE: &str = "node";
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// `--node-monitor-*` and `--node-eviction-rate`, by the flags' names.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeLifecycle {
    pub monitor_period: Duration,
    pub monitor_grace_period: Duration,
    pub startup_grace_period: Duration,
    pub eviction_rate: f64,
    pub secondary_eviction_rate: f64,
    pub unhealthy_zone_threshold: f64,
    pub large_cluster_size_threshold: usize,
}

impl Default for NodeLifecycle {
    fn default() -> NodeLifecycle {
        let Rates { usual, secondary, large, unhealthy } = Rates::default();
        NodeLifecycle {
            monitor_period: Duration::from_secs(5),
            monitor_grace_period: Duration::from_secs(50),
            startup_grace_period: Duration::from_secs(60),
            eviction_rate: usual,
            secondary_eviction_rate: secondary,
            unhealthy_zone_threshold: unhealthy,
            large_cluster_size_threshold: large,
        }
    }
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(IDENTITY, &mut tasks);
    let env = &context.env;
    let writer = Writer { env: env.clone(), client, recorder };
    let (nodes, pods) = (context.informers.of(&NODES), pods_by_node(context));
    let leases =
        context.informers.scoped(Scope { namespace: LEASE_NAMESPACE.to_owned(), ..Scope::all(&LEASES) });

    let conditions = Conditions { writer: writer.clone(), nodes: nodes.clone() };
    let controller = Controller::new(env, NAME).workers(8).max_retries(None).owns_keys_of(&nodes);
    tasks.extend(controller.start(&context.controllers, Arc::new(conditions), context.stop.clone()));

    let fields = PodFields::of(context);
    let not_ready = NotReady { writer: writer.clone(), nodes: nodes.clone(), pods: pods.clone() };
    let controller = Controller::new(env, "node-lifecycle-controller-pods")
        .workers(4)
        .reads(&nodes)
        .watches(&pods, move |event| newly_bound(fields, event));
    tasks.extend(controller.start(&context.controllers, Arc::new(not_ready), context.stop.clone()));

    let controller = Controller::new(env, "node-lifecycle-controller-health")
        .workers(1)
        .max_retries(None)
        .reads(&nodes)
        .reads(&pods)
        .reads(&leases);
    let queue = controller.queue();
    queue.add(look(), runtime::queue::NORMAL, None);
    let settings = &context.settings.node_lifecycle;
    let rates = Rates {
        usual: settings.eviction_rate,
        secondary: settings.secondary_eviction_rate,
        large: settings.large_cluster_size_threshold,
        unhealthy: settings.unhealthy_zone_threshold,
    };
    let grace = Grace {
        startup_ms: settings.startup_grace_period.as_millis() as i64,
        ms: settings.monitor_grace_period.as_millis() as i64,
    };
    let state = Mutex::new(State::new(Zones::new(rates)));
    let (began, period) = (env.monotonic(), settings.monitor_period);
    let monitor = Monitor { writer, nodes, leases, pods, queue, began, period, grace, state };
    tasks.extend(controller.start(&context.controllers, Arc::new(monitor), context.stop.clone()));
    tasks
}

/// The informer of pods, with the index by node.
pub fn pods_by_node(context: &Context) -> Arc<Informer> {
    let pods = context.informers.of(&PODS);
    let fields = PodFields::of(context);
    pods.store().add_index(BY_NODE, move |pod| match fields.node(pod) {
        "" => Vec::new(),
        node => vec![node.to_owned()],
    });
    pods
}

/// Only pods that say anything about readiness: a pod fresh from the scheduler does not.
fn newly_bound(fields: PodFields, event: &InformerEvent<'_>) -> Vec<Key> {
    let node = fields.node(event.obj());
    let bound = match event {
        InformerEvent::Added { .. } => !node.is_empty(),
        InformerEvent::Updated { old, .. } => !node.is_empty() && node != fields.node(old),
        InformerEvent::Deleted { .. } => false,
    };
    let asked = bound && plan::has_ready_condition(&pod_view(event.obj()));
    if asked { vec![Key::of(event.obj())] } else { Vec::new() }
}

/// Taints a node as its conditions say, so that nobody is scheduled to it.
struct Conditions {
    writer: Writer,
    nodes: Arc<Informer>,
}

impl Reconcile for Conditions {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(node) = self.nodes.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let mend = plan::mend(&NodeFacts::of(&node), &|name| node.label(name));
            request.plan(|| mend.describe());
            let Mend { add, remove, labels } = mend;
            if !add.is_empty() || !remove.is_empty() {
                gone_is_fine(self.writer.swap_taints(&node, &add, &remove).await.map(|_| ()))?;
            }
            if !labels.is_empty() {
                match self.writer.set_labels(&node, labels).await {
                    // The taints' own write brings the node round again.
                    Err(status) if status.code == 409 => {}
                    result => gone_is_fine(result)?,
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}

/// A pod bound to a node that is not ready cannot be ready itself.
struct NotReady {
    writer: Writer,
    nodes: Arc<Informer>,
    pods: Arc<Informer>,
}

impl Reconcile for NotReady {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(pod) = self.pods.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let Some(node) = self.nodes.store().get("", &pod_view(&pod).node) else {
                return Ok(Action::AwaitChange);
            };
            if plan::cannot_be_ready(&NodeFacts::of(&node)) {
                request.plan(|| "mark it as not ready: its node is not".to_owned());
                self.writer.mark_not_ready(&[pod]).await?;
            } else {
                request.plan(|| "nothing: its node is ready, or said nothing yet".to_owned());
            }
            Ok(Action::AwaitChange)
        })
    }
}

fn gone_is_fine(result: Result<(), object::Status>) -> Result<(), Failure> {
    match result {
        Err(status) if status.code != 404 => Err(status.into()),
        _ => Ok(()),
    }
}
