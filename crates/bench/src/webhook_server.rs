//! A webhook's server for measurements and comparisons: HTTPS on the loopback with a CA of its own, HTTP/2 or HTTP/1.1 as the
//! client likes, on a thread of its own. Both servers under test ask the same one.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::pki::{Issuer, SigningRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::error::BenchError;

const CERTIFICATE_SECONDS: u64 = 24 * 3600;
/// Go's servers say so.
const MAX_STREAMS: u32 = 250;

/// Status and body of the answer to a review that came to a path.
pub type Answer = dyn Fn(&str, &[u8]) -> (u16, Vec<u8>) + Send + Sync;

/// Ends when it is dropped.
pub struct WebhookServer {
    address: SocketAddr,
    ca_pem: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WebhookServer {
    pub fn start(answer: Arc<Answer>) -> Result<WebhookServer, BenchError> {
        let failed = |what: &str, why: String| BenchError::Usage(format!("the webhook's {what}: {why}"));
        let (ca_pem, acceptor) = acceptor().map_err(|why| failed("certificate", why))?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| failed("socket", error.to_string()))?;
        let address = listener.local_addr().map_err(|error| failed("socket", error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed("threads", error.to_string()))?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = serve(listener, acceptor, answer) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("webhook".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| failed("threads", error.to_string()))?;
        Ok(WebhookServer { address, ca_pem, stop: Some(stop), thread: Some(thread) })
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// What stands as `caBundle` in a configuration.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The CA and who serves with a certificate of it.
fn acceptor() -> Result<(String, TlsAcceptor), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let issuer = Issuer::in_memory(now).map_err(|error| error.to_string())?;
    let (key, request) = auth::pki::new_request("webhook", &[], &[Ipv4Addr::LOCALHOST.to_string()])
        .map_err(|error| error.to_string())?;
    let request = SigningRequest::from_pem(request.as_bytes()).map_err(|error| error.to_string())?;
    let certificate = issuer
        .issue(&request, &["server auth", "digital signature"], CERTIFICATE_SECONDS, now)
        .map_err(|error| error.to_string())?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
    let chain = chain.map_err(|error| error.to_string())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.into()))
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((issuer.ca_pem().to_owned(), TlsAcceptor::from(Arc::new(config))))
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answer: Arc<Answer>) {
    // A set, so that connections end with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((tcp, _)) = accepted else {
                    // Too many files are open, say: others may close theirs.
                    tokio::task::yield_now().await;
                    continue;
                };
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                connections.spawn(async move {
                    let _ = tcp.set_nodelay(true);
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = service_fn(|request| reply(&answer, request));
                    let mut server = auto::Builder::new(TokioExecutor::new());
                    server.http2().max_concurrent_streams(MAX_STREAMS);
                    let _ = server.serve_connection(TokioIo::new(tls), service).await;
                });
            }
        }
    }
}

fn reply(
    answer: &Arc<Answer>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send + 'static {
    let answer = answer.clone();
    async move {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let (code, body) = answer(&path, &body);
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap_or_default();
        let json = hyper::header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
        Ok(response)
    }
}
