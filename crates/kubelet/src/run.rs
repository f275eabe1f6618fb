//! A node with containers, put together: the agent, its pods and what they need, the HTTPS port.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use auth::CaBundle;
use auth::pki::Identity;
use client::Client;
use client::resources::{NODES, PODS};
use env::Env;
use futures_util::future::BoxFuture;
use node::agent::{Agent, HeartbeatPeriods, Parts as AgentParts};
use node::machine::{Describe, Machine, NodeIdentity};
use node::pod::Pod;
use node::static_pods::{StaticPods, is_mirror};
use object::Value;
use runtime::{ControllerRegistry, Informer, Informers, Key, Recorder, Scope, Severity, Stop};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::admit::{self, Kernel};
use crate::certificates::{self, Keeper, Purpose, SERVER_FILE, ServingSlot};
use crate::config::Config;
use crate::eviction::{self, Evictor};
use crate::generate::groups::root_group;
use crate::generate::{Resolv, cgroups};
use crate::health_port;
use crate::hooks::Hooks;
use crate::images::{ImageOptions, Images};
use crate::machine::{self, LocalMachine, RuntimeFacts, SharedMachine};
use crate::objects::Objects;
use crate::pod_logs::PodLogs;
use crate::pods::{Changes, Facts, NodeEvents, Parts, Pods};
use crate::preflight::{self, CGROUP_V1_WARNING};
use crate::server::{self, ClientCas, Server};
use crate::shutdown::{self, Periods, RunningPod};
use crate::static_pods;
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
    /// `None`: by `enableServer`.
    server: Option<Server>,
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
    #[error("cannot listen on {address}:{port}: {source}; choose another port with --port")]
    Listen { address: String, port: u16, source: std::io::Error },
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
        let Settings { mut config, client, cri, hostname, node_ip, client_ca, certificates, flags } =
            settings;
        if config.port == 0 {
            config.port = free_port(&config.address)?;
        }
        for directory in [config.root_directory.join("pods"), config.pod_logs_directory.clone()] {
            make_directory(&directory)?;
        }
        make_private_directory(&config.root_directory.join(server::CHECKPOINTS))?;
        for (field, why) in config.without_effect() {
            tracing::warn!(field, why, "a field of the KubeletConfiguration has no effect");
        }
        let root = Path::new("/");
        preflight::swap(root, &config)?;
        make_directory(&config.root_directory.join("pods"))?;
        let logs = PodLogs::of(&config).create();
        logs.map_err(|source| directory_error(&config.pod_logs_directory, source))?;
        preflight::kernel(root, &config)?;
        let cgroup_v2 = preflight::cgroup_v2(root, &config)?;
        let runtime = RuntimeFacts::read(&*cri).await?;
        config.cgroup_driver = preflight::cgroup_driver(env, &*cri, &config.cgroup_driver).await?.to_owned();
        let addresses = machine::node_addresses(&node_ip)?;
        let facts = machine::Facts::read(root, &config.root_directory);
        let runtime_name = runtime.name.clone();
        let known = pod_facts(&facts, &config, &runtime, cgroup_v2);
        let kernel = Kernel::read(root, &facts.kernel_version);
        let machine = Arc::new(LocalMachine::new(config.clone(), &hostname, facts, addresses.clone()));
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
        let of_machine = Machine::new(SharedMachine(machine.clone()));
        let capacity = of_machine.capacity().map_err(StartError::Capacity)?;
        let (events, task) =
            Recorder::start_on(env, client.clone(), "kubelet", &config.node_name, stop.clone());
        tasks.push(task);
        let of_node = node_events(&events, &config.node_name);
        if !cgroup_v2 {
            of_node.of_node(Severity::Warning, "CgroupV1", CGROUP_V1_WARNING.to_owned());
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
                host_ips: addresses.clone(),
                events: of_node,
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
        let of_server = server::Settings {
            address: config.address.clone(),
            port: config.port,
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
        let view = NodeView {
            pods: pods.clone(),
            static_pods: own.clone(),
            objects: own_pods.clone(),
            cri: cri.clone(),
            config: config.clone(),
            volumes: KeptStats::new(volumes),
        };
        let view = Arc::new(view);
        let server = if config.enable_server {
            let started = Server::start(env, of_server, view, client.clone(), stop.clone()).await;
            Some(started.map_err(|source| StartError::Listen {
                address: config.address.clone(),
                port: config.port,
                source,
            })?)
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
                ips: addresses.iter().map(IpAddr::to_string).collect(),
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
        tasks.push(env.spawn("runtime facts", look_again(env.clone(), machine.clone(), cri, stop.clone())));
        let watched = (env.clone(), machine.clone());
        tasks.push(env.spawn("machine", async move {
            let (env, machine) = watched;
            machine.watch(&env, &node_ip, &|| renamed.notify_one(), stop).await;
        }));
        Ok(Kubelet { pods, machine, env: env.clone(), config, server, tasks })
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

/// For several nodes on one machine, such as those of tests. Somebody else may take it before the node does, which then says so.
fn free_port(address: &str) -> Result<u16, StartError> {
    let bound = std::net::TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr());
    bound.map(|bound| bound.port()).map_err(|source| StartError::Listen {
        address: address.to_owned(),
        port: 0,
        source,
    })
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
            let read = |path: &Path| {
                std::fs::read(path)
                    .map_err(|error| StartError::Certificate(format!("{}: {error}", path.display())))
            };
            let identity = Identity::from_pem(&read(certificate)?, &read(key)?);
            serving.set(&identity.map_err(StartError::Certificate)?);
            return Ok(None);
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
        own.or_else(|| self.objects.store().get(namespace, name).map(|pod| Arc::new(runtime::tree(&pod))))
    }
    fn runtime(&self) -> Arc<dyn cri::Runtime> {
        self.cri.clone()
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
    fn probe_metrics(&self, out: &mut String) {
        self.pods.write_probe_metrics(out);
    }
}

fn make_directory(directory: &Path) -> Result<(), StartError> {
    std::fs::create_dir_all(directory).map_err(|source| directory_error(directory, source))
}

/// What is in it was a container's memory.
fn make_private_directory(directory: &Path) -> Result<(), StartError> {
    use std::os::unix::fs::PermissionsExt;
    make_directory(directory)?;
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(directory, private).map_err(|source| directory_error(directory, source))
}

fn directory_error(directory: &Path, source: std::io::Error) -> StartError {
    StartError::Directory { directory: directory.display().to_string(), source }
}

/// What the machine is, for those who make containers.
fn pod_facts(facts: &machine::Facts, config: &Config, runtime: &RuntimeFacts, cgroup_v2: bool) -> Facts {
    let resolv = std::fs::read_to_string(&config.resolv_conf).ok();
    let resolv = resolv.and_then(|text| Resolv::parse(&text).ok()).unwrap_or_default();
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
        resolv,
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

fn node_events(events: &Recorder, node: &str) -> NodeEvents {
    let events = events.clone();
    NodeEvents::new(node, move |about, severity, reason, message| {
        events.event_on(about, severity, reason, message);
    })
}

/// What the runtime says of itself and its images: told with the next report of the node.
async fn look_again(env: Env, machine: Arc<LocalMachine>, cri: Arc<dyn cri::Runtime>, stop: Stop) {
    loop {
        tokio::select! {
            () = stop.stopped() => return,
            () = env.sleep(LOOK) => {}
        }
        if let Ok(runtime) = RuntimeFacts::read(&*cri).await {
            machine.set_runtime(runtime);
        }
    }
}

#[cfg(test)]
mod tests;
