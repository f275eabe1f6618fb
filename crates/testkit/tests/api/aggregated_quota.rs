//! Quotas that count objects of other servers: nobody charges them, so they are only counted.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestCluster;

use crate::aggregated_objects::flunder;
use crate::aggregated_server::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const COUNT: &str = "count/flunders.wardle.example.com";

async fn until_used(cluster: &TestCluster, wanted: Value) {
    for _ in 0..10_000 {
        if used(cluster).await == wanted {
            return;
        }
        cluster.env().sleep(Duration::from_millis(50)).await;
    }
    panic!("never {wanted}, but {}", used(cluster).await);
}

async fn used(cluster: &TestCluster) -> Value {
    cluster.get(&*format!("{QUOTAS}/q")).await.ok(200)["status"]["used"].clone()
}

fn quota() -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": {COUNT: "5", "count/configmaps": "5"}}})
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_server_are_counted() {
    let (cluster, server) = aggregating(60).await;
    let plane = cluster.controllers(cluster.local_clients(), &["resourcequota-controller"]);
    server.objects().put(flunder("a", json!([]))).await;
    cluster.post(QUOTAS, quota()).await.ok(201);
    until_used(&cluster, json!({COUNT: "1", "count/configmaps": "0"})).await;
    server.objects().put(flunder("b", json!([]))).await;
    until_used(&cluster, json!({COUNT: "2", "count/configmaps": "0"})).await;
    server.objects().remove("a").await;
    server.objects().remove("b").await;
    until_used(&cluster, json!({COUNT: "0", "count/configmaps": "0"})).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_asked_keeps_nothing_else_from_being_counted() {
    let (cluster, server) = aggregating(61).await;
    let plane = cluster.controllers(cluster.local_clients(), &["resourcequota-controller"]);
    server.objects().put(flunder("a", json!([]))).await;
    // What it serves is known, and nobody can list it.
    server.set(Mode::FailsAt("/apis/wardle.example.com/v1alpha1/flunders"));
    cluster.post(QUOTAS, quota()).await.ok(201);
    until_used(&cluster, json!({"count/configmaps": "0"})).await;
    server.set(Mode::Serves);
    until_used(&cluster, json!({COUNT: "1", "count/configmaps": "0"})).await;
    // It goes: what was counted last is what is known.
    server.set(Mode::Refuses);
    condition(&cluster, API_SERVICE, "FailedDiscoveryCheck").await;
    cluster.post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "m"}})).await.ok(201);
    until_used(&cluster, json!({COUNT: "1", "count/configmaps": "1"})).await;
    cluster.delete("/api/v1/namespaces/default/configmaps/m").await.ok(200);
    until_used(&cluster, json!({COUNT: "1", "count/configmaps": "0"})).await;
    server.set(Mode::Serves);
    server.objects().remove("a").await;
    until_used(&cluster, json!({COUNT: "0", "count/configmaps": "0"})).await;
    plane.stop().await;
    cluster.shutdown().await;
}
