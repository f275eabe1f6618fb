//! Sockets: TLS, HTTP/1.1 and HTTP/2, connections that drain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::pki::ServingCertificate;
use auth::x509::{self, AcceptAnyClientCert, ClientCa, X509Error};
use env::Env;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue};
use http::{Method, Request, Version};
use http_body::Body as _;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::accounting::Exchange;
use crate::api::Api;
use crate::authenticate::Caller;
use crate::body::{Body, Incoming, RequestBody, UnreadSlot};
use crate::connection::Connection;
use crate::connection_io::{ConnectionIo, UNREAD_BYTES, UNREAD_TIME};
use crate::connections::OpenConnection;
use crate::negotiate::Wanted;
use crate::pools::{MigratingTask, Pools, Socket};
use crate::respond::{self, Answer};
use crate::response_body::{Http1Body, ResponseBody};
use crate::shutdown::Shutdown;
use crate::websocket::{self, PendingUpgrade};
use crate::{http2, malformed};

/// A client that does not finish its handshake in time is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Upstream's bound on the headers of a request.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// Over HTTP/1.1 their number counts too; people of many groups come with a header for each.
const MAX_HEADERS: usize = 1024;
/// How much of a request it does not need an answer over HTTP/1.1 waits for, and how long, to keep the connection.
const DISCARD_BYTES: usize = 256 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may take to end once it was told to.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Goes back as it came, so that a client finds its request in a log; made up where none came.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// How long requests under way may take once a shutdown has begun.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(3700);
/// How long their tasks may take to end when they are cut off then.
const ABORT_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// What TLS needs.
pub struct Tls {
    pub certificate: Arc<ServingCertificate>,
    pub client_ca: ClientCa,
}

/// Where connections come in: TLS, and who is on the other end.
#[derive(Clone)]
pub struct Acceptor {
    acceptor: TlsAcceptor,
    client_ca: Arc<ClientCa>,
}

impl Acceptor {
    pub fn new(tls: Tls) -> Result<Acceptor, ServerError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = AcceptAnyClientCert::new(tls.client_ca.hints());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(tls.certificate);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Fewer, larger writes when a list or a watch has much to say.
        config.send_tls13_tickets = 1;
        Ok(Acceptor { acceptor: TlsAcceptor::from(Arc::new(config)), client_ca: Arc::new(tls.client_ca) })
    }

    /// Serves one connection to its end: a socket's, or a pipe inside a test.
    pub async fn serve<S>(&self, api: Arc<Api>, stream: S) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let open = api.connections.open(api.registry().env());
        self.serve_open(api, stream, open).await
    }

    async fn serve_open<S>(&self, api: Arc<Api>, stream: S, open: OpenConnection) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = open.connection();
        tokio::select! {
            biased;
            () = connection.aborted() => Err("its place or its memory was needed".to_owned()),
            ended = serve(api, &self.acceptor, &self.client_ca, stream, connection) => ended,
        }
    }
}

impl Api {
    /// How many connections have closed so far.
    pub fn connections_closed(&self) -> u64 {
        self.connections.closed()
    }
}

/// A listening API server.
pub struct Server {
    api: Arc<Api>,
    listener: TcpListener,
    acceptor: Acceptor,
}

impl Server {
    pub async fn bind(api: Arc<Api>, address: &str, tls: Tls) -> Result<Server, ServerError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServerError::Listen { address: address.to_owned(), source })?;
        Ok(Server { api, listener, acceptor: Acceptor::new(tls)? })
    }

    /// At most so many connections at once, of those a server may have: each takes a file descriptor. For one more, another
    /// one goes.
    pub fn limit_connections(&self, most: usize) {
        self.api.connections.limit(most);
    }

    /// Connections that keep the cluster alive are run by threads of their own.
    pub fn run_in(&self, pools: Pools) {
        self.api.connections.run_in(pools);
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts until a shutdown begins, then waits for what is under way, four seconds at most.
    pub async fn run(self) {
        let env = self.api.registry().env().clone();
        let controllers = self.api.start_controllers();
        let mut shutdown = self.api.shutdown();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.begun() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.connection(stream),
                Err(error) => {
                    // Out of file descriptors, most likely: others of this process took them, or of this machine.
                    tracing::warn!(%error, "could not accept a connection");
                    self.api.connections.make_room();
                    env.sleep(Duration::from_millis(100)).await;
                }
            }
        }
        let deadline = env.monotonic() + DRAIN_TIMEOUT;
        while self.api.connections.count() > 0 && env.monotonic() < deadline {
            env.sleep(Duration::from_millis(10)).await;
        }
        self.api.connections.abort_all();
        let deadline = env.monotonic() + ABORT_TIMEOUT;
        while self.api.connections.count() > 0 && env.monotonic() < deadline {
            env.sleep(Duration::from_millis(1)).await;
        }
        for task in controllers {
            // They stop by themselves on shutdown; a panic in one of them was already reported.
            let _ = task.await;
        }
    }

    fn connection(&self, stream: TcpStream) {
        // Small answers must not wait for more to come.
        let _ = stream.set_nodelay(true);
        let (api, acceptor) = (self.api.clone(), self.acceptor.clone());
        let open = api.connections.open(api.registry().env());
        let env = self.api.registry().env();
        let connection = open.connection().clone();
        let stream = Socket::new(stream, connection.clone());
        let work = async move {
            if let Err(error) = acceptor.serve_open(api, stream, open).await {
                tracing::debug!(error, "a connection ended");
            }
        };
        match self.api.connections.pools() {
            Some(pools) => env.spawn("connection", MigratingTask::new(work, connection, pools.clone())),
            None => env.spawn("connection", work),
        };
    }
}

async fn serve<S>(
    api: Arc<Api>,
    acceptor: &TlsAcceptor,
    client_ca: &ClientCa,
    stream: S,
    connection: &Arc<Connection>,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = match api.registry().env().timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Err(_) => Err("the TLS handshake took too long".to_owned()),
        Ok(Err(error)) => Err(format!("TLS handshake: {error}")),
        Ok(Ok(stream)) => Ok(stream),
    };
    let stream = handshake.inspect_err(|_| api.metrics.handshake_failed())?;
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    // Checked once per connection; the certificate's end is looked at with every request.
    let now = api.registry().env().now_seconds();
    let certificate = match session.peer_certificates() {
        None | Some([]) => ClientCertificate::None,
        Some(chain) => match x509::authenticate(chain, client_ca, now) {
            Ok(who) => ClientCertificate::Valid {
                user: Arc::new(who.user.authenticated()),
                not_after: who.not_after,
            },
            // A good certificate that names nobody says no more than none, as upstream has it.
            Err(X509Error::NoCommonName) => ClientCertificate::None,
            Err(error) => {
                tracing::info!(%error, "a client certificate was refused");
                ClientCertificate::Invalid
            }
        },
    };
    let metrics = api.metrics.clone();
    let caller = move |now| {
        if let ClientCertificate::Valid { not_after, .. } = &certificate {
            metrics.auth().certificate(not_after.saturating_sub(now));
        }
        certificate.caller(now)
    };
    serve_on(api, stream, http2, caller, connection).await
}

/// Serves what is a connection already: the inside of TLS, or a pipe inside a test. `caller` tells who is on the other end,
/// at that second, for every request.
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
        () = open.connection().aborted() => Err("its place or its memory was needed".to_owned()),
        ended = serve_on(api, stream, http2, caller, open.connection()) => ended,
    }
}

async fn serve_on<S>(
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
            // A timer for each request would cost; the connection looks after itself.
            .header_read_timeout(None)
            .max_buf_size(MAX_HEADER_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades();
        let served = std::pin::pin!(served);
        let ended = drive(&env, connection, served, &mut shutdown, |c| c.graceful_shutdown()).await;
        if let Some((session, upgrade)) = connection.upgraded() {
            session.run(upgrade, connection.begin_session(), shutdown).await;
        }
        ended
    }
}

/// One request of a connection, and what belongs to every answer that leaves by a socket.
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
    let pending = (request.version() == Version::HTTP_11 && websocket::is_requested(request.headers()))
        .then(|| (Arc::new(PendingUpgrade::default()), hyper::upgrade::on(&mut request)));
    if let Some((pending, _)) = &pending {
        request.extensions_mut().insert(pending.clone());
    }
    let id = request.headers().get(&AUDIT_ID).filter(|id| !id.is_empty()).cloned();
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
        // An answer before the end of its request: some clients lose it when they cannot send the rest.
        match unread.take() {
            None => {}
            // To drop the rest would reset the stream; the answer need not wait for it.
            Some(rest) if http2 => {
                let clock = env.clone();
                env.spawn("unread", async move {
                    let _ = clock.timeout(UNREAD_TIME, rest.drain(UNREAD_BYTES)).await;
                });
            }
            Some(rest) => {
                // To read would invite a client that waits to be asked.
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
        // What changed something is always told; what was only read can be read again.
        if let Err(status) = exchange.check_hold(bytes.len()) {
            answer = respond::status(&api.registry().catalog(), &status, Wanted::JSON);
        }
    }
    let id = id.or_else(|| HeaderValue::try_from(env.uuid()).ok());
    answer.headers_mut().extend(id.map(|id| (AUDIT_ID, id)));
    if head {
        // hyper leaves the body away over HTTP/1.1 only.
        if let Some(length) = answer.body().size_hint().exact() {
            answer.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        *answer.body_mut() = Body::empty();
    }
    answer
}

/// Runs a connection to its end; told to finish what is under way once a shutdown begins, or its client says nothing
/// for too long.
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
        Err(_) => Err("the client said nothing for too long".to_owned()),
    }
}

#[derive(Clone)]
enum ClientCertificate {
    None,
    Valid { user: Arc<auth::UserInfo>, not_after: u64 },
    Invalid,
}

impl ClientCertificate {
    fn caller(&self, now: u64) -> Caller {
        match self {
            ClientCertificate::None => Caller::Unknown,
            ClientCertificate::Valid { user, not_after } if now <= *not_after => Caller::Known(user.clone()),
            ClientCertificate::Valid { .. } | ClientCertificate::Invalid => Caller::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_ends_while_its_connection_is_open_proves_nothing_any_more() {
        let user = Arc::new(auth::UserInfo::new("jane", &[]));
        let certificate = ClientCertificate::Valid { user, not_after: 100 };
        assert!(matches!(certificate.caller(100), Caller::Known(_)));
        assert!(matches!(certificate.caller(101), Caller::Refused));
    }
}
