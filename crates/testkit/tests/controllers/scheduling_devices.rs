//! Pods with resource claims on a whole server: devices are allocated, reserved and given back. The test plays the drivers.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{ControlPlane, TestCluster};

use crate::scheduling::{Running, add_node, get_pod, start_with, until};

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const DRIVER: &str = "gpu.example.com";
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// All devices of the driver.
pub async fn add_class(cluster: &TestCluster, name: &str, more: Value) {
    let mut spec = json!({"selectors": [{"cel": {"expression": format!("device.driver == '{DRIVER}'")}}]});
    spec.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
    cluster.post(CLASSES, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
}

/// The devices of one node, a pool of their own.
pub async fn add_slice(cluster: &TestCluster, node: &str, devices: Value, more: Value) {
    let mut spec = json!({"driver": DRIVER, "nodeName": node, "devices": devices,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}});
    spec.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
    cluster.post(SLICES, json!({"metadata": {"name": format!("{node}-gpus")}, "spec": spec})).await.ok(201);
}

pub fn plain_devices(count: usize) -> Value {
    (0..count).map(|n| json!({"name": format!("gpu-{n}")})).collect()
}

pub async fn add_claim(cluster: &TestCluster, name: &str, requests: Value) -> Value {
    let spec = json!({"devices": {"requests": requests}});
    cluster.post(CLAIMS, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201)
}

pub fn one(class: &str) -> Value {
    json!([{"name": "gpu", "exactly": {"deviceClassName": class}}])
}

pub fn with_claim(name: &str, claim: &str) -> Value {
    pod(name, json!([{"name": "gpu", "resourceClaimName": claim}]))
}

fn pod(name: &str, claims: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"resourceClaims": claims,
        "containers": [{"name": "c", "image": "web", "resources": {"claims": [{"name": "gpu"}]}}]}})
}

pub fn on(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or("")
}

pub fn said(pod: &Value) -> (&str, &str) {
    let conditions = pod["status"]["conditions"].as_array();
    let scheduled = conditions.and_then(|all| all.iter().find(|c| c["type"] == "PodScheduled"));
    let of = |member: &str| scheduled.and_then(|c| c[member].as_str()).unwrap_or("");
    (of("reason"), of("message"))
}

pub async fn claim(cluster: &TestCluster, name: &str) -> Value {
    cluster.get(format!("{CLAIMS}/{name}")).await.json()
}

/// Pool and device of everything a claim has.
pub fn held(claim: &Value) -> Vec<(String, String)> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    results.iter().map(|result| (text(&result["pool"]), text(&result["device"]))).collect()
}

pub async fn messages(cluster: &TestCluster, reason: &str) -> Vec<String> {
    cluster.env().sleep(Duration::from_millis(100)).await;
    let events = cluster.get("/api/v1/namespaces/default/events").await.json();
    let all = events["items"].as_array().cloned().unwrap_or_default();
    let of = all.iter().filter(|e| e["reason"] == reason);
    of.map(|e| e["message"].as_str().unwrap_or("").to_owned()).collect()
}

pub async fn pause(cluster: &TestCluster, seconds: u64) {
    cluster.env().sleep(Duration::from_secs(seconds)).await;
}

/// One class, and so many devices on each of these nodes.
pub async fn cluster_with(seed: u64, nodes: &[(&str, usize)]) -> TestCluster {
    let cluster = TestCluster::simulated(seed).await;
    for (node, devices) in nodes {
        add_node(&cluster, node, json!({})).await;
        if *devices > 0 {
            add_slice(&cluster, node, plain_devices(*devices), json!({})).await;
        }
    }
    add_class(&cluster, "gpu", json!({})).await;
    cluster
}

async fn begin(seed: u64, nodes: &[(&str, usize)]) -> (TestCluster, Running) {
    let cluster = cluster_with(seed, nodes).await;
    let running = start_with(&cluster, &*cluster.local_clients());
    (cluster, running)
}

pub async fn end(cluster: TestCluster, running: Running) {
    running.stop().await;
    cluster.shutdown().await;
}

fn claim_controller(cluster: &TestCluster) -> ControlPlane {
    cluster.controllers(cluster.local_clients(), &["resourceclaim-controller"])
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_allocated_where_its_device_is_and_reserved_for_the_pod() {
    let (cluster, running) = begin(61, &[("n1", 0), ("n2", 1)]).await;
    add_claim(&cluster, "mine", one("gpu")).await;
    cluster.post(PODS, with_claim("a", "mine")).await.ok(201);
    let pod = until(&cluster, "a", "got a node", |p| on(p) == "n2").await;
    let claim = claim(&cluster, "mine").await;
    assert_eq!(claim["metadata"]["finalizers"], json!([FINALIZER]));
    let consumer = json!([{"resource": "pods", "name": "a", "uid": pod["metadata"]["uid"]}]);
    assert_eq!(claim["status"]["reservedFor"], consumer);
    let mut allocation = claim["status"]["allocation"].clone();
    let since = allocation.as_object_mut().expect("a map").remove("allocationTimestamp");
    assert!(since.is_some());
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
    assert_eq!(
        allocation,
        json!({"devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "n2", "device": "gpu-0"}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}})
    );
    assert!(pod["status"].get("nominatedNodeName").is_none());
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_claim_its_class_and_its_device() {
    let (cluster, running) = begin(62, &[("n1", 0)]).await;
    cluster.post(PODS, with_claim("a", "mine")).await.ok(201);
    // Nothing is said of a pod that cannot be tried yet.
    pause(&cluster, 60).await;
    assert_eq!(said(&get_pod(&cluster, "a").await), ("", ""));
    add_claim(&cluster, "mine", one("missing")).await;
    let words = |why: &str, after: &str| {
        let nobody = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        format!("0/1 nodes are available: {why}. {after}, {nobody}")
    };
    let missing = words("request gpu: device class missing does not exist", "no new claims to deallocate");
    until(&cluster, "a", "misses the class", |p| said(p) == ("Unschedulable", &missing)).await;
    add_class(&cluster, "missing", json!({})).await;
    let nothing = words("1 cannot allocate all claims", "still not schedulable");
    until(&cluster, "a", "misses the device", |p| said(p) == ("Unschedulable", &nothing)).await;
    add_slice(&cluster, "n1", plain_devices(1), json!({})).await;
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn many_pods_get_each_device_once_and_the_next_when_one_goes() {
    let (cluster, running) = begin(63, &[("n1", 2), ("n2", 2)]).await;
    let plane = claim_controller(&cluster);
    let template =
        json!({"metadata": {"name": "gpus"}, "spec": {"spec": {"devices": {"requests": one("gpu")}}}});
    cluster.post(TEMPLATES, template).await.ok(201);
    for n in 0..7 {
        let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}]);
        let mut pod = pod(&format!("p{n}"), claims);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        cluster.post(PODS, pod).await.ok(201);
    }
    for gone in 0..4 {
        pause(&cluster, 60).await;
        let pods = cluster.get(PODS).await.json()["items"].as_array().cloned().expect("a list");
        let placed: Vec<_> = pods.iter().filter(|pod| !on(pod).is_empty()).collect();
        assert_eq!(placed.len(), 4.min(7 - gone), "{gone} are gone");
        let claims = cluster.get(CLAIMS).await.json()["items"].as_array().cloned().expect("a list");
        let devices: Vec<_> = claims.iter().flat_map(held).collect();
        let different: BTreeSet<_> = devices.iter().collect();
        assert_eq!((devices.len(), different.len()), (placed.len(), placed.len()), "{devices:?}");
        let name = placed[0]["metadata"]["name"].as_str().expect("a name");
        cluster.delete(format!("{PODS}/{name}")).await.ok(200);
    }
    plane.stop().await;
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_share_a_claim_go_where_its_device_is() {
    let (cluster, running) = begin(64, &[("n1", 1), ("n2", 1)]).await;
    add_claim(&cluster, "shared", one("gpu")).await;
    for n in 0..5 {
        cluster.post(PODS, with_claim(&format!("p{n}"), "shared")).await.ok(201);
    }
    let first = until(&cluster, "p0", "got a node", |p| !on(p).is_empty()).await;
    for n in 1..5 {
        until(&cluster, &format!("p{n}"), "came along", |p| on(p) == on(&first)).await;
    }
    let claim = claim(&cluster, "shared").await;
    assert_eq!(claim["status"]["reservedFor"].as_array().map(Vec::len), Some(5));
    assert_eq!(held(&claim).len(), 1);
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_claim_on_the_wrong_node_is_deallocated_for_a_pod_that_needs_it_elsewhere() {
    let (cluster, running) = begin(65, &[("n1", 1), ("n2", 1)]).await;
    add_claim(&cluster, "mine", one("gpu")).await;
    let mut first = with_claim("a", "mine");
    first["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n1"});
    first["spec"]["terminationGracePeriodSeconds"] = json!(0);
    let first = cluster.post(PODS, first).await.ok(201);
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    let mut second = with_claim("b", "mine");
    second["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n2"});
    cluster.post(PODS, second).await.ok(201);
    let in_use = "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 resourceclaim not available \
         on the node. still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    until(&cluster, "b", "waits", |p| said(p) == ("Unschedulable", in_use)).await;
    cluster.delete(format!("{PODS}/a")).await.ok(200);
    let patch = json!({"status": {"reservedFor": [{"$patch": "delete", "uid": first["metadata"]["uid"]}]}});
    let request = cluster.request("PATCH", format!("{CLAIMS}/mine/status"));
    request.typed("application/strategic-merge-patch+json", patch.to_string()).send().await.ok(200);
    until(&cluster, "b", "got a node", |p| on(p) == "n2").await;
    assert_eq!(held(&claim(&cluster, "mine").await), [("n2".to_owned(), "gpu-0".to_owned())]);
    let told = messages(&cluster, "FailedScheduling").await;
    assert!(told.iter().any(|m| m.contains("deallocation of ResourceClaim completed")), "{told:#?}");
    end(cluster, running).await;
}

fn status_of(claim: &Value, conditions: Value) -> Value {
    let result = &claim["status"]["allocation"]["devices"]["results"][0];
    json!({"status": {"devices": [{"driver": result["driver"], "pool": result["pool"], "device": result["device"],
        "conditions": conditions}]}})
}

fn condition(kind: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Driver", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

pub fn attached_devices() -> Value {
    json!([{"name": "gpu-0", "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}])
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once_its_device_is_ready() {
    let (cluster, running) = begin(66, &[("n1", 0)]).await;
    add_slice(&cluster, "n1", attached_devices(), json!({})).await;
    add_claim(&cluster, "mine", one("gpu")).await;
    cluster.post(PODS, with_claim("a", "mine")).await.ok(201);
    pause(&cluster, 300).await;
    let pod = get_pod(&cluster, "a").await;
    assert_eq!((on(&pod), &pod["status"]["nominatedNodeName"]), ("", &json!("n1")));
    let told = messages(&cluster, "BindingConditionsPending").await;
    assert_eq!(told, ["waiting for binding conditions for device on node n1"]);
    let known = claim(&cluster, "mine").await;
    let result = &known["status"]["allocation"]["devices"]["results"][0];
    assert_eq!(result["bindingConditions"], json!(["Attached"]));
    cluster
        .merge(format!("{CLAIMS}/mine/status"), status_of(&known, json!([condition("Attached", "there")])))
        .await
        .ok(200);
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_device_that_fails_or_takes_too_long_is_given_up_for_another_try() {
    let (cluster, running) = begin(67, &[("n1", 0)]).await;
    add_slice(&cluster, "n1", attached_devices(), json!({})).await;
    add_claim(&cluster, "mine", one("gpu")).await;
    cluster.post(PODS, with_claim("a", "mine")).await.ok(201);
    let path = || format!("{CLAIMS}/mine");
    pause(&cluster, 5).await;
    let known = claim(&cluster, "mine").await;
    cluster
        .merge(
            format!("{}/status", path()),
            status_of(&known, json!([condition("Broken", "smoke \"here\"")])),
        )
        .await
        .ok(200);
    let failed = until(&cluster, "a", "said why", |p| said(p).0 == "SchedulerError").await;
    assert_eq!(
        said(&failed).1,
        "running PreBind plugin \"DynamicResources\": device binding failed: claim=mine, reason=Driver, message=\"smoke \\\"here\\\"\""
    );
    // Given back, and allocated anew: without what was said of it.
    let again = |p: &Value| said(p).0 == "SchedulerError" && said(p).1.contains("timeout");
    pause(&cluster, 60).await;
    let anew = claim(&cluster, "mine").await;
    assert!(!held(&anew).is_empty() && anew["status"].get("devices").is_none(), "{anew:#}");
    pause(&cluster, 500).await;
    let late = until(&cluster, "a", "gave up", again).await;
    assert_eq!(
        said(&late).1,
        "running PreBind plugin \"DynamicResources\": device binding timeout: context deadline exceeded"
    );
    end(cluster, running).await;
}

fn asks(name: &str, resource: &str, count: &str) -> Value {
    let amounts = json!({resource: count, "cpu": "100m"});
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "web", "resources": {"requests": amounts, "limits": amounts}}]}})
}

#[tokio::test(start_paused = true)]
async fn devices_stand_for_extended_resources_a_class_names() {
    let (cluster, running) = begin(68, &[("n1", 0), ("n2", 2)]).await;
    cluster.post(PODS, asks("a", "example.com/gpu", "2")).await.ok(201);
    let words = "0/2 nodes are available: 2 Insufficient example.com/gpu. no new claims to deallocate, preemption: 0/2 nodes \
         are available: 2 Preemption is not helpful for scheduling.";
    until(&cluster, "a", "waits", |p| said(p) == ("Unschedulable", words)).await;
    add_class(&cluster, "big", json!({"extendedResourceName": "example.com/gpu"})).await;
    let pod = until(&cluster, "a", "got a node", |p| on(p) == "n2").await;
    let status = &pod["status"]["extendedResourceClaimStatus"];
    let name = status["resourceClaimName"].as_str().expect("a claim");
    assert!(name.starts_with("a-extended-resources-"), "{name}");
    assert_eq!(
        status["requestMappings"],
        json!([{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-1"}])
    );
    let claim = claim(&cluster, name).await;
    assert_eq!(
        claim["spec"]["devices"]["requests"],
        json!([{"name": "container-0-request-1",
            "exactly": {"deviceClassName": "big", "allocationMode": "ExactCount", "count": 2}}])
    );
    assert_eq!(claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"], "true");
    assert_eq!(
        claim["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": pod["metadata"]["uid"], "controller": true}])
    );
    assert_eq!(claim["status"]["reservedFor"][0]["uid"], pod["metadata"]["uid"]);
    assert_eq!(held(&claim).len(), 2);
    // The class is a resource by its own name, too; and all devices are taken.
    cluster.post(PODS, asks("b", "deviceclass.resource.kubernetes.io/gpu", "1")).await.ok(201);
    let none = "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are \
         available: 2 Preemption is not helpful for scheduling.";
    until(&cluster, "b", "waits", |p| said(p) == ("Unschedulable", none)).await;
    add_slice(&cluster, "n1", plain_devices(1), json!({})).await;
    until(&cluster, "b", "got a node", |p| on(p) == "n1").await;
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_left_from_an_earlier_attempt_is_deleted_before_another_is_made() {
    let (cluster, running) = begin(69, &[("n1", 1)]).await;
    let mut pod = asks("a", "deviceclass.resource.kubernetes.io/gpu", "1");
    pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let pod = cluster.post(PODS, pod).await.ok(201);
    let left = json!({"metadata": {"name": "left", "finalizers": [FINALIZER],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": pod["metadata"]["uid"], "controller": true}]},
        "spec": {"devices": {"requests": one("gpu")}}});
    cluster.post(CLAIMS, left).await.ok(201);
    pause(&cluster, 1).await;
    cluster.merge(format!("{PODS}/a"), json!({"spec": {"schedulingGates": null}})).await.ok(200);
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    assert_eq!(claim(&cluster, "left").await["code"], 404);
    let told = messages(&cluster, "FailedScheduling").await;
    let words = "0/1 nodes are available: 1 cannot schedule extended resource claim. deletion of ResourceClaim completed, \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert!(told.iter().any(|m| m == words), "{told:#?}");
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn the_node_with_the_alternative_named_first_is_taken() {
    let (cluster, running) = begin(70, &[("n1", 0), ("n2", 0), ("n3", 0)]).await;
    let device = |model: &str| json!([{"name": "gpu-0", "attributes": {"model": {"string": model}}}]);
    for (node, model) in [("n1", "small"), ("n2", "large"), ("n3", "small")] {
        add_slice(&cluster, node, device(model), json!({})).await;
    }
    let alternative = |name: &str| {
        let expression = format!("device.attributes['{DRIVER}'].model == '{name}'");
        json!({"name": name, "deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]})
    };
    let requests = json!([{"name": "any", "firstAvailable": [alternative("large"), alternative("small")]}]);
    for n in 0..3 {
        add_claim(&cluster, &format!("c{n}"), requests.clone()).await;
        cluster.post(PODS, with_claim(&format!("p{n}"), &format!("c{n}"))).await.ok(201);
        let pod = until(&cluster, &format!("p{n}"), "got a node", |p| !on(p).is_empty()).await;
        let result = claim(&cluster, &format!("c{n}")).await;
        let request = &result["status"]["allocation"]["devices"]["results"][0]["request"];
        assert_eq!(
            (on(&pod) == "n2", request),
            (n == 0, &json!(if n == 0 { "any/large" } else { "any/small" }))
        );
    }
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn tainted_devices_are_for_claims_that_tolerate_them() {
    let (cluster, running) = begin(71, &[("n1", 0)]).await;
    let taint = json!({"key": "example.com/hot", "effect": "NoSchedule"});
    add_slice(&cluster, "n1", json!([{"name": "gpu-0", "taints": [taint]}]), json!({})).await;
    add_claim(&cluster, "cold", one("gpu")).await;
    let mut tolerant = one("gpu");
    tolerant[0]["exactly"]["tolerations"] = json!([{"key": "example.com/hot", "operator": "Exists"}]);
    add_claim(&cluster, "hot", tolerant).await;
    cluster.post(PODS, with_claim("a", "cold")).await.ok(201);
    until(&cluster, "a", "waits", |p| said(p).1.contains("1 cannot allocate all claims")).await;
    cluster.post(PODS, with_claim("b", "hot")).await.ok(201);
    until(&cluster, "b", "got a node", |p| on(p) == "n1").await;
    assert_eq!(on(&get_pod(&cluster, "a").await), "");
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_device_that_may_be_shared_is_until_its_capacity_is_used_up() {
    let (cluster, running) = begin(72, &[("n1", 0)]).await;
    let device = json!([{"name": "gpu-0", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "10Gi",
        "requestPolicy": {"default": "4Gi", "validValues": ["4Gi", "8Gi"]}}}}]);
    add_slice(&cluster, "n1", device, json!({})).await;
    for n in 0..3 {
        add_claim(&cluster, &format!("c{n}"), one("gpu")).await;
        cluster.post(PODS, with_claim(&format!("p{n}"), &format!("c{n}"))).await.ok(201);
    }
    pause(&cluster, 60).await;
    let mut shares = BTreeSet::new();
    let mut waiting = 0;
    for n in 0..3 {
        waiting += usize::from(on(&get_pod(&cluster, &format!("p{n}")).await).is_empty());
        let known = claim(&cluster, &format!("c{n}")).await;
        if let Some(result) = known["status"]["allocation"]["devices"]["results"].get(0) {
            assert_eq!(result["consumedCapacity"], json!({"memory": "4Gi"}));
            shares.insert(result["shareID"].as_str().expect("a share").to_owned());
        }
    }
    assert_eq!((shares.len(), waiting), (2, 1));
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn parts_of_a_device_are_given_while_its_counters_last() {
    let (cluster, running) = begin(73, &[("n1", 0)]).await;
    let consumes = |memory: &str| json!([{"counterSet": "whole", "counters": {"memory": {"value": memory}}}]);
    let devices = json!([
        {"name": "half-a", "consumesCounters": consumes("20Gi")},
        {"name": "half-b", "consumesCounters": consumes("20Gi")},
        {"name": "half-c", "consumesCounters": consumes("20Gi")}]);
    let counters = json!({"driver": DRIVER, "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2},
        "sharedCounters": [{"name": "whole", "counters": {"memory": {"value": "40Gi"}}}]});
    cluster.post(SLICES, json!({"metadata": {"name": "n1-counters"}, "spec": counters})).await.ok(201);
    let pool = json!({"pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2}});
    add_slice(&cluster, "n1", devices, pool).await;
    for n in 0..3 {
        add_claim(&cluster, &format!("c{n}"), one("gpu")).await;
        cluster.post(PODS, with_claim(&format!("p{n}"), &format!("c{n}"))).await.ok(201);
    }
    pause(&cluster, 60).await;
    let mut placed = 0;
    for n in 0..3 {
        placed += usize::from(!on(&get_pod(&cluster, &format!("p{n}")).await).is_empty());
    }
    assert_eq!(placed, 2);
    end(cluster, running).await;
}

#[tokio::test(start_paused = true)]
async fn an_administrator_looks_at_devices_that_others_use() {
    let (cluster, running) = begin(74, &[("n1", 1)]).await;
    cluster
        .merge(
            "/api/v1/namespaces/default",
            json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}),
        )
        .await
        .ok(200);
    add_claim(&cluster, "used", one("gpu")).await;
    let mut admin = one("gpu");
    admin[0]["exactly"]["adminAccess"] = json!(true);
    admin[0]["exactly"]["allocationMode"] = json!("All");
    add_claim(&cluster, "admin", admin).await;
    cluster.post(PODS, with_claim("a", "used")).await.ok(201);
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    cluster.post(PODS, with_claim("b", "admin")).await.ok(201);
    until(&cluster, "b", "got a node", |p| on(p) == "n1").await;
    assert_eq!(held(&claim(&cluster, "admin").await), held(&claim(&cluster, "used").await));
    end(cluster, running).await;
}
