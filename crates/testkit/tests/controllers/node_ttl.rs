//! The TTL annotation of nodes grows with the cluster, with hysteresis.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::nodes_and_pods::{NODES, World};

fn says(node: &Value, seconds: &str) -> bool {
    node["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] == seconds
}

#[tokio::test(start_paused = true)]
async fn the_ttl_annotation_depends_on_the_size_of_the_cluster() {
    let mut world = World::new(531, &["ttl-controller"]).await;
    let path = |number: usize| format!("{NODES}/n-{number}");
    for number in 0..100 {
        world.cluster.post(NODES, json!({"metadata": {"name": format!("n-{number}")}})).await.ok(201);
        world.until(&path(number), "told", |node| says(node, "0")).await;
    }
    // What somebody else wrote there is set right.
    let other =
        json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "soon", "mine": "stays"}}});
    world.cluster.merge(path(7), other).await.ok(200);
    let node = world.until(&path(7), "told again", |node| says(node, "0")).await;
    assert_eq!(node["metadata"]["annotations"]["mine"], "stays");

    world.cluster.post(NODES, json!({"metadata": {"name": "n-100"}})).await.ok(201);
    world.until(&path(100), "one too many", |node| says(node, "15")).await;
    // The others hear of it when their kubelets report.
    assert!(says(&world.get(&path(3)).await, "0"));
    world.node_condition("n-3", "Ready", "True").await;
    world.until(&path(3), "told", |node| says(node, "15")).await;

    // Eleven go: ninety stay, and nothing changes. One more, and they are few again.
    for number in 90..101 {
        world.cluster.delete(path(number)).await.ok(200);
    }
    world.node_condition("n-3", "Ready", "False").await;
    world.pass(60).await;
    assert!(says(&world.get(&path(3)).await, "15"));
    world.cluster.delete(path(89)).await.ok(200);
    world.node_condition("n-3", "Ready", "True").await;
    world.until(&path(3), "told", |node| says(node, "0")).await;

    // Who begins anew comes to the same, and writes nothing that is right already.
    let before = world.get(&path(3)).await["metadata"]["resourceVersion"].clone();
    world.restart();
    world.pass(60).await;
    assert_eq!(world.get(&path(3)).await["metadata"]["resourceVersion"], before);
    world.end().await;
}
