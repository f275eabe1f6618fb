//! The scheduler's task: takes in what changed, decides, and has the decisions carried out.
//!
//! ```text
//! informers ── Inbox ──> Engine ── next() ──> Bind ──> pods/binding ── refused ──> Engine::bind_failed
//!                          ^                  Failed ─> pods/status, victims deleted
//!                          └── the informer confirms what was assumed
//! ```
//! Deciding is synchronous and on one task, so each decision sees all those before it. Carrying out is not waited for:
//! up to [`MAX_IN_FLIGHT`] calls are under way, and no more is decided while they all are.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use client::resources::{
    CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES, DEVICE_CLASSES, NAMESPACES, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, RESOURCE_CLAIMS, RESOURCE_SLICES, SERVICES, STATEFUL_SETS, STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
};
use client::{Client, Gvr};
use env::Env;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use runtime::{Informer, Informers, SeriesRecorder, Stop, tree};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::api_calls::{ApiCalls, is_bound};
use crate::config::Config;
use crate::debugger::Debugger;
use crate::engine::{AfterClaims, Engine, Failure, ScheduleResult, Unreserved, WrittenClaims};
use crate::inbox::{Change, Inbox, Watched};
use crate::metrics::Metrics;
use crate::pod::{OwnerKind, Pod};
use crate::queue::Queued;

/// Calls under way at once; what a server's group commit can use.
const MAX_IN_FLIGHT: usize = 128;
/// Decisions before others on this thread get a turn.
const BATCH: usize = 32;

/// Changes taken in before others do.
const TAKE_IN: usize = 256;

/// Who the scheduler is to the API server.
pub const USER: &str = "system:kube-scheduler";

/// A scheduler that runs until it is stopped.
pub struct Scheduler {
    pub metrics: Arc<Metrics>,
    pub debugger: Arc<Debugger>,
    pub tasks: Vec<JoinHandle<()>>,
}

/// In the order in which their first states are applied: pods last, they refer to the others.
static WATCHED: [(Watched, &Gvr); 18] = [
    (Watched::Namespaces, &NAMESPACES),
    (Watched::Services, &SERVICES),
    (Watched::ReplicationControllers, &REPLICATION_CONTROLLERS),
    (Watched::ReplicaSets, &REPLICA_SETS),
    (Watched::StatefulSets, &STATEFUL_SETS),
    (Watched::PodDisruptionBudgets, &POD_DISRUPTION_BUDGETS),
    (Watched::StorageClasses, &STORAGE_CLASSES),
    (Watched::CsiDrivers, &CSI_DRIVERS),
    (Watched::CsiStorageCapacities, &CSI_STORAGE_CAPACITIES),
    (Watched::PersistentVolumes, &PERSISTENT_VOLUMES),
    (Watched::PersistentVolumeClaims, &PERSISTENT_VOLUME_CLAIMS),
    (Watched::CsiNodes, &CSI_NODES),
    (Watched::VolumeAttachments, &VOLUME_ATTACHMENTS),
    (Watched::DeviceClasses, &DEVICE_CLASSES),
    (Watched::ResourceSlices, &RESOURCE_SLICES),
    (Watched::ResourceClaims, &RESOURCE_CLAIMS),
    (Watched::Nodes, &NODES),
    (Watched::Pods, &PODS),
];

/// Starts a scheduler that acts through `client` (as [`USER`]) on what `informers` see.
pub fn start(
    env: &Env,
    client: Arc<dyn Client>,
    informers: &Informers,
    config: Config,
    stop: Stop,
) -> Scheduler {
    let engine = Arc::new(Mutex::new(Engine::new(config.clone())));
    let metrics = Arc::new(Metrics::new(Arc::downgrade(&engine)));
    let mut tasks = Vec::new();
    let mut api_calls = BTreeMap::new();
    for profile in &config.profiles {
        let name = profile.scheduler_name.to_string();
        let (recorder, task) = SeriesRecorder::start(env, client.clone(), &name, stop.clone());
        tasks.push(task);
        let pods = informers.of(&PODS);
        api_calls.insert(name, ApiCalls { env: env.clone(), client: client.clone(), recorder, pods });
    }
    let inbox = Arc::new(Inbox::default());
    let watched: Vec<Arc<Informer>> = WATCHED.iter().map(|(_, resource)| informers.of(resource)).collect();
    for ((resource, _), informer) in WATCHED.iter().zip(&watched) {
        inbox.listen(*resource, informer);
    }
    let start = env.monotonic();
    let clock = {
        let env = env.clone();
        Arc::new(move || env.monotonic().saturating_duration_since(start))
    };
    engine.lock().set_surroundings(env.now_seconds() as i64, clock, [env.random(), env.random()]);
    let places = PodPlaces::find(&client.catalog());
    let debugger = Arc::new(Debugger::new(Arc::downgrade(&engine), env, start));
    let task = Task {
        env: env.clone(),
        start,
        pods: watched[WATCHED.len() - 1].clone(),
        engine,
        debugger: debugger.clone(),
        inbox,
        places,
        api_calls,
        metrics: metrics.clone(),
        in_flight: FuturesUnordered::new(),
    };
    tasks.push(env.spawn("scheduler", task.run(watched, stop)));
    Scheduler { metrics, debugger, tasks }
}

struct Task {
    env: Env,
    start: Instant,
    pods: Arc<Informer>,
    /// Guards what is known and decided; held for single steps, never while something is waited for.
    engine: Arc<Mutex<Engine>>,
    debugger: Arc<Debugger>,
    inbox: Arc<Inbox>,
    places: PodPlaces,
    /// By scheduler name.
    api_calls: BTreeMap<String, ApiCalls>,
    metrics: Arc<Metrics>,
    in_flight: FuturesUnordered<JoinHandle<Done>>,
}

/// A call that ended.
enum Done {
    Bound {
        queued: Queued,
        begun: Instant,
        result: Result<(), Status>,
    },
    /// The revisions of what was written, and the refusal that ended it.
    VolumesWritten {
        queued: Queued,
        node: Arc<str>,
        written: Vec<u64>,
        refused: Option<Status>,
    },
    ClaimsWritten {
        queued: Queued,
        node: Arc<str>,
        written: Result<WrittenClaims, Status>,
    },
    /// The claims of a pod that was not bound are given back.
    Unreserved {
        unbound: Unbound,
        result: Result<(), Status>,
    },
    /// A claim was undone for a pod that waits.
    GaveUp {
        uid: Arc<str>,
        result: Result<(), Status>,
    },
    Explained {
        pod: Arc<Pod>,
        result: Result<(), Status>,
    },
    Preempted {
        uid: Arc<str>,
        result: Result<(), Status>,
    },
}

/// A pod that had a node and was not bound, and what is to be said of it.
struct Unbound {
    queued: Queued,
    begun: Instant,
    message: String,
    /// The node it was promised, where it failed before it was to be bound.
    promised: Option<Arc<str>>,
}

impl Task {
    async fn run(mut self, watched: Vec<Arc<Informer>>, stop: Stop) {
        for informer in &watched {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = informer.synced() => {}
            }
        }
        loop {
            self.take_in().await;
            if self.decide() {
                // Others get their turn: informers, and the calls just begun.
                tokio::task::yield_now().await;
                if stop.is_stopped() {
                    return;
                }
                continue;
            }
            let wake = self.engine.lock().next_wake().map(|at| at.saturating_sub(self.now()));
            let full = self.in_flight.len() >= MAX_IN_FLIGHT;
            let sleep = async {
                match wake {
                    // Nothing can be decided before a call ends.
                    Some(wait) if !full => self.env.sleep(wait.max(Duration::from_millis(1))).await,
                    _ => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                Some(done) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    self.done(done);
                    while let Some(Some(done)) = self.in_flight.next().now_or_never() {
                        self.done(done);
                    }
                }
                () = self.inbox.changed() => {}
                () = sleep => {}
            }
        }
    }

    fn now(&self) -> Duration {
        self.env.monotonic().saturating_duration_since(self.start)
    }

    async fn take_in(&mut self) {
        for (n, change) in self.inbox.take().into_iter().enumerate() {
            let now = self.now();
            apply(&mut self.engine.lock(), &change, self.places, now);
            // The first state of a large cluster takes seconds: others have a turn meanwhile.
            if n % TAKE_IN == TAKE_IN - 1 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Decides about some pods; `false` when none may be tried now.
    fn decide(&mut self) -> bool {
        for n in 0..BATCH {
            if self.in_flight.len() >= MAX_IN_FLIGHT {
                return false;
            }
            let begun = self.env.monotonic();
            let now = begun.saturating_duration_since(self.start);
            let env = &self.env;
            let step = self.engine.lock().next(now, &mut |below| env.random_below(below));
            let Some(step) = step else { return n > 0 };
            self.metrics.decided(self.env.monotonic().saturating_duration_since(begun));
            self.carry_out(step, begun);
        }
        true
    }

    fn carry_out(&mut self, step: ScheduleResult, begun: Instant) {
        match step {
            ScheduleResult::Bind { queued, node } => {
                let Some(api_calls) = self.api_calls.get(&*queued.pod.scheduler_name).cloned() else {
                    return;
                };
                self.debugger.decided(&queued.pod, queued.attempts, queued.cause, format!("bind to {node}"));
                self.in_flight.push(self.env.spawn("bind", async move {
                    let result = caught(api_calls.bind(&queued.pod, &node)).await;
                    Done::Bound { queued, begun, result }
                }));
            }
            ScheduleResult::BindVolumes { queued, node, volumes } => {
                let Some(api_calls) = self.api_calls.get(&*queued.pod.scheduler_name).cloned() else {
                    return;
                };
                self.debugger.decided(&queued.pod, queued.attempts, queued.cause, format!("bind to {node}"));
                self.in_flight.push(self.env.spawn("bind volumes", async move {
                    let mut written = Vec::new();
                    let writing = api_calls.bind_volumes(&queued.pod, &node, &volumes, &mut written);
                    let refused = caught(writing).await.err();
                    Done::VolumesWritten { queued, node, written, refused }
                }));
            }
            ScheduleResult::BindClaims { queued, node, claims } => {
                let Some(api_calls) = self.api_calls.get(&*queued.pod.scheduler_name).cloned() else {
                    return;
                };
                self.debugger.decided(&queued.pod, queued.attempts, queued.cause, format!("bind to {node}"));
                self.in_flight.push(self.env.spawn("bind claims", async move {
                    let writing = api_calls.bind_claims(&queued.pod, &node, &claims);
                    let written = AssertUnwindSafe(writing).catch_unwind().await;
                    let written = written.map_err(|_| Status::internal("the call panicked"));
                    Done::ClaimsWritten { queued, node, written }
                }));
            }
            ScheduleResult::ClaimsFailed { queued, node, message, unreserved } => {
                self.unreserve(Unbound { queued, begun, message, promised: Some(node) }, unreserved);
            }
            ScheduleResult::VolumesFailed { queued, node, message } => {
                self.put_back(Unbound { queued, begun, message, promised: Some(node) });
            }
            ScheduleResult::Failed(failure) => self.failed(failure, begun),
        }
    }

    /// Others may have the claims of a pod that is not bound. It is put back after that: its next attempt would find the claims
    /// reserved for it, and lose them to a write of this one.
    fn unreserve(&mut self, unbound: Unbound, unreserved: Unreserved) {
        let pod = &unbound.queued.pod;
        let known = self.pods.store().get(pod.namespace(), &pod.name);
        // One that has a node by now uses its claims, and those of one that is gone are the claim controller's.
        let waits = known.is_some_and(|known| known.uid() == &*pod.uid && !is_bound(&known));
        let reserves = !unreserved.claims.is_empty() || unreserved.extended.is_some();
        let api_calls = self.api_calls.get(&*pod.scheduler_name).filter(|_| waits && reserves);
        let Some(api_calls) = api_calls.cloned() else {
            self.put_back(unbound);
            return;
        };
        self.in_flight.push(self.env.spawn("unreserve", async move {
            let result = caught(api_calls.unreserve(&unbound.queued.pod, &unreserved)).await;
            Done::Unreserved { unbound, result }
        }));
    }

    /// The pod goes back to those that wait, and says why, unless it has a node by now, or is gone.
    fn put_back(&mut self, Unbound { queued, begun, message, promised }: Unbound) {
        self.metrics.bind_failed();
        self.metrics.attempt("error", &queued.pod.scheduler_name, self.since(begun));
        self.debugger.ended(&queued.pod.uid, || message.clone());
        let Some(pod) = self.taken_off(queued.clone()).filter(|pod| !pod.assigned()) else { return };
        let mut failure = Failure::new(&queued, "SchedulerError", message);
        failure.pod = pod;
        if let Some(node) = promised {
            // Whatever is known of it, it was promised the node before its volumes were written.
            self.engine.lock().unpromise(&failure.pod.uid);
            failure.nominated_node = Some("".into());
            failure.pod = Arc::new(Pod { nominated_node: node, ..(*failure.pod).clone() });
        }
        self.explain(Arc::new(failure));
    }

    /// A pod that could not be bound, as it is known now: what changed while it was assumed was not looked at.
    fn taken_off(&mut self, queued: Queued) -> Option<Arc<Pod>> {
        let (pod, now) = (queued.pod.clone(), self.now());
        let mut engine = self.engine.lock();
        engine.bind_failed(queued, now);
        let known = self.pods.store().get(pod.namespace(), &pod.name);
        let Some(obj) = known.filter(|obj| obj.uid() == &*pod.uid) else {
            engine.remove_pod(&pod.uid, now);
            return None;
        };
        Some(engine.set_pod(&tree(&obj), now))
    }

    fn failed(&mut self, mut failure: Failure, begun: Instant) {
        let profile = &failure.pod.scheduler_name;
        let Some(api_calls) = self.api_calls.get(&**profile).cloned() else { return };
        let result = if failure.reason == "SchedulerError" { "error" } else { "unschedulable" };
        self.metrics.attempt(result, profile, self.since(begun));
        self.debugger.decided(&failure.pod, failure.attempts, failure.cause, failure.message.clone());
        let node = failure.nominated_node.clone().unwrap_or_default();
        if let Some(given_up) = failure.given_up.clone() {
            let (api_calls, uid) = (api_calls.clone(), failure.pod.uid.clone());
            self.in_flight.push(self.env.spawn("give up claim", async move {
                let result = caught(api_calls.give_up(&given_up)).await;
                Done::GaveUp { uid, result }
            }));
        }
        let preempts = !node.is_empty() && !failure.victims.is_empty();
        if preempts {
            self.metrics.preempted(failure.victims.len());
            let Failure { pod, victims, .. } = &mut failure;
            victims.retain(|victim| {
                let cancelled = self.engine.lock().cancel_binding(&victim.uid);
                if cancelled {
                    api_calls.tell_cancelled(victim, pod, &node);
                }
                !cancelled
            });
        }
        let failure = Arc::new(failure);
        if preempts {
            let failure = failure.clone();
            self.in_flight.push(self.env.spawn("preempt", async move {
                let result = caught(preempt(&api_calls, &failure, &node)).await;
                Done::Preempted { uid: failure.pod.uid.clone(), result }
            }));
        }
        self.explain(failure);
    }

    fn since(&self, begun: Instant) -> Duration {
        self.env.monotonic().saturating_duration_since(begun)
    }

    fn explain(&mut self, failure: Arc<Failure>) {
        let pod = &failure.pod;
        let Some(api_calls) = self.api_calls.get(&*pod.scheduler_name).cloned() else { return };
        // The informer may know more than what was taken in: then that is what the next decision is about.
        let known = self.pods.store().get(pod.namespace(), &pod.name);
        let Some(known) = known.filter(|known| known.uid() == &*pod.uid && !is_bound(known)) else {
            self.debugger.ended(&pod.uid, || "it has a node by now, or is gone".to_owned());
            return;
        };
        api_calls.tell_failure(&failure, &known);
        let Some(status) = api_calls.explanation(&failure) else {
            self.debugger.ended(&pod.uid, || "said already".to_owned());
            return;
        };
        self.in_flight.push(self.env.spawn("explain", async move {
            let result = caught(api_calls.explain(&failure, status, &known)).await;
            Done::Explained { pod: failure.pod.clone(), result }
        }));
    }

    fn done(&mut self, done: Result<Done, JoinError>) {
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "scheduler API call failed");
                return;
            }
        };
        let now = self.now();
        match done {
            // Confirmed when the informer has seen it.
            Done::Bound { queued, begun, result: Ok(()) } => {
                let Queued { pod, attempts, came, .. } = &queued;
                self.metrics.attempt("scheduled", &pod.scheduler_name, self.since(begun));
                self.metrics.scheduled(*attempts, now.saturating_sub(*came));
                self.debugger.ended(&pod.uid, || "bound".to_owned());
            }
            Done::Bound { queued, begun, result: Err(status) } => {
                let pod = queued.pod.clone();
                tracing::debug!(pod = pod.key(), error = status.message, "binding rejected");
                let message = format!("running Bind plugin \"DefaultBinder\": {}", status.message);
                if matches!(status.code, 404 | 409 | 504) {
                    // Another writer was first, the pod is gone, or it may be bound for all we know: the informer will tell.
                    self.metrics.bind_failed();
                    self.metrics.attempt("error", &pod.scheduler_name, self.since(begun));
                    self.debugger.ended(&pod.uid, || message);
                    self.taken_off(queued);
                    return;
                }
                // Without a clear answer it may be bound, and use its claims.
                let refused = (400..500).contains(&status.code);
                let unreserved = self.engine.lock().take_claims(&pod.uid).filter(|_| refused);
                let unbound = Unbound { queued, begun, message, promised: None };
                self.unreserve(unbound, unreserved.unwrap_or_default());
            }
            Done::VolumesWritten { queued, node, written, refused: None } => {
                self.debugger.ended(&queued.pod.uid, || format!("waits for its volumes on {node}"));
                self.engine.lock().volumes_written(&queued.pod.uid, written, now);
            }
            Done::VolumesWritten { queued, node, written, refused: Some(status) } => {
                tracing::debug!(pod = queued.pod.key(), error = status.message, "volumes not bound");
                self.engine.lock().volumes_refused(&queued.pod.uid, written.len(), now);
                let message = format!("running PreBind plugin \"VolumeBinding\": {}", status.message);
                let begun = self.env.monotonic();
                self.put_back(Unbound { queued, begun, message, promised: Some(node) });
            }
            Done::ClaimsWritten { queued, node, written } => {
                let written = written.unwrap_or_else(|status| WrittenClaims {
                    error: Some(status.message),
                    ..WrittenClaims::default()
                });
                let after = self.engine.lock().claims_written(&queued.pod.uid, written, now);
                if matches!(after, AfterClaims::Waits) {
                    self.debugger.ended(&queued.pod.uid, || format!("waits for its devices on {node}"));
                    if let Some(api_calls) = self.api_calls.get(&*queued.pod.scheduler_name) {
                        api_calls.tell_devices_pending(&queued.pod, &node);
                    }
                }
            }
            Done::Unreserved { unbound, result } => {
                if let Err(status) = result {
                    let pod = unbound.queued.pod.key();
                    tracing::debug!(pod, error = status.message, "failed to unreserve claims");
                }
                self.put_back(unbound);
            }
            Done::GaveUp { uid, result } => {
                if let Err(status) = result {
                    tracing::debug!(uid = &*uid, error = status.message, "failed to undo a claim");
                    self.engine.lock().retry(&uid, now);
                }
            }
            Done::Explained { pod, result } => {
                // Of a binding that was refused, that is what is shown.
                let words = result
                    .as_ref()
                    .map_or_else(|s| format!("not said: {}", s.message), |()| "said".to_owned());
                self.debugger.ended(&pod.uid, || words);
                if let Err(status) = result {
                    tracing::debug!(
                        pod = pod.key(),
                        error = status.message,
                        "failed to update pod condition"
                    );
                }
            }
            Done::Preempted { uid, result } => {
                if let Err(status) = result {
                    tracing::warn!(uid = &*uid, error = status.message, "preemption failed");
                    self.engine.lock().activate(&uid);
                }
            }
        }
    }
}

/// Stopped or killed, the scheduler does nothing more: each write stands by itself, done or not.
impl Drop for Task {
    fn drop(&mut self) {
        self.in_flight.iter().for_each(JoinHandle::abort);
    }
}

/// A call that panics has failed: what was assumed for it is taken back like after any failure.
async fn caught(call: impl Future<Output = Result<(), Status>>) -> Result<(), Status> {
    let ended = AssertUnwindSafe(call).catch_unwind().await;
    ended.unwrap_or_else(|_| Err(Status::internal("the call panicked")))
}

/// Takes promises back, then deletes the victims, the least important last.
async fn preempt(api_calls: &ApiCalls, failure: &Failure, node: &str) -> Result<(), Status> {
    for pod in &failure.unpromised {
        api_calls.unpromise(pod).await?;
    }
    for victim in &failure.victims {
        api_calls.evict(victim, &failure.pod, node).await?;
    }
    Ok(())
}

/// Where the table keeps what tells whose a pod is.
#[derive(Clone, Copy)]
struct PodPlaces {
    node: usize,
    scheduler: usize,
}

impl PodPlaces {
    fn find(catalog: &Catalog) -> PodPlaces {
        let at = |field| PODS.field(catalog, field).expect("pods are selected by it");
        PodPlaces { node: at("spec.nodeName"), scheduler: at("spec.schedulerName") }
    }

    /// It takes no room, and another scheduler looks for some.
    fn is_of_others(self, engine: &Engine, pod: &Obj) -> bool {
        pod.field(self.node).is_empty() && !engine.schedules_for(pod.field(self.scheduler))
    }
}

fn apply(engine: &mut Engine, change: &Change, places: PodPlaces, now: Duration) {
    let Some(about) = change.new.as_ref().or(change.gone.last()) else { return };
    let (namespace, name) = (about.namespace(), about.name());
    // Known without reading them.
    let of_others = |obj: &&Arc<Obj>| change.resource == Watched::Pods && places.is_of_others(engine, obj);
    let new = change.new.as_ref().filter(|obj| !of_others(obj)).map(|obj| tree(obj));
    let new = new.as_ref();
    if !change.gone.is_empty() && new.is_some() && change.resource.is_storage() {
        // Another one of the same name: what was known of the first does not hold.
        apply_storage(engine, change.resource, namespace, name, None, now);
    }
    match change.resource {
        Watched::Pods => {
            change.gone.iter().for_each(|pod| engine.remove_pod(pod.uid(), now));
            if let Some(new) = new {
                engine.set_pod(new, now);
            }
        }
        Watched::Nodes => match new {
            Some(new) => engine.set_node(new, now),
            None => engine.remove_node(name, now),
        },
        Watched::Namespaces => engine.set_namespace(name, new, now),
        Watched::Services => engine.set_service(namespace, name, new),
        Watched::PodDisruptionBudgets => engine.set_budget(namespace, name, new),
        Watched::ReplicaSets => engine.set_owner(OwnerKind::ReplicaSet, namespace, name, new),
        Watched::StatefulSets => engine.set_owner(OwnerKind::StatefulSet, namespace, name, new),
        Watched::ReplicationControllers => {
            engine.set_owner(OwnerKind::ReplicationController, namespace, name, new)
        }
        resource => apply_storage(engine, resource, namespace, name, new, now),
    }
}

fn apply_storage(
    engine: &mut Engine,
    resource: Watched,
    namespace: &str,
    name: &str,
    new: Option<&Value>,
    now: Duration,
) {
    match resource {
        Watched::PersistentVolumeClaims => engine.set_claim(namespace, name, new, now),
        Watched::PersistentVolumes => engine.set_volume(name, new, now),
        Watched::StorageClasses => engine.set_storage_class(name, new, now),
        Watched::CsiDrivers => engine.set_csi_driver(name, new, now),
        Watched::CsiNodes => engine.set_csi_node(name, new, now),
        Watched::CsiStorageCapacities => engine.set_storage_capacity(namespace, name, new, now),
        Watched::VolumeAttachments => engine.set_attachment(name, new, now),
        Watched::DeviceClasses => engine.set_device_class(name, new, now),
        Watched::ResourceSlices => engine.set_resource_slice(name, new, now),
        Watched::ResourceClaims => engine.set_resource_claim(namespace, name, new, now),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
