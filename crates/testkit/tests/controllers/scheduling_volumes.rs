//! Pods with volumes on a whole server: the scheduler writes what is to be bound, waits for it, and binds the pod. The test plays
//! the volume controller and the provisioner, by upstream's protocol.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestCluster;

use crate::scheduling::{add_node, get_pod, start_with, until};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

async fn add_class(cluster: &TestCluster, name: &str, provisioner: &str, mode: &str) {
    let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    cluster.post(CLASSES, class).await.ok(201);
}

async fn add_claim(cluster: &TestCluster, name: &str, class: &str) {
    let claim = json!({"metadata": {"name": name}, "spec": {"storageClassName": class,
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.post(CLAIMS, claim).await.ok(201);
}

/// A volume on one node, free to be had.
async fn add_volume(cluster: &TestCluster, name: &str, class: &str, node: &str, claim: Option<&str>) {
    let term =
        json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    let mut volume = json!({"metadata": {"name": name}, "spec": {"storageClassName": class,
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}});
    if let Some(claim) = claim {
        volume["spec"]["claimRef"] = reference(cluster, claim).await;
    }
    cluster.post(VOLUMES, volume).await.ok(201);
    let phase = if claim.is_some() { "Bound" } else { "Available" };
    cluster.merge(format!("{VOLUMES}/{name}/status"), json!({"status": {"phase": phase}})).await.ok(200);
}

async fn reference(cluster: &TestCluster, claim: &str) -> Value {
    let uid = cluster.get(format!("{CLAIMS}/{claim}")).await.json()["metadata"]["uid"].clone();
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim, "uid": uid})
}

/// What the volume controller does once a volume names its claim.
async fn complete(cluster: &TestCluster, claim: &str, volume: &str) {
    let patch = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"volumeName": volume}});
    cluster.merge(format!("{CLAIMS}/{claim}"), patch).await.ok(200);
    let bound = json!({"status": {"phase": "Bound"}});
    cluster.merge(format!("{CLAIMS}/{claim}/status"), bound).await.ok(200);
}

fn with_claim(name: &str, claim: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "web"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

async fn until_at(cluster: &TestCluster, path: String, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..20_000 {
        let object = cluster.get(&path).await.json();
        if wanted(&object) {
            return object;
        }
        cluster.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} never {what}: {}", cluster.get(&path).await.json());
}

fn on(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or("")
}

fn said(pod: &Value) -> (&str, &str) {
    let conditions = pod["status"]["conditions"].as_array();
    let scheduled = conditions.and_then(|all| all.iter().find(|c| c["type"] == "PodScheduled"));
    let of = |member: &str| scheduled.and_then(|c| c[member].as_str()).unwrap_or("");
    (of("reason"), of("message"))
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_the_volume_of_its_node_and_is_bound_after_it() {
    let cluster = TestCluster::simulated(31).await;
    add_node(&cluster, "n1", json!({})).await;
    add_node(&cluster, "n2", json!({})).await;
    add_class(&cluster, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer").await;
    add_claim(&cluster, "data", "local").await;
    let running = start_with(&cluster, &*cluster.local_clients());
    cluster.post(PODS, with_claim("a", "data")).await.ok(201);
    let waits = until(&cluster, "a", "said why", |p| !said(p).1.is_empty()).await;
    let (reason, message) = said(&waits);
    assert_eq!(reason, "Unschedulable");
    assert_eq!(
        message,
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. no new claims to \
         deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    add_volume(&cluster, "disk", "local", "n2", None).await;
    let path = format!("{VOLUMES}/disk");
    let volume = until_at(&cluster, path, "named the claim", |v| v["spec"].get("claimRef").is_some()).await;
    let mut claim_ref = volume["spec"]["claimRef"].clone();
    assert!(claim_ref.as_object_mut().expect("a map").remove("resourceVersion").is_some());
    assert_eq!(claim_ref, reference(&cluster, "data").await);
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    // Nobody has finished it: the pod waits, and says where it will be.
    cluster.env().sleep(Duration::from_secs(60)).await;
    let pod = get_pod(&cluster, "a").await;
    assert_eq!((on(&pod), &pod["status"]["nominatedNodeName"]), ("", &json!("n2")));
    complete(&cluster, "data", "disk").await;
    let pod = until(&cluster, "a", "got a node", |p| on(p) == "n2").await;
    assert!(pod["status"].get("nominatedNodeName").is_none());
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_provisioned_for_the_node_and_a_refusal_tries_another_time() {
    let cluster = TestCluster::simulated(32).await;
    add_node(&cluster, "n1", json!({})).await;
    add_class(&cluster, "made", "example.com/disk", "WaitForFirstConsumer").await;
    add_claim(&cluster, "data", "made").await;
    let running = start_with(&cluster, &*cluster.local_clients());
    cluster.post(PODS, with_claim("a", "data")).await.ok(201);
    let path = || format!("{CLAIMS}/data");
    let node = |c: &Value| c["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].clone();
    until_at(&cluster, path(), "was chosen a node for", |c| node(c) == "n1").await;
    // The provisioner gives up: it takes the choice back, and the scheduler makes it again after a while.
    let back = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
    cluster.merge(path(), back).await.ok(200);
    let failed = until(&cluster, "a", "said why", |p| said(p).0 == "SchedulerError").await;
    assert_eq!(
        said(&failed).1,
        "running PreBind plugin \"VolumeBinding\": binding volumes: selectedNode annotation reset for PVC \"data\""
    );
    until_at(&cluster, path(), "was chosen a node for again", |c| node(c) == "n1").await;
    add_volume(&cluster, "made-1", "made", "n1", Some("data")).await;
    complete(&cluster, "data", "made-1").await;
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_gives_up_when_its_volumes_take_too_long() {
    let cluster = TestCluster::simulated(33).await;
    add_node(&cluster, "n1", json!({})).await;
    add_class(&cluster, "made", "example.com/disk", "WaitForFirstConsumer").await;
    add_claim(&cluster, "data", "made").await;
    let running = start_with(&cluster, &*cluster.local_clients());
    cluster.post(PODS, with_claim("a", "data")).await.ok(201);
    // Other pods do not wait for it.
    cluster.env().sleep(Duration::from_secs(60)).await;
    cluster.post(PODS, crate::scheduling::pod("b", "1")).await.ok(201);
    until(&cluster, "b", "got a node", |p| on(p) == "n1").await;
    cluster.env().sleep(Duration::from_secs(500)).await;
    assert_eq!(said(&get_pod(&cluster, "a").await), ("", ""));
    let failed = until(&cluster, "a", "gave up", |p| !said(p).0.is_empty()).await;
    assert_eq!(
        said(&failed),
        (
            "SchedulerError",
            "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded"
        )
    );
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_claims_that_are_missing_or_not_bound() {
    let cluster = TestCluster::simulated(34).await;
    add_node(&cluster, "n1", json!({})).await;
    add_class(&cluster, "now", "example.com/disk", "Immediate").await;
    let running = start_with(&cluster, &*cluster.local_clients());
    cluster.post(PODS, with_claim("a", "data")).await.ok(201);
    let words = |why: &str| format!("0/1 nodes are available: {why}. not found");
    let missing = words("persistentvolumeclaim \"data\" not found");
    until(&cluster, "a", "misses its claim", |p| said(p) == ("Unschedulable", &missing)).await;
    add_claim(&cluster, "data", "now").await;
    let unbound = words("pod has unbound immediate PersistentVolumeClaims");
    until(&cluster, "a", "waits for its claim", |p| said(p) == ("Unschedulable", &unbound)).await;
    add_volume(&cluster, "disk", "now", "n1", Some("data")).await;
    complete(&cluster, "data", "disk").await;
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    running.stop().await;
    cluster.shutdown().await;
}

/// It has a node in the scheduler's mind only: it is put back, not deleted.
#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_its_volume_makes_room_and_is_not_deleted() {
    let cluster = TestCluster::simulated(35).await;
    add_node(&cluster, "n1", json!({})).await;
    add_class(&cluster, "made", "example.com/disk", "WaitForFirstConsumer").await;
    add_claim(&cluster, "data", "made").await;
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    cluster.post("/apis/scheduling.k8s.io/v1/priorityclasses", class).await.ok(201);
    let running = start_with(&cluster, &*cluster.local_clients());
    let most = json!({"requests": {"cpu": "1500m"}});
    let mut low = with_claim("low", "data");
    low["spec"]["containers"][0]["resources"] = most.clone();
    cluster.post(PODS, low).await.ok(201);
    let low =
        until(&cluster, "low", "was promised a node", |p| p["status"]["nominatedNodeName"] == "n1").await;
    // What is written for its volume is.
    cluster.env().sleep(Duration::from_secs(5)).await;
    let high = json!({"metadata": {"name": "high"}, "spec": {"priorityClassName": "high",
        "containers": [{"name": "c", "image": "web", "resources": most}]}});
    let uid = cluster.post(PODS, high).await.ok(201)["metadata"]["uid"].clone();
    until(&cluster, "high", "got the node", |p| on(p) == "n1").await;
    let low_now = until(&cluster, "low", "said why", |p| !said(p).1.is_empty()).await;
    assert_eq!(low_now["metadata"]["uid"], low["metadata"]["uid"]);
    assert!(low_now["metadata"].get("deletionTimestamp").is_none(), "{low_now:#}");
    let conditions = low_now["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().all(|c| c["type"] != "DisruptionTarget"), "{conditions:#?}");
    let events = cluster.get("/api/v1/namespaces/default/events").await.ok(200);
    let told = |reason: &str| -> Vec<Value> {
        let all = events["items"].as_array().expect("events").iter();
        all.filter(|e| e["reason"] == reason && e["involvedObject"]["name"] == "low")
            .map(|e| e["message"].clone())
            .collect()
    };
    let by =
        format!("Preempted by pod {} on node n1 (in kube-scheduler memory).", uid.as_str().expect("a uid"));
    assert_eq!(told("Preempted"), [by]);
    let first = "running PreBind plugin \"VolumeBinding\": preempted by DefaultPreemption";
    assert_eq!(told("FailedScheduling").first(), Some(&json!(first)));
    // The room is taken: it waits for it.
    until(&cluster, "low", "found no room", |p| said(p).1.contains("Insufficient cpu")).await;
    cluster.delete(format!("{PODS}/high?gracePeriodSeconds=0")).await.ok(200);
    until(&cluster, "low", "was promised the node again", |p| p["status"]["nominatedNodeName"] == "n1").await;
    running.stop().await;
    cluster.shutdown().await;
}
