//! Garbage collection across servers: owners and dependents on either side, and servers that cannot be asked.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{ControlPlane, TestCluster};

use crate::aggregated_objects::flunder;
use crate::aggregated_server::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

async fn until(cluster: &TestCluster, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..10_000 {
        if holds().await {
            return;
        }
        cluster.env().sleep(Duration::from_millis(50)).await;
    }
    panic!("never happened: {what}");
}

/// Once the collector watches what that server serves.
async fn collecting(seed: u64) -> (TestCluster, AggregatedServer, ControlPlane) {
    let (cluster, server) = aggregating(seed).await;
    let plane = cluster.controllers(cluster.local_clients(), &["garbage-collector-controller"]);
    watched(&cluster, &server).await;
    (cluster, server, plane)
}

async fn watched(cluster: &TestCluster, server: &AggregatedServer) {
    let before = server.asked(&format!("{ROOT}/flunders?")).len();
    until(cluster, "its resources are watched", async || {
        let asked = server.asked(&format!("{ROOT}/flunders?"));
        asked[before..]
            .iter()
            .any(|asked| asked.uri.contains("watch=true&") && !asked.uri.contains("sendInitialEvents"))
    })
    .await;
}

async fn map(cluster: &TestCluster, name: &str, owners: Value) -> Value {
    cluster.post(MAPS, json!({"metadata": {"name": name, "ownerReferences": owners}})).await.ok(201)
}

/// Virtual time goes on when nobody has anything to do: whoever watches knows by then.
async fn heard(cluster: &TestCluster) {
    cluster.env().sleep(Duration::from_millis(1)).await;
}

async fn is_there(cluster: &TestCluster, name: &str) -> bool {
    cluster.get(&*format!("{MAPS}/{name}")).await.status == 200
}

async fn delete(cluster: &TestCluster, path: &str, policy: &str) {
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    cluster.request("DELETE", path).json(&body).send().await.ok(200);
}

fn owned_by(owner: &Value) -> Value {
    json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}])
}

#[tokio::test(start_paused = true)]
async fn an_owner_on_either_side_takes_its_dependents_with_it() {
    let (cluster, server, plane) = collecting(30).await;
    let flunders = server.objects();
    let root = map(&cluster, "root", json!([])).await;
    let leaf = flunders.put(flunder("leaf", owned_by(&root))).await;
    map(&cluster, "leafs", owned_by(&leaf)).await;
    flunders.put(flunder("other", json!([]))).await;
    delete(&cluster, &format!("{MAPS}/root"), "Background").await;
    until(&cluster, "both dependents are gone", async || {
        flunders.get("leaf").is_none() && !is_there(&cluster, "leafs").await
    })
    .await;
    assert!(flunders.get("other").is_some());
    let asked = server.asked(&format!("{FLUNDERS}/leaf"));
    assert!(asked.iter().all(|asked| asked.header("x-remote-user") == COLLECTOR && asked.by_proxy));
    assert_eq!(asked.last().map(|asked| asked.method.as_str()), Some("DELETE"));
    let reads =
        server.asked(&format!("{ROOT}/flunders?")).into_iter().chain(asked).filter(|a| a.method == "GET");
    for read in reads {
        assert!(read.header("accept").contains("as=PartialObjectMetadata"), "{read:?}");
    }
    // One of that server's that was there before the collector, and goes there.
    let owner = flunders.put(flunder("owner", json!([]))).await;
    map(&cluster, "owned", owned_by(&owner)).await;
    flunders.remove("owner").await;
    until(&cluster, "what it owned is gone", async || !is_there(&cluster, "owned").await).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn foreground_and_orphan_deletion_cross_servers() {
    let (cluster, server, plane) = collecting(31).await;
    let flunders = server.objects();
    // A built-in owner waits for a dependent of the other server.
    let root = map(&cluster, "root", json!([])).await;
    let mut held = flunder("held", owned_by(&root));
    held["metadata"]["finalizers"] = json!(["example.com/busy"]);
    flunders.put(held.clone()).await;
    delete(&cluster, &format!("{MAPS}/root"), "Foreground").await;
    until(&cluster, "the dependent is asked for", async || {
        server.asked(&format!("{FLUNDERS}/held")).iter().any(|asked| asked.method == "DELETE")
    })
    .await;
    until(&cluster, "the owner is gone", async || !is_there(&cluster, "root").await).await;
    assert!(flunders.get("held").is_none(), "the owner went last");
    // An owner of the other server waits for a built-in dependent.
    let owner = flunders.put(flunder("owner", json!([]))).await;
    map(&cluster, "owned", owned_by(&owner)).await;
    delete(&cluster, &format!("{FLUNDERS}/owner"), "Foreground").await;
    until(&cluster, "the owner is gone", async || flunders.get("owner").is_none()).await;
    assert!(!is_there(&cluster, "owned").await);
    // Dependents are let go of, by a merge patch: that server knows no other.
    let root = map(&cluster, "root", json!([])).await;
    flunders.put(flunder("kept", owned_by(&root))).await;
    heard(&cluster).await;
    delete(&cluster, &format!("{MAPS}/root"), "Orphan").await;
    until(&cluster, "the owner is gone", async || !is_there(&cluster, "root").await).await;
    let kept = flunders.get("kept").unwrap();
    assert_eq!((&kept["metadata"]["ownerReferences"], &kept["spec"]["reference"]), (&json!([]), &json!("x")));
    let owner = flunders.put(flunder("owner", json!([]))).await;
    map(&cluster, "kept", owned_by(&owner)).await;
    delete(&cluster, &format!("{FLUNDERS}/owner"), "Orphan").await;
    until(&cluster, "the owner is gone", async || flunders.get("owner").is_none()).await;
    assert!(cluster.get(&*format!("{MAPS}/kept")).await.ok(200)["metadata"]["ownerReferences"].is_null());
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_server_cannot_be_asked_is_not_taken_to_be_gone() {
    let (cluster, server, plane) = collecting(32).await;
    let flunders = server.objects();
    let owner = flunders.put(flunder("owner", json!([]))).await;
    map(&cluster, "owned", owned_by(&owner)).await;
    let lost = flunders.put(flunder("lost", json!([]))).await;
    server.set(Mode::Refuses);
    flunders.cut();
    condition(&cluster, API_SERVICE, "FailedDiscoveryCheck").await;
    // Nobody hears of it, and who is named by a new dependent cannot be asked.
    flunders.remove("lost").await;
    map(&cluster, "widow", owned_by(&lost)).await;
    let both = map(&cluster, "local", json!([])).await;
    let mut two = owned_by(&both);
    two.as_array_mut().unwrap().extend(owned_by(&owner).as_array().unwrap().clone());
    map(&cluster, "both", two).await;
    // Other kinds are collected meanwhile, at once.
    let root = map(&cluster, "root", json!([])).await;
    map(&cluster, "leaf", owned_by(&root)).await;
    let begun = cluster.env().monotonic();
    delete(&cluster, &format!("{MAPS}/root"), "Background").await;
    delete(&cluster, &format!("{MAPS}/local"), "Background").await;
    until(&cluster, "the leaf is gone", async || !is_there(&cluster, "leaf").await).await;
    assert!(cluster.env().monotonic() - begun < Duration::from_secs(2));
    cluster.env().sleep(Duration::from_secs(300)).await;
    for name in ["owned", "widow", "both"] {
        assert!(is_there(&cluster, name).await, "{name}");
    }
    server.set(Mode::Serves);
    condition(&cluster, API_SERVICE, "Passed").await;
    until(&cluster, "what lost its owner is gone", async || !is_there(&cluster, "widow").await).await;
    // The owner that is left is known to be there.
    until(&cluster, "the other lets go", async || {
        let both = cluster.get(&*format!("{MAPS}/both")).await.ok(200);
        both["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1)
    })
    .await;
    assert!(is_there(&cluster, "owned").await);
    // It is watched as before.
    flunders.remove("owner").await;
    until(&cluster, "its dependents are gone", async || {
        !is_there(&cluster, "owned").await && !is_there(&cluster, "both").await
    })
    .await;
    plane.stop().await;
    cluster.shutdown().await;
}
