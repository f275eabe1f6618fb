//! Client certificates over a real socket: which are accepted, and the errors of the others.

use std::sync::Arc;

use auth::pki::{FrontProxy, Identity, Pki};
use auth::{RequestHeaderNames, RequestHeaders, Tokens, groups};
use env::Env;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use testkit::{Served, TestCluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const NAMESPACES: &str = "/api/v1/namespaces";
const HOUR: u64 = 3600;

pub async fn connect(served: &Served, identity: Option<&Identity>) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(served.pki.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        Some(identity) => config.with_client_auth_cert(identity.chain(), identity.key()).unwrap(),
        None => config.with_no_client_auth(),
    };
    let socket = TcpStream::connect(served.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(ServerName::try_from("127.0.0.1").unwrap(), socket).await.unwrap()
}

/// One request on a connection that stays open: the code and the body.
async fn ask(tls: &mut TlsStream<TcpStream>, path: &str, more: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = tls.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the connection ended: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).expect("a length");
        if body.len() >= length.parse::<usize>().unwrap() {
            return (head[9..12].parse().unwrap(), body.to_owned());
        }
    }
}

#[tokio::test]
async fn invalid_client_certificates_are_401_and_break_nothing() {
    let tokens = Tokens::parse("tokens".as_ref(), b"good-token,jane,1,\"system:masters\"\n").unwrap();
    let mut cluster = TestCluster::with_tokens(Env::machine(), Some(tokens)).await;
    let served = cluster.serve().await.unwrap();
    let now = cluster.env().now_seconds();
    let masters = [groups::MASTERS.to_owned()];
    let issue = |name: &str, at: u64, life: u64| served.pki.issue_client(name, &masters, life, at).unwrap();
    let elsewhere = served.pki_directory().with_file_name("elsewhere");
    let stranger = Pki::open_or_create(&elsewhere, now, &[]).unwrap();

    let expired = issue("jane", now - 2 * HOUR, HOUR);
    let early = issue("jane", now + HOUR, HOUR);
    let unknown = stranger.issue_client("jane", &masters, HOUR, now).unwrap();
    // Meant for servers.
    let serving = served.pki.serving().clone();
    for (what, identity) in
        [("expired", expired), ("early", early), ("of a stranger", unknown), ("a server's", serving)]
    {
        let mut tls = connect(&served, Some(&identity)).await;
        for path in [NAMESPACES, "/version", "/healthz"] {
            let (code, body) = ask(&mut tls, path, "").await;
            assert_eq!(code, 401, "{what} {path}: {body}");
            assert!(body.contains("\"reason\":\"Unauthorized\""), "{what}: {body}");
        }
        // A token proves more than a certificate that proves nothing.
        assert_eq!(ask(&mut tls, NAMESPACES, "Authorization: Bearer good-token\r\n").await.0, 200, "{what}");
        assert_eq!(ask(&mut tls, NAMESPACES, "Authorization: Bearer other\r\n").await.0, 401, "{what}");
    }

    // A certificate of ours without a common name counts as none.
    let nameless = issue("", now, HOUR);
    let mut tls = connect(&served, Some(&nameless)).await;
    let (code, body) = ask(&mut tls, NAMESPACES, "").await;
    assert_eq!(code, 403, "{body}");
    assert!(body.contains("system:anonymous"), "{body}");
    assert_eq!(ask(&mut tls, "/version", "").await.0, 200);

    let mut tls = connect(&served, Some(&issue("jane", now, HOUR))).await;
    assert_eq!(ask(&mut tls, NAMESPACES, "").await.0, 200, "the server still serves");
    drop(tls);
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_renewed_serving_certificate_is_shown_to_new_connections_and_old_ones_stay() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.unwrap();
    let admin = served.pki.admin().clone();
    let shown = |tls: &TlsStream<TcpStream>| tls.get_ref().1.peer_certificates().unwrap()[0].clone();
    let mut old = connect(&served, Some(&admin)).await;
    assert_eq!(ask(&mut old, NAMESPACES, "").await.0, 200);

    // Another name makes a new certificate due.
    let names = ["127.0.0.1".to_owned(), "renewed.example.com".to_owned()];
    let renewed = Pki::open_or_create(&served.pki_directory(), cluster.env().now_seconds(), &names).unwrap();
    served.certificate.swap(renewed.serving()).unwrap();
    let mut new = connect(&served, Some(&admin)).await;
    assert_eq!(shown(&new), renewed.serving().chain()[0]);
    assert_ne!(shown(&new), shown(&old));
    for tls in [&mut old, &mut new] {
        assert_eq!(ask(tls, NAMESPACES, "").await.0, 200);
    }
    drop((old, new));
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_front_proxy_says_who_asks_and_nobody_else_does() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::machine();
    let proxy = FrontProxy::open_or_create(directory.path(), env.now_seconds()).unwrap();
    let names = RequestHeaderNames::usual(FrontProxy::CLIENT_NAME);
    let headers = Arc::new(RequestHeaders::new(proxy.ca_pem().as_bytes(), names).unwrap());
    let mut cluster = TestCluster::with(env, |config| config.cluster.request_headers = Some(headers)).await;
    let served = cluster.serve().await.unwrap();
    let jane = "X-Remote-User: jane\r\nX-Remote-Group: system:masters\r\n";
    let mut tls = connect(&served, Some(proxy.client())).await;
    assert_eq!(ask(&mut tls, NAMESPACES, jane).await.0, 200);
    let (code, body) = ask(&mut tls, NAMESPACES, "X-Remote-User: jane\r\n").await;
    assert!(code == 403 && body.contains("User \\\"jane\\\" cannot list"), "{code} {body}");
    assert_eq!(ask(&mut tls, NAMESPACES, "").await.0, 401, "the proxy itself is nobody");
    let mut tls = connect(&served, None).await;
    let (code, body) = ask(&mut tls, NAMESPACES, jane).await;
    assert!(code == 403 && body.contains("system:anonymous"), "{code} {body}");
    let hour = HOUR;
    let client =
        served.pki.issue_client("front-proxy-client", &[], hour, cluster.env().now_seconds()).unwrap();
    let mut tls = connect(&served, Some(&client)).await;
    let (code, body) = ask(&mut tls, NAMESPACES, jane).await;
    assert!(
        code == 403 && body.contains("front-proxy-client"),
        "a certificate of the cluster's CA: {code} {body}"
    );
    cluster.shutdown().await;
}

#[tokio::test]
async fn replaced_cas_count_for_connections_that_are_open_too_and_others_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::machine();
    let now = env.now_seconds();
    let folder = |name: &str| {
        let folder = directory.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    };
    let [proxy, next_proxy] =
        ["proxy", "next"].map(|name| FrontProxy::open_or_create(&folder(name), now).unwrap());
    let names = RequestHeaderNames::usual(FrontProxy::CLIENT_NAME);
    let headers = Arc::new(RequestHeaders::new(proxy.ca_pem().as_bytes(), names).unwrap());
    let proxies = headers.authority().clone();
    let other = Pki::open_or_create(&folder("other"), now, &[]).unwrap();
    let clients = Arc::new(other.ca_bundle());
    let published = clients.clone();
    let mut cluster = TestCluster::with(env, |config| {
        config.cluster.request_headers = Some(headers);
        config.cluster.client_ca = Some(published);
    })
    .await;
    let served = cluster.serve().await.unwrap();
    let admin = served.pki.admin().clone();
    let theirs = other.issue_client("jane", &[groups::MASTERS.to_owned()], HOUR, now).unwrap();
    let jane = "X-Remote-User: jane\r\nX-Remote-Group: system:masters\r\n";

    let mut open = connect(&served, Some(&admin)).await;
    let mut refused = connect(&served, Some(&theirs)).await;
    let mut proxied = connect(&served, Some(proxy.client())).await;
    assert_eq!(ask(&mut open, NAMESPACES, "").await.0, 200);
    assert_eq!(ask(&mut refused, NAMESPACES, "").await.0, 401);
    assert_eq!(ask(&mut proxied, NAMESPACES, jane).await.0, 200);

    served.client_ca.swap_pem(other.ca_pem().as_bytes()).unwrap();
    proxies.swap_pem(next_proxy.ca_pem().as_bytes()).unwrap();
    assert_eq!(ask(&mut open, NAMESPACES, "").await.0, 401);
    assert_eq!(ask(&mut refused, NAMESPACES, "").await.0, 200);
    assert_eq!(ask(&mut proxied, NAMESPACES, jane).await.0, 401);
    for (identity, more, code) in
        [(&admin, "", 401), (&theirs, "", 200), (proxy.client(), jane, 401), (next_proxy.client(), jane, 200)]
    {
        let mut new = connect(&served, Some(identity)).await;
        assert_eq!(ask(&mut new, NAMESPACES, more).await.0, code);
    }

    // What cannot be used leaves everything as it is.
    assert!(served.client_ca.swap_pem(b"no certificate").is_err());
    assert_eq!(ask(&mut refused, NAMESPACES, "").await.0, 200);

    // Other servers learn whom to believe, and still believe those they knew.
    clients.swap_pem(served.pki.ca_pem().as_bytes()).unwrap();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let told = || async {
        let data = cluster.get(path).await.json()["data"].clone();
        let has = |key: &str, pem: &str| data[key].as_str().is_some_and(|bundle| bundle.contains(pem));
        has("client-ca-file", other.ca_pem())
            && has("client-ca-file", served.pki.ca_pem())
            && has("requestheader-client-ca-file", next_proxy.ca_pem())
    };
    let begun = cluster.env().monotonic();
    while !told().await {
        assert!(cluster.env().monotonic() - begun < std::time::Duration::from_secs(30), "they are not told");
        cluster.env().sleep(std::time::Duration::from_millis(5)).await;
    }
    drop((open, refused, proxied));
    cluster.shutdown().await;
}
