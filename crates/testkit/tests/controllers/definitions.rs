//! Controllers treat a resource that is defined while they run as any other.

use serde_json::json;
use testkit::{TestCluster, widgets};

use crate::garbage_collector::{
    cluster, collector, create, delete, eventually, gone, is_there, map, reference,
};

const WIDGETS: &str = "/apis/example.io/v1/namespaces/default/widgets";

async fn widget(cluster: &TestCluster, name: &str, owners: serde_json::Value) -> serde_json::Value {
    create(cluster, WIDGETS, json!({"metadata": {"name": name, "ownerReferences": owners}})).await
}

#[tokio::test(start_paused = true)]
async fn resources_defined_later_are_garbage_collected() {
    let cluster = cluster(1).await;
    let plane = collector(&cluster);
    let owner = map(&cluster, "owner", json!([])).await;
    cluster.api().registry().define(widgets()).unwrap();
    let held = widget(&cluster, "held", json!([reference(&owner, false)])).await;
    let below = map(&cluster, "below", json!([reference(&held, false)])).await;
    widget(&cluster, "free", json!([])).await;
    let below =
        format!("/api/v1/namespaces/default/configmaps/{}", below["metadata"]["name"].as_str().unwrap());
    delete(&cluster, "/api/v1/namespaces/default/configmaps/owner", "Background").await;
    gone(&cluster, &format!("{WIDGETS}/held")).await;
    gone(&cluster, &below).await;
    assert!(is_there(&cluster, &format!("{WIDGETS}/free")).await);

    // Gone, and defined again: its owner references count as before.
    cluster.api().registry().undefine("example.io", "widgets").unwrap();
    let owner = map(&cluster, "other", json!([])).await;
    cluster.api().registry().define(widgets()).unwrap();
    widget(&cluster, "again", json!([reference(&owner, false)])).await;
    delete(&cluster, "/api/v1/namespaces/default/configmaps/other", "Background").await;
    gone(&cluster, &format!("{WIDGETS}/again")).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_emptied_of_resources_defined_later() {
    let cluster = cluster(2).await;
    let plane = cluster.controllers(cluster.local_clients(), &["namespace-controller"]);
    cluster.api().registry().define(widgets()).unwrap();
    create(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": "going"}})).await;
    cluster.settled().await;
    let there = "/apis/example.io/v1/namespaces/going/widgets";
    create(&cluster, there, json!({"metadata": {"name": "w"}})).await;
    cluster.delete("/api/v1/namespaces/going").await;
    gone(&cluster, "/api/v1/namespaces/going").await;
    eventually(&cluster, "no widget is left", || async {
        cluster.get(there).await.ok(200)["items"].as_array().is_some_and(Vec::is_empty)
    })
    .await;
    plane.stop().await;
    cluster.shutdown().await;
}
