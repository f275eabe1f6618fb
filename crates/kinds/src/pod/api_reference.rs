//! What a pod refers to in the cluster: static pods and their mirrors may refer to nothing.

use object::{Value, quote};

/// The first kind of object of the cluster that the pod refers to, as upstream names it.
pub fn api_reference(pod: &Value) -> Result<Option<&'static str>, String> {
    if pod.str_at(&["spec", "serviceAccountName"]).is_some_and(|name| !name.is_empty()) {
        return Ok(Some("serviceaccounts"));
    }
    let volumes = list(pod, &["spec", "volumes"]);
    if names_secrets(pod, volumes) {
        return Ok(Some("secrets"));
    }
    if names_config_maps(pod, volumes) {
        return Ok(Some("configmaps"));
    }
    if !list(pod, &["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in volumes {
        if let Some(what) = volume_reference(volume)? {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// Volumes whose sources are the machine's, or somebody else's, but no object of the cluster.
const PLAIN: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
const REFERRING: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

fn volume_reference(volume: &Value) -> Result<Option<&'static str>, String> {
    let name = || quote(volume.str_at(&["name"]).unwrap_or(""));
    if PLAIN.iter().any(|source| has(volume, source)) {
        return Ok(None);
    }
    if let Some((_, what)) = REFERRING.iter().find(|(source, _)| has(volume, source)) {
        return Ok(Some(what));
    }
    if !has(volume, "projected") {
        return Err(format!("unknown volume type for volume  {}", name()));
    }
    for source in list(volume, &["projected", "sources"]) {
        if let Some((_, what)) = PROJECTED.iter().find(|(member, _)| has(source, member)) {
            return Ok(Some(what));
        }
        if !has(source, "downwardAPI") {
            return Err(format!("unknown source for projected volume {}", name()));
        }
    }
    Ok(None)
}

fn names_secrets(pod: &Value, volumes: &[Value]) -> bool {
    let by_ref = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];
    list(pod, &["spec", "imagePullSecrets"]).iter().any(|secret| named(secret, &["name"]))
        || containers(pod).any(|container| {
            list(container, &["envFrom"]).iter().any(|from| named(from, &["secretRef", "name"]))
                || list(container, &["env"])
                    .iter()
                    .any(|env| named(env, &["valueFrom", "secretKeyRef", "name"]))
        })
        || volumes.iter().any(|volume| {
            named(volume, &["azureFile", "secretName"])
                || named(volume, &["secret", "secretName"])
                || named(volume, &["csi", "nodePublishSecretRef", "name"])
                || by_ref.iter().any(|source| named(volume, &[source, "secretRef", "name"]))
                || list(volume, &["projected", "sources"]).iter().any(|s| named(s, &["secret", "name"]))
        })
}

fn names_config_maps(pod: &Value, volumes: &[Value]) -> bool {
    containers(pod).any(|container| {
        list(container, &["envFrom"]).iter().any(|from| named(from, &["configMapRef", "name"]))
            || list(container, &["env"])
                .iter()
                .any(|env| named(env, &["valueFrom", "configMapKeyRef", "name"]))
    }) || volumes.iter().any(|volume| {
        named(volume, &["configMap", "name"])
            || list(volume, &["projected", "sources"]).iter().any(|s| named(s, &["configMap", "name"]))
    })
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|which| list(pod, &["spec", which]).iter())
}

fn list<'t>(tree: &'t Value, path: &[&str]) -> &'t [Value] {
    tree.at(path).and_then(Value::as_list).unwrap_or_default()
}

fn named(tree: &Value, path: &[&str]) -> bool {
    tree.str_at(path).is_some_and(|name| !name.is_empty())
}

fn has(tree: &Value, member: &str) -> bool {
    tree.get(member).is_some_and(|value| !value.is_null())
}
