//! Claims, volumes and volume attributes classes stay as long as something uses them, and go then.

use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{PODS, pass, plane, set_status, steady, until};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

fn claim(name: &str) -> Json {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}}})
}

fn pod(name: &str, node: Option<&str>, claim: &str) -> Json {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

async fn gone(cluster: &TestCluster, path: &str) {
    cluster.until(&format!("{path} is gone"), || async { cluster.get(path).await.status == 404 }).await;
}

fn finalizers(object: &Json) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_goes_when_the_last_pod_on_a_node_that_uses_it_is_gone() {
    let cluster = TestCluster::simulated(61).await;
    let plane = plane(&cluster, &["persistentvolumeclaim-protection-controller"]);
    for name in ["used", "unused", "waited-for"] {
        cluster.post(CLAIMS, claim(name)).await.ok(201);
    }
    let runs = cluster.post(PODS, pod("runs", Some("n1"), "used")).await.ok(201);
    let over = cluster.post(PODS, pod("over", Some("n1"), "used")).await.ok(201);
    set_status(&cluster, &runs, json!({"phase": "Running"})).await;
    set_status(&cluster, &over, json!({"phase": "Succeeded"})).await;
    cluster.post(PODS, pod("waits", None, "waited-for")).await.ok(201);
    for name in ["used", "unused", "waited-for"] {
        cluster.delete(format!("{CLAIMS}/{name}")).await.ok(200);
    }
    gone(&cluster, &format!("{CLAIMS}/unused")).await;
    // Nobody starts a pod whose claim is being deleted, so one without a node does not keep it.
    gone(&cluster, &format!("{CLAIMS}/waited-for")).await;
    cluster.delete(format!("{PODS}/runs?gracePeriodSeconds=0")).await.ok(200);
    pass(&cluster, 60).await;
    let kept = cluster.get(format!("{CLAIMS}/used")).await.ok(200);
    assert_eq!(
        finalizers(&kept),
        ["kubernetes.io/pvc-protection"],
        "a pod that is over still has it mounted"
    );
    cluster.delete(format!("{PODS}/over?gracePeriodSeconds=0")).await.ok(200);
    gone(&cluster, &format!("{CLAIMS}/used")).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_comes_back_to_what_lives() {
    let cluster = TestCluster::simulated(62).await;
    let plane = plane(
        &cluster,
        &["persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"],
    );
    let volume = json!({"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp/v"}}});
    cluster.post(CLAIMS, claim("c")).await.ok(201);
    cluster.post(VOLUMES, volume).await.ok(201);
    for (path, finalizer) in [
        (format!("{CLAIMS}/c"), "kubernetes.io/pvc-protection"),
        (format!("{VOLUMES}/v"), "kubernetes.io/pv-protection"),
    ] {
        cluster.merge(&path, json!({"metadata": {"finalizers": ["example.com/mine"]}})).await.ok(200);
        let both = |object: &Json| finalizers(object) == ["example.com/mine", finalizer];
        until(&cluster, &path, "the finalizer", both).await;
        cluster.merge(&path, json!({"metadata": {"finalizers": [finalizer]}})).await.ok(200);
    }
    let bound = |phase: &str| json!({"status": {"phase": phase}});
    cluster.merge(format!("{VOLUMES}/v/status"), bound("Bound")).await.ok(200);
    cluster.delete(format!("{VOLUMES}/v")).await.ok(200);
    pass(&cluster, 60).await;
    cluster.get(format!("{VOLUMES}/v")).await.ok(200);
    cluster.merge(format!("{VOLUMES}/v/status"), bound("Released")).await.ok(200);
    gone(&cluster, &format!("{VOLUMES}/v")).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_a_claim_goes_away() {
    let cluster = TestCluster::simulated(63).await;
    let plane = cluster.control_plane();
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "gone"}})).await.ok(201);
    cluster.settled().await;
    cluster.post("/api/v1/namespaces/gone/persistentvolumeclaims", claim("c")).await.ok(201);
    cluster.post("/api/v1/namespaces/gone/pods", pod("p", Some("n1"), "c")).await.ok(201);
    cluster.delete("/api/v1/namespaces/gone").await.ok(200);
    gone(&cluster, "/api/v1/namespaces/gone").await;
    plane.stop().await;
    cluster.shutdown().await;
}
