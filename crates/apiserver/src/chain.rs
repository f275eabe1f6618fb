//! The path of a request, top down. Each step says why it stands where it stands.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admission::service_addresses::{ServiceAddresses, ServiceRanges};
use admission::{BadChoice, Chain, Choice};
use auth::pki::Issuer;
use auth::{Attributes, ServiceAccounts, Tokens, UserInfo, impersonation};
use catalog::Verbs;
use env::Env;
use flowcontrol::{Classified, FlowControl, Limits, WatchCounts};
use futures_util::FutureExt;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use registry::Registry;
use store::Engine;
use table::Table;
use tokio::time::Instant;

use crate::authorize::{Authorizer, NoEscalation};
use crate::body::{Body, RequestBody};
use crate::bulk::Bulk;
use crate::connections::Connections;
use crate::documents::Documents;
use crate::flow_control::{self, Gate};
use crate::health::Health;
use crate::identity::Identity;
use crate::info::{Place, Query, RequestInfo, parse};
use crate::kubernetes_service::{self, Advertised};
use crate::metrics::{Admissions, DryRun, Extent, Metered, Metrics, Verb};
use crate::negotiate::{Wanted, negotiate_error, weighs_gzip};
use crate::pools::Pool;
use crate::respond::{self, Answer};
use crate::shutdown::{Shutdown, Trigger};
use crate::websocket::{self, Handover};
use crate::{
    address_repair, aggregation, certificates, discovery, flow_schemas, open_api, openid, quotas,
    service_cidrs, trust, upkeep, verbs,
};

/// Requests that are no watch must be answered within this.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Documents smaller than this are sent as they are.
pub(crate) const PACK_FROM: usize = 1400;

const SPACE_BEFORE_TOKEN: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

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
    /// Which of [`CONTROLLERS`] do not run.
    pub without: Vec<&'static str>,
    /// How much may be under way at once.
    pub limits: Limits,
}

const ROLE_AGGREGATION: &str = "clusterrole-aggregation-controller";
const RESOURCE_QUOTAS: &str = "resourcequota-controller";
const SERVICE_CIDRS: &str = "service-cidr-controller";
/// Loops of this server that belong to kube-controller-manager upstream, by the names they have there: whoever leaves the
/// others out can leave them out too.
pub const CONTROLLERS: [&str; 3] = [ROLE_AGGREGATION, RESOURCE_QUOTAS, SERVICE_CIDRS];

/// The whole API without its sockets: give it requests, it gives answers.
pub struct Api {
    pub(crate) registry: Registry,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) identity: Identity,
    pub(crate) metrics: Metrics,
    /// The registry's engine, for what it counts.
    store: Arc<Metered>,
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
                .allocate_with("", "services", services)
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

    /// One request, one answer, whatever happens.
    pub async fn handle(self: &Arc<Api>, caller: &Caller, request: Request<RequestBody>) -> Answer {
        // Outermost: a bug in one request must not take the connection, or the server, with it.
        match AssertUnwindSafe(self.counted(caller, request)).catch_unwind().await {
            Ok(answer) => answer,
            Err(_) => {
                tracing::error!("a request panicked; this is a bug in setpoint");
                let status = Status::internal("the request failed inside the server");
                respond::status(&self.registry.catalog(), &status, Wanted::JSON)
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
        let info = match &place {
            Place::Resource(info) => Some(info),
            Place::Other => None,
        };
        let mut course = Course { stage: Stage::Refused, classified: None };
        let answer = self.admitted(caller, &parts, body, &query, info, &mut course).await;
        let mut answer = answer.unwrap_or_else(|status| {
            let wanted = negotiate_error(&parts.headers, &query);
            respond::status(&self.registry.catalog(), &status, wanted)
        });
        if !matches!(caller, Caller::Known(_)) && has_space_before_token(&parts.headers) {
            respond::warn_first(&mut answer, SPACE_BEFORE_TOKEN);
        }
        if let Some(classified) = &course.classified {
            flow_control::label(&mut answer, classified);
        }
        self.count(&place, &parts, &query, course.stage, begun, &mut answer);
        answer
    }

    /// Counts as upstream does: what reached its verb, and what was turned away for want of room.
    fn count(
        &self,
        place: &Place<'_>,
        parts: &http::request::Parts,
        query: &Query<'_>,
        stage: Stage,
        begun: Instant,
        answer: &mut Answer,
    ) {
        let routes = self.metrics.routes();
        let route = match place {
            Place::Resource(info) => route(self, info, &parts.headers),
            Place::Other => Some(routes.of_path(parts.uri.path())),
        };
        let Some(route) = route else { return };
        let code = answer.status().as_u16();
        match stage {
            Stage::Refused => return,
            Stage::Dropped => {
                route.dropped(dry_run(query), code);
                return route.terminated(code);
            }
            Stage::TimedOut => route.terminated(code),
            Stage::Served => {}
        }
        if routes.is_other(&route) {
            return;
        }
        let reads = route.is_read();
        match answer.body_mut() {
            // Counted when it ends.
            Body::Watch(_) => return,
            _ if code == 101 => return,
            Body::Whole(bytes) if reads => route.sent(bytes.as_ref().map_or(0, |b| b.len()) as u64),
            Body::List(list) if reads => list.counted(self.metrics.sending(route.clone())),
            Body::Whole(_) | Body::List(_) => {}
        }
        route.answered(dry_run(query), code, self.registry.env().monotonic() - begun);
    }

    async fn admitted(
        self: &Arc<Api>,
        caller: &Caller,
        parts: &http::request::Parts,
        body: RequestBody,
        query: &Query<'_>,
        info: Option<&RequestInfo<'_>>,
        course: &mut Course,
    ) -> Result<Answer, Status> {
        let env = self.registry.env();
        let watch = info.is_some_and(|i| i.verb == "watch");
        let deadline = if watch { DEADLINE } else { deadline(query)? };
        // Who: before anything is looked at in their name.
        let ordinary = |_: &Status| body.belongs_in(Pool::Ordinary);
        let user = self.authenticate(caller, parts).await.inspect_err(ordinary)?;
        // As whom: after we know who asks, before their rights are looked at; it is itself a right.
        let wanted = attributes(parts, query, info);
        let user = self.impersonated(user, parts, &wanted).inspect_err(ordinary)?;
        // In which level and flow: after identity, on which it depends; told with every answer, refusals too.
        let classified = self.flow.classify(&flow_control::digest(&user, &wanted));
        let classified = course.classified.insert(classified);
        // What keeps the cluster alive is not queued behind what does not.
        let vital = keeps_alive(classified.level_name());
        body.belongs_in(if vital { Pool::Priority } else { Pool::Ordinary });
        // From here on what the request holds is its user's, who may hold only so much.
        body.belongs_to(&user, is_writing(parts)).inspect_err(|_| course.stage = Stage::Dropped)?;
        // May they: before they wait, or their body is read, for nothing; and the same for everyone, our own loops included.
        // Differs from kube-apiserver, which asks after a seat was found: to ask costs less than to wait here.
        let now = env.monotonic();
        let allowed = self.authorizer.check(&user, &wanted);
        self.metrics.identities().authorized(allowed.is_ok(), env.monotonic() - now);
        allowed?;
        course.stage = Stage::Served;
        let gate = Gate::new(self, &user, &wanted, query, parts, classified, deadline);
        // The verb, within a deadline. What is cut off here may still be committed: 504 says "unknown".
        let work = self.verb(&gate, body, info);
        let served = match (vital, watch) {
            (true, true) => Ok(work.await),
            (true, false) => env.timeout(deadline, work).await,
            (false, true) => Ok(self.bulk.lane(work).await),
            (false, false) => env.timeout(deadline, self.bulk.lane(work)).await,
        };
        if let Some(rejection) = gate.rejection() {
            course.stage = Stage::Dropped;
            return Ok(rejection);
        }
        match served {
            Ok(Ok(mut answer)) => {
                match answer.body_mut() {
                    Body::List(list) => gate.take().into_iter().for_each(|seats| list.holds(seats)),
                    Body::Watch(watch) => {
                        gate.take().into_iter().for_each(|seats| watch.holds(seats, !vital))
                    }
                    Body::Whole(_) => {}
                }
                Ok(answer)
            }
            Ok(Err(status)) => Err(status),
            Err(_) => {
                course.stage = Stage::TimedOut;
                Err(Status::timeout("request did not complete within the allowed duration"))
            }
        }
    }

    async fn verb(
        self: &Arc<Api>,
        gate: &Gate<'_>,
        body: RequestBody,
        info: Option<&RequestInfo<'_>>,
    ) -> Result<Answer, Status> {
        // How many at once: a seat is taken when there is something to do, so by what reads a body when the body is there.
        match info {
            Some(info) => {
                if is_reading(info) {
                    gate.pass(0).await?;
                }
                verbs::serve(gate, body, info).await
            }
            None => {
                gate.pass(0).await?;
                self.other(gate.parts, gate.query).await
            }
        }
    }

    /// Paths that are no resource.
    async fn other(&self, parts: &http::request::Parts, query: &Query<'_>) -> Result<Answer, Status> {
        // What is no API is found by its exact path; below the roots of the API a slash at the end changes nothing.
        let path = parts.uri.path();
        if path.is_empty() {
            // `CONNECT host:port`
            return Ok(respond::page_not_found());
        }
        if let Some(answer) = self.health.serve(self, path, query) {
            return Ok(answer);
        }
        if let Some(answer) = open_api::serve(self, path, &parts.headers, query).await {
            return Ok(answer);
        }
        if let Some(answer) = openid::serve(self, path.trim_end_matches('/'), &parts.method) {
            return answer;
        }
        match path {
            path if path.starts_with("/debug/api_priority_and_fairness/") => {
                Ok(flow_control::serve(self, path, query).unwrap_or_else(respond::page_not_found))
            }
            "/metrics" => {
                let mut text = String::with_capacity(64 * 1024);
                self.flow.write_metrics(&mut text);
                self.metrics.write(&mut text, self.registry.table(), &self.store, self.started);
                if let Some(loops) = self.inspected.lock().clone() {
                    loops.metrics(&mut text);
                }
                let media = "text/plain; version=0.0.4; charset=utf-8";
                Ok(packed(respond::answer(200, media, text.into_bytes().into()), parts))
            }
            "/metrics/slis" => {
                let mut text = String::new();
                self.health.write(&mut text);
                crate::metrics::process(&mut text, self.started);
                let media = "text/plain; version=0.0.4; charset=utf-8";
                Ok(packed(respond::answer(200, media, text.into_bytes().into()), parts))
            }
            "/debug/controllers" => {
                let loops = self.inspected.lock().clone();
                let shown = loops.map_or_else(Value::map, |loops| loops.controllers());
                crate::inspect::controllers(&shown, &parts.headers, query)
            }
            path => match path.trim_end_matches('/') {
                "/version" => discovery::version(&parts.method),
                path => discovery::serve(self, path, parts, query),
            },
        }
    }

    async fn authenticate(
        &self,
        caller: &Caller,
        parts: &http::request::Parts,
    ) -> Result<Arc<UserInfo>, Status> {
        let begun = self.registry.env().monotonic();
        let proven = self.proven(caller, parts).await;
        let took = self.registry.env().monotonic() - begun;
        self.metrics.identities().authenticated(proven.as_ref().ok().map(|user| &*user.name), took);
        proven
    }

    /// A certificate if there is one, then the tokens; who brings nothing is nobody, who brings what proves
    /// nothing is refused.
    async fn proven(&self, caller: &Caller, parts: &http::request::Parts) -> Result<Arc<UserInfo>, Status> {
        if let Caller::Known(user) = caller {
            return Ok(user.clone());
        }
        let handover = parts.extensions.get::<Arc<Handover>>();
        let (token, handover) = match (bearer_token(&parts.headers), handover) {
            (Some(token), _) => (Cow::Borrowed(token), None),
            (None, Some(handover)) => match websocket::token(&parts.headers) {
                Ok(token) => (Cow::Owned(token.unwrap_or_default()), Some(handover)),
                Err(why) => {
                    tracing::debug!(why, "a token was refused");
                    return Err(Status::unauthorized());
                }
            },
            (None, None) => (Cow::Borrowed(""), None),
        };
        if token.is_empty() {
            return match caller {
                Caller::Refused => Err(Status::unauthorized()),
                _ => Ok(Arc::new(UserInfo::anonymous())),
            };
        }
        let audiences = self.identity.service_accounts().audiences();
        match self.identity.authenticate(&self.registry, &token, audiences).await {
            Ok(bearer) => {
                if let Some(handover) = handover {
                    handover.token_used();
                }
                Ok(bearer.user)
            }
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
}

/// Priority levels of health checks and administrators, of leader election, and of nodes.
pub(crate) fn keeps_alive(level: &str) -> bool {
    matches!(level, "exempt" | "leader-election" | "node-high" | "system")
}

/// What reads no body and ends by itself. (A connection to a pod lasts as long as its client likes, and takes no seat.)
fn is_reading(info: &RequestInfo<'_>) -> bool {
    let connects = matches!(&*info.subresource, "log" | "exec" | "attach" | "portforward" | "proxy");
    matches!(info.verb, "get" | "list" | "watch") && !connects
}

pub(crate) fn is_writing(parts: &http::request::Parts) -> bool {
    !matches!(parts.method.as_str(), "GET" | "HEAD")
}

/// What became of a request, for those who count.
struct Course {
    stage: Stage,
    /// Once its user is known.
    classified: Option<Classified>,
}

/// How far a request came.
#[derive(Clone, Copy)]
enum Stage {
    /// Nobody, or not allowed.
    Refused,
    /// No room.
    Dropped,
    TimedOut,
    Served,
}

/// The token of an `Authorization: Bearer` header; any other content of that header proves nothing and harms nobody.
fn bearer_token(headers: &http::HeaderMap) -> Option<&str> {
    // Bytes above ASCII are in no token, but make a bad one of it rather than none.
    let text = headers.get(AUTHORIZATION)?;
    let text = std::str::from_utf8(text.as_bytes()).unwrap_or("bearer ?").trim();
    let mut words = text.splitn(3, ' ');
    let scheme = words.next().unwrap_or("");
    words.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// `Bearer  x`: what stands behind the first space is empty, and so no token.
fn has_space_before_token(headers: &http::HeaderMap) -> bool {
    let text = headers.get(AUTHORIZATION).and_then(|text| std::str::from_utf8(text.as_bytes()).ok());
    let mut words = text.unwrap_or("").trim().splitn(3, ' ');
    let bearer = words.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    bearer && words.next() == Some("") && words.next().is_some()
}

/// Metrics, compressed where the client takes that.
fn packed(answer: Answer, parts: &http::request::Parts) -> Answer {
    verbs::packed(answer, PACK_FROM, weighs_gzip(&parts.headers))
}

/// How long the request may take: as long as its client says, within what the server allows.
fn deadline(query: &Query<'_>) -> Result<Duration, Status> {
    let text = query.get("timeout");
    if text.is_empty() {
        return Ok(DEADLINE);
    }
    let nanos = object::time::parse_duration(text).map_err(|error| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {error}"))
    })?;
    Ok(match u64::try_from(nanos) {
        Ok(0) | Err(_) => DEADLINE,
        Ok(nanos) => DEADLINE.min(Duration::from_nanos(nanos)),
    })
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

/// Where a request is counted; `None` for what no route of the API leads to.
pub(crate) fn route(
    api: &Api,
    info: &RequestInfo<'_>,
    headers: &http::HeaderMap,
) -> Option<crate::metrics::Route> {
    let catalog = api.registry.catalog();
    let resource = info.find(&catalog)?;
    let allowed = match &*info.subresource {
        "" => resource.verbs,
        name => resource.subresource(name)?.verbs,
    };
    let bit = info.verb_bit().filter(|verb| allowed.contains(*verb))?;
    let applies = || headers.get(CONTENT_TYPE).is_some_and(|t| t == "application/apply-patch+yaml");
    let verb = match bit {
        _ if matches!(&*info.subresource, "log" | "exec" | "attach" | "portforward" | "proxy") => {
            Verb::Connect
        }
        Verbs::GET => Verb::Get,
        Verbs::LIST => Verb::List,
        Verbs::WATCH => Verb::Watch,
        Verbs::CREATE => Verb::Post,
        Verbs::UPDATE => Verb::Put,
        Verbs::PATCH if applies() => Verb::Apply,
        Verbs::PATCH => Verb::Patch,
        _ => Verb::Delete,
    };
    let extent = if !info.name.is_empty() || bit == Verbs::CREATE {
        Extent::Resource
    } else if !info.namespace.is_empty() {
        Extent::Namespace
    } else {
        Extent::Cluster
    };
    Some(api.metrics.routes().of(resource, &info.subresource, verb, extent))
}

fn dry_run(query: &Query<'_>) -> DryRun {
    let mut values = query.all("dryRun").peekable();
    if values.peek().is_none() {
        DryRun::No
    } else if values.all(|value| value == "All") {
        DryRun::All
    } else {
        DryRun::Invalid
    }
}
