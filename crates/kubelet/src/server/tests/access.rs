//! Who may ask what, and what everybody is told.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ALLOW, AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;

use super::fixture::{Fixture, USER, parse, text};
use crate::config::Config;
use crate::server::ClientCas;
use crate::server::authenticate::{Authenticator, Certificate, PeerCertificate};

fn bearer(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    HeaderMap::from_iter([(AUTHORIZATION, value)])
}

#[tokio::test]
async fn without_credentials_only_unknown_paths_are_answered() {
    let fixture = Fixture::start().await;
    let get =
        async |target: &str| text(fixture.send(None, Method::GET, target, HeaderMap::new()).await).await;
    assert_eq!(get("/healthz").await, (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()));
    assert_eq!(get("/pods").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(get("/exec/a").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(get("/nothing").await, (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()));
    assert!(fixture.reviews.asked.lock().is_empty());
    let wrong = fixture.send(None, Method::GET, "/pods", bearer("wrong")).await;
    assert_eq!(text(wrong).await, (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()));
}

#[tokio::test]
async fn tokens_and_decisions_are_asked_for_once() {
    let fixture = Fixture::start().await;
    fixture.reviews.allowed.lock().push(("jane".to_owned(), "metrics".to_owned()));
    for _ in 0..2 {
        let metrics = fixture.send(None, Method::GET, "/metrics", bearer("good")).await;
        assert_eq!(metrics.status(), StatusCode::OK);
    }
    let asked = fixture.reviews.asked.lock().clone();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let spec = codec::json::to_vec(asked[1].get("spec").unwrap());
    assert_eq!(
        String::from_utf8(spec).unwrap(),
        r#"{"resourceAttributes":{"verb":"get","version":"v1","resource":"nodes","subresource":"metrics","name":"n1"},"user":"jane","groups":["ops","system:authenticated"],"extra":{"scope":["a"]},"uid":"7"}"#
    );
}

#[tokio::test]
async fn the_narrow_subresource_is_enough_and_proxy_still_is() {
    let fixture = Fixture::start().await;
    fixture
        .reviews
        .allowed
        .lock()
        .extend([("narrow".to_owned(), "pods".to_owned()), ("broad".to_owned(), "proxy".to_owned())]);
    let get = async |user: &str, target: &str| {
        text(fixture.send(Some(user), Method::GET, target, HeaderMap::new()).await).await
    };
    assert_eq!(get("narrow", "/pods").await.0, StatusCode::OK);
    assert_eq!(get("broad", "/pods").await.0, StatusCode::OK);
    let refusal = "Forbidden (user=narrow, verb=get, resource=nodes, subresource(s)=[configz proxy])\n";
    assert_eq!(get("narrow", "/configz").await, (StatusCode::FORBIDDEN, refusal.to_owned()));
    let refusal = "Forbidden (user=broad, verb=get, resource=nodes, subresource(s)=[stats])\n";
    assert_eq!(get("broad", "/stats/summary").await, (StatusCode::FORBIDDEN, refusal.to_owned()));
}

#[tokio::test]
async fn reviews_that_fail_are_an_error() {
    let fixture = Fixture::start().await;
    *fixture.reviews.failing.lock() = true;
    let message = format!("Authorization error (user={USER}, verb=get, resource=nodes, subresource=healthz)");
    assert_eq!(fixture.get("/healthz").await, (StatusCode::INTERNAL_SERVER_ERROR, message));
}

#[tokio::test]
async fn certificates_of_others_are_refused() {
    let (fixture, other) = (Fixture::start().await, Fixture::start().await);
    // A client of another cluster, which trusts this one's server.
    let identity = other.pki.issue_client(USER, &[], 3600, other.env.now_seconds()).unwrap();
    let peer = PeerCertificate::new(Some(&identity.chain()));
    let authenticator = authenticator(&fixture);
    assert!(matches!(authenticator.certificate(&peer), Certificate::Invalid));
    assert!(authenticator.authenticate(&peer, &mut HeaderMap::new()).await.is_none());
    assert!(authenticator.authenticate(&peer, &mut bearer("good")).await.is_some(), "a token is enough");
}

fn authenticator(fixture: &Fixture) -> Authenticator {
    let settings = Config::new("n1", "/".into()).authentication;
    Authenticator::new(&fixture.env, fixture.reviews.clone(), fixture.client_cas.clone(), settings)
}

#[tokio::test]
async fn who_shows_nothing_is_anonymous_where_the_configuration_says_so() {
    let fixture = Fixture::with_config("authentication: {anonymous: {enabled: true}}").await;
    let get = async |target: &str, headers: HeaderMap| {
        text(fixture.send(None, Method::GET, target, headers).await).await
    };
    fixture.reviews.allowed.lock().push(("system:anonymous".to_owned(), "healthz".to_owned()));
    assert_eq!(get("/healthz", HeaderMap::new()).await.0, StatusCode::OK);
    let refusal =
        "Forbidden (user=system:anonymous, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    assert_eq!(get("/pods", HeaderMap::new()).await, (StatusCode::FORBIDDEN, refusal.to_owned()));
    let asked = fixture.reviews.asked.lock()[0].clone();
    assert_eq!(asked.at(&["spec", "groups"]), Some(&parse(r#"["system:unauthenticated"]"#)));
    assert_eq!(get("/healthz", bearer("wrong")).await.0, StatusCode::UNAUTHORIZED, "credentials are no none");
}

#[tokio::test]
async fn tokens_are_not_looked_at_without_the_webhook() {
    let fixture = Fixture::with_config("authentication: {webhook: {enabled: false}}").await;
    let refused = fixture.send(None, Method::GET, "/metrics", bearer("good")).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(fixture.reviews.asked.lock().is_empty());
    assert_eq!(fixture.get("/metrics").await.0, StatusCode::OK, "certificates are");
}

#[tokio::test]
async fn everybody_who_is_let_in_may_everything_where_the_configuration_says_so() {
    let fixture = Fixture::with_config("authorization: {mode: AlwaysAllow}").await;
    let get = async |user: Option<&str>| {
        fixture.send(user, Method::GET, "/configz", HeaderMap::new()).await.status()
    };
    assert_eq!(get(Some("somebody")).await, StatusCode::OK);
    assert_eq!(get(None).await, StatusCode::UNAUTHORIZED);
    assert!(fixture.reviews.asked.lock().is_empty());
}

#[tokio::test]
async fn reviews_count_for_as_long_as_the_configuration_says() {
    let fixture = Fixture::with_config(
        "authentication: {webhook: {cacheTTL: 1ns}}\n\
         authorization: {webhook: {cacheAuthorizedTTL: 1ns, cacheUnauthorizedTTL: 1h}}",
    )
    .await;
    fixture.reviews.allowed.lock().push(("jane".to_owned(), "metrics".to_owned()));
    let asked = async |target: &str| {
        let before = fixture.reviews.asked.lock().len();
        fixture.send(None, Method::GET, target, bearer("good")).await;
        fixture.reviews.asked.lock().len() - before
    };
    assert_eq!((asked("/metrics").await, asked("/metrics").await), (2, 2));
    assert_eq!((asked("/logs/").await, asked("/logs/").await), (2, 1), "the refusal is kept");
}

#[tokio::test]
async fn a_token_that_could_not_be_reviewed_is_reviewed_again() {
    let fixture = Fixture::start().await;
    let asked = async |token: &str| {
        let before = fixture.reviews.asked.lock().len();
        let answer = fixture.send(None, Method::GET, "/metrics", bearer(token)).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
        fixture.reviews.asked.lock().len() - before
    };
    assert_eq!((asked("failing").await, asked("failing").await), (1, 1));
    assert_eq!((asked("unknown").await, asked("unknown").await), (1, 0), "a plain refusal is kept");
}

#[tokio::test]
async fn a_client_ca_file_counts_instead_of_the_clusters_and_is_read_again() {
    let fixture = Fixture::with_config("authentication: {x509: {clientCAFile: $DIR/clients.crt}}").await;
    let other = Fixture::start().await;
    assert_eq!(fixture.get("/healthz").await.0, StatusCode::OK);
    let authenticator = authenticator(&fixture);
    let held = |of: &Fixture| {
        let identity = of.pki.issue_client(USER, &[], 3600, of.env.now_seconds()).unwrap();
        PeerCertificate::new(Some(&identity.chain()))
    };
    let (ours, theirs) = (held(&fixture), held(&other));
    let valid = |peer: &PeerCertificate| matches!(authenticator.certificate(peer), Certificate::Valid { .. });
    let write = |content: &str| {
        std::fs::write(fixture.directory.path().join("clients.crt"), content).unwrap();
        fixture.client_cas.reload();
    };
    assert_eq!((valid(&ours), valid(&theirs)), (true, false));
    write("nothing");
    assert_eq!((valid(&ours), valid(&theirs)), (true, false), "what cannot be used changes nothing");
    write(other.pki.ca_pem());
    assert_eq!((valid(&ours), valid(&theirs)), (false, true), "of connections that are open, too");
    assert_eq!(fixture.get("/healthz").await.0, StatusCode::UNAUTHORIZED);
    let missing = ClientCas::open(Some("/no/such/file".as_ref()), Arc::new(fixture.pki.ca_bundle()));
    let told = missing.err().unwrap().to_string();
    assert!(told.starts_with("unable to load client CA file /no/such/file: "), "{told}");
}

#[tokio::test]
async fn paths_and_methods_are_answered_as_kubelet_does() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.get("/exec/a").await, (StatusCode::NOT_FOUND, "404: Page Not Found".to_owned()));
    let post = fixture.send(Some(USER), Method::POST, "/pods", HeaderMap::new()).await;
    assert_eq!(post.headers()[ALLOW], "GET");
    assert_eq!(text(post).await, (StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed".to_owned()));
    let off = fixture.get("/debug/pprof/heap").await;
    assert_eq!(off, (StatusCode::METHOD_NOT_ALLOWED, "profiling endpoint is disabled.\n".to_owned()));
    assert_eq!(fixture.get("/runningpods").await.0, StatusCode::MOVED_PERMANENTLY);
    let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html"))]);
    let html = fixture.send(Some(USER), Method::GET, "/pods", accept).await;
    assert_eq!(html.status(), StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn a_checkpoint_is_asked_of_the_runtime() {
    let fixture = Fixture::start().await;
    let checkpoint = async |user: &str, target: &str| {
        text(fixture.send(Some(user), Method::POST, target, HeaderMap::new()).await).await
    };
    let web = "/checkpoint/default/web/app";
    let why = "rpc error: code = Unimplemented desc = method CheckpointContainer not implemented";
    let message = format!("checkpointing of default/web/app failed ({why})");
    assert_eq!(checkpoint(USER, web).await, (StatusCode::INTERNAL_SERVER_ERROR, message));
    let missing = |message: &str| (StatusCode::NOT_FOUND, message.to_owned());
    assert_eq!(checkpoint(USER, "/checkpoint/default/no/app").await, missing("pod does not exist"));
    assert_eq!(
        checkpoint(USER, "/checkpoint/default/web/none").await,
        missing("container none does not exist")
    );
    let odd = format!("{web}?timeout=5&timeout=soon");
    assert_eq!(checkpoint(USER, &odd).await, missing("cannot parse value of timeout parameter"));
    let failed = |why: &str| (StatusCode::INTERNAL_SERVER_ERROR, why.to_owned());
    assert_eq!(
        checkpoint(USER, &format!("{web}?timeout=-1")).await,
        failed(
            "checkpointing of default/web/app failed (CheckpointContainer requires the timeout value to be > 0)"
        )
    );
    // In the spec, and not running.
    assert_eq!(
        checkpoint(USER, "/checkpoint/default/web/later").await,
        failed("checkpointing of default/web/later failed (container later not found)")
    );
    *fixture.host.checkpoints.lock() = Some(Vec::new());
    let (status, written) = checkpoint(USER, &format!("{web}?timeout=x&timeout=7")).await;
    assert_eq!(status, StatusCode::OK);
    let asked = fixture.host.checkpoints.lock().clone().unwrap();
    let [request] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((request.container_id.as_str(), request.timeout), ("c1", 7));
    let begin = fixture.directory.path().join("checkpoints/checkpoint-web_default-app-2");
    assert!(request.location.starts_with(begin.to_str().unwrap()) && request.location.ends_with("Z.tar"));
    assert_eq!(written, format!("{{\"items\":[\"{}\"]}}", request.location));
    // Nobody may by nodes/proxy alone.
    fixture.reviews.allowed.lock().push(("broad".to_owned(), "proxy".to_owned()));
    let refusal = "Forbidden (user=broad, verb=create, resource=nodes, subresource(s)=[checkpoint])\n";
    assert_eq!(checkpoint("broad", web).await, (StatusCode::FORBIDDEN, refusal.to_owned()));
}

#[tokio::test]
async fn flags_are_told() {
    let fixture = Fixture::start().await;
    let (status, page) = fixture.get("/flagz").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.starts_with("\nkubelet flagz\nWarning: "), "{page}");
    assert!(page.ends_with("purposes only.\ndata-dir=/d\ntoken=CLASSIFIED\n"), "{page}");
    for (version, warns) in [("v1beta1", false), ("v1alpha1", true)] {
        let accept = format!("application/json;as=Flagz;g=config.k8s.io;v={version}");
        let accept = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
        let response = fixture.send(Some(USER), Method::GET, "/flagz", accept).await;
        assert_eq!(response.headers().contains_key("warning"), warns);
        let expected = format!(
            r#"{{"kind":"Flagz","apiVersion":"config.k8s.io/{version}","metadata":{{"name":"kubelet"}},"flags":{{"data-dir":"/d","token":"CLASSIFIED"}}}}"#
        );
        assert_eq!(text(response).await.1, expected);
    }
    // By the permission to read the configuration, and no other.
    fixture.reviews.allowed.lock().push(("reader".to_owned(), "configz".to_owned()));
    let read = fixture.send(Some("reader"), Method::GET, "/flagz", HeaderMap::new()).await;
    assert_eq!(read.status(), StatusCode::OK);
}

#[tokio::test]
async fn log_files_of_the_machine_are_shown() {
    let fixture = Fixture::start().await;
    let logs = fixture.directory.path().join("system");
    std::fs::create_dir_all(logs.join("apt")).unwrap();
    let long = "a line\n".repeat(50_000);
    std::fs::write(logs.join("apt/history.log"), &long).unwrap();
    let page = fixture.get("/logs/").await;
    assert!(page.0 == StatusCode::OK && page.1.contains("<a href=\"apt/\">apt/</a>\n"), "{page:?}");
    let moved = fixture.send(Some(USER), Method::GET, "/logs/apt", HeaderMap::new()).await;
    assert_eq!(
        (moved.status(), &moved.headers()["location"]),
        (StatusCode::MOVED_PERMANENTLY, &"apt/".parse().unwrap())
    );
    assert_eq!(fixture.get("/logs/apt/history.log").await, (StatusCode::OK, long));
    assert_eq!(fixture.get("/logs/none").await, (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()));
    let refusal = "Forbidden (user=other, verb=get, resource=nodes, subresource(s)=[log])\n";
    let refused = fixture.send(Some("other"), Method::GET, "/logs/none", HeaderMap::new()).await;
    assert_eq!(text(refused).await, (StatusCode::FORBIDDEN, refusal.to_owned()));
}

#[tokio::test]
async fn pods_and_configuration_are_told() {
    let fixture = Fixture::start().await;
    let (status, pods) = fixture.get("/pods").await;
    assert_eq!(status, StatusCode::OK);
    let start = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web""#;
    assert!(pods.starts_with(start), "{pods}");
    let (_, running) = fixture.get("/runningpods/").await;
    assert_eq!(
        running,
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"web","namespace":"default","uid":"u1","creationTimestamp":null},"spec":{"containers":[{"name":"app","image":"busybox","resources":{}}]},"status":{}}]}"#
    );
    let (_, config) = fixture.get("/configz").await;
    assert_eq!(config, r#"{"kubeletconfig":{"kind":"KubeletConfiguration","maxPods":110}}"#);
}

#[tokio::test]
async fn health_tells_of_the_sync_loop() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.get("/healthz").await, (StatusCode::OK, "ok".to_owned()));
    let verbose = "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n";
    assert_eq!(fixture.get("/healthz?verbose").await, (StatusCode::OK, verbose.to_owned()));
    *fixture.node.stuck.lock() = Some("sync Loop took longer than expected".to_owned());
    let failed = "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n";
    assert_eq!(fixture.get("/healthz").await, (StatusCode::INTERNAL_SERVER_ERROR, failed.to_owned()));
    let why = "internal server error: sync Loop took longer than expected\n";
    assert_eq!(fixture.get("/healthz/syncloop").await, (StatusCode::INTERNAL_SERVER_ERROR, why.to_owned()));
    assert_eq!(fixture.get("/healthz?exclude=syncloop").await.1, "ok");
}

#[tokio::test]
async fn http2_is_spoken() {
    let fixture = Fixture::start().await;
    let tls = fixture.connect(Some(USER), b"h2").await;
    let handshake =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), TokioIo::new(tls));
    let (mut sender, connection) = handshake.await.unwrap();
    fixture.env.spawn("test-connection", async move {
        let _ = connection.await;
    });
    let request = http::Request::get("https://127.0.0.1/healthz").body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
}

#[tokio::test]
async fn handshakes_are_limited_to_what_the_configuration_says() {
    use rustls::version::{TLS12, TLS13};
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let fixture =
        Fixture::with_config(&format!("tlsCipherSuites: [{suite}]\ntlsCurvePreferences: [24]")).await;
    let tls = fixture.try_connect(None, b"h2", &[&TLS12]).await.unwrap();
    let session = tls.get_ref().1;
    let agreed = session.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(agreed.as_str(), Some(suite), "not what the client would choose");
    assert_eq!(session.negotiated_key_exchange_group().unwrap().name(), rustls::NamedGroup::secp384r1);
    let modern = Fixture::with_config("tlsMinVersion: VersionTLS13").await;
    assert!(modern.try_connect(None, b"h2", &[&TLS12]).await.is_err());
    assert!(modern.try_connect(None, b"h2", &[&TLS13]).await.is_ok());
}

#[tokio::test]
async fn a_renewed_certificate_serves_new_connections() {
    let fixture = Fixture::start().await;
    let served = |tls: &tokio_rustls::client::TlsStream<tokio::net::TcpStream>| {
        tls.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let before = served(&fixture.connect(None, b"http/1.1").await);
    let other = tempfile::TempDir::new().unwrap();
    // The same CA, another certificate.
    for file in ["ca.crt", "ca.key"] {
        std::fs::copy(fixture.directory.path().join("pki").join(file), other.path().join(file)).unwrap();
    }
    let names = ["127.0.0.1".to_owned()];
    let renewed = auth::Pki::open_or_create(other.path(), fixture.env.now_seconds(), &names).unwrap();
    fixture.certificate.swap(renewed.serving()).unwrap();
    let after = served(&fixture.connect(None, b"http/1.1").await);
    assert_ne!(before, after);
}

#[tokio::test]
async fn a_stop_ends_idle_connections() {
    let fixture = Fixture::start().await;
    let tls = fixture.connect(Some(USER), b"http/1.1").await;
    let (_sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<bytes::Bytes>>(TokioIo::new(tls)).await.unwrap();
    let ended = fixture.env.spawn("test-connection", async move { connection.await.is_ok() });
    fixture.stopper.stop();
    fixture.env.timeout(Duration::from_secs(10), fixture.server.join()).await.unwrap();
    fixture.env.timeout(Duration::from_secs(10), ended).await.unwrap().unwrap();
}
