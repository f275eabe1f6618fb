//! A year in virtual time: certificates are rotated before they expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver::{Acceptor, Api, CertificateRotation, Tls};
use auth::Pki;
use auth::pki::ServingCertificate;
use client_http::Config;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A connection through the server's own acceptor, without a socket.
struct Connection {
    stream: TlsStream<DuplexStream>,
    /// What the server showed.
    shown: CertificateDer<'static>,
}

impl Connection {
    /// As the user of a kubeconfig.
    async fn open(cluster: &TestCluster, acceptor: &Acceptor, kubeconfig: &str) -> Connection {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (api, acceptor): (Arc<Api>, Acceptor) = (cluster.api().clone(), acceptor.clone());
        drop(cluster.env().spawn("connection", async move { acceptor.serve(api, theirs).await }));
        let (certificate, key) = Config::from_kubeconfig_text(kubeconfig).unwrap().certificate_pem.unwrap();
        let chain = client_http::tls::certificates(&certificate).unwrap();
        let key = PrivateKeyDer::from_pem_slice(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // TLS itself asks the machine for the time, which is not this world's: the test looks at the certificate itself.
        let anyone = client_http::tls::verifier(None, &provider).unwrap();
        let tls =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.dangerous().with_custom_certificate_verifier(anyone);
        let mut tls = tls.with_client_auth_cert(chain, key).unwrap();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, ours).await.unwrap();
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        Connection { stream, shown }
    }

    /// Again and again, so that the connection is never idle for long; the first status that is not 200, or that.
    async fn ask_for(&mut self, world: &World, time: Duration) -> u16 {
        let env = world.cluster.env();
        let end = env.monotonic() + time;
        while env.monotonic() < end {
            let status = self.ask().await;
            if status != 200 {
                return status;
            }
            env.sleep(Duration::from_secs(80)).await;
        }
        200
    }

    /// The status of a request on this very connection.
    async fn ask(&mut self) -> u16 {
        let request = b"GET /api/v1/namespaces/default HTTP/1.1\r\nhost: x\r\n\r\n";
        self.stream.write_all(request).await.unwrap();
        let (mut answer, mut buffer) = (Vec::new(), [0; 8192]);
        let text = loop {
            let read = self.stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the connection ended");
            answer.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&answer).to_lowercase();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.trim().parse::<usize>().unwrap() {
                break text;
            }
        };
        text.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

struct World {
    cluster: TestCluster,
    acceptor: Acceptor,
    /// Every kubeconfig that was written; the first is the one of the start.
    written: Arc<Mutex<Vec<String>>>,
    /// Writes tried, whether they succeeded or not.
    tried: Arc<Mutex<usize>>,
    disk_is_full: Arc<AtomicBool>,
    _directory: tempfile::TempDir,
}

impl World {
    async fn new(seed: u64) -> World {
        let cluster = TestCluster::simulated(seed).await;
        let env = cluster.env().clone();
        let directory = tempfile::tempdir().unwrap();
        let names = ["127.0.0.1".to_owned()];
        let pki = Pki::open_or_create(&directory.path().join("pki"), env.now_seconds(), &names).unwrap();
        let certificate = Arc::new(ServingCertificate::new(pki.serving()).unwrap());
        let acceptor = Acceptor::new(Tls {
            certificate: certificate.clone(),
            client_ca: Arc::new(pki.ca_bundle()),
            request_header_ca: None,
        })
        .unwrap();
        let written = Arc::new(Mutex::new(vec![pki.admin_kubeconfig("https://127.0.0.1:1")]));
        let (tried, disk_is_full) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
        let (into, times, full) = (written.clone(), tried.clone(), disk_is_full.clone());
        let write_kubeconfig = Box::new(move |pki: &Pki| {
            *times.lock() += 1;
            if full.load(Ordering::Relaxed) {
                return Err("no space left on device".to_owned());
            }
            into.lock().push(pki.admin_kubeconfig("https://127.0.0.1:1"));
            Ok(())
        });
        let renewal = CertificateRotation {
            pki,
            certificate: Some(certificate),
            write_kubeconfig,
            kubelet_client: None,
            front_proxy: None,
        };
        drop(env.spawn("renewal", renewal.run(env.clone(), cluster.api().shutdown())));
        World { cluster, acceptor, written, tried, disk_is_full, _directory: directory }
    }

    fn kubeconfig(&self) -> String {
        self.written.lock().last().unwrap().clone()
    }

    async fn connect(&self) -> Connection {
        Connection::open(&self.cluster, &self.acceptor, &self.kubeconfig()).await
    }

    /// In one jump, as if the machine had slept; then everybody has their turn.
    async fn pass(&self, time: Duration) {
        tokio::time::advance(time).await;
        self.cluster.env().sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_eight_months_both_certificates_are_new_and_old_connections_go_on() {
    let world = World::new(710).await;
    let (first, shown) = (world.kubeconfig(), world.connect().await.shown);
    let hour = Duration::from_secs(3600);
    world.pass(242 * DAY).await;
    assert_eq!(world.connect().await.shown, shown, "more than a third of its life is left");
    assert_eq!(world.written.lock().len(), 1);

    // A connection that never rests for long sees the hour in which it happens.
    let mut hours = 0;
    let mut old = loop {
        let mut old = world.connect().await;
        assert_eq!(old.ask_for(&world, hour + hour / 10).await, 200);
        if world.written.lock().len() > 1 {
            break old;
        }
        hours += 1;
        assert!(hours < 72, "a third of a year's certificate is left after 244 days");
    };
    assert_ne!(first, world.kubeconfig(), "the administrator has a new certificate");
    let mut new = world.connect().await;
    assert_ne!(new.shown, old.shown, "new connections see a new certificate");
    assert_eq!((old.ask().await, new.ask().await), (200, 200));

    // The first certificates expire: clients with them are refused, on an open connection too.
    world.pass(120 * DAY).await;
    let mut old = Connection::open(&world.cluster, &world.acceptor, &first).await;
    assert_eq!(old.ask().await, 200);
    assert_eq!(old.ask_for(&world, 2 * DAY).await, 401);
    assert_eq!(world.connect().await.ask().await, 200);
    assert_eq!(Connection::open(&world.cluster, &world.acceptor, &first).await.ask().await, 401);
    assert_eq!(world.written.lock().len(), 2, "once");
    world.cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_cannot_be_written_is_retried_with_backoff() {
    let world = World::new(711).await;
    let old = world.connect().await.shown;
    world.disk_is_full.store(true, Ordering::Relaxed);
    world.pass(330 * DAY).await;
    let tried = || *world.tried.lock();
    assert_eq!(tried(), 1);
    assert_ne!(world.connect().await.shown, old, "what can be done is done");
    let env = world.cluster.env().clone();
    for (seconds, times) in [(58, 1), (4, 2), (114, 2), (8, 3), (230, 3), (12, 4)] {
        env.sleep(Duration::from_secs(seconds)).await;
        assert_eq!(tried(), times, "{seconds} s later");
    }
    // An hour is the longest.
    for _ in 0..12 {
        let before = tried();
        world.pass(Duration::from_secs(3601)).await;
        assert_eq!(tried(), before + 1);
    }
    assert_eq!(world.written.lock().len(), 1);
    world.disk_is_full.store(false, Ordering::Relaxed);
    world.pass(Duration::from_secs(3601)).await;
    assert_eq!(world.written.lock().len(), 2, "and written at last");
    let times = tried();
    world.pass(Duration::from_secs(3601)).await;
    assert_eq!(tried(), times, "once is enough");
    assert_eq!(world.connect().await.ask().await, 200);
    world.cluster.shutdown().await;
}
