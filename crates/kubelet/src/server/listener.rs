//! Connections: accepted, limited in number and in time, closed when the server stops.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use auth::Authorities;
use auth::x509::{AcceptAnyClientCert, ClientCa};
use bytes::Bytes;
use env::Env;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use runtime::Stop;
use rustix::net::sockopt;
use rustls::ServerConfig;
use rustls::server::ResolvesServerCert;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::Context;
use super::answer::Body;
use super::authenticate::PeerCertificate;
use super::connections::{self, Connections, Open};
use super::handle::{Reply, handle};
use super::metrics::InFlight;
use super::tls;
use crate::config::TlsOptions;

/// Each has its buffers.
const MAX_CONNECTIONS: usize = 2048;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Between requests, as kubelet has it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Of a whole head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
const MAX_HEADER_BYTES: usize = 1 << 20;
const MAX_HEADERS: usize = 200;
/// Requests of one HTTP/2 connection at a time.
const MAX_STREAMS: u32 = 250;
/// How long requests may take to end once the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// What handshakes are made with.
pub struct Acceptor {
    certificate: Arc<dyn ResolvesServerCert>,
    /// Clients choose their certificate by the names of these.
    client_cas: watch::Receiver<Arc<Authorities>>,
    options: TlsOptions,
    current: TlsAcceptor,
}

impl Acceptor {
    pub fn new(
        certificate: Arc<dyn ResolvesServerCert>,
        mut client_cas: watch::Receiver<Arc<Authorities>>,
        options: TlsOptions,
    ) -> Result<Acceptor, rustls::Error> {
        let current = acceptor(&certificate, &client_cas.borrow_and_update().ca, &options)?;
        Ok(Acceptor { certificate, client_cas, options, current })
    }

    fn current(&mut self) -> TlsAcceptor {
        if self.client_cas.has_changed().unwrap_or(false) {
            match acceptor(&self.certificate, &self.client_cas.borrow_and_update().ca, &self.options) {
                Ok(made) => self.current = made,
                Err(error) => tracing::error!(%error, "handshakes name the old client CAs"),
            }
        }
        self.current.clone()
    }
}

fn acceptor(
    certificate: &Arc<dyn ResolvesServerCert>,
    client_ca: &ClientCa,
    options: &TlsOptions,
) -> Result<TlsAcceptor, rustls::Error> {
    let (provider, versions) = tls::protocol(options).map_err(rustls::Error::General)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(AcceptAnyClientCert::new(client_ca.hints()))
        .with_cert_resolver(certificate.clone());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts until it is to stop; then all connections end.
pub async fn run(context: Arc<Context>, listener: TcpListener, mut acceptor: Acceptor, stop: Stop) {
    let env = context.env.clone();
    let mut tasks = Tasks::default();
    let connections = Connections::new(&env, MAX_CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.stopped() => break,
            Some(_) = tasks.running.next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((tcp, peer)) => {
                let Some(open) = connections.open(peer.ip()) else { continue };
                let open = Arc::new(open);
                let work = connection(context.clone(), open.clone(), tcp, acceptor.current(), stop.clone());
                let work = async move {
                    tokio::select! {
                        biased;
                        () = open.cut() => tracing::debug!("closed a connection for another"),
                        () = work => {}
                    }
                };
                tasks.running.push(env.spawn("node-connection", work));
            }
            Err(error) => {
                // Most likely out of file descriptors.
                tracing::warn!(%error, "could not accept a connection");
                connections.make_room();
                env.sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let drained = async { while tasks.running.next().await.is_some() {} };
    let _ = env.timeout(DRAIN_TIMEOUT, drained).await;
}

/// Those that are left are cut off when it is dropped.
#[derive(Default)]
struct Tasks {
    running: FuturesUnordered<tokio::task::JoinHandle<()>>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.running {
            task.abort();
        }
    }
}

/// What a connection knows of its requests.
struct State {
    context: Arc<Context>,
    certificate: PeerCertificate,
    open: Arc<Open>,
    /// How many are under way.
    busy: watch::Sender<usize>,
    /// What is done after a 101.
    session: Mutex<Option<BoxFuture<'static, ()>>>,
}

async fn connection(
    context: Arc<Context>,
    open: Arc<Open>,
    tcp: TcpStream,
    acceptor: TlsAcceptor,
    stop: Stop,
) {
    let _ = tcp.set_nodelay(true);
    // Of a session nothing else would tell that its client is gone.
    let _ = keep_alive(&tcp);
    let env = context.env.clone();
    let handshake = tokio::select! {
        () = stop.stopped() => return,
        handshake = env.timeout(HANDSHAKE_TIMEOUT, acceptor.accept(tcp)) => handshake,
    };
    let tls = match handshake {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    open.shaken();
    let (_, session) = tls.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = PeerCertificate::new(session.peer_certificates());
    let busy = watch::Sender::new(0);
    let state = Arc::new(State { context, certificate, open, busy, session: Mutex::new(None) });
    let of_service = state.clone();
    let service = service_fn(move |request| {
        let state = of_service.clone();
        async move { Ok::<_, Infallible>(answer(&state, request).await) }
    });
    let io = TokioIo::new(tls);
    if http2 {
        let mut server = hyper::server::conn::http2::Builder::new(Spawn(env.clone()));
        server.timer(TokioTimer::new());
        server.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEADER_BYTES as u32);
        server.keep_alive_interval(Some(Duration::from_secs(30)));
        let served = std::pin::pin!(server.serve_connection(io, service));
        drive(&state, served, &stop, |served| served.graceful_shutdown()).await;
    } else {
        let mut server = hyper::server::conn::http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        server.max_buf_size(MAX_HEADER_BYTES).max_headers(MAX_HEADERS);
        let served = std::pin::pin!(server.serve_connection(io, service).with_upgrades());
        drive(&state, served, &stop, |served| served.graceful_shutdown()).await;
    }
    let session = state.session.lock().take();
    if let Some(session) = session {
        let _busy = state.open.busy();
        tokio::select! { () = session => {}, () = stop.stopped() => {} }
    }
}

/// As Go has it.
fn keep_alive(tcp: &TcpStream) -> rustix::io::Result<()> {
    let every = Duration::from_secs(15);
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, every)?;
    sockopt::set_tcp_keepintvl(tcp, every)
}

/// Runs a connection to its end. It is closed when nothing was asked for a while, or the server stops.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    state: &State,
    mut served: Pin<&mut C>,
    stop: &Stop,
    close: impl Fn(Pin<&mut C>),
) {
    let env = &state.context.env;
    let ended = tokio::select! {
        ended = &mut served => Some(ended),
        () = idle(env, state.busy.subscribe()) => None,
        () = stop.stopped() => None,
    };
    let ended = match ended {
        Some(ended) => Ok(ended),
        None => {
            close(served.as_mut());
            env.timeout(DRAIN_TIMEOUT, served).await
        }
    };
    if let Ok(Err(error)) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Until no request was under way for [`IDLE_TIMEOUT`].
async fn idle(env: &Env, mut busy: watch::Receiver<usize>) {
    loop {
        if busy.wait_for(|requests| *requests == 0).await.is_err() {
            return;
        }
        if env.timeout(IDLE_TIMEOUT, busy.changed()).await.is_err() {
            return;
        }
    }
}

async fn answer(state: &Arc<State>, request: Request<Incoming>) -> Response<Counted> {
    let busy = Busy::new(state);
    let in_flight = state.context.metrics.begin(&state.context.env, request.method(), request.uri().path());
    let answer = match handle(&state.context, &state.certificate, &state.open, request).await {
        Reply::Answer(answer) => answer,
        Reply::Upgrade(answer, session) => {
            let counted = in_flight.session();
            *state.session.lock() = Some(Box::pin(async move {
                session.await;
                drop(counted);
            }));
            answer
        }
    };
    answer.map(|body| Counted { body, _until_sent: (busy, in_flight) })
}

/// A request under way, until it is dropped.
struct Busy {
    state: Arc<State>,
    _of_connection: connections::Busy,
}

impl Busy {
    fn new(state: &Arc<State>) -> Busy {
        state.busy.send_modify(|requests| *requests += 1);
        Busy { state: state.clone(), _of_connection: state.open.busy() }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.state.busy.send_modify(|requests| *requests -= 1);
    }
}

/// A body that counts as a request until it is sent.
struct Counted {
    body: Body,
    _until_sent: (Busy, InFlight),
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The tasks of HTTP/2: they end with their connection.
#[derive(Clone)]
struct Spawn(Env);

impl<F> hyper::rt::Executor<F> for Spawn
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.spawn("node-stream", work);
    }
}
