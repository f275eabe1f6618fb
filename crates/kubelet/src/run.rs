//! A node with containers, put together: the agent, its pods and what they need, the HTTPS port.

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use auth::{CaBundle, FollowedFiles};
use client::Client;
use client::resources::{NODES, PODS};
use env::Env;
use futures_util::future::BoxFuture;
use node::agent::{Agent, HeartbeatPeriods, HostIps, Parts as AgentParts};
use node::machine::{Describe, Machine, NodeIdentity};
use node::pod::Pod;
use node::static_pods::{StaticPods, is_mirror};
use object::Value;
use runtime::{ControllerRegistry, Informer, Informers, Key, Recorder, Scope, Severity, Stop};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::admit::{self, Kernel};
use crate::certificates::{self, Keeper, Purpose, SERVER_FILE, ServingSlot};
use crate::config::Config;
use crate::directories;
use crate::eviction::{self, Evictor};
use crate::generate::groups::root_group;
use crate::generate::{Resolv, cgroups, dns};
use crate::health_port;
use crate::hooks::Hooks;
use crate::images::{ImageOptions, Images};
use crate::machine::{self, LocalMachine, RuntimeFacts, SharedMachine};
use crate::node_metrics::NodeMetrics;
use crate::objects::Objects;
use crate::pod_logs::PodLogs;
use crate::pods::{AskHostIps, Changes, Facts, NodeEvents, Parts, Pods};
use crate::preflight::{self, CGROUP_V1_WARNING, MEMORY_VOLUMES_WARNING};
use crate::runtime_metrics::MeasuredRuntime;
use crate::runtime_state::RuntimeState;
use crate::server::{self, ClientCas, Server};
use crate::shutdown::{self, Periods, RunningPod};
use crate::static_pods;
use crate::statuses::Statuses;
use crate::volumes::{KeptStats, Volumes};

pub use crate::preflight::PreflightError;

/// What a node is told.
pub struct Settings {
    pub config: Config,
    /// As `system:node:NAME` in `system:nodes`.
    pub client: Arc<dyn Client>,
    pub cri: Arc<dyn cri::Runtime>,
    pub hostname: String,
    /// `--node-ip`; empty: found.
    pub node_ip: String,
    /// The node's port, from [`server::bind`]; `None`: by `enableServer`.
    pub listener: Option<TcpListener>,
    /// The cluster's, for clients of the node's port; `clientCAFile` of the configuration counts instead.
    pub client_ca: Arc<CaBundle>,
    /// Where its certificates are.
    pub certificates: certificates::Store,
    /// What the program was started with, for `/flagz`; without secrets.
    pub flags: BTreeMap<String, String>,
}

/// A node that runs. Its pods go on when it stops.
pub struct Kubelet {
    pub pods: Pods,
    pub machine: Arc<LocalMachine>,
    env: Env,
    config: Arc<Config>,
    /// The Node object, once there is one.
    own_node: Arc<Informer>,
    /// `None`: by `enableServer`.
    server: Option<Server>,
    #[cfg(test)]
    view: Arc<NodeView>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot use {directory}: {source}; choose another with --data-dir")]
    Directory { directory: String, source: std::io::Error },
    #[error("{0}")]
    Address(#[from] machine::AddressError),
    #[error("the container runtime does not answer: {0}")]
    Runtime(#[from] cri::Error),
    #[error("{0}")]
    Preflight(#[from] PreflightError),
    #[error("{0}")]
    Capacity(String),
    #[error("{0}")]
    ClientCa(#[from] server::ClientCaError),
    #[error("the serving certificate cannot be used: {0}")]
    Certificate(String),
    #[error("cannot use the node's port: {0}")]
    Listener(std::io::Error),
}

/// How often the runtime is looked at for what the Node says.
const LOOK: Duration = Duration::from_secs(10);
/// How long a start of a container may keep the process from ending.
const SETTLE: Duration = Duration::from_secs(4);
/// What `/logs/` shows.
const SYSTEM_LOGS: &str = "/var/log";

impl Kubelet {
    pub async fn start(
        env: &Env,
        settings: Settings,
        controllers: &Arc<ControllerRegistry>,
        stop: Stop,
    ) -> Result<Kubelet, StartError> {
        let Settings { mut config, client, cri, hostname, node_ip, listener, .. } = settings;
        let Settings { client_ca, certificates, flags, .. } = settings;
        if let Some(listener) = &listener {
            config.port = listener.local_addr().map_err(StartError::Listener)?.port();
        }
        close_directory(&config.root_directory)?;
        close_directory(&config.root_directory.join("pods"))?;
        let logs = PodLogs::of(&config).create();
        logs.map_err(|source| directory_error(&config.pod_logs_directory, source))?;
        make_private_directory(&config.root_directory.join(server::CHECKPOINTS))?;
        for (field, why) in config.without_effect() {
            tracing::warn!(field, why, "a field of the KubeletConfiguration has no effect");
        }
        let root = Path::new("/");
        preflight::swap(root, &config)?;
        preflight::kernel(root, &config)?;
        preflight::oom_scores(root, &config);
        let cgroup_v2 = preflight::cgroup_v2(root, &config)?;
        let swaps_memory_volumes = preflight::swaps_memory_volumes(root, || {
            preflight::keeps_tmpfs_out_of_swap(&config.root_directory)
        });
        let measured = Arc::new(MeasuredRuntime::new(env, cri));
        let cri: Arc<dyn cri::Runtime> = measured.clone();
        let runtime = RuntimeFacts::read(&*cri).await?;
        let status = cri.status(cri::StatusRequest::default()).await?;
        let runtime_state = Arc::new(RuntimeState::new(env, &status));
        let metrics = Arc::new(NodeMetrics::default());
        let statuses = Arc::new(Statuses::new(env, metrics.clone(), runtime_state.clone()));
        config.cgroup_driver = preflight::cgroup_driver(env, &*cri, &config.cgroup_driver).await?.to_owned();
        let addresses = machine::node_addresses(&node_ip)?;
        let facts = machine::Facts::read(root, &config.root_directory);
        let runtime_name = runtime.name.clone();
        let known = pod_facts(&facts, &runtime, cgroup_v2);
        let kernel = Kernel::read(root, &facts.kernel_version);
        let machine = Arc::new(LocalMachine::new(config.clone(), &hostname, facts, addresses));
        machine.set_runtime(runtime);
        let mut tasks = Vec::new();
        let changes = Changes::default();
        let config = Arc::new(config);
        let (objects, more) = {
            let changes = changes.clone();
            Objects::start(env, client.clone(), Arc::new(move |uid: &str| changes.changed(uid)), stop.clone())
        };
        tasks.extend(more);
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let images = Images::new(
            env.clone(),
            &config,
            cri.clone(),
            image::blocking_pool(),
            ImageOptions::of(&config, home.as_deref()),
        );
        let images = images.map_err(|source| directory_error(&config.root_directory, source))?;
        // Nobody may pull before: it would look like one that goes on.
        if let Err(error) = images.recover().await {
            tracing::warn!(error, "failed to find out what became of pulls that were cut off");
        }
        let of_machine = Machine::new(SharedMachine(machine.clone()));
        let capacity = of_machine.capacity().map_err(StartError::Capacity)?;
        let (events, task) =
            Recorder::start_on(env, client.clone(), "kubelet", &config.node_name, stop.clone());
        tasks.push(task);
        let of_node = node_events(&events, &config.node_name);
        if !cgroup_v2 {
            of_node.of_node(Severity::Warning, "CgroupV1", CGROUP_V1_WARNING.to_owned());
        }
        if swaps_memory_volumes {
            let (reason, told) = ("PossibleMemoryBackedVolumesOnDisk", MEMORY_VOLUMES_WARNING.to_owned());
            of_node.of_node(Severity::Warning, reason, told);
        }
        of_node.of_node(Severity::Normal, "Starting", "Starting kubelet.".to_owned());
        if !config.resolv_conf.as_os_str().is_empty()
            && let Some(event) = dns::resolv_conf_event(&config, &Resolv::read(&config.resolv_conf))
        {
            tracing::warn!(why = event.message, "the machine's resolv.conf does not fit pods");
            of_node.of_node(event.severity, event.reason, event.message);
        }
        let volumes = Arc::new(volumes(env, &config, &client, &objects, &machine));
        let pods = Pods::open(
            Parts {
                env: env.clone(),
                config: config.clone(),
                cri: cri.clone(),
                runtime_name,
                volumes: volumes.clone(),
                images: Arc::new(images),
                objects,
                hooks: Hooks::new(env),
                facts: known,
                host_ips: host_ips(&machine),
                events: of_node,
                runtime_state: runtime_state.clone(),
                metrics: metrics.clone(),
            },
            &changes,
        )
        .await?;
        let own = Arc::new(static_pods::sources(&config));
        tasks.extend(static_pods::follow(env, &config, &own, stop.clone()).await);
        let informers = Informers::new(env.clone(), client.clone(), stop.clone());
        let of_node = |resource: &client::Gvr, selector: String| {
            informers.scoped(Scope { field_selector: selector, ..Scope::all(resource) })
        };
        let own_pods = of_node(&PODS, format!("spec.nodeName={}", config.node_name));
        let own_node = of_node(&NODES, format!("metadata.name={}", config.node_name));
        let serving = Arc::new(ServingSlot::default());
        let renamed = Arc::new(Notify::new());
        let keeper =
            ServingCertificate { serving: serving.clone(), store: certificates, renamed: renamed.clone() };
        tasks.extend(keeper.keep(env, &config, &client, &machine, stop.clone())?);
        let of_file = config.authentication.client_ca_file.as_deref();
        let client_cas = Arc::new(ClientCas::open(of_file, client_ca)?);
        tasks.push(env.spawn("client CA file", client_cas.clone().follow(env.clone(), stop.clone())));
        let view = NodeView {
            pods: pods.clone(),
            static_pods: own.clone(),
            objects: own_pods.clone(),
            cri: cri.clone(),
            config: config.clone(),
            volumes: KeptStats::new(volumes),
            statuses: statuses.clone(),
            measured,
            metrics,
        };
        let view = Arc::new(view);
        let server = if let Some(listener) = listener {
            let of_server = server::Settings {
                listener,
                certificate: serving,
                client_cas,
                authentication: config.authentication.clone(),
                authorization: config.authorization.clone(),
                tls: config.tls.clone(),
                node_name: config.node_name.clone(),
                enabled: server::Enabled {
                    debugging: config.enable_debugging_handlers,
                    system_logs: config.enable_system_log_handler,
                },
                system_logs: PathBuf::from(SYSTEM_LOGS),
                flags,
            };
            let started = Server::start(env, of_server, view.clone(), client.clone(), stop.clone()).await;
            Some(started.map_err(StartError::Listener)?)
        } else {
            tracing::warn!(
                "enableServer is false: nobody can ask this node for logs, exec, attach or metrics"
            );
            None
        };
        let agent = Agent::new(
            env,
            AgentParts {
                name: config.node_name.clone(),
                ips: HostIps::Current({
                    let host_ips = host_ips(&machine);
                    Arc::new(move || host_ips().iter().map(IpAddr::to_string).collect())
                }),
                zone: String::new(),
                machine: Arc::new(of_machine),
                heartbeat: HeartbeatPeriods {
                    lease_seconds: config.node_lease_duration_seconds,
                    status: config.node_status_update_frequency,
                },
                capacity,
                client: client.clone(),
                events: Some(Arc::new(events)),
                runtime: pods.runtime(),
                admit: Some(admit::local(config.clone(), kernel, machine.clone())),
                static_pods: Some(own),
                longest_back_off: i64::try_from(config.crash_loop_max_restart_period.as_millis())
                    .unwrap_or(i64::MAX),
                observer: Some(statuses),
            },
        );
        let catalog = client.catalog();
        let fleet =
            node::fleet::start(env, vec![agent], &own_pods, &own_node, &catalog, controllers, stop.clone());
        tasks.extend(fleet);
        tasks.extend(informers.take_tasks());
        if config.healthz_port > 0 {
            let (address, port) = (config.healthz_address.clone(), config.healthz_port);
            tasks.push(env.spawn("health", health_port::run(env.clone(), address, port, stop.clone())));
        }
        let evictor = Evictor::new(env, pods.clone(), machine.clone());
        tasks.push(env.spawn("eviction", evictor.run(stop.clone())));
        let look = {
            let pods = pods.clone();
            move || pods.look_at_node()
        };
        tasks.push(env.spawn("runtime state", runtime_state.follow(cri.clone(), look, stop.clone())));
        tasks.push(env.spawn("runtime facts", look_again(env.clone(), machine.clone(), cri, stop.clone())));
        let watched = (env.clone(), machine.clone(), pods.clone());
        tasks.push(env.spawn("machine", async move {
            let (env, machine, pods) = watched;
            let changed = || {
                renamed.notify_one();
                pods.look_at_all();
            };
            machine.watch(&env, &node_ip, &changed, stop).await;
        }));
        Ok(Kubelet {
            pods,
            machine,
            env: env.clone(),
            config,
            own_node,
            server,
            #[cfg(test)]
            view,
            tasks,
        })
    }

    /// The machine goes down: pods end in the order of their priority, each group within its time.
    pub async fn end_pods(&self) {
        let periods = Periods::of(&self.config);
        if periods.is_empty() {
            return;
        }
        self.pods.begin_shutdown();
        let objects = self.pods.objects();
        let running = objects.iter().map(|pod| Pod::read(pod)).filter(|pod| !pod.is_over());
        let running = running.map(|pod| {
            let priority = pod.tree.at(&["spec", "priority"]).and_then(Value::as_int).unwrap_or(0);
            RunningPod {
                key: pod.uid.to_owned(),
                priority: i32::try_from(priority).unwrap_or(0),
                grace_seconds: pod.grace_seconds,
            }
        });
        shutdown::run(&self.env, &periods, running.collect(), &self.pods).await;
    }

    /// Until the cluster has shown this node its Node: made by it, or there already.
    pub async fn registered(&self) {
        let there = Arc::new(Notify::new());
        let told = there.clone();
        let handler: runtime::Handler = Box::new(move |_| told.notify_one());
        let registration = self.own_node.add_handler(None, handler);
        while self.own_node.store().get("", &self.config.node_name).is_none() {
            there.notified().await;
        }
        self.own_node.remove_handler(&registration);
    }

    /// Why it will take no pods, though it is there.
    pub fn warning(&self) -> Option<String> {
        eviction::full_disk(&self.config)
    }

    /// Before it is stopped: what it is at with its pods is done, if that does not take long.
    pub async fn settle(&self) {
        self.pods.settle(SETTLE).await;
    }

    /// Waits for everything that ends with the [`Stop`] it was started with.
    pub async fn stopped(self) {
        if let Some(server) = self.server {
            server.join().await;
        }
        for task in self.tasks {
            // A panic in it was already reported.
            let _ = task.await;
        }
    }
}

/// The certificate of the node's port: files that people gave, or one that the cluster signs.
struct ServingCertificate {
    serving: Arc<ServingSlot>,
    store: certificates::Store,
    /// The node may have other names now.
    renamed: Arc<Notify>,
}

impl ServingCertificate {
    fn keep(
        self,
        env: &Env,
        config: &Arc<Config>,
        client: &Arc<dyn Client>,
        machine: &Arc<LocalMachine>,
        stop: Stop,
    ) -> Result<Option<JoinHandle<()>>, StartError> {
        let ServingCertificate { serving, store, renamed } = self;
        if let Some((certificate, key)) = &config.tls_files {
            let files = FollowedFiles::open("the node's serving certificate", &[certificate, key])
                .map_err(|error| StartError::Certificate(error.to_string()))?;
            let take = move |contents: &[Vec<u8>]| serving.set_pem(&contents[0], &contents[1]);
            take(files.contents()).map_err(StartError::Certificate)?;
            let following = files.follow(env.clone(), async move { stop.stopped().await }, take);
            return Ok(Some(env.spawn("serving certificate files", following)));
        }
        let current = store.read(SERVER_FILE, env.now_seconds());
        if let Some(identity) = &current {
            serving.set(identity);
        }
        let machine = machine.clone();
        let keeper = Keeper {
            env: env.clone(),
            requests: Arc::new(client.clone()),
            purpose: Purpose::Serving,
            node: config.node_name.clone(),
            store,
            file: SERVER_FILE,
            names: Box::new(move || machine.serving_names()),
            changed: renamed,
            install: Box::new(move |identity| serving.set(identity)),
        };
        Ok(Some(env.spawn("serving certificate", keeper.run(current, stop))))
    }
}

/// The node as its port shows it.
struct NodeView {
    pods: Pods,
    static_pods: Arc<StaticPods>,
    /// With the status that was last written.
    objects: Arc<Informer>,
    cri: Arc<dyn cri::Runtime>,
    config: Arc<Config>,
    volumes: KeptStats,
    statuses: Arc<Statuses>,
    measured: Arc<MeasuredRuntime>,
    metrics: Arc<NodeMetrics>,
}

impl server::Node for NodeView {
    fn pods(&self) -> Vec<Arc<Value>> {
        let of_api = self.objects.store().list();
        // Who asks the node is shown the pods that run, not what shows them in the API.
        let of_api = of_api.iter().filter(|pod| !is_mirror(pod)).map(|pod| Arc::new(runtime::tree(pod)));
        let mut all: Vec<Arc<Value>> = self.static_pods.list().into_iter().chain(of_api).collect();
        let key = |pod: &Value| {
            (
                pod.str_at(&["metadata", "namespace"]).map(str::to_owned),
                pod.str_at(&["metadata", "name"]).map(str::to_owned),
            )
        };
        all.sort_by_cached_key(|pod| key(pod));
        all
    }
    fn find(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let own = self.static_pods.get(&Key::new(namespace, name)).map(|pod| pod.tree);
        let of_api = || self.objects.store().get(namespace, name).map(|pod| Arc::new(runtime::tree(&pod)));
        own.or_else(of_api).map(|pod| self.statuses.newest(pod))
    }
    fn sync_loop(&self) -> Result<(), String> {
        self.statuses.stuck()
    }
    fn runtime(&self) -> Arc<dyn cri::Runtime> {
        self.cri.clone()
    }
    fn running(&self, container_id: &str) -> Option<watch::Receiver<bool>> {
        self.pods.follow_container(container_id)
    }
    fn config(&self) -> Value {
        Value::Map(self.config.in_force())
    }
    fn root_directory(&self) -> PathBuf {
        self.config.root_directory.clone()
    }
    fn pod_logs_directory(&self) -> PathBuf {
        self.config.pod_logs_directory.clone()
    }
    fn volumes<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Vec<server::stats::VolumeStats>> {
        Box::pin(self.volumes.of(pod))
    }
    fn pods_group(&self) -> Option<PathBuf> {
        Some(root_group(&self.config))
    }
    fn pod_groups(&self) -> BTreeMap<String, PathBuf> {
        cgroups::PodCgroups::new(&self.config).pods()
    }
    fn metrics(&self, out: &mut String) {
        self.measured.write(out);
        self.metrics.write(out);
    }
    fn probe_metrics(&self, out: &mut String) {
        self.pods.write_probe_metrics(out);
    }
}

fn close_directory(directory: &Path) -> Result<(), StartError> {
    directories::close(directory).map_err(|source| directory_error(directory, source))
}

/// What is in it was a container's memory.
fn make_private_directory(directory: &Path) -> Result<(), StartError> {
    use std::os::unix::fs::PermissionsExt;
    close_directory(directory)?;
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(directory, private).map_err(|source| directory_error(directory, source))
}

fn directory_error(directory: &Path, source: std::io::Error) -> StartError {
    StartError::Directory { directory: directory.display().to_string(), source }
}

/// What the machine is, for those who make containers.
fn pod_facts(facts: &machine::Facts, runtime: &RuntimeFacts, cgroup_v2: bool) -> Facts {
    Facts {
        memory_capacity: facts.memory_bytes,
        cpu_capacity_milli: facts.cores.saturating_mul(1000),
        pid_capacity: facts.most_processes,
        cgroup_v2,
        swap_controller: cgroups::counts_swap(Path::new("/"), cgroup_v2),
        swap_capacity: facts.swap_bytes,
        hugepage_sizes: cgroups::hugepage_sizes(),
        masked_paths: cgroups::masked_paths(),
        handlers: runtime.handlers.clone(),
    }
}

fn volumes(
    env: &Env,
    config: &Arc<Config>,
    client: &Arc<dyn Client>,
    objects: &Arc<Objects>,
    machine: &Arc<LocalMachine>,
) -> Volumes {
    let machine = machine.clone();
    let allocatable = Arc::new(move || {
        let nobody = NodeIdentity { name: "", ip: "", zone: "" };
        Value::Map(machine.describe(&nobody).allocatable)
    });
    Volumes::new(
        env.clone(),
        config.clone(),
        client.clone(),
        objects.clone(),
        image::blocking_pool(),
        allocatable,
    )
}

/// As they are whenever they are asked for.
fn host_ips(machine: &Arc<LocalMachine>) -> AskHostIps {
    let machine = machine.clone();
    Arc::new(move || machine.addresses())
}

fn node_events(events: &Recorder, node: &str) -> NodeEvents {
    let events = events.clone();
    NodeEvents::new(node, move |about, annotations, severity, reason, message| {
        events.annotated_event_on(about, annotations, severity, reason, message);
    })
}

/// What the runtime says of itself and its images: told with the next report of the node.
async fn look_again(env: Env, machine: Arc<LocalMachine>, cri: Arc<dyn cri::Runtime>, stop: Stop) {
    loop {
        tokio::select! {
            () = stop.stopped() => return,
            () = env.sleep(LOOK) => {}
        }
        match RuntimeFacts::read(&*cri).await {
            Ok(runtime) => drop(machine.set_runtime(runtime)),
            Err(error) => tracing::debug!(%error, "the container runtime does not tell what it has"),
        }
    }
}

#[cfg(test)]
mod tests;
