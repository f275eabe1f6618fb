//! A kubelet, and pods, for tests: HTTP servers behind pipes, reached through the server's dialer, which answer as they are told and
//! note what they were asked.

use std::io;
use std::sync::Arc;

use apiserver::{
    Caller, Dialer, HostPort, KubeletClient, KubeletClientCertificate, KubeletClientConfig, serve_stream,
};
use auth::pki::SigningRequest;
use auth::x509::{self, AcceptAnyClientCert};
use auth::{Pki, UserInfo};
use bytes::Bytes;
use env::Env;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use streaming::Io;
use testkit::TestCluster;
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// The address of the node `n1`.
pub const NODE_IP: &str = "10.1.2.3";
/// The port of the kubelet; all others are pods' and speak no TLS.
pub const PORT: u16 = 10250;
/// A port that speaks TLS as well, with the kubelet's certificate.
pub const TLS_PORT: u16 = 8443;

pub type Body = UnsyncBoxBody<Bytes, io::Error>;
type Respond = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

pub struct TestKubelet {
    state: Arc<State>,
    pub pki: Pki,
    _directory: tempfile::TempDir,
}

struct State {
    env: Env,
    acceptor: Mutex<TlsAcceptor>,
    client_ca: x509::ClientCa,
    respond: Mutex<Respond>,
    asked: Mutex<Vec<Asked>>,
    /// Connections that are open.
    open: watch::Sender<usize>,
    refuses: Mutex<bool>,
}

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub address: String,
    /// Who connected, by the certificate.
    pub user: Option<UserInfo>,
    pub method: Method,
    pub uri: String,
    pub headers: HeaderMap,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl TestKubelet {
    pub fn new(env: &Env) -> TestKubelet {
        let directory = tempfile::tempdir().unwrap();
        let pki = Pki::open_or_create(directory.path(), env.now_seconds(), &[]).unwrap();
        let state = State {
            env: env.clone(),
            acceptor: Mutex::new(acceptor(env, &pki, NODE_IP)),
            client_ca: pki.client_ca(),
            respond: Mutex::new(Arc::new(|_| Box::pin(async { text(200, "hello\n") }))),
            asked: Mutex::default(),
            open: watch::Sender::new(0),
            refuses: Mutex::new(false),
        };
        TestKubelet { state: Arc::new(state), pki, _directory: directory }
    }

    /// What an API server reaches it with: as kube-apiserver-kubelet-client, verified by the CA.
    pub fn client(&self) -> KubeletClient {
        let state = self.state.clone();
        let dialer: Dialer = Arc::new(move |address: HostPort| {
            let state = state.clone();
            Box::pin(async move {
                if *state.refuses.lock() {
                    return Err(io::Error::other("connect: connection refused"));
                }
                let (near, far) = tokio::io::duplex(64 << 10);
                let env = state.env.clone();
                drop(env.spawn("kubelet", serve(state, address, far)));
                Ok(Box::new(near) as Io)
            })
        });
        let config = KubeletClientConfig {
            authority_pem: Some(self.pki.ca_pem().to_owned()),
            certificate: Some(
                KubeletClientCertificate::issue(&self.pki, self.state.env.now_seconds()).unwrap(),
            ),
            dialer: Some(dialer),
            ..KubeletClientConfig::default()
        };
        KubeletClient::new(&self.state.env, config).unwrap()
    }

    /// From now on.
    pub fn answers<F: Future<Output = Response<Body>> + Send + 'static>(
        &self,
        respond: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    ) {
        *self.state.respond.lock() = Arc::new(move |request| Box::pin(respond(request)));
    }

    pub fn refuse_connections(&self, refuse: bool) {
        *self.state.refuses.lock() = refuse;
    }

    /// Its certificate names another host.
    pub fn rename(&self, name: &str) {
        *self.state.acceptor.lock() = acceptor(&self.state.env, &self.pki, name);
    }

    /// The last request.
    pub fn asked(&self) -> Asked {
        self.state.asked.lock().last().cloned().expect("it was asked")
    }

    pub fn count(&self) -> usize {
        self.state.asked.lock().len()
    }

    /// Waits until nobody is connected.
    pub async fn is_left_alone(&self) {
        self.state.open.subscribe().wait_for(|open| *open == 0).await.unwrap();
    }
}

fn acceptor(env: &Env, pki: &Pki, name: &str) -> TlsAcceptor {
    let (key, request) = auth::pki::new_request("system:node:n1", &[], &[name.to_owned()]).unwrap();
    let request = SigningRequest::from_pem(request.as_bytes()).unwrap();
    let certificate = pki
        .issuer()
        .issue(&request, &["server auth", "digital signature"], 36_000, env.now_seconds())
        .unwrap();
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(AcceptAnyClientCert::new(pki.client_ca().hints()))
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.into()))
            .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Counts an open connection.
struct Open(Arc<State>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

async fn serve(state: Arc<State>, address: HostPort, far: DuplexStream) {
    state.open.send_modify(|open| *open += 1);
    let _open = Open(state.clone());
    let (io, user): (Io, Option<UserInfo>) = if address.port == PORT || address.port == TLS_PORT {
        let acceptor = state.acceptor.lock().clone();
        let Ok(tls) = acceptor.accept(far).await else { return };
        let now = state.env.now_seconds();
        let user = tls.get_ref().1.peer_certificates().map(|chain| {
            x509::authenticate(chain, &state.client_ca, now).expect("a certificate of the CA").user
        });
        (Box::new(tls), user)
    } else {
        (Box::new(far), None)
    };
    let service = service_fn(|request: Request<Incoming>| {
        state.asked.lock().push(Asked {
            address: address.to_string(),
            user: user.clone(),
            method: request.method().clone(),
            uri: request.uri().to_string(),
            headers: request.headers().clone(),
        });
        let respond = state.respond.lock().clone();
        async move { Ok::<_, std::convert::Infallible>(respond(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), service);
    // How it ends is seen on the other side.
    let _ = served.with_upgrades().await;
}

pub fn text(code: u16, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(text.to_owned())).map_err(|never| match never {});
    Response::builder().status(code).body(body.boxed_unsync()).unwrap()
}

/// An answer that is written bit by bit.
pub fn streamed() -> (Sender<Bytes, io::Error>, Response<Body>) {
    let (sender, body) = Channel::new(1);
    (sender, Response::new(body.boxed_unsync()))
}

/// A cluster with the node `n1`, whose kubelet is the test's, and the pods `a` on it and `b` on none.
pub async fn cluster(seed: u64) -> (TestCluster, TestKubelet) {
    let env = Env::simulated(seed);
    let kubelet = TestKubelet::new(&env);
    let client = kubelet.client();
    let cluster = TestCluster::with(env, |config| config.cluster.kubelet_client = client).await;
    let node = json!({"metadata": {"name": "n1"}, "status": {"addresses": [{"type": "InternalIP", "address": NODE_IP}]}});
    cluster.post("/api/v1/nodes", node).await.ok(201);
    for name in ["a", "b"] {
        cluster.post(PODS, pod(name)).await.ok(201);
    }
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    cluster.post(format!("{PODS}/a/binding"), binding).await.ok(201);
    (cluster, kubelet)
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 8080}]}]},
    })
}

/// Gives a pod an address.
pub async fn give_address(cluster: &TestCluster, pod: &str, ip: &str) {
    let path = format!("{PODS}/{pod}/status");
    let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
    cluster.merge(path, status).await.ok(200);
}

/// What the server is asked over HTTP/1.1.
pub struct HttpClient {
    sender: http1::SendRequest<Full<Bytes>>,
}

impl HttpClient {
    pub async fn new(cluster: &TestCluster) -> HttpClient {
        HttpClient::by(cluster, testkit::admin()).await
    }

    pub async fn by(cluster: &TestCluster, user: UserInfo) -> HttpClient {
        let near = connection(cluster, user, false);
        let (sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
        drop(cluster.env().spawn("client", connection.with_upgrades()));
        HttpClient { sender }
    }

    pub async fn send(&mut self, request: http::request::Builder) -> Response<Incoming> {
        self.send_with(request, "").await
    }

    pub async fn send_with(
        &mut self,
        request: http::request::Builder,
        body: &'static str,
    ) -> Response<Incoming> {
        let request = request.header("host", "api:6443").body(Full::from(body)).unwrap();
        self.sender.send_request(request).await.unwrap()
    }
}

/// The same over HTTP/2.
pub async fn http2(cluster: &TestCluster) -> http2::SendRequest<Full<Bytes>> {
    let near = connection(cluster, testkit::admin(), true);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
    drop(cluster.env().spawn("client", connection));
    sender
}

fn connection(cluster: &TestCluster, user: UserInfo, http2: bool) -> DuplexStream {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (api, user) = (cluster.api().clone(), Arc::new(user.authenticated()));
    let caller = move |_| Caller::Known(user.clone());
    drop(cluster.env().spawn("connection", async move { serve_stream(api, far, http2, caller).await }));
    near
}

/// The bytes of a connection that was upgraded.
pub async fn upgraded(response: Response<Incoming>) -> Io {
    assert_eq!(response.status(), 101);
    Box::new(TokioIo::new(hyper::upgrade::on(response).await.unwrap()))
}

pub async fn whole(response: Response<Incoming>) -> (u16, String) {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}
