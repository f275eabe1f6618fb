//! The path of a request, top down. Each step says why it stands where it stands.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admission::service_addresses::{ServiceAddresses, ServiceRanges};
use admission::{Chain, Choice, UnknownPlugin};
use auth::pki::Issuer;
use auth::{Attributes, ServiceAccounts, Tokens, UserInfo, groups, impersonation};
use catalog::{Catalog, Resource};
use env::Env;
use futures_util::FutureExt;
use http::Request;
use http::header::AUTHORIZATION;
use object::{Status, Value};
use parking_lot::Mutex;
use registry::Registry;
use store::Engine;
use table::{Obj, Table};

use crate::authorize::{Authorizer, NoEscalation};
use crate::body::RequestBody;
use crate::health::Health;
use crate::identity::Identity;
use crate::info::{Place, Query, RequestInfo, parse};
use crate::kubernetes_service::{self, Advertised};
use crate::metrics::{Counted, Metrics};
use crate::negotiate::{Wanted, negotiate_error};
use crate::respond::{self, Answer};
use crate::shutdown::{Shutdown, Trigger};
use crate::{
    address_repair, aggregation, certificates, discovery, open_api, openid, quotas, service_cidrs, trust,
    upkeep, verbs,
};

/// Requests that are no watch must be answered within this.
const DEADLINE: Duration = Duration::from_secs(60);
/// How many requests may be under way at once; one more gets 429.
const MAX_READING: i64 = 400;
const MAX_WRITING: i64 = 200;

/// Who is on the other end, as the connection knows it.
#[derive(Clone, Debug)]
pub enum Caller {
    /// No client certificate: a token, or nobody.
    Unknown,
    /// Proven by a client certificate, or an in-process component with its own identity.
    Known(Arc<UserInfo>),
    /// A client certificate that proves nothing: refused, unless a token does better.
    Refused,
}

pub struct ApiConfig {
    pub catalog: Arc<Catalog>,
    pub table: Arc<Table>,
    pub engine: Arc<dyn Engine>,
    pub env: Env,
    pub tokens: Option<Tokens>,
    /// Which admission plugins run beside the default ones, and which don't.
    pub admission: Choice,
    pub service_accounts: ServiceAccounts,
    /// Whether Secrets of type `bootstrap.kubernetes.io/token` prove an identity.
    pub bootstrap_tokens: bool,
    /// Signs what is approved; without one, certificate signing requests wait for somebody else.
    pub issuer: Option<Issuer>,
    pub cluster: ClusterSettings,
}

/// What the cluster is to look like.
#[derive(Clone, Debug, Default)]
pub struct ClusterSettings {
    /// Where services get their addresses and ports from.
    pub services: ServiceRanges,
    /// Whose client certificates are believed, in PEM, for other API servers to know.
    pub client_ca: Option<String>,
    /// The certificate authority pods must trust to reach this server, as PEM; without one none is published.
    pub root_ca: Option<String>,
    /// Where others are told to find this server, when that is known before there is a socket.
    pub advertised: Option<Advertised>,
}

/// The whole API without its sockets: give it requests, it gives answers.
pub struct Api {
    pub(crate) registry: Registry,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) identity: Identity,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) documents: open_api::Documents,
    pub(crate) shutdown: Shutdown,
    pub(crate) started: f64,
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
}

impl Api {
    pub fn new(config: ApiConfig) -> Result<Arc<Api>, UnknownPlugin> {
        let authorizer = Arc::new(Authorizer::new(config.table.clone()));
        let admission = {
            let (may, escalation) = (authorizer.clone(), NoEscalation { authorizer: authorizer.clone() });
            let authorize: admission::Authorize = Arc::new(move |user, wanted| may.authorize(user, wanted));
            let services = ServiceAddresses::new(config.cluster.services.clone());
            Chain::new(&config.admission, &authorize, vec![Box::new(escalation)])?
                .allot("", "services", services)
        };
        let identity = Identity::new(
            config.table.clone(),
            config.tokens,
            config.service_accounts,
            config.bootstrap_tokens,
        );
        let started = config.env.now_nanos() as f64 / 1e9;
        let (trigger, shutdown) = Trigger::new();
        Ok(Arc::new(Api {
            registry: Registry::new(config.catalog, config.table, config.engine, config.env, admission),
            authorizer,
            identity,
            metrics: Metrics::default(),
            health: Health::default(),
            documents: open_api::Documents::default(),
            shutdown,
            started,
            loops_started: AtomicBool::new(false),
            trigger,
            issuer: config.issuer,
            advertised: Mutex::new(config.cluster.advertised.clone()),
            inspected: Mutex::default(),
            cluster: config.cluster,
        }))
    }

    /// Shows the control loops of this process under `/debug/controllers` and in `/metrics`.
    pub fn inspect(&self, loops: Arc<dyn Inspect>) {
        *self.inspected.lock() = Some(loops);
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
        vec![
            env.spawn("upkeep", upkeep::run(self.clone())),
            env.spawn("clusterrole-aggregation", aggregation::run(self.clone())),
            env.spawn("certificates", certificates::run(self.clone(), self.issuer.clone())),
            env.spawn("resourcequota", quotas::run(self.clone())),
            env.spawn("service-cidrs", service_cidrs::run(self.clone())),
            env.spawn("address-repair", address_repair::run(self.clone())),
            env.spawn("kubernetes-service", kubernetes_service::run(self.clone())),
            env.spawn("cluster-trust", trust::run(self.clone())),
        ]
    }

    /// Not ready any more, watches end; requests under way finish.
    pub fn begin_shutdown(&self) {
        self.trigger.begin();
    }

    /// Resolves when a shutdown has begun.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// One request, one answer, whatever happens.
    pub async fn handle(self: &Arc<Api>, caller: &Caller, request: Request<RequestBody>) -> Answer {
        // Outermost: a bug in one request must not take the connection, or the server, with it.
        match AssertUnwindSafe(self.counted(caller, request)).catch_unwind().await {
            Ok(answer) => answer,
            Err(_) => {
                tracing::error!("a request panicked; this is a bug in setpoint");
                let status = Status::internal("the request failed inside the server");
                respond::status(self.registry.catalog(), &status, Wanted::JSON)
            }
        }
    }

    /// Measures, and turns refusals into answers.
    async fn counted(self: &Arc<Api>, caller: &Caller, request: Request<RequestBody>) -> Answer {
        let begun = self.registry.env().monotonic();
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query());
        // First of all: everything after depends on what the request is about.
        let place = parse(&parts.method, parts.uri.path(), &query);
        let answer = match &place {
            Place::Resource(info) => self.admitted(caller, &parts, body, &query, Some(info)).await,
            Place::Other => self.admitted(caller, &parts, body, &query, None).await,
        };
        let answer = answer.unwrap_or_else(|status| {
            let wanted = negotiate_error(&parts.headers, &query);
            respond::status(self.registry.catalog(), &status, wanted)
        });
        if let Place::Resource(info) = &place
            && let Some(resource) = info.find(self.registry.catalog())
        {
            let counted = counted(resource, info, &query);
            self.metrics.request(&counted, answer.status().as_u16(), self.registry.env().monotonic() - begun);
        }
        answer
    }

    async fn admitted(
        self: &Arc<Api>,
        caller: &Caller,
        parts: &http::request::Parts,
        body: RequestBody,
        query: &Query<'_>,
        info: Option<&RequestInfo<'_>>,
    ) -> Result<Answer, Status> {
        // Who: before anything is looked at in their name.
        let user = self.authenticate(caller, parts).await?;
        // As whom: after we know who asks, before their rights are looked at; it is itself a right.
        let wanted = attributes(parts, query, info);
        let user = self.impersonated(user, parts, &wanted)?;
        // How many at once: after identity (administrators are exempt), before work is done for the request.
        let long_running = info.is_some_and(|i| i.verb == "watch");
        let _slot = if long_running { None } else { Some(self.slot(&user, parts)?) };
        // May they: the last step before the verb, and the same for everyone, our own loops included.
        self.authorizer.check(&user, &wanted)?;
        // The verb, within a deadline. What is cut off here may still be committed: 504 says "unknown".
        let work = self.verb(&user, parts, body, query, info);
        if long_running {
            return work.await;
        }
        match tokio::time::timeout(DEADLINE, work).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::timeout("request did not complete within the allowed duration")),
        }
    }

    async fn verb(
        self: &Arc<Api>,
        user: &UserInfo,
        parts: &http::request::Parts,
        body: RequestBody,
        query: &Query<'_>,
        info: Option<&RequestInfo<'_>>,
    ) -> Result<Answer, Status> {
        match info {
            Some(info) => verbs::serve(self, user, parts, body, query, info).await,
            None => self.other(parts, query).await,
        }
    }

    /// Paths that are no resource.
    async fn other(&self, parts: &http::request::Parts, query: &Query<'_>) -> Result<Answer, Status> {
        let path = parts.uri.path().trim_end_matches('/');
        if let Some(answer) = self.health.serve(self, path, query) {
            return Ok(answer);
        }
        if let Some(answer) = open_api::serve(self, path, &parts.headers, query) {
            return Ok(answer);
        }
        if let Some(answer) = openid::serve(self, path, &parts.method) {
            return answer;
        }
        match path {
            "/version" => Ok(discovery::version()),
            "/metrics" => {
                let objects: Vec<(String, usize)> = self
                    .registry
                    .catalog()
                    .storages()
                    .iter()
                    .map(|s| (qualified(s), self.registry.table().count(s.id)))
                    .collect();
                let mut text = self.metrics.render(self.registry.catalog(), &objects, self.started);
                if let Some(loops) = self.inspected.lock().clone() {
                    loops.metrics(&mut text);
                }
                let media = "text/plain; version=0.0.4; charset=utf-8";
                Ok(respond::answer(200, media, text.into_bytes().into()))
            }
            "/debug/controllers" => {
                let loops = self.inspected.lock().clone();
                let shown = loops.map_or_else(Value::map, |loops| loops.controllers());
                Ok(respond::answer(200, "application/json", codec::json::to_vec(&shown).into()))
            }
            _ => discovery::serve(self, path, parts, query),
        }
    }

    /// A certificate if there is one, then the tokens; who brings nothing is nobody, who brings what proves
    /// nothing is refused.
    async fn authenticate(
        &self,
        caller: &Caller,
        parts: &http::request::Parts,
    ) -> Result<Arc<UserInfo>, Status> {
        match caller {
            Caller::Known(user) => return Ok(user.clone()),
            Caller::Refused if !parts.headers.contains_key(AUTHORIZATION) => {
                return Err(Status::unauthorized());
            }
            Caller::Refused | Caller::Unknown => {}
        }
        let Some(header) = parts.headers.get(AUTHORIZATION) else {
            return Ok(Arc::new(UserInfo::anonymous()));
        };
        let bearer = header
            .to_str()
            .ok()
            .and_then(|h| h.split_once(' '))
            .filter(|(s, _)| s.eq_ignore_ascii_case("bearer"));
        let (_, token) = bearer.ok_or_else(Status::unauthorized)?;
        let audiences = self.identity.service_accounts().audiences();
        match self.identity.authenticate(&self.registry, token.trim(), audiences).await {
            Ok(bearer) => Ok(bearer.user),
            Err(why) => {
                tracing::debug!(why, "a token was refused");
                Err(Status::unauthorized())
            }
        }
    }

    fn impersonated(
        &self,
        user: Arc<UserInfo>,
        parts: &http::request::Parts,
        wanted: &Attributes<'_>,
    ) -> Result<Arc<UserInfo>, Status> {
        if !parts.headers.keys().any(|name| impersonation::is_impersonation_header(name.as_str())) {
            return Ok(user);
        }
        let mut headers = Vec::new();
        for (name, value) in &parts.headers {
            if !impersonation::is_impersonation_header(name.as_str()) {
                continue;
            }
            // Names need not be ASCII; what cannot be read must not be taken for "nobody".
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Status::bad_request(format!("the header {name} is not UTF-8")))?;
            headers.push((name.as_str(), text));
        }
        let Some(as_whom) = impersonation::requested(headers.into_iter())? else { return Ok(user) };
        let authorize = |user: &UserInfo, wanted: &Attributes<'_>| self.authorizer.authorize(user, wanted);
        Ok(Arc::new(impersonation::impersonate(&as_whom, &user, wanted, &authorize)?.user))
    }

    fn slot(&self, user: &UserInfo, parts: &http::request::Parts) -> Result<Slot<'_>, Status> {
        let writing = !matches!(parts.method.as_str(), "GET" | "HEAD");
        let gauge = self.metrics.in_flight(writing);
        let slot = Slot { gauge };
        let under_way = gauge.fetch_add(1, Ordering::AcqRel) + 1;
        let limit = if writing { MAX_WRITING } else { MAX_READING };
        if under_way > limit && !user.is_in(groups::MASTERS) {
            return Err(Status::too_many_requests("Too many requests, please try again later.", 1));
        }
        Ok(slot)
    }
}

/// A place among the requests under way.
struct Slot<'a> {
    gauge: &'a std::sync::atomic::AtomicI64,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.gauge.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What RBAC is asked.
fn attributes<'a>(
    parts: &'a http::request::Parts,
    query: &'a Query<'_>,
    info: Option<&'a RequestInfo<'_>>,
) -> Attributes<'a> {
    let Some(info) = info else {
        let verb = match parts.method.as_str() {
            "GET" => "get",
            "HEAD" => "head",
            "POST" => "post",
            "PUT" => "put",
            "PATCH" => "patch",
            "DELETE" => "delete",
            "OPTIONS" => "options",
            other => other,
        };
        return Attributes::path(verb, parts.uri.path());
    };
    let mut name: &str = &info.name;
    // A list or watch of one name is authorised like that name.
    if name.is_empty() && matches!(info.verb, "list" | "watch" | "deletecollection") {
        let selector = query.get("fieldSelector");
        let exact = |part: &'a str| {
            part.strip_prefix("metadata.name==").or_else(|| part.strip_prefix("metadata.name="))
        };
        let of_one = selector.split(',').find_map(exact).filter(|n| !n.contains('='));
        name = of_one.filter(|_| !selector.contains('\\')).unwrap_or("");
    }
    Attributes {
        verb: if info.verb.is_empty() { parts.method.as_str() } else { info.verb },
        group: &info.group,
        resource: &info.resource,
        subresource: &info.subresource,
        name,
        namespace: &info.namespace,
        field_selector: match info.verb {
            "list" | "watch" | "deletecollection" if !info.old_watch => query.get("fieldSelector"),
            _ => "",
        },
        path: None,
    }
}

pub(crate) fn counted<'a>(
    resource: &'a Resource,
    info: &'a RequestInfo<'_>,
    query: &Query<'_>,
) -> Counted<'a> {
    let verb = match info.verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    };
    let scope = if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    };
    Counted { resource, subresource: &info.subresource, verb, scope, dry_run: query.find("dryRun").is_some() }
}

fn qualified(storage: &catalog::Storage) -> String {
    if storage.group.is_empty() {
        storage.plural.to_string()
    } else {
        format!("{}.{}", storage.plural, storage.group)
    }
}
