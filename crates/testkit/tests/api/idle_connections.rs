//! Connections that are idle or send an incomplete head: each has a timeout.

use std::time::Duration;

use apiserver::{Caller, serve_stream};
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

const HEADER: Duration = Duration::from_secs(32);
/// Once a header has begun.
const HALF_A_HEADER: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(90);
const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";

fn open(cluster: &TestCluster, http2: bool) -> (DuplexStream, JoinHandle<Result<(), String>>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let api = cluster.api().clone();
    let served = cluster
        .env()
        .spawn("connection", async move { serve_stream(api, far, http2, |_| Caller::Unknown).await });
    (near, served)
}

/// When the server ends it, from now on.
async fn lasts(cluster: &TestCluster, served: JoinHandle<Result<(), String>>) -> Duration {
    let begun = cluster.env().monotonic();
    let _ = cluster.env().timeout(Duration::from_secs(3600), served).await.expect("the server ends it");
    cluster.env().monotonic() - begun
}

/// Reads one answer to its end.
async fn answer(near: &mut DuplexStream) {
    let mut said = Vec::new();
    while !said.ends_with(b"ok") {
        assert_ne!(near.read_buf(&mut said).await.unwrap(), 0, "{}", String::from_utf8_lossy(&said));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_whole_header_ends() {
    let cluster = TestCluster::simulated(1).await;
    for http2 in [false, true] {
        let (_near, served) = open(&cluster, http2);
        let lasted = lasts(&cluster, served).await;
        assert!((HEADER..HEADER + HEADER).contains(&lasted), "{lasted:?} over HTTP/2: {http2}");
    }
    // Half of one is not waited for as long.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let half_of_headers = [PREFACE, b"\0\x40\0\x01\0\0\0\0\x01", &[0x82; 1000]].concat();
    for (http2, said) in [(false, &REQUEST[..20]), (true, &half_of_headers)] {
        let (mut near, served) = open(&cluster, http2);
        near.write_all(said).await.unwrap();
        let lasted = lasts(&cluster, served).await;
        assert!((HALF_A_HEADER..HEADER).contains(&lasted), "{lasted:?} over HTTP/2: {http2}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_for_a_while_after_its_last_answer() {
    let cluster = TestCluster::simulated(1).await;
    let (mut near, served) = open(&cluster, false);
    for _ in 0..5 {
        near.write_all(REQUEST).await.unwrap();
        answer(&mut near).await;
        cluster.env().sleep(IDLE - Duration::from_secs(10)).await;
    }
    let lasted = lasts(&cluster, served).await + IDLE - Duration::from_secs(10);
    assert!((IDLE..IDLE + HEADER).contains(&lasted), "{lasted:?}");

    // Half of the next header does not make it last.
    let (mut near, served) = open(&cluster, false);
    near.write_all(REQUEST).await.unwrap();
    answer(&mut near).await;
    near.write_all(&REQUEST[..20]).await.unwrap();
    let lasted = lasts(&cluster, served).await;
    assert!((HALF_A_HEADER..HEADER).contains(&lasted), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_not_idle() {
    let cluster = TestCluster::simulated(1).await;
    let (near, far) = tokio::io::duplex(64 << 10);
    let api = cluster.api().clone();
    let known = std::sync::Arc::new(testkit::admin().authenticated());
    let served = cluster.env().spawn("connection", async move {
        serve_stream(api, far, false, move |_| Caller::Known(known.clone())).await
    });
    let (mut reader, mut writer) = tokio::io::split(near);
    let path = "/api/v1/namespaces?watch=1&timeoutSeconds=600";
    writer.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    cluster.env().spawn("reader", async move {
        let mut said = Vec::new();
        let _ = reader.read_to_end(&mut said).await;
    });
    let lasted = lasts(&cluster, served).await;
    assert!(lasted > Duration::from_secs(600), "{lasted:?}");
}
