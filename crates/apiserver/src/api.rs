//! The API without its sockets: what a request finds, how it is put together, and the controllers it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use admission::service_addresses::ServiceAddresses;
use admission::{BadChoice, Chain};
use auth::pki::Issuer;
use flowcontrol::{FlowControl, WatchCounts};
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use registry::Registry;

use crate::authorize::{Authorizer, NoEscalation};
use crate::bulk::Bulk;
use crate::config::{ApiConfig, ClusterSettings, RESOURCE_QUOTAS, ROLE_AGGREGATION, SERVICE_CIDRS};
use crate::connections::Connections;
use crate::documents::Documents;
use crate::health::Health;
use crate::identity::Identity;
use crate::kubernetes_service::{self, Advertised};
use crate::metrics::{Admissions, Metered, Metrics};
use crate::shutdown::{Shutdown, Trigger};
use crate::{
    address_repair, aggregation, certificates, flow_control, flow_schemas, quotas, service_cidrs, trust,
    upkeep,
};

/// The whole API without its sockets: give it requests, it gives answers.
pub struct Api {
    pub(crate) registry: Registry,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) identity: Identity,
    pub(crate) metrics: Metrics,
    /// The registry's engine, for what it counts.
    pub(crate) store: Arc<Metered>,
    pub(crate) health: Health,
    pub(crate) documents: Documents,
    pub(crate) shutdown: Shutdown,
    pub(crate) started: f64,
    /// Who is served now, and who waits.
    pub(crate) flow: Arc<FlowControl>,
    /// Whose turn it is to keep a thread busy.
    pub(crate) bulk: Bulk,
    /// Open watches, for what a write costs.
    pub(crate) watches: Arc<WatchCounts>,
    /// Who is connected, and what they hold.
    pub(crate) connections: Arc<Connections>,
    /// The loops of this cluster run once, however many sockets it has.
    loops_started: AtomicBool,
    trigger: Trigger,
    issuer: Option<Issuer>,
    cluster: ClusterSettings,
    /// Guards what is known only once there is a socket; set once, before the loops start.
    advertised: Mutex<Option<Advertised>>,
    /// Guards who tells about the control loops of this process; set once, when they start.
    inspected: Mutex<Option<Arc<dyn Inspect>>>,
}

/// Tells what the control loops beside this server are doing.
pub trait Inspect: Send + Sync {
    /// Queues, workers, retries, causes and plans of every controller, for `/debug/controllers`.
    fn controllers(&self) -> Value;
    /// Their counters, appended to `/metrics`.
    fn metrics(&self, out: &mut String);
    /// How the part that leads by this lease is, if this process leads it.
    fn leads(&self, _lease: &str) -> Option<Result<(), String>> {
        None
    }
}

impl Api {
    pub fn new(config: ApiConfig) -> Result<Arc<Api>, BadChoice> {
        let authorizer = Arc::new(Authorizer::new(config.table.clone()));
        let admission = {
            let (may, escalation) = (authorizer.clone(), NoEscalation { authorizer: authorizer.clone() });
            let authorize: admission::Authorize = Arc::new(move |user, wanted| may.authorize(user, wanted));
            let services = ServiceAddresses::new(config.cluster.services.clone());
            Chain::new(&config.admission, &authorize, vec![Box::new(escalation)])?
                .allot("", "services", services)
        };
        let admissions = Admissions::new(admission.names());
        let admission = admission.observe(admissions.clone());
        let metrics = Metrics::new(&config.env, admissions);
        let store = Metered::new(config.engine, config.table.clone(), config.env.clone());
        let identity = Identity::new(
            config.table.clone(),
            config.tokens,
            config.service_accounts,
            config.bootstrap_tokens,
        );
        let started = config.env.now_nanos() as f64 / 1e9;
        let flow = FlowControl::new(&config.env, config.cluster.limits);
        let watches = Arc::<WatchCounts>::default();
        let (trigger, shutdown) = Trigger::new();
        Ok(Arc::new(Api {
            registry: Registry::new(config.table, store.clone(), config.env, admission),
            authorizer,
            identity,
            metrics,
            store,
            health: Health::default(),
            documents: Documents::default(),
            shutdown,
            started,
            flow,
            bulk: Bulk::new(),
            watches,
            connections: Connections::new(),
            loops_started: AtomicBool::new(false),
            trigger,
            issuer: config.issuer,
            advertised: Mutex::new(config.cluster.advertised.clone()),
            inspected: Mutex::default(),
            cluster: config.cluster,
        }))
    }

    /// Bytes of OpenAPI documents in memory: none until somebody asks for one.
    pub fn documents_kept(&self) -> usize {
        self.documents.kept()
    }

    /// How many times one was made, in whatever form.
    pub fn documents_made(&self) -> usize {
        self.documents.made()
    }

    /// Shows the control loops of this process under `/debug/controllers` and in `/metrics`.
    pub fn inspect(&self, loops: Arc<dyn Inspect>) {
        *self.inspected.lock() = Some(loops);
    }

    pub(crate) fn inspected(&self) -> Option<Arc<dyn Inspect>> {
        self.inspected.lock().clone()
    }

    /// Says how this server is reached; without it the `kubernetes` service leads nowhere.
    pub fn advertise(&self, how: Advertised) {
        *self.advertised.lock() = Some(how);
    }
    pub(crate) fn advertised(&self) -> Option<Advertised> {
        self.advertised.lock().clone()
    }
    pub(crate) fn cluster(&self) -> &ClusterSettings {
        &self.cluster
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The certificate authority pods must trust, as PEM, for the loop that publishes it.
    pub fn root_ca(&self) -> Option<Arc<str>> {
        self.cluster.root_ca.as_deref().map(Arc::from)
    }

    /// A token of a service account that is good as long as the Secret holds it, for the loop that fills such Secrets:
    /// the key stays here.
    pub fn sign_secret_token(&self, account: &Obj, secret: &Obj) -> Result<String, Status> {
        let signer = self.identity.service_accounts();
        let token = signer.legacy_token(account.namespace(), account.name(), account.uid(), secret.name());
        token.map_err(|error| Status::internal(format!("a token could not be signed: {error}")))
    }

    /// Where others reach this server, as host:port: OpenID clients are sent there for our keys.
    pub fn set_external_address(&self, address: impl Into<String>) {
        self.identity.set_external_address(address.into());
    }

    /// Starts what runs without being asked (upkeep, role aggregation, addresses), once; it stops when a shutdown begins.
    /// The first caller owns the tasks and joins them.
    pub fn start_loops(self: &Arc<Api>) -> Vec<tokio::task::JoinHandle<()>> {
        if self.loops_started.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let env = self.registry.env();
        let mut loops = vec![
            env.spawn("upkeep", upkeep::run(self.clone())),
            env.spawn("flow-control", flow_control::run(self.clone())),
            env.spawn("certificates", certificates::run(self.clone(), self.issuer.clone())),
            env.spawn("address-repair", address_repair::run(self.clone())),
            env.spawn("kubernetes-service", kubernetes_service::run(self.clone())),
            env.spawn("cluster-trust", trust::run(self.clone())),
            env.spawn("flow-schemas", flow_schemas::run(self.clone())),
        ];
        let runs = |name: &str| !self.cluster.without.contains(&name);
        if runs(ROLE_AGGREGATION) {
            loops.push(env.spawn("clusterrole-aggregation", aggregation::run(self.clone())));
        }
        if runs(RESOURCE_QUOTAS) {
            loops.push(env.spawn("resourcequota", quotas::run(self.clone())));
        }
        if runs(SERVICE_CIDRS) {
            loops.push(env.spawn("service-cidrs", service_cidrs::run(self.clone())));
        }
        loops
    }

    /// Not ready any more, watches end; requests under way finish.
    pub fn begin_shutdown(&self) {
        self.trigger.begin();
    }

    /// Resolves when a shutdown has begun.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }
}
