//! A node that has joined, until it is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use auth::CaBundle;
use client::Client;
use env::Env;
use kubelet::certificates::{CLIENT_FILE, Joined, Keeper, Purpose};
use kubelet::config::Config;
use kubelet::run::Kubelet;
use network::addresses::Cidr;
use runtime::Stopper;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::api_address::ApiAddress;
use crate::cluster_network;
use crate::local_node::{self, PodNetwork, Reserved};

/// Linux's number on every architecture Kubernetes runs on; tokio has no name for it.
pub const SIGPWR: i32 = 30;

/// What ends a node: SIGTERM and SIGINT leave its pods running, SIGPWR says that the machine goes down.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    power: Signal,
}

/// How a node is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    LeavePods,
    EndPods,
}

impl Signals {
    pub fn listen() -> Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            power: listen(SignalKind::from_raw(SIGPWR))?,
        })
    }

    pub async fn ending(&mut self) -> Ending {
        tokio::select! {
            biased;
            _ = self.power.recv() => Ending::EndPods,
            _ = self.terminate.recv() => Ending::LeavePods,
            _ = self.interrupt.recv() => Ending::LeavePods,
        }
    }

    /// The outcome of `work`, or `None` if a signal comes first.
    pub async fn interrupts<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            _ = self.ending() => None,
            done = work => Some(done),
        }
    }
}

/// How it runs.
pub struct Run {
    pub config: Config,
    pub node_ip: String,
    pub bridge: String,
    pub reserved: Reserved,
    /// `None`: what the control plane says.
    pub cluster_ranges: Option<Vec<Cidr>>,
    /// What it was started with.
    pub flags: BTreeMap<String, String>,
}

/// Runs pods and keeps the node in the cluster.
pub async fn run(env: &Env, joined: Joined, settings: Run, mut signals: Signals) -> Result<()> {
    let Run { config, node_ip, bridge, reserved, cluster_ranges, flags } = settings;
    let Reserved { bridge: lock, listener } = reserved;
    tracing::info!(node = joined.node, bridge, port = config.port, pod_cidr = config.pod_cidr, "starting");
    let (stopper, stop) = Stopper::new();
    let client: Arc<dyn Client> = Arc::new(joined.client);
    let rotation = joined.rotation;
    let client_keeper = Keeper {
        env: env.clone(),
        requests: Arc::new(client.clone()),
        purpose: Purpose::Client,
        node: joined.node.clone(),
        store: joined.store.clone(),
        file: CLIENT_FILE,
        names: Box::new(Vec::new),
        changed: Arc::new(Notify::new()),
        install: Box::new(move |identity| {
            let (certificate, key) = (identity.certificate_pem(), identity.key_pem());
            if let Err(error) = rotation.replace(certificate.into_bytes(), key.into_bytes()) {
                tracing::error!(%error, "the new client certificate cannot be used");
            }
        }),
    };
    let keeping = env.spawn("client-certificate", client_keeper.run(Some(joined.identity), stop.clone()));
    let starting = async {
        let cluster_ranges = match cluster_ranges {
            Some(given) => given,
            None => cluster_network::read(env, &*client, &config.root_directory).await,
        };
        let network = PodNetwork { bridge: &bridge, lock, pod_ranges: &[], cluster_ranges: &cluster_ranges };
        let mut api = ApiAddress::new(&config.root_directory, client.clone(), &joined.server);
        let containers = open_runtime(env, &config, network, &mut api).await?;
        let client_ca = CaBundle::from_pem(joined.ca_pem.as_bytes());
        let of_node = kubelet::run::Settings {
            client: client.clone(),
            cri: containers.cri.clone(),
            hostname: joined.node.clone(),
            node_ip,
            listener,
            client_ca: Arc::new(client_ca.map_err(|error| anyhow!("the cluster's CA: {error}"))?),
            certificates: joined.store.clone(),
            flags,
            config,
        };
        let started = Kubelet::start(env, of_node, &Arc::default(), stop.clone()).await;
        Ok::<_, anyhow::Error>((
            started.map_err(|error| anyhow!("cannot start the node: {error}"))?,
            containers,
            api,
        ))
    };
    let Some(started) = signals.interrupts(starting).await else { return Ok(()) };
    let (node, containers, api) = started?;
    let following = env.spawn("api-address", api.follow(env.clone(), containers.clone(), stop));
    let joining = async {
        node.registered().await;
        println!("node {} has joined {}", joined.node, joined.server);
        std::future::pending().await
    };
    if let Some(warning) = node.warning() {
        println!("warning: {warning}");
    }
    // While it has not joined there may be pods all the same: those of an earlier run.
    let ending = tokio::select! {
        biased;
        ending = signals.ending() => ending,
        ending = joining => ending,
    };
    tracing::info!(?ending, "stopping");
    if ending == Ending::EndPods {
        node.end_pods().await;
    }
    node.settle().await;
    stopper.stop();
    node.stopped().await;
    let _ = following.await;
    containers.shutdown().await;
    let _ = keeping.await;
    Ok(())
}

/// The runtime behind a socket, or the embedded one.
async fn open_runtime(
    env: &Env,
    config: &Config,
    network: PodNetwork<'_>,
    api: &mut ApiAddress,
) -> Result<local_node::Containers> {
    local_node::leave_earlier_bridge(&config.root_directory, network.bridge).await?;
    if let Some(endpoint) = &config.container_runtime_endpoint {
        return local_node::open_socket(env, &config.root_directory, network, endpoint);
    }
    let pod_ranges = local_node::ranges("pod-cidr", &config.pod_cidr)?;
    let network = PodNetwork { pod_ranges: &pod_ranges, ..network };
    local_node::open_runtime(env, config, network, api.find(env).await)
}
