//! The node on this machine that `setpoint up` runs beside the control plane: real containers, by the embedded runtime or one
//! behind a socket.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use apiserver::{Api, LocalClients};
use auth::x509::ClientCa;
use clap::{Arg, ArgMatches, value_parser};
use client::Clients;
use container_runtime::{Embedded, Spawner};
use env::Env;
use kubelet::certificates;
use kubelet::config::Config;
use kubelet::run::Kubelet;
use network::addresses::Cidr;
use network::rules::Protocol;
use runtime::Stopper;

pub fn flags() -> [Arg; 8] {
    [
        Arg::new("node")
            .long("node")
            .value_name("auto|true|false")
            .value_parser(["auto", "true", "false"])
            .default_value("auto")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .help("Run a node with containers on this machine; auto: as root, unless there are simulated nodes"),
        Arg::new("node-name")
            .long("node-name")
            .value_name("NAME")
            .help("Name of that node [default: this machine's host name]"),
        Arg::new("node-port")
            .long("node-port")
            .value_name("PORT")
            .value_parser(value_parser!(u16))
            .default_value("10250")
            .help("Port of that node's own server, for logs and exec; 0 picks a free port"),
        Arg::new("node-config")
            .long("node-config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("A KubeletConfiguration file for that node; flags take precedence"),
        Arg::new("container-runtime-endpoint")
            .long("container-runtime-endpoint")
            .value_name("URL")
            .help("Socket of a CRI runtime for that node, such as unix:///run/containerd/containerd.sock [default: the embedded runtime]"),
        Arg::new("pod-cidr")
            .long("pod-cidr")
            .value_name("CIDR[,CIDR]")
            .default_value("10.244.0.0/24")
            .help("Addresses of that node's pods"),
        Arg::new("garbage-period")
            .long("garbage-period")
            .value_name("SECONDS")
            .value_parser(value_parser!(u64).range(1..))
            // kubelet has no such setting: for tests.
            .hide(true)
            .help("Time between two looks for containers, logs and directories nobody needs; images have five times that"),
        Arg::new("bridge")
            .long("bridge")
            .value_name("NAME")
            .default_value("setpoint0")
            .help("Bridge that connects that node's pods, and name of its nftables table and cgroup; one for each node of a machine"),
    ]
}

/// What the flags say about the node.
pub struct Settings {
    name: String,
    /// The content of a KubeletConfiguration file, and its name.
    config: Option<(PathBuf, Vec<u8>)>,
    port: u16,
    /// `None`: the embedded runtime.
    endpoint: Option<String>,
    pod_ranges: Vec<Cidr>,
    /// Of the pods of all nodes.
    cluster_ranges: Vec<Cidr>,
    bridge: String,
    garbage_period: Option<Duration>,
    /// All that the command was started with.
    flags: BTreeMap<String, String>,
}

/// What runs the containers of a node.
#[derive(Clone)]
pub struct Containers {
    pub cri: Arc<dyn cri::Runtime>,
    /// It ends with the node.
    embedded: Option<Embedded>,
}

impl Containers {
    pub async fn shutdown(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

impl Settings {
    /// `None`: there is no node. `simulated`: there are simulated ones.
    pub fn from_matches(matches: &ArgMatches, simulated: bool) -> Result<Option<Settings>> {
        // `server` has no such flags.
        let Ok(Some(wanted)) = matches.try_get_one::<String>("node") else { return Ok(None) };
        let is_root = rustix::process::geteuid().is_root();
        match wanted.as_str() {
            "false" => return Ok(None),
            "auto" if simulated || !is_root => return Ok(None),
            "true" if !is_root => {
                return Err(anyhow!(
                    "--node: containers need root; run as root, or use simulated nodes with --simulated-nodes 3"
                ));
            }
            _ => {}
        }
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        let config = match matches.get_one::<PathBuf>("node-config") {
            Some(file) => {
                let bytes = std::fs::read(file);
                let bytes =
                    bytes.with_context(|| format!("--node-config: cannot read {}", file.display()))?;
                // What is wrong with it is told before anything starts.
                let checked = Config::new("node", PathBuf::from("/")).with_file(&bytes);
                checked.map_err(|error| anyhow!("--node-config {}: {error}", file.display()))?;
                Some((file.clone(), bytes))
            }
            None => None,
        };
        let bridge = text("bridge");
        if bridge.is_empty() || bridge.len() > 11 || !bridge.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(anyhow!(
                "--bridge {bridge} is not a name for a bridge: use up to 11 letters and digits"
            ));
        }
        Ok(Some(Settings {
            name: text("node-name"),
            config,
            port: matches.get_one::<u16>("node-port").copied().unwrap_or(10250),
            endpoint: endpoint(matches)?,
            pod_ranges: ranges("pod-cidr", &text("pod-cidr"))?,
            cluster_ranges: ranges("cluster-cidr", &text("cluster-cidr"))?,
            bridge,
            garbage_period: matches.get_one::<u64>("garbage-period").copied().map(Duration::from_secs),
            flags: crate::flag_values::of(matches),
        }))
    }

    /// Where pods of this node reach the API server: at the gateway of their network, where that is ours.
    pub fn api_address(&self, port: u16) -> Option<SocketAddr> {
        let range = self.pod_ranges.first().filter(|_| self.endpoint.is_none())?;
        Some(SocketAddr::new(range.gateway(), port))
    }

    /// The runtime, with what an earlier run left.
    pub fn open_runtime(
        &self,
        env: &Env,
        data_dir: &Path,
        kubernetes: IpAddr,
        api: SocketAddr,
    ) -> Result<Containers> {
        let directory = directory(data_dir);
        let network = PodNetwork {
            bridge: &self.bridge,
            pod_ranges: &self.pod_ranges,
            cluster_ranges: &self.cluster_ranges,
        };
        match &self.endpoint {
            Some(endpoint) => open_socket(env, &directory, &self.bridge, endpoint),
            None => open_runtime(env, &directory, &network, Some((kubernetes, api))),
        }
    }
}

/// The socket that `--container-runtime-endpoint` names.
pub fn endpoint(matches: &ArgMatches) -> Result<Option<String>> {
    match matches.get_one::<String>("container-runtime-endpoint") {
        Some(endpoint) if !endpoint.starts_with("unix://") => Err(anyhow!(
            "--container-runtime-endpoint {endpoint} is not a socket: use unix:///run/containerd/containerd.sock"
        )),
        endpoint => Ok(endpoint.cloned()),
    }
}

/// A runtime behind a socket.
pub fn open_socket(env: &Env, directory: &Path, bridge: &str, endpoint: &str) -> Result<Containers> {
    let cri = cri::Client::new(env, endpoint).map_err(|error| anyhow!("{error}"))?;
    remember(directory, BRIDGE, bridge)?;
    remember(directory, ENDPOINT, endpoint)?;
    Ok(Containers { cri: Arc::new(cri), embedded: None })
}

/// Read by the reset, which has to undo what is outside of the directory.
fn remember(directory: &Path, name: &str, value: &str) -> Result<()> {
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(directory.join(name), value))
        .with_context(|| format!("cannot write to {}; choose another --data-dir", directory.display()))
}

/// What a flag says, one range of each family.
pub fn ranges(flag: &str, text: &str) -> Result<Vec<Cidr>> {
    let given = text.split(',').map(str::trim).filter(|range| !range.is_empty());
    let parse =
        |range| Cidr::parse(range).map_err(|error| anyhow!("--{flag} {range}: {error}; use 10.244.0.0/24"));
    given.map(parse).collect()
}

/// How the pods of a node are connected.
pub struct PodNetwork<'a> {
    pub bridge: &'a str,
    pub pod_ranges: &'a [Cidr],
    /// Pods of other nodes see those of this one under their own addresses; nobody else does.
    pub cluster_ranges: &'a [Cidr],
}

/// The embedded runtime of a node. `kubernetes`: the address of that Service, and where pods of the node find the API server instead.
pub fn open_runtime(
    env: &Env,
    directory: &Path,
    network: &PodNetwork<'_>,
    kubernetes: Option<(IpAddr, SocketAddr)>,
) -> Result<Containers> {
    let spawner = Spawner::start().context("cannot start the helper of the container runtime")?;
    remember(directory, BRIDGE, network.bridge)?;
    let same_family = kubernetes.filter(|(service, api)| service.is_ipv4() == api.is_ipv4());
    let redirects = same_family.map(|(service, api)| (Protocol::Tcp, SocketAddr::new(service, 443), api));
    let settings = container_runtime::Settings {
        pod_ranges: network.pod_ranges.to_vec(),
        cluster_ranges: network.cluster_ranges.to_vec(),
        redirects: redirects.into_iter().collect(),
        ..runtime_settings(directory.to_owned(), network.bridge)
    };
    let embedded = Embedded::open(env, settings, spawner)
        .map_err(|error| anyhow!("cannot start the container runtime: {error}"))?;
    Ok(Containers { cri: Arc::new(embedded.clone()), embedded: Some(embedded) })
}

/// All of the node, with the name of its bridge and the socket of its runtime, unless that is the embedded one.
pub const FOLDER: &str = "node";
const BRIDGE: &str = "bridge";
const ENDPOINT: &str = "container-runtime-endpoint";

fn directory(data_dir: &Path) -> PathBuf {
    std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned()).join(FOLDER)
}

fn runtime_settings(directory: PathBuf, bridge: &str) -> container_runtime::Settings {
    container_runtime::Settings {
        directory,
        bridge: bridge.to_owned(),
        table: bridge.to_owned(),
        pod_ranges: Vec::new(),
        cluster_ranges: Vec::new(),
        redirects: Vec::new(),
        mtu: 1500,
        registry_hosts: PathBuf::from("/etc/containerd/certs.d"),
        parallel_pulls: 3,
        cgroup: PathBuf::from(bridge),
        cdi_directories: container_runtime::CDI_DIRECTORIES.map(PathBuf::from).to_vec(),
        machine_root: PathBuf::from("/"),
    }
}

/// Ends the pods of a data directory and removes all they have on this machine: processes, mounts, cgroups, interfaces, rules, files.
pub fn reset(data_dir: &Path) -> Result<()> {
    reset_directory(&directory(data_dir))
}

/// The same of a node's own directory.
pub fn reset_directory(directory: &Path) -> Result<()> {
    let Ok(bridge) = std::fs::read_to_string(directory.join(BRIDGE)) else { return Ok(()) };
    if !rustix::process::geteuid().is_root() {
        return Err(anyhow!("{} holds a node with containers: run the reset as root", directory.display()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Ok(endpoint) = std::fs::read_to_string(directory.join(ENDPOINT)) {
        let removed = runtime.block_on(remove_pods(directory, endpoint.trim()));
        removed.with_context(|| format!("cannot remove the node's pods from {}", endpoint.trim()))?;
    }
    unmount_below(directory)?;
    let done = runtime.block_on(Embedded::reset(runtime_settings(directory.to_owned(), bridge.trim())));
    done.map_err(|error| anyhow!("cannot remove the node in {}: {error}", directory.display()))
}

/// From a runtime that others may use as well: only pods that have a directory here.
async fn remove_pods(directory: &Path, endpoint: &str) -> Result<()> {
    use cri::Runtime;
    let runtime = cri::Client::new(&Env::machine(), endpoint).map_err(|error| anyhow!("{error}"))?;
    let pods = directory.join("pods");
    let listed = runtime.list_pod_sandbox(cri::ListPodSandboxRequest { filter: None }).await?;
    for sandbox in listed.items {
        let uid = sandbox.metadata.map(|metadata| metadata.uid).unwrap_or_default();
        if uid.is_empty() || uid.contains('/') || !pods.join(&uid).is_dir() {
            continue;
        }
        let pod_sandbox_id = sandbox.id;
        let stop = cri::StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() };
        unless_gone(runtime.stop_pod_sandbox(stop).await)?;
        unless_gone(runtime.remove_pod_sandbox(cri::RemovePodSandboxRequest { pod_sandbox_id }).await)?;
    }
    Ok(())
}

/// The runtime may still be removing what the node asked it to before it ended.
fn unless_gone<T>(done: Result<T, cri::Error>) -> Result<(), cri::Error> {
    match done {
        Err(error) if error.code == cri::Code::NotFound => Ok(()),
        done => done.map(drop),
    }
}

/// Volumes in memory, and parts of volumes.
fn unmount_below(directory: &Path) -> Result<()> {
    let mounts =
        std::fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts of this machine")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let mut below: Vec<&Path> = points.map(Path::new).filter(|point| point.starts_with(directory)).collect();
    // The innermost first.
    below.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    for point in below {
        rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH)
            .with_context(|| format!("cannot unmount {}", point.display()))?;
    }
    Ok(())
}

/// The node, while it runs.
pub struct LocalNode {
    pub name: String,
    kubelet: Kubelet,
    containers: Containers,
    stopper: Stopper,
}

/// Starts the node. Pods of an earlier run are found again.
pub async fn start(
    env: &Env,
    api: &Arc<Api>,
    settings: &Settings,
    data_dir: &Path,
    client_ca: ClientCa,
    containers: Containers,
) -> Result<LocalNode> {
    let name =
        if settings.name.is_empty() { env.hostname().to_ascii_lowercase() } else { settings.name.clone() };
    let root = directory(data_dir);
    let mut config = Config::new(&name, root.clone());
    if let Some(period) = settings.garbage_period {
        config.garbage_period = period;
    }
    let mut config = match &settings.config {
        Some((file, bytes)) => {
            config.with_file(bytes).map_err(|error| anyhow!("--node-config {}: {error}", file.display()))?
        }
        None => config.without_file(),
    };
    config.port = settings.port;
    // What the flag says counts, whatever range the cluster gives the node.
    config.pod_cidr = settings.pod_ranges.iter().map(Cidr::to_string).collect::<Vec<_>>().join(",");
    config.container_runtime_endpoint = settings.endpoint.clone();
    config.cgroup_root = format!("/{}", settings.bridge);
    let clients = LocalClients::new(api.clone());
    let client = clients.user(&format!("system:node:{name}"), &["system:nodes"]);
    let (stopper, stop) = Stopper::new();
    let of_node = kubelet::run::Settings {
        config,
        client,
        cri: containers.cri.clone(),
        // As with kubelet's --hostname-override: the label and the address of that type, too.
        hostname: name.clone(),
        node_ip: String::new(),
        client_ca,
        certificates: certificates::Store::new(&root),
        flags: settings.flags.clone(),
    };
    let kubelet = Kubelet::start(env, of_node, &Arc::default(), stop)
        .await
        .map_err(|error| anyhow!("cannot start the node: {error}"))?;
    Ok(LocalNode { name, kubelet, containers, stopper })
}

impl LocalNode {
    /// What people should know of it.
    pub fn warning(&self) -> Option<String> {
        self.kubelet.warning()
    }

    /// In the order of their priority, each group within its time.
    pub async fn end_pods(&self) {
        self.kubelet.end_pods().await;
    }

    /// Its pods go on.
    pub async fn stop(self) {
        self.stopper.stop();
        self.kubelet.stopped().await;
        self.containers.shutdown().await;
    }
}
