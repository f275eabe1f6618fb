//! Objects that a pod, and a volume used by a pod, refer to.

use object::Value;

use super::Related;

/// A mirror pod is written by the node itself, so it must not grant the node anything.
pub fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some()
}

/// Whether the pod refers to this object of its namespace.
pub fn refers(pod: &Value, what: Related, name: &str) -> bool {
    if name.is_empty() || is_mirror(pod) {
        return false;
    }
    let spec = |field: &str| items(pod.at(&["spec", field]));
    let is = |found: Option<&str>| found == Some(name);
    match what {
        Related::ServiceAccount => is(pod.str_at(&["spec", "serviceAccountName"])),
        Related::Secret => {
            spec("imagePullSecrets").iter().any(|r| is(r.str_at(&["name"])))
                || containers(pod).any(|c| environment(c, "secretRef", "secretKeyRef", name))
                || spec("volumes").iter().any(|v| {
                    POD_VOLUME_SECRETS.iter().any(|path| is(v.str_at(path))) || projected(v, "secret", name)
                })
        }
        Related::ConfigMap => {
            containers(pod).any(|c| environment(c, "configMapRef", "configMapKeyRef", name))
                || spec("volumes")
                    .iter()
                    .any(|v| is(v.str_at(&["configMap", "name"])) || projected(v, "configMap", name))
        }
        Related::PersistentVolumeClaim => claims_of(pod).iter().any(|c| c == name),
        Related::ResourceClaim => {
            is(pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]))
                || spec("resourceClaims").iter().any(|claim| match claim.str_at(&["resourceClaimName"]) {
                    Some(direct) => direct == name,
                    // Created from a template: the status has the generated name.
                    None => items(pod.at(&["status", "resourceClaimStatuses"])).iter().any(|status| {
                        status.str_at(&["name"]) == claim.str_at(&["name"])
                            && is(status.str_at(&["resourceClaimName"]))
                    }),
                })
        }
        _ => false,
    }
}

/// The persistent volume claims of a pod, including those of its ephemeral volumes.
pub fn claims_of(pod: &Value) -> Vec<String> {
    let pod_name = pod.str_at(&["metadata", "name"]).unwrap_or_default();
    let claim = |volume: &Value| match volume.str_at(&["persistentVolumeClaim", "claimName"]) {
        Some(name) => Some(name.to_owned()),
        None => {
            volume.get("ephemeral")?;
            Some(format!("{pod_name}-{}", volume.str_at(&["name"])?))
        }
    };
    items(pod.at(&["spec", "volumes"])).iter().filter_map(claim).filter(|name| !name.is_empty()).collect()
}

/// Namespace and name of the secrets a node needs to mount a persistent volume.
pub fn volume_secrets(volume: &Value) -> Vec<(String, String)> {
    let text = |path: &[&str]| volume.str_at(path).unwrap_or_default();
    let claim_namespace = text(&["spec", "claimRef", "namespace"]);
    let mut out = Vec::new();
    let mut add = |namespace: &str, name: &str| {
        if !name.is_empty() {
            out.push((namespace.to_owned(), name.to_owned()));
        }
    };
    // Old volumes have no namespace here: the claim's namespace applies.
    let or_claim =
        |namespace: &'_ str| if namespace.is_empty() { claim_namespace } else { namespace }.to_owned();
    let azure = text(&["spec", "azureFile", "secretNamespace"]);
    add(&or_claim(azure), text(&["spec", "azureFile", "secretName"]));
    for source in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
        let namespace = text(&["spec", source, "secretRef", "namespace"]);
        add(&or_claim(namespace), text(&["spec", source, "secretRef", "name"]));
    }
    for path in [
        ["cinder", "secretRef"],
        ["storageos", "secretRef"],
        ["csi", "nodePublishSecretRef"],
        ["csi", "nodeStageSecretRef"],
        ["csi", "nodeExpandSecretRef"],
    ] {
        let part = |field: &str| text(&["spec", path[0], path[1], field]).to_owned();
        add(&part("namespace"), &part("name"));
    }
    out
}

const POD_VOLUME_SECRETS: [&[&str]; 10] = [
    &["secret", "secretName"],
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["scaleIO", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["storageos", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
];

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_list).unwrap_or_default()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| items(pod.at(&["spec", field])))
}

fn environment(container: &Value, whole: &str, one: &str, name: &str) -> bool {
    items(container.get("envFrom")).iter().any(|from| from.str_at(&[whole, "name"]) == Some(name))
        || items(container.get("env"))
            .iter()
            .any(|variable| variable.str_at(&["valueFrom", one, "name"]) == Some(name))
}

fn projected(volume: &Value, source: &str, name: &str) -> bool {
    items(volume.at(&["projected", "sources"])).iter().any(|s| s.str_at(&[source, "name"]) == Some(name))
}
