//! A webhook's server that does as it is told, and notes what it saw.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use auth::pki::{Issuer, SigningRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use env::Env;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use object::Value;
use parking_lot::Mutex;
use rustls::HandshakeKind;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use webhook::{
    Answer, Call, CallError, ClientConfig, HostPort, ResolveError, ServiceResolver, WebhookClient,
};

/// Far more than anything here takes.
pub const LONG: Duration = Duration::from_secs(20);
/// For what never ends.
pub const SHORT: Duration = Duration::from_millis(300);

/// Signs the certificates of servers.
pub struct Ca {
    pub issuer: Issuer,
    now: u64,
}

pub struct Identity {
    pub certificate_pem: String,
    key: Vec<u8>,
}

impl Ca {
    pub fn new() -> Ca {
        let now = Env::machine().now_seconds();
        Ca { issuer: Issuer::in_memory(now).unwrap(), now }
    }

    pub fn serving(&self, names: &[&str]) -> Identity {
        self.issue(names, &["server auth", "digital signature"], self.now, 3600)
    }

    pub fn client(&self) -> Identity {
        self.issue(&[], &["client auth", "digital signature"], self.now, 3600)
    }

    /// One that ended an hour ago.
    pub fn expired(&self, names: &[&str]) -> Identity {
        self.issue(names, &["server auth", "digital signature"], self.now - 7200, 3600)
    }

    fn issue(&self, names: &[&str], usages: &[&str], now: u64, seconds: u64) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let (key, request) = auth::pki::new_request("webhook", &[], &names).unwrap();
        let request = SigningRequest::from_pem(request.as_bytes()).unwrap();
        let certificate_pem = self.issuer.issue(&request, usages, seconds, now).unwrap();
        Identity { certificate_pem, key }
    }
}

impl Identity {
    /// A certificate of the folder beside this file: signed by `ca.pem`, or by `expired-ca.pem`.
    pub fn stored(certificate_pem: &str) -> Identity {
        let key = auth::pki::private_key_from_pem(include_bytes!("certificates/key.pem")).unwrap();
        Identity { certificate_pem: certificate_pem.to_owned(), key }
    }

    pub fn key_pem(&self) -> String {
        let key = STANDARD.encode(&self.key);
        format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n")
    }

    fn server_config(&self, protocols: &[&[u8]], clients: Option<&Ca>) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add_parsable_certificates(certificates(ca.issuer.ca_pem()));
                let verifier =
                    rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::Pkcs8(self.key.clone().into());
        let mut config = builder.with_single_cert(certificates(&self.certificate_pem), key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config
    }
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
}

/// What the server does with a request.
pub enum Reply {
    Full(u16, Vec<(&'static str, &'static str)>, Vec<u8>),
    /// This begins, and then follows nothing.
    Stalls(Vec<u8>),
    /// This begins, and breaks off before the end it announced.
    BreaksOff(Vec<u8>),
    Endless,
    Never,
    /// The connection ends without an answer.
    Closes,
    /// HTTP/2: nobody has looked at the request.
    Refuses,
    /// The same, or another end of its stream, once the test says so.
    ResetsWhenTold(h2::Reason, Arc<Notify>),
}

impl Reply {
    pub fn json(body: impl Into<Vec<u8>>) -> Reply {
        Reply::Full(200, vec![("content-type", "application/json")], body.into())
    }
}

/// Why a request gets no answer.
#[derive(Debug, thiserror::Error)]
enum Unanswered {
    #[error("the connection is closed")]
    Closed,
    /// hyper resets the stream with the reason it finds behind an error.
    #[error("the stream is reset")]
    Reset(#[source] h2::Error),
}

/// A request as it arrived.
pub struct Seen {
    pub path: String,
    pub authority: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Both,
    Http1,
    /// No TLS.
    Plain,
}

#[derive(Clone)]
pub struct Hook {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// Opened, and still open.
    connections: watch::Sender<(usize, usize)>,
    requests: watch::Sender<usize>,
    /// Connections that went on with an earlier session.
    resumed: AtomicUsize,
    answer: Box<dyn Fn(Seen) -> Reply + Send + Sync>,
    /// Connections are closed after each answer, without a word about it.
    closes_quietly: bool,
}

impl Hook {
    pub async fn start(
        identity: &Identity,
        speaks: Speaks,
        answer: impl Fn(Seen) -> Reply + Send + Sync + 'static,
    ) -> Hook {
        Hook::start_with(identity, speaks, None, false, answer).await
    }

    pub async fn start_with(
        identity: &Identity,
        speaks: Speaks,
        clients: Option<&Ca>,
        closes_quietly: bool,
        answer: impl Fn(Seen) -> Reply + Send + Sync + 'static,
    ) -> Hook {
        let protocols: &[&[u8]] = if speaks == Speaks::Both { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        let acceptor = TlsAcceptor::from(Arc::new(identity.server_config(protocols, clients)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            connections: watch::Sender::new((0, 0)),
            requests: watch::Sender::new(0),
            resumed: AtomicUsize::new(0),
            answer: Box::new(answer),
            closes_quietly,
        });
        let hook = Hook { address, state: state.clone() };
        let env = Env::machine();
        drop(env.clone().spawn("hook", async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (state, acceptor) = (state.clone(), acceptor.clone());
                drop(env.spawn("hook-connection", async move {
                    state
                        .connections
                        .send_modify(|(opened, open)| (*opened, *open) = (*opened + 1, *open + 1));
                    let mut tcp = tcp;
                    if speaks == Speaks::Plain {
                        let _ = tcp.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
                    } else if let Ok(tls) = acceptor.accept(tcp).await {
                        if tls.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
                            state.resumed.fetch_add(1, Ordering::Relaxed);
                        }
                        state.clone().serve(tls).await;
                    }
                    state.connections.send_modify(|(_, open)| *open -= 1);
                }));
            }
        }));
        hook
    }

    /// Connections it has accepted so far.
    pub fn opened(&self) -> usize {
        self.state.connections.borrow().0
    }

    pub fn resumed(&self) -> usize {
        self.state.resumed.load(Ordering::Relaxed)
    }

    pub async fn all_closed(&self) {
        self.state.connections.subscribe().wait_for(|(_, open)| *open == 0).await.unwrap();
    }

    pub fn requests(&self) -> usize {
        *self.state.requests.borrow()
    }

    pub async fn has_requests(&self, count: usize) {
        self.state.requests.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }
}

impl State {
    async fn serve(self: Arc<State>, tls: tokio_rustls::server::TlsStream<tokio::net::TcpStream>) {
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let state = self.clone();
        let answered = Arc::new(tokio::sync::Notify::new());
        let quiet = answered.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (state, answered) = (state.clone(), answered.clone());
            async move {
                let reply = state.reply(request).await;
                answered.notify_one();
                reply
            }
        });
        let io = TokioIo::new(tls);
        if http2 {
            let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(io, service)
                .await;
            return;
        }
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(io, service);
        if !self.closes_quietly {
            let _ = connection.await;
            return;
        }
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            _ = connection.as_mut() => {}
            // What is written by then is on its way.
            _ = async { quiet.notified().await; tokio::task::yield_now().await; tokio::task::yield_now().await } => {}
        }
    }

    async fn reply(&self, request: Request<Incoming>) -> Result<Response<Told>, Unanswered> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Unanswered::Closed)?.to_bytes();
        self.requests.send_modify(|count| *count += 1);
        let host = head.headers.get("host").map(|host| host.to_str().unwrap().to_owned());
        let authority = host.unwrap_or_else(|| head.uri.authority().unwrap().to_string());
        let path = head.uri.path_and_query().unwrap().to_string();
        let told = |parts: Vec<Part>| Told { parts: parts.into(), announced: None };
        let json = |told: Told| {
            Ok(Response::builder().header("content-type", "application/json").body(told).unwrap())
        };
        match (self.answer)(Seen { path, authority, headers: head.headers, body }) {
            Reply::Full(code, headers, body) => {
                let mut response = Response::builder().status(code);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                Ok(response.body(told(vec![Part::Data(body.into())])).unwrap())
            }
            Reply::Stalls(body) => json(told(vec![Part::Data(body.into()), Part::Nothing])),
            Reply::BreaksOff(body) => {
                let announced = Some(body.len() as u64 + 100);
                json(Told {
                    announced,
                    ..told(vec![Part::Data(body.into()), Part::Later, Part::Later, Part::Error])
                })
            }
            Reply::Endless => json(told(vec![Part::Endless])),
            Reply::Never => std::future::pending().await,
            Reply::Closes => Err(Unanswered::Closed),
            Reply::ResetsWhenTold(reason, told) => {
                told.notified().await;
                Err(Unanswered::Reset(reason.into()))
            }
            Reply::Refuses => Err(Unanswered::Reset(h2::Reason::REFUSED_STREAM.into())),
        }
    }
}

enum Part {
    Data(Bytes),
    Later,
    Nothing,
    Error,
    Endless,
}

/// A body as it was told to be.
pub struct Told {
    parts: VecDeque<Part>,
    announced: Option<u64>,
}

impl Body for Told {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.parts.pop_front() {
            None => Poll::Ready(None),
            Some(Part::Data(data)) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(Part::Error) => Poll::Ready(Some(Err(io::Error::other("told to break off")))),
            // Lets what came before be sent.
            Some(Part::Later) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Part::Nothing) => {
                self.parts.push_front(Part::Nothing);
                Poll::Pending
            }
            Some(Part::Endless) => {
                self.parts.push_front(Part::Endless);
                Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; 64 << 10])))))
            }
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self.announced {
            Some(length) => hyper::body::SizeHint::with_exact(length),
            None => hyper::body::SizeHint::new(),
        }
    }
}

/// Services by name, each with its endpoints.
#[derive(Default)]
pub struct Services(pub Mutex<Vec<(String, Vec<SocketAddr>)>>);

impl ServiceResolver for Services {
    fn resolve(&self, _namespace: &str, name: &str, _port: u16) -> Result<Arc<[HostPort]>, ResolveError> {
        let services = self.0.lock();
        let (_, endpoints) = services
            .iter()
            .find(|(known, _)| known == name)
            .ok_or_else(|| ResolveError::NotFound(name.to_owned()))?;
        if endpoints.is_empty() {
            return Err(ResolveError::NoEndpoints(name.to_owned()));
        }
        let of =
            |address: &SocketAddr| HostPort { host: address.ip().to_string().into(), port: address.port() };
        Ok(endpoints.iter().map(of).collect())
    }
}

pub fn client() -> WebhookClient {
    WebhookClient::new(Env::machine(), Arc::new(Services::default()))
}

pub fn config(url: &str, bundle: &str) -> ClientConfig {
    let config = format!(r#"{{"url":"{url}","caBundle":"{}"}}"#, STANDARD.encode(bundle));
    ClientConfig::from_value(&value(config.as_bytes())).unwrap()
}

pub fn value(json: &[u8]) -> Value {
    codec::json::parse(json, None).unwrap()
}

pub async fn post(client: &WebhookClient, config: &ClientConfig) -> Result<Answer, CallError> {
    client.post(Call::new(config, "{}", LONG)).await
}

/// The error's text, without what differs from run to run.
pub async fn refused(client: &WebhookClient, config: &ClientConfig, timeout: Duration) -> String {
    client.post(Call::new(config, "{}", timeout)).await.unwrap_err().to_string()
}
