//! An API server for tests, whose API another one aggregates: HTTPS behind a pipe, reached through the server's dialer. It serves
//! `flunders` of `wardle.example.com/v1alpha1`, notes what it was asked, and can be told to hang, fail or close.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::{ApiConfig, Dialer, HostPort, KubeletClient, KubeletClientConfig, ProxyClientCertificate};
use auth::pki::{FrontProxy, Issuer, SigningRequest};
use auth::x509::AcceptAnyClientCert;
use auth::{RequestHeaderNames, RequestHeaders};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use env::Env;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use http_body_util::channel::Sender;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use streaming::Io;
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::aggregated_objects::Objects;
use crate::test_kubelet::{Body, streamed, text};

pub const GROUP: &str = "wardle.example.com";
pub const ROOT: &str = "/apis/wardle.example.com/v1alpha1";
/// A group version without resources.
const BETA_ROOT: &str = "/apis/wardle.example.com/v1beta1";
pub const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders";
pub const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
pub const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
pub const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.wardle.example.com";

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Serves,
    /// As servers did before there was one document of all resources.
    Legacy,
    /// It takes connections and says nothing.
    Hangs,
    /// The same, only for this path.
    HangsAt(&'static str),
    Fails(u16),
    /// The same, only for paths that begin with this.
    FailsAt(&'static str),
    /// It sends clients elsewhere, with this code; an empty Location is none.
    Redirects(u16, &'static str),
    /// It says of the next request for this path that it has not looked at it (HTTP/2), and serves all others.
    RefusesOnceAt(&'static str),
    /// It closes connections after the handshake.
    Closes,
    /// Nobody listens.
    Refuses,
}

pub struct AggregatedServer {
    state: Arc<State>,
    ca: Issuer,
    pub front_proxy: FrontProxy,
    _directory: tempfile::TempDir,
}

struct State {
    env: Env,
    acceptor: TlsAcceptor,
    trust: Arc<RequestHeaders>,
    mode: Mutex<Mode>,
    asked: Mutex<Vec<Asked>>,
    watches: Mutex<Vec<Sender<Bytes, io::Error>>>,
    objects: Objects,
    /// Handshakes so far.
    handshakes: AtomicUsize,
    /// Counts how often all connections were cut.
    cut: watch::Sender<usize>,
    certificate: Arc<ProxyClientCertificate>,
}

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The certificate was the front proxy's.
    pub by_proxy: bool,
    pub method: String,
    pub uri: String,
    pub headers: HeaderMap,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }
}

impl AggregatedServer {
    /// `name`: what its certificate names.
    pub fn new(env: &Env, name: &str) -> AggregatedServer {
        AggregatedServer::speaking(env, name, &[])
    }

    /// `protocols`: of ALPN.
    pub fn speaking(env: &Env, name: &str, protocols: &[&str]) -> AggregatedServer {
        let directory = tempfile::tempdir().unwrap();
        let now = env.now_seconds();
        let front_proxy = FrontProxy::open_or_create(directory.path(), now).unwrap();
        let ca = Issuer::in_memory(now).unwrap();
        let (key, request) = auth::pki::new_request("wardle", &[], &[name.to_owned()]).unwrap();
        let request = SigningRequest::from_pem(request.as_bytes()).unwrap();
        let usages = ["server auth", "digital signature"];
        let certificate = ca.issue(&request, &usages, 36_000, now).unwrap();
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
        let trust = RequestHeaders::new(
            front_proxy.ca_pem().as_bytes(),
            RequestHeaderNames::usual(FrontProxy::CLIENT_NAME),
        );
        let trust = Arc::new(trust.unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(AcceptAnyClientCert::new(trust.authority().current().ca.hints()))
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.into()))
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let state = State {
            env: env.clone(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            trust,
            mode: Mutex::new(Mode::Serves),
            asked: Mutex::default(),
            watches: Mutex::default(),
            objects: Objects::default(),
            handshakes: AtomicUsize::new(0),
            cut: watch::Sender::new(0),
            certificate: ProxyClientCertificate::new(front_proxy.client()).unwrap(),
        };
        AggregatedServer { state: Arc::new(state), ca, front_proxy, _directory: directory }
    }

    /// A cluster that can reach it, with this front proxy.
    pub async fn cluster(&self) -> TestCluster {
        self.cluster_with(|_| ()).await
    }

    pub async fn cluster_with(&self, change: impl FnOnce(&mut ApiConfig)) -> TestCluster {
        let state = self.state.clone();
        let dialer: Dialer = Arc::new(move |_: HostPort| {
            let state = state.clone();
            Box::pin(async move {
                if *state.mode.lock() == Mode::Refuses {
                    return Err(io::Error::other("connect: connection refused"));
                }
                let (near, far) = tokio::io::duplex(64 << 10);
                let env = state.env.clone();
                drop(env.spawn("aggregated", serve(state, far)));
                Ok(Box::new(near) as Io)
            })
        });
        let client = KubeletClientConfig { dialer: Some(dialer), ..KubeletClientConfig::default() };
        let client = KubeletClient::new(&self.state.env, client).unwrap();
        let certificate = self.state.certificate.clone();
        let trust = self.state.trust.clone();
        TestCluster::with(self.state.env.clone(), |config| {
            config.cluster.kubelet_client = client;
            config.cluster.proxy_client = Some(certificate);
            config.cluster.request_headers = Some(trust);
            change(config);
        })
        .await
    }

    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(self.ca.ca_pem())
    }

    /// A server that goes takes its connections with it.
    pub fn set(&self, mode: Mode) {
        *self.state.mode.lock() = mode;
        if matches!(mode, Mode::Refuses | Mode::Closes) {
            self.cut();
        }
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.state.cut.send_modify(|times| *times += 1);
    }

    pub fn handshakes(&self) -> usize {
        self.state.handshakes.load(Ordering::Relaxed)
    }

    /// The front proxy's certificate is renewed.
    pub fn renew_front_proxy(&self) {
        self.state.certificate.swap(self.front_proxy.client()).unwrap();
    }

    /// Requests that begin with this path, since ever.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        self.state.asked.lock().iter().filter(|asked| asked.uri.starts_with(path)).cloned().collect()
    }

    /// Its objects: those with an address of their own, and those of all namespaces.
    pub fn objects(&self) -> &Objects {
        &self.state.objects
    }

    /// The next event of the last watch.
    pub async fn tell(&self, event: Value) {
        let mut sender = self.state.watches.lock().pop().expect("somebody watches");
        sender.send_data(Bytes::from(format!("{event}\n"))).await.unwrap();
        self.state.watches.lock().push(sender);
    }
}

/// The Service `api` in the namespace `wardle`, with this endpoint.
pub async fn add_service(cluster: &TestCluster) {
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "wardle"}})).await.ok(201);
    let service = json!({"metadata": {"name": "api"}, "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 8443}]}});
    cluster.post("/api/v1/namespaces/wardle/services", service).await.ok(201);
}

pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/wardle/endpointslices";

pub async fn add_endpoint(cluster: &TestCluster) {
    let slice = json!({
        "metadata": {"name": "api-1", "labels": {"kubernetes.io/service-name": "api"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
    });
    cluster.post(SLICES, slice).await.ok(201);
}

pub fn api_service(server: &AggregatedServer) -> Value {
    json!({
        "metadata": {"name": "v1alpha1.wardle.example.com"},
        "spec": {
            "group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 200,
            "service": {"namespace": "wardle", "name": "api"}, "caBundle": server.ca_bundle(),
        },
    })
}

/// The condition `Available`, once its reason is this.
pub async fn condition(cluster: &TestCluster, path: &str, reason: &str) -> Value {
    for _ in 0..10_000 {
        let found = cluster.get(path).await.ok(200)["status"]["conditions"][0].clone();
        if found["reason"] == reason {
            return found;
        }
        cluster.env().sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it never became {reason}: {}", cluster.get(path).await.text());
}

/// A cluster whose `flunders` this server serves.
pub async fn aggregating(seed: u64) -> (TestCluster, AggregatedServer) {
    aggregating_by(AggregatedServer::new(&Env::simulated(seed), "api.wardle.svc")).await
}

pub async fn aggregating_by(server: AggregatedServer) -> (TestCluster, AggregatedServer) {
    let cluster = server.cluster().await;
    add_service(&cluster).await;
    add_endpoint(&cluster).await;
    cluster.post(API_SERVICES, api_service(&server)).await.ok(201);
    condition(&cluster, API_SERVICE, "Passed").await;
    (cluster, server)
}

async fn serve(state: Arc<State>, far: DuplexStream) {
    let mut cut = state.cut.subscribe();
    let Ok(tls) = state.acceptor.accept(far).await else { return };
    state.handshakes.fetch_add(1, Ordering::Relaxed);
    let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let now = state.env.now_seconds();
    let by_proxy =
        tls.get_ref().1.peer_certificates().is_some_and(|chain| state.trust.proxy(chain, now).is_some());
    if *state.mode.lock() == Mode::Closes {
        return;
    }
    let answering = state.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let state = answering.clone();
        state.asked.lock().push(Asked {
            by_proxy,
            method: request.method().to_string(),
            uri: request.uri().path_and_query().unwrap().to_string(),
            headers: request.headers().clone(),
        });
        let mode = *state.mode.lock();
        async move {
            let response = match mode {
                Mode::Hangs => std::future::pending().await,
                Mode::HangsAt(path) if request.uri().path() == path => std::future::pending().await,
                Mode::Fails(code) => text(code, "oh\n"),
                Mode::Redirects(code, location) => {
                    let mut response = text(code, "over there\n");
                    response.headers_mut().insert("location", http::HeaderValue::from_static(location));
                    response
                }
                Mode::RefusesOnceAt(path) if request.uri().path() == path => {
                    *state.mode.lock() = Mode::Serves;
                    return Err(h2::Error::from(h2::Reason::REFUSED_STREAM));
                }
                Mode::FailsAt(path) if request.uri().path().starts_with(path) => text(500, "oh\n"),
                _ => tagged(&state, mode, request).await,
            };
            Ok(response)
        }
    });
    let io = TokioIo::new(Box::new(tls));
    let served = async {
        // How it ends is seen on the other side.
        if http2 {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(io, service).await;
        } else {
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.serve_connection(io, service).with_upgrades().await;
        }
    };
    tokio::select! {
        biased;
        _ = cut.changed() => {}
        () = served => {}
    }
}

pub fn typed(media: &'static str, body: &Value) -> Response<Body> {
    let mut response = text(200, &body.to_string());
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(media));
    response
}

/// The answer; documents have entity tags, and are not sent to who has them.
async fn tagged(state: &Arc<State>, mode: Mode, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let known = request.headers().get("if-none-match").cloned();
    let response = respond(state, mode, request).await;
    let has_tag = mode == Mode::Serves && ["/apis", "/openapi/v2", "/openapi/v3"].contains(&path.as_str());
    if !has_tag {
        return response;
    }
    let tag = http::HeaderValue::try_from(format!("\"{}\"", path.replace('/', "-"))).unwrap();
    let mut response = if known.as_ref() == Some(&tag) { text(304, "") } else { response };
    response.headers_mut().insert("etag", tag);
    response
}

async fn respond(state: &Arc<State>, mode: Mode, mut request: Request<Incoming>) -> Response<Body> {
    const JSON: &str = "application/json";
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or("").to_owned());
    let flunder = json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": {"name": "a", "namespace": "default"}});
    match (request.method().as_str(), path.as_str()) {
        ("GET", "/apis") if mode == Mode::Legacy => {
            typed(JSON, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}))
        }
        ("GET", "/apis") => typed(
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            &json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [{
                "metadata": {"name": GROUP}, "versions": [{"version": "v1alpha1", "freshness": "Current", "resources": [{
                    "resource": "flunders", "responseKind": {"group": GROUP, "version": "v1alpha1", "kind": "Flunder"},
                    "scope": "Namespaced", "singularResource": "flunder", "verbs": ["create", "delete", "deletecollection", "get", "list", "watch"],
                }]}],
            }]}),
        ),
        ("GET", BETA_ROOT) => typed(
            JSON,
            &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1beta1", "resources": []}),
        ),
        ("GET", ROOT) => typed(
            JSON,
            &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1alpha1",
            "resources": [{"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get", "list", "watch"]}]}),
        ),
        (_, path) if path.starts_with("/openapi/v3") && mode == Mode::Legacy => {
            text(404, "404 page not found\n")
        }
        ("GET", "/openapi/v3") => typed(
            JSON,
            &json!({"paths": {
            "apis/wardle.example.com/v1alpha1": {"serverRelativeURL": "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=AB12"},
            "apis": {"serverRelativeURL": "/openapi/v3/apis?hash=CD"},
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=EF"}}}),
        ),
        ("GET", "/openapi/v3/apis/wardle.example.com/v1alpha1") => {
            typed(JSON, &json!({"openapi": "3.0.0", "info": {"title": "wardle"}}))
        }
        ("GET", "/openapi/v2") => typed(
            JSON,
            &json!({"swagger": "2.0",
            "paths": {"/apis/wardle.example.com/v1alpha1/": {"get": {"produces": ["application/json"], "responses": {"200": {"schema": {"$ref": "#/definitions/com.example.wardle.Flunder"}}}}},
                      "/version/": {"get": {}}},
            "definitions": {"com.example.wardle.Flunder": {"type": "object"}, "com.example.wardle.Other": {"type": "object"}}}),
        ),
        (_, path) if Objects::has(path) => state.objects.serve(request).await,
        ("GET", FLUNDERS) if query.contains("watch=1") => {
            let (mut sender, response) = streamed();
            sender
                .send_data(Bytes::from(format!("{}\n", json!({"type": "ADDED", "object": flunder}))))
                .await
                .unwrap();
            state.watches.lock().push(sender);
            response
        }
        ("GET", FLUNDERS) => typed(
            JSON,
            &json!({"kind": "FlunderList", "apiVersion": "wardle.example.com/v1alpha1", "metadata": {}, "items": [flunder]}),
        ),
        ("POST", FLUNDERS) => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut response = text(201, &String::from_utf8_lossy(&body));
            response.headers_mut().insert("x-wardle", http::HeaderValue::from_static("made"));
            response
        }
        ("DELETE", _) => typed(JSON, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
        ("GET", path) if path.ends_with("/flunders") => typed(
            JSON,
            &json!({"kind": "FlunderList", "apiVersion": "wardle.example.com/v1alpha1", "metadata": {}, "items": []}),
        ),
        ("GET", METRICS) => typed(
            JSON,
            &json!({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [{"metadata": {"name": "theirs"}}]}),
        ),
        ("GET", "/apis/metrics.k8s.io/v1beta1") => typed(
            JSON,
            &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": []}),
        ),
        (_, path) if path.ends_with("/exec") => {
            let upgrade = hyper::upgrade::on(&mut request);
            let body = request.body_mut().collect().await.unwrap().to_bytes();
            drop(state.env.clone().spawn("echo", async move {
                let mut io = TokioIo::new(upgrade.await.unwrap());
                let mut bytes = [0; 5];
                io.read_exact(&mut bytes).await.unwrap();
                bytes.reverse();
                io.write_all(&bytes).await.unwrap();
                io.shutdown().await.unwrap();
            }));
            let mut response = text(101, "");
            response.headers_mut().insert("x-body", http::HeaderValue::from_bytes(&body).unwrap());
            for name in ["connection", "upgrade"] {
                let value = request.headers()[name].clone();
                response.headers_mut().insert(name, value);
            }
            response
        }
        _ => text(404, "404 page not found\n"),
    }
}
