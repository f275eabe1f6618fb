use super::super::testing::{Server, response};
use super::*;

const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

fn action(port: u16, path: &str, headers: &[(&str, &str)]) -> HttpGet {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    HttpGet { https: false, host: None, port: Ok(port), path: path.to_owned(), headers }
}

fn request(get: &HttpGet) -> Request {
    Request::new(get, Some("127.0.0.1"), "probe").unwrap()
}

/// What a server sees of a probe with these headers, one header a line.
async fn seen(headers: &[(&str, &str)]) -> Vec<String> {
    let env = Env::machine();
    let server = Server::start(&env, |head| response(200, "", head)).await;
    let answer =
        Client::new(&env).get(&request(&action(server.port, "/x?y=1", headers)), LIMIT).await.unwrap();
    let head = String::from_utf8(answer.body.unwrap()).unwrap();
    let port = server.port.to_string();
    let mut lines: Vec<_> = head.trim_end().lines().map(|line| line.replace(&port, "PORT")).collect();
    lines[1..].sort();
    lines
}

#[tokio::test]
async fn requests_look_like_kubelets() {
    assert_eq!(
        seen(&[]).await,
        [
            "GET /x?y=1 HTTP/1.1",
            "Accept: */*",
            "Connection: close",
            "Host: 127.0.0.1:PORT",
            "User-Agent: kube-probe/1.36"
        ]
    );
    assert_eq!(
        seen(&[
            ("x-muffins", "a"),
            ("X-Muffins", "b"),
            ("HOST", "muffins.org"),
            ("accept", ""),
            ("User-Agent", "")
        ])
        .await,
        ["GET /x?y=1 HTTP/1.1", "Connection: close", "Host: muffins.org", "X-Muffins: a", "X-Muffins: b"]
    );
    assert_eq!(seen(&[("Accept", "text/html"), ("User-Agent", "foo/1.0")]).await[1], "Accept: text/html");
}

#[tokio::test]
async fn redirects_are_followed_on_the_same_host_only() {
    let env = Env::machine();
    let client = Client::new(&env);
    for status in [301, 302, 303, 307, 308] {
        let server = Server::start(&env, move |head| match head.split(' ').nth(1) {
            Some("/new") => response(200, "", head),
            Some("/out") => response(status, "Location: http://localhost:1/new\r\n", "elsewhere"),
            Some("/bare") => response(status, "", "nowhere"),
            _ => response(status, "Location: new\r\n", ""),
        })
        .await;
        let get = |path: &str| request(&action(server.port, path, &[("Host", "muffins.org")]));
        let answer = client.get(&get("/"), LIMIT).await.unwrap();
        let seen = String::from_utf8(answer.body.unwrap()).unwrap();
        assert_eq!(answer.status, 200);
        assert!(seen.contains("Host: muffins.org\r\n"), "{seen}");
        assert!(seen.contains(&format!("Referer: http://127.0.0.1:{}/\r\n", server.port)), "{seen}");
        let answer = client.get(&get("/out"), LIMIT).await.unwrap();
        assert_eq!((answer.status, answer.body.as_deref()), (status, Ok(b"elsewhere".as_slice())));
        assert_eq!(client.get(&get("/bare"), LIMIT).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn redirects_do_not_go_on_forever() {
    let env = Env::machine();
    let server = Server::start(&env, |_| response(302, "Location: /again\r\n", "")).await;
    let failed = Client::new(&env).get(&request(&action(server.port, "/", &[])), LIMIT).await.unwrap_err();
    assert_eq!(failed, "Get \"/again\": stopped after 10 redirects");
    let server = Server::start(&env, |_| response(302, "Location: ftp://127.0.0.1/x\r\n", "")).await;
    let failed = Client::new(&env).get(&request(&action(server.port, "/", &[])), LIMIT).await.unwrap_err();
    assert_eq!(failed, r#"Get "ftp://127.0.0.1/x": unsupported protocol scheme "ftp""#);
}

/// Recorded from Go 1.26's client.
#[tokio::test]
async fn failures_are_told_in_gos_words() {
    let env = Env::machine();
    let client = Client::new(&env);
    let closed = Server::start(&env, |_| Some(Vec::new())).await;
    let said = |port: u16, why: &str| format!("Get \"http://127.0.0.1:{port}/\": {why}");
    let get = |port: u16| request(&action(port, "/", &[]));
    assert_eq!(client.get(&get(closed.port), LIMIT).await.unwrap_err(), said(closed.port, "EOF"));
    let garbage = Server::start(&env, |_| Some(b"garbage\r\n\r\n".to_vec())).await;
    let failed = client.get(&get(garbage.port), LIMIT).await.unwrap_err();
    assert!(failed.contains("malformed HTTP response"), "{failed}");
    let silent = Server::start(&env, |_| None).await;
    assert_eq!(
        client.get(&get(silent.port), Some(Duration::from_millis(50))).await.unwrap_err(),
        said(silent.port, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
    );
    let port = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    assert_eq!(
        client.get(&get(port), LIMIT).await.unwrap_err(),
        said(port, &format!("dial tcp 127.0.0.1:{port}: connect: connection refused"))
    );
}

#[tokio::test]
async fn bodies_are_read_to_ten_kilobytes_or_not_at_all() {
    let env = Env::machine();
    let client = Client::new(&env);
    let long = "logs-123".repeat(128 * 11);
    let server = Server::start(&env, move |_| response(200, "", &long)).await;
    let answer = client.get(&request(&action(server.port, "/", &[])), LIMIT).await.unwrap();
    assert_eq!(answer.body.unwrap().len(), 10 << 10);
    let cut =
        Server::start(&env, |_| Some(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec())).await;
    let answer = client.get(&request(&action(cut.port, "/", &[])), LIMIT).await.unwrap();
    assert_eq!(answer.body, Err("unexpected EOF".to_owned()));
}

#[tokio::test]
async fn certificates_are_not_looked_at() {
    let env = Env::machine();
    let (client, port) = (Client::new(&env), tls_server(&env).await);
    let get = HttpGet { https: true, ..action(port, "/", &[]) };
    let answer = client.get(&request(&get), LIMIT).await.unwrap();
    assert_eq!((answer.status, answer.body.as_deref()), (200, Ok(b"over TLS".as_slice())));
}

#[tokio::test]
async fn plain_http_where_tls_was_expected_is_named() {
    let env = Env::machine();
    let server = Server::start(&env, |_| response(400, "", "")).await;
    let get = HttpGet { https: true, ..action(server.port, "/", &[]) };
    let failed = Client::new(&env).get(&request(&get), LIMIT).await.unwrap_err();
    assert_eq!(failed, format!("Get \"https://127.0.0.1:{}/\": {PLAIN_ANSWER}", server.port));
}

#[test]
fn headers_that_are_none_are_an_error() {
    let get = action(1, "/", &[("a b", "c")]);
    let failed = Request::new(&get, Some("127.0.0.1"), "probe").err();
    assert_eq!(failed.as_deref(), Some(r#"net/http: invalid header field name "a b""#));
    assert!(Request::new(&action(1, "/", &[]), None, "probe").is_err());
}

/// Serves one answer to every connection, with a certificate nobody knows.
async fn tls_server(env: &Env) -> u16 {
    let directory = tempfile::tempdir().unwrap();
    let pki = auth::Pki::open_or_create(directory.path(), env.now_seconds(), &[]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(pki.serving().chain(), pki.serving().key())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(env.spawn("tls server", async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let tls = acceptor.accept(tcp).await.unwrap();
        super::super::testing::serve(tls, Arc::new(|_: &str| response(200, "", "over TLS"))).await;
    }));
    port
}

#[tokio::test]
async fn a_reset_names_both_ends() {
    let env = Env::machine();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let reset = async {
        let (tcp, peer) = listener.accept().await.unwrap();
        // The request is there.
        tcp.peek(&mut [0]).await.unwrap();
        rustix::net::sockopt::set_socket_linger(&tcp, Some(Duration::ZERO)).unwrap();
        drop(tcp);
        peer
    };
    let client = Client::new(&env);
    let get = request(&action(port, "/", &[]));
    let (failed, peer) = tokio::join!(client.get(&get, LIMIT), reset);
    let said = format!("read tcp {peer}->127.0.0.1:{port}: read: connection reset by peer");
    assert_eq!(failed.unwrap_err(), format!("Get \"http://127.0.0.1:{port}/\": {said}"));
}
