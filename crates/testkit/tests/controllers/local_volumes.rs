//! Volumes that are made for claims: by the provisioner of this program, for ephemeral volumes, and by others that are waited for.

use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{EVENTS, PODS, items, pass, plane, steady, until};
use crate::volume_steps::{
    ATTRIBUTES_CLASSES, CLASSES, SELECTED_NODE, VOLUMES, claim, claims, local_class,
    pod_with_ephemeral_volume, volume,
};

const STORAGE: &[&str] = &[
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "local-volume-provisioner-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "volumeattributesclass-protection-controller",
];

async fn gone(cluster: &TestCluster, path: &str) {
    cluster.until(&format!("{path} is gone"), || async { cluster.get(path).await.status == 404 }).await;
}

async fn told(cluster: &TestCluster, name: &str, reason: &str, component: &str) -> String {
    for _ in 0..600 {
        let events = items(cluster, EVENTS).await;
        let about = |event: &&Json| event["involvedObject"]["name"] == name && event["reason"] == reason;
        if let Some(event) = events.iter().find(about) {
            assert_eq!(event["source"]["component"], component);
            return event["message"].as_str().unwrap_or_default().to_owned();
        }
        pass(cluster, 1).await;
    }
    panic!("{name} was never told {reason}: {:#?}", items(cluster, EVENTS).await);
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_a_node_gets_a_directory_there_until_it_is_deleted() {
    let cluster = TestCluster::simulated(81).await;
    let plane = plane(&cluster, STORAGE);
    cluster
        .post(
            "/api/v1/nodes",
            json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1"}}}),
        )
        .await
        .ok(201);
    cluster.post(CLASSES, local_class()).await.ok(201);
    let path = format!("{}/data", claims("default"));
    cluster.post(claims("default"), claim("data", "local")).await.ok(201);
    told(&cluster, "data", "WaitForFirstConsumer", "persistentvolume-controller").await;
    let select = |node: &str| json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
    cluster.merge(&path, select("nowhere")).await.ok(200);
    let why = told(&cluster, "data", "ProvisioningFailed", "setpoint.dev/local").await;
    let gone_node = "failed to get target node: node \"nowhere\" not found";
    assert_eq!(why, format!("failed to provision volume with StorageClass \"local\": {gone_node}"));
    let free = |claim: &Json| claim["metadata"]["annotations"][SELECTED_NODE].is_null();
    until(&cluster, &path, "the scheduler to choose again", free).await;
    cluster.merge(&path, select("n1")).await.ok(200);
    let bound = until(&cluster, &path, "a volume", |claim| claim["status"]["phase"] == "Bound").await;
    let name = format!("pvc-{}", bound["metadata"]["uid"].as_str().unwrap());
    assert_eq!(bound["spec"]["volumeName"], *name);
    let made = told(&cluster, "data", "ProvisioningSucceeded", "setpoint.dev/local").await;
    assert_eq!(made, format!("Successfully provisioned volume {name}"));
    let volume = cluster.get(format!("{VOLUMES}/{name}")).await.ok(200);
    assert_eq!(volume["spec"]["hostPath"]["path"], format!("/var/lib/setpoint/volumes/{name}"));
    let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["host-1"]));
    cluster.delete(&path).await.ok(200);
    gone(&cluster, &path).await;
    gone(&cluster, &format!("{VOLUMES}/{name}")).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_volume_comes_and_goes_with_its_pod() {
    let cluster = TestCluster::simulated(82).await;
    let plane = plane(&cluster, STORAGE);
    cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await.ok(201);
    cluster.post(CLASSES, local_class()).await.ok(201);
    // Somebody else's claim is in the way of another pod.
    cluster.post(claims("default"), claim("late-scratch", "")).await.ok(201);
    cluster.post(PODS, pod_with_ephemeral_volume("late", "n1")).await.ok(201);
    let why = told(&cluster, "late", "FailedBinding", "ephemeral_volume").await;
    let expected = "ephemeral volume scratch: PVC default/late-scratch was not created for pod default/late (pod is not owner)";
    assert_eq!(why, expected);
    cluster.delete(format!("{}/late-scratch", claims("default"))).await.ok(200);

    let pod = cluster.post(PODS, pod_with_ephemeral_volume("p", "n1")).await.ok(201);
    for pod in ["p", "late"] {
        let path = format!("{}/{pod}-scratch", claims("default"));
        let claim = until(&cluster, &path, "a volume", |claim| claim["status"]["phase"] == "Bound").await;
        assert_eq!(claim["metadata"]["labels"], json!({"for": pod}));
    }
    let claim = cluster.get(format!("{}/p-scratch", claims("default"))).await.ok(200);
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    assert_eq!(claim["metadata"]["ownerReferences"], owner);
    for pod in ["p", "late"] {
        cluster.delete(format!("{PODS}/{pod}?gracePeriodSeconds=0")).await.ok(200);
        gone(&cluster, &format!("{}/{pod}-scratch", claims("default"))).await;
    }
    cluster.until("the volumes are gone", || async { items(&cluster, VOLUMES).await.is_empty() }).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_attributes_class_goes_when_neither_claim_nor_volume_names_it() {
    let cluster = TestCluster::simulated(83).await;
    let plane = plane(&cluster, STORAGE);
    for name in ["gold", "silver"] {
        let class =
            json!({"metadata": {"name": name}, "driverName": "d.example.com", "parameters": {"iops": "5"}});
        cluster.post(ATTRIBUTES_CLASSES, class).await.ok(201);
    }
    let mut golden = claim("golden", "");
    golden["spec"]["volumeAttributesClassName"] = json!("gold");
    cluster.post(claims("default"), golden).await.ok(201);
    let mut gold = volume("gold", "");
    gold["spec"]["volumeAttributesClassName"] = json!("gold");
    gold["spec"]["hostPath"] = Json::Null;
    gold["spec"]["csi"] = json!({"driver": "d.example.com", "volumeHandle": "1"});
    cluster.post(VOLUMES, gold).await.ok(201);
    let path = format!("{}/golden", claims("default"));
    let bound = until(&cluster, &path, "a volume", |claim| claim["status"]["phase"] == "Bound").await;
    assert_eq!(bound["status"]["currentVolumeAttributesClassName"], "gold");
    for name in ["gold", "silver"] {
        cluster.delete(format!("{ATTRIBUTES_CLASSES}/{name}")).await.ok(200);
    }
    gone(&cluster, &format!("{ATTRIBUTES_CLASSES}/silver")).await;
    cluster.delete(&path).await.ok(200);
    gone(&cluster, &path).await;
    pass(&cluster, 60).await;
    cluster.get(format!("{ATTRIBUTES_CLASSES}/gold")).await.ok(200);
    cluster.delete(format!("{VOLUMES}/gold")).await.ok(200);
    gone(&cluster, &format!("{ATTRIBUTES_CLASSES}/gold")).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn people_are_told_who_makes_a_claim_larger() {
    let cluster = TestCluster::simulated(84).await;
    let plane = plane(&cluster, STORAGE);
    let grows = json!({"metadata": {"name": "grows"}, "provisioner": "example.com/grows", "allowVolumeExpansion": true});
    cluster.post(CLASSES, grows).await.ok(201);
    cluster.post(VOLUMES, volume("v", "grows")).await.ok(201);
    cluster.post(claims("default"), claim("c", "grows")).await.ok(201);
    let path = format!("{}/c", claims("default"));
    until(&cluster, &path, "a volume", |claim| claim["status"]["phase"] == "Bound").await;
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    cluster.merge(&path, larger).await.ok(200);
    let told = told(&cluster, "c", "ExternalExpanding", "volume_expand").await;
    assert_eq!(told, "waiting for an external controller to expand this PVC");
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}
