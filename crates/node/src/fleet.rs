//! The agents of a process behind one view of the pods and one of the nodes: every change goes to the agent it concerns.
//!
//! ```text
//! pods informer  ── spec.nodeName is ours ──> queue of pods  ── workers ──> Agent::pod_turn
//! nodes informer ── the name is ours ───────> queue of nodes ── workers ──> Agent::node_turn
//! files, and what shows their pods ─────────> queue of static pods ──────> Agent::sync_static, also without any informer
//!                                   ^── and the times agents asked for: one heap for each queue, no task per pod
//! ```
//! Five thousand nodes have two watches. A real node has the same with views of its own pods and its own object only.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use client::resources::PODS;
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Value};
use runtime::queue::{LOW, NORMAL};
use runtime::{
    Action, Controller, ControllerRegistry, Failure, Informer, InformerEvent, Key, Reconcile,
    ReconcileRequest, Stop, WorkQueue,
};
use tokio::task::JoinHandle;

use crate::agent::{Again, Agent};

/// So many writes about pods are under way at once: a disk takes many together, and a slow one holds up few.
const POD_WORKERS: usize = 64;
const NODE_WORKERS: usize = 32;
const STATIC_WORKERS: usize = 8;
/// After a call that failed in a way that may pass.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(10);

struct Fleet {
    env: Env,
    agents: Vec<Agent>,
    /// Looked up by name only.
    by_name: HashMap<Box<str>, usize>,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    /// The position of `spec.nodeName` ([`Obj::field`]).
    node_field: usize,
    pod_queue: Arc<WorkQueue<Key>>,
    static_queue: Arc<WorkQueue<Key>>,
    node_queue: Arc<WorkQueue<Key>>,
}

/// Keeps the agents going until stopped.
pub fn start(
    env: &Env,
    agents: Vec<Agent>,
    pods: &Arc<Informer>,
    nodes: &Arc<Informer>,
    catalog: &catalog::Catalog,
    controllers: &Arc<ControllerRegistry>,
    stop: Stop,
) -> Vec<JoinHandle<()>> {
    let pods_controller = Controller::new(env, "node-pods").workers(POD_WORKERS).max_retries(None);
    let nodes_controller = Controller::new(env, "node-status").workers(NODE_WORKERS).max_retries(None);
    // Reads no informer before it begins: these pods run without an API.
    let static_controller =
        Controller::new(env, "node-static-pods").workers(STATIC_WORKERS).max_retries(None);
    let node_field = PODS.field(catalog, "spec.nodeName").expect("pods are selected by it");
    let by_name = agents.iter().enumerate().map(|(at, agent)| (agent.name().into(), at)).collect();
    let fleet = Arc::new(Fleet {
        env: env.clone(),
        agents,
        by_name,
        pods: pods.clone(),
        nodes: nodes.clone(),
        node_field,
        pod_queue: pods_controller.queue(),
        static_queue: static_controller.queue(),
        node_queue: nodes_controller.queue(),
    });
    for agent in &fleet.agents {
        let of_agent = Arc::downgrade(&fleet);
        let name: Box<str> = agent.name().into();
        agent.wake_by(Arc::new(move |key| {
            if let Some(fleet) = of_agent.upgrade()
                && let Some(agent) = fleet.agent(&name)
            {
                if key.namespace().is_empty() {
                    // Its own: pods have a namespace.
                    agent.node_awake();
                    fleet.node_queue.add(key.clone(), NORMAL, None);
                    return;
                }
                agent.awake(key);
                fleet.enqueue(agent, key);
            }
        }));
        nodes_controller.queue().add(Key::new("", agent.name()), LOW, None);
        if let Some(static_pods) = agent.static_pods() {
            let queue = fleet.static_queue.clone();
            static_pods.wake_by(Arc::new(move |key| queue.add(key.clone(), NORMAL, None)));
            static_pods.keys().into_iter().for_each(|key| fleet.static_queue.add(key, NORMAL, None));
        }
    }
    let (of_pods, of_nodes) = (fleet.clone(), fleet.clone());
    let pods_controller = pods_controller.watches(pods, move |event| of_pods.pod_changed(event));
    let nodes_controller =
        nodes_controller.watches(nodes, move |event| of_nodes.node_changed(event)).reads(pods);
    let mut tasks = nodes_controller.start(controllers, Arc::new(Nodes(fleet.clone())), stop.clone());
    if fleet.agents.iter().any(|agent| agent.static_pods().is_some()) {
        let reconcile = Arc::new(StaticPods(fleet.clone()));
        tasks.extend(static_controller.start(controllers, reconcile, stop.clone()));
    }
    tasks.extend(pods_controller.start(controllers, Arc::new(Pods(fleet)), stop));
    tasks
}

impl Fleet {
    fn agent_of(&self, pod: &Obj) -> Option<&Agent> {
        self.agent(pod.field(self.node_field))
    }
    fn agent(&self, name: &str) -> Option<&Agent> {
        self.by_name.get(name).map(|at| &self.agents[*at])
    }

    /// The pod, if it is on one of our nodes. What is gone is forgotten here, where it is still known which node had it.
    fn pod_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let obj = event.obj();
        let Some(agent) = self.agent_of(obj) else { return Vec::new() };
        let key = Key::of(obj);
        if let InformerEvent::Deleted { .. } = event {
            agent.forget(obj);
            if agent.is_static(&key) {
                self.static_queue.add(key, NORMAL, None);
            }
            return Vec::new();
        }
        if agent.is_static(&key) || agent.is_mirror(obj) {
            self.static_queue.add(key, NORMAL, None);
            return Vec::new();
        }
        if agent.takes(&key) { vec![key] } else { Vec::new() }
    }

    fn node_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let obj = event.obj();
        self.agent(obj.name()).map(|_| Key::of(obj)).into_iter().collect()
    }

    /// To whoever looks after the pod.
    fn enqueue(&self, agent: &Agent, key: &Key) {
        let queue = if agent.is_static(key) { &self.static_queue } else { &self.pod_queue };
        queue.add(key.clone(), NORMAL, None);
    }

    fn next(&self, again: Again) -> Action {
        match again {
            Again::OnChange => Action::AwaitChange,
            Again::Soon => Action::Requeue(PAUSE),
            Again::Later => Action::Requeue(LONG_PAUSE),
            Again::At(at) => {
                // To the millisecond above, so that the time has come when the reconcile does.
                let now = self.env.now_nanos();
                let at = u128::try_from(at).unwrap_or(0).saturating_mul(1_000_000);
                let wait = u64::try_from(at.saturating_sub(now)).unwrap_or(u64::MAX);
                Action::Requeue(Duration::from_nanos(wait.min(MOST_NANOS)).max(Duration::from_millis(1)))
            }
        }
    }
}

/// Longer waits are looked at in between; the queue's clock cannot hold them all.
const MOST_NANOS: u64 = 30 * 24 * 3600 * 1_000_000_000;

struct Pods(Arc<Fleet>);
struct Nodes(Arc<Fleet>);
struct StaticPods(Arc<Fleet>);

impl Reconcile for Pods {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let fleet = &*self.0;
            let Some(pod) = fleet.pods.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let Some(agent) = fleet.agent_of(&pod) else { return Ok(Action::AwaitChange) };
            if agent.is_static(request.key) || agent.is_mirror(&pod) {
                fleet.static_queue.add(request.key.clone(), NORMAL, None);
                return Ok(Action::AwaitChange);
            }
            let node = || -> Option<Value> {
                fleet.nodes.store().get("", agent.name()).map(|node| runtime::tree(&node))
            };
            let again = agent.sync_pod(&request, &pod, &node).await;
            // Gone while we looked: what the reconcile made of the old object must not stay.
            if fleet.pods.store().get_key(request.key).is_none_or(|now| now.uid() != pod.uid()) {
                agent.forget(&pod);
            }
            Ok(fleet.next(again))
        })
    }
}

impl Reconcile for StaticPods {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let fleet = &*self.0;
            let shown = fleet.pods.store().get_key(request.key);
            let owner = fleet.agents.iter().find(|agent| agent.is_static(request.key));
            let Some(agent) = owner.or_else(|| fleet.agent_of(shown.as_ref()?)) else {
                return Ok(Action::AwaitChange);
            };
            let node = || -> Option<Value> {
                fleet.nodes.store().get("", agent.name()).map(|node| runtime::tree(&node))
            };
            Ok(fleet.next(agent.sync_static(&request, shown.as_ref(), &node).await))
        })
    }
}

impl Reconcile for Nodes {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let fleet = &*self.0;
            let Some(agent) = fleet.agent(request.key.name()) else { return Ok(Action::AwaitChange) };
            let node = fleet.nodes.store().get("", agent.name());
            let (again, awake) =
                agent.sync_node(&request, node.as_deref(), &|key| fleet.pods.store().get_key(key)).await;
            for key in awake {
                fleet.enqueue(agent, &key);
            }
            Ok(fleet.next(again))
        })
    }
}
