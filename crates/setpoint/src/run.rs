//! `setpoint up` and `setpoint server`: from flags to a running, then drained, control plane.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use apiserver::{
    Advertised, Api, ApiConfig, CertificateRotation, ClusterSettings, Limits, Pools, PortRange, Server,
    ServerError, ServiceRanges, Tls, WriteKubeconfig,
};
use auth::pki::ServingCertificate;
use auth::{Pki, Tokens};
use catalog::Catalog;
use clap::ArgMatches;
use env::Env;
use table::Table;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::identity::IdentitySettings;
use crate::pid_file::PidFile;
use crate::store_choice::{EtcdFiles, StoreChoice};
use crate::{advertise, backup, cli, descriptors, detach, kubeconfig, loops, memory};

/// Reserved for each thread, not used: so much that the deepest document does not have to be continued on another stack, which
/// would cost a system call for each of its branches at that depth.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// How often the store is asked whether it still can commit.
const CHECK_STORE: Duration = Duration::from_secs(1);
/// How long a stop may take in all; the server's own drain has four of these seconds.
const STOP: Duration = Duration::from_millis(4800);

/// What loops have of it to finish their turns.
const STOP_LOOPS: Duration = Duration::from_millis(800);

pub struct Settings {
    data_dir: PathBuf,
    listen: String,
    store: StoreChoice,
    kubeconfig: PathBuf,
    token_file: Option<PathBuf>,
    admission: apiserver::AdmissionChoice,
    identity: IdentitySettings,
    services: ServiceRanges,
    advertise: Option<IpAddr>,
    loops: plane::Settings,
    limits: Limits,
    log: String,
    /// Started by `up --detach`, which waits for what is announced.
    detached: bool,
}

impl Settings {
    pub fn from_matches(matches: &ArgMatches) -> Result<Settings> {
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        // A flag without a value names nothing; an empty name among others is one, and wrong.
        let list = |name: &str| -> Vec<String> {
            let flags = matches.get_occurrences::<String>(name).into_iter().flatten();
            let flags = flags.map(|values| values.map(|v| v.trim().to_owned()).collect::<Vec<String>>());
            flags.filter(|values| *values != [""]).flatten().collect()
        };
        let data_dir = cli::data_dir_of(matches);
        let listen = text("listen");
        listen.parse::<SocketAddr>().map_err(|_| {
            anyhow!("--listen {listen} is not an address: write it as IP:PORT, such as 127.0.0.1:6443 or 127.0.0.1:0")
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
                "--max-requests-inflight and --max-mutating-requests-inflight are both 0: nobody could be served; give one of them a number above 0"
            ));
        }
        let limits = Limits { seats, ..Limits::default() };
        let etcd_files = EtcdFiles {
            ca: file("etcd-cafile"),
            certificate: file("etcd-certfile"),
            key: file("etcd-keyfile"),
        };
        Ok(Settings {
            limits,
            kubeconfig: kubeconfig.unwrap_or_else(|| kubeconfig::default_path(&data_dir)),
            store: StoreChoice::parse(&text("store"), etcd_files)?,
            admission: apiserver::AdmissionChoice {
                enable: list("enable-admission-plugins"),
                disable: list("disable-admission-plugins"),
            },
            services,
            advertise,
            token_file: matches.get_one::<PathBuf>("token-file").cloned(),
            identity: IdentitySettings::from_matches(matches)?,
            loops: loops::settings(matches)?,
            log: text("log"),
            // `server` does not have the flag.
            detached: matches.try_get_one::<bool>("detached").is_ok_and(|flag| flag == Some(&true)),
            data_dir,
            listen,
        })
    }

    pub fn log_filter(&self) -> Result<Targets> {
        self.log.parse().with_context(|| {
            format!("--log {} is not a filter: use error, warn, info, debug or trace", self.log)
        })
    }
}

/// Where everything of a cluster lies; it may be there already.
pub fn make_data_dir(data_dir: &Path) -> Result<()> {
    std::fs::create_dir_all(data_dir).with_context(|| {
        format!("cannot make the data directory {}; choose another with --data-dir", data_dir.display())
    })
}

pub fn run(settings: Settings) -> Result<()> {
    let filter = settings.log_filter()?;
    if settings.detached {
        detach::leave_terminal()?;
    }
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines =
        tracing_subscriber::fmt::layer().with_target(false).with_ansi(colours).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    let ordinary = threads("setpoint", memory::give_back_all)?;
    let priority = threads("setpoint-vital", memory::give_back_own)?;
    let pools = Pools { ordinary: ordinary.handle().clone(), priority: priority.handle().clone() };
    let stopped_by = ordinary.block_on(serve(settings, pools));
    // First: its connections may hold timers of the other one.
    priority.shutdown_timeout(Duration::from_millis(100));
    stopped_by
}

/// A pool of as many threads as there are cores.
fn threads(name: &str, before_waiting: fn()) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        .on_thread_park(before_waiting)
        .build()
        .context("cannot start threads")
}

async fn serve(settings: Settings, pools: Pools) -> Result<()> {
    let env = Env::machine();
    // Signals first: one that comes during start-up must end it cleanly too.
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;

    // Before files are opened, and before strangers can take them.
    let descriptors = descriptors::raise();
    // The error's text holds its cause already, so the chain is cut here.
    let tokens = settings.token_file.as_deref().map(Tokens::load).transpose();
    let tokens = tokens.map_err(|error| anyhow!("{error}; check --token-file"))?;
    for warning in tokens.iter().flat_map(|t| t.warnings()) {
        tracing::warn!("{warning}");
    }
    make_data_dir(&settings.data_dir)?;
    // Held until the end: by it `setpoint down` finds us.
    let _pid_file = PidFile::take(&settings.data_dir)?;

    backup::check_restored(&settings.data_dir)?;

    // The store before anything is written: its lock keeps a second server away.
    let catalog = Arc::new(Catalog::builtin());
    let table = Table::new(catalog.clone(), env.clone());
    let engine = tokio::select! {
        biased;
        // An etcd that does not answer is waited for, but not by somebody who has changed their mind.
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
        engine = settings.store.open(&settings.data_dir, &env, &table) => engine?,
    };
    kubeconfig::check(&settings.kubeconfig)?;

    let address: SocketAddr = settings.listen.parse().context("--listen")?;
    let advertised = settings.advertise.unwrap_or_else(|| advertise::default_for(address.ip()));
    let mut names = certificate_names(address.ip(), env.hostname());
    names.extend([advertised.to_string(), settings.services.first_address().to_string()]);
    let pki_dir = settings.data_dir.join("pki");
    let pki = Pki::open_or_create(&pki_dir, env.now_seconds(), &names)?;
    let service_accounts = settings.identity.service_accounts(&pki_dir)?;
    let certificate = Arc::new(ServingCertificate::new(pki.serving()).map_err(|e| anyhow!("{e}"))?);

    let config = ApiConfig {
        table,
        engine: engine.clone(),
        env: env.clone(),
        tokens,
        service_accounts,
        bootstrap_tokens: settings.identity.bootstrap_tokens,
        admission: settings.admission.clone(),
        issuer: Some(pki.issuer()),
        cluster: ClusterSettings {
            services: settings.services.clone(),
            client_ca: Some(pki.ca_pem().to_owned()),
            root_ca: Some(pki.ca_pem().to_owned()),
            advertised: None,
            without: loops::left_out(&settings.loops),
            limits: settings.limits,
        },
    };
    for plugin in settings.admission.without_effect() {
        tracing::warn!(plugin, "this admission plugin comes with the extension part and does nothing yet");
    }
    let api = Api::new(config).map_err(|error| {
        anyhow!("{error}; check --enable-admission-plugins and --disable-admission-plugins")
    })?;
    let tls = Tls { certificate: certificate.clone(), client_ca: pki.client_ca() };
    let server = Server::bind(api.clone(), &settings.listen, tls).await.map_err(explain_listen)?;
    server.limit_connections(descriptors.connections);
    server.run_in(pools.clone());
    let bound = server.address().context("the listening socket has no address")?;
    api.advertise(Advertised {
        address: SocketAddr::new(advertised, bound.port()),
        host: env.hostname().to_owned(),
    });
    // Only now: a server that finds its port taken must leave the file of the one that runs there.
    kubeconfig::clear(&settings.kubeconfig)?;
    let copy = kubeconfig::copy_path(&settings.data_dir);
    kubeconfig::clear(&copy)?;
    let bootstrapped = tokio::select! {
        biased;
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        done = api.bootstrap() => Some(done),
    };
    let Some(bootstrapped) = bootstrapped else {
        // What is half made is made when it starts again.
        let _ = env.timeout(STOP, engine.close()).await;
        return Ok(());
    };
    let mut bootstrapping = None;
    if let Err(status) = bootstrapped {
        match (engine.health(), engine.full()) {
            (Err(why), _) => return Err(anyhow!("{why}")),
            // What is there can be read, and deleting may make room; what is missing is written then.
            (Ok(()), Some(why)) => {
                tracing::error!(reason = %why, "the cluster's first objects are not all there");
                bootstrapping = Some(env.spawn("bootstrap", bootstrap_later(env.clone(), api.clone())));
            }
            (Ok(()), None) => {
                return Err(anyhow!("cannot create the cluster's first objects: {}", status.message));
            }
        }
    }

    let url = server_url(bound);
    api.set_external_address(url.trim_start_matches("https://"));
    for path in [&copy, &settings.kubeconfig] {
        match kubeconfig::write(path, &pki.admin_kubeconfig(&url)) {
            // A full disk is read from: others have their kubeconfigs.
            Err(error) if is_full_disk(&error) => tracing::error!("{error:#}"),
            written => written?,
        }
    }
    descriptors.log();
    let serving = env.spawn("server", server.run());
    let plane = loops::start(&env, &api, &settings.loops, settings.store.is_shared(), env.hostname());
    announce(&settings, &url);

    let path = settings.kubeconfig.clone();
    let write_kubeconfig: WriteKubeconfig = Box::new(move |pki| {
        let text = pki.admin_kubeconfig(&url);
        let written = kubeconfig::write(&copy, &text).and_then(|()| kubeconfig::write(&path, &text));
        written.map_err(|error| format!("{error:#}"))
    });
    let renewal = CertificateRotation { pki, certificate, write_kubeconfig };
    let renewing = env.spawn("renewal", renewal.run(env.clone(), api.shutdown()));

    let mut give_back = memory::GiveBack::default();
    let stopped_by = loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            () = env.sleep(CHECK_STORE) => {
                give_back.look(&api, &pools);
                if let Some(why) = engine.failed() {
                    // What was acknowledged is on disk; whoever watches over us may start us again.
                    break Err(anyhow!("{why}"));
                }
            }
        }
    };
    if let Some(bootstrapping) = bootstrapping {
        bootstrapping.abort();
    }
    tracing::info!("stopping: loops and watches end, requests under way finish");
    let stopping = async {
        // First those who write without being asked, so that a lease is given back while that can still be done.
        let _ = env.timeout(STOP_LOOPS, plane.stop()).await;
        api.begin_shutdown();
        let _ = serving.await;
        // It ends with the shutdown that has begun; a panic in it was already reported.
        let _ = renewing.await;
        engine.close().await;
    };
    // An etcd that does not answer must not keep us: nothing we acknowledged waits for it.
    if env.timeout(STOP, stopping).await.is_err() {
        tracing::warn!("the store did not close in time");
    }
    tracing::info!("stopped");
    stopped_by
}

fn is_full_disk(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let kind = error.root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(StorageFull | QuotaExceeded))
}

/// Again and again until there is room for it.
async fn bootstrap_later(env: Env, api: Arc<Api>) {
    loop {
        env.sleep(CHECK_STORE).await;
        match api.bootstrap().await {
            Ok(()) => return,
            Err(status) => {
                tracing::debug!(error = status.message, "the cluster's first objects are not all there")
            }
        }
    }
}

/// What the serving certificate must be valid for, beside the usual names.
fn certificate_names(listen: IpAddr, host: &str) -> Vec<String> {
    let mut names = Vec::new();
    if !listen.is_unspecified() {
        names.push(listen.to_string());
    }
    names.push(host.to_owned());
    names
}

/// An address clients on this machine can use.
fn server_url(bound: SocketAddr) -> String {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V6(ip) => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    format!("https://{ip}:{}", bound.port())
}

fn explain_listen(error: ServerError) -> anyhow::Error {
    let mend = match &error {
        ServerError::Listen { source, .. } => match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                "; stop what listens there, or choose another address with --listen (port 0 takes a free one)"
            }
            std::io::ErrorKind::AddrNotAvailable => {
                "; this machine has no such address: choose another with --listen"
            }
            std::io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need root: choose another with --listen"
            }
            _ => "",
        },
        ServerError::Tls(_) => "",
    };
    anyhow!("{error}{mend}")
}

/// Begins the last line of what is announced; after it the server is ready.
pub const NEXT: &str = "Next: ";

fn announce(settings: &Settings, url: &str) {
    let text = announcement(settings, url);
    // Whoever waited may have gone; the server serves all the same.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if settings.detached {
        detach::close_announcement();
    }
}

fn announcement(settings: &Settings, url: &str) -> String {
    let nodes = settings.loops.nodes.as_ref().map(|nodes| nodes.count);
    let nodes_line = match nodes {
        Some(nodes) => format!("{nodes} simulated: pods run without containers"),
        None => "none of its own: pods stay Pending; --simulated-nodes 3 starts three without containers"
            .to_owned(),
    };
    let next =
        if nodes.is_some() { "create deployment web --image=nginx --replicas=3" } else { "get namespaces" };
    // As it works in whatever folder it is pasted.
    let absolute = std::path::absolute(&settings.kubeconfig).unwrap_or_else(|_| settings.kubeconfig.clone());
    let log = settings.detached.then(|| detach::log_path(&settings.data_dir));
    let log = log.map(|path| format!("  log         {}\n", path.display())).unwrap_or_default();
    format!(
        "setpoint is ready.\n  API         {url} (Kubernetes {version})\n  objects     {objects}\n  nodes       {nodes_line}\n  \
         kubeconfig  {kubeconfig}\n{log}{NEXT}export KUBECONFIG={absolute} && kubectl {next}\n",
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
        let words = ["setpoint", "up", "--data-dir", "/nowhere"].iter().chain(flags);
        let matches = cli::command().try_get_matches_from(words).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        Settings::from_matches(matches).unwrap().admission.enable
    }

    #[test]
    fn an_empty_name_among_plugins_is_kept_to_be_refused() {
        assert_eq!(enabled(&["--enable-admission-plugins=,Priority"]), ["", "Priority"]);
        let twice = ["--enable-admission-plugins=", "--enable-admission-plugins=Priority,AlwaysAdmit"];
        assert_eq!(enabled(&twice), ["Priority", "AlwaysAdmit"]);
        assert!(enabled(&["--enable-admission-plugins="]).is_empty());
    }
}
