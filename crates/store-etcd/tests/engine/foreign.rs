//! What programs that are not ours do to the same etcd, through its JSON gateway.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use env::Env;
use store::{Commit, Engine, Op};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{EtcdServer, PATIENCE};

/// One call; answers the body.
async fn gateway(etcd: &EtcdServer, path: &str, body: String) -> String {
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", etcd.port())).await.unwrap();
    let head = format!("POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{path}: {answer}");
    body.to_string()
}

/// A quoted field of a flat JSON answer.
fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let after = json.split_once(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("{name} in {json}")).1;
    after.split_once('"').unwrap().0
}

fn put(key: &[u8], lease: &str) -> String {
    format!(
        "{{\"key\":\"{}\",\"value\":\"{}\",\"lease\":\"{lease}\"}}",
        BASE64.encode(key),
        BASE64.encode("x")
    )
}

#[tokio::test]
async fn foreign_leases_are_read_with_their_expiry() {
    let etcd = EtcdServer::shared().await;
    let (engine, state) = etcd.open("/foreign/").await;
    let granted = gateway(&etcd, "/v3/lease/grant", "{\"TTL\":\"600\"}".into()).await;
    gateway(&etcd, "/v3/kv/put", put(b"/foreign/a", field(&granted, "ID"))).await;
    engine.barrier().await.unwrap();
    let end = state.get("/foreign/a").unwrap().expires_at.unwrap();
    let now = Env::machine().now_seconds();
    assert!((now + 500..=now + 600).contains(&end), "{end} at {now}");
    // Loaded it is told, too, as precisely as etcd tells it.
    let (_other, loaded) = etcd.open("/foreign/").await;
    let loaded = loaded.get("/foreign/a").unwrap().expires_at.unwrap();
    assert!(loaded.abs_diff(end) <= 2, "{loaded} and {end}");
}

#[tokio::test]
async fn keys_that_are_not_text_are_left_out_and_do_not_stop_the_log() {
    let etcd = EtcdServer::shared().await;
    let (engine, state) = etcd.open("/bytes/").await;
    gateway(&etcd, "/v3/kv/put", put(b"/bytes/\xff\xfe", "0")).await;
    gateway(&etcd, "/v3/kv/put", put(b"/bytes/text", "0")).await;
    engine.barrier().await.unwrap();
    assert_eq!(state.entries("/").len(), 1);
    let (_other, loaded) = etcd.open("/bytes/").await;
    assert_eq!(loaded.entries("/"), state.entries("/"));
}

#[tokio::test]
async fn a_lease_that_someone_revoked_is_granted_again() {
    let etcd = EtcdServer::shared().await;
    let (engine, state) = etcd.open("/revoked/").await;
    let at = Env::machine().now_seconds() + 1234;
    let commit = |key: &str| {
        let op = Op::Put { value: "x".into(), expires_at: Some(at) };
        Commit { guards: vec![], ops: vec![(key.into(), op)], removal: false }
    };
    engine.commit(commit("/revoked/a")).await.unwrap();
    let found =
        gateway(&etcd, "/v3/kv/range", format!("{{\"key\":\"{}\"}}", BASE64.encode("/revoked/a"))).await;
    gateway(&etcd, "/v3/lease/revoke", format!("{{\"ID\":\"{}\"}}", field(&found, "lease"))).await;
    assert!(
        state.wait_until(PATIENCE, |s| s.entries("/").is_empty()).await,
        "the lease took the key with it"
    );
    engine.commit(commit("/revoked/b")).await.unwrap();
    assert_eq!(state.get("/revoked/b").unwrap().expires_at, Some(at));
}
