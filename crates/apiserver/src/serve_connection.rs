//! Serves HTTP/1.1 or HTTP/2 on an open connection, request by request.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue};
use http::{Method, Request, Version};
use http_body::Body as _;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::accounting::Exchange;
use crate::api::Api;
use crate::authenticate::Caller;
use crate::body::{Body, Incoming, RequestBody, UnreadSlot};
use crate::connection::Connection;
use crate::connection_io::{ConnectionIo, UNREAD_BYTES, UNREAD_TIME};
use crate::negotiate::Negotiated;
use crate::respond::{self, Answer};
use crate::response_body::{Http1Body, ResponseBody};
use crate::shutdown::Shutdown;
use crate::upgrade::PendingUpgrade;
use crate::{http2, malformed};

/// Upstream's limit of the headers of a request.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// The limit of their number over HTTP/1.1; impersonation sends a header for each group.
const MAX_HEADERS: usize = 1024;
/// How much of an unread request body is discarded over HTTP/1.1, and for how long, to keep the connection.
const DISCARD_BYTES: usize = 256 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may take to close gracefully.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Returned as it came, so that a client finds its request in a log; generated if there is none.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Serves a plain connection: the inside of TLS, or a pipe in a test. `caller` returns the client for each request, at the given
/// second.
pub async fn serve_stream<S>(
    api: Arc<Api>,
    stream: S,
    http2: bool,
    caller: impl Fn(u64) -> Caller + Send + Sync + 'static,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let open = api.connections.open(api.registry().env());
    tokio::select! {
        biased;
        () = open.connection().aborted() => Err("closed to free its memory or descriptor".to_owned()),
        ended = serve_connection(api, stream, http2, caller, open.connection()) => ended,
    }
}

pub(crate) async fn serve_connection<S>(
    api: Arc<Api>,
    stream: S,
    http2: bool,
    caller: impl Fn(u64) -> Caller + Send + Sync + 'static,
    connection: &Arc<Connection>,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let env = api.registry().env().clone();
    connection.set_protocol(http2);
    // A certificate proves who it is before the first request: a client that begins with hundreds of streams is not refused.
    if let Caller::Known(user) = caller(env.now_seconds()) {
        connection.account(&user.name);
    }
    let io = ConnectionIo::new(stream, connection.clone());
    let mut shutdown = api.shutdown();
    let (requests_of, api_of) = (connection.clone(), api.clone());
    let begin = move || {
        let caller = caller(api_of.registry().env().now_seconds());
        (api_of.clone(), caller, requests_of.begin())
    };
    if http2 {
        http2::serve(io, connection, &mut shutdown, move |request: Request<Incoming>| {
            let (api, caller, exchange) = begin();
            async move {
                let answer = answer(&api, &exchange, &caller, request).await;
                answer.map(|body| ResponseBody::new(body, exchange))
            }
        })
        .await
    } else {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let (api, caller, exchange) = begin();
            async move {
                let answer = answer(&api, &exchange, &caller, request.map(Incoming::Http1)).await;
                Ok::<_, std::convert::Infallible>(answer.map(|body| Http1Body::new(body, exchange)))
            }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            // Saves a timer for each request: `Connection::overdue` covers it.
            .header_read_timeout(None)
            .max_buf_size(MAX_HEADER_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        let served = std::pin::pin!(served);
        let ended = drive(&env, connection, served, &mut shutdown, |c| c.graceful_shutdown()).await;
        if let Some((session, upgrade)) = connection.upgraded() {
            let exchange = connection.begin_session();
            if let Ok(io) = upgrade.await {
                session(Box::new(TokioIo::new(io)), exchange, shutdown).await;
            }
        }
        ended
    }
}

/// Serves one request of a connection, and completes its answer for the socket.
async fn answer(
    api: &Arc<Api>,
    exchange: &Arc<Exchange>,
    caller: &Caller,
    mut request: Request<Incoming>,
) -> Answer {
    let connection = exchange.connection();
    if let Some(refusal) = malformed::refusal(&request) {
        if !request.body().is_end_stream() {
            connection.leave_unread();
        }
        return refusal;
    }
    let env = api.registry().env();
    let pending = (request.version() == Version::HTTP_11
        && streaming::upgrade::is_upgrade(request.headers()))
    .then(|| (Arc::new(PendingUpgrade::default()), hyper::upgrade::on(&mut request)));
    if let Some((pending, _)) = &pending {
        request.extensions_mut().insert(pending.clone());
    }
    let id = request.headers().get(&AUDIT_ID).filter(|id| !id.is_empty()).cloned();
    let id = id.or_else(|| {
        let new = HeaderValue::try_from(env.uuid()).ok()?;
        // Whoever handles the request finds it there, whoever made it.
        request.headers_mut().insert(AUDIT_ID, new.clone());
        Some(new)
    });
    let head = request.method() == Method::HEAD;
    let reads = request.method() == Method::GET;
    let mut answer = if request.body().is_end_stream() {
        api.handle(caller, request.map(|body| RequestBody::empty(body, exchange.clone()))).await
    } else {
        let http2 = request.version() == Version::HTTP_2;
        let asks = request.headers().contains_key(EXPECT);
        let (parts, body) = request.into_parts();
        let (unread, body) = UnreadSlot::attach(body, exchange.clone());
        let mut answer = api.handle(caller, Request::from_parts(parts, body)).await;
        // The answer came before the end of the request: some clients lose it if they cannot send the rest.
        match unread.take() {
            None => {}
            // Dropping the rest would reset the stream; the answer need not wait for it.
            Some(rest) if http2 => {
                let clock = env.clone();
                env.spawn("unread", async move {
                    let _ = clock.timeout(UNREAD_TIME, rest.drain(UNREAD_BYTES)).await;
                });
            }
            Some(rest) => {
                // With `Expect: 100-continue`, reading would make the client send the body.
                let all = !asks && env.timeout(DISCARD_TIMEOUT, rest.drain(DISCARD_BYTES)).await == Ok(true);
                if !all {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    connection.leave_unread();
                }
            }
        }
        answer
    };
    if let Some((pending, upgrade)) = pending
        && let Some(session) = pending.take()
    {
        connection.upgrade_to(session, upgrade);
        return answer;
    }
    exchange.release_body();
    if reads && let Body::Whole(Some(bytes)) = answer.body() {
        // Only reads can be refused for lack of memory: the result of a write must be reported.
        if let Err(status) = exchange.check_hold(bytes.len()) {
            answer = respond::status(&api.registry().catalog(), &status, Negotiated::JSON);
        }
    }
    answer.headers_mut().extend(id.map(|id| (AUDIT_ID, id)));
    if head {
        // hyper drops the body over HTTP/1.1 only.
        if let Some(length) = answer.body().size_hint().exact() {
            // A backend has said already what a GET would bring.
            answer.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        *answer.body_mut() = Body::empty();
    }
    answer
}

/// Runs a connection to its end; closes it gracefully once a shutdown begins, or its client exceeds a timeout.
async fn drive<C>(
    env: &Env,
    connection: &Connection,
    mut served: std::pin::Pin<&mut C>,
    shutdown: &mut Shutdown,
    finish: impl Fn(std::pin::Pin<&mut C>),
) -> Result<(), String>
where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::select! {
        biased;
        ended = &mut served => return ended.map_err(|e| e.to_string()),
        () = shutdown.begun() => {
            finish(served.as_mut());
            return served.await.map_err(|e| e.to_string());
        }
        () = connection.overdue() => {}
    }
    finish(served.as_mut());
    match env.timeout(CLOSE_TIMEOUT, served).await {
        Ok(ended) => ended.map_err(|e| e.to_string()),
        Err(_) => Err("the connection exceeded a timeout".to_owned()),
    }
}
