//! API priority and fairness: where requests take their seats (`flowcontrol`), and where its configuration comes from.
//!
//! A request is classified when its user is known. It takes its seats late: once its body is read, or right before its verb if it
//! has none, so that a slow client occupies no seat; and it gives them back when an admission webhook is asked, so that a slow webhook
//! occupies none either. Controllers of this process take seats in the same levels, and wait where a remote client would get a 429.

mod dump;

use std::sync::Arc;
use std::time::Duration;

use admission::{Seats, Trace};
use auth::{Attributes, UserInfo};
use catalog::{Catalog, Resource};
use client::Gvr;
use flowcontrol::estimate::{self, ListSize};
use flowcontrol::{
    About, Classified, Flow, FlowSchema, PriorityLevel, RequestDigest, ResourceDigest, Seat, WatchGuard,
    WorkEstimate,
};
use http::header::{HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderName, Uri};
use object::Status;
use parking_lot::Mutex;
use runtime::{Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest};
use tokio::time::Instant;

use crate::api::Api;
use crate::chain::RequestHead;
use crate::controllers::Context;
use crate::loopback::LoopbackClient;
use crate::metrics::InFlightSlot;
use crate::request_info::{Query, is_mutating};
use crate::respond::{self, Answer};
use crate::run_queue::PermitPoller;

pub(crate) use dump::serve;

const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const TOO_MANY: &str = "Too many requests, please try again later.";

/// Applies FlowSchemas and PriorityLevelConfigurations, and runs the periodic work of flow control.
pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let key = |_: &InformerEvent<'_>| vec![Key::new("", "configuration")];
    let mut controller = context.controller("flow-control");
    for plural in ["flowschemas", "prioritylevelconfigurations"] {
        controller = controller.watches(&context.informers.of(&Gvr::new(GROUP, "v1", plural)), key);
    }
    let mut tasks = context.start(controller, Configuring { api: context.api.clone() });
    let (api, stop) = (context.api.clone(), context.stop.clone());
    tasks.push(context.api.registry().env().spawn("flow-control", async move {
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = api.flow.run() => {}
        }
    }));
    tasks
}

struct Configuring {
    api: Arc<Api>,
}

impl Reconcile for Configuring {
    fn reconcile<'a>(&'a self, _: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            configure(&self.api)?;
            Ok(Action::AwaitChange)
        })
    }
}

/// The last configuration stays until they can be read.
fn configure(api: &Arc<Api>) -> Result<(), Status> {
    let client = LoopbackClient::new(api);
    let (schemas, levels) =
        (client.list((GROUP, "flowschemas"))?, client.list((GROUP, "prioritylevelconfigurations"))?);
    let schemas = schemas.iter().map(FlowSchema::read).collect();
    let levels = levels.iter().filter_map(PriorityLevel::read).collect();
    api.flow.configure(schemas, levels);
    Ok(())
}

/// The seats of a request, and its slot among those in flight, until dropped.
pub struct SeatGuard {
    seat: Seat,
    api: Arc<Api>,
    slot: InFlightSlot,
}

impl SeatGuard {
    /// The next chunk of the answer is being sent.
    pub fn sending(&mut self) {
        self.seat.sending(&self.api.flow);
    }

    /// Permits for encoding the chunks of the answer.
    pub fn poller(&self) -> PermitPoller {
        self.api.run_queue.poller()
    }
}

/// An authorized request, and its seats once it takes them.
pub struct AuthorizedRequest<'a> {
    pub api: &'a Arc<Api>,
    pub user: &'a Arc<UserInfo>,
    pub query: &'a Query<'a>,
    pub parts: &'a Parts,
    pub catalog: &'a Arc<Catalog>,
    wanted: &'a Attributes<'a>,
    classified: &'a Classified,
    /// How long it may wait for seats.
    wait: Duration,
    deadline: Instant,
    /// What took part in its admission.
    pub trace: Trace,
    /// Guards what the verb takes and the chain releases.
    outcome: Mutex<Outcome>,
    /// Held while seats are taken again, so that webhooks that are asked at once take them once.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Outcome {
    guard: Option<SeatGuard>,
    /// They are not given back any more.
    keeps: bool,
    /// Of its body, which the number of seats goes by.
    bytes: usize,
    /// How long it waited for its seats.
    waited: Duration,
    rejected: Option<flowcontrol::Rejected>,
    /// Of a request that has given its seats back.
    in_flight: Option<InFlightSlot>,
}

impl<'a> AuthorizedRequest<'a> {
    pub fn new(
        api: &'a Arc<Api>,
        user: &'a Arc<UserInfo>,
        wanted: &'a Attributes<'a>,
        head: RequestHead<'a>,
        classified: &'a Classified,
        deadline: Duration,
    ) -> AuthorizedRequest<'a> {
        let outcome = Mutex::default();
        // Upstream's: a quarter of the time there is.
        let (wait, deadline) = (deadline / 4, api.registry().env().monotonic() + deadline);
        let RequestHead { query, parts, catalog, .. } = head;
        AuthorizedRequest {
            api,
            user,
            wanted,
            query,
            parts,
            catalog,
            classified,
            wait,
            deadline,
            trace: Trace::default(),
            outcome,
            keeping: tokio::sync::Mutex::default(),
        }
    }

    /// Takes the seats, for a body of that many bytes.
    pub async fn take_seats(&self, bytes: usize) -> Result<(), Status> {
        if self.outcome.lock().guard.is_some() {
            return Ok(());
        }
        let digest = digest(self.user, self.wanted);
        let about = about(self.user, self.wanted, Some(self.parts.uri.clone()));
        let estimate = self.estimate(bytes as u64);
        let control = &self.api.flow;
        let env = self.api.registry.env();
        let begun = env.monotonic();
        let seat = control.seat(self.classified, &digest, about, estimate, Some(self.wait)).await;
        let mut outcome = self.outcome.lock();
        outcome.waited += env.monotonic() - begun;
        outcome.bytes = bytes;
        match seat {
            Ok(seat) => {
                let enter = || self.api.metrics.enter(is_mutating(&self.parts.method));
                let slot = outcome.in_flight.take().unwrap_or_else(enter);
                outcome.guard = Some(SeatGuard { seat, api: self.api.clone(), slot });
                Ok(())
            }
            Err(rejected) => {
                outcome.rejected = Some(rejected);
                Err(Status::too_many_requests(TOO_MANY, rejected.retry_after_seconds))
            }
        }
    }

    /// Time that is not this server's: for seats, and for webhooks.
    pub fn waited(&self) -> Duration {
        self.outcome.lock().waited + self.trace.webhooks_took()
    }

    /// When the request times out.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The seats, for an answer that is streamed.
    pub fn take_guard(&self) -> Option<SeatGuard> {
        self.outcome.lock().guard.take()
    }

    /// The name of its priority level.
    pub fn level(&self) -> &str {
        self.classified.level_name()
    }

    /// The name in its path, or the one its field selector allows.
    pub fn name(&self) -> &'a str {
        self.wanted.name
    }

    /// The answer if it got no seats.
    pub fn rejection(&self) -> Option<Answer> {
        let rejected = self.outcome.lock().rejected?;
        let body = format!("{TOO_MANY}\n").into_bytes();
        let mut answer = respond::answer(429, "text/plain; charset=utf-8", body.into());
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(rejected.retry_after_seconds));
        answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Some(answer)
    }

    fn estimate(&self, bytes: u64) -> WorkEstimate {
        let query = |name: &str| self.query.get(name);
        let begins = match self.wanted.verb {
            "list" => true,
            "watch" => begins_with_state(query("resourceVersion"), self.query.flag("sendInitialEvents")),
            _ => false,
        };
        let limit = query("limit").parse().unwrap_or(0);
        estimate_of(self.api, self.catalog, self.classified, self.wanted, begins.then_some(limit), bytes)
    }
}

// Differs from kube-apiserver, where a request keeps its seats while a webhook is asked: one that hangs must not keep the users of its
// level from being served.
impl Seats for AuthorizedRequest<'_> {
    fn give_back(&self) {
        let mut outcome = self.outcome.lock();
        if outcome.keeps {
            return;
        }
        if let Some(SeatGuard { seat, slot, .. }) = outcome.guard.take() {
            outcome.in_flight = Some(slot);
            drop(outcome);
            drop(seat);
        }
    }

    fn keep(&self) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async {
            let _one = self.keeping.lock().await;
            let bytes = {
                let mut outcome = self.outcome.lock();
                outcome.keeps = true;
                outcome.bytes
            };
            self.take_seats(bytes).await
        })
    }
}

/// Levels of health checks and administrators, of leader election, and of nodes: what the cluster cannot do without.
pub fn is_critical_level(level: &str) -> bool {
    matches!(level, "exempt" | "leader-election" | "node-high" | "system")
}

/// Whether a watch starts with initial events.
pub fn begins_with_state(resource_version: &str, initial_events: bool) -> bool {
    initial_events || matches!(resource_version, "" | "0")
}

/// The work estimate of a request; `lists` is the limit of a list, or of the initial events of a watch (0: none).
pub fn estimate_of(
    api: &Api,
    catalog: &Catalog,
    classified: &Classified,
    wanted: &Attributes<'_>,
    lists: Option<u64>,
    bytes: u64,
) -> WorkEstimate {
    let found = catalog.find_storage(wanted.group, wanted.resource).filter(|_| wanted.path.is_none());
    let Some(storage) = found.map(|storage| storage.id) else {
        return WorkEstimate { bytes, ..WorkEstimate::ONE };
    };
    if let Some(limit) = lists {
        let (objects, bytes) = api.registry().table().size(storage);
        let single = !wanted.name.is_empty();
        let size = ListSize { objects: objects as u64, bytes, limit, single };
        return estimate::list(&size, classified.max_seats());
    }
    // A token is not stored, so no watch sees it.
    let writes = matches!(wanted.verb, "create" | "update" | "patch" | "delete");
    if !writes || wanted.subresource == "token" {
        return WorkEstimate { bytes, ..WorkEstimate::ONE };
    }
    let watches = api.watches.interested(storage.0, wanted.namespace, wanted.name);
    classified.observe_watch_count(watches);
    estimate::write(bytes, watches, classified.max_seats())
}

/// Counts a watch among those a write wakes, unless it selects one value of the indexed field: few of those concern a write, and
/// the index leads to them.
pub fn watched(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
    field_selector: &str,
) -> Option<WatchGuard> {
    let storage = resource.storage.as_ref()?;
    let of_one = storage.indexed.as_deref().is_some_and(|field| {
        field_selector.split(',').any(|term| {
            let value = term.strip_prefix(field).map(|rest| rest.trim_start_matches('='));
            value.is_some_and(|value| !value.is_empty() && !value.starts_with('!'))
        })
    });
    if of_one { None } else { Some(api.watches.open(storage.id.0, namespace, name)) }
}

/// What the debug endpoints show of a request.
pub fn about(user: &Arc<UserInfo>, wanted: &Attributes<'_>, uri: Option<Uri>) -> About {
    const VERBS: [&str; 8] =
        ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let verb = VERBS.into_iter().find(|verb| *verb == wanted.verb).unwrap_or("other");
    About { user: user.clone(), verb, uri, flow: Flow::All }
}

/// What FlowSchemas match on.
pub fn digest<'a>(user: &'a UserInfo, wanted: &Attributes<'a>) -> RequestDigest<'a> {
    let resource = ResourceDigest {
        group: wanted.group,
        resource: wanted.resource,
        subresource: wanted.subresource,
        namespace: wanted.namespace,
    };
    RequestDigest {
        user,
        verb: wanted.verb,
        resource: wanted.path.is_none().then_some(resource),
        path: wanted.path.unwrap_or(""),
    }
}

/// Sets the headers that name the matching FlowSchema and priority level.
pub fn label(answer: &mut Answer, classified: &Classified) {
    let [schema, level] = classified.uids();
    let headers = answer.headers_mut();
    if !schema.is_empty() {
        headers.insert(FLOW_SCHEMA_UID, schema.clone());
    }
    if !level.is_empty() {
        headers.insert(PRIORITY_LEVEL_UID, level.clone());
    }
}
