//! The node on this machine that `setpoint up` runs beside the control plane: real containers, by the embedded runtime or one
//! behind a socket.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use apiserver::{Api, LocalClients};
use auth::CaBundle;
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

use crate::bridge_owner::{BridgeLock, Claim, Command, Owner};
use crate::{cli, controller_flags, node_flags};

pub fn flags() -> Vec<Arg> {
    let own = [
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
            .help("Port of that node's own server, for logs and exec; 0 picks a free port [default: 10250]"),
        Arg::new("node-config")
            .long("node-config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("A KubeletConfiguration file for that node; flags take precedence"),
        Arg::new("node-config-dir")
            .long("node-config-dir")
            .value_name("DIR")
            .value_parser(value_parser!(PathBuf))
            .help("Directory of KubeletConfiguration files (*.conf) that are merged into that of --node-config, in the order of their names"),
        Arg::new("container-runtime-endpoint")
            .long("container-runtime-endpoint")
            .value_name("URL")
            .help("Socket of a CRI runtime for that node, such as unix:///run/containerd/containerd.sock [default: the embedded runtime]"),
        Arg::new("pod-cidr")
            .long("pod-cidr")
            .value_name("CIDR[,CIDR]")
            .help("Addresses of that node's pods [default: 10.244.0.0/24]"),
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
    ];
    own.into_iter().chain(node_flags::flags()).collect()
}

/// The first part of what the control plane gives to nodes by default.
const POD_CIDR: &str = "10.244.0.0/24";

/// What the flags say about the node.
pub struct Settings {
    /// From the file and the flags; without a name it has the machine's.
    config: Config,
    node_ip: String,
    pod_ranges: Vec<Cidr>,
    /// Of the pods of all nodes.
    cluster_ranges: Vec<Cidr>,
    bridge: String,
    /// For whom the bridge is had.
    owner: Owner,
    /// All that the command was started with.
    flags: BTreeMap<String, String>,
}

/// What `--node=auto` goes by.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    pub is_root: bool,
    pub has_simulated_nodes: bool,
}

/// What runs the containers of a node.
#[derive(Clone)]
pub struct Containers {
    pub cri: Arc<dyn cri::Runtime>,
    /// It ends with the node.
    embedded: Option<Embedded>,
    /// Nobody else may have it as long as this is used.
    _bridge: BridgeLock,
}

/// What a node must have for itself before anything of it is touched: another one may be running on this machine.
pub struct Reserved {
    pub bridge: BridgeLock,
    /// `None`: by `enableServer`.
    pub listener: Option<TcpListener>,
}

/// The bridge and the node's port.
pub fn reserve(config: &Config, bridge: &str, owner: &Owner) -> Result<Reserved> {
    // Before this node's name is written to a bridge that it then does not use.
    check_runtime(&owner.directory, config.container_runtime_endpoint.as_deref())?;
    check_bridge(&owner.directory, bridge)?;
    // The bridge before the port: its refusal says whose all of it is.
    let bridge = BridgeLock::acquire(bridge, owner)?;
    let (address, port) = (&config.address, config.port);
    let listener = config.enable_server.then(|| kubelet::server::bind(address, port)).transpose();
    let listener = listener.map_err(|error| {
        let flag = owner.command.port_flag();
        anyhow!("cannot listen on {address}:{port}: {error}; choose another port for the node with {flag}")
    })?;
    Ok(Reserved { bridge, listener })
}

impl Containers {
    pub fn are_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Only in the embedded runtime. To be tried again after an error.
    pub async fn set_redirect(&self, redirect: Redirect) -> Result<(), cri::Error> {
        match &self.embedded {
            Some(embedded) => embedded.set_redirects(vec![redirect.rule()]).await,
            None => Ok(()),
        }
    }

    pub async fn shutdown(self) {
        if let Some(embedded) = self.embedded {
            embedded.shutdown().await;
        }
    }
}

impl Settings {
    /// `None`: there is no node.
    pub fn from_matches(matches: &ArgMatches, on: Circumstances) -> Result<Option<Settings>> {
        // `server` has no such flags.
        let Ok(Some(wanted)) = matches.try_get_one::<String>("node") else { return Ok(None) };
        match wanted.as_str() {
            "false" => return Ok(None),
            "auto" if on.has_simulated_nodes || !on.is_root => return Ok(None),
            "true" if !on.is_root => {
                return Err(anyhow!(
                    "--node: containers need root; run as root, or use simulated nodes with --simulated-nodes 3"
                ));
            }
            _ => {}
        }
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        let name = text("node-name");
        if !name.is_empty() {
            node_flags::check_name("node-name", &name)?;
        }
        let data_dir = node_flags::canonical(&cli::data_dir_of(matches));
        let owner = Owner { command: Command::Up, directory: directory(&data_dir), data_dir };
        let mut config = Config::new(&name, owner.directory.clone());
        if let Some(period) = matches.get_one::<u64>("garbage-period") {
            config.garbage_period = Duration::from_secs(*period);
        }
        // What is wrong with its files is told before anything starts.
        let mut config = node_flags::configured(config, matches, "node-config", "node-config-dir")?;
        node_flags::apply(matches, &mut config)?;
        // Only what somebody said on the command line counts more than the file.
        if let Some(port) = matches.get_one::<u16>("node-port") {
            config.port = *port;
        }
        if let Some(endpoint) = endpoint(matches)? {
            config.container_runtime_endpoint = Some(endpoint);
        }
        if let Some(cidr) = matches.get_one::<String>("pod-cidr") {
            config.pod_cidr = cidr.clone();
        }
        // The API server listens where pods find it: their range is known before the cluster could give one.
        if config.pod_cidr.is_empty() && config.container_runtime_endpoint.is_none() {
            config.pod_cidr = POD_CIDR.to_owned();
        }
        let bridge = node_flags::bridge(matches)?;
        // Nodes of one machine must not share it.
        if config.cgroup_root == "/" {
            config.cgroup_root = format!("/{bridge}");
        }
        Ok(Some(Settings {
            pod_ranges: ranges("pod-cidr", &config.pod_cidr)?,
            cluster_ranges: ranges("cluster-cidr", &controller_flags::cluster_cidr(matches))?,
            config,
            node_ip: text("node-ip"),
            bridge,
            owner,
            flags: crate::flag_values::of(matches),
        }))
    }

    /// The machine's, unless another was given.
    pub fn name(&self, hostname: &str) -> String {
        match self.config.node_name.is_empty() {
            true => hostname.to_ascii_lowercase(),
            false => self.config.node_name.clone(),
        }
    }

    /// The addresses of its pods that nobody else must be given.
    pub fn pod_cidrs(&self) -> impl Iterator<Item = String> {
        self.pod_ranges.iter().map(Cidr::to_string)
    }

    /// Where pods of this node reach the API server: at the gateway of their network, where that is ours. `kubernetes`: the address
    /// of that Service, which leads there.
    pub fn api_address(&self, kubernetes: IpAddr, port: u16) -> Option<SocketAddr> {
        let embedded = self.config.container_runtime_endpoint.is_none();
        let alike = self.pod_ranges.iter().find(|range| range.is_v6() == kubernetes.is_ipv6());
        let range = alike.or(self.pod_ranges.first()).filter(|_| embedded)?;
        Some(SocketAddr::new(range.gateway(), port))
    }

    /// What no other node of this machine may have.
    pub fn reserve(&self) -> Result<Reserved> {
        reserve(&self.config, &self.bridge, &self.owner)
    }

    /// The runtime, with what an earlier run left.
    pub async fn open_runtime(
        &self,
        env: &Env,
        lock: BridgeLock,
        kubernetes: IpAddr,
        api: SocketAddr,
    ) -> Result<Containers> {
        let directory = &self.config.root_directory;
        leave_earlier_bridge(directory, &self.bridge).await?;
        let network = PodNetwork {
            bridge: &self.bridge,
            lock,
            pod_ranges: &self.pod_ranges,
            cluster_ranges: &self.cluster_ranges,
        };
        match &self.config.container_runtime_endpoint {
            Some(endpoint) => open_socket(env, directory, network, endpoint),
            None => {
                let redirect = Redirect { kubernetes, api };
                open_runtime(env, &self.config, network, Some(redirect).filter(Redirect::is_possible))
            }
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
pub fn open_socket(
    env: &Env,
    directory: &Path,
    network: PodNetwork<'_>,
    endpoint: &str,
) -> Result<Containers> {
    let cri = cri::Client::new(env, endpoint).map_err(|error| anyhow!("{error}"))?;
    remember(directory, BRIDGE, network.bridge)?;
    remember(directory, ENDPOINT, endpoint)?;
    Ok(Containers { cri: Arc::new(cri), embedded: None, _bridge: network.lock })
}

/// Read by the reset, which has to undo what is outside of the directory.
fn remember(directory: &Path, name: &str, value: &str) -> Result<()> {
    kubelet::directories::make(directory)
        .and_then(|()| std::fs::write(directory.join(name), value))
        .with_context(|| format!("cannot write to {}; choose another --data-dir", directory.display()))
}

fn forget(directory: &Path, name: &str) -> Result<()> {
    env::file::unless_missing(std::fs::remove_file(directory.join(name)))
        .with_context(|| format!("cannot remove {name} in {}", directory.display()))
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
    pub lock: BridgeLock,
    pub pod_ranges: &'a [Cidr],
    /// Pods of other nodes see those of this one under their own addresses; nobody else does.
    pub cluster_ranges: &'a [Cidr],
}

/// From the address of the Service `kubernetes`, which is nowhere, to where pods of the node find the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    pub kubernetes: IpAddr,
    pub api: SocketAddr,
}

impl Redirect {
    /// Both are of one family.
    pub fn is_possible(&self) -> bool {
        self.kubernetes.is_ipv4() == self.api.is_ipv4()
    }

    fn rule(self) -> (Protocol, SocketAddr, SocketAddr) {
        (Protocol::Tcp, SocketAddr::new(self.kubernetes, 443), self.api)
    }
}

/// The embedded runtime of a node.
pub fn open_runtime(
    env: &Env,
    config: &Config,
    network: PodNetwork<'_>,
    redirect: Option<Redirect>,
) -> Result<Containers> {
    let directory = &config.root_directory;
    forget(directory, ENDPOINT)?;
    let spawner = Spawner::start().context("cannot start the helper of the container runtime")?;
    remember(directory, BRIDGE, network.bridge)?;
    if redirect.is_none() {
        tracing::warn!(
            "pods of this node do not reach the API server at the kubernetes Service: no address of the server is known that is of the \
             Service's family"
        );
    }
    let settings = container_runtime::Settings {
        pod_ranges: network.pod_ranges.to_vec(),
        cluster_ranges: network.cluster_ranges.to_vec(),
        redirects: redirect.into_iter().map(Redirect::rule).collect(),
        parallel_pulls: kubelet::images::parallel_pulls(config).unwrap_or(PULLS),
        ..runtime_settings(directory.to_owned(), network.bridge)
    };
    let embedded = Embedded::open(env, settings, spawner)
        .map_err(|error| anyhow!("cannot start the container runtime: {error}"))?;
    Ok(Containers { cri: Arc::new(embedded.clone()), embedded: Some(embedded), _bridge: network.lock })
}

/// All of the node, with the name of its bridge and the socket of its runtime, unless that is the embedded one.
pub const FOLDER: &str = "node";
const BRIDGE: &str = "bridge";
const ENDPOINT: &str = "container-runtime-endpoint";

pub fn directory(data_dir: &Path) -> PathBuf {
    node_flags::canonical(&data_dir.join(FOLDER))
}

/// Where the configuration has no limit: pods wait for no others' images.
const PULLS: usize = 1000;

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
        parallel_pulls: 1,
        cgroup: PathBuf::from(bridge),
        cdi_directories: container_runtime::CDI_DIRECTORIES.map(PathBuf::from).to_vec(),
        machine_root: PathBuf::from("/"),
    }
}

/// Ends the pods of a data directory and removes all they have on this machine: processes, mounts, cgroups, interfaces, rules, files.
pub fn reset(data_dir: &Path) -> Result<()> {
    reset_directory(&directory(data_dir))
}

/// What goes on running of a node that has stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum PodsLeft {
    Running(usize),
    /// Behind the socket of another runtime, which may not be there to be asked.
    Perhaps,
}

impl fmt::Display for PodsLeft {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodsLeft::Running(1) => out.write_str("One pod goes on running"),
            PodsLeft::Running(pods) => write!(out, "{pods} pods go on running"),
            PodsLeft::Perhaps => {
                out.write_str("Pods of its node may go on running in their container runtime")
            }
        }
    }
}

/// `directory`: the node's own.
pub fn pods_left(directory: &Path) -> Option<PodsLeft> {
    if endpoint_of(directory).is_some() {
        let mut pods = std::fs::read_dir(directory.join("pods")).into_iter().flatten();
        return pods.next().map(|_| PodsLeft::Perhaps);
    }
    Some(container_runtime::running_pods(directory)).filter(|pods| *pods > 0).map(PodsLeft::Running)
}

/// Where the pods of a node run, unless that is the embedded runtime.
fn endpoint_of(directory: &Path) -> Option<String> {
    std::fs::read_to_string(directory.join(ENDPOINT)).ok().map(|endpoint| endpoint.trim().to_owned())
}

/// The pods that run already would run a second time in another runtime.
fn check_runtime(directory: &Path, endpoint: Option<&str>) -> Result<()> {
    let before = endpoint_of(directory);
    // The same socket may be named in several ways.
    let socket = |endpoint: &str| node_flags::canonical(Path::new(endpoint.trim_start_matches("unix://")));
    if before.as_deref().map(socket) == endpoint.map(socket) || pods_left(directory).is_none() {
        return Ok(());
    }
    let directory = directory.display();
    Err(match before {
        Some(before) => anyhow!(
            "the pods of the node in {directory} run in {before}: start it with --container-runtime-endpoint {before} (and drain it \
             there, to change the runtime)"
        ),
        None => anyhow!(
            "the pods of the node in {directory} run in the embedded runtime: start it without --container-runtime-endpoint and without \
             containerRuntimeEndpoint in its configuration (and drain it there, to change the runtime)"
        ),
    })
}

/// Of an earlier run, if this one is to have another.
fn earlier_bridge(directory: &Path, bridge: &str) -> Option<String> {
    let before = std::fs::read_to_string(directory.join(BRIDGE)).unwrap_or_default();
    let before = before.trim();
    (!before.is_empty() && before != bridge).then(|| before.to_owned())
}

/// The pods that run already stay connected to theirs, which nobody would remove any more.
fn check_bridge(directory: &Path, bridge: &str) -> Result<()> {
    let Some(before) = earlier_bridge(directory, bridge).filter(|_| pods_left(directory).is_some()) else {
        return Ok(());
    };
    let directory = directory.display();
    Err(anyhow!(
        "the pods of the node in {directory} use the bridge {before}: start it with --bridge {before} (and drain it there, to change \
         the bridge)"
    ))
}

/// Removes the bridge of an earlier run, with the table and the cgroup of its name, before another one takes its addresses. No pods
/// are left there: [`reserve`] has seen to it.
pub async fn leave_earlier_bridge(directory: &Path, bridge: &str) -> Result<()> {
    let Some(before) = earlier_bridge(directory, bridge) else { return Ok(()) };
    let Claim::Ours(ours) = Claim::of(&before, directory)? else { return Ok(()) };
    // Of the directory nothing is to be removed.
    let settings = runtime_settings(directory.join("nothing"), &before);
    let removed = Embedded::reset(settings).await;
    removed.map_err(|error| anyhow!("cannot remove the bridge {before} of an earlier run: {error}"))?;
    tracing::info!(before, bridge, "the node has another bridge");
    ours.done().with_context(|| format!("cannot free the bridge {before}"))
}

/// What a reset of this directory deletes elsewhere, to be told before it is asked for.
pub fn deleted_elsewhere(directory: &Path) -> Option<String> {
    let volumes = kubelet::volumes::provisioned(directory).map_or(0, |names| names.len());
    let s = if volumes == 1 { "" } else { "s" };
    (volumes > 0).then(|| format!("the files of {volumes} claim{s} in {}", kubelet::volumes::PROVISIONED))
}

/// Directories outside of a node's own that a reset of it deletes.
pub fn directories_elsewhere(directory: &Path) -> Vec<PathBuf> {
    let names = kubelet::volumes::provisioned(directory).unwrap_or_default();
    names.iter().map(|name| Path::new(kubelet::volumes::PROVISIONED).join(name)).collect()
}

/// Whether a mount is one that pods of this node need: of a volume, or of a part of it.
pub fn is_own_mount(directory: &Path, mounted: &Path) -> bool {
    // `pods/UID/...`. What is mounted above, such as a disk for the images, was mounted by people.
    mounted.strip_prefix(directory).is_ok_and(|below| below.components().count() > 2)
}

/// The same of a node's own directory.
pub fn reset_directory(directory: &Path) -> Result<()> {
    let bridge = match std::fs::read_to_string(directory.join(BRIDGE)) {
        Ok(bridge) => bridge,
        // No other user may look into it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => String::new(),
        Err(_) => return Ok(()),
    };
    if !rustix::process::geteuid().is_root() {
        return Err(anyhow!("{} holds a node with containers: run the reset as root", directory.display()));
    }
    let bridge = bridge.trim();
    // Before anything is ended: the node may be running.
    let claim = Claim::of(bridge, directory)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(endpoint) = endpoint_of(directory) {
        let removed = runtime.block_on(remove_pods(directory, &endpoint));
        removed.with_context(|| {
            format!(
                "cannot remove the node's pods from {endpoint}; start that runtime and reset again, or delete {} to leave them to it",
                directory.join(ENDPOINT).display()
            )
        })?;
    }
    let settings = runtime_settings(directory.to_owned(), bridge);
    let failed = |error| anyhow!("cannot remove the node in {}: {error}", directory.display());
    // They still write to their volumes.
    runtime.block_on(Embedded::end_pods(settings.clone())).map_err(failed)?;
    // Volumes in memory, and parts of volumes.
    container::mounts::detach_below(directory).context("cannot unmount the volumes of pods")?;
    kubelet::volumes::remove_provisioned(directory).context("cannot remove the volumes of claims")?;
    kubelet::generate::forget_user_ranges(directory).context("cannot give back the users of pods")?;
    kubelet::pod_logs::remove_shared(directory).context("cannot remove the logs of pods")?;
    match claim {
        Claim::Ours(ours) => {
            runtime.block_on(Embedded::reset(settings)).map_err(failed)?;
            ours.done().with_context(|| format!("cannot free the bridge {bridge}"))
        }
        Claim::AnotherNodes(owner) => {
            println!("The bridge {bridge} stays: it belongs to the node of {}.", owner.data_dir.display());
            runtime.block_on(Embedded::reset_beside_another(settings)).map_err(failed)
        }
    }
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
    client_ca: Arc<CaBundle>,
    (containers, listener): (Containers, Option<TcpListener>),
) -> Result<LocalNode> {
    let mut config = settings.config.clone();
    config.node_name = settings.name(env.hostname());
    node_flags::warn_about_shutdown(&config);
    let (name, root) = (config.node_name.clone(), config.root_directory.clone());
    let clients = LocalClients::new(api.clone());
    let client = clients.user(&format!("system:node:{name}"), &["system:nodes"]);
    let (stopper, stop) = Stopper::new();
    let of_node = kubelet::run::Settings {
        config,
        client,
        cri: containers.cri.clone(),
        // As with kubelet's --hostname-override: the label and the address of that type, too.
        hostname: name.clone(),
        node_ip: settings.node_ip.clone(),
        listener,
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

    /// Before it stops: what it is at is done.
    pub async fn settle(&self) {
        self.kubelet.settle().await;
    }

    /// Its pods go on.
    pub async fn stop(self) {
        self.stopper.stop();
        self.kubelet.stopped().await;
        self.containers.shutdown().await;
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// As the runtime has it, as long as this thread lives and what is returned is there.
    pub fn run_a_pod(directory: &Path) -> std::os::unix::net::UnixListener {
        let sandbox = directory.join("sandboxes/pod");
        std::fs::create_dir_all(&sandbox).unwrap();
        std::fs::write(sandbox.join("ready"), "").unwrap();
        // By its name, this thread is the pod's helper.
        std::fs::write("/proc/thread-self/comm", "setpoint-pod").unwrap();
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        std::fs::write(sandbox.join("helper.pid"), thread.file_name().unwrap().as_encoded_bytes()).unwrap();
        std::os::unix::net::UnixListener::bind(sandbox.join("helper.sock")).unwrap()
    }

    fn settings_on(on: Circumstances, flags: &[&str]) -> Result<Option<Settings>> {
        let args = ["setpoint", "up", "--data-dir", "/nowhere"].iter().chain(flags);
        let matches = cli::command().try_get_matches_from(args).unwrap();
        Settings::from_matches(matches.subcommand().unwrap().1, on)
    }

    fn settings(flags: &[&str]) -> Result<Settings> {
        let on = Circumstances { is_root: true, has_simulated_nodes: false };
        Ok(settings_on(on, flags)?.expect("a node"))
    }

    #[test]
    fn root_has_a_node_unless_there_are_others_or_it_is_not_wanted() {
        // As root, as root beside simulated nodes, as somebody else, as somebody else beside simulated nodes.
        for (flags, expected) in [
            (&[][..], ["node", "none", "none", "none"]),
            (&["--node=auto"], ["node", "none", "none", "none"]),
            (&["--node=false"], ["none", "none", "none", "none"]),
            (&["--node=true"], ["node", "node", "refused", "refused"]),
            (&["--node"], ["node", "node", "refused", "refused"]),
        ] {
            let on = [(true, false), (true, true), (false, false), (false, true)];
            let made = on.map(|(is_root, has_simulated_nodes)| {
                match settings_on(Circumstances { is_root, has_simulated_nodes }, flags) {
                    Ok(Some(_)) => "node",
                    Ok(None) => "none",
                    Err(error) => {
                        assert!(error.to_string().starts_with("--node: containers need root; "), "{error}");
                        "refused"
                    }
                }
            });
            assert_eq!(made, expected, "{flags:?}");
        }
    }

    #[test]
    fn pods_that_run_keep_their_runtime_and_their_bridge() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path();
        let told = |checked: Result<()>| checked.err().map(|error| error.to_string()).unwrap_or_default();
        let runtime = |endpoint: Option<&str>| told(check_runtime(directory, endpoint));
        let socket = format!("unix://{}/x.sock", directory.display());
        let same = format!("unix://{}/./x.sock", directory.display());
        std::os::unix::fs::symlink(directory.join("x.sock"), directory.join("link.sock")).unwrap();
        std::fs::write(directory.join("x.sock"), "").unwrap();
        let linked = format!("unix://{}/link.sock", directory.display());

        remember(directory, BRIDGE, "b0").unwrap();
        remember(directory, ENDPOINT, &socket).unwrap();
        assert_eq!((runtime(None), told(check_bridge(directory, "b1"))), (String::new(), String::new()));
        std::fs::create_dir_all(directory.join("pods/uid")).unwrap();
        for endpoint in [&socket, &same, &linked] {
            assert_eq!(runtime(Some(endpoint)), "");
        }
        for other in [None, Some("unix:///run/other.sock")] {
            let told = runtime(other);
            assert!(told.contains(&format!("with --container-runtime-endpoint {socket} (")), "{told}");
        }
        assert_eq!(told(check_bridge(directory, "b0")), "");
        assert!(told(check_bridge(directory, "b1")).contains("start it with --bridge b0 ("));

        forget(directory, ENDPOINT).unwrap();
        assert_eq!(runtime(Some(&socket)), "", "it has no pods in the embedded runtime");
        let _pod = run_a_pod(directory);
        assert_eq!(runtime(None), "");
        let without = "without --container-runtime-endpoint and without containerRuntimeEndpoint in";
        assert!(runtime(Some(&socket)).contains(without));
    }

    #[test]
    fn flags_that_were_given_count_more_than_the_file_and_defaults_less() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nport: 10777\npodCIDR: 10.9.0.0/24\n\
                    cgroupRoot: /own\n";
        std::fs::write(file.path(), text).unwrap();
        let path = file.path().to_str().unwrap();
        let of = |made: &Settings| {
            (made.config.port, made.config.pod_cidr.clone(), made.config.cgroup_root.clone())
        };

        let read = settings(&["--node-config", path]).unwrap();
        assert_eq!(of(&read), (10777, "10.9.0.0/24".to_owned(), "/own".to_owned()));
        assert_eq!(read.pod_ranges.len(), 1);
        let given = ["--node-config", path, "--node-port", "0", "--pod-cidr", "10.8.0.0/24"];
        assert_eq!(of(&settings(&given).unwrap()), (0, "10.8.0.0/24".to_owned(), "/own".to_owned()));
        let plain = settings(&[]).unwrap();
        assert_eq!(of(&plain), (10250, POD_CIDR.to_owned(), "/setpoint0".to_owned()));
        assert_eq!(plain.config.container_runtime_endpoint, None);

        // The runtime is chosen by what the file says, too.
        std::fs::write(file.path(), text.to_owned() + "containerRuntimeEndpoint: unix:///run/x.sock\n")
            .unwrap();
        let cri = settings(&["--node-config", path]).unwrap();
        assert_eq!(cri.config.container_runtime_endpoint.as_deref(), Some("unix:///run/x.sock"));
        let kubernetes = "10.96.0.1".parse().unwrap();
        assert_eq!((cri.api_address(kubernetes, 1), cri.pod_cidrs().count()), (None, 1));
        let given = ["--node-config", path, "--container-runtime-endpoint", "unix:///run/y.sock"];
        let given = settings(&given).unwrap().config.container_runtime_endpoint;
        assert_eq!(given.as_deref(), Some("unix:///run/y.sock"));
    }

    #[test]
    fn pods_of_all_nodes_see_those_of_this_one_under_their_own_addresses() {
        let ranges = |flags: &[&str]| {
            let made = settings(flags).unwrap();
            made.cluster_ranges.iter().map(Cidr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(ranges(&[]), ["10.244.0.0/16"], "what the control plane gives to nodes");
        assert_eq!(ranges(&["--cluster-cidr", "10.8.0.0/14,fd00::/48"]), ["10.8.0.0/14", "fd00::/48"]);
        assert!(ranges(&["--allocate-node-cidrs=false"]).is_empty(), "nobody knows them");
        let given = ["--allocate-node-cidrs=false", "--cluster-cidr", "10.8.0.0/14"];
        assert_eq!(ranges(&given), ["10.8.0.0/14"]);
    }

    #[test]
    fn the_node_registers_as_a_joined_one_does() {
        let flags =
            ["--node-ip", "10.0.0.5", "--node-labels", "a=b", "--register-with-taints", "x:NoSchedule"];
        let made = settings(&flags).unwrap();
        assert_eq!((made.node_ip.as_str(), made.config.node_labels.len()), ("10.0.0.5", 1));
        assert_eq!(made.config.register_with_taints, ["x:NoSchedule"]);
        for (flags, told) in [
            (["--bridge", "a-bridge"], "--bridge a-bridge is not a name for a bridge"),
            (["--node-labels", "a b"], "--node-labels a b is not a label"),
            (["--node-name", "No_Name"], "--node-name No_Name is not a name"),
        ] {
            let error = settings(&flags).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(told), "{error}");
        }
    }
}
