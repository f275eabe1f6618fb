//! Devices of simulated nodes: published, taken away, waited for, and spoken about.

use std::time::Duration;

use env::Env;
use plane::{ControllerSelection, Plane, Settings};
use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{EVENTS, PODS, items, pass, steady, until};
use crate::device_steps::{self, Uses, add_class, claims_of};
use crate::device_taints::{CLAIMS, SLICES};
use crate::scheduling_devices::held;

const NODE: &str = "/api/v1/nodes/sim-0";

/// Simulated nodes beside these controllers.
fn start(cluster: &TestCluster, names: &[&str], nodes: node::simulated::Settings) -> Plane {
    let words = ["-*"].iter().chain(names).map(|word| (*word).to_owned()).collect();
    let choice = ControllerSelection::new(words).expect("known names");
    let settings = Settings { nodes: Some(nodes), choice, ..Settings::default() };
    Plane::start(cluster.env(), cluster.local_clients(), &settings)
}

async fn annotate(cluster: &TestCluster, name: &str, value: Json) {
    let annotations = json!({format!("sim.setpoint.dev/{name}"): value});
    cluster.merge(NODE, json!({"metadata": {"annotations": annotations}})).await.ok(200);
}

fn count(wanted: usize) -> impl Fn(&Json) -> bool {
    move |list| list["items"].as_array().is_some_and(|items| items.len() == wanted)
}

fn devices(list: &Json) -> Vec<String> {
    let slices = list["items"].as_array().expect("a list").iter();
    let devices = slices.flat_map(|slice| slice["spec"]["devices"].as_array().cloned().unwrap_or_default());
    devices.map(|device| device["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_publishes_its_devices_and_they_go_with_it() {
    let cluster = TestCluster::with(Env::simulated(81), |_| {}).await;
    let nodes = node::simulated::Settings { devices: "1".to_owned(), ..testkit::nodes(2) };
    let plane = start(&cluster, &["garbage-collector-controller"], nodes);
    let all = until(&cluster, SLICES, "a slice of each node", count(2)).await;
    let slice = &all["items"][0];
    assert_eq!(slice["spec"]["driver"], "simulated.setpoint.dev");
    assert_eq!(
        (&slice["spec"]["nodeName"], &slice["spec"]["pool"]["name"]),
        (&json!("sim-0"), &json!("sim-0"))
    );
    assert_eq!(slice["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_eq!(devices(&all), ["device-0", "device-0"]);
    // More, of another kind; with counters they share.
    let counters = |value: &str| json!({"memory": {"value": value}});
    let spec = json!({"sharedCounters": [{"name": "card", "counters": counters("8Gi")}],
        "devices": [{"name": "gpu", "count": 2, "attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "4096Mi"}},
            "consumesCounters": [{"counterSet": "card", "counters": counters("4Gi")}]}]});
    annotate(&cluster, "devices", json!(spec.to_string())).await;
    let all = until(&cluster, SLICES, "counters", count(3)).await;
    assert_eq!(devices(&all), ["gpu-0", "gpu-1", "device-0"]);
    let of_node: Vec<&Json> = all["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|s| s["spec"]["nodeName"] == "sim-0")
        .collect();
    for slice in &of_node {
        assert_eq!(slice["spec"]["pool"], json!({"name": "sim-0", "generation": 2, "resourceSliceCount": 2}));
    }
    annotate(&cluster, "device-taints", json!("gpu-1:broken:NoExecute")).await;
    let tainted = |slice: &Json| slice["spec"]["devices"][1]["taints"][0]["key"] == "broken";
    let path = format!("{SLICES}/{}", of_node[1]["metadata"]["name"].as_str().expect("a name"));
    let slice = until(&cluster, &path, "the taint", tainted).await;
    assert_eq!(
        slice["spec"]["pool"]["generation"], 2,
        "the same devices: nobody need look at all of them again"
    );
    steady(&cluster).await;
    annotate(&cluster, "devices", json!("0")).await;
    until(&cluster, SLICES, "the other node's only", count(1)).await;
    annotate(&cluster, "devices", json!(null)).await;
    until(&cluster, SLICES, "what all nodes have", count(2)).await;
    cluster.delete(NODE).await.ok(200);
    until(&cluster, SLICES, "the other node's only", count(1)).await;
    plane.stop().await;
    cluster.shutdown().await;
}

fn claim(name: &str) -> Json {
    let request = json!({"name": "one", "exactly": {"deviceClassName": "gpu"}});
    json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
}

async fn allocate(cluster: &TestCluster, name: &str, pod: Option<&Json>, more: Json) {
    let mut result =
        json!({"request": "one", "driver": "simulated.setpoint.dev", "pool": "sim-0", "device": "device-0"});
    for (member, value) in more.as_object().expect("members") {
        result[member] = value.clone();
    }
    let now = object::time::format_seconds(cluster.env().now_seconds() as i64);
    let mut status = json!({"allocation": {"allocationTimestamp": now, "devices": {"results": [result]}}});
    if let Some(pod) = pod {
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        status["reservedFor"] = json!([{"resource": "pods", "name": name, "uid": uid}]);
    }
    cluster.merge(format!("{CLAIMS}/{name}/status"), json!({"status": status})).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_its_claim_is_allocated_and_reserved_for_it() {
    let cluster = TestCluster::with(Env::simulated(82), |_| {}).await;
    let plane = start(&cluster, &[], testkit::nodes(1));
    until(&cluster, NODE, "the node", |node| node["status"].is_object()).await;
    annotate(&cluster, "device-status", json!(r#"{"data": {"port": 1}}"#)).await;
    cluster.post(CLAIMS, claim("c")).await.ok(201);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "sim-0",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]}});
    let pod = cluster.post(PODS, pod).await.ok(201);
    let told = |list: &Json| {
        let events = list["items"].as_array().expect("a list");
        events.iter().any(|event| event["reason"] == "FailedPrepareDynamicResources")
    };
    let events = until(&cluster, EVENTS, "why it waits", told).await;
    let claim = cluster.get(format!("{CLAIMS}/c")).await.ok(200);
    let (uid, claim_uid) = (&pod["metadata"]["uid"], &claim["metadata"]["uid"]);
    let why = format!(
        "Failed to prepare dynamic resources: prepare dynamic resources: pod p ({}) is not allowed to use ResourceClaim c ({})",
        uid.as_str().expect("a uid"),
        claim_uid.as_str().expect("a uid")
    );
    assert_eq!(events["items"].as_array().expect("a list").last().expect("one")["message"], why);
    let waiting = cluster.get(format!("{PODS}/p")).await.ok(200);
    assert_eq!(waiting["status"]["phase"], "Pending");
    assert_eq!(
        waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating",
        "{waiting:#}"
    );
    allocate(&cluster, "c", Some(&pod), json!({})).await;
    let running =
        until(&cluster, &format!("{PODS}/p"), "its start", |pod| pod["status"]["phase"] == "Running").await;
    let health = json!([{"name": "claim:gpu", "resources": [
        {"resourceID": "simulated.setpoint.dev/sim-0/device-0", "health": "Unknown"}]}]);
    assert_eq!(running["status"]["containerStatuses"][0]["allocatedResourcesStatus"], health);
    // The driver says how the device is.
    let said = |claim: &Json| claim["status"]["devices"][0]["conditions"][0]["type"] == "Ready";
    let claim = until(&cluster, &format!("{CLAIMS}/c"), "device status", said).await;
    assert_eq!(claim["status"]["devices"][0]["data"], json!({"port": 1}));
    steady(&cluster).await;
    // One that waits can be deleted.
    cluster.post(CLAIMS, self::claim("d")).await.ok(201);
    let mut other = json!({"metadata": {"name": "q"}, "spec": pod["spec"]});
    other["spec"]["resourceClaims"][0]["resourceClaimName"] = json!("d");
    cluster.post(PODS, other).await.ok(201);
    pass(&cluster, 5).await;
    cluster.delete(format!("{PODS}/q")).await.ok(200);
    until(&cluster, &format!("{PODS}/q"), "its end", |pod| pod["code"] == 404).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn binding_conditions_come_true_after_the_time_the_node_says() {
    let cluster = TestCluster::with(Env::simulated(83), |_| {}).await;
    let plane = start(&cluster, &[], testkit::nodes(1));
    until(&cluster, NODE, "the node", |node| node["status"].is_object()).await;
    annotate(&cluster, "binding-seconds", json!("30")).await;
    let conditions = json!({"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]});
    for (name, failed) in [("good", false), ("bad", true)] {
        annotate(&cluster, "binding-failure", if failed { json!("true") } else { json!(null) }).await;
        cluster.env().sleep(Duration::from_secs(1)).await;
        cluster.post(CLAIMS, claim(name)).await.ok(201);
        allocate(&cluster, name, None, conditions.clone()).await;
        pass(&cluster, 20).await;
        let path = format!("{CLAIMS}/{name}");
        assert!(cluster.get(&path).await.ok(200)["status"].get("devices").is_none());
        let said = |claim: &Json| claim["status"]["devices"][0]["conditions"].is_array();
        let claim = until(&cluster, &path, "the conditions", said).await;
        let condition = &claim["status"]["devices"][0]["conditions"][0];
        let wanted = if failed { "Failed" } else { "Attached" };
        assert_eq!((&condition["type"], &condition["status"]), (&json!(wanted), &json!("True")));
    }
    assert_eq!(items(&cluster, CLAIMS).await.len(), 2);
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// Everything there is, and a class for the devices of the only node.
async fn whole(seed: u64, devices: &str) -> (TestCluster, Plane) {
    let cluster = TestCluster::with(Env::simulated(seed), |_| {}).await;
    let nodes = node::simulated::Settings { devices: devices.to_owned(), ..testkit::nodes(1) };
    let settings = Settings { nodes: Some(nodes), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    add_class(&cluster).await;
    let (collection, template) = Uses::Template.beside("default", "own").expect("a template");
    cluster.post(collection, template).await.ok(201);
    until(&cluster, SLICES, "devices", count(1)).await;
    (cluster, plane)
}

fn user(name: &str, uses: Uses) -> Json {
    let mut spec = json!({"containers": [{"name": "c", "image": "web"}]});
    uses.add_to(&mut spec, "own");
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn running(cluster: &TestCluster, name: &str) -> Json {
    until(cluster, &format!("{PODS}/{name}"), "its start", |pod| pod["status"]["phase"] == "Running").await
}

/// The claim of a pod with one.
async fn its_claim(cluster: &TestCluster, pod: &Json) -> Json {
    let names = claims_of(pod);
    assert_eq!(names.len(), 1, "{pod:#}");
    cluster.get(format!("{CLAIMS}/{}", names[0])).await.ok(200)
}

#[tokio::test(start_paused = true)]
async fn a_device_goes_from_pod_to_pod() {
    let (cluster, plane) = whole(84, "1").await;
    let device = [("sim-0".to_owned(), "device-0".to_owned())];
    cluster.post(PODS, user("a", Uses::Template)).await.ok(201);
    let a = running(&cluster, "a").await;
    assert_eq!(held(&its_claim(&cluster, &a).await), device);
    let health = &a["status"]["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"][0];
    assert_eq!(health["resourceID"], "simulated.setpoint.dev/sim-0/device-0");
    // One that ends, one that asks for a resource, and one for a claim: each when it is its turn.
    let mut b = user("b", Uses::Template);
    b["spec"]["restartPolicy"] = json!("Never");
    b["spec"]["containers"][0]["command"] = json!(["sleep", "30"]);
    cluster.post(PODS, b).await.ok(201);
    pass(&cluster, 60).await;
    assert!(cluster.get(format!("{PODS}/b")).await.ok(200)["spec"].get("nodeName").is_none());
    cluster.delete(format!("{PODS}/a")).await.ok(200);
    let b = running(&cluster, "b").await;
    assert_eq!(held(&its_claim(&cluster, &b).await), device);
    cluster.post(PODS, user("c", Uses::Extended)).await.ok(201);
    let c = running(&cluster, "c").await;
    assert_eq!(cluster.get(format!("{PODS}/b")).await.ok(200)["status"]["phase"], "Succeeded");
    let claim = its_claim(&cluster, &c).await;
    assert_eq!(held(&claim), device);
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"], "true");
    cluster.post(PODS, user("d", Uses::Template)).await.ok(201);
    pass(&cluster, 60).await;
    assert!(cluster.get(format!("{PODS}/d")).await.ok(200)["spec"].get("nodeName").is_none());
    cluster.delete(format!("{PODS}/c")).await.ok(200);
    running(&cluster, "d").await;
    steady(&cluster).await;
    let (pods, claims) = (items(&cluster, PODS).await, items(&cluster, CLAIMS).await);
    device_steps::devices_are_in_use(&pods, &claims, "from pod to pod");
    assert_eq!(claims.len(), 1);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_when_its_node_has_attached_the_device() {
    let devices =
        r#"[{"name": "nic", "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}]"#;
    let (cluster, plane) = whole(85, devices).await;
    for (name, uses) in [("own", Uses::Template), ("extended", Uses::Extended)] {
        annotate(&cluster, "binding-seconds", json!("30")).await;
        cluster.post(PODS, user(name, uses)).await.ok(201);
        let path = format!("{PODS}/{name}");
        let chosen = |pod: &Json| pod["status"]["nominatedNodeName"] == "sim-0";
        until(&cluster, &path, "a node that may be its", chosen).await;
        // Nothing is heard of the device until the node is back.
        annotate(&cluster, "silent", json!("true")).await;
        pass(&cluster, 40).await;
        let waits = cluster.get(&path).await.ok(200);
        assert!(waits["spec"].get("nodeName").is_none(), "{waits:#}");
        annotate(&cluster, "silent", json!(null)).await;
        pass(&cluster, 5).await;
        let pod = running(&cluster, name).await;
        let claim = its_claim(&cluster, &pod).await;
        assert_eq!(claim["status"]["devices"][0]["conditions"][0]["type"], "Attached");
        // One that cannot be attached is given back, and tried again.
        cluster.delete(&path).await.ok(200);
        until(&cluster, CLAIMS, "no claim", count(0)).await;
        annotate(&cluster, "binding-seconds", json!(null)).await;
        annotate(&cluster, "binding-failure", json!("true")).await;
        let other = format!("other-{name}");
        cluster.post(PODS, user(&other, uses)).await.ok(201);
        let scheduled = |pod: &Json| pod["status"]["conditions"][0].clone();
        let failed = |pod: &Json| scheduled(pod)["reason"] == "SchedulerError";
        let pod = until(&cluster, &format!("{PODS}/{other}"), "why it is not bound", failed).await;
        let message = scheduled(&pod)["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("device binding failed: claim="), "{message}");
        annotate(&cluster, "binding-failure", json!(null)).await;
        running(&cluster, &other).await;
        cluster.delete(format!("{PODS}/{other}")).await.ok(200);
        until(&cluster, CLAIMS, "no claim", count(0)).await;
    }
    let timeout = |event: &Json| event["message"].as_str().is_some_and(|text| text.contains("timeout"));
    assert!(!items(&cluster, EVENTS).await.iter().any(timeout));
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}
