//! Two whole control planes on one etcd: one leads, the other does nothing; when the leader is paused the other takes over, and the
//! first one's writes fail when it continues.

use serde_json::{Value, json};

use crate::etcd_server::Etcd;
use crate::harness::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const PARTS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_acts_and_a_paused_deposed_leader_changes_nothing() {
    let folder = folder();
    let Some(etcd) = Etcd::start(&folder.path().join("etcd")) else { return };
    let store = etcd.store();
    let one = Proc::start_cluster(&folder.path().join("one"), &["--store", &store]);
    let first = one.client().await;
    let mut held = Vec::new();
    for part in PARTS {
        let led = |lease: &Value| !holder(lease).is_empty();
        held.push(until(&first, &format!("{LEASES}/{part}"), "somebody leads", led).await);
    }
    // The second one has no controller for Deployments: whatever is made for one is the first one's doing. The nodes belong to the
    // second server: they live on when the first one sleeps.
    let flags = ["--store", &store, "--simulated-nodes", "2", "--controllers=*,-deployment-controller"];
    let two = Proc::start_cluster(&folder.path().join("two"), &flags);
    let client = two.client().await;
    post(&client, DEPLOYMENTS, app("Deployment", "web", 2)).await;
    let web = format!("{DEPLOYMENTS}/web");
    until(&client, &web, "the leader's loops act", |web| web["status"]["readyReplicas"] == 2).await;
    for (part, before) in PARTS.iter().zip(&held) {
        let lease = call(&client, "GET", &format!("{LEASES}/{part}"), None).await.1;
        assert_eq!(holder(&lease), holder(before), "the second one leads {part} though the first one lives");
    }
    // The one that follows runs its nodes and what every API server does: no other controller was ever started, so none wrote.
    let shown = call(&client, "GET", "/debug/controllers", None).await.1;
    let own = [
        "apiservice-availability",
        "apiservice-discovery",
        "apiservice-openapi-v2",
        "apiservice-openapi-v3",
        "autoregister",
        "cluster-authentication-trust",
        "custom-resource-definitions",
        "flow-control",
        "flow-schemas",
        "legacy-token-tracking",
        "node-device-claims",
        "node-devices",
        "node-pods",
        "node-status",
        "service-ip-repair",
    ];
    assert_eq!(loops(&shown), own, "{shown:#}");
    assert!(shown.get("scheduler").is_none(), "{shown:#}");
    let metrics = call(&client, "GET", "/metrics", None).await.1;
    let metrics = metrics.as_str().expect("metrics are text");
    let queues: Vec<&str> =
        metrics.lines().filter(|line| line.starts_with("workqueue_adds_total{")).collect();
    let is_own = |line: &&str| own.iter().any(|name| line.contains(&format!("name=\"{name}\"")));
    assert!(queues.len() == own.len() && queues.iter().all(is_own), "{queues:?}");
    assert!(!metrics.contains("scheduler_schedule_attempts_total"), "a follower schedules");
    let led = call(&first, "GET", "/debug/controllers", None).await.1;
    assert!(reconciles(&led, "deployment-controller") > 0 && led["scheduler"].is_object(), "{led:#}");

    // The leader sleeps. What is asked for meanwhile is the second one's to do, once the leases have run out.
    one.signal("STOP");
    post(&client, DEPLOYMENTS, app("Deployment", "late", 1)).await;
    post(&client, REPLICA_SETS, app("ReplicaSet", "plain", 1)).await;
    let plain = format!("{REPLICA_SETS}/plain");
    until(&client, &plain, "the new leader's loops act", |set| set["status"]["readyReplicas"] == 1).await;
    let mut now = Vec::new();
    for (part, before) in PARTS.iter().zip(&held) {
        let lease = call(&client, "GET", &format!("{LEASES}/{part}"), None).await.1;
        assert_ne!(holder(&lease), holder(before), "{part}");
        assert_eq!(lease["spec"]["leaseTransitions"], 1);
        now.push(lease);
    }

    // It wakes and finds a Deployment without a replica set, and pods and nodes that changed. It may want to act on them before
    // it knows that its time is over; nothing of that may be seen.
    one.signal("CONT");
    wait_until("the first one steps down", || one.log().matches("stopped leading").count() == PARTS.len());
    let after_it_stopped =
        reconciles(&call(&first, "GET", "/debug/controllers", None).await.1, "replicaset-controller");
    post(&client, REPLICA_SETS, app("ReplicaSet", "after", 1)).await;
    let after = format!("{REPLICA_SETS}/after");
    until(&client, &after, "the new leader goes on", |set| set["status"]["readyReplicas"] == 1).await;
    // It sees what the second one does, and has no part in it.
    until(&first, &after, "the first one is up to date", |set| set["status"]["readyReplicas"] == 1).await;
    let shown = call(&first, "GET", "/debug/controllers", None).await.1;
    assert_eq!(
        reconciles(&shown, "replicaset-controller"),
        after_it_stopped,
        "a deposed leader had a turn: {shown:#}"
    );
    for (part, lease) in PARTS.iter().zip(&now) {
        let still = call(&first, "GET", &format!("{LEASES}/{part}"), None).await.1;
        assert_eq!(holder(&still), holder(lease), "{part} was taken back");
        assert_eq!(still["spec"]["leaseTransitions"], 1);
    }
    let late = call(&client, "GET", &format!("{DEPLOYMENTS}/late"), None).await.1;
    assert!(late.get("status").is_none_or(|status| status.get("observedGeneration").is_none()), "{late:#}");
    assert!(late["metadata"].get("annotations").is_none(), "a deposed leader wrote: {late:#}");
    let sets = call(&client, "GET", REPLICA_SETS, None).await.1;
    let names =
        sets["items"].as_array().expect("a list").iter().map(|set| set["metadata"]["name"].to_string());
    let late: Vec<String> = names.filter(|name| name.contains("late")).collect();
    assert!(late.is_empty(), "a deposed leader made {late:?}");
    one.stop();
    two.stop();
}

fn app(kind: &str, name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name});
    let containers = json!([{"name": "c", "image": "nginx"}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

async fn post(client: &kube::Client, path: &str, body: Value) {
    let (code, made) = call(client, "POST", path, Some(body)).await;
    assert_eq!(code, 201, "{made}");
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// The controllers a server shows, by name.
fn loops(shown: &Value) -> Vec<&str> {
    let all = shown["controllers"].as_array().expect("a list of loops");
    let mut names: Vec<&str> = all.iter().map(|entry| entry["name"].as_str().expect("a name")).collect();
    names.sort();
    names
}

fn reconciles(shown: &Value, name: &str) -> u64 {
    let all = shown["controllers"].as_array().expect("a list of loops");
    let found = all.iter().find(|entry| entry["name"] == *name);
    found.and_then(|entry| entry["reconciles"].as_u64()).unwrap_or(0)
}

async fn until(client: &kube::Client, path: &str, what: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let (_, object) = call(client, "GET", path, None).await;
        if so(&object) {
            return object;
        }
        assert!(std::time::Instant::now() < deadline, "waited in vain until {what}: {object}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
