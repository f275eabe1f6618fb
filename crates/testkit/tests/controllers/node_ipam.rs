//! Every node gets pod CIDRs, keeps them, and gives them back when it goes.

use std::collections::BTreeSet;

use controllers::{Cidr, MaskSizes, NodeIpam, Settings};
use serde_json::{Value, json};
use testkit::{ControlPlane, TestCluster};

const NODES: &str = "/api/v1/nodes";

fn start(cluster: &TestCluster, clusters: &str, sizes: MaskSizes) -> ControlPlane {
    let services = Cidr::parse("10.96.0.0/16").into_iter().collect();
    let ipam = NodeIpam::new(clusters, sizes, services).expect("it fits");
    let settings = Settings { node_ipam: Some(ipam), ..Settings::default() };
    cluster.controllers_with(&["node-ipam-controller"], settings)
}

async fn make(cluster: &TestCluster, name: &str) {
    cluster.post(NODES, json!({"metadata": {"name": name}})).await.ok(201);
}

async fn cidrs(cluster: &TestCluster, name: &str) -> Value {
    let path = format!("{NODES}/{name}");
    let has = || async { cluster.get(&*path).await.json()["spec"]["podCIDRs"].is_array() };
    cluster.until("the node has pod CIDRs", has).await;
    let node = cluster.get(path).await.json();
    assert_eq!(node["spec"]["podCIDR"], node["spec"]["podCIDRs"][0]);
    node["spec"]["podCIDRs"].clone()
}

#[tokio::test(start_paused = true)]
async fn every_node_gets_a_block_of_each_family() {
    let cluster = TestCluster::simulated(901).await;
    let plane = start(&cluster, "10.96.0.0/12,fd00:10::/56", MaskSizes::default());
    make(&cluster, "a").await;
    assert_eq!(cidrs(&cluster, "a").await, json!(["10.97.0.0/24", "fd00:10::/64"]), "not of the services");
    make(&cluster, "b").await;
    assert_eq!(cidrs(&cluster, "b").await, json!(["10.97.1.0/24", "fd00:10:0:1::/64"]));
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_block_is_given_twice_across_restarts_and_one_of_a_deleted_node_is_free() {
    let cluster = TestCluster::simulated(902).await;
    let sizes = MaskSizes { any: Some(26), ..MaskSizes::default() };
    let mut plane = start(&cluster, "10.244.0.0/24", sizes);
    let mut given = BTreeSet::new();
    for name in ["a", "b"] {
        make(&cluster, name).await;
        given.insert(cidrs(&cluster, name).await.to_string());
    }
    plane.kill();
    // Those it knows from before come with those it must serve.
    for name in ["0-first", "c"] {
        make(&cluster, name).await;
    }
    plane = start(&cluster, "10.244.0.0/24", sizes);
    for name in ["0-first", "c"] {
        given.insert(cidrs(&cluster, name).await.to_string());
    }
    assert_eq!(given.len(), 4, "{given:?}");

    // All are given: the next waits, and people are told.
    make(&cluster, "late").await;
    let told = || async {
        let events = cluster.get("/api/v1/namespaces/default/events").await.json();
        let events = events["items"].as_array().cloned().unwrap_or_default();
        events.iter().any(|event| {
            event["reason"] == "CIDRNotAvailable"
                && event["message"] == "Node late status is now: CIDRNotAvailable"
                && event["source"]["component"] == "cidrAllocator"
        })
    };
    cluster.until("people are told that there is no block left", told).await;
    let freed = cidrs(&cluster, "b").await;
    cluster.delete(format!("{NODES}/b")).await.ok(200);
    assert_eq!(cidrs(&cluster, "late").await, freed);
    plane.stop().await;
    cluster.shutdown().await;
}
