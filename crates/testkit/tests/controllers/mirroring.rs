//! Endpoints of services without a selector are mirrored into slices, as long as the rules for it hold.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::nodes_and_pods::World;

const SERVICE: &str = "/api/v1/namespaces/default/services/db";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/db";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Ddb";
const CONTROLLERS: &[&str] =
    &["endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"];
const ALONE: &[&str] = &["endpointslice-mirroring-controller"];

async fn service(world: &World, spec: Value) -> Value {
    let service = json!({"metadata": {"name": "db"}, "spec": spec});
    world.cluster.post("/api/v1/namespaces/default/services", service).await.ok(201)
}

async fn endpoints(world: &World, ips: &[&str]) -> Value {
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let endpoints = json!({"metadata": {"name": "db", "labels": {"tier": "back"}, "annotations": {"who": "me"}},
        "subsets": [{"addresses": addresses, "ports": [{"name": "sql", "port": 5432}]}]});
    world.cluster.post("/api/v1/namespaces/default/endpoints", endpoints).await.ok(201)
}

fn plain() -> Value {
    json!({"ports": [{"name": "sql", "port": 5432}]})
}

/// (family, addresses) of the slices, sorted.
fn mirrored(slices: &Value) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let addresses = |slice: &Value| {
        let mut all: Vec<String> =
            slice["endpoints"].as_array().into_iter().flatten().map(|e| text(&e["addresses"][0])).collect();
        all.sort();
        all
    };
    let mut all: Vec<_> = slices["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slice| (text(&slice["addressType"]), addresses(slice)))
        .collect();
    all.sort();
    all
}

fn v4(ips: &[&str]) -> Vec<(String, Vec<String>)> {
    vec![("IPv4".to_owned(), ips.iter().map(|ip| (*ip).to_owned()).collect())]
}

fn none(slices: &Value) -> bool {
    mirrored(slices).is_empty()
}

#[tokio::test(start_paused = true)]
async fn custom_endpoints_are_mirrored_and_settle() {
    let mut world = World::new(411, CONTROLLERS).await;
    // The endpoints controller takes Endpoints without a service away, but only those it finds when it starts.
    world.pass(1).await;
    let made = endpoints(&world, &["10.1.0.1", "fd00::1"]).await;
    world.pass(2).await;
    assert!(none(&world.get(SLICES).await));
    service(&world, plain()).await;
    let both = |s: &Value| mirrored(s).len() == 2;
    let slices = world.until(SLICES, "both families", both).await;
    for slice in slices["items"].as_array().unwrap() {
        let metadata = &slice["metadata"];
        assert_eq!(
            metadata["labels"],
            json!({"tier": "back", "kubernetes.io/service-name": "db",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"})
        );
        assert_eq!(metadata["annotations"], json!({"who": "me"}));
        assert_eq!(metadata["generateName"], "db-");
        let owner = &metadata["ownerReferences"][0];
        let wanted = json!({"apiVersion": "v1", "kind": "Endpoints", "name": "db", "uid": made["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true});
        assert_eq!(owner, &wanted);
        assert_eq!(slice["ports"], json!([{"name": "sql", "port": 5432, "protocol": "TCP"}]));
        assert_eq!(slice["endpoints"][0]["conditions"], json!({"ready": true}));
    }

    // They follow, in the same slice.
    let name =
        slices["items"].as_array().unwrap().iter().find(|s| s["addressType"] == "IPv4").unwrap()["metadata"]
            ["name"]
            .clone();
    let subsets = json!([{"addresses": [{"ip": "10.1.0.2"}], "notReadyAddresses": [{"ip": "10.1.0.3"}],
        "ports": [{"name": "sql", "port": 5433}]}]);
    let patch = json!({"metadata": {"labels": {"tier": "front"}}, "subsets": subsets});
    world.cluster.merge(ENDPOINTS, patch).await.ok(200);
    let slices =
        world.until(SLICES, "the new addresses", |s| mirrored(s) == v4(&["10.1.0.2", "10.1.0.3"])).await;
    let slice = &slices["items"][0];
    assert_eq!((&slice["metadata"]["name"], &slice["ports"][0]["port"]), (&name, &json!(5433)));
    assert_eq!(slice["metadata"]["labels"]["tier"], "front");
    let unready =
        slice["endpoints"].as_array().unwrap().iter().find(|e| e["addresses"][0] == "10.1.0.3").unwrap();
    assert_eq!(unready["conditions"], json!({"ready": false}));

    // Changed or deleted slices are repaired.
    let path =
        format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{}", name.as_str().unwrap());
    world.cluster.merge(&path, json!({"endpoints": []})).await.ok(200);
    world.until(SLICES, "mended", |s| mirrored(s) == v4(&["10.1.0.2", "10.1.0.3"])).await;
    world.cluster.delete(&path).await.ok(200);
    world.until(SLICES, "made again", |s| mirrored(s) == v4(&["10.1.0.2", "10.1.0.3"])).await;

    // Steady state: nothing is written, nor by a controller that starts again.
    world.pass(5).await;
    let before = world.revision();
    world.pass(600).await;
    world.restart();
    world.pass(60).await;
    assert_eq!(world.revision(), before);

    // The service takes its Endpoints along, and these their mirrors.
    world.cluster.delete(SERVICE).await.ok(200);
    world.until(ENDPOINTS, "no endpoints", |e| e["code"] == 404).await;
    world.until(SLICES, "no mirrors", none).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn mirrored_slices_go_and_come_back_with_their_conditions() {
    let world = World::new(412, ALONE).await;
    service(&world, plain()).await;
    endpoints(&world, &["10.1.0.1"]).await;
    let there = |s: &Value| mirrored(s) == v4(&["10.1.0.1"]);
    world.until(SLICES, "mirrored", there).await;
    let label =
        |yes: Value| json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": yes}}});
    let leader =
        |who: Value| json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": who}}});
    let selector = |of: Value| json!({"spec": {"selector": of}});
    for (path, on, off) in [
        (ENDPOINTS, label(json!("true")), label(json!(null))),
        (ENDPOINTS, leader(json!("{}")), leader(json!(null))),
        (SERVICE, selector(json!({"app": "db"})), selector(json!(null))),
    ] {
        world.cluster.merge(path, on).await.ok(200);
        world.until(SLICES, "no mirrors", none).await;
        world.cluster.merge(path, off).await.ok(200);
        world.until(SLICES, "mirrored again", there).await;
    }
    // Endpoints of the same name made anew: the mirror becomes theirs.
    world.cluster.delete(ENDPOINTS).await.ok(200);
    world.until(SLICES, "no mirrors", none).await;
    let made = endpoints(&world, &["10.1.0.1"]).await;
    let slices = world.until(SLICES, "mirrored again", there).await;
    assert_eq!(slices["items"][0]["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);
    world.cluster.delete(SERVICE).await.ok(200);
    world.until(SLICES, "no mirrors", none).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn addresses_above_a_thousand_are_reported_and_the_kubernetes_endpoints_not_mirrored() {
    let world = World::new(413, ALONE).await;
    service(&world, plain()).await;
    let ips: Vec<String> = (0..1003).map(|i| format!("10.1.{}.{}", i / 200, i % 200 + 1)).collect();
    endpoints(&world, &ips.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world
        .until(SLICES, "a thousand", |s| mirrored(s).first().is_some_and(|(_, all)| all.len() == 1000))
        .await;
    world.pass(2).await;
    let want = "TooManyAddressesToMirror: A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. \
                3 addresses were skipped";
    let told = world.events().await;
    assert!(told.iter().any(|event| event == want), "{told:#?}");
    let own = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=endpointslice.kubernetes.io/managed-by%3D\
               endpointslicemirroring-controller.k8s.io,kubernetes.io/service-name%3Dkubernetes";
    assert!(none(&world.get(own).await));
    world.end().await;
}
