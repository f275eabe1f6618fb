//! Malformed HTTP/1 requests, byte by byte: answered like Go's server, and the connection is closed.

use apiserver::{Caller, serve_stream};
use std::sync::Arc;
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// All that is answered until the server ends the connection, or is silent.
async fn said(cluster: &TestCluster, bytes: &[u8]) -> String {
    let (mut near, far) = tokio::io::duplex(64 << 10);
    let (api, admin) = (cluster.api().clone(), Arc::new(testkit::admin().authenticated()));
    let caller = move |_| Caller::Known(admin.clone());
    let task = cluster.env().spawn("connection", async move { serve_stream(api, far, false, caller).await });
    let mut out = Vec::new();
    // Who is refused early is not read to the end.
    let _ = near.write_all(bytes).await;
    let silent = std::time::Duration::from_secs(20);
    let _ = cluster.env().timeout(silent, near.read_to_end(&mut out)).await;
    drop(near);
    let _ = task.await;
    String::from_utf8_lossy(&out).into_owned()
}

const REFUSAL: &str = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn malformed_requests_get_the_errors_of_gos_server() {
    let cluster = TestCluster::simulated(921).await;
    let version = "505 HTTP Version Not Supported: unsupported protocol version";
    let name = "400 Bad Request: invalid header name";
    let plain = "400 Bad Request";
    for (request, words) in [
        ("GET /version HTTP/9.9\r\nHost: x\r\n\r\n", version),
        ("GET /version HTTP/2.0\r\nHost: x\r\n\r\n", version),
        ("GET /version HTTP/0.9\r\nHost: x\r\n\r\n", version),
        ("GET /version HTTP/1.10\r\nHost: x\r\n\r\n", plain),
        ("GET /version http/1.1\r\nHost: x\r\n\r\n", plain),
        ("GET /version\r\nHost: x\r\n\r\n", plain),
        ("garbage\r\n\r\n", plain),
        ("\r\nGET /version HTTP/1.1\r\nHost: x\r\n\r\n", plain),
        ("GET /version HTTP/1.1 x\r\nHost: x\r\n\r\n", plain),
        ("G(T /version HTTP/1.1\r\nHost: x\r\n\r\n", plain),
        ("GET /version HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n", name),
        ("GET /version HTTP/1.1\r\nHost: x\r\nabc : d\r\n\r\n", name),
        ("GET /version HTTP/1.1\r\nHost: x\r\nA(: c\r\n\r\n", plain),
        ("GET /version HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n", plain),
        ("GET /version HTTP/1.1\r\nHost: x\r\nA: b\u{1}c\r\n\r\n", plain),
        ("POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", plain),
    ] {
        assert_eq!(
            said(&cluster, request.as_bytes()).await,
            format!("HTTP/1.1 {words}{REFUSAL}{words}"),
            "{request:?}"
        );
    }
    let coding = "POST /version HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: foo\r\n\r\n";
    let words = format!("HTTP/1.1 501 Not Implemented{REFUSAL}Unsupported transfer encoding");
    assert_eq!(said(&cluster, coding.as_bytes()).await, words);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_gos_server_refuses_are_refused() {
    let cluster = TestCluster::simulated(922).await;
    let missing =
        ("400 Bad Request: missing required Host header", "400 Bad Request: missing required Host header");
    let host = ("400 Bad Request: malformed Host header", "400 Bad Request: malformed Host header");
    let plain = ("400 Bad Request", "400 Bad Request");
    let coding = ("501 Not Implemented", "Unsupported transfer encoding");
    for (request, (line, body)) in [
        ("GET /version HTTP/1.1\r\n\r\n", missing),
        ("GET /version HTTP/1.1\r\nHost: a/b\r\n\r\n", host),
        ("GET /version HTTP/1.1\r\nHost: a b\r\n\r\n", host),
        ("GET /version HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", plain),
        ("GET version HTTP/1.1\r\nHost: x\r\n\r\n", plain),
        ("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", plain),
        ("POST /version HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", coding),
        (
            "POST /version HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            coding,
        ),
        (
            "POST /version HTTP/1.1\r\nHost: x\r\nExpect: foo\r\nContent-Length: 0\r\n\r\n",
            ("417 Expectation Failed", ""),
        ),
    ] {
        let said = said(&cluster, request.as_bytes()).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {line}\r\n")), "{request:?}: {said}");
        assert!(said.ends_with(&format!("\r\n\r\n{body}")), "{request:?}: {said}");
        assert!(said.contains("connection: close\r\n"), "{request:?}: {said}");
    }
    let large = format!("GET /version HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "x".repeat(1_100_000));
    let said_of_it = said(&cluster, large.as_bytes()).await;
    assert!(said_of_it.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{said_of_it}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_gos_server_accepts_are_served() {
    let cluster = TestCluster::simulated(923).await;
    for (request, line) in [
        ("GET /version HTTP/1.2\r\nHost: x\r\nConnection: close\r\n\r\n", "200 OK"),
        ("GET /version HTTP/1.9\r\nHost: x\r\nConnection: close\r\n\r\n", "200 OK"),
        ("GET /version HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", "200 OK"),
        ("GET /version?a=%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200 OK"),
        ("OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200 OK"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404 Not Found"),
    ] {
        let said = said(&cluster, request.as_bytes()).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {line}\r\n")), "{request:?}: {said}");
    }
    // Two requests on one connection, and words for the third.
    let one = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let (mut near, far) = tokio::io::duplex(64 << 10);
    let api = cluster.api().clone();
    cluster
        .env()
        .spawn("connection", async move { serve_stream(api, far, false, |_| Caller::Unknown).await });
    for _ in 0..2 {
        near.write_all(one.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"ok") {
            assert_ne!(near.read_buf(&mut answer).await.unwrap(), 0);
        }
    }
    near.write_all(b"GET /livez HTTP/7.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 505 HTTP Version Not Supported: unsupported protocol version\r\n"),
        "{answer}"
    );

    let chunks = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                  Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n";
    let said = said(&cluster, chunks.as_bytes()).await;
    assert!(said.contains("\"message\":\"invalid byte in chunk length\""), "{said}");
    cluster.shutdown().await;
}
