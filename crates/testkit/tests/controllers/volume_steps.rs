//! What people do with storage in the hour of the fault suite.

use serde_json::{Value as Json, json};
use testkit::TestCluster;

pub const VOLUMES: &str = "/api/v1/persistentvolumes";

pub fn claims(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims")
}

/// A claim for 1Gi that one node writes; an empty class is none.
pub fn claim(name: &str, class: &str) -> Json {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": "1Gi"}}}})
}

/// A volume for it.
pub fn volume(name: &str, class: &str) -> Json {
    json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "storageClassName": class, "hostPath": {"path": format!("/tmp/{name}")}}})
}

/// Volumes and what becomes of them when their claims are gone: a class of its own each, so that chance decides nothing.
const POLICIES: [(&str, &str); 3] = [("kept", "Retain"), ("deleted", "Delete"), ("recycled", "Recycle")];

pub const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub const ATTRIBUTES_CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
/// What the scheduler writes for a claim that waits for its first consumer.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The class of volumes on nodes, as no default.
pub fn local_class() -> Json {
    json!({"metadata": {"name": "local"}, "provisioner": "setpoint.dev/local", "volumeBindingMode": "WaitForFirstConsumer"})
}

/// A pod with a volume that comes and goes with it, on this node.
pub fn pod_with_ephemeral_volume(name: &str, node: &str) -> Json {
    let mut template = claim("", "local");
    template["metadata"] = json!({"annotations": {SELECTED_NODE: node}, "labels": {"for": name}});
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]}})
}

/// At the beginning of the hour; the namespace `gone` is deleted later.
pub async fn begin(cluster: &TestCluster) {
    for (name, policy) in POLICIES {
        let mut volume = volume(name, name);
        volume["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
        cluster.post(VOLUMES, volume).await.ok(201);
        cluster.post(claims("gone"), claim(name, name)).await.ok(201);
        // Without a volume, and in the way of nobody.
        cluster.post(VOLUMES, self::volume(&format!("brief-{name}"), "nobody")).await.ok(201);
    }
    cluster.post(CLASSES, local_class()).await.ok(201);
    let pod = pod_with_ephemeral_volume("scratch", "sim-0");
    cluster.post("/api/v1/namespaces/gone/pods", pod).await.ok(201);
    let grows = json!({"metadata": {"name": "grows"}, "provisioner": "example.com/grows", "allowVolumeExpansion": true});
    cluster.post(CLASSES, grows).await.ok(201);
    cluster.post(VOLUMES, volume("grows", "grows")).await.ok(201);
    let mut named = claim("grows", "grows");
    named["spec"]["volumeName"] = json!("grows");
    cluster.post(claims("default"), named).await.ok(201);
    let gold =
        json!({"metadata": {"name": "gold"}, "driverName": "example.com/grows", "parameters": {"iops": "5"}});
    cluster.post(ATTRIBUTES_CLASSES, gold).await.ok(201);
    let mut golden = claim("golden", "");
    golden["spec"]["volumeAttributesClassName"] = json!("gold");
    cluster.post(claims("gone"), golden).await.ok(201);
    cluster.post(claims("default"), claim("waits", "later")).await.ok(201);
    cluster.post(claims("default"), claim("without", "")).await.ok(201);
}

/// When the namespace is deleted.
pub async fn end(cluster: &TestCluster) {
    for (name, _) in POLICIES {
        cluster.delete(format!("{VOLUMES}/brief-{name}")).await.ok(200);
    }
    cluster.post(VOLUMES, volume("late", "later")).await.ok(201);
    cluster.delete(format!("{ATTRIBUTES_CLASSES}/gold")).await.ok(200);
    // Refused where nobody has bound it yet.
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    cluster.merge(format!("{}/grows", claims("default")), larger).await;
}

/// What the hour has to come to.
pub fn check(state: &str) {
    let line = |start: &str| state.lines().find(|line| line.starts_with(start));
    for (volume, phase) in [("kept", "Released"), ("recycled", "Available"), ("late", "Bound")] {
        let line =
            line(&format!("persistentvolumes /{volume} ")).unwrap_or_else(|| panic!("no {volume}:\n{state}"));
        assert!(line.contains(&format!("\"phase\":\"{phase}\"")), "{line}");
    }
    assert_eq!(line("volumeattributesclasses /gold "), None, "nobody names the class any more");
    assert_eq!(line("persistentvolumes /pvc-"), None, "what was made for a claim went with it");
    for gone in ["deleted", "brief-kept"] {
        assert_eq!(line(&format!("persistentvolumes /{gone} ")), None);
    }
    for (claim, phase) in [("waits", "Bound"), ("without", "Pending")] {
        let line = line(&format!("persistentvolumeclaims default/{claim} ")).expect("claims stay");
        assert!(line.contains(&format!("\"phase\":\"{phase}\"")), "{line}");
    }
}
