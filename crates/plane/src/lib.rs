//! The control plane beside an API server as one value: controllers, scheduler and simulated nodes, started and stopped together.
//!
//! ```text
//! Plane ─┬─ controllers ── led by the lease kube-controller-manager ┐ only where others may be there too:
//!        ├─ scheduler ──── led by the lease kube-scheduler ─────────┘ on an etcd that several servers share
//!        └─ simulated nodes
//! ```
//! A part that lost its lease stops as a whole, its informers too, and stands for election again.

mod leader_election;
mod leading;
mod selection;

use std::sync::Arc;

use client::Clients;
use env::Env;
use object::{Revision, Value};
use parking_lot::Mutex;
use runtime::{ControllerRegistry, Informers, Stop, Stopper};
use tokio::task::{AbortHandle, JoinHandle};

pub use controllers::{
    CONCURRENCY, Cidr, Context, Endpoints, HorizontalPodAutoscaler, KUBELET_SERVING_APPROVER,
    LOCAL_PROVISIONER, MaskSizes, NodeIpam, NodeIpamError, NodeLifecycle, ServingNames,
    Settings as ControllerSettings, Trust, local_storage_class,
};
pub use leader_election::Candidate;
pub use selection::{ControllerSelection, UnknownController};

use leading::Leading;

/// What runs.
#[derive(Clone, Default)]
pub struct Settings {
    pub choice: ControllerSelection,
    pub scheduler: scheduler::Config,
    pub nodes: Option<node::simulated::Settings>,
    /// Who we are among those that want to lead; `None`: nobody else can be there.
    pub candidate: Option<Candidate>,
    /// What the controllers cannot read from the server.
    pub trust: Trust,
    /// Parameters of the controllers.
    pub controllers: Arc<ControllerSettings>,
    /// Where the controllers are entered, with others of this process to be shown with; `None`: alone.
    pub registry: Option<Arc<ControllerRegistry>>,
    /// Controllers of one's own, in the same process: they start, lead, stop and are shown with the built-in controllers.
    pub more: Vec<StartController>,
}

/// Starts a controller; it gets clients, informers and the board of the controllers, and ends with its [`Context::stop`].
pub type StartController = Arc<dyn Fn(&Context) -> Vec<JoinHandle<()>> + Send + Sync>;

/// A control plane that runs.
pub struct Plane {
    env: Env,
    clients: Arc<dyn Clients>,
    controllers: Arc<ControllerRegistry>,
    stopper: Stopper,
    stop: Stop,
    /// Guards what is shown of the scheduler that runs now.
    scheduling: Arc<Mutex<Option<Scheduling>>>,
    /// Guards the tasks to be joined; filled at start, taken at the end.
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Guards what it takes to abort the tasks that run now.
    under_way: Arc<Mutex<Vec<AbortHandle>>>,
    /// What leads, for those who ask how it is.
    leading: Arc<Leading>,
}

struct Scheduling {
    metrics: Arc<scheduler::Metrics>,
    debugger: Arc<scheduler::Debugger>,
}

impl Plane {
    /// Starts everything; returns at once.
    pub fn start(env: &Env, clients: Arc<dyn Clients>, settings: &Settings) -> Plane {
        let (stopper, stop) = Stopper::new();
        let plane = Plane {
            env: env.clone(),
            clients,
            controllers: settings.registry.clone().unwrap_or_default(),
            stopper,
            stop,
            scheduling: Arc::default(),
            tasks: Mutex::default(),
            under_way: Arc::default(),
            leading: Arc::default(),
        };
        let (choice, more, leading) = (settings.choice.clone(), settings.more.clone(), plane.leading.clone());
        plane.part("kube-controller-manager", settings, move |context| {
            let mut tasks = controllers::start(context, &|name| choice.runs(name));
            tasks.extend(more.iter().flat_map(|start| start(context)));
            leading.set("kube-controller-manager", &tasks, &context.stop);
            tasks
        });
        if settings.choice.runs(selection::SCHEDULER) {
            let config = settings.scheduler.clone();
            let (scheduling, leading) = (plane.scheduling.clone(), plane.leading.clone());
            plane.part("kube-scheduler", settings, move |context| {
                let client = context.clients.user(scheduler::USER, &[]);
                let config = config.clone();
                let started =
                    scheduler::start(&context.env, client, &context.informers, config, context.stop.clone());
                *scheduling.lock() =
                    Some(Scheduling { metrics: started.metrics, debugger: started.debugger });
                leading.set("kube-scheduler", &started.tasks, &context.stop);
                started.tasks
            });
        }
        if let Some(nodes) = settings.nodes.clone() {
            // Nodes are not led: whoever was asked for them runs them.
            let alone = Settings { candidate: None, ..settings.clone() };
            plane.part("kube-controller-manager", &alone, move |context| {
                let Context { env, clients, informers, controllers, stop, .. } = context;
                let started =
                    node::simulated::start(env, &**clients, informers, controllers, &nodes, stop.clone());
                started.unwrap_or_else(|why| {
                    tracing::error!(why, "cannot start simulated nodes");
                    Vec::new()
                })
            });
        }
        plane
    }

    /// Runs a part as long as it leads, again and again.
    fn part(
        &self,
        lease: &'static str,
        settings: &Settings,
        start: impl Fn(&Context) -> Vec<JoinHandle<()>> + Send + Sync + 'static,
    ) {
        let (env, clients, controllers) = (self.env.clone(), self.clients.clone(), self.controllers.clone());
        let (under_way, trust) = (self.under_way.clone(), settings.trust.clone());
        let parameters = settings.controllers.clone();
        let holder = settings.candidate.as_ref().map(|candidate| candidate.identity.clone());
        let run = move |stop: Stop| {
            let fenced = holder
                .as_deref()
                .and_then(|holder| clients.fenced(leader_election::NAMESPACE, lease, holder));
            let clients = fenced.unwrap_or_else(|| clients.clone());
            // The user of the lease's name may list and watch what its part reads.
            let reader = clients.user(&format!("system:{lease}"), &[]);
            let informers = Informers::new(env.clone(), reader, stop.clone());
            let (env, clients, controllers, trust) =
                (env.clone(), clients.clone(), controllers.clone(), trust.clone());
            let settings = parameters.clone();
            let context = Context { env, clients, informers, controllers, stop, trust, settings };
            let mut tasks = start(&context);
            tasks.extend(context.informers.take_tasks());
            let mut under_way = under_way.lock();
            under_way.retain(|task| !task.is_finished());
            under_way.extend(tasks.iter().map(JoinHandle::abort_handle));
            tasks
        };
        let (env, clients) = (self.env.clone(), self.clients.clone());
        let task =
            leader_election::serve(env, clients, lease, settings.candidate.clone(), self.stop.clone(), run);
        self.tasks.lock().push(self.env.spawn(lease, task));
    }

    /// What every controller is doing, and who wrote what made it.
    pub fn controllers(&self) -> Value {
        let reader = self.clients.user("system:kube-controller-manager", &[]);
        let writer = |revision: Revision| reader.writer(revision).map(|name| name.to_string());
        let mut all = self.controllers.to_value(&writer);
        if let Some(scheduling) = &*self.scheduling.lock() {
            all.make_map().set("scheduler", scheduling.debugger.to_value());
        }
        all
    }

    pub fn metrics(&self, out: &mut String) {
        self.controllers.render_metrics(out);
        if let Some(scheduling) = &*self.scheduling.lock() {
            out.push_str(&scheduling.metrics.render());
        }
    }

    /// How the part that leads by this lease is; `None` while it is not led from here.
    pub fn leads(&self, lease: &str) -> Option<Result<(), String>> {
        self.leading.health(lease)
    }

    /// Stops everything where it stands, in the middle of whatever it does: what a crash looks like.
    pub fn kill(&self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
        for task in self.under_way.lock().drain(..) {
            task.abort();
        }
        self.stopper.stop();
    }

    /// Stops everything and waits for it.
    pub async fn stop(&self) {
        self.stopper.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            let _ = task.await;
        }
    }
}
