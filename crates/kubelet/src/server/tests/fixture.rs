//! A server on a free port, and connections to it.

use std::path::PathBuf;
use std::sync::Arc;

use auth::pki::{Pki, ServingCertificate};
use bytes::Bytes;
use client::{
    Answer, Client, DeleteOptions, List, ListOptions, Obj, Patch, Status, Target, Value, Watch, WatchOptions,
    WriteOptions,
};
use env::Env;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use object::Map;
use parking_lot::Mutex;
use runtime::{Stop, Stopper};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::runtime::{Host, Shared};
use crate::config::Config;
use crate::server::stats::VolumeStats;
use crate::server::{ClientCas, Enabled, Node, Server, Settings, bind};

pub const USER: &str = "kube-apiserver-kubelet-client";

pub struct TestNode {
    pub host: Arc<Host>,
    pub pods: Mutex<Vec<Arc<Value>>>,
    pub directory: PathBuf,
    pub stuck: Mutex<Option<String>>,
    pub volumes: Mutex<Vec<VolumeStats>>,
}

impl Node for TestNode {
    fn pods(&self) -> Vec<Arc<Value>> {
        self.pods.lock().clone()
    }
    fn runtime(&self) -> Arc<dyn cri::Runtime> {
        Arc::new(Shared(self.host.clone()))
    }
    fn config(&self) -> Value {
        parse(r#"{"kind":"KubeletConfiguration","maxPods":110}"#)
    }
    fn root_directory(&self) -> PathBuf {
        self.directory.clone()
    }
    fn pod_logs_directory(&self) -> PathBuf {
        self.directory.join("logs")
    }
    fn volumes<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Vec<VolumeStats>> {
        let volumes = self.volumes.lock().clone();
        Box::pin(async move { volumes })
    }
    fn sync_loop(&self) -> Result<(), String> {
        self.stuck.lock().clone().map_or(Ok(()), Err)
    }
}

/// The API server's reviews: one token is good, and one user may do everything, others what they are given.
#[derive(Default)]
pub struct Reviews {
    pub asked: Mutex<Vec<Value>>,
    /// User and subresource.
    pub allowed: Mutex<Vec<(String, String)>>,
    pub failing: Mutex<bool>,
}

fn missing<T: Send + 'static>() -> Answer<'static, T> {
    Box::pin(async { Err(Status::no_such_resource()) })
}

impl Client for Reviews {
    fn review<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Value> {
        self.asked.lock().push(body.clone());
        let answer = if *self.failing.lock() {
            Err(Status::bad_request("no reviews for you"))
        } else if &*target.resource.plural == "tokenreviews" {
            Ok(match body.str_at(&["spec", "token"]) {
                Some("good") => parse(
                    r#"{"status":{"authenticated":true,"user":{"username":"jane","uid":"7","groups":["ops"],"extra":{"scope":["a"]}}}}"#,
                ),
                Some("unknown") => parse(r#"{"status":{"authenticated":false}}"#),
                _ => parse(r#"{"status":{"authenticated":false,"error":"invalid bearer token"}}"#),
            })
        } else {
            let user = body.str_at(&["spec", "user"]).unwrap_or_default().to_owned();
            let subresource = body.str_at(&["spec", "resourceAttributes", "subresource"]).unwrap_or_default();
            let given = self.allowed.lock().iter().any(|(who, what)| *who == user && *what == subresource);
            let mut status = Map::default();
            status.set("allowed", given || user == USER);
            let mut answer = Map::default();
            answer.set("status", status);
            Ok(Value::Map(answer))
        };
        Box::pin(async move { answer })
    }

    fn catalog(&self) -> Arc<catalog::Catalog> {
        Arc::new(catalog::Catalog::builtin())
    }
    fn get<'a>(&'a self, _: Target<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn list<'a>(&'a self, _: Target<'a>, _: ListOptions) -> Answer<'a, List> {
        missing()
    }
    fn watch<'a>(&'a self, _: Target<'a>, _: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        missing()
    }
    fn create<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn update<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn patch<'a>(&'a self, _: Target<'a>, _: Patch, _: WriteOptions<'a>) -> Answer<'a, Arc<Obj>> {
        missing()
    }
    fn delete<'a>(&'a self, _: Target<'a>, _: DeleteOptions) -> Answer<'a, ()> {
        missing()
    }
    fn delete_collection<'a>(&'a self, _: Target<'a>, _: DeleteOptions, _: ListOptions) -> Answer<'a, ()> {
        missing()
    }
    fn act<'a>(&'a self, _: Target<'a>, _: Value, _: WriteOptions<'a>) -> Answer<'a, ()> {
        missing()
    }
}

pub struct Fixture {
    pub env: Env,
    pub node: Arc<TestNode>,
    pub host: Arc<Host>,
    pub reviews: Arc<Reviews>,
    pub directory: TempDir,
    pub pki: Pki,
    pub certificate: Arc<ServingCertificate>,
    pub client_cas: Arc<ClientCas>,
    pub server: Server,
    pub stopper: Stopper,
}

pub fn parse(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

/// A pod with one container that runs.
pub fn web() -> Arc<Value> {
    Arc::new(parse(
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default","uid":"u1"},
        "spec":{"containers":[{"name":"app","image":"busybox"},{"name":"later","image":"busybox"}]},
        "status":{"containerStatuses":[{"name":"app","containerID":"test://c1","state":{"running":{}}},
        {"name":"later","state":{"waiting":{"reason":"ErrImagePull"}}}]}}"#,
    ))
}

impl Fixture {
    pub async fn start() -> Fixture {
        Fixture::with_config("").await
    }

    /// With fields of a KubeletConfiguration; `$DIR` in them is the fixture's directory, with the CA in `clients.crt`.
    pub async fn with_config(fields: &str) -> Fixture {
        let env = Env::machine();
        let directory = TempDir::new().unwrap();
        let fields = fields.replace("$DIR", directory.path().to_str().unwrap());
        let file =
            format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{fields}\n");
        let config = Config::new("n1", directory.path().to_owned()).with_file(file.as_bytes()).unwrap();
        let names = ["127.0.0.1".to_owned()];
        let pki = Pki::open_or_create(&directory.path().join("pki"), env.now_seconds(), &names).unwrap();
        let certificate = Arc::new(ServingCertificate::new(pki.serving()).unwrap());
        let host = Host::new(&env);
        let pods = Mutex::new(vec![web()]);
        let path = directory.path().to_owned();
        let node = Arc::new(TestNode {
            host: host.clone(),
            pods,
            directory: path,
            stuck: Mutex::default(),
            volumes: Mutex::default(),
        });
        let reviews = Arc::new(Reviews::default());
        let (stopper, stop): (Stopper, Stop) = Stopper::new();
        std::fs::write(directory.path().join("clients.crt"), pki.ca_pem()).unwrap();
        let of_file = config.authentication.client_ca_file.as_deref();
        let client_cas = Arc::new(ClientCas::open(of_file, Arc::new(pki.ca_bundle())).unwrap());
        let settings = Settings {
            listener: bind("127.0.0.1", 0).unwrap(),
            certificate: certificate.clone(),
            client_cas: client_cas.clone(),
            authentication: config.authentication.clone(),
            authorization: config.authorization.clone(),
            tls: config.tls.clone(),
            node_name: "n1".to_owned(),
            enabled: Enabled { debugging: true, system_logs: true },
            system_logs: directory.path().join("system"),
            flags: [("data-dir", "/d"), ("token", "CLASSIFIED")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        };
        let server = Server::start(&env, settings, node.clone(), reviews.clone(), stop).await.unwrap();
        Fixture { env, node, host, reviews, directory, pki, certificate, client_cas, server, stopper }
    }

    /// `user` none: without a certificate.
    pub async fn connect(&self, user: Option<&str>, protocol: &[u8]) -> TlsStream<TcpStream> {
        self.try_connect(user, protocol, rustls::ALL_VERSIONS).await.unwrap()
    }

    pub async fn try_connect(
        &self,
        user: Option<&str>,
        protocol: &[u8],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(self.pki.ca_pem().as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let config = config.with_root_certificates(roots);
        let mut config = match user {
            Some(user) => {
                let identity = self.pki.issue_client(user, &[], 3600, self.env.now_seconds()).unwrap();
                config.with_client_auth_cert(identity.chain(), identity.key()).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let tcp = TcpStream::connect(("127.0.0.1", self.server.port())).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await
    }

    pub async fn send(
        &self,
        user: Option<&str>,
        method: Method,
        target: &str,
        headers: HeaderMap,
    ) -> Response<Incoming> {
        let tls = self.connect(user, b"http/1.1").await;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
        self.env.spawn("test-connection", async move {
            let _ = connection.with_upgrades().await;
        });
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().unwrap();
        *request.headers_mut() = headers;
        request.headers_mut().insert(http::header::HOST, "127.0.0.1".parse().unwrap());
        sender.send_request(request).await.unwrap()
    }

    /// As the API server asks.
    pub async fn get(&self, target: &str) -> (StatusCode, String) {
        text(self.send(Some(USER), Method::GET, target, HeaderMap::new()).await).await
    }
}

pub async fn text(response: Response<Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
