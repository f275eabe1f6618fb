//! Steps the tests of Jobs, budgets and pod GC have in common: waiting, playing the node.

use std::time::Duration;

use serde_json::{Value as Json, json};
use testkit::{ControlPlane, TestCluster};

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The controllers of these names.
pub fn plane(cluster: &TestCluster, names: &[&str]) -> ControlPlane {
    cluster.controllers(cluster.local_clients(), names)
}

/// Waits in virtual time, at most an hour of it, until an object is as wanted; and gives it.
pub async fn until(cluster: &TestCluster, path: &str, what: &str, wanted: impl Fn(&Json) -> bool) -> Json {
    let mut last = Json::Null;
    for _ in 0..36_000 {
        last = cluster.get(path).await.json();
        if wanted(&last) {
            return last;
        }
        cluster.env().sleep(Duration::from_millis(100)).await;
    }
    panic!("never came: {what}; last seen {last:#}");
}

pub async fn pass(cluster: &TestCluster, seconds: u64) {
    for _ in 0..seconds {
        cluster.env().sleep(Duration::from_secs(1)).await;
    }
}

pub async fn items(cluster: &TestCluster, path: &str) -> Vec<Json> {
    cluster.get(path).await.ok(200)["items"].as_array().expect("a list").clone()
}

/// Sets a pod's status as its node would.
pub async fn set_status(cluster: &TestCluster, pod: &Json, status: Json) {
    let name = pod["metadata"]["name"].as_str().expect("a pod has a name");
    cluster.merge(format!("{PODS}/{name}/status"), json!({"status": status})).await.ok(200);
}

pub fn succeeded() -> Json {
    json!({"phase": "Succeeded"})
}

/// Nothing is written while nothing changes.
pub async fn steady(cluster: &TestCluster) {
    // What was under way may end first.
    pass(cluster, 5).await;
    // A lasting failure is reported again now and then.
    let versions = || cluster.versions(&["events", "leases"]);
    let before = versions();
    pass(cluster, 600).await;
    assert_eq!(versions(), before, "something is written without a reason");
}
