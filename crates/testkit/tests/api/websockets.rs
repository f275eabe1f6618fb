//! Watches over a WebSocket, frame by frame, by a client written here.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Caller, serve_stream};
use auth::Tokens;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use crate::test_kubelet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const UPGRADE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nOrigin: http://x\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
const ACCEPTED: &str = "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PONG: u8 = 0x8a;

/// One end of a WebSocket.
struct Client<S> {
    io: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Asks, and reads the head of the answer.
    async fn open(mut io: S, path: &str, headers: &str) -> (String, Client<S>) {
        io.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match io.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
        (String::from_utf8(head).unwrap().to_lowercase().replace("k+xoo=", "K+xOo="), Client { io })
    }

    async fn frame(&mut self) -> (u8, Vec<u8>) {
        let (first, length) = (self.io.read_u8().await.unwrap(), self.io.read_u8().await.unwrap());
        let length = match length {
            126 => usize::from(self.io.read_u16().await.unwrap()),
            127 => self.io.read_u64().await.unwrap() as usize,
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.io.read_exact(&mut payload).await.unwrap();
        (first, payload)
    }

    async fn event(&mut self) -> Value {
        let (first, payload) = self.frame().await;
        assert_eq!(first, TEXT, "{}", String::from_utf8_lossy(&payload));
        assert!(payload.ends_with(b"}\n"));
        serde_json::from_slice(&payload).unwrap()
    }

    async fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8];
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.io.write_all(&frame).await.unwrap();
    }

    /// The server closes, with that status, and then the connection ends.
    async fn closed(mut self, status: u16) {
        assert_eq!(self.frame().await, (CLOSE, status.to_be_bytes().to_vec()));
        let mut rest = Vec::new();
        self.io.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
    }
}

fn pipe(cluster: &TestCluster, known: bool) -> (DuplexStream, JoinHandle<Result<(), String>>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (api, admin) = (cluster.api().clone(), Arc::new(testkit::admin().authenticated()));
    let caller = move |_| if known { Caller::Known(admin.clone()) } else { Caller::Unknown };
    (near, cluster.env().spawn("connection", async move { serve_stream(api, far, false, caller).await }))
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test(start_paused = true)]
async fn events_come_as_frames_until_the_watch_ends() {
    let cluster = TestCluster::simulated(931).await;
    cluster.post(MAPS, map("a")).await.ok(201);
    let (near, served) = pipe(&cluster, true);
    let path = format!("{MAPS}?watch=1&timeoutSeconds=100&fieldSelector=metadata.name%21%3Dkube-root-ca.crt");
    let (head, mut client) =
        Client::open(near, &path, &format!("{UPGRADE}Sec-WebSocket-Protocol: foo\r\n")).await;
    assert!(head.starts_with("http/1.1 101 switching protocols\r\n"), "{head}");
    assert!(head.contains("upgrade: websocket\r\n") && head.contains("connection: upgrade\r\n"), "{head}");
    assert!(head.contains(&ACCEPTED.to_lowercase().replace("k+xoo=", "K+xOo=")), "{head}");
    assert!(head.contains("sec-websocket-protocol: foo\r\n"), "{head}");
    assert_eq!(client.event().await["object"]["metadata"]["name"], "a");
    let begun = cluster.env().monotonic();
    cluster.post(MAPS, map("b")).await.ok(201);
    let event = client.event().await;
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("b")));
    // Pings are answered, messages are ignored.
    client.send(9, b"are you there").await;
    assert_eq!(client.frame().await, (PONG, b"are you there".to_vec()));
    client.send(1, b"hello").await;
    cluster.delete(format!("{MAPS}/b")).await.ok(200);
    assert_eq!(client.event().await["type"], "DELETED");
    client.closed(1000).await;
    assert!(cluster.env().monotonic() - begun >= Duration::from_secs(99));
    served.await.unwrap().unwrap();
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_client_and_the_server_can_end_it() {
    let cluster = TestCluster::simulated(932).await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1000&fieldSelector=metadata.name%3Dnone");
    let open = |more: &'static str| {
        let (near, served) = pipe(&cluster, true);
        let path = path.clone();
        async move {
            let (head, client) = Client::open(near, &path, &format!("{UPGRADE}{more}")).await;
            assert!(head.starts_with("http/1.1 101 "), "{head}");
            (client, served)
        }
    };
    let begun = cluster.env().monotonic();
    let (mut client, served) = open("").await;
    client.send(8, &1000u16.to_be_bytes()).await;
    client.closed(1000).await;
    served.await.unwrap().unwrap();
    // Clients mask what they send.
    let (mut client, _served) = open("").await;
    client.io.write_all(b"\x81\x01a").await.unwrap();
    client.closed(1002).await;
    // One that goes without a word, and one that takes nothing.
    let (client, served) = open("").await;
    drop(client);
    served.await.unwrap().unwrap();
    assert!(cluster.env().monotonic() - begun < Duration::from_secs(100));
    let (stuck, ended) = open("").await;
    for _ in 0..3 {
        let large = json!({"metadata": {"name": "none"}, "data": {"x": "x".repeat(60_000)}});
        cluster.post(MAPS, large).await.ok(201);
        cluster.delete(format!("{MAPS}/none")).await.ok(200);
    }
    ended.await.unwrap().unwrap();
    assert!(cluster.env().monotonic() - begun < Duration::from_secs(300), "long before the watch would end");
    drop(stuck);
    // A shutdown.
    let (client, served) = open("").await;
    cluster.shutdown().await;
    client.closed(1000).await;
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_handshake_is_refused_as_upstream_refuses_it() {
    let cluster = TestCluster::simulated(933).await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=5");
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (headers, line, body) in [
        (UPGRADE.replace("Origin: http://x\r\n", ""), "403 forbidden", ""),
        (UPGRADE.replace("http://x", "null"), "403 forbidden", ""),
        (UPGRADE.replace(key, ""), "400 bad request", "mismatch challenge/response"),
        (UPGRADE.replace("Version: 13", "Version: 8"), "400 bad request", "missing or bad WebSocket Version"),
        (format!("{UPGRADE}Sec-WebSocket-Protocol: foo, bar\r\n"), "400 bad request", ""),
    ] {
        let (near, _served) = pipe(&cluster, true);
        let (head, mut client) = Client::open(near, &path, &headers).await;
        assert!(head.starts_with(&format!("http/1.1 {line}\r\n")), "{head}");
        assert_eq!(head.contains("sec-websocket-version: 13\r\n"), body.contains("Version"), "{head}");
        let mut rest = String::new();
        client.io.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, body);
    }
    // What is no watch, and what does not ask in full, is answered as ever; so are refusals.
    for (path, headers, known, line) in [
        (MAPS, UPGRADE.to_owned(), true, "200 ok"),
        (path.as_str(), UPGRADE.replace("keep-alive, Upgrade", "keep-alive"), true, "200 ok"),
        (path.as_str(), UPGRADE.to_owned(), false, "403 forbidden"),
    ] {
        let (near, _served) = pipe(&cluster, known);
        let (head, _) = Client::open(near, path, &headers).await;
        assert!(head.starts_with(&format!("http/1.1 {line}\r\n")), "{head}");
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn other_forms_and_errors_are_frames_too() {
    let cluster = TestCluster::simulated(934).await;
    cluster.post(MAPS, map("a")).await.ok(201);
    let path = format!("{MAPS}?watch=1&timeoutSeconds=5&fieldSelector=metadata.name%3Da");
    let (near, _served) = pipe(&cluster, true);
    let headers = format!("{UPGRADE}Accept: application/vnd.kubernetes.protobuf\r\n");
    let (_, mut client) = Client::open(near, &path, &headers).await;
    let (first, payload) = client.frame().await;
    assert_eq!(first, BINARY);
    // The message itself, with no length before it.
    assert!(payload.starts_with(b"\n\x05ADDED\x12"), "{payload:?}");
    client.closed(1000).await;

    let (near, _served) = pipe(&cluster, true);
    let headers = format!("{UPGRADE}Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n");
    let (_, mut client) = Client::open(near, &path, &headers).await;
    assert_eq!(client.event().await["object"]["kind"], "Table");

    let (near, _served) = pipe(&cluster, true);
    let future = format!(
        "{MAPS}?watch=1&resourceVersion=99999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let (head, mut client) = Client::open(near, &future, UPGRADE).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert_eq!(client.event().await["type"], "ERROR");
    client.closed(1000).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_may_be_among_the_subprotocols() {
    let tokens = Tokens::parse("tokens".as_ref(), b"s3cret,jane,7,system:masters\n").expect("a token file");
    let cluster = TestCluster::with_tokens(Env::simulated(935), Some(tokens)).await;
    let token =
        |text: &str| format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(text));
    let good = token("s3cret");
    for (protocols, more, code) in [
        (format!("{good}, foo"), "", "101"),
        (format!("foo,{good}"), "", "101"),
        (good.clone(), "", "401"),
        (format!("{good}, foo, bar"), "", "400"),
        (format!("{good}, {good}, foo"), "", "401"),
        (format!("{}, foo", token("wrong")), "", "401"),
        ("base64url.bearer.authorization.k8s.io.!, foo".to_owned(), "", "401"),
        // Proven otherwise, it is a protocol like any other.
        (format!("{good}, foo"), "Authorization: Bearer s3cret\r\n", "400"),
        ("foo".to_owned(), "", "403"),
    ] {
        let (near, _served) = pipe(&cluster, false);
        let headers = format!("{UPGRADE}{more}Sec-WebSocket-Protocol: {protocols}\r\n");
        let (head, _) = Client::open(near, &format!("{MAPS}?watch=1&timeoutSeconds=5"), &headers).await;
        assert!(head.starts_with(&format!("http/1.1 {code} ")), "{protocols}: {head}");
        assert_eq!(head.contains("sec-websocket-protocol: foo\r\n"), code == "101", "{head}");
    }
    // Only a WebSocket takes it from there.
    let plain =
        cluster.request("GET", MAPS).unproven().header("Sec-WebSocket-Protocol", &format!("{good}, foo"));
    assert_eq!(plain.send().await.status, 403);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_over_a_websocket_goes_through_tls() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.unwrap();
    let tls = crate::certificates::connect(&served, Some(served.pki.admin())).await;
    let path = format!("{MAPS}?watch=1&fieldSelector=metadata.name%3Da");
    let (head, mut client) = Client::open(tls, &path, UPGRADE).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    // More than one frame of TLS.
    let large = json!({"metadata": {"name": "a"}, "data": {"x": "x".repeat(200_000)}});
    cluster.post(MAPS, large).await.ok(201);
    let event = client.event().await;
    assert_eq!(event["object"]["data"]["x"].as_str().map(str::len), Some(200_000));
    client.send(9, b"").await;
    assert_eq!(client.frame().await, (PONG, Vec::new()));
    client.send(8, &[]).await;
    assert_eq!(client.frame().await, (CLOSE, 1000u16.to_be_bytes().to_vec()));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_comes_over_a_websocket_as_bytes_or_in_base64() {
    let (cluster, kubelet) = test_kubelet::cluster(2020).await;
    let path = format!("{}/a/log", test_kubelet::PODS);
    for (asked, chosen, kind, text) in [
        ("", None, BINARY, &b"hello\n"[..]),
        ("binary.k8s.io", Some("binary.k8s.io"), BINARY, b"hello\n"),
        ("base64.binary.k8s.io", Some("base64.binary.k8s.io"), TEXT, b"aGVsbG8K"),
        ("foo, base64.binary.k8s.io", Some("base64.binary.k8s.io"), TEXT, b"aGVsbG8K"),
    ] {
        let (near, served) = pipe(&cluster, true);
        let headers = match asked {
            "" => UPGRADE.to_owned(),
            asked => format!("{UPGRADE}Sec-WebSocket-Protocol: {asked}\r\n"),
        };
        let (head, mut client) = Client::open(near, &path, &headers).await;
        assert!(head.starts_with("http/1.1 101 switching protocols\r\n"), "{asked}: {head}");
        let protocol = head.lines().find_map(|line| line.strip_prefix("sec-websocket-protocol: "));
        assert_eq!(protocol, chosen);
        assert_eq!(client.frame().await, (kind, Vec::new()), "the connection stands");
        assert_eq!(client.frame().await, (kind, text.to_vec()), "{asked}");
        client.closed(1000).await;
        served.await.unwrap().unwrap();
    }
    let (near, served) = pipe(&cluster, true);
    let unknown = format!("{UPGRADE}Sec-WebSocket-Protocol: foo\r\n");
    let (head, client) = Client::open(near, &path, &unknown).await;
    assert!(head.starts_with("http/1.1 403 "), "{head}");
    drop(client);
    // The client may be gone before the answer is.
    let _ = served.await.unwrap();
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_over_a_websocket_ends_with_its_client() {
    let (cluster, kubelet) = test_kubelet::cluster(2021).await;
    let writer = Arc::new(parking_lot::Mutex::new(None));
    let place = writer.clone();
    kubelet.answers(move |_| {
        let (sender, response) = test_kubelet::streamed();
        *place.lock() = Some(sender);
        async { response }
    });
    let (near, served) = pipe(&cluster, true);
    let path = format!("{}/a/log?follow=true", test_kubelet::PODS);
    let (head, mut client) = Client::open(near, &path, UPGRADE).await;
    assert!(head.starts_with("http/1.1 101 switching protocols\r\n"), "{head}");
    assert_eq!(client.frame().await, (BINARY, Vec::new()));
    let mut sender = writer.lock().take().unwrap();
    for line in ["one\n", "two\n"] {
        sender.send_data(bytes::Bytes::from(line)).await.unwrap();
        assert_eq!(client.frame().await, (BINARY, line.as_bytes().to_vec()));
        // Longer than an answer that is whole may take.
        cluster.env().sleep(Duration::from_secs(60)).await;
    }
    client.send(8, &[]).await;
    client.closed(1000).await;
    served.await.unwrap().unwrap();
    kubelet.is_left_alone().await;
    cluster.shutdown().await;
}
