//! The scheduler killed after its n-th write, or with conflicts, lost responses, stale caches and broken connections: in the end the
//! same pods have a node, the same ones say why not, and no pod was ever moved and no node overfilled.

use std::collections::BTreeMap;
use std::time::Duration;

use env::Env;
use plane::{Plane, Settings};
use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::faults::Plan;
use testkit::journal::Journal;

use crate::faults::{assert_same, chosen, misfortunes, outlive};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: usize = 3;
/// Of half a cpu each, on a node of two.
const SLOTS: usize = 4;

/// As many pods as there is room for, one too large, one gated, one that must preempt.
async fn pods_come(cluster: &TestCluster) {
    let pause = |seconds| cluster.env().sleep(Duration::from_secs(seconds));
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    cluster.post(classes, json!({"metadata": {"name": "high"}, "value": 1000})).await.ok(201);
    nodes_ready(cluster, NODES).await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    cluster.post(sets, half_cpu_set("low", NODES * SLOTS - 1)).await.ok(201);
    let pod = |name: &str, cpu: &str| {
        json!({"metadata": {"name": name},
            "spec": {"priorityClassName": "high", "containers": [container(cpu)]}})
    };
    let mut gated = pod("gated", "500m");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.post(PODS, gated).await.ok(201);
    cluster.post(PODS, pod("large", "3")).await.ok(201);
    pause(60).await;
    cluster.merge(format!("{PODS}/gated"), json!({"spec": {"schedulingGates": null}})).await.ok(200);
    pause(60).await;
    cluster.post(PODS, pod("urgent", "500m")).await.ok(201);
    pause(400).await;
}

/// All controllers but the scheduler, and so many nodes of two cpus.
pub fn start_without_scheduler(cluster: &TestCluster, nodes: usize) -> Plane {
    let nodes = Some(node::simulated::Settings { cpu: "2".to_owned(), ..testkit::nodes(nodes) });
    let choice = chosen(&["*", "-scheduler"]);
    let settings = Settings { nodes, choice, trust: cluster.trust(), ..Settings::default() };
    Plane::start(cluster.env(), cluster.local_clients(), &settings)
}

pub async fn nodes_ready(cluster: &TestCluster, wanted: usize) {
    cluster
        .until("the nodes are ready", || async {
            let nodes = cluster.get("/api/v1/nodes").await.json();
            let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
            nodes.len() == wanted && nodes.iter().all(|node| node["spec"].get("taints").is_none())
        })
        .await;
}

/// A ReplicaSet of pods of half a cpu each.
pub fn half_cpu_set(name: &str, replicas: usize) -> Value {
    let labels = json!({"app": name});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container("500m")]}});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
    json!({"metadata": {"name": name}, "spec": spec})
}

fn container(cpu: &str) -> Value {
    json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}})
}

struct Ended {
    died: bool,
    writes: usize,
    state: String,
}

async fn run(faults: Plan) -> Ended {
    let journal = Journal::default();
    let cluster = TestCluster::with(Env::simulated(9), |config| journal.record(config)).await;
    let plane = start_without_scheduler(&cluster, NODES);
    let alone = Settings { choice: chosen(&["scheduler"]), ..Settings::default() };
    let outlived = outlive(&cluster, &alone, faults.clone(), pods_come(&cluster)).await;
    cluster.quiet(Duration::from_secs(60)).await;
    let (state, pods) = (cluster.state(), cluster.get(PODS).await.json());
    placed_as_it_must_be(&pods, &faults);
    never_moved_nor_overfull(&journal, &faults);
    outlived.victim.stop().await;
    plane.stop().await;
    cluster.shutdown().await;
    Ended { died: outlived.died, writes: outlived.clients.writes(), state }
}

/// All room is used, and unschedulable pods say why.
fn placed_as_it_must_be(pods: &Value, faults: &Plan) {
    let mut waiting = Vec::new();
    let mut on_node = BTreeMap::<&str, usize>::new();
    for pod in pods["items"].as_array().expect("a list") {
        let conditions = pod["status"]["conditions"].as_array().expect("conditions");
        let scheduled = conditions.iter().find(|c| c["type"] == "PodScheduled").expect("it is said");
        let name = pod["metadata"]["name"].as_str().expect("a name");
        match pod["spec"]["nodeName"].as_str() {
            Some(node) => {
                *on_node.entry(node).or_default() += 1;
                assert_eq!(scheduled["status"], "True", "{faults:?}: {pod:#}");
                assert_eq!(pod["status"]["phase"], "Running", "{faults:?}: {pod:#}");
            }
            None => {
                assert_eq!(
                    (&scheduled["status"], &scheduled["reason"]),
                    (&json!("False"), &json!("Unschedulable")),
                    "{faults:?}: {pod:#}"
                );
                waiting.push(name);
            }
        }
    }
    assert_eq!(on_node.values().copied().collect::<Vec<_>>(), [SLOTS; NODES], "{faults:?}: {on_node:?}");
    waiting.sort();
    assert!(
        waiting.len() == 2 && waiting[0] == "large" && waiting[1].starts_with("low-"),
        "{faults:?}: {waiting:?}"
    );
}

/// Over every state there ever was: a pod stays where it was bound, and what is on a node fits there.
fn never_moved_nor_overfull(journal: &Journal, faults: &Plan) {
    let mut bound = BTreeMap::<String, String>::new();
    let mut here = BTreeMap::<String, String>::new();
    let mut bindings = 0;
    for (key, pod) in journal.states("/registry/pods/default/") {
        let pod = pod.unwrap_or(Value::Null);
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let ended = matches!(pod["status"]["phase"].as_str(), None | Some("Failed" | "Succeeded"));
        match pod["spec"]["nodeName"].as_str() {
            Some(node) => {
                if let Some(before) = bound.insert(uid, node.to_owned()) {
                    assert_eq!(before, node, "{faults:?}: {key} was bound twice");
                } else {
                    bindings += 1;
                }
                if ended {
                    here.remove(&key)
                } else {
                    here.insert(key, node.to_owned())
                };
            }
            None => drop(here.remove(&key)),
        }
        let mut on_node = BTreeMap::<&str, usize>::new();
        here.values().for_each(|node| *on_node.entry(node).or_default() += 1);
        assert!(on_node.values().all(|pods| *pods <= SLOTS), "{faults:?}: {on_node:?}");
    }
    assert!(bindings >= NODES * SLOTS, "{faults:?}: {bindings} bindings");
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_killed_or_misled_after_any_write_reaches_the_same_state() {
    let reference = run(Plan::default()).await.state;
    let both = Plan { conflict_every: Some(2), stale: Duration::from_secs(1), ..Plan::default() };
    for (what, plan) in misfortunes().into_iter().chain([("conflicts and a stale cache", both)]) {
        assert_same(&reference, &run(plan).await.state, &format!("the scheduler with {what}"));
    }
    for n in 1.. {
        let Ended { died, writes, state } = run(Plan { die_after: Some(n), ..Plan::default() }).await;
        assert_same(&reference, &state, &format!("the scheduler died after write {n}"));
        if !died {
            assert!(writes < n && n > NODES * SLOTS, "{writes} writes");
            break;
        }
    }
}
