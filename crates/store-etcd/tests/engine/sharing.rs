//! One etcd, one or several engines: the contract, guarded counters, foreign writers, sizes, expiry.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use store::testing::{MapState, contract_suite, reopen_suite};
use store::{Commit, CommitError, Engine, Guard, Key, Op, Revision};
use store_etcd::{ConnectError, EtcdEngine};

use crate::server::{EtcdServer, PATIENCE};

pub fn put(key: &str, value: impl Into<Bytes>) -> Commit {
    Commit {
        guards: vec![],
        ops: vec![(key.into(), Op::Put { value: value.into(), expires_at: None })],
        removal: false,
    }
}

pub fn put_at(key: &str, at: Revision, value: impl Into<Bytes>) -> Commit {
    Commit { guards: vec![(key.into(), Guard::At(at))], ..put(key, value) }
}

pub fn delete(key: &str) -> Commit {
    Commit { guards: vec![], ops: vec![(key.into(), Op::Delete)], removal: false }
}

fn now() -> u64 {
    Env::machine().now_seconds()
}

async fn suite_engine(endpoint: String, state: Arc<MapState>) -> Arc<dyn Engine> {
    let engine = EtcdEngine::connect(vec![endpoint], "/contract/".into(), Env::machine(), state).await;
    engine.unwrap_or_else(|e| panic!("{e}"))
}

#[tokio::test]
async fn the_contract_holds() {
    // It compacts, which is for all of an etcd.
    let etcd = EtcdServer::start().await;
    contract_suite(|state| Box::pin(suite_engine(etcd.endpoint(), state)), "/contract/suite").await;
}

#[tokio::test]
async fn the_contract_holds_over_a_restart() {
    let etcd = EtcdServer::shared().await;
    reopen_suite(|state| Box::pin(suite_engine(etcd.endpoint(), state)), "/contract/reopen").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods)]
async fn two_servers_lose_no_increment_and_see_the_same_log() {
    const EACH: u64 = 60;
    let etcd = EtcdServer::shared().await;
    let (a, a_state) = etcd.open("/counter/").await;
    let (b, b_state) = etcd.open("/counter/").await;
    a.commit(put("/counter/n", "0")).await.unwrap();
    b.barrier().await.unwrap();
    let tasks: Vec<_> = [(&a, &a_state), (&b, &b_state), (&a, &a_state), (&b, &b_state)]
        .map(|(engine, state)| (engine.clone(), state.clone()))
        .into_iter()
        .map(|(engine, state)| {
            tokio::spawn(async move {
                let mut done = 0;
                while done < EACH {
                    let old = state.get("/counter/n").unwrap();
                    let n: u64 = std::str::from_utf8(&old.value).unwrap().parse().unwrap();
                    match engine.commit(put_at("/counter/n", old.revision, (n + 1).to_string())).await {
                        Ok(_) => done += 1,
                        Err(CommitError::Conflict { .. }) => {
                            let now = state.get("/counter/n").unwrap().revision;
                            assert!(now > old.revision, "a conflict whose reason cannot be seen");
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let end = a.barrier().await.unwrap();
    assert!(b_state.wait_until(PATIENCE, |s| s.revision() >= end).await);
    assert_eq!(a_state.get("/counter/n").unwrap().value, (4 * EACH).to_string());
    assert_eq!(a_state.entries("/counter/"), b_state.entries("/counter/"));
    let (a_log, b_log) = (a_state.log("/counter/"), b_state.log("/counter/"));
    assert_eq!(a_log.len() as u64, 1 + 4 * EACH);
    assert_eq!(a_log, b_log);
    assert_eq!([a_state.contract_violations(), b_state.contract_violations()].concat(), Vec::<String>::new());
}

#[tokio::test]
async fn keys_of_another_client_appear_and_foreign_keys_only_advance_the_revision() {
    let etcd = EtcdServer::shared().await;
    let (engine, state) = etcd.open("/mine/").await;
    // An engine with another prefix writes wherever it is told to: to this one it is any other client.
    let (other, other_state) = etcd.open("/theirs/").await;
    let written = other.commit(put("/mine/a", "1")).await.unwrap();
    let elsewhere = other.commit(put("/elsewhere", "1")).await.unwrap();
    assert!(engine.barrier().await.unwrap() >= elsewhere);
    assert_eq!(state.get("/mine/a").unwrap().revision, written);
    assert_eq!(state.entries("/").len(), 1);
    assert_eq!(other_state.entries("/").len(), 0);
    // A key that only begins like the prefix is not under it.
    other.commit(put("/mine0", "1")).await.unwrap();
    engine.barrier().await.unwrap();
    assert_eq!(state.entries("/").len(), 1);
}

#[tokio::test]
async fn a_large_state_is_loaded_in_pages_at_one_revision() {
    let etcd = EtcdServer::shared().await;
    let (writer, written) = etcd.open("/pages/").await;
    for batch in 0..25 {
        let ops = (0..100).map(|i| {
            let value = Bytes::from(vec![b'x'; 500]);
            (Key::from(format!("/pages/{:04}", batch * 100 + i)), Op::Put { value, expires_at: None })
        });
        writer.commit(Commit { guards: vec![], ops: ops.collect(), removal: false }).await.unwrap();
    }
    let (_reader, read) = etcd.open("/pages/").await;
    assert_eq!(read.entries("/").len(), 2500);
    assert_eq!(read.entries("/"), written.entries("/"));
    assert_eq!(read.contract_violations(), Vec::<String>::new());
}

#[tokio::test]
async fn commits_too_large_for_etcd_are_too_large() {
    let etcd = EtcdServer::shared().await;
    let (engine, state) = etcd.open("/large/").await;
    // Past etcd's limit, past gRPC's limit, and more operations than etcd takes.
    for bytes in [1_600_000, 5_000_000] {
        let answer = engine.commit(put("/large/a", vec![0u8; bytes])).await;
        assert!(matches!(answer, Err(CommitError::TooLarge(_))), "{bytes}: {answer:?}");
    }
    let ops =
        (0..200).map(|i| (Key::from(format!("/large/{i}")), Op::Put { value: "x".into(), expires_at: None }));
    let answer = engine.commit(Commit { guards: vec![], ops: ops.collect(), removal: false }).await;
    assert!(matches!(answer, Err(CommitError::TooLarge(_))), "{answer:?}");
    engine.commit(put("/large/b", "fits")).await.unwrap();
    assert_eq!(state.entries("/").len(), 1);
    assert_eq!(engine.health(), Ok(()));
}

#[tokio::test]
async fn expiry_is_published_and_known_to_every_server() {
    let etcd = EtcdServer::shared().await;
    let (a, a_state) = etcd.open("/expiry/").await;
    let (_b, b_state) = etcd.open("/expiry/").await;
    let (soon, later) = (now() + 2, now() + 7200);
    let ops = [("/expiry/soon", soon), ("/expiry/later", later), ("/expiry/past", now() - 100)]
        .map(|(key, at)| (Key::from(key), Op::Put { value: "x".into(), expires_at: Some(at) }));
    let made = a.commit(Commit { guards: vec![], ops: ops.to_vec(), removal: false }).await.unwrap();
    assert_eq!(a_state.get("/expiry/soon").unwrap().expires_at, Some(soon));
    for state in [&a_state, &b_state] {
        assert!(state.wait_until(PATIENCE, |s| s.revision() >= made && s.entries("/").len() == 1).await);
        assert_eq!(state.entries("/")[0].expires_at, Some(later));
        let deleted: Vec<_> = state.log("/").into_iter().filter(|c| c.value.is_none()).collect();
        assert_eq!(deleted.len(), 2);
        assert!(deleted.iter().all(|c| c.revision > made));
    }
    assert!(now() >= soon, "expired too early");
    let (_c, c_state) = etcd.open("/expiry/").await;
    assert_eq!(c_state.entries("/"), a_state.entries("/"));
}

#[tokio::test]
async fn wrong_endpoints_are_reported() {
    let connect = |endpoint: &str, prefix: &str| {
        EtcdEngine::connect(vec![endpoint.into()], prefix.into(), Env::machine(), Arc::<MapState>::default())
    };
    assert!(matches!(connect("gopher://x", "/a/").await, Err(ConnectError::Endpoint(_))));
    assert!(matches!(connect("http://127.0.0.1:1", "").await, Err(ConnectError::NoPrefix)));
    let refused = connect("http://127.0.0.1:1", "/a/").await;
    assert!(matches!(&refused, Err(ConnectError::Load(why)) if why.contains("127.0.0.1:1")));
}

#[tokio::test]
async fn a_second_endpoint_serves_when_the_first_does_not() {
    let etcd = EtcdServer::shared().await;
    let state = Arc::new(MapState::default());
    let endpoints = vec!["http://127.0.0.1:1".into(), etcd.endpoint()];
    let engine =
        EtcdEngine::connect(endpoints, "/failover/".into(), Env::machine(), state.clone()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), engine.commit(put("/failover/a", "1")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(state.entries("/").len(), 1);
}

#[tokio::test]
async fn compaction_by_several_servers_is_no_error() {
    let etcd = EtcdServer::start().await;
    let (a, _) = etcd.open("/compact/").await;
    let (b, _) = etcd.open("/compact/").await;
    let mut last = Revision(0);
    for i in 0..20 {
        last = a.commit(put("/compact/a", i.to_string())).await.unwrap();
    }
    b.barrier().await.unwrap();
    let (one, two) = tokio::join!(a.compact(last), b.compact(last));
    one.unwrap();
    two.unwrap();
    // Older than what is done, done again, and from the future.
    a.compact(Revision(last.0 - 5)).await.unwrap();
    a.compact(last).await.unwrap();
    b.compact(Revision(u64::MAX)).await.unwrap();
    b.commit(put_at("/compact/a", last, "after")).await.unwrap();
}
