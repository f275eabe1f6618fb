//! Pods that nobody else would delete are deleted by pod GC.

use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{PODS, items, pass, plane, set_status, steady, until};

const NODES: &str = "/api/v1/nodes";
const CONTROLLERS: &[&str] = &["pod-garbage-collector-controller"];

async fn node(cluster: &TestCluster, name: &str) {
    cluster.post(NODES, json!({"metadata": {"name": name}})).await.ok(201);
}

async fn pod(cluster: &TestCluster, name: &str, spec: Json) -> Json {
    let mut pod =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    for (name, value) in spec.as_object().expect("a spec is an object") {
        pod["spec"][name] = value.clone();
    }
    let pod = cluster.post(PODS, pod).await.ok(201);
    if !pod["spec"]["nodeName"].is_null() {
        set_status(cluster, &pod, json!({"phase": "Running"})).await;
    }
    pod
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_fail_and_are_deleted() {
    let cluster = TestCluster::simulated(1).await;
    let plane = plane(&cluster, CONTROLLERS);
    for name in ["n1", "n2"] {
        node(&cluster, name).await;
    }
    pod(&cluster, "a", json!({"nodeName": "n1"})).await;
    pod(&cluster, "b", json!({"nodeName": "n2"})).await;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.merge(format!("{PODS}/a/status"), ready).await.ok(200);
    // It stays to be looked at.
    let finalizer = json!({"metadata": {"finalizers": ["example.com/look"]}});
    cluster.merge(format!("{PODS}/a"), finalizer).await.ok(200);
    cluster.delete(format!("{NODES}/n1")).await.ok(200);
    let begun = cluster.env().now_seconds();
    let going = |pod: &Json| !pod["metadata"]["deletionTimestamp"].is_null();
    let a = until(&cluster, &format!("{PODS}/a"), "the deletion", going).await;
    // Forty seconds of quarantine, looked at every twenty.
    assert!((40..=62).contains(&(cluster.env().now_seconds() - begun)));
    assert_eq!(a["status"]["phase"], "Failed");
    let conditions = a["status"]["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("DeletionByPodGC")));
    assert_eq!(condition["message"], "PodGC: node no longer exists");
    assert_eq!((conditions.len() > 1, conditions.last()), (true, Some(condition)), "behind the others");
    assert_eq!(cluster.get(format!("{PODS}/b")).await.json()["status"]["phase"], "Running");
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn terminating_pods_without_a_node_or_on_an_out_of_service_one_are_deleted() {
    let cluster = TestCluster::simulated(2).await;
    let plane = plane(&cluster, CONTROLLERS);
    node(&cluster, "n1").await;
    pod(&cluster, "lost", json!({"nodeName": "n1"})).await;
    cluster.delete(format!("{PODS}/lost?gracePeriodSeconds=3600")).await.ok(200);
    pass(&cluster, 60).await;
    assert_eq!(items(&cluster, PODS).await.len(), 1, "its node may still see to it");
    let taint = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    cluster.merge(format!("{NODES}/n1"), json!({"spec": {"taints": taint}})).await.ok(200);
    until(&cluster, PODS, "no pods", |list| list["items"].as_array().unwrap().is_empty()).await;

    pod(&cluster, "unbound", json!({})).await;
    // Somebody wants to know what became of it: without a node nobody but this controller can say.
    let finalizer = json!({"metadata": {"finalizers": ["example.com/look"]}});
    cluster.merge(format!("{PODS}/unbound"), finalizer).await.ok(200);
    cluster.delete(format!("{PODS}/unbound")).await.ok(200);
    let path = format!("{PODS}/unbound");
    let failed = until(&cluster, &path, "a failed pod", |pod| pod["status"]["phase"] == "Failed").await;
    assert!(!failed["metadata"]["deletionTimestamp"].is_null());
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}
