//! Whole clusters under a seed: nodes fall silent, pods die, specs change, loops are killed; in the end everything is as declared.
//! The same seed gives the same log.

use std::time::Duration;

use env::Env;
use plane::{Plane, Settings};
use serde_json::{Value, json};
use testkit::TestCluster;

const APPS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: u64 = 4;

#[tokio::test(start_paused = true)]
async fn any_seed_ends_as_declared() {
    let runs = if std::env::var_os("SETPOINT_LONG").is_some() { 200 } else { 6 };
    for seed in 100..100 + runs {
        eprintln!("seed {seed}");
        run(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_log() {
    let (one, two) = (run(7).await, run(7).await);
    for (n, (left, right)) in one.lines().zip(two.lines()).enumerate() {
        assert_eq!(left, right, "line {n} of the log");
    }
    assert_eq!(one.len(), two.len());
}

/// One history; what was written, in order.
async fn run(seed: u64) -> String {
    let cluster = TestCluster::simulated(seed).await;
    // Its own stream of chance: what the test does must not depend on how often the cluster draws.
    let dice = Env::simulated(seed ^ 0x5eed);
    let settings = Settings { nodes: Some(testkit::nodes(NODES as usize)), ..Settings::default() };
    let only_nodes =
        Settings { choice: plane::Choice::new(vec!["-*".to_owned()]).expect("nobody"), ..settings.clone() };
    let no_nodes = Settings { nodes: None, ..settings };
    let nodes = Plane::start(cluster.env(), cluster.local_clients(), &only_nodes);
    let mut plane = Plane::start(cluster.env(), cluster.local_clients(), &no_nodes);
    let mut declared: Vec<(String, u64)> = Vec::new();
    for step in 0..30 {
        cluster.env().sleep(Duration::from_millis(dice.random_below(20_000))).await;
        match dice.random_below(7) {
            0 | 1 => {
                let name = format!("app-{step}");
                let replicas = dice.random_below(6);
                cluster.post(APPS, deployment(&name, replicas)).await.ok(201);
                declared.push((name, replicas));
            }
            2 if !declared.is_empty() => {
                let at = dice.random_below(declared.len() as u64) as usize;
                declared[at].1 = dice.random_below(6);
                let (name, replicas) = &declared[at];
                cluster
                    .merge(format!("{APPS}/{name}"), json!({"spec": {"replicas": replicas}}))
                    .await
                    .ok(200);
            }
            3 if !declared.is_empty() => {
                let at = dice.random_below(declared.len() as u64) as usize;
                let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": format!("v{step}")}]}}}});
                cluster.merge(format!("{APPS}/{}", declared[at].0), image).await.ok(200);
            }
            4 => {
                let pods = cluster.get(PODS).await.json();
                let pods = pods["items"].as_array().cloned().unwrap_or_default();
                if !pods.is_empty() {
                    let at = dice.random_below(pods.len() as u64) as usize;
                    let name = pods[at]["metadata"]["name"].as_str().unwrap_or_default();
                    cluster.delete(format!("{PODS}/{name}")).await;
                }
            }
            5 => {
                let node = format!("/api/v1/nodes/sim-{}", dice.random_below(NODES));
                let silent = if dice.random_below(2) == 0 { json!("true") } else { Value::Null };
                cluster
                    .merge(node, json!({"metadata": {"annotations": {"sim.setpoint.dev/silent": silent}}}))
                    .await
                    .ok(200);
            }
            _ => {
                // The whole controller manager and scheduler, in the middle of whatever they do.
                plane.kill();
                cluster.env().sleep(Duration::from_millis(dice.random_below(3_000))).await;
                plane = Plane::start(cluster.env(), cluster.local_clients(), &no_nodes);
            }
        }
    }
    for node in 0..NODES {
        let awake = json!({"metadata": {"annotations": {"sim.setpoint.dev/silent": null}}});
        cluster.merge(format!("/api/v1/nodes/sim-{node}"), awake).await.ok(200);
    }
    cluster.quiet(Duration::from_secs(700)).await;
    for (name, replicas) in &declared {
        let app = cluster.get(format!("{APPS}/{name}")).await.json();
        let count = |field: &str| app["status"][field].as_u64().unwrap_or(0);
        assert_eq!(count("availableReplicas"), *replicas, "seed {seed}: {app}");
        assert_eq!(count("updatedReplicas"), *replicas, "seed {seed}: {app}");
        assert_eq!(count("replicas"), *replicas, "seed {seed}: {app}");
    }
    let wanted: u64 = declared.iter().map(|(_, replicas)| replicas).sum();
    let pods = cluster.get(PODS).await.json();
    assert_eq!(pods["items"].as_array().map_or(0, Vec::len) as u64, wanted, "seed {seed}");
    plane.stop().await;
    nodes.stop().await;
    let log = log(&cluster);
    cluster.shutdown().await;
    log
}

fn deployment(name: &str, replicas: u64) -> Value {
    let template =
        json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "v"}]}});
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}})
}

/// Every object as it stands in the end, each with its version: any other order of writes gives another text.
fn log(cluster: &TestCluster) -> String {
    let table = cluster.api().registry().table();
    let mut out = String::new();
    for storage in table.catalog().storages() {
        let everything = table::Selection::everything(table::Scope::All);
        let page = table.list(storage.id, &everything, None, None, 0).expect("the present is readable");
        for obj in page.items {
            out.push_str(&String::from_utf8_lossy(obj.body()));
            out.push('\n');
        }
    }
    out
}
