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
    cluster.post(claims("default"), claim("waits", "later")).await.ok(201);
    cluster.post(claims("default"), claim("without", "")).await.ok(201);
}

/// When the namespace is deleted.
pub async fn end(cluster: &TestCluster) {
    for (name, _) in POLICIES {
        cluster.delete(format!("{VOLUMES}/brief-{name}")).await.ok(200);
    }
    cluster.post(VOLUMES, volume("late", "later")).await.ok(201);
}

/// What the hour has to come to.
pub fn check(state: &str) {
    let line = |start: &str| state.lines().find(|line| line.starts_with(start));
    for (volume, phase) in [("kept", "Released"), ("recycled", "Failed"), ("late", "Bound")] {
        let line =
            line(&format!("persistentvolumes /{volume} ")).unwrap_or_else(|| panic!("no {volume}:\n{state}"));
        assert!(line.contains(&format!("\"phase\":\"{phase}\"")), "{line}");
    }
    for gone in ["deleted", "brief-kept"] {
        assert_eq!(line(&format!("persistentvolumes /{gone} ")), None);
    }
    for (claim, phase) in [("waits", "Bound"), ("without", "Pending")] {
        let line = line(&format!("persistentvolumeclaims default/{claim} ")).expect("claims stay");
        assert!(line.contains(&format!("\"phase\":\"{phase}\"")), "{line}");
    }
}
