//! etcd dies, the network is cut, history is compacted meanwhile: nothing lost, nothing twice, nothing hangs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use store::testing::MapState;
use store::{Commit, CommitError, Engine, Key, Op};
use store_etcd::EtcdEngine;
use tokio::time::timeout;

use crate::server::{EtcdServer, PATIENCE, Proxy, open};
use crate::sharing::{delete, put, put_at};

/// A commit's longest: a lease, the transaction and the watch, 10 s each.
const LONGEST_COMMIT: Duration = Duration::from_secs(35);

#[tokio::test]
async fn the_watch_resumes_after_etcd_is_killed_and_restarted() {
    let etcd = EtcdServer::start().await;
    let (engine, state) = etcd.open("/kill/").await;
    for i in 0..20 {
        engine.commit(put("/kill/a", i.to_string())).await.unwrap();
    }
    etcd.kill();
    etcd.run().await;
    // Another server writes before this one may have noticed.
    let (other, _) = etcd.open("/kill/").await;
    for i in 20..40 {
        other.commit(put("/kill/a", i.to_string())).await.unwrap();
    }
    let last = other.commit(delete("/kill/a")).await.unwrap();
    assert!(state.wait_until(PATIENCE, |s| s.revision() >= last).await, "{:?}", engine.health());
    let told: Vec<_> = state.log("/").into_iter().map(|c| c.value).collect();
    let mut expected: Vec<_> = (0..40).map(|i| Some(i.to_string().into())).collect();
    expected.push(None);
    assert_eq!(told, expected);
    assert_eq!(state.reloads(), 1);
    assert_eq!(state.contract_violations(), Vec::<String>::new());
    engine.commit(put("/kill/b", "after")).await.unwrap();
    assert_eq!(engine.health(), Ok(()));
}

#[tokio::test]
async fn a_cut_connection_loses_nothing() {
    let etcd = EtcdServer::shared().await;
    let proxy = Proxy::to(etcd.port()).await;
    let (engine, state) = open(proxy.endpoint(), "/cut/").await;
    let (other, _) = etcd.open("/cut/").await;
    let mut expected = Vec::new();
    for round in 0..5 {
        proxy.cut();
        for i in 0..10 {
            let revision = other.commit(put(&format!("/cut/{i}"), round.to_string())).await.unwrap();
            expected.push(revision);
        }
        proxy.restore();
        assert!(state.wait_until(PATIENCE, |s| s.revision() >= expected[expected.len() - 1]).await);
    }
    assert_eq!(state.log("/").into_iter().map(|c| c.revision).collect::<Vec<_>>(), expected);
    assert_eq!((state.reloads(), state.contract_violations()), (1, vec![]));
    engine.commit(put("/cut/after", "x")).await.unwrap();
}

#[tokio::test]
async fn compaction_while_disconnected_leads_to_a_reload() {
    let etcd = EtcdServer::start().await;
    let proxy = Proxy::to(etcd.port()).await;
    let (engine, state) = open(proxy.endpoint(), "/gone/").await;
    engine.commit(put("/gone/old", "1")).await.unwrap();
    proxy.cut();
    let (other, other_state) = etcd.open("/gone/").await;
    other.commit(delete("/gone/old")).await.unwrap();
    for i in 0..10 {
        other.commit(put("/gone/new", i.to_string())).await.unwrap();
    }
    let last = other.barrier().await.unwrap();
    other.compact(last).await.unwrap();
    proxy.restore();
    assert!(state.wait_until(PATIENCE, |s| s.reloads() == 2).await, "{:?}", engine.health());
    engine.barrier().await.unwrap();
    assert_eq!(state.entries("/"), other_state.entries("/"));
    assert_eq!(state.contract_violations(), Vec::<String>::new());
    engine.commit(put("/gone/after", "x")).await.unwrap();
}

#[tokio::test]
async fn a_delete_at_the_compacted_revision_is_not_missed() {
    // Such a tombstone is gone after the compaction, and older etcds let a watch start right there all the same.
    let etcd = EtcdServer::start().await;
    let proxy = Proxy::to(etcd.port()).await;
    let (engine, state) = open(proxy.endpoint(), "/tomb/").await;
    engine.commit(put("/tomb/a", "1")).await.unwrap();
    proxy.cut();
    let (other, _) = etcd.open("/tomb/").await;
    let deleted = other.commit(delete("/tomb/a")).await.unwrap();
    other.compact(deleted).await.unwrap();
    proxy.restore();
    engine.barrier().await.unwrap();
    assert!(state.wait_until(PATIENCE, |s| s.get("/tomb/a").is_none()).await);
    assert_eq!(state.contract_violations(), Vec::<String>::new());
}

#[tokio::test]
async fn missed_changes_are_complete_even_in_many_fragments() {
    // Eight revisions of 1.4 MB in one answer: etcd splits it, also between keys of one revision.
    let etcd = EtcdServer::shared().await;
    let proxy = Proxy::to(etcd.port()).await;
    let (engine, state) = open(proxy.endpoint(), "/fragments/").await;
    let (other, _) = etcd.open("/fragments/").await;
    proxy.cut();
    for round in 0..8u8 {
        let value = Bytes::from(vec![round; 350_000]);
        let ops = (0..4).map(|i| {
            let put = Op::Put { value: value.clone(), expires_at: None };
            (Key::from(format!("/fragments/{i}")), put)
        });
        other.commit(Commit { guards: vec![], ops: ops.collect(), removal: false }).await.unwrap();
    }
    proxy.restore();
    engine.barrier().await.unwrap();
    assert_eq!(state.log("/").len(), 32);
    assert_eq!((state.reloads(), state.contract_violations()), (1, vec![]));
}

#[tokio::test]
async fn an_etcd_that_lost_its_data_is_refused() {
    let etcd = EtcdServer::start().await;
    let (engine, state) = etcd.open("/fresh/").await;
    for i in 0..10 {
        engine.commit(put("/fresh/a", i.to_string())).await.unwrap();
    }
    let (before, entries) = (state.revision(), state.entries("/"));
    etcd.lose_data();
    etcd.run().await;
    crate::rewinds::is_refused(&engine).await;
    assert_eq!((state.revision(), state.entries("/"), state.reloads()), (before, entries, 1));
}

#[tokio::test]
async fn a_silent_member_is_left_for_another() {
    let etcd = EtcdServer::shared().await;
    let proxy = Proxy::to(etcd.port()).await;
    let state = Arc::new(MapState::default());
    let endpoints = vec![proxy.endpoint(), etcd.endpoint()];
    let engine =
        EtcdEngine::connect(endpoints, "/silent/".into(), Env::machine(), state.clone()).await.unwrap();
    engine.commit(put("/silent/a", "1")).await.unwrap();
    proxy.freeze();
    let answer = timeout(LONGEST_COMMIT, engine.commit(put("/silent/a", "2"))).await.expect("bounded");
    assert!(matches!(answer, Err(CommitError::Unknown(_))), "{answer:?}");
    // The other member answers this one, and so the watch moves there, too.
    timeout(LONGEST_COMMIT, engine.commit(put("/silent/a", "3"))).await.expect("bounded").unwrap();
    assert_eq!(state.get("/silent/a").unwrap().value, "3");
    assert_eq!((state.reloads(), state.contract_violations()), (1, vec![]));
}

#[tokio::test]
async fn a_cluster_that_loses_a_member_goes_on() {
    let members = EtcdServer::start_three().await;
    let endpoints: Vec<_> = members.iter().map(EtcdServer::endpoint).collect();
    let state = Arc::new(MapState::default());
    let engine =
        EtcdEngine::connect(endpoints, "/three/".into(), Env::machine(), state.clone()).await.unwrap();
    let (mut acknowledged, mut unknown) = (0, 0);
    let mut last = engine.commit(put("/three/n", "0")).await.unwrap();
    for round in 0..60 {
        // Each in turn, so the one in use and the leader are among them.
        if round % 20 == 10 {
            members[round / 20].kill();
        }
        if round % 20 == 19 {
            members[round / 20].run().await;
        }
        match timeout(LONGEST_COMMIT, engine.commit(put_at("/three/n", last, round.to_string())))
            .await
            .unwrap()
        {
            Ok(revision) => {
                acknowledged += 1;
                last = revision;
            }
            Err(error) => {
                unknown += usize::from(matches!(error, CommitError::Unknown(_)));
                let mut why = None;
                let ready = async {
                    while let Err(error) = engine.barrier().await {
                        why = Some(error)
                    }
                };
                let in_time = timeout(PATIENCE, ready).await.is_ok();
                assert!(in_time, "round {round}, two members are a quorum: {why:?}, {:?}", engine.health());
                last = state.get("/three/n").unwrap().revision;
            }
        }
    }
    assert!(acknowledged >= 40, "{acknowledged} of 60");
    let written = state.log("/three/n").len() - 1;
    assert!((acknowledged..=acknowledged + unknown).contains(&written), "{acknowledged} {unknown} {written}");
    let (_fresh, loaded) = members[2].open("/three/").await;
    assert_eq!(loaded.entries("/"), state.entries("/"));
    assert_eq!((state.reloads(), state.contract_violations()), (1, vec![]));
}

#[tokio::test]
async fn during_an_outage_nothing_hangs_and_nothing_is_claimed() {
    let etcd = EtcdServer::start().await;
    let (engine, state) = etcd.open("/outage/").await;
    engine.commit(put("/outage/a", "1")).await.unwrap();
    etcd.kill();
    for _ in 0..3 {
        let answer = timeout(LONGEST_COMMIT, engine.commit(put("/outage/a", "2"))).await.expect("bounded");
        assert!(matches!(answer, Err(CommitError::Stopped(_) | CommitError::Unknown(_))), "{answer:?}");
    }
    let answer = timeout(LONGEST_COMMIT, engine.barrier()).await.expect("bounded");
    assert!(answer.is_err(), "{answer:?}");
    let ill = async {
        while engine.health().is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, ill).await.expect("a lasting outage shows in the health");
    etcd.run().await;
    let well = async {
        while engine.health().is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, well).await.expect("health comes back by itself");
    engine.commit(put("/outage/a", "3")).await.unwrap();
    assert_eq!(state.get("/outage/a").unwrap().value, "3");
    assert_eq!((state.reloads(), state.contract_violations()), (1, vec![]));
}

#[tokio::test]
async fn a_cut_in_the_middle_of_commits_leaves_them_unknown_and_the_state_right() {
    let etcd = EtcdServer::shared().await;
    let proxy = Proxy::to(etcd.port()).await;
    let (engine, state) = open(proxy.endpoint(), "/middle/").await;
    let mut acknowledged = Vec::new();
    for round in 0..20 {
        let key = format!("/middle/{round:02}");
        // The cut comes at some moment of the round trip.
        let (answer, ()) = tokio::join!(engine.commit(put(&key, "x")), async {
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            proxy.cut();
            proxy.restore();
        });
        match answer {
            Ok(revision) => acknowledged.push((key, revision)),
            Err(CommitError::Unknown(_) | CommitError::Stopped(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    engine.barrier().await.unwrap();
    let (_fresh, loaded) = etcd.open("/middle/").await;
    assert_eq!(state.entries("/"), loaded.entries("/"));
    for (key, revision) in acknowledged {
        assert_eq!(state.get(&key).unwrap().revision, revision);
    }
    assert_eq!((state.reloads(), state.contract_violations()), (1, vec![]));
}

#[tokio::test]
async fn closing_ends_everything_and_dropping_does_too() {
    let etcd = EtcdServer::shared().await;
    let (engine, state) = etcd.open("/close/").await;
    engine.commit(put("/close/a", "1")).await.unwrap();
    timeout(PATIENCE, engine.close()).await.unwrap();
    assert!(matches!(engine.commit(put("/close/a", "2")).await, Err(CommitError::Stopped(_))));
    assert!(matches!(engine.barrier().await, Err(CommitError::Stopped(_))));
    assert!(engine.health().is_err());
    drop(engine);
    // Only this test still holds the state: the tasks are gone.
    assert_eq!(Arc::strong_count(&state), 1);

    let (engine, state) = etcd.open("/close/").await;
    drop(engine);
    let gone = async {
        while Arc::strong_count(&state) > 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("the feed ends with its engine");
}
