//! One seed, one history: a scenario run in two processes gives the same log, byte for byte.

use std::fmt::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use env::Env;
use serde_json::json;
use testkit::TestCluster;

const OUT: &str = "SETPOINT_SCENARIO_LOG";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";

#[test]
fn one_seed_gives_one_history_in_two_processes() {
    let directory = tempfile::tempdir().unwrap();
    let logs: Vec<Vec<u8>> = (0..2)
        .map(|n| {
            let file = directory.path().join(format!("{n}.log"));
            let run = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--ignored", "determinism::scenario"])
                .env(OUT, &file)
                .output()
                .unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
            std::fs::read(file).unwrap()
        })
        .collect();
    let text = String::from_utf8_lossy(&logs[0]);
    // The scenario really did what it is about.
    for part in [
        "\"type\":\"ADDED\"",
        "\"type\":\"DELETED\"",
        "\"type\":\"BOOKMARK\"",
        "409",
        "expired: 0 of 5 events left",
        "generated-",
    ] {
        assert!(text.contains(part), "the log lacks {part}");
    }
    assert!(text.lines().count() > 300);
    if logs[0] != logs[1] {
        let other = String::from_utf8_lossy(&logs[1]);
        let differing = text.lines().zip(other.lines()).position(|(a, b)| a != b);
        panic!("the histories differ from line {differing:?} on");
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "the scenario itself, which the test above runs twice in processes of its own"]
async fn scenario() {
    let Some(out) = std::env::var_os(OUT) else { return };
    let seed = 77;
    let cluster = TestCluster::simulated(seed).await;
    let dice = Env::simulated(seed + 1);
    let log = Arc::new(Mutex::new(String::new()));
    let note = |line: String| {
        let now = cluster.env().now_nanos();
        writeln!(log.lock().unwrap(), "{now} {line}").unwrap();
    };

    // Watchers come and go on their own tasks while the writes go on.
    let mut watchers = Vec::new();
    for (n, path) in [
        format!("{MAPS}?watch=1&allowWatchBookmarks=true"),
        format!("{MAPS}?watch=1&labelSelector=even%3Dtrue"),
        format!("{EVENTS}?watch=1"),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles?watch=1&resourceVersion=1".to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let mut watch = cluster.watch(format!("{path}&timeoutSeconds={}", 2000 + n * 700)).await;
        let (log, env) = (log.clone(), cluster.env().clone());
        watchers.push(cluster.env().spawn("watcher", async move {
            while let Some(event) = watch.next().await {
                writeln!(log.lock().unwrap(), "{} watch {n}: {event}", env.now_nanos()).unwrap();
            }
            writeln!(log.lock().unwrap(), "{} watch {n} ended", env.now_nanos()).unwrap();
        }));
    }
    for n in 0..5 {
        let body = json!({"metadata": {"generateName": "event-"}, "involvedObject": {"namespace": "default", "name": n.to_string()}});
        note(cluster.post(EVENTS, body).await.text());
    }
    for _ in 0..150 {
        let name = format!("m{}", dice.random_below(12));
        let path = format!("{MAPS}/{name}");
        let even = dice.random_below(2) == 0;
        let reply = match dice.random_below(6) {
            0 => {
                cluster
                    .post(MAPS, json!({"metadata": {"name": name, "labels": {"even": even.to_string()}}}))
                    .await
            }
            1 => cluster.post(MAPS, json!({"metadata": {"generateName": "generated-"}})).await,
            2 => cluster.merge(path, json!({"metadata": {"labels": {"even": even.to_string()}}})).await,
            3 => cluster.put(path, json!({"metadata": {"name": name, "resourceVersion": "7"}})).await,
            4 => cluster.delete(path).await,
            _ => cluster.get(format!("{MAPS}?limit=3&labelSelector=even%3D{even}")).await,
        };
        note(format!("{} {}", reply.status, reply.text()));
        cluster.env().sleep(Duration::from_millis(dice.random_below(3000))).await;
    }
    let part = json!({"metadata": {"name": "part", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]});
    note(cluster.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", part).await.text());
    cluster.env().sleep(Duration::from_secs(3700)).await;
    let left = cluster.get(EVENTS).await.json()["items"].as_array().unwrap().len();
    note(format!("expired: {left} of 5 events left"));
    for watcher in watchers {
        watcher.await.unwrap();
    }
    note(cluster.get(MAPS).await.text());
    note(format!("revision {}", cluster.api().registry().table().revision()));
    std::fs::write(out, log.lock().unwrap().as_bytes()).unwrap();
    cluster.shutdown().await;
}
