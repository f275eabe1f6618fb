//! The HTTPS port of a node: what the API server, metrics collectors and people ask of it.
//!
//! ```text
//!  TCP ── listener ── TLS, HTTP/1.1 or HTTP/2 ── routes ── authenticate ── authorize ── handlers
//!                        │ a 101                               └── TokenReview, SubjectAccessReview
//!                        └── sessions: exec, attach, port-forward, for as long as they last
//! ```
//! Paths, answers and messages are kubelet's.

mod answer;
mod authenticate;
mod authorize;
mod bind;
mod cache;
mod checkpoint;
mod client_ca;
mod connections;
mod containers;
mod exec;
mod handle;
mod health;
mod listener;
mod logs;
mod metrics;
mod portforward;
mod proxy;
mod query;
mod routes;
pub mod stats;
mod system_logs;
pub(crate) mod tls;
mod zpages;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use client::Client;
use env::Env;
use futures_util::future::BoxFuture;
use object::Value;
use runtime::Stop;
use rustls::server::ResolvesServerCert;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::metrics::RequestMetrics;
use authenticate::Authenticator;
use authorize::Authorizer;
use stats::Sampler;

use crate::config::{Authentication, Authorization, TlsOptions};

pub use bind::bind;
pub use checkpoint::DIRECTORY as CHECKPOINTS;
pub use client_ca::{ClientCaError, ClientCas};
pub use routes::Enabled;

/// What the server asks of the node.
pub trait Node: Send + Sync {
    /// Pods bound to this node, and static ones, with the newest status that is known here.
    fn pods(&self) -> Vec<Arc<Value>>;
    fn find(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let is = |pod: &Arc<Value>| {
            pod.str_at(&["metadata", "name"]) == Some(name)
                && pod.str_at(&["metadata", "namespace"]) == Some(namespace)
        };
        self.pods().into_iter().find(is)
    }
    fn runtime(&self) -> Arc<dyn cri::Runtime>;
    /// The `KubeletConfiguration` in effect.
    fn config(&self) -> Value;
    /// Where pods' directories are: its file system is the node's.
    fn root_directory(&self) -> PathBuf;
    fn pod_logs_directory(&self) -> PathBuf;
    /// Why the loop over the pods is stuck, if it is.
    fn sync_loop(&self) -> Result<(), String> {
        Ok(())
    }
    /// Whether a container runs, told as it changes. `None`: the runtime is asked every second.
    fn running(&self, container_id: &str) -> Option<watch::Receiver<bool>> {
        let _ = container_id;
        None
    }
    /// What the volumes of a pod hold.
    fn volumes<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Vec<stats::VolumeStats>> {
        let _ = pod;
        Box::pin(async { Vec::new() })
    }
    /// The cgroup of all pods.
    fn pods_group(&self) -> Option<PathBuf> {
        None
    }
    /// The cgroups of pods, by uid.
    fn pod_groups(&self) -> BTreeMap<String, PathBuf> {
        BTreeMap::new()
    }
    /// Appends to `/metrics`, in Prometheus' text format.
    fn metrics(&self, out: &mut String) {
        let _ = out;
    }
    /// Appends to `/metrics/probes`.
    fn probe_metrics(&self, out: &mut String) {
        let _ = out;
    }
}

pub struct Settings {
    /// From [`bind`].
    pub listener: TcpListener,
    /// The serving certificate, such as an `auth::pki::ServingCertificate`, which is swapped when it is renewed. While there is none,
    /// handshakes fail.
    pub certificate: Arc<dyn ResolvesServerCert>,
    pub client_cas: Arc<ClientCas>,
    pub authentication: Authentication,
    pub authorization: Authorization,
    /// What is wrong with it is told by the configuration's validation.
    pub tls: TlsOptions,
    pub node_name: String,
    pub enabled: Enabled,
    /// Where the machine's log files are.
    pub system_logs: PathBuf,
    /// What the program was started with, by name; secrets are not among the values.
    pub flags: BTreeMap<String, String>,
}

/// A listening server. It stops with its `Stop`, or when it is dropped.
pub struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// What every request has at hand.
pub(crate) struct Context {
    env: Env,
    node: Arc<dyn Node>,
    node_name: String,
    authenticator: Authenticator,
    authorizer: Authorizer,
    metrics: RequestMetrics,
    sampler: Sampler,
    /// Unix seconds.
    started_at: u64,
    enabled: Enabled,
    system_logs: PathBuf,
    flags: BTreeMap<String, String>,
}

impl Server {
    /// `client` asks for TokenReviews and SubjectAccessReviews.
    pub async fn start(
        env: &Env,
        settings: Settings,
        node: Arc<dyn Node>,
        client: Arc<dyn Client>,
        stop: Stop,
    ) -> io::Result<Server> {
        let Settings { listener, certificate, client_cas, authentication, authorization, .. } = settings;
        let Settings { tls, node_name, enabled, system_logs, flags, .. } = settings;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let acceptor = listener::Acceptor::new(certificate, client_cas.subscribe(), tls);
        let acceptor = acceptor.map_err(io::Error::other)?;
        let context = Arc::new(Context {
            env: env.clone(),
            node,
            authenticator: Authenticator::new(env, client.clone(), client_cas, authentication),
            authorizer: Authorizer::new(env, client, &node_name, authorization),
            metrics: RequestMetrics::default(),
            sampler: Sampler::default(),
            started_at: env.now_seconds(),
            node_name,
            enabled,
            system_logs,
            flags,
        });
        tracing::info!(%address, "node serves HTTPS");
        let task = env.spawn("node-server", listener::run(context, listener, acceptor, stop));
        Ok(Server { address, task })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Until it has stopped: all connections are closed then.
    pub async fn join(mut self) {
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "node server failed");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
pub(crate) mod tests;
