//! Responses that clients do not read: dropped after a minute, with everything they hold.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::{Caller, serve_stream};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use testkit::TestCluster;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::task::JoinHandle;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// A minute, and as long as the server may be late to look.
const LONG: Duration = Duration::from_secs(100);

/// More than any window or buffer on the way takes in.
async fn with_large_maps(cluster: &TestCluster) {
    for i in 0..20 {
        let map = json!({"metadata": {"name": format!("large-{i}")}, "data": {"text": "x".repeat(200_000)}});
        cluster.post(MAPS, map).await.ok(201);
    }
}

fn open(cluster: &TestCluster, http2: bool) -> (DuplexStream, JoinHandle<Result<(), String>>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (api, known) = (cluster.api().clone(), Arc::new(testkit::admin().authenticated()));
    let served = cluster.env().spawn("connection", async move {
        serve_stream(api, far, http2, move |_| Caller::Known(known.clone())).await
    });
    (near, served)
}

/// Reading requests under way, as the server counts them.
async fn reading(cluster: &TestCluster) -> u64 {
    // Its gauge tells the most of the last second.
    cluster.env().sleep(Duration::from_secs(2)).await;
    let metrics = cluster.get("/metrics").await.text();
    let name = "apiserver_current_inflight_requests{request_kind=\"readOnly\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.expect("the family is there").parse().expect("it is a number")
}

async fn get(client: &mut SendRequest<Empty<Bytes>>, path: &str) -> Incoming {
    let request = hyper::Request::get(format!("http://x{path}")).body(Empty::new()).unwrap();
    let answer = client.send_request(request).await.expect("the connection goes on");
    assert_eq!(answer.status(), 200, "{path}");
    answer.into_body()
}

#[tokio::test(start_paused = true)]
async fn over_http2_the_answer_ends_and_the_connection_goes_on() {
    let cluster = TestCluster::simulated(41).await;
    with_large_maps(&cluster).await;
    let idle = reading(&cluster).await;
    let (near, _served) = open(&cluster, true);
    let (mut client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16 << 10)
        .initial_connection_window_size(1 << 20)
        .handshake(TokioIo::new(near))
        .await
        .expect("it is HTTP/2");
    cluster.env().spawn("client", async move {
        let _ = connection.await;
    });

    let list = get(&mut client, MAPS).await;
    let watch = get(&mut client, &format!("{MAPS}?watch=1")).await;
    assert_eq!(
        reading(&cluster).await,
        idle + 2,
        "a list has a place to its last byte, a watch while it begins"
    );
    cluster.env().sleep(LONG).await;
    assert_eq!(reading(&cluster).await, idle, "its place is free again");
    for body in [list, watch] {
        body.collect().await.expect_err("the rest is gone");
    }

    // One that is fetched slowly is not let go.
    let mut slow = get(&mut client, &format!("{MAPS}?limit=2")).await;
    let mut taken = 0;
    while let Some(frame) = slow.frame().await {
        taken += frame.expect("it goes on").into_data().map_or(0, |data| data.len());
        cluster.env().sleep(Duration::from_secs(2)).await;
    }
    assert!(taken > 400_000, "{taken}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn over_http1_the_connection_ends_with_it() {
    let cluster = TestCluster::simulated(42).await;
    with_large_maps(&cluster).await;
    for path in [MAPS.to_owned(), format!("{MAPS}?watch=1")] {
        let (mut near, served) = open(&cluster, false);
        near.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut start = [0; 100];
        near.read_exact(&mut start).await.unwrap();
        assert!(start.starts_with(b"HTTP/1.1 200 OK"));
        cluster.env().timeout(LONG, served).await.expect("the server ends it").unwrap().ok();
    }
    // A watch that has nothing to say is waited for.
    let (mut near, served) = open(&cluster, false);
    let quiet = "/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=600";
    near.write_all(format!("GET {quiet} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    assert!(cluster.env().timeout(Duration::from_secs(300), served).await.is_err(), "it goes on");
    cluster.shutdown().await;
}

/// A client that sends, and reads nothing.
struct Deaf(DuplexStream);

impl AsyncRead for Deaf {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Deaf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

// Virtual time passes only while nobody is busy: a server that asked again and again whether it may send would never let it.
#[tokio::test(start_paused = true)]
async fn many_answers_that_nobody_reads_keep_nobody_busy_and_end_with_their_connection() {
    let cluster = TestCluster::simulated(43).await;
    with_large_maps(&cluster).await;
    let idle = reading(&cluster).await;
    let (near, served) = open(&cluster, true);
    let (mut client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(512 << 20)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(Deaf(near)))
        .await
        .expect("it is HTTP/2");
    cluster.env().spawn("client", connection);
    let mut asked = Vec::new();
    for at in 0..12 {
        let path = if at % 3 == 0 { format!("{MAPS}?watch=1") } else { MAPS.to_owned() };
        let request = hyper::Request::get(format!("http://x{path}")).body(Empty::new()).unwrap();
        client.ready().await.expect("it takes requests");
        asked.push(cluster.env().spawn("asked", client.send_request(request)));
    }
    assert!(reading(&cluster).await > idle);
    // Others are served meanwhile.
    cluster.get(MAPS).await.ok(200);
    cluster.env().timeout(LONG, served).await.expect("the server ends it").unwrap().ok();
    assert_eq!(reading(&cluster).await, idle);
    cluster.shutdown().await;
}
