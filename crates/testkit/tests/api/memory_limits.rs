//! Bounds on what clients make the server hold: unread responses, stalled bodies, incomplete heads, control frames. Other clients
//! are not affected.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Caller, serve_stream};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use testkit::TestCluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

type Body = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;
type Served = JoinHandle<Result<(), String>>;

fn open(cluster: &TestCluster, http2: bool) -> (DuplexStream, Served) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (api, known) = (cluster.api().clone(), Arc::new(testkit::admin().authenticated()));
    let served = cluster.env().spawn("connection", async move {
        serve_stream(api, far, http2, move |_| Caller::Known(known.clone())).await
    });
    (near, served)
}

async fn client(cluster: &TestCluster, window: u32) -> SendRequest<Body> {
    let (near, _) = open(cluster, true);
    let (client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .initial_connection_window_size(1 << 20)
        .handshake(TokioIo::new(near))
        .await
        .expect("it is HTTP/2");
    cluster.env().spawn("client", async move {
        let _ = connection.await;
    });
    client
}

async fn get(client: &mut SendRequest<Body>, path: &str, accept: &str) -> Response<Incoming> {
    let request = Request::get(format!("http://x{path}")).header("accept", accept);
    let request = request.body(BodyExt::boxed(Empty::new())).unwrap();
    client.send_request(request).await.expect("the connection goes on")
}

async fn large(cluster: &TestCluster, name: &str, bytes: usize) -> Value {
    let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(bytes)}});
    cluster.post(MAPS, map).await.ok(201)
}

#[tokio::test(start_paused = true)]
async fn unfetched_answers_of_a_connection_are_bounded_and_fetching_them_makes_room() {
    let cluster = TestCluster::simulated(51).await;
    large(&cluster, "large", 1_000_000).await;
    let mut client = client(&cluster, 1000).await;
    let path = format!("{MAPS}/large");
    let mut held = Vec::new();
    let refused = loop {
        let answer = get(&mut client, &path, "application/yaml").await;
        if answer.status() != 200 {
            break answer;
        }
        held.push(answer);
        assert!(held.len() < 100, "there is no bound");
    };
    assert_eq!(held.len(), 8, "eight of a megabyte");
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    // Others are served, and small answers too.
    let other = cluster.get(path.as_str()).await;
    assert_eq!(other.status, 200);
    for answer in held {
        let yaml = answer.into_body().collect().await.expect("it is sent to its end").to_bytes();
        assert!(yaml.len() > 1_000_000);
    }
    assert_eq!(get(&mut client, &path, "application/yaml").await.status(), 200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn large_objects_are_watched_as_they_are_over_windows_of_any_size() {
    let cluster = TestCluster::simulated(52).await;
    let before = large(&cluster, "before", 300_000).await;
    let path = format!("{MAPS}?watch=1");
    let protobuf = "application/vnd.kubernetes.protobuf;stream=watch";
    for window in [100, 70_000, 1 << 20] {
        let mut client = client(&cluster, window).await;
        let mut lines = get(&mut client, &path, "application/json").await.into_body();
        let mut frames = get(&mut client, &path, protobuf).await.into_body();
        let (mut text, mut messages) = (Vec::new(), Vec::new());
        let small = cluster.post(MAPS, json!({"metadata": {"name": "small"}})).await.ok(201);
        let large = large(&cluster, "large", 500_000).await;
        for wanted in [&before, &small, &large] {
            while !text.contains(&b'\n') {
                let data = lines.frame().await.expect("it goes on").unwrap().into_data().unwrap();
                text.extend_from_slice(&data);
            }
            let end = text.iter().position(|b| *b == b'\n').unwrap();
            let event: Value = serde_json::from_slice(&text[..end]).expect("a whole line of JSON");
            assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), wanted));
            text.drain(..=end);
        }
        // Each object of a stream of messages is the very body a GET shows.
        for wanted in ["before", "small", "large"] {
            let length = |bytes: &[u8]| {
                bytes.first_chunk().map_or(usize::MAX - 4, |l| u32::from_be_bytes(*l) as usize)
            };
            while messages.len() < length(&messages) + 4 {
                let data = frames.frame().await.expect("it goes on").unwrap().into_data().unwrap();
                messages.extend_from_slice(&data);
            }
            let event: Vec<u8> = messages.drain(..length(&messages) + 4).collect();
            let one = cluster.request("GET", format!("{MAPS}/{wanted}"));
            let body = one.accept("application/vnd.kubernetes.protobuf").send().await.bytes;
            assert!(event.ends_with(&body), "{wanted} over a window of {window}");
        }
        cluster.delete(format!("{MAPS}/small")).await.ok(200);
        cluster.delete(format!("{MAPS}/large")).await.ok(200);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_send_keeps_its_place_in_the_log_and_loses_nothing() {
    let cluster = TestCluster::simulated(53).await;
    // Less than one event.
    let mut client = client(&cluster, 100).await;
    let mut shut = get(&mut client, &format!("{MAPS}?watch=1"), "application/json").await.into_body();
    let mut names = Vec::new();
    for i in 0..50 {
        cluster.post(MAPS, json!({"metadata": {"name": format!("m{i}")}})).await.ok(201);
        names.push(format!("m{i}"));
    }
    // The window opens as the body is read.
    let mut text = Vec::new();
    while text.iter().filter(|b| **b == b'\n').count() < 50 {
        let data = shut.frame().await.expect("it goes on").unwrap().into_data().unwrap();
        text.extend_from_slice(&data);
    }
    let told: Vec<String> = text
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .map(|event| event["object"]["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(told, names);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_is_a_408_and_a_slow_one_is_read() {
    let cluster = TestCluster::simulated(54).await;
    let post = |pause: Duration, pieces: usize| {
        let env = cluster.env().clone();
        let (out, pieces_of) = tokio::sync::mpsc::channel::<Frame<Bytes>>(1);
        cluster.env().spawn("body", async move {
            let text =
                format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"x\":\"{}\"}}}}", "x".repeat(20_000));
            for piece in text.as_bytes().chunks(text.len().div_ceil(pieces)) {
                if out.send(Frame::data(Bytes::copy_from_slice(piece))).await.is_err() {
                    return;
                }
                env.sleep(pause).await;
            }
        });
        let pieces = futures_stream(pieces_of);
        Request::post(format!("http://x{MAPS}"))
            .header("content-type", "application/json")
            .body(BodyExt::boxed(StreamBody::new(pieces)))
            .unwrap()
    };
    let mut client = client(&cluster, 1 << 16).await;
    let begun = cluster.env().monotonic();
    let stalled = client.send_request(post(Duration::from_secs(300), 3)).await.unwrap();
    assert_eq!(stalled.status(), 408);
    assert!(cluster.env().monotonic() - begun < Duration::from_secs(15));
    // A few bytes now and then are not progress either.
    let trickle = client.send_request(post(Duration::from_secs(9), 1000)).await.unwrap();
    assert_eq!(trickle.status(), 408);
    let slow = client.send_request(post(Duration::from_secs(5), 4)).await.unwrap();
    assert_eq!(slow.status(), 201);
    cluster.shutdown().await;
}

/// What comes through a channel, as a stream.
fn futures_stream(
    mut from: tokio::sync::mpsc::Receiver<Frame<Bytes>>,
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>> + Send + Sync + 'static
{
    futures_util::stream::poll_fn(move |cx| from.poll_recv(cx).map(|frame| frame.map(Ok)))
}

#[tokio::test(start_paused = true)]
async fn request_bodies_in_flight_on_a_connection_are_bounded() {
    let cluster = TestCluster::simulated(55).await;
    let client = client(&cluster, 1 << 16).await;
    let mut half_sent = Vec::new();
    for _ in 0..12 {
        let (out, pieces) = tokio::sync::mpsc::channel::<Frame<Bytes>>(4);
        out.send(Frame::data(Bytes::from(vec![b' '; 2_000_000]))).await.unwrap();
        let request = Request::post(format!("http://x{MAPS}"))
            .header("content-type", "application/json")
            .body(BodyExt::boxed(StreamBody::new(futures_stream(pieces))))
            .unwrap();
        let mut client = client.clone();
        let answer = cluster.env().spawn("post", async move { client.send_request(request).await.unwrap() });
        half_sent.push((out, answer));
    }
    // The rest never comes: those that were let in stand still and end, the others heard at once that there is no room.
    let mut codes = Vec::new();
    for (_out, answer) in &mut half_sent {
        codes.push(answer.await.unwrap().status().as_u16());
    }
    codes.sort_unstable();
    assert_eq!(codes, [[408; 8].as_slice(), [429; 4].as_slice()].concat());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_control_frames_ends_its_connection() {
    let cluster = TestCluster::simulated(56).await;
    let ping = *b"\0\0\x08\x06\0\0\0\0\0pingpong";
    let settings = *b"\0\0\0\x04\0\0\0\0\0";
    let priority = *b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\x01";
    for frame in [&ping[..], &settings, &priority] {
        let (near, served) = open(&cluster, true);
        let (mut reader, mut writer) = tokio::io::split(near);
        cluster.env().spawn("reader", async move {
            let _ = tokio::io::copy(&mut reader, &mut tokio::io::sink()).await;
        });
        writer.write_all(PREFACE).await.unwrap();
        let flood = frame.repeat(1000);
        let mut sent = 0;
        while writer.write_all(&flood).await.is_ok() {
            sent += 1000;
            assert!(sent < 100_000, "it goes on for ever");
        }
        served.await.unwrap().expect_err("it was cut off");
    }
    assert_eq!(cluster.get("/livez").await.status, 200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn incomplete_heads_are_bounded_in_total_and_complete_ones_pass() {
    let cluster = TestCluster::simulated(57).await;
    let mut half = Vec::new();
    for _ in 0..40 {
        let (mut near, served) = open(&cluster, false);
        let head = [b"GET /livez HTTP/1.1\r\nhost: x\r\na: ", vec![b'a'; 900_000].as_slice()].concat();
        // The largest may be cut off while they are sent.
        let _ = near.write_all(&head).await;
        half.push((near, served));
    }
    // Well before any of them has been silent for too long.
    cluster.env().sleep(Duration::from_secs(1)).await;
    let left = half.iter().filter(|(_, served)| !served.is_finished()).count();
    assert!((1..=18).contains(&left), "{left} of 40 are left");
    let (mut near, _served) = open(&cluster, false);
    near.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut said = String::new();
    near.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    cluster.shutdown().await;
}
