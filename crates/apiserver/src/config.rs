//! The configuration of an [`Api`](crate::Api).

use std::sync::Arc;

use admission::Choice;
use admission::service_addresses::ServiceRanges;
use auth::pki::Issuer;
use auth::{CaBundle, RequestHeaders, ServiceAccounts, Tokens};
use dynamic_admission::AdmissionConfiguration;
use env::Env;
use flowcontrol::Limits;
use rustls::client::ResolvesClientCert;
use store::Engine;
use table::Table;

use crate::connect::KubeletClient;
use crate::controllers::Advertised;
use crate::resource_metrics::PodUsage;

pub struct ApiConfig {
    pub table: Arc<Table>,
    pub engine: Arc<dyn Engine>,
    pub env: Env,
    pub tokens: Option<Tokens>,
    /// Admission plugins enabled or disabled beside the default ones.
    pub admission: Choice,
    /// What admission plugins are told.
    pub admission_configuration: AdmissionConfiguration,
    pub service_accounts: ServiceAccounts,
    /// Whether bootstrap tokens (Secrets of type `bootstrap.kubernetes.io/token`) authenticate.
    pub bootstrap_tokens: bool,
    /// Signs approved certificate signing requests; without one they wait for an external signer.
    pub issuer: Option<Issuer>,
    pub cluster: ClusterSettings,
}

/// Who decides what a user may, in this order: the first that allows it. `system:masters` may everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization(pub Vec<AuthorizationMode>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// What a node may, from the pods bound to it.
    Node,
    Rbac,
    AlwaysAllow,
    /// Nobody but `system:masters`.
    AlwaysDeny,
}

impl Default for Authorization {
    fn default() -> Self {
        Authorization(vec![AuthorizationMode::Node, AuthorizationMode::Rbac])
    }
}

impl Authorization {
    pub fn has(&self, mode: AuthorizationMode) -> bool {
        self.0.contains(&mode)
    }
}

/// Settings of the cluster this server belongs to.
#[derive(Clone, Debug, Default)]
pub struct ClusterSettings {
    /// The ranges of cluster IPs and node ports.
    pub services: ServiceRanges,
    /// The CAs of client certificates, published for extension API servers.
    pub client_ca: Option<Arc<CaBundle>>,
    /// The CA bundle pods need to verify this server, as PEM; without one none is published.
    pub root_ca: Option<String>,
    /// The advertised address, when it is known before the socket is bound.
    pub advertised: Option<Advertised>,
    /// What pods use, where it is known: metrics.k8s.io is served from it.
    pub usage: Option<PodUsage>,
    /// How kubelets are reached.
    pub kubelet_client: KubeletClient,
    /// Proxies that authenticate users for this server; also published for extension API servers.
    pub request_headers: Option<Arc<RequestHeaders>>,
    /// Who this server is to the servers whose APIs it aggregates: the front proxy's certificate.
    pub proxy_client: Option<Arc<dyn ResolvesClientCert>>,
    /// Who decides what a user may.
    pub authorization: Authorization,
    /// Refuse requests without credentials, also those for health and version.
    pub refuse_anonymous: bool,
    /// Limits of requests in flight.
    pub limits: Limits,
    /// Objects this cluster begins with, beyond those of every cluster: created at its first start.
    pub initial_objects: Vec<object::Value>,
}
