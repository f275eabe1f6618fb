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
use crate::scheduling::add_node;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
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

/// A pod each for three claims that get a volume that is there, and for three that get one made; two that share a claim.
async fn pods_with_volumes_come(cluster: &TestCluster) {
    for (name, provisioner) in [("local", "kubernetes.io/no-provisioner"), ("made", "example.com/disk")] {
        let class = json!({"metadata": {"name": name}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"});
        cluster.post("/apis/storage.k8s.io/v1/storageclasses", class).await.ok(201);
    }
    for n in 0..NODES {
        add_node(cluster, &format!("n{n}"), json!({})).await;
        add_volume(cluster, &format!("local-{n}"), "local", &format!("n{n}"), Value::Null).await;
    }
    for n in 0..6 {
        let class = if n < 3 { "local" } else { "made" };
        let claim = json!({"metadata": {"name": format!("c{n}")}, "spec": {"storageClassName": class,
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        cluster.post(CLAIMS, claim).await.ok(201);
    }
    for (pod, claim) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 5)] {
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": format!("c{claim}")}});
        let pod = json!({"metadata": {"name": format!("p{pod}")},
            "spec": {"containers": [container("100m")], "volumes": [volume]}});
        cluster.post(PODS, pod).await.ok(201);
        bind_and_provision(cluster).await;
    }
    for _ in 0..400 {
        bind_and_provision(cluster).await;
        let pods = cluster.get(PODS).await.json();
        if pods["items"].as_array().is_some_and(|all| all.iter().all(|p| p["spec"].get("nodeName").is_some()))
        {
            break;
        }
        cluster.env().sleep(Duration::from_secs(1)).await;
    }
    cluster.env().sleep(Duration::from_secs(30)).await;
}

async fn add_volume(cluster: &TestCluster, name: &str, class: &str, node: &str, claim: Value) {
    let term =
        json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let phase = if claim.is_null() { "Available" } else { "Bound" };
    let volume = json!({"metadata": {"name": name}, "spec": {"storageClassName": class,
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "local": {"path": "/mnt"},
        "claimRef": claim, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}});
    cluster.post(VOLUMES, volume).await.ok(201);
    cluster.merge(format!("{VOLUMES}/{name}/status"), json!({"status": {"phase": phase}})).await.ok(200);
}

/// What volume controller and provisioner do: volumes that name a claim become its, and claims with a node get a volume there.
async fn bind_and_provision(cluster: &TestCluster) {
    let items =
        async |path: &str| cluster.get(path).await.json()["items"].as_array().cloned().unwrap_or_default();
    let volumes = items(VOLUMES).await;
    for claim in items(CLAIMS).await {
        let name = claim["metadata"]["name"].as_str().expect("a name");
        let node = claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str();
        let own = volumes.iter().find(|v| v["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]);
        if claim["spec"].get("volumeName").is_some() {
            continue;
        }
        let Some(volume) = own else {
            if let Some(node) = node {
                let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "namespace": "default", "name": name, "uid": claim["metadata"]["uid"]});
                add_volume(cluster, &format!("made-{name}"), "made", node, reference).await;
            }
            continue;
        };
        let volume = &volume["metadata"]["name"];
        let patch = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume}});
        cluster.merge(format!("{CLAIMS}/{name}"), patch).await.ok(200);
    }
}

async fn run_with_volumes(faults: Plan) -> (bool, usize) {
    let cluster = TestCluster::with(Env::simulated(10), |_| {}).await;
    let alone = Settings { choice: chosen(&["scheduler"]), ..Settings::default() };
    let outlived = outlive(&cluster, &alone, faults.clone(), pods_with_volumes_come(&cluster)).await;
    let by_name = async |path: &str| -> BTreeMap<String, Value> {
        let items = cluster.get(path).await.json()["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().map(|o| (o["metadata"]["name"].as_str().expect("a name").to_owned(), o)).collect()
    };
    let (pods, claims, volumes) = (by_name(PODS).await, by_name(CLAIMS).await, by_name(VOLUMES).await);
    assert_eq!((pods.len(), claims.len(), volumes.len()), (7, 6, 6), "{faults:?}");
    for (name, pod) in &pods {
        let claim =
            pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str().expect("a claim");
        let volume = &volumes[claims[claim]["spec"]["volumeName"].as_str().expect("bound")];
        let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0];
        let there = &term["matchExpressions"][0]["values"][0];
        assert_eq!(&pod["spec"]["nodeName"], there, "{faults:?}: {name} is where its volume is; {pod:#}");
    }
    outlived.victim.stop().await;
    cluster.shutdown().await;
    (outlived.died, outlived.clients.writes())
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_killed_or_misled_after_any_write_binds_each_claim_once_and_its_pods_beside_it() {
    for (_, plan) in misfortunes() {
        run_with_volumes(plan).await;
    }
    for n in 1.. {
        let (died, writes) = run_with_volumes(Plan { die_after: Some(n), ..Plan::default() }).await;
        if !died {
            assert!(writes < n && n > 14, "{writes} writes");
            break;
        }
    }
}
