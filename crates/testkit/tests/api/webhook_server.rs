//! A webhook for tests: a TLS server of its own, which answers reviews as it is told, and notes what it was asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::pki::{Issuer, SigningRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use env::Env;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// How long it is waited for that somebody asks.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the webhook answers to a review that came to a path.
type Answer = Box<dyn Fn(&str, &Value) -> Reply + Send + Sync>;

pub enum Reply {
    Review(Value),
    Raw(u16, &'static str),
    /// This review, once there is a permit.
    Later(Arc<Semaphore>, Value),
    /// No answer, ever.
    Never,
}

pub struct WebhookServer {
    address: SocketAddr,
    ca_pem: String,
    acceptor: TlsAcceptor,
    state: Arc<State>,
    serving: Option<JoinHandle<()>>,
}

struct State {
    answer: Mutex<Answer>,
    asked: watch::Sender<Vec<(String, Value)>>,
    /// The Authorization header of the last request.
    authorization: Mutex<Option<String>>,
    /// Of all requests, in order.
    queries: Mutex<Vec<String>>,
}

impl WebhookServer {
    /// Valid for 127.0.0.1 and for the Service `hook` of the default namespace.
    pub async fn start(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> WebhookServer {
        WebhookServer::start_for(None, answer).await
    }

    /// Answers only clients with a certificate of this authority, if there is one.
    pub async fn start_for(
        clients: Option<&Issuer>,
        answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> WebhookServer {
        let now = Env::machine().now_seconds();
        let issuer = Issuer::in_memory(now).unwrap();
        let names = ["127.0.0.1", "hook.default.svc"].map(str::to_owned);
        let (key, request) = auth::pki::new_request("hook", &[], &names).unwrap();
        let request = SigningRequest::from_pem(request.as_bytes()).unwrap();
        let certificate = issuer.issue(&request, &["server auth", "digital signature"], 3600, now).unwrap();
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            Some(issuer) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(issuer.ca_pem().as_bytes()).unwrap()).unwrap();
                let verifier =
                    rustls::server::WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, PrivateKeyDer::Pkcs8(key.into())).unwrap();
        let state = Arc::new(State {
            answer: Mutex::new(Box::new(answer)),
            asked: watch::Sender::new(Vec::new()),
            authorization: Mutex::default(),
            queries: Mutex::default(),
        });
        let mut hook = WebhookServer {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            ca_pem: issuer.ca_pem().to_owned(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            state,
            serving: None,
        };
        hook.up().await;
        hook
    }

    /// Listens, where it did before.
    pub async fn up(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.address = listener.local_addr().unwrap();
        let (acceptor, state) = (self.acceptor.clone(), self.state.clone());
        self.serving = Some(Env::machine().spawn("hook", serve(listener, acceptor, state)));
    }

    /// Connections are refused, and those there are end.
    pub async fn down(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            let _ = serving.await;
        }
    }

    /// From now on.
    pub fn answers(&self, answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) {
        *self.state.answer.lock() = Box::new(answer);
    }

    /// Paths and reviews since the last call.
    pub fn asked(&self) -> Vec<(String, Value)> {
        self.state.asked.send_replace(Vec::new())
    }

    /// The Authorization header of the last request.
    pub fn authorization(&self) -> Option<String> {
        self.state.authorization.lock().clone()
    }

    /// The queries of the requests since the last call.
    pub fn queries(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.queries.lock())
    }

    pub async fn is_asked(&self) {
        self.is_asked_times(1).await;
    }

    /// Since the last call of [`asked`](WebhookServer::asked).
    pub async fn is_asked_times(&self, times: usize) {
        let mut asked = self.state.asked.subscribe();
        let asked = asked.wait_for(|asked| asked.len() >= times);
        Env::machine().timeout(PATIENCE, asked).await.expect("the webhook is asked").unwrap();
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }

    /// The `clientConfig` that leads here.
    pub fn config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": self.ca_bundle()})
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((tcp, _)) = listener.accept().await else { return };
        let (acceptor, state) = (acceptor.clone(), state.clone());
        // A set of tasks, so that they end with it.
        connections.spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else { return };
            let service = service_fn(move |request| reply(state.clone(), request));
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), service).await;
        });
    }
}

async fn reply(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let path = request.uri().path().to_owned();
    let authorization =
        request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    *state.authorization.lock() = authorization;
    state.queries.lock().push(request.uri().query().unwrap_or_default().to_owned());
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = (state.answer.lock())(&path, &review);
    state.asked.send_modify(|asked| asked.push((path, review)));
    let (code, body) = match answer {
        Reply::Review(review) => (200, review.to_string()),
        Reply::Raw(code, text) => (code, text.to_owned()),
        Reply::Later(permits, review) => {
            drop(permits.acquire().await);
            (200, review.to_string())
        }
        Reply::Never => std::future::pending().await,
    };
    let response = Response::builder().status(code).header("content-type", "application/json");
    Ok(response.body(Full::from(body)).unwrap())
}
