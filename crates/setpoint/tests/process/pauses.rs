//! A server that is paused (SIGSTOP) and continued, like a machine that slept: connections, watches and leases survive.

use std::time::Duration;

use serde_json::Value;

use crate::harness::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

async fn node_is_ready(client: &kube::Client, name: &str) -> bool {
    let (_, node) = call(client, "GET", &format!("/api/v1/nodes/{name}"), None).await;
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// The lease's name and when it was last renewed.
async fn lease(client: &kube::Client) -> Option<(String, String)> {
    let (_, list) = call(client, "GET", LEASES, None).await;
    let lease = list["items"].as_array()?.first()?.clone();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some((text(&lease["metadata"]["name"])?, text(&lease["spec"]["renewTime"])?))
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_pause_connections_watches_and_leases_go_on() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut server = Proc::start_cluster(&data, &["--simulated-nodes", "1"]);
    let client = server.client().await;
    let (node, before) = until("a node with a lease", async || lease(&client).await).await;
    until("the node is ready", async || node_is_ready(&client, &node).await.then_some(())).await;
    let (_, list) = call(&client, "GET", MAPS, None).await;
    // Not the ConfigMap of the CA, which each namespace gets at some time.
    let selector = "fieldSelector=metadata.name%3Dmeanwhile";
    let path = format!("{MAPS}?watch=1&{selector}&resourceVersion={}", revision(&list));
    let mut watch = Watch::open(&client, &path).await.unwrap();
    // Leaves a connection to write on: one that is yet to be opened would not be waited for that long.
    call(&client, "GET", MAPS, None).await;

    server.signal("STOP");
    // Written while nobody listens; it waits in the connection.
    let writing = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "POST", MAPS, Some(config_map("meanwhile", "1"))).await }
    });
    // What passes is the time itself.
    tokio::time::sleep(Duration::from_secs(rounds(3, 60) as u64)).await;
    server.signal("CONT");

    let (code, made) = writing.await.unwrap();
    assert_eq!(code, 201, "{made}");
    let event = watch.next().await.unwrap().expect("the watch is still there");
    assert_eq!((event["type"].as_str(), revision(&event["object"])), (Some("ADDED"), revision(&made)));
    until("the lease is renewed", async || lease(&client).await.filter(|(_, at)| *at > before)).await;
    until("the node is ready", async || node_is_ready(&client, &node).await.then_some(())).await;
    assert!(server.ended_within(Duration::ZERO).is_none());
    server.stop();
}
