//! The wall clock is set forward and back under a running cluster: nodes stay ready, pods stay, work goes on, watches too.

use std::collections::BTreeSet;
use std::time::Duration;

use plane::{Plane, Settings};
use serde_json::{Value, json};
use testkit::TestCluster;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const HOUR: i64 = 3600;

fn ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Uids of the pods that are ready and not going.
async fn pods(cluster: &TestCluster) -> BTreeSet<String> {
    let list = cluster.get(PODS).await.json();
    let pods = list["items"].as_array().cloned().unwrap_or_default();
    let well = pods.iter().filter(|pod| ready(pod) && pod["metadata"]["deletionTimestamp"].is_null());
    well.map(|pod| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_clock_jump_evicts_no_pod_and_stops_no_controller() {
    let cluster = TestCluster::simulated(1401).await;
    let settings = Settings { nodes: Some(testkit::nodes(2)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    cluster.post(DEPLOYMENTS, json!({"metadata": {"name": "web"}, "spec": spec})).await.ok(201);
    let mut replicas = 2;
    cluster.until("the first pods", || async { pods(&cluster).await.len() == replicas }).await;
    for jump in [24 * HOUR, -48 * HOUR, HOUR / 4, -10, 30 * 24 * HOUR] {
        let before = pods(&cluster).await;
        cluster.env().set_clock(jump);
        // Longer than a silent node is waited for, and a pod on it.
        cluster.env().sleep(Duration::from_secs(400)).await;
        for node in ["sim-0", "sim-1"] {
            let node = cluster.get(format!("/api/v1/nodes/{node}")).await.json();
            assert!(ready(&node) && node["spec"].get("taints").is_none(), "after {jump} s: {node}");
        }
        assert_eq!(pods(&cluster).await, before, "after {jump} s");
        replicas += 1;
        let scale = json!({"spec": {"replicas": replicas}});
        cluster.merge(format!("{DEPLOYMENTS}/web"), scale).await.ok(200);
        cluster.until("another pod", || async { pods(&cluster).await.len() == replicas }).await;
    }
    plane.stop().await;
    cluster.shutdown().await;
}
