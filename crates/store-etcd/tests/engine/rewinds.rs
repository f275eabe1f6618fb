//! An etcd that went back to an older state: refused, while we run and after a restart; a healthy one never is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use store::testing::MapState;
use store::{CommitError, Engine, Revision};
use store_etcd::{ConnectError, EtcdEngine, Options};
use tokio::time::timeout;

use crate::server::{EtcdServer, PATIENCE, Proxy};
use crate::sharing::put;

/// The engine says that it has failed for good, how to fix it, and does nothing any more.
pub async fn is_refused(engine: &Arc<EtcdEngine>) {
    let failed = async {
        while engine.failed().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, failed).await.unwrap_or_else(|_| panic!("{:?}", engine.health()));
    let why = engine.health().unwrap_err();
    assert_eq!(engine.failed().as_deref(), Some(why.as_str()));
    for part in ["etcd is at revision", "has served revision", "--bump-revision 1000000000 --mark-compacted"]
    {
        assert!(why.contains(part), "{why}");
    }
    let answer = engine.commit(put("/refused/a", "1")).await;
    assert!(matches!(answer, Err(CommitError::Stopped(_))), "{answer:?}");
    assert!(matches!(engine.barrier().await, Err(CommitError::Stopped(_))));
}

async fn open(endpoint: String, mark: &Path) -> Result<(Arc<EtcdEngine>, Arc<MapState>), ConnectError> {
    let state = Arc::new(MapState::default());
    let options = Options {
        endpoints: vec![endpoint],
        prefix: "/rewind/".into(),
        tls: None,
        high_water_mark: Some(mark.to_owned()),
    };
    Ok((EtcdEngine::connect_with(options, Env::machine(), state.clone()).await?, state))
}

async fn write(engine: &EtcdEngine, count: usize) -> Revision {
    let mut last = Revision(0);
    for i in 0..count {
        last = engine.commit(put("/rewind/a", i.to_string())).await.unwrap();
    }
    last
}

fn refused(opened: Result<(Arc<EtcdEngine>, Arc<MapState>), ConnectError>) -> String {
    match opened {
        Err(ConnectError::WentBack(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    }
}

#[tokio::test]
async fn an_etcd_that_goes_back_is_refused_while_we_run_and_after_a_restart() {
    let etcd = EtcdServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("etcd-revision");
    let (engine, _) = open(etcd.endpoint(), &mark).await.unwrap();
    let saved = write(&engine, 5).await;
    engine.close().await;
    etcd.save_data();
    etcd.run().await;
    let (engine, state) = open(etcd.endpoint(), &mark).await.unwrap();
    let last = write(&engine, 20).await;
    etcd.put_data_back();
    etcd.run().await;
    is_refused(&engine).await;
    assert_eq!((state.revision(), state.reloads()), (last, 1), "nobody was shown the past");
    assert_eq!(state.contract_violations(), Vec::<String>::new());
    engine.close().await;

    let why = refused(open(etcd.endpoint(), &mark).await);
    assert!(why.contains(&format!("at revision {saved},")), "{why}");
    assert!(why.contains(&format!("served revision {last}:")), "{why}");
    assert!(why.contains("setpoint reset"), "{why}");
    // Refused as often as it is tried, also when etcd goes on meanwhile but has not come far enough.
    let (other, _) = etcd.open("/rewind/").await;
    write(&other, 3).await;
    refused(open(etcd.endpoint(), &mark).await);
    // Once it is past what was served it can be used: that is what --bump-revision is for.
    write(&other, 20).await;
    let (engine, _) = open(etcd.endpoint(), &mark).await.unwrap();
    write(&engine, 1).await;
}

#[tokio::test]
async fn a_commit_into_the_past_is_never_acknowledged() {
    let etcd = EtcdServer::start().await;
    let proxy = Proxy::to(etcd.port()).await;
    let home = tempfile::tempdir().unwrap();
    let (engine, _) = open(proxy.endpoint(), &home.path().join("mark")).await.unwrap();
    write(&engine, 3).await;
    etcd.save_data();
    etcd.run().await;
    let last = write_past_outage(&engine).await;
    proxy.cut();
    etcd.put_data_back();
    etcd.run().await;
    proxy.restore();
    // The commit and the feed race for the first connection; whoever wins, no revision is given twice.
    let answer = timeout(PATIENCE, engine.commit(put("/rewind/a", "again"))).await.unwrap();
    assert!(
        matches!(answer, Err(CommitError::Unknown(_) | CommitError::Stopped(_))),
        "{answer:?} after {last}"
    );
    is_refused(&engine).await;
}

/// The first ones after a restart of etcd may fail.
async fn write_past_outage(engine: &EtcdEngine) -> Revision {
    let recovered = async {
        while engine.barrier().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        write(engine, 10).await
    };
    timeout(PATIENCE, recovered).await.unwrap()
}

#[tokio::test]
async fn a_healthy_etcd_is_accepted_after_any_stop() {
    let etcd = EtcdServer::start().await;
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("mark");
    for round in 0..3 {
        let (engine, _) = open(etcd.endpoint(), &mark).await.unwrap();
        write(&engine, 7).await;
        // A clean shutdown, or dropped as by a crash: then the recorded revision is an older one.
        if round == 1 {
            engine.close().await;
        }
        drop(engine);
        etcd.kill();
        etcd.run().await;
    }
    open(etcd.endpoint(), &mark).await.unwrap();
}

#[tokio::test]
async fn another_etcd_is_accepted_when_empty_or_ahead() {
    let (first, other) = (EtcdServer::start().await, EtcdServer::start().await);
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("mark");
    let (engine, _) = open(first.endpoint(), &mark).await.unwrap();
    write(&engine, 20).await;
    engine.close().await;
    // Chosen on purpose: nothing in it could be mistaken for what was served.
    let (engine, _) = open(other.endpoint(), &mark).await.unwrap();
    write(&engine, 3).await;
    engine.close().await;
    let (engine, _) = open(first.endpoint(), &mark).await.unwrap();
    engine.close().await;
    // With something in it, and behind, it may be a backup of the first.
    refused(open(other.endpoint(), &mark).await);
    std::fs::remove_file(&mark).unwrap();
    open(other.endpoint(), &mark).await.unwrap();
}

#[tokio::test]
async fn a_failed_high_water_mark_does_not_stop_a_reload() {
    let (first, other) = (EtcdServer::start().await, EtcdServer::start().await);
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("mark");
    let (engine, _) = open(first.endpoint(), &mark).await.unwrap();
    write(&engine, 50).await;
    engine.close().await;
    // What the note says is of the first etcd, and stays so.
    std::fs::create_dir(home.path().join(format!("mark.{}.tmp", std::process::id()))).unwrap();
    let proxy = Proxy::to(other.port()).await;
    let (engine, state) = open(proxy.endpoint(), &mark).await.unwrap();
    write(&engine, 1).await;
    proxy.cut();
    let (writer, _) = other.open("/rewind/").await;
    let last = write(&writer, 5).await;
    writer.compact(last).await.unwrap();
    proxy.restore();
    assert!(write_past_outage(&engine).await > last);
    assert!(state.reloads() > 1, "it was loaded anew");
    assert_eq!((engine.failed(), engine.health()), (None, Ok(())));
}
