//! Requests of in-process controllers take seats in upstream's priority levels, and wait there.

use std::time::Duration;

use plane::{Plane, Settings};
use serde_json::json;
use testkit::{TestCluster, nodes};

async fn dispatched(cluster: &TestCluster, schema: &str, level: &str) -> u64 {
    let series = format!(
        "apiserver_flowcontrol_dispatched_requests_total{{flow_schema=\"{schema}\",priority_level=\"{level}\"}} "
    );
    let text = cluster.get("/metrics").await.text();
    let count = text.lines().find_map(|line| line.strip_prefix(&series));
    count.unwrap_or_else(|| panic!("{series} in {text}")).parse().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn controllers_scheduler_and_nodes_use_their_priority_levels() {
    let cluster = TestCluster::simulated(1406).await;
    let settings = Settings { nodes: Some(nodes(3)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    cluster.post(path, deployment).await.ok(201);
    cluster
        .until("all pods are ready", || async {
            cluster.get(format!("{path}/web")).await.json()["status"]["readyReplicas"] == 5
        })
        .await;
    cluster.env().sleep(Duration::from_secs(30)).await;
    for (schema, level) in [
        ("kube-system-service-accounts", "workload-high"),
        ("kube-controller-manager", "workload-high"),
        ("kube-scheduler", "workload-high"),
        ("system-node-high", "node-high"),
        ("system-nodes", "system"),
        ("exempt", "exempt"),
    ] {
        assert!(dispatched(&cluster, schema, level).await > 0, "{schema}");
    }
    assert_eq!(dispatched(&cluster, "catch-all", "catch-all").await, 0);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_waits_where_a_remote_client_gets_a_429() {
    let cluster = TestCluster::simulated(1407).await;
    // No seats, and nowhere to wait: one request at a time.
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let level = json!({"metadata": {"name": "narrow"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}});
    let rule = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true});
    let schema = json!({"metadata": {"name": "narrow"}, "spec": {"matchingPrecedence": 5,
        "priorityLevelConfiguration": {"name": "narrow"}, "rules": [{"resourceRules": [rule],
        "subjects": [{"kind": "User", "user": {"name": "system:serviceaccount:kube-system:replicaset-controller"}}]}]}});
    cluster.post(format!("{flow}/prioritylevelconfigurations"), level).await.ok(201);
    cluster.post(format!("{flow}/flowschemas"), schema).await.ok(201);
    // Until then the server does not go by them.
    cluster.env().sleep(Duration::from_secs(1)).await;
    let plane = cluster.control_plane();
    let set = json!({"metadata": {"name": "many"}, "spec": {"replicas": 200, "selector": {"matchLabels": {"app": "m"}},
        "template": {"metadata": {"labels": {"app": "m"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/replicasets";
    cluster.post(path, set).await.ok(201);
    cluster
        .until("all pods are made", || async {
            cluster.get(format!("{path}/many")).await.json()["status"]["replicas"] == 200
        })
        .await;
    assert!(dispatched(&cluster, "narrow", "narrow").await >= 200);
    let text = cluster.get("/metrics").await.text();
    let rejected = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"narrow\"";
    assert!(!text.contains(rejected), "{text}");
    plane.stop().await;
    cluster.shutdown().await;
}
