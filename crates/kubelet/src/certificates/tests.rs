use std::sync::Arc;
use std::time::Duration;

use auth::Pki;
use auth::pki::{Identity, request_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::Answer;
use env::Env;
use object::{Map, Status, Value};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;

/// A cluster that signs what it is asked for after a while, for a day.
struct Signer {
    env: Env,
    pki: Pki,
    asked: Mutex<Vec<Value>>,
    /// So many requests are refused first.
    refuses: Mutex<usize>,
}

impl Signer {
    fn new(env: &Env, folder: &std::path::Path, refuses: usize) -> Arc<Signer> {
        let pki = Pki::open_or_create(folder, env.now_seconds(), &[]).expect("made");
        Arc::new(Signer { env: env.clone(), pki, asked: Mutex::default(), refuses: Mutex::new(refuses) })
    }

    /// Signed names of each request, in order.
    fn names(&self) -> Vec<Vec<String>> {
        let names = |csr: &Value| {
            let request = request_of(csr).expect("a request");
            let addresses = request.addresses.iter().map(ToString::to_string);
            request.dns_names.iter().cloned().chain(addresses).collect()
        };
        self.asked.lock().iter().map(names).collect()
    }
}

impl SigningRequests for Signer {
    fn create(&self, body: Value) -> Answer<'_, String> {
        let mut asked = self.asked.lock();
        asked.push(body);
        let name = format!("csr-{}", asked.len() - 1);
        Box::pin(async move { Ok(name) })
    }

    fn get<'a>(&'a self, name: &'a str) -> Answer<'a, Value> {
        Box::pin(async move {
            let at: usize = name["csr-".len()..].parse().expect("a number");
            let mut csr = self.asked.lock()[at].clone();
            let mut refuses = self.refuses.lock();
            if *refuses > 0 {
                *refuses -= 1;
                if at == 0 {
                    return Err(Status::unavailable("busy"));
                }
                let mut denied = Map::default();
                denied.set("type", "Denied");
                denied.set("reason", "Mood");
                denied.set("message", "not today");
                csr.map_at(&["status"]).set("conditions", Value::List(vec![Value::Map(denied)]));
                return Ok(csr);
            }
            let request = request_of(&csr).expect("a request");
            let now = self.env.now_seconds();
            let usages = ["server auth", "client auth", "digital signature"];
            let certificate = self.pki.issuer().issue(&request, &usages, 86_400, now).expect("signed");
            csr.map_at(&["status"]).set("certificate", STANDARD.encode(certificate));
            Ok(csr)
        })
    }
}

fn wanted(purpose: Purpose, names: &[&str]) -> Wanted {
    Wanted { purpose, node: "n".to_owned(), names: names.iter().map(|name| (*name).to_owned()).collect() }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_asked_for_and_comes() {
    let (env, folder) = (Env::simulated(1), tempfile::tempdir().expect("a folder"));
    let signer = Signer::new(&env, folder.path(), 1);
    let identity = obtain(&env, &*signer, &wanted(Purpose::Client, &[])).await.expect("signed");
    assert_eq!(identity.common_name(), "system:node:n");
    let csr = signer.asked.lock()[0].clone();
    assert_eq!(csr.str_at(&["spec", "signerName"]), Some("kubernetes.io/kube-apiserver-client-kubelet"));
    assert_eq!(request_of(&csr).expect("a request").organizations(), ["system:nodes"]);
    assert_eq!(csr.str_at(&["metadata", "generateName"]), Some("csr-"));
}

#[tokio::test(start_paused = true)]
async fn a_denied_request_is_told() {
    let (env, folder) = (Env::simulated(1), tempfile::tempdir().expect("a folder"));
    let signer = Signer::new(&env, folder.path(), 3);
    signer.asked.lock().push(Value::map());
    let error = obtain(&env, &*signer, &wanted(Purpose::Client, &[])).await.expect_err("denied");
    assert_eq!(error.to_string(), "certificate signing request csr-1 was denied: Mood: not today");
}

#[test]
fn certificates_are_replaced_between_seventy_and_ninety_percent() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::open_or_create(folder.path(), 1_000_000, &[]).expect("made");
    let identity = pki.issue_client("a", &[], 700, 1_000_300).expect("signed");
    let (first, last) = identity.validity();
    assert_eq!(last - first, 1000, "backdated");
    assert_eq!(rotation_due(&identity, 0), first + 700);
    assert_eq!(rotation_due(&identity, 500), first + 800);
    assert_eq!(rotation_due(&identity, 1000), first + 900);
}

#[tokio::test(start_paused = true)]
async fn a_serving_certificate_follows_its_names_and_is_replaced_in_time() {
    let (env, folder) = (Env::simulated(1), tempfile::tempdir().expect("a folder"));
    let signer = Signer::new(&env, &folder.path().join("ca"), 0);
    let names = Arc::new(Mutex::new(vec!["n".to_owned(), "10.0.0.1".to_owned()]));
    let installed: Arc<Mutex<Vec<Identity>>> = Arc::default();
    let (changed, store) = (Arc::new(Notify::new()), Store::new(folder.path()));
    let keeper = Keeper {
        env: env.clone(),
        requests: signer.clone(),
        purpose: Purpose::Serving,
        node: "n".to_owned(),
        store: store.clone(),
        file: SERVER_FILE,
        names: Box::new({
            let names = names.clone();
            move || names.lock().clone()
        }),
        changed: changed.clone(),
        install: Box::new({
            let installed = installed.clone();
            move |identity| installed.lock().push(identity.clone())
        }),
    };
    let (stopper, stop) = ::runtime::Stopper::new();
    let task = env.spawn("keeper", keeper.run(None, stop));
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(signer.names(), [["n", "10.0.0.1"]]);
    // Told of nothing new: nothing happens.
    changed.notify_one();
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(installed.lock().len(), 1);
    names.lock()[1] = "10.0.0.2".to_owned();
    changed.notify_one();
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(signer.names()[1..], [["n", "10.0.0.2"]]);
    let stored = store.read(SERVER_FILE, env.now_seconds()).expect("stored");
    assert_eq!(stored.names(), ["n", "10.0.0.2"]);
    // A day's certificate, at most nine tenths of it.
    env.sleep(Duration::from_secs(86_400)).await;
    assert_eq!(installed.lock().len(), 3, "replaced before it ended");
    assert!(store.read(SERVER_FILE, env.now_seconds() + 10 * 86_400).is_none(), "what has ended is not used");
    stopper.stop();
    task.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_asked_again() {
    let (env, folder) = (Env::simulated(1), tempfile::tempdir().expect("a folder"));
    let signer = Signer::new(&env, &folder.path().join("ca"), 3);
    let slot = Arc::new(ServingSlot::default());
    let keeper = Keeper {
        env: env.clone(),
        requests: signer.clone(),
        purpose: Purpose::Serving,
        node: "n".to_owned(),
        store: Store::new(folder.path()),
        file: SERVER_FILE,
        names: Box::new(|| vec!["n".to_owned()]),
        changed: Arc::new(Notify::new()),
        install: Box::new({
            let slot = slot.clone();
            move |identity| slot.set(identity)
        }),
    };
    signer.asked.lock().push(Value::map());
    let (stopper, stop) = ::runtime::Stopper::new();
    let task = env.spawn("keeper", keeper.run(None, stop));
    env.sleep(Duration::from_secs(1)).await;
    assert!(!slot.is_set());
    env.sleep(Duration::from_secs(60)).await;
    assert!(slot.is_set(), "after {} requests", signer.asked.lock().len());
    stopper.stop();
    task.await.expect("it ends");
}

#[test]
fn the_kubeconfig_names_the_file_that_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::open_or_create(&folder.path().join("ca"), 1_800_000_000, &[]).expect("made");
    let store = Store::new(folder.path());
    store.write(CLIENT_FILE, pki.admin()).expect("written");
    store.write_kubeconfig("https://127.0.0.1:6443", pki.ca_pem()).expect("written");
    let config = client_http::Config::from_kubeconfig(&store.kubeconfig()).expect("a kubeconfig");
    assert_eq!(config.server, "https://127.0.0.1:6443");
    assert_eq!(config.authority_pem.as_deref(), Some(pki.ca_pem().as_bytes()));
    let (certificate, key) = config.certificate_pem.expect("a certificate");
    assert_eq!(Identity::from_pem(&certificate, &key).expect("both").common_name(), "kubernetes-admin");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(store.path(CLIENT_FILE)).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn cluster_info_is_believed_only_with_signature_and_pin() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::open_or_create(folder.path(), 1_800_000_000, &[]).expect("made");
    let token = "abcdef.0123456789abcdef";
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    certificate-authority-data: {}\n    server: https://x\n",
        STANDARD.encode(pki.ca_pem())
    );
    let info = |signature: &str| {
        let mut info = Value::map();
        let data = info.map_at(&["data"]);
        data.set("kubeconfig", &*kubeconfig);
        data.set("jws-kubeconfig-abcdef", signature);
        info
    };
    let good = info(&auth::bootstrap_token::sign(&kubeconfig, "abcdef", "0123456789abcdef"));
    let ca = &auth::pki::certificates_from_pem(pki.ca_pem().as_bytes()).expect("PEM")[0];
    let pin = vec![auth::pki::public_key_hash(ca).expect("a certificate")];
    let said = |info: &Value, token: &str, pins: &[String]| match discovery::verify("s", info, token, pins) {
        Ok((_, ca)) => ca,
        Err(error) => error.to_string(),
    };
    assert_eq!(said(&good, token, &[]), pki.ca_pem());
    assert_eq!(said(&good, token, &pin), pki.ca_pem());
    assert!(said(&good, token, &["sha256:00".to_owned()]).contains("none of the public keys"));
    assert!(said(&good, "abcdef.0123456789abcdee", &[]).contains("failed to verify JWS signature"));
    assert!(said(&good, "zzzzzz.0123456789abcdef", &[]).contains("token id \"zzzzzz\" is invalid"));
    assert!(said(&good, "no", &[]).contains("is not a token"));
    assert!(said(&info("x"), token, &[]).contains("failed to verify JWS signature"));
}

#[tokio::test]
async fn a_replaced_certificate_is_shown_on_the_next_connection() {
    let (env, folder) = (Env::machine(), tempfile::tempdir().expect("a folder"));
    let now = env.now_seconds();
    let pki = Pki::open_or_create(folder.path(), now, &[]).expect("made");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(auth::x509::AcceptAnyClientCert::new(Vec::new()))
        .with_single_cert(pki.serving().chain(), pki.serving().key())
        .expect("a certificate");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let pair = |name: &str| {
        let identity = pki.issue_client(name, &[], 3600, now).expect("signed");
        (identity.certificate_pem().into_bytes(), identity.key_pem().into_bytes())
    };
    let config = client_http::Config {
        server: format!("https://{}", listener.local_addr().expect("an address")),
        authority_pem: Some(pki.ca_pem().as_bytes().to_vec()),
        certificate_pem: Some(pair("first")),
        ..client_http::Config::default()
    };
    let catalog = Arc::new(catalog::Catalog::builtin());
    let (client, rotation) =
        client_http::HttpClient::with_rotation(env.clone(), catalog, &config).expect("a client");
    // Who asks next; it gets no answer.
    let asks = async || {
        use client::Client as _;
        let mut call = std::pin::pin!(client.get(client::resources::NODES.at("", "n")));
        let mut accept = std::pin::pin!(async {
            let (tcp, _) = listener.accept().await.expect("a connection");
            let wire = acceptor.accept(tcp).await.expect("a handshake");
            let chain = wire.get_ref().1.peer_certificates().expect("a certificate").to_vec();
            auth::x509::authenticate(&chain, &pki.client_ca(), now).expect("ours").user.name
        });
        let mut over = false;
        loop {
            tokio::select! {
                name = &mut accept => break name,
                _ = &mut call, if !over => over = true,
            }
        }
    };
    assert_eq!(asks().await, "first");
    let (certificate, key) = pair("second");
    rotation.replace(certificate, key).expect("replaced");
    assert_eq!(asks().await, "second");
    assert!(rotation.replace(b"no".to_vec(), b"pem".to_vec()).is_err());
    assert_eq!(asks().await, "second", "what cannot be used changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_changes_the_names_is_not_asked_over_and_over() {
    let (env, folder) = (Env::simulated(1), tempfile::tempdir().expect("a folder"));
    let signer = Signer::new(&env, &folder.path().join("ca"), 0);
    let names = Arc::new(Mutex::new(vec!["n".to_owned()]));
    let changed = Arc::new(Notify::new());
    let keeper = |current: &str| {
        let keeper = Keeper {
            env: env.clone(),
            requests: Arc::new(Stubborn(signer.clone())),
            purpose: Purpose::Serving,
            node: "n".to_owned(),
            store: Store::new(&folder.path().join(current)),
            file: SERVER_FILE,
            names: Box::new({
                let names = names.clone();
                move || names.lock().clone()
            }),
            changed: changed.clone(),
            install: Box::new(|_| {}),
        };
        let (stopper, stop) = ::runtime::Stopper::new();
        (env.spawn("keeper", keeper.run(None, stop)), stopper)
    };
    // It signs for `n` and `other`, whatever is asked: more than was asked for is fine.
    let (task, stopper) = keeper("more");
    env.sleep(Duration::from_secs(1800)).await;
    assert_eq!(signer.names().len(), 1);
    // Less is not, but nothing helps.
    names.lock().push("10.0.0.1".to_owned());
    changed.notify_one();
    env.sleep(Duration::from_secs(1800)).await;
    assert_eq!(signer.names().len(), 2);
    // It may have changed its mind.
    env.sleep(Duration::from_secs(3600)).await;
    assert_eq!(signer.names().len(), 3);
    stopper.stop();
    task.await.expect("it ends");
}

/// Signs for names of its own.
struct Stubborn(Arc<Signer>);

impl SigningRequests for Stubborn {
    fn create(&self, body: Value) -> Answer<'_, String> {
        self.0.create(body)
    }

    fn get<'a>(&'a self, name: &'a str) -> Answer<'a, Value> {
        Box::pin(async move {
            let mut csr = self.0.get(name).await?;
            let mut request = request_of(&csr).expect("a request");
            request.dns_names = vec!["n".to_owned(), "other".to_owned()];
            request.addresses.clear();
            let now = self.0.env.now_seconds();
            let certificate =
                self.0.pki.issuer().issue(&request, &["server auth"], 86_400, now).expect("signed");
            csr.map_at(&["status"]).set("certificate", STANDARD.encode(certificate));
            Ok(csr)
        })
    }
}

#[test]
fn a_serving_certificate_of_files_is_replaced_only_by_a_pair() {
    let folder = tempfile::tempdir().expect("a folder");
    let pki = Pki::open_or_create(folder.path(), 1_800_000_000, &[]).expect("made");
    let slot = ServingSlot::default();
    let pem =
        |identity: &Identity| (identity.certificate_pem().into_bytes(), identity.key_pem().into_bytes());
    let (certificate, key) = pem(pki.serving());
    slot.set_pem(&certificate, &key).expect("a pair");
    let (_, other) = pem(pki.admin());
    assert!(slot.set_pem(&certificate, &other).is_err(), "one half is newer than the other");
    assert!(slot.is_set());
}
