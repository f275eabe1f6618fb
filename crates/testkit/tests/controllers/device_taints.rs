//! Pods that use tainted devices are sent away: at once, after what their claim tolerates, or not at all.

use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{EVENTS, PODS, items, pass, plane, steady, until};

pub const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
pub const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const CONTROLLERS: &[&str] = &["device-taint-eviction-controller"];

pub fn slice(name: &str, generation: u64, taints: &Json) -> Json {
    json!({"metadata": {"name": name}, "spec": {"driver": "gpu.example.com", "nodeName": "n",
        "pool": {"name": "n", "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "taints": taints}, {"name": "gpu-1"}]}})
}

fn no_execute() -> Json {
    json!([{"key": "broken", "effect": "NoExecute"}])
}

/// A bound pod that uses a claim of its own, to which a device is allocated.
pub async fn pod_with_device(cluster: &TestCluster, name: &str, device: &str, tolerations: Json) -> Json {
    pod_on(cluster, "n", name, device, tolerations).await
}

async fn pod_on(cluster: &TestCluster, node: &str, name: &str, device: &str, tolerations: Json) -> Json {
    let request = json!({"name": "one", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}});
    cluster.post(CLAIMS, claim).await.ok(201);
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node,
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]}});
    let pod = cluster.post(PODS, pod).await.ok(201);
    let result = json!({"request": "one", "driver": "gpu.example.com", "pool": "n", "device": device,
        "tolerations": tolerations});
    let consumer = json!({"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]});
    let status =
        json!({"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}});
    cluster.merge(format!("{CLAIMS}/{name}/status"), status).await.ok(200);
    pod
}

fn is_going(pod: &Json) -> bool {
    pod["metadata"].get("deletionTimestamp").is_some()
}

async fn messages(cluster: &TestCluster, pod: &str) -> Vec<String> {
    let events = items(cluster, EVENTS).await;
    let about = events.iter().filter(|event| event["involvedObject"]["name"] == pod);
    about.filter_map(|event| event["message"].as_str()).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_taint_evicts_the_pods_that_use_the_device_and_do_not_tolerate_it() {
    let cluster = TestCluster::simulated(61).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(SLICES, slice("s", 1, &json!([]))).await.ok(201);
    let forever = json!([{"key": "broken", "operator": "Exists", "effect": "NoExecute"}]);
    pod_with_device(&cluster, "a", "gpu-0", json!([])).await;
    pod_with_device(&cluster, "tolerant", "gpu-0", forever).await;
    pod_with_device(&cluster, "other", "gpu-1", json!([])).await;
    pass(&cluster, 5).await;
    cluster.put(format!("{SLICES}/s"), slice("s", 1, &no_execute())).await.ok(200);
    let gone = until(&cluster, &format!("{PODS}/a"), "its deletion", is_going).await;
    let condition = &gone["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"], &condition["message"]),
        (
            &json!("DisruptionTarget"),
            &json!("True"),
            &json!("DeletionByDeviceTaintManager"),
            &json!("Device Taint manager: deleting due to NoExecute taint")
        )
    );
    pass(&cluster, 5).await;
    assert_eq!(messages(&cluster, "a").await, ["Marking for deletion"]);
    let events = items(&cluster, EVENTS).await;
    assert_eq!(
        (&events[0]["reason"], &events[0]["source"]["component"], &events[0]["involvedObject"]["uid"]),
        (
            &json!("DeviceTaintManagerEviction"),
            &json!("device-taint-eviction-controller"),
            &gone["metadata"]["uid"]
        )
    );
    for name in ["tolerant", "other"] {
        assert!(!is_going(&cluster.get(format!("{PODS}/{name}")).await.ok(200)), "{name}");
    }
    let mut metrics = String::new();
    plane.context.controllers.render_metrics(&mut metrics);
    assert!(metrics.contains("device_taint_eviction_controller_pod_deletions_total 1\n"), "{metrics}");
    assert!(metrics.contains("device_taint_eviction_controller_pod_deletion_duration_seconds_count 1\n"));
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_tolerated_for_a_while_is_waited_for_and_cancelled_with_the_taint() {
    let cluster = TestCluster::simulated(62).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(SLICES, slice("s", 1, &no_execute())).await.ok(201);
    let a_minute =
        json!([{"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    for name in ["a", "b"] {
        pod_with_device(&cluster, name, "gpu-0", a_minute.clone()).await;
    }
    pass(&cluster, 30).await;
    assert!(!is_going(&cluster.get(format!("{PODS}/a")).await.ok(200)));
    // The driver publishes the device without it, as a new generation; the old slice goes later.
    cluster.post(SLICES, slice("t", 2, &json!([]))).await.ok(201);
    pass(&cluster, 60).await;
    for name in ["a", "b"] {
        assert!(!is_going(&cluster.get(format!("{PODS}/{name}")).await.ok(200)));
        assert_eq!(messages(&cluster, name).await, ["Cancelling deletion"]);
    }
    // Without the new one the old one counts again, with a taint that is old enough.
    cluster.delete(format!("{PODS}/b?gracePeriodSeconds=0")).await.ok(200);
    cluster.delete(format!("{SLICES}/t")).await.ok(200);
    until(&cluster, &format!("{PODS}/a"), "its deletion", is_going).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_claim_was_reserved_or_allocated_after_the_taint_goes_too() {
    let cluster = TestCluster::simulated(63).await;
    let plane = plane(&cluster, CONTROLLERS);
    cluster.post(SLICES, slice("s", 1, &no_execute())).await.ok(201);
    pass(&cluster, 5).await;
    let pod = pod_with_device(&cluster, "a", "gpu-0", json!([])).await;
    until(&cluster, &format!("{PODS}/a"), "its deletion", is_going).await;
    // One of the same name that the claim is not reserved for has nothing to do with it.
    cluster.delete(format!("{PODS}/a?gracePeriodSeconds=0")).await.ok(200);
    let mut again = pod.clone();
    again["metadata"] = json!({"name": "a"});
    again.as_object_mut().expect("a pod").remove("status");
    cluster.post(PODS, again).await.ok(201);
    pass(&cluster, 30).await;
    assert!(!is_going(&cluster.get(format!("{PODS}/a")).await.ok(200)));
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// A pod that uses a device, for histories others make.
pub async fn begin(cluster: &TestCluster) {
    cluster.post(SLICES, slice("cards", 1, &json!([]))).await.ok(201);
    pod_on(cluster, "sim-0", "holder", "gpu-0", json!([])).await;
    let finalizers = json!(["resource.kubernetes.io/delete-protection"]);
    cluster.merge(format!("{CLAIMS}/holder"), json!({"metadata": {"finalizers": finalizers}})).await.ok(200);
}

/// The device breaks.
pub async fn end(cluster: &TestCluster) {
    // Long ago, so that it is the same time in every history.
    let taint = json!([{"key": "broken", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"}]);
    cluster.put(format!("{SLICES}/cards"), slice("cards", 1, &taint)).await.ok(200);
}
