//! Endpoints and EndpointSlices follow pods and services, and settle.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::nodes_and_pods::{PODS, World};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const WEB: &str = "/api/v1/namespaces/default/endpoints/web";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";
const CONTROLLERS: &[&str] = &["endpoints-controller", "endpointslice-controller"];

async fn world(seed: u64) -> World {
    let world = World::new(seed, CONTROLLERS).await;
    world.node("n", json!({"topology.kubernetes.io/zone": "z"})).await;
    world
}

async fn service(world: &World, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": "web", "labels": {"tier": "front"}}, "spec": {
        "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    world.cluster.post(SERVICES, service).await.ok(201)
}

/// (address, ready, serving, terminating) of all endpoints of all slices, sorted.
fn endpoints(slices: &Value) -> Vec<(String, bool, bool, bool)> {
    let items = slices["items"].as_array().unwrap().iter();
    let all = items.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let mut all: Vec<_> = all
        .map(|e| {
            let is = |name: &str| e["conditions"][name].as_bool().unwrap();
            (e["addresses"][0].as_str().unwrap().to_owned(), is("ready"), is("serving"), is("terminating"))
        })
        .collect();
    all.sort();
    all
}

fn up(ip: &str) -> (String, bool, bool, bool) {
    (ip.to_owned(), true, true, false)
}

/// Addresses of an Endpoints object: ready, and not.
fn addresses(endpoints: &Value) -> (Vec<String>, Vec<String>) {
    let of = |name: &str| {
        let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
        let lists = subsets.iter().flat_map(|s| s[name].as_array().cloned().unwrap_or_default());
        lists.map(|a| a["ip"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    (of("addresses"), of("notReadyAddresses"))
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_pods_and_services_and_settle() {
    let world = world(401).await;
    world.pod("a", "n", "10.0.0.1").await;
    let made = service(&world, json!({})).await;

    let slices = world.until(SLICES, "one endpoint", |s| endpoints(s) == [up("10.0.0.1")]).await;
    let slice = &slices["items"][0];
    assert_eq!(slices["items"].as_array().unwrap().len(), 1);
    assert!(slice["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_eq!(slice["metadata"]["generateName"], "web-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"tier": "front", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    let owner = &slice["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&made["metadata"]["uid"], &json!(true)));
    assert_eq!(
        slice["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"],
        made["metadata"]["creationTimestamp"]
    );
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    let endpoint = &slice["endpoints"][0];
    assert_eq!((&endpoint["nodeName"], &endpoint["zone"]), (&json!("n"), &json!("z")));
    assert_eq!(endpoint["targetRef"]["kind"], "Pod");
    assert_eq!(endpoint["targetRef"]["name"], "a");

    let old = world.until(WEB, "one address", |e| addresses(e).0 == ["10.0.0.1"]).await;
    assert_eq!(
        old["metadata"]["labels"],
        json!({"tier": "front", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    assert_eq!(old["subsets"][0]["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));

    // Not ready, ready again, a second one, and it goes gracefully.
    world.ready("a", false).await;
    let unready = [("10.0.0.1".to_owned(), false, false, false)];
    world.until(SLICES, "not ready", |s| endpoints(s) == unready).await;
    world.until(WEB, "not ready", |e| addresses(e) == (vec![], vec!["10.0.0.1".to_owned()])).await;
    world.ready("a", true).await;
    world.pod("b", "n", "10.0.0.2").await;
    world.until(SLICES, "two", |s| endpoints(s) == [up("10.0.0.1"), up("10.0.0.2")]).await;
    world.until(WEB, "two", |e| addresses(e).0 == ["10.0.0.1", "10.0.0.2"]).await;
    world.cluster.delete(format!("{PODS}/b")).await.ok(200);
    let going = [up("10.0.0.1"), ("10.0.0.2".to_owned(), false, true, true)];
    world.until(SLICES, "terminating", |s| endpoints(s) == going).await;
    world.until(WEB, "one", |e| addresses(e) == (vec!["10.0.0.1".to_owned()], vec![])).await;
    world.cluster.delete(format!("{PODS}/b?gracePeriodSeconds=0")).await.ok(200);
    world.until(SLICES, "gone", |s| endpoints(s) == [up("10.0.0.1")]).await;

    // The service changes: its labels, its ports.
    let path = format!("{SERVICES}/web");
    world.cluster.merge(&path, json!({"metadata": {"labels": {"tier": "back"}}})).await.ok(200);
    world.until(SLICES, "labels", |s| s["items"][0]["metadata"]["labels"]["tier"] == "back").await;
    world.until(WEB, "labels", |e| e["metadata"]["labels"]["tier"] == "back").await;
    let name = slice["metadata"]["name"].clone();
    let ports = json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 9090}]}});
    world.cluster.merge(&path, ports).await.ok(200);
    let slices = world.until(SLICES, "ports", |s| s["items"][0]["ports"][0]["port"] == 9090).await;
    assert_eq!(slices["items"][0]["metadata"]["name"], name, "the slice is used again");
    world.until(WEB, "ports", |e| e["subsets"][0]["ports"][0]["port"] == 9090).await;

    // Steady state: nothing is written.
    world.pass(5).await;
    let before = world.revision();
    world.pass(600).await;
    assert_eq!(world.revision(), before);

    world.cluster.delete(path).await.ok(200);
    world.until(WEB, "no endpoints", |e| e["code"] == 404).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn changed_slices_are_repaired() {
    let world = world(402).await;
    world.pod("a", "n", "10.0.0.1").await;
    service(&world, json!({})).await;
    let slices = world.until(SLICES, "one endpoint", |s| endpoints(s) == [up("10.0.0.1")]).await;
    let name = slices["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{name}");
    world.cluster.merge(&path, json!({"endpoints": []})).await.ok(200);
    world.until(SLICES, "mended", |s| endpoints(s) == [up("10.0.0.1")]).await;
    world.cluster.delete(&path).await.ok(200);
    world.until(SLICES, "made again", |s| endpoints(s) == [up("10.0.0.1")]).await;
    world.cluster.delete(WEB).await.ok(200);
    world.until(WEB, "made again", |e| addresses(e).0 == ["10.0.0.1"]).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn headless_services_and_not_ready_addresses_are_published() {
    let world = world(403).await;
    let spec = json!({"hostname": "first", "subdomain": "web"});
    world.pod_of("a", "n", "10.0.0.1", json!({"app": "web"}), spec).await;
    world.ready("a", false).await;
    service(&world, json!({"clusterIP": "None", "publishNotReadyAddresses": true})).await;
    let published = [("10.0.0.1".to_owned(), true, false, false)];
    let slices = world.until(SLICES, "published", |s| endpoints(s) == published).await;
    let slice = &slices["items"][0];
    assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(slice["endpoints"][0]["hostname"], "first");
    let old = world.until(WEB, "published", |e| addresses(e).0 == ["10.0.0.1"]).await;
    assert_eq!(old["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(old["subsets"][0]["addresses"][0]["hostname"], "first");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_without_pods_has_one_empty_slice_and_a_pod_without_a_node_waits_for_it() {
    let world = world(404).await;
    service(&world, json!({"trafficDistribution": "PreferSameNode"})).await;
    let empty = |s: &Value| s["items"].as_array().unwrap().len() == 1 && endpoints(s).is_empty();
    world.until(SLICES, "a placeholder", empty).await;
    world.pod("a", "later", "10.0.0.1").await;
    world.pass(2).await;
    assert!(empty(&world.get(SLICES).await));
    world.node("later", json!({"topology.kubernetes.io/zone": "y"})).await;
    let slices = world.until(SLICES, "its node is there", |s| endpoints(s) == [up("10.0.0.1")]).await;
    let hints = &slices["items"][0]["endpoints"][0]["hints"];
    assert_eq!(hints, &json!({"forZones": [{"name": "y"}], "forNodes": [{"name": "later"}]}));
    let told = world.events().await;
    let want = "FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service default/web: skipping Pod a for \
                Service default/web: Node later Not Found";
    assert!(told.iter().any(|event| event == want), "{told:#?}");
    // Without a selector nobody touches them.
    let path = format!("{SERVICES}/web");
    world
        .cluster
        .merge(&path, json!({"spec": {"selector": null, "trafficDistribution": null}}))
        .await
        .ok(200);
    world.pass(2).await;
    assert_eq!(endpoints(&world.get(SLICES).await), [up("10.0.0.1")]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_pods_fill_slices_of_a_hundred_and_a_restart_changes_nothing() {
    let mut world = world(405).await;
    service(&world, json!({})).await;
    for i in 0..230 {
        world.pod(&format!("p{i:03}"), "n", &format!("10.0.{}.{}", i / 200, i % 200 + 1)).await;
    }
    let slices = world.until(SLICES, "all", |s| endpoints(s).len() == 230).await;
    let mut sizes: Vec<usize> = slices["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slice| slice["endpoints"].as_array().unwrap().len())
        .collect();
    sizes.sort();
    assert_eq!(sizes, [30, 100, 100]);
    world.until(WEB, "all", |e| addresses(e).0.len() == 230).await;
    world.pass(5).await;
    let before = world.revision();
    world.restart();
    world.pass(60).await;
    assert_eq!(world.revision(), before, "a controller that restarts finds nothing to do");
    world.end().await;
}

/// For which zones the endpoints are, in the order of their addresses.
fn zones(slices: &Value) -> Vec<String> {
    let items = slices["items"].as_array().unwrap().iter();
    let all = items.flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    let zone = |e: &Value| e["hints"]["forZones"][0]["name"].as_str().unwrap_or("").to_owned();
    let mut all: Vec<_> = all.map(|e| (e["addresses"][0].to_string(), zone(&e))).collect();
    all.sort();
    all.into_iter().map(|(_, zone)| zone).collect()
}

#[tokio::test(start_paused = true)]
async fn topology_mode_auto_shares_endpoints_out_by_the_cpu_of_the_zones() {
    let world = World::new(406, CONTROLLERS).await;
    let node = async |name: &str, zone: &str| {
        world.node(name, json!({"topology.kubernetes.io/zone": zone})).await;
        let cpu = json!({"status": {"allocatable": {"cpu": "4"}}});
        world.cluster.merge(format!("/api/v1/nodes/{name}/status"), cpu).await.ok(200);
    };
    node("a1", "a").await;
    for (i, name) in ["p0", "p1", "p2", "p3"].into_iter().enumerate() {
        world.pod(name, "a1", &format!("10.0.0.{}", i + 1)).await;
    }
    service(&world, json!({})).await;
    world.until(SLICES, "four", |s| endpoints(s).len() == 4).await;
    let path = format!("{SERVICES}/web");
    let mode =
        |mode: Value| json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": mode}}});
    world.cluster.merge(&path, mode(json!("Auto"))).await.ok(200);
    world.pass(2).await;
    assert_eq!(zones(&world.get(SLICES).await), ["", "", "", ""]);
    let reasons = async |reason: &str| -> Vec<String> {
        let told = world.events().await;
        told.into_iter().filter(|event| event.starts_with(reason)).collect()
    };
    assert_eq!(
        reasons("TopologyAwareHintsDisabled").await,
        [
            "TopologyAwareHintsDisabled: Insufficient Node information: allocatable CPU or zone not specified on one or more \
          nodes, addressType: IPv4"
        ]
    );

    // A second zone as strong as the first gets half of them; the nodes alone make that happen.
    node("b1", "b").await;
    world.until(SLICES, "half each", |s| zones(s) == ["b", "b", "a", "a"]).await;
    world.pass(2).await;
    assert_eq!(
        reasons("TopologyAwareHintsEnabled").await,
        ["TopologyAwareHintsEnabled: Topology Aware Hints has been enabled, addressType: IPv4"]
    );

    // A node that is no longer ready has no share.
    world.node_condition("b1", "Ready", "False").await;
    world.until(SLICES, "no hints", |s| zones(s) == ["", "", "", ""]).await;
    world.node_condition("b1", "Ready", "True").await;
    world.until(SLICES, "half each", |s| zones(s) == ["b", "b", "a", "a"]).await;

    // Steady state: nothing is written.
    world.pass(5).await;
    let before = world.revision();
    world.pass(600).await;
    assert_eq!(world.revision(), before);

    world.cluster.merge(&path, mode(json!(null))).await.ok(200);
    world.until(SLICES, "no hints", |s| zones(s) == ["", "", "", ""]).await;
    world.pass(2).await;
    let last =
        "TopologyAwareHintsDisabled: Topology Aware Hints has been disabled, addressType: IPv4".to_owned();
    assert!(reasons("TopologyAwareHintsDisabled").await.contains(&last));
    world.end().await;
}
