//! The pods of this node, carried out: what the agent's workers decide becomes calls of the container runtime.
//!
//! ```text
//!  PodWorker ── create, start ──> queue of the pod: one thing after the other ──> volumes, images, cri::Runtime
//!     ^      ── stop, release ──> tasks beside it; what waits in the queue is given up
//!     └── wake ── cache <── what a call came to, probes, events of the runtime
//! ```
//! Pods never wait for each other. What a queue is at is cut short by a stop only where nothing is half done: while it waits for
//! volumes or an image.

mod allocations;
mod cache;
mod create;
mod end;
mod evict;
mod garbage;
mod housekeeping;
mod inputs;
mod news;
mod pod_cidr;
mod previous;
mod recover;
mod refresh;
mod resize;
mod start;
mod stop;
mod tell;
mod termination;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use env::Env;
use node::admit::Rejection;
use node::allocation::Allocation;
use node::container_runtime::{Health, Held, Millis, PodEvent, Runtime, Sandbox, Wake};
use node::pod::{Pod, short_uid};
use object::Value;
use parking_lot::Mutex;
use runtime::{Key, Severity};
use tokio::sync::{mpsc, watch};

use crate::blocking::block;
use crate::config::Config;
use crate::eviction::Condition;
use crate::generate::UserRanges;
use crate::hooks::Hooks;
use crate::images::Images;
use crate::node_metrics::NodeMetrics;
use crate::objects::Objects;
use crate::probes::{self, Probes};
use crate::runtime_state::RuntimeState;
use crate::shutdown;
use crate::volumes::Volumes;
use allocations::Allocations;
use cache::{Cache, Release, SandboxRef};
pub use inputs::{AskHostIps, Facts};
pub use tell::NodeEvents;

/// What a node with containers is made of.
pub struct Parts {
    pub env: Env,
    pub config: Arc<Config>,
    pub cri: Arc<dyn cri::Runtime>,
    /// What stands before `://` in the ids of containers.
    pub runtime_name: String,
    pub objects: Arc<Objects>,
    pub volumes: Arc<Volumes>,
    pub images: Arc<Images>,
    pub hooks: Hooks,
    pub facts: Facts,
    pub host_ips: AskHostIps,
    pub events: NodeEvents,
    pub runtime_state: Arc<RuntimeState>,
    pub metrics: Arc<NodeMetrics>,
}

/// Passes on that an object changed which a pod names; for [`Objects`], which are there before the pods.
#[derive(Clone, Default)]
pub struct Changes(Arc<OnceLock<Weak<Shared>>>);

impl Changes {
    /// To be called with the uid of the pod.
    pub fn changed(&self, uid: &str) {
        let shared = self.0.get().and_then(Weak::upgrade);
        if let Some(task) = shared.and_then(|shared| shared.task(short_uid(uid))) {
            task.refresh();
        }
    }
}

/// The pods of a node. Clones are the same.
#[derive(Clone)]
pub struct Pods {
    shared: Arc<Shared>,
}

struct Shared {
    parts: Parts,
    probes: Probes,
    allocations: Allocations,
    wake: OnceLock<Wake>,
    /// By uid; held for a look only.
    pods: Mutex<HashMap<u128, Arc<PodTask>>>,
    /// The Node object, as it was last seen.
    node: Mutex<Arc<Value>>,
    /// What the node is short of.
    pressure: Mutex<BTreeSet<Condition>>,
    /// What the runtime was last asked to take addresses from.
    pod_cidr: Mutex<String>,
    /// The users of pods that have their own; `None`: the runtime has no such users.
    user_ranges: Option<Arc<UserRanges>>,
    /// The machine goes down: no pod is taken any more.
    shutting_down: AtomicBool,
    /// The process ends: nothing is begun any more that must not be cut short.
    ending: AtomicBool,
}

/// One pod: what is known of it, and what goes on.
struct PodTask {
    key: Key,
    uid: String,
    cache: Mutex<Cache>,
    /// At most one creation and one update wait in it, and a start of each container.
    queue: mpsc::UnboundedSender<Command>,
    /// Held while something is done that must not be cut short.
    uninterrupted: Arc<tokio::sync::Mutex<()>>,
    /// Nothing is to be started any more.
    stopping: watch::Sender<bool>,
    /// Nothing of it is left but what it said.
    released: watch::Sender<bool>,
    /// Nobody knows the pod any more.
    removing: AtomicBool,
}

enum Command {
    Create,
    Start { container: String, attempt: u32 },
    Update,
}

impl Pods {
    /// Finds what the runtime holds from before.
    pub async fn open(parts: Parts, changes: &Changes) -> Result<Pods, cri::Error> {
        let env = parts.env.clone();
        let mut features = parts.facts.handlers.iter().filter_map(|handler| handler.features.as_ref());
        let user_namespaces = features.any(|features| features.user_namespaces);
        let config = parts.config.clone();
        let load = move || user_namespaces.then(|| UserRanges::load(&config).map(Arc::new)).transpose();
        let user_ranges = block(load).await.flatten().map_err(|error| cri::Error {
            code: cri::Code::Internal,
            message: format!("failed to read the users of pods: {error}"),
        })?;
        let allocations = Allocations::new(&parts.config.root_directory);
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| Shared {
            parts,
            allocations,
            probes: Probes::new(&env, news::of_probes(shared)),
            wake: OnceLock::new(),
            pods: Mutex::default(),
            node: Mutex::new(Arc::new(Value::Null)),
            pressure: Mutex::default(),
            pod_cidr: Mutex::default(),
            user_ranges,
            shutting_down: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        });
        // Set once: pods are opened once.
        let _ = changes.0.set(Arc::downgrade(&shared));
        recover::all(&shared).await?;
        news::follow(&shared);
        housekeeping::start(&shared);
        garbage::start(&shared);
        Ok(Pods { shared })
    }

    /// The agent's edge.
    pub fn runtime(&self) -> Box<dyn Runtime> {
        Box::new(self.clone())
    }

    /// All objects, as they were last seen.
    pub fn objects(&self) -> Vec<Arc<Value>> {
        let pods = self.shared.pods.lock();
        let mut all: Vec<(Key, Arc<Value>)> =
            pods.values().map(|task| (task.key.clone(), task.cache.lock().pod.clone())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.into_iter().map(|(_, pod)| pod).filter(|pod| pod.as_map().is_some()).collect()
    }

    /// Whether a container goes on, told until it has ended. `None`: it is not known to run.
    pub fn follow_container(&self, id: &str) -> Option<watch::Receiver<bool>> {
        let tasks = self.shared.tasks();
        tasks.iter().find_map(|task| {
            let mut cache = task.cache.lock();
            cache.containers.values_mut().find_map(|slot| slot.follow(id))
        })
    }

    /// The machine goes down: no pod is taken any more, and the node says so.
    pub fn begin_shutdown(&self) {
        self.shared.shutting_down.store(true, Ordering::Relaxed);
        let detected = "Shutdown manager detected shutdown event".to_owned();
        self.shared.parts.events.of_node(Severity::Normal, "Shutdown", detected);
        self.look_at_node();
    }

    /// The node has something else to say.
    pub fn look_at_node(&self) {
        self.shared.look_at_node();
    }

    /// So have its pods: it has other addresses.
    pub fn look_at_all(&self) {
        self.look_at_node();
        self.shared.tasks().iter().for_each(|task| self.shared.wake(task));
    }

    /// For a process that ends while its pods go on: waits, not for long, until nothing is half made, and lets nothing else begin. A
    /// container that is given up between being made and being started would be one restart more.
    pub async fn settle(&self, most: Duration) {
        self.shared.ending.store(true, Ordering::Relaxed);
        // Whoever has the lock of a pod looks at that first, and so does whoever makes a pod known after this.
        let tasks = self.shared.tasks();
        let all = tasks.iter().map(|task| async { drop(task.uninterrupted.lock().await) });
        if self.shared.parts.env.timeout(most, futures_util::future::join_all(all)).await.is_err() {
            tracing::warn!("containers that are being started are given up");
        }
    }

    pub fn write_probe_metrics(&self, out: &mut String) {
        self.shared.probes.write_metrics(out);
    }
}

impl Shared {
    fn task(&self, uid: u128) -> Option<Arc<PodTask>> {
        self.pods.lock().get(&uid).cloned()
    }

    fn wake(&self, task: &PodTask) {
        if let Some(wake) = self.wake.get() {
            wake(&task.key);
        }
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    fn look_at_node(&self) {
        if let Some(wake) = self.wake.get() {
            wake(&Key::new("", &self.parts.config.node_name));
        }
    }

    fn now(&self) -> Millis {
        (self.parts.env.now_nanos() / 1_000_000) as Millis
    }

    /// The pod is gone, with its directory: its users may be another's.
    async fn release_users(&self, uid: &str) {
        let Some(ranges) = self.user_ranges.clone() else { return };
        let uid = uid.to_owned();
        // Fails only by a panic of ours, which is told where it happened.
        let _ = block(move || ranges.release(&uid)).await;
    }

    /// The task of a pod, made if there is none.
    fn ensure(self: &Arc<Shared>, key: Key, uid: &str) -> Arc<PodTask> {
        let mut pods = self.pods.lock();
        let entry = pods.entry(short_uid(uid));
        entry
            .or_insert_with(|| {
                let (queue, commands) = mpsc::unbounded_channel();
                let task = Arc::new(PodTask {
                    key,
                    uid: uid.to_owned(),
                    cache: Mutex::default(),
                    queue,
                    uninterrupted: Arc::default(),
                    stopping: watch::Sender::new(false),
                    released: watch::Sender::new(false),
                    removing: AtomicBool::new(false),
                });
                let run = carry_out(Arc::downgrade(self), Arc::downgrade(&task), commands);
                self.parts.env.spawn("pod", run);
                task
            })
            .clone()
    }
}

impl PodTask {
    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns when nothing is to be started any more.
    async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // Fails only when the task is gone, which this holds.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    fn uid(&self) -> u128 {
        short_uid(&self.uid)
    }

    /// Asks for a sandbox, unless that was asked for already.
    fn create(&self) {
        if !std::mem::replace(&mut self.cache.lock().creating, true) {
            // Fails only when the queue ended, and with it the pod.
            let _ = self.queue.send(Command::Create);
        }
    }

    /// Asks for the pod to be brought up to date, unless that waits to be done already.
    fn refresh(&self) {
        if !std::mem::replace(&mut self.cache.lock().update_waits, true) {
            let _ = self.queue.send(Command::Update);
        }
    }

    fn sandbox(&self) -> Option<SandboxRef> {
        self.cache.lock().sandbox.clone()
    }

    fn has_ready_sandbox(&self) -> bool {
        self.cache.lock().sandbox.as_ref().is_some_and(|sandbox| sandbox.ready)
    }
}

/// Carries out what is asked of a pod, one thing after the other, until the pod is forgotten.
async fn carry_out(
    shared: Weak<Shared>,
    task: Weak<PodTask>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    while let Some(command) = commands.recv().await {
        let Some((shared, task)) = shared.upgrade().zip(task.upgrade()) else { return };
        if shared.is_ending() {
            return;
        }
        if matches!(command, Command::Update) {
            task.cache.lock().update_waits = false;
        }
        match command {
            // Given up; whoever ends the pod waits for what was asked before.
            Command::Start { container, .. } if task.is_stopping() => {
                task.cache.lock().slot(&container).end_start();
            }
            Command::Update if task.is_stopping() => task.cache.lock().resizing = false,
            Command::Create if task.is_stopping() => {}
            Command::Create => {
                create::create(&shared, &task).await;
                task.cache.lock().creating = false;
            }
            Command::Start { container, attempt } => start::start(&shared, &task, &container, attempt).await,
            Command::Update => create::update(&shared, &task).await,
        }
        shared.wake(&task);
    }
}

impl Runtime for Pods {
    fn wake_by(&mut self, wake: Wake) {
        // Set once: an agent has one fleet.
        let _ = self.shared.wake.set(wake);
    }

    fn node_changed(&mut self, node: &Value) -> Health {
        *self.shared.node.lock() = Arc::new(node.clone());
        pod_cidr::node_changed(&self.shared, node);
        self.health()
    }

    fn health(&self) -> Health {
        let ends = self.shared.shutting_down.load(Ordering::Relaxed);
        let ends = ends.then(|| shutdown::NODE_MESSAGE.to_owned());
        self.shared.parts.runtime_state.problems(ends).map_or(Health::Ready, Health::NotReady)
    }

    fn refuses(&self, pod: &Pod<'_>) -> Option<Rejection> {
        if self.shared.shutting_down.load(Ordering::Relaxed) {
            let (reason, message) = (shutdown::NOT_ADMITTED_REASON, shutdown::NOT_ADMITTED_MESSAGE);
            return Some(Rejection { reason: reason.to_owned(), message: message.to_owned() });
        }
        evict::refusal(&self.shared.pressure.lock(), pod)
    }

    fn infeasible(&self, pod: &Pod<'_>, given: &Pod<'_>) -> Option<String> {
        let moment = self.shared.moment();
        resize::infeasible(&self.shared.node_view(&moment), pod, given)
    }

    fn recursive_read_only(&self, pod: &Pod<'_>) -> bool {
        let parts = &self.shared.parts;
        let handler = parts.objects.runtime_handler(pod.tree);
        handler.is_ok_and(|handler| parts.facts.features(&handler).recursive_read_only_mounts)
    }

    fn keeps_allocations(&self) -> bool {
        true
    }

    fn allocated(&self, pod: &Pod<'_>) -> Option<Allocation> {
        self.shared.allocations.read(pod.uid)
    }

    fn allocate(&mut self, pod: &Pod<'_>, to: &Allocation) -> Result<(), String> {
        self.shared.allocations.write(pod.uid, to).map_err(|error| error.to_string())
    }

    fn list(&self) -> Vec<Held> {
        let pods = self.shared.pods.lock();
        let mut all: Vec<Held> =
            pods.iter().map(|(uid, task)| Held { key: task.key.clone(), uid: *uid }).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    fn recover(&mut self, pod: &Pod<'_>) {
        if let Some(task) = self.shared.task(short_uid(pod.uid)) {
            task.cache.lock().pod = Arc::new(pod.tree.clone());
            if pod.is_over() {
                return;
            }
            recover::probes(&self.shared, &task);
            if pod.deletion.is_none() {
                recover::pod(&self.shared, &task);
            }
        }
    }

    fn look(&mut self, pod: &Pod<'_>, _: Millis) -> Option<Sandbox> {
        let task = self.shared.task(short_uid(pod.uid))?;
        let probes = &self.shared.probes;
        let probed = |container: &str| probes.results(&task.uid, container);
        Some(task.cache.lock().view(&self.shared.parts.runtime_name, pod, &probed))
    }

    fn take_events(&mut self, uid: u128) -> Vec<PodEvent> {
        self.shared.task(uid).map(|task| task.cache.lock().take_events()).unwrap_or_default()
    }

    fn create(&mut self, pod: &Pod<'_>, _: Millis) {
        let task = self.shared.ensure(Key::new(pod.namespace, pod.name), pod.uid);
        task.cache.lock().pod = Arc::new(pod.tree.clone());
        task.create();
    }

    fn update(&mut self, pod: &Pod<'_>, _: Millis) {
        let Some(task) = self.shared.task(short_uid(pod.uid)) else { return };
        let mut cache = task.cache.lock();
        let version = |tree: &Value| tree.str_at(&["metadata", "resourceVersion"]).map(str::to_owned);
        // What the pod was given may change without the object.
        let same = version(&cache.pod) == version(pod.tree) && cache.pod.get("spec") == pod.tree.get("spec");
        let ready = cache.sandbox.as_ref().is_some_and(|sandbox| sandbox.ready);
        // Nothing is resized without a sandbox, nor tried again.
        let retries = ready && cache.resize_error.is_some() && self.shared.now() >= cache.resize_retry;
        if same && !retries {
            return;
        }
        if !probes::is_same(&cache.pod, pod.tree) {
            self.shared.probes.hurry(pod.uid);
        }
        if cache.pod.get("spec") != pod.tree.get("spec") {
            // It was about what the pod asked for before.
            cache.resize_error = None;
            cache.resize_group = true;
        }
        cache.pod = Arc::new(pod.tree.clone());
        cache.resizing |= ready;
        drop(cache);
        if ready {
            task.refresh();
        } else {
            // One that is under way reads the object.
            task.create();
        }
    }

    fn start(&mut self, pod: &Pod<'_>, container: usize, attempt: u32, _: Millis) {
        let Some(task) = self.shared.task(short_uid(pod.uid)) else { return };
        let container = pod.containers[container].name.to_owned();
        let mut cache = task.cache.lock();
        cache.slot(&container).begin_start();
        let _ = task.queue.send(Command::Start { container, attempt });
    }

    fn kill(&mut self, pod: &Pod<'_>, container: usize, _: Millis) {
        if let Some(task) = self.shared.task(short_uid(pod.uid)) {
            stop::kill(&self.shared, &task, pod.containers[container].name);
        }
    }

    fn stop(&mut self, pod: &Pod<'_>, grace_seconds: i64, _: Millis) {
        if let Some(task) = self.shared.task(short_uid(pod.uid)) {
            stop::stop(&self.shared, &task, grace_seconds);
        }
    }

    fn release(&mut self, uid: u128) -> bool {
        let Some(task) = self.shared.task(uid) else { return true };
        let mut cache = task.cache.lock();
        match cache.release {
            Release::Done => return true,
            Release::Asked => return false,
            Release::No => cache.release = Release::Asked,
        }
        drop(cache);
        stop::release(&self.shared, &task);
        false
    }

    fn remove(&mut self, uid: u128) {
        self.shared.allocations.forget(uid);
        if let Some(task) = self.shared.task(uid) {
            stop::remove(&self.shared, &task);
        }
    }
}
