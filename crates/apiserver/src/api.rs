//! The API without its sockets: what a request finds, how it is put together, and the controllers it runs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use admission::service_addresses::ServiceAddresses;
use admission::{BadChoice, Chain, Phase};
use auth::pki::Issuer;
use dynamic_admission::{
    MatchConditionMetrics, MutatingPolicies, PolicyMetrics, ValidatingPolicies, WebhookMetrics, Webhooks,
};
use flowcontrol::{FlowControl, WatchCounts};
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use registry::Registry;
use runtime::ControllerRegistry;
use webhook::WebhookClient;

use crate::aggregation::{Aggregation, webhooks::Loopback};
use crate::authorize::{Authorizer, NoEscalation};
use crate::config::{ApiConfig, ClusterSettings};
use crate::connect::{BackendCount, KubeletClient};
use crate::connections::Connections;
use crate::controllers::Advertised;
use crate::conversion::ConversionWebhooks;
use crate::custom_resources::{CustomResources, DEFINITIONS, Definition};
use crate::debug_admission::AdmissionLog;
use crate::effects::Effects;
use crate::health::Health;
use crate::metrics::{AdmissionMetrics, MeteredEngine, Metrics};
use crate::openapi_cache::OpenApiCache;
use crate::resource_metrics::Scraped;
use crate::run_queue::RunQueue;
use crate::service_endpoints::ServiceEndpoints;
use crate::shutdown::{Shutdown, Trigger};
use crate::token_authenticator::TokenAuthenticator;

/// The whole API without its sockets: give it requests, it gives answers.
pub struct Api {
    pub(crate) registry: Registry,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) token_authenticator: TokenAuthenticator,
    pub(crate) metrics: Metrics,
    /// The registry's engine, for its metrics.
    pub(crate) store: Arc<MeteredEngine>,
    pub(crate) health: Health,
    pub(crate) openapi_cache: OpenApiCache,
    /// What CustomResourceDefinitions have defined.
    pub(crate) custom_resources: CustomResources,
    /// What writes are answered after.
    pub(crate) effects: Effects,
    pub(crate) conversion: Arc<ConversionWebhooks>,
    /// Where webhooks and aggregated servers are.
    pub(crate) service_endpoints: Arc<ServiceEndpoints>,
    /// Group versions that other servers serve.
    pub(crate) aggregation: Arc<Aggregation>,
    /// The last requests that admission had something to say about.
    pub(crate) admission_log: AdmissionLog,
    pub(crate) shutdown: Shutdown,
    pub(crate) started: f64,
    /// API priority and fairness: seats and queues.
    pub(crate) flow: Arc<FlowControl>,
    /// Limits how many ordinary requests are runnable at once.
    pub(crate) run_queue: RunQueue,
    /// Open watches, for what a write costs.
    pub(crate) watches: Arc<WatchCounts>,
    /// Open connections, and the memory charged to them.
    pub(crate) connections: Arc<Connections>,
    /// Connections to nodes and pods.
    pub(crate) backends: BackendCount,
    /// Controllers run once, however many sockets there are.
    pub(crate) controllers_started: AtomicBool,
    trigger: Trigger,
    issuer: Option<Issuer>,
    cluster: ClusterSettings,
    /// What real nodes use.
    pub(crate) scraped: Scraped,
    /// Guards what is known only once a socket is bound; set once, before the controllers start.
    advertised: Mutex<Option<Advertised>>,
    /// This server's own controllers, and whoever is shown with them.
    pub(crate) own_controllers: Arc<ControllerRegistry>,
    /// Guards the status of the controllers of this process; set once, when they start.
    controller_status: Mutex<Option<Arc<dyn ControllerStatus>>>,
}

/// The status of the controllers and the scheduler of this process.
pub trait ControllerStatus: Send + Sync {
    /// Queues, workers, retries, causes and plans of every controller, for `/debug/controllers`.
    fn controllers(&self) -> Value;
    /// Their metrics, appended to `/metrics`.
    fn metrics(&self, out: &mut String);
    /// The health of the component that holds this lease, if this process is the leader.
    fn leads(&self, _lease: &str) -> Option<Result<(), String>> {
        None
    }
}

impl Api {
    pub fn new(config: ApiConfig) -> Result<Arc<Api>, BadChoice> {
        let authorizer =
            Arc::new(Authorizer::new(config.table.clone(), config.cluster.authorization.clone()));
        let service_endpoints = Arc::new(ServiceEndpoints::new(config.table.clone()));
        // The one client that webhooks are called by, be it for conversion or for admission.
        let webhooks = Arc::new(WebhookClient::new(config.env.clone(), service_endpoints.clone()));
        let webhook_metrics = Arc::<WebhookMetrics>::default();
        let policy_metrics = Arc::<PolicyMetrics>::default();
        let condition_metrics = Arc::<MatchConditionMetrics>::default();
        let admission = {
            let (may, escalation) = (authorizer.clone(), NoEscalation { authorizer: authorizer.clone() });
            let authorize: admission::Authorize = Arc::new(move |user, wanted| may.authorize(user, wanted));
            let services = ServiceAddresses::new(config.cluster.services.clone());
            let configured = config.admission_configuration;
            let hooks = |phase, kubeconfig| {
                let (client, conditions) = (webhooks.clone(), condition_metrics.clone());
                Webhooks::new(
                    phase,
                    client,
                    kubeconfig,
                    webhook_metrics.clone(),
                    conditions,
                    authorize.clone(),
                )
            };
            Chain::new(&config.admission, &configured.plugins, &authorize, vec![Box::new(escalation)])?
                .allocate_with("", "services", services)
                .extend_with(MutatingPolicies::new(
                    authorize.clone(),
                    policy_metrics.clone(),
                    condition_metrics.clone(),
                ))
                .extend_with(ValidatingPolicies::new(
                    authorize.clone(),
                    policy_metrics.clone(),
                    condition_metrics.clone(),
                ))
                .extend_with(hooks(Phase::Admit, configured.mutating_webhooks))
                .extend_with(hooks(Phase::Validate, configured.validating_webhooks))
        };
        let admissions = AdmissionMetrics::new(admission.names());
        let admission = admission.observe(admissions.clone());
        let metrics =
            Metrics::new(&config.env, admissions, webhook_metrics, policy_metrics, condition_metrics);
        let store = MeteredEngine::new(config.engine, config.table.clone(), config.env.clone());
        let token_authenticator = TokenAuthenticator::new(
            config.table.clone(),
            config.tokens,
            config.service_accounts,
            config.bootstrap_tokens,
        );
        let started = config.env.now_nanos() as f64 / 1e9;
        let flow = FlowControl::new(&config.env, config.cluster.limits);
        let watches = Arc::<WatchCounts>::default();
        let (trigger, shutdown) = Trigger::new();
        let conversion = Arc::new(ConversionWebhooks::new(webhooks.clone()));
        let proxy_client = config.cluster.proxy_client.clone();
        let aggregation = Arc::new(Aggregation::new(config.table.catalog(), proxy_client));
        let registry = Registry::new(config.table, store.clone(), config.env, admission);
        let registry = registry.convert_with(conversion.clone()).resolve_with(aggregation.clone());
        let effects = Effects::new(&registry.catalog(), vec![(DEFINITIONS, Box::new(Definition))]);
        let api = Arc::new(Api {
            registry,
            authorizer,
            token_authenticator,
            metrics,
            store,
            health: Health::default(),
            openapi_cache: OpenApiCache::default(),
            custom_resources: CustomResources::new(conversion.clone()),
            effects,
            conversion: conversion.clone(),
            service_endpoints,
            aggregation,
            admission_log: AdmissionLog::default(),
            shutdown,
            started,
            flow,
            run_queue: RunQueue::new(),
            watches,
            connections: Connections::new(),
            backends: BackendCount::default(),
            controllers_started: AtomicBool::new(false),
            trigger,
            issuer: config.issuer,
            advertised: Mutex::new(config.cluster.advertised.clone()),
            own_controllers: Arc::default(),
            controller_status: Mutex::default(),
            scraped: Scraped::default(),
            cluster: config.cluster,
        });
        webhooks.reach_this_server(Arc::new(Loopback(Arc::downgrade(&api))));
        Ok(api)
    }

    /// Bytes of cached OpenAPI documents: none until the first request for one.
    pub fn openapi_cache_bytes(&self) -> usize {
        self.openapi_cache.bytes()
    }

    /// How many documents were built so far.
    pub fn openapi_documents_built(&self) -> usize {
        self.openapi_cache.built()
    }

    /// Shows the controllers of this process in `/debug/controllers` and `/metrics`.
    pub fn set_controller_status(&self, controllers: Arc<dyn ControllerStatus>) {
        *self.controller_status.lock() = Some(controllers);
    }

    /// Where this server's own controllers are entered: a control plane that enters its controllers there shows both.
    pub fn controller_registry(&self) -> Arc<ControllerRegistry> {
        self.own_controllers.clone()
    }

    pub(crate) fn controller_status(&self) -> Option<Arc<dyn ControllerStatus>> {
        self.controller_status.lock().clone()
    }

    /// Sets the advertised address; without one the `kubernetes` service has no endpoints.
    pub fn advertise(&self, how: Advertised) {
        *self.advertised.lock() = Some(how);
    }
    pub(crate) fn advertised(&self) -> Option<Advertised> {
        self.advertised.lock().clone()
    }
    pub(crate) fn cluster(&self) -> &ClusterSettings {
        &self.cluster
    }

    pub(crate) fn kubelet_client(&self) -> &KubeletClient {
        &self.cluster.kubelet_client
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The CA bundle pods need, as PEM, for the controller that publishes it.
    pub fn root_ca(&self) -> Option<Arc<str>> {
        self.cluster.root_ca.as_deref().map(Arc::from)
    }

    /// The front proxies this server believes.
    pub fn request_headers(&self) -> Option<&auth::RequestHeaders> {
        self.cluster.request_headers.as_deref()
    }

    /// Signs certificates, for the controller that does.
    pub fn issuer(&self) -> Option<Issuer> {
        self.issuer.clone()
    }

    /// A legacy service account token, valid as long as its Secret exists, for the controller that fills such Secrets: the key
    /// stays here.
    pub fn sign_secret_token(&self, account: &Obj, secret: &Obj) -> Result<String, Status> {
        let signer = self.token_authenticator.service_accounts();
        let token = signer.legacy_token(account.namespace(), account.name(), account.uid(), secret.name());
        token.map_err(|error| Status::internal(format!("a token could not be signed: {error}")))
    }

    /// The external host:port, where OpenID clients find our keys.
    pub fn set_external_address(&self, address: impl Into<String>) {
        self.token_authenticator.set_external_address(address.into());
    }

    /// Limits the number of connections: each takes a file descriptor. At the limit a new one closes another.
    pub fn limit_connections(&self, most: usize) {
        self.connections.limit(most);
    }

    /// Not ready any more, watches end; requests in flight finish.
    pub fn begin_shutdown(&self) {
        self.trigger.begin();
    }

    /// Resolves when a shutdown has begun.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }
}
