//! `setpoint up` and `setpoint server`: build the control plane from the flags, run it, drain it.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use apiserver::{
    Advertised, Api, ApiConfig, CertificateRotation, ClusterSettings, KubeletClientCertificate, Limits,
    LocalClients, Pools, PortRange, ProxyClientCertificate, Server, ServerError, ServiceRanges, Tls,
    WriteKubeconfig,
};
use auth::pki::{FrontProxy, ServingCertificate};
use auth::{CaBundle, Pki, RequestHeaders, Tokens};
use catalog::Catalog;
use clap::ArgMatches;
use client::Clients;
use env::Env;
use plane::ServingNames;
use store::Engine;
use table::Table;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::access::{self, AccessSettings};
use crate::followed::Followed;
use crate::front_proxy::FrontProxySettings;
use crate::identity::IdentitySettings;
use crate::kubelet_client::KubeletClientSettings;
use crate::node::SIGPWR;
use crate::parent::Parent;
use crate::pid_file::PidFile;
use crate::store_choice::{EtcdFiles, StoreChoice};
use crate::{
    advertise, backup, bootstrap, cli, cluster_network, controller_flags, controllers, descriptors, detach,
    join_objects, kubeconfig, local_node, memory,
};

/// Address space of each thread's stack, not resident memory: enough for the deepest document, since growing the stack
/// (`object::deep`) costs a system call for each branch at that depth.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// Threads that wait for files and processes, of the store and of pods.
const BLOCKING_THREADS: usize = 64;
/// How often the health of the store is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Limit for what comes after the node has settled, which takes up to four seconds; includes the server's drain of up to four.
const SHUTDOWN: Duration = Duration::from_millis(4800);

/// The controllers' part of it, to finish running reconciles.
const SHUTDOWN_CONTROLLERS: Duration = Duration::from_millis(800);

const LISTEN: &str = "--listen";

pub struct Settings {
    data_dir: PathBuf,
    listen: String,
    store: StoreChoice,
    kubeconfig: PathBuf,
    token_file: Option<PathBuf>,
    admission: apiserver::AdmissionChoice,
    admission_configuration: apiserver::AdmissionConfiguration,
    access: AccessSettings,
    identity: IdentitySettings,
    kubelet_client: KubeletClientSettings,
    front_proxy: FrontProxySettings,
    services: ServiceRanges,
    advertise: Option<IpAddr>,
    controllers: plane::Settings,
    /// The node on this machine.
    node: Option<local_node::Settings>,
    /// Of the pods of all nodes; empty: not known.
    cluster_cidr: String,
    limits: Limits,
    log: String,
    /// Started by `up --detach`, which waits for the announcement.
    detached: bool,
    /// Whether it says on standard output that it is ready, and what to do next.
    announced: bool,
    /// Who started it, if it ends with them.
    parent: Option<Parent>,
    /// What the address to listen at is given by, for messages.
    listen_flag: &'static str,
    /// Whether metrics.k8s.io is served, and nodes are asked for what it shows.
    resource_metrics: bool,
}

impl Settings {
    pub fn from_matches(matches: &ArgMatches) -> Result<Settings> {
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        // `--flag=` alone is an empty list; an empty name in a longer list is an error, reported later.
        let list = |name: &str| -> Vec<String> {
            let flags = matches.get_occurrences::<String>(name).into_iter().flatten();
            let flags = flags.map(|values| values.map(|v| v.trim().to_owned()).collect::<Vec<String>>());
            flags.filter(|values| *values != [""]).flatten().collect()
        };
        let data_dir = cli::data_dir_of(matches);
        let listen = text("listen");
        listen.parse::<SocketAddr>().map_err(|_| {
            anyhow!("--listen {listen} is not an address: use IP:PORT, such as 127.0.0.1:6443 or 127.0.0.1:0")
        })?;
        let node_ports = PortRange::parse(&text("service-node-port-range"))
            .map_err(|error| anyhow!("--service-node-port-range: {error}"))?;
        let services = ServiceRanges::new(&text("service-cluster-ip-range"), node_ports)
            .map_err(|error| anyhow!("--service-cluster-ip-range: {error}"))?;
        let advertise = matches.get_one::<String>("advertise-address");
        let advertise = advertise.map(|ip| advertise::parse(ip)).transpose()?;
        let kubeconfig = matches.get_one::<PathBuf>("kubeconfig").cloned();
        let file = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let limit = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(0);
        let seats = limit("max-requests-inflight").saturating_add(limit("max-mutating-requests-inflight"));
        if seats == 0 {
            return Err(anyhow!(
                "--max-requests-inflight and --max-mutating-requests-inflight are both 0; at least one must be greater than 0"
            ));
        }
        let limits = Limits { seats, ..Limits::default() };
        let etcd_files = EtcdFiles {
            ca: file("etcd-cafile"),
            certificate: file("etcd-certfile"),
            key: file("etcd-keyfile"),
        };
        let mut controllers = controllers::settings(matches)?;
        let on = local_node::Circumstances {
            is_root: rustix::process::geteuid().is_root(),
            has_simulated_nodes: controllers.nodes.is_some(),
        };
        let node = local_node::Settings::from_matches(matches, on)?;
        if let Some(node) = &node {
            let name = node.name(Env::machine().hostname());
            controllers::reserve_cidrs(&mut controllers, &name, node.pod_cidrs());
        }
        Ok(Settings {
            limits,
            node,
            cluster_cidr: controller_flags::cluster_cidr(matches),
            kubeconfig: kubeconfig.unwrap_or_else(|| kubeconfig::default_path(&data_dir)),
            store: StoreChoice::parse(&text("store"), etcd_files)?,
            admission: apiserver::AdmissionChoice {
                enable: list("enable-admission-plugins"),
                disable: list("disable-admission-plugins"),
            },
            admission_configuration: admission_configuration(file("admission-control-config-file"))?,
            services,
            advertise,
            token_file: matches.get_one::<PathBuf>("token-file").cloned(),
            access: AccessSettings::from_matches(matches)?,
            identity: IdentitySettings::from_matches(matches)?,
            kubelet_client: KubeletClientSettings::from_matches(matches)?,
            front_proxy: FrontProxySettings::from_matches(matches)?,
            controllers,
            log: text("log"),
            // `server` has no such flag.
            detached: matches.try_get_one::<bool>("detached").is_ok_and(|flag| flag == Some(&true)),
            announced: true,
            parent: None,
            listen_flag: LISTEN,
            resource_metrics: true,
            data_dir,
            listen,
        })
    }

    /// As kube-apiserver for a test: nobody reads an announcement, it ends with the test that started it, and it is the API server
    /// alone.
    pub fn run_for_tests(&mut self, sync: bool, parent: Option<Parent>) {
        if let StoreChoice::Disk { sync: synced } = &mut self.store {
            *synced = sync;
        }
        (self.announced, self.parent) = (false, parent);
        self.listen_flag = "--bind-address and --secure-port";
        self.resource_metrics = false;
        self.cluster_cidr.clear();
    }

    /// Whether pods run in this process.
    fn has_nodes(&self) -> bool {
        self.controllers.nodes.is_some() || self.node.is_some()
    }

    pub fn log_filter(&self) -> Result<Targets> {
        log_filter(&self.log)
    }
}

fn admission_configuration(path: Option<PathBuf>) -> Result<apiserver::AdmissionConfiguration> {
    let loaded = path.map(|path| apiserver::AdmissionConfiguration::load(&path)).transpose();
    Ok(loaded
        .map_err(|error| anyhow!("--admission-control-config-file: failed to read plugin config: {error}"))?
        .unwrap_or_default())
}

fn log_filter(log: &str) -> Result<Targets> {
    log.parse().with_context(|| format!("--log {log} is not a filter: use error, warn, info, debug or trace"))
}

/// To standard error.
pub fn start_log(log: &str) -> Result<()> {
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines =
        tracing_subscriber::fmt::layer().with_target(false).with_ansi(colours).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(lines.with_filter(log_filter(log)?)).init();
    Ok(())
}

/// Creates the data directory if it does not exist.
pub fn make_data_dir(data_dir: &Path) -> Result<()> {
    std::fs::create_dir_all(data_dir).with_context(|| {
        format!("cannot create the data directory {}; choose another with --data-dir", data_dir.display())
    })
}

pub fn run(settings: Settings) -> Result<()> {
    settings.log_filter()?;
    if settings.detached {
        detach::leave_terminal()?;
    }
    start_log(&settings.log)?;
    let ordinary = threads("setpoint", memory::collect_all)?;
    let priority = threads("setpoint-prio", memory::collect_own)?;
    let pools = Pools { ordinary: ordinary.handle().clone(), priority: priority.handle().clone() };
    let stopped_by = ordinary.block_on(serve(settings, pools));
    // Before the ordinary pool: its connections may hold timers of that one.
    priority.shutdown_timeout(Duration::from_millis(100));
    stopped_by
}

/// A tokio runtime with one thread per core.
pub fn threads(name: &str, before_waiting: fn()) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        // Each keeps some memory of its own; a node that starts a hundred pods at once would have as many.
        .max_blocking_threads(BLOCKING_THREADS)
        .on_thread_park(before_waiting)
        .build()
        .context("cannot start the tokio runtime")
}

/// Start, run, drain.
async fn serve(settings: Settings, pools: Pools) -> Result<()> {
    let env = Env::machine();
    // Signals first: one that arrives during startup must stop it cleanly too.
    let mut signals = Signals::listen(&env, settings.parent)?;
    // Before files are opened and connections accepted.
    let descriptors = descriptors::raise();
    let tokens = load_tokens(&settings)?;
    make_data_dir(&settings.data_dir)?;
    // Held until exit: `setpoint down` finds the process by it.
    let _pid_file = PidFile::acquire(&settings.data_dir)?;
    backup::check_restored(&settings.data_dir)?;

    // The store before anything is written: its lock keeps a second server out. An unavailable etcd is tried for ever.
    let catalog = if settings.resource_metrics { Catalog::with_metrics() } else { Catalog::builtin() };
    let table = Table::new(Arc::new(catalog), env.clone());
    let opening = settings.store.open(&settings.data_dir, &env, &table);
    let Some(engine) = signals.interrupts(opening).await.transpose()? else { return Ok(()) };
    kubeconfig::check(&settings.kubeconfig)?;

    let mut keys = Keys::open(&settings, &env)?;
    let api = new_api(&settings, &env, table, engine.clone(), tokens, &keys)?;
    let tls = Tls {
        certificate: keys.certificate.clone(),
        client_ca: keys.client_ca.clone(),
        request_header_ca: Some(keys.request_headers.authority().clone()),
    };
    // Before the node's runtime is opened, which touches what it finds.
    let reserved = settings.node.as_ref().map(local_node::Settings::reserve).transpose()?;
    let mut server = Server::bind(api.clone(), &settings.listen, tls)
        .await
        .map_err(|error| explain_listen(error, settings.listen_flag))?;
    server.limit_connections(descriptors.connections);
    server.run_in(pools.clone());
    let bound = server.address().context("the listening socket has no address")?;
    let address = SocketAddr::new(keys.advertised, bound.port());
    api.advertise(Advertised { address, host: env.hostname().to_owned() });
    // Only after binding: if the port is in use, the kubeconfig may belong to the server listening there.
    let kubeconfigs = [kubeconfig::copy_path(&settings.data_dir), settings.kubeconfig.clone()];
    for path in [&kubeconfigs[1], &kubeconfigs[0]] {
        kubeconfig::clear(path)?;
    }
    let Some(bootstrapped) = signals.interrupts(bootstrap::run(&env, &api, &engine)).await else {
        // The next start completes the bootstrap.
        let _ = env.timeout(SHUTDOWN, engine.close()).await;
        return Ok(());
    };
    let incomplete = bootstrapped?;
    let url = server_url(bound);
    api.set_external_address(url.trim_start_matches("https://"));
    for path in &kubeconfigs {
        match kubeconfig::write(path, &keys.admin_kubeconfig(&url)) {
            // On a full disk the server still serves clients that have a kubeconfig.
            Err(error) if is_full_disk(&error) => tracing::error!("{error:#}"),
            written => written?,
        }
    }
    descriptors.log();
    let containers = match settings.node.as_ref().zip(reserved) {
        Some(node) => Some(open_containers(&env, &settings, node, bound, &mut server).await?),
        None => None,
    };
    let serving = env.spawn("server", server.run());
    let plane = controllers::start(
        &env,
        &api,
        &settings.controllers,
        keys.serving_names(),
        settings.store.is_shared(),
    );
    let publishing = (!settings.cluster_cidr.is_empty()).then(|| {
        let client = LocalClients::new(api.clone()).user("system:apiserver", &["system:masters"]);
        env.spawn(
            "cluster-network",
            cluster_network::publish(env.clone(), client, settings.cluster_cidr.clone()),
        )
    });
    let client_ca = keys.client_ca.clone();
    let node = match settings.node.as_ref().zip(containers) {
        Some((node, containers)) => Some(local_node::start(&env, &api, node, client_ca, containers).await?),
        None => None,
    };
    if settings.resource_metrics {
        // Nodes of this machine, and those that join.
        env.spawn("node-metrics", api.clone().scrape_kubelets());
    }
    if settings.announced {
        let missing = incomplete.as_ref().map(|incomplete| {
            let why = &incomplete.why;
            format!("initial objects are missing and are tried again, and /readyz fails until then: {why}")
        });
        let warnings = missing.into_iter().chain(node.as_ref().and_then(|node| node.warning()));
        announce(&settings, &url, node.as_ref().map(|node| &*node.name), warnings);
    }
    let followed = std::mem::take(&mut keys.followed).into_iter();
    let mut until_shutdown: Vec<_> = followed
        .map(|files| env.spawn("followed-files", files.follow(env.clone(), api.shutdown())))
        .collect();
    let rotation = keys.rotation(kubeconfigs, url);
    until_shutdown.push(env.spawn("certificate-rotation", rotation.run(env.clone(), api.shutdown())));

    let failed = signals.interrupts(supervise(&env, &api, &engine, &pools)).await;
    let stopped_by = failed.map_or(Ok(()), Err);
    let bootstrapping = incomplete.map(|incomplete| incomplete.completing);
    for task in [bootstrapping, publishing].into_iter().flatten() {
        task.abort();
    }
    if let Some(node) = node.as_ref().filter(|_| signals.going_down) {
        tracing::info!("the machine goes down: ending pods");
        node.end_pods().await;
    }
    if let Some(node) = &node {
        node.settle().await;
    }
    tracing::info!("stopping: ending controllers and watches, draining requests");
    let stopping = async {
        if let Some(node) = node {
            let _ = env.timeout(SHUTDOWN_CONTROLLERS, node.stop()).await;
        }
        // Controllers before the server, so that leases can still be released.
        let _ = env.timeout(SHUTDOWN_CONTROLLERS, plane.stop()).await;
        api.begin_shutdown();
        let _ = serving.await;
        for task in until_shutdown {
            // A panic in it was already reported.
            let _ = task.await;
        }
        engine.close().await;
    };
    // An unavailable etcd must not delay the exit: every acknowledged write is in it already.
    if env.timeout(SHUTDOWN, stopping).await.is_err() {
        tracing::warn!("the store did not close in time");
    }
    tracing::info!("stopped");
    stopped_by
}

/// The runtime, and the API server where its pods can reach it.
async fn open_containers(
    env: &Env,
    settings: &Settings,
    (node, reserved): (&local_node::Settings, local_node::Reserved),
    bound: SocketAddr,
    server: &mut Server,
) -> Result<(local_node::Containers, Option<TcpListener>)> {
    let everywhere = bound.ip().is_unspecified();
    let kubernetes = settings.services.first_address();
    let api = node.api_address(kubernetes, bound.port()).unwrap_or(bound);
    let containers = node.open_runtime(env, reserved.bridge, kubernetes, api).await?;
    if !everywhere && bound != api {
        server
            .listen_also(&api.to_string())
            .await
            .map_err(|error| explain_listen(error, settings.listen_flag))?;
    }
    Ok((containers, reserved.listener))
}

/// SIGTERM, SIGINT, and the end of who started it: each stops the server, also while it starts.
struct Signals {
    env: Env,
    parent: Option<Parent>,
    terminate: Signal,
    interrupt: Signal,
    power: Signal,
    /// The machine goes down: pods end with it.
    going_down: bool,
}

impl Signals {
    fn listen(env: &Env, parent: Option<Parent>) -> Result<Signals> {
        Ok(Signals {
            env: env.clone(),
            parent,
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
            power: signal(SignalKind::from_raw(SIGPWR)).context("cannot listen for SIGPWR")?,
            going_down: false,
        })
    }

    /// The outcome of `work`, or `None` if a signal comes first.
    async fn interrupts<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let parent_gone = async {
            match self.parent {
                Some(parent) => parent.gone(&self.env).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.terminate.recv() => None,
            _ = self.interrupt.recv() => None,
            _ = self.power.recv() => {
                self.going_down = true;
                None
            }
            () = parent_gone => None,
            done = work => Some(done),
        }
    }
}

fn load_tokens(settings: &Settings) -> Result<Option<Tokens>> {
    // The error's text includes its cause, so the chain ends here.
    let tokens = settings.token_file.as_deref().map(Tokens::load).transpose();
    let tokens = tokens.map_err(|error| anyhow!("{error}; check --token-file"))?;
    for warning in tokens.iter().flat_map(|t| t.warnings()) {
        tracing::warn!("{warning}");
    }
    Ok(tokens)
}

fn pki_dir(settings: &Settings) -> PathBuf {
    settings.data_dir.join("pki")
}

/// Keys and certificates of this server, and the address they are made for.
struct Keys {
    pki: Pki,
    certificate: Arc<ServingCertificate>,
    /// Whether the serving certificate is our own, which is renewed.
    own_certificate: bool,
    /// What clients verify this server by, in PEM.
    root_ca: String,
    client_ca: Arc<CaBundle>,
    kubelet_client: Arc<KubeletClientCertificate>,
    front_proxy: Option<FrontProxy>,
    proxy_client: Arc<ProxyClientCertificate>,
    request_headers: Arc<RequestHeaders>,
    advertised: IpAddr,
    /// Under which this server is known beside those of its certificate: DNS names and addresses.
    names: Vec<String>,
    /// The files of what was given, which others renew.
    followed: Vec<Followed>,
}

impl Keys {
    fn open(settings: &Settings, env: &Env) -> Result<Keys> {
        let address: SocketAddr = settings.listen.parse().context("--listen")?;
        let advertised = settings.advertise.unwrap_or_else(|| advertise::default_for(address.ip()));
        let mut names = certificate_names(address.ip(), env.hostname());
        names.extend([advertised.to_string(), settings.services.first_address().to_string()]);
        let pki = Pki::open_or_create(&pki_dir(settings), env.now_seconds(), &names)?;
        let given = settings.access.serving_certificate()?;
        let own_certificate = given.is_none();
        let mut followed = Vec::new();
        let (certificate, root_ca) = match given {
            Some(given) => {
                followed.push(given.followed);
                (given.serving, access::joined(pki.ca_pem(), &given.chain))
            }
            None => {
                let own = ServingCertificate::new(pki.serving()).map_err(|e| anyhow!("{e}"))?;
                (Arc::new(own), pki.ca_pem().to_owned())
            }
        };
        let (client_ca, files) = settings.access.client_ca(pki.ca_pem())?;
        followed.extend(files);
        let kubelet_client = settings.kubelet_client.certificate(env, &pki)?;
        let front_proxy = FrontProxy::open_or_create(&pki_dir(settings), env.now_seconds())?;
        let (proxy_client, files) = settings.front_proxy.certificate(&front_proxy)?;
        followed.extend(files);
        let (request_headers, files) = settings.front_proxy.request_headers(&front_proxy)?;
        followed.extend(files);
        let front_proxy = settings.front_proxy.issues_its_own().then_some(front_proxy);
        Ok(Keys {
            pki,
            certificate,
            own_certificate,
            root_ca,
            client_ca,
            kubelet_client,
            front_proxy,
            proxy_client,
            request_headers,
            advertised,
            names,
            followed,
        })
    }

    /// Those of the certificate as it is when they are asked for.
    fn serving_names(&self) -> ServingNames {
        let (names, certificate) = (self.names.clone(), self.certificate.clone());
        Arc::new(move || names.iter().cloned().chain(certificate.names()).collect())
    }

    fn admin_kubeconfig(&self, url: &str) -> String {
        admin_kubeconfig(&self.pki, &self.root_ca, url)
    }

    /// Renews the certificates, and the kubeconfigs that hold one of them.
    fn rotation(self, kubeconfigs: [PathBuf; 2], url: String) -> CertificateRotation {
        let root_ca = self.root_ca;
        let write_kubeconfig: WriteKubeconfig = Box::new(move |pki| {
            let text = admin_kubeconfig(pki, &root_ca, &url);
            let written = kubeconfigs.iter().try_for_each(|path| kubeconfig::write(path, &text));
            written.map_err(|error| format!("{error:#}"))
        });
        CertificateRotation {
            pki: self.pki,
            certificate: self.own_certificate.then_some(self.certificate),
            write_kubeconfig,
            kubelet_client: Some(self.kubelet_client),
            front_proxy: self.front_proxy.map(|proxy| (proxy, self.proxy_client)),
        }
    }
}

fn admin_kubeconfig(pki: &Pki, root_ca: &str, url: &str) -> String {
    auth::pki::kubeconfig(url, root_ca, "kubernetes-admin", pki.admin())
}

fn new_api(
    settings: &Settings,
    env: &Env,
    table: Arc<Table>,
    engine: Arc<dyn Engine>,
    tokens: Option<Tokens>,
    keys: &Keys,
) -> Result<Arc<Api>> {
    let config = ApiConfig {
        table,
        engine,
        env: env.clone(),
        tokens,
        service_accounts: settings.identity.service_accounts(&pki_dir(settings))?,
        bootstrap_tokens: settings.identity.bootstrap_tokens,
        admission: settings.admission.clone(),
        admission_configuration: settings.admission_configuration.clone(),
        issuer: Some(keys.pki.issuer()),
        cluster: ClusterSettings {
            services: settings.services.clone(),
            client_ca: Some(keys.client_ca.clone()),
            root_ca: Some(keys.root_ca.clone()),
            advertised: None,
            usage: settings.resource_metrics.then_some(node::simulated::usage::containers),
            kubelet_client: settings.kubelet_client.client(
                env,
                keys.pki.ca_pem(),
                keys.kubelet_client.clone(),
            )?,
            request_headers: Some(keys.request_headers.clone()),
            proxy_client: Some(keys.proxy_client.clone()),
            limits: settings.limits,
            authorization: settings.access.authorization.clone(),
            refuse_anonymous: settings.access.refuse_anonymous,
            initial_objects: initial_objects(settings),
        },
    };
    Api::new(config)
        .map_err(|error| anyhow!("{error}; check --enable-admission-plugins and --disable-admission-plugins"))
}

/// What a cluster begins with.
fn initial_objects(settings: &Settings) -> Vec<object::Value> {
    let mut objects = controllers::initial_objects(&settings.controllers, settings.has_nodes());
    if settings.identity.bootstrap_tokens {
        objects.extend(join_objects::roles());
    }
    objects
}

/// Gives memory back from time to time, until the store fails: then it says why.
async fn supervise(env: &Env, api: &Arc<Api>, engine: &Arc<dyn Engine>, pools: &Pools) -> anyhow::Error {
    let mut collector = memory::Collector::default();
    loop {
        env.sleep(CHECK_INTERVAL).await;
        collector.tick(api, pools);
        if let Some(why) = engine.failed() {
            // Acknowledged writes are on disk; a supervisor may restart us.
            return anyhow!("{why}");
        }
    }
}

fn is_full_disk(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let kind = error.root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(StorageFull | QuotaExceeded))
}

/// Names for the serving certificate, in addition to the usual ones.
fn certificate_names(listen: IpAddr, host: &str) -> Vec<String> {
    let mut names = Vec::new();
    if !listen.is_unspecified() {
        names.push(listen.to_string());
    }
    names.push(host.to_owned());
    names
}

/// A URL that clients on this machine can use.
fn server_url(bound: SocketAddr) -> String {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V6(ip) => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    format!("https://{ip}:{}", bound.port())
}

/// `flag`: what the address is given by.
fn explain_listen(error: ServerError, flag: &str) -> anyhow::Error {
    let any = if flag == LISTEN { " (port 0 picks a free port)" } else { "" };
    let hint = match &error {
        ServerError::Listen { source, .. } => match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("; stop the process listening there, or choose another address with {flag}{any}")
            }
            std::io::ErrorKind::AddrNotAvailable => {
                format!("; this machine has no such address, choose another with {flag}")
            }
            std::io::ErrorKind::PermissionDenied => {
                format!("; ports below 1024 require root, choose another with {flag}")
            }
            _ => String::new(),
        },
        ServerError::Tls(_) => String::new(),
    };
    anyhow!("{error}{hint}")
}

/// Starts the last line of the announcement.
pub const NEXT: &str = "Next: ";

fn announce(settings: &Settings, url: &str, node: Option<&str>, warnings: impl IntoIterator<Item = String>) {
    let mut text = announcement(settings, url, node);
    for warning in warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    // Nobody may be reading any more; the server runs all the same.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if settings.detached {
        detach::close_announcement();
    }
}

fn announcement(settings: &Settings, url: &str, node: Option<&str>) -> String {
    let simulated = settings.controllers.nodes.as_ref().map(|nodes| nodes.count);
    let nodes_line = match (node, simulated) {
        (Some(node), None) => format!("{node}: this machine, with containers"),
        (Some(node), Some(more)) => format!("{node}: this machine, with containers; and {more} simulated"),
        (None, Some(nodes)) => format!("{nodes} simulated: pods run without containers"),
        (None, None) => {
            "none: pods stay Pending; containers need root, or add simulated nodes with --simulated-nodes 3"
                .to_owned()
        }
    };
    let next = if node.is_some() || simulated.is_some() {
        "create deployment web --image=nginx --replicas=3"
    } else {
        "get namespaces"
    };
    // Absolute, so that the command works from any directory.
    let absolute = std::path::absolute(&settings.kubeconfig).unwrap_or_else(|_| settings.kubeconfig.clone());
    let log = settings.detached.then(|| detach::log_path(&settings.data_dir));
    let log = log.map(|path| format!("  log         {}\n", path.display())).unwrap_or_default();
    let pods =
        node.map(|_| "  pods        kubectl get pods -A; their logs: kubectl logs POD\n").unwrap_or_default();
    format!(
        "setpoint is ready.\n  API         {url} (Kubernetes {version})\n  objects     {objects}\n  nodes       {nodes_line}\n  \
         kubeconfig  {kubeconfig}\n{log}{pods}{NEXT}export KUBECONFIG={absolute} && kubectl {next}\n",
        version = apiserver::KUBERNETES_VERSION,
        objects = settings.store.describe(&settings.data_dir),
        kubeconfig = settings.kubeconfig.display(),
        absolute = absolute.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(flags: &[&str]) -> Vec<String> {
        let args = ["setpoint", "up", "--data-dir", "/nowhere"].iter().chain(flags);
        let matches = cli::command().try_get_matches_from(args).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        Settings::from_matches(matches).unwrap().admission.enable
    }

    #[test]
    fn an_empty_name_in_a_plugin_list_is_preserved() {
        assert_eq!(enabled(&["--enable-admission-plugins=,Priority"]), ["", "Priority"]);
        let twice = ["--enable-admission-plugins=", "--enable-admission-plugins=Priority,AlwaysAdmit"];
        assert_eq!(enabled(&twice), ["Priority", "AlwaysAdmit"]);
        assert!(enabled(&["--enable-admission-plugins="]).is_empty());
    }

    #[test]
    fn an_address_that_cannot_be_had_names_the_flag_it_was_given_by() {
        let why = |flag| {
            let source = std::io::Error::from(std::io::ErrorKind::AddrInUse);
            explain_listen(ServerError::Listen { address: "127.0.0.1:1".to_owned(), source }, flag)
                .to_string()
        };
        assert!(why(LISTEN).ends_with("another address with --listen (port 0 picks a free port)"));
        assert!(why("--bind-address").ends_with("choose another address with --bind-address"));
    }

    #[test]
    fn an_admission_configuration_is_read_before_anything_starts() {
        for command in ["up", "server"] {
            let flags =
                ["--data-dir", "/nowhere", "--admission-control-config-file", "/nowhere/admission.yaml"];
            let args = ["setpoint", command].into_iter().chain(flags);
            let matches = cli::command().try_get_matches_from(args).unwrap();
            let (_, matches) = matches.subcommand().unwrap();
            let error = Settings::from_matches(matches).err().unwrap().to_string();
            let expected = "--admission-control-config-file: failed to read plugin config: unable to read admission control \
                            configuration from \"/nowhere/admission.yaml\" [open /nowhere/admission.yaml: no such file or directory]";
            assert_eq!(error, expected);
        }
    }
}
