//! The path of a request, top down. Each layer says why it stands where it stands.
//!
//! ```text
//!  recover > request info > deadline > authenticate > impersonate > classify > charge > authorize > seat > verb
//!     └───────────────────────────────── count < respond <──────────────────────────────────────────────────┘
//! ```
//! Before it: `server.rs`, `acceptor.rs` and `serve_connection.rs` (sockets, TLS, HTTP). After it: `verbs.rs` (resources) and `non_resource.rs` (everything else).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use futures_util::FutureExt;
use http::Request;
use http::request::Parts;
use object::Status;

use crate::api::Api;
use crate::authenticate::{self, Caller, Identity};
use crate::body::{Body, RequestBody};
use crate::flow_control::{self, AuthorizedRequest, is_critical_level};
use crate::negotiate::{Negotiated, negotiate_error};
use crate::pools::Pool;
use crate::request_info::{Query, RequestInfo, RequestTarget, is_mutating};
use crate::request_metrics::{CountedRequest, Outcome, RequestRecord};
use crate::respond::{self, Answer};
use crate::{aggregation, attributes, deadline, impersonate, non_resource, source_address, verbs};

/// A request without its body.
#[derive(Clone, Copy)]
pub(crate) struct RequestHead<'a> {
    pub parts: &'a Parts,
    pub query: &'a Query<'a>,
    pub target: &'a RequestTarget<'a>,
    /// One snapshot for the whole request.
    pub catalog: &'a Arc<Catalog>,
}

impl<'a> RequestHead<'a> {
    /// `None` for a path that is no resource.
    pub fn info(&self) -> Option<&'a RequestInfo<'a>> {
        match self.target {
            RequestTarget::Resource(info) => Some(info),
            RequestTarget::NonResource => None,
        }
    }

    /// Lasts as long as its client likes: a watch, or a connection to a node or a pod.
    pub fn is_long_running(&self) -> bool {
        self.info().is_some_and(|info| info.verb == "watch" || info.is_connect())
    }
}

/// How long a request waited, also one that is dropped.
struct Waited<'a> {
    authorized: &'a AuthorizedRequest<'a>,
    waited: &'a mut Duration,
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        *self.waited = self.authorized.waited();
    }
}

pub(crate) fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout")
}

impl Api {
    /// One request, one answer, whatever happens.
    pub async fn handle(self: &Arc<Api>, caller: &Caller, request: Request<RequestBody>) -> Answer {
        // Recover: outermost, so that a bug in one request takes neither its connection nor the server down.
        match AssertUnwindSafe(self.respond(caller, request)).catch_unwind().await {
            Ok(answer) => answer,
            Err(_) => {
                tracing::error!("a request panicked; this is a bug in setpoint");
                let status = Status::internal("the request failed inside the server");
                respond::status(&self.registry.catalog(), &status, Negotiated::JSON)
            }
        }
    }

    async fn respond(self: &Arc<Api>, caller: &Caller, request: Request<RequestBody>) -> Answer {
        let begun = self.registry.env().monotonic();
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query());
        // Request info: first, because every layer below depends on what the request is about.
        let target = RequestTarget::parse(&parts.method, parts.uri.path(), &query);
        let catalog = self.registry.catalog();
        let head = RequestHead { parts: &parts, query: &query, target: &target, catalog: &catalog };
        let mut counted = CountedRequest::new(self, head, begun);
        let answer = self.admit(caller, head, body, &mut counted.record).await;
        // Respond: a refusal of any layer below becomes an answer here, in a form its client can read.
        let mut answer = answer.unwrap_or_else(|status| {
            respond::status(&catalog, &status, negotiate_error(&parts.headers, &query))
        });
        authenticate::warn_about_ignored_token(caller, &parts.headers, &mut answer);
        if let Some(warning) = counted.record.warning {
            respond::warn_first(&mut answer, warning);
        }
        if let Some(classified) = &counted.record.classified {
            flow_control::label(&mut answer, classified);
        }
        // Count: last, by the code the client sees.
        counted.answered(&mut answer);
        answer
    }

    /// Everything that may refuse a request before its verb runs.
    async fn admit(
        self: &Arc<Api>,
        caller: &Caller,
        head: RequestHead<'_>,
        body: RequestBody,
        record: &mut RequestRecord,
    ) -> Result<Answer, Status> {
        // Deadline: before anything that may wait.
        let deadline = deadline::of(head)?;
        // Authenticate: before anything is done in the client's name. Requests that fail are not critical.
        let ordinary = |_: &Status| body.prefer_pool(Pool::Ordinary);
        let Identity { user, warning } =
            authenticate::authenticate(self, caller, head.parts).await.inspect_err(ordinary)?;
        record.warning = warning;
        // Impersonate: once it is known who asks, before it is known what they may do; it takes a permission itself.
        let attributes = attributes::of(head);
        let user = impersonate::impersonate(self, user, head.parts, &attributes).inspect_err(ordinary)?;
        // Where a node asks from: as part of who asks, so before anything looks at that.
        let user = source_address::of_node(user, &attributes, body.peer());
        // Classify: by the user, so after it is known; and before any refusal, which names the level too.
        let classified = self.flow.classify(&flow_control::digest(&user, &attributes));
        let classified = &*record.classified.insert(classified);
        // Critical requests do not queue behind others: their connection moves to threads of its own.
        let critical = is_critical_level(classified.level_name());
        body.prefer_pool(if critical { Pool::Priority } else { Pool::Ordinary });
        // Charge: from here on the memory this request holds counts for its user, who may hold only so much.
        body.charge_to(&user, is_mutating(&head.parts.method))
            .inspect_err(|_| record.outcome = Outcome::Dropped)?;
        // Authorize: before the request waits, or its body is read, for nothing; controllers of this process included.
        // Differs from kube-apiserver, which authorizes after a seat was found: here the check costs less than the wait.
        let env = self.registry.env();
        let now = env.monotonic();
        let allowed = self.authorizer.check(&user, &attributes);
        self.metrics.auth().authorized(allowed.is_ok(), env.monotonic() - now);
        allowed?;
        record.outcome = Outcome::Served;
        let authorized = AuthorizedRequest::new(self, &user, &attributes, head, classified, deadline);
        let _waited = Waited { authorized: &authorized, waited: &mut record.waited };
        self.run(&authorized, head, body, critical, deadline, &mut record.outcome).await
    }

    /// The verb, within its deadline; ordinary requests through the run queue.
    async fn run(
        self: &Arc<Api>,
        authorized: &AuthorizedRequest<'_>,
        head: RequestHead<'_>,
        body: RequestBody,
        critical: bool,
        deadline: Duration,
        outcome: &mut Outcome,
    ) -> Result<Answer, Status> {
        let env = self.registry.env();
        // What the deadline cuts off here may still be committed: the 504 says "unknown". What is long-running ends otherwise.
        let work = self.verb(authorized, head, body);
        let served = match (critical, head.is_long_running()) {
            (true, true) => Ok(work.await),
            (true, false) => env.timeout(deadline, work).await,
            (false, true) => Ok(self.run_queue.queued(work).await),
            (false, false) => env.timeout(deadline, self.run_queue.queued(work)).await,
        };
        if let Some(rejection) = authorized.rejection() {
            *outcome = Outcome::Dropped;
            return Ok(rejection);
        }
        let Ok(served) = served else {
            *outcome = Outcome::TimedOut;
            return Err(timed_out());
        };
        let mut answer = served?;
        // What is streamed keeps its seats until it is sent.
        match answer.body_mut() {
            Body::List(list) => authorized.take_guard().into_iter().for_each(|seats| list.hold_seats(seats)),
            Body::Watch(watch) => {
                authorized.take_guard().into_iter().for_each(|seats| watch.hold_seats(seats, !critical))
            }
            Body::Whole(_) | Body::Proxied(_) => {}
        }
        Ok(answer)
    }

    /// Seat: as late as possible. A request with a body takes its seats once the body is there, so that a slow client occupies
    /// none; a connection to a pod, which lasts as long as its client likes, takes none at all.
    async fn verb(
        self: &Arc<Api>,
        authorized: &AuthorizedRequest<'_>,
        head: RequestHead<'_>,
        body: RequestBody,
    ) -> Result<Answer, Status> {
        // Aggregated: after everything that may refuse a request, since the other server believes whom we say it is.
        if let Some(service) = self.aggregation.find(&self.registry, head.parts.uri.path()) {
            return aggregation::proxy::serve(authorized, head, body, &service).await;
        }
        let Some(info) = head.info() else {
            authorized.take_seats(0).await?;
            return non_resource::serve(self, head.parts, head.query).await;
        };
        if matches!(info.verb, "get" | "list" | "watch") && !info.is_connect() {
            authorized.take_seats(0).await?;
        }
        verbs::serve(authorized, body, info).await
    }
}
