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
        Related::Secret => secrets_of(pod).any(|secret| secret == name),
        Related::ConfigMap => {
            let volumes = spec("volumes").iter();
            let mut names = containers(pod)
                .flat_map(|container| environment(container, "configMapRef", "configMapKeyRef"))
                .chain(volumes.clone().filter_map(|volume| volume.str_at(&["configMap", "name"])))
                .chain(volumes.flat_map(|volume| projected(volume, "configMap")));
            names.any(|map| map == name)
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

/// The names of all Secrets a pod refers to.
pub fn secrets_of(pod: &Value) -> impl Iterator<Item = &str> {
    let spec = |field: &str| items(pod.at(&["spec", field])).iter();
    let of_volume = |volume| {
        let sources = POD_VOLUME_SECRETS.iter().filter_map(move |path| Value::str_at(volume, path));
        sources.chain(projected(volume, "secret"))
    };
    let pulled = spec("imagePullSecrets").filter_map(|reference| reference.str_at(&["name"]));
    let variables = containers(pod).flat_map(|container| environment(container, "secretRef", "secretKeyRef"));
    let names = pulled.chain(variables).chain(spec("volumes").flat_map(of_volume));
    names.filter(|name| !name.is_empty())
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

static POD_VOLUME_SECRETS: [&[&str]; 10] = [
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

/// What a container's variables come from: all of an object, or one entry.
fn environment<'v>(
    container: &'v Value,
    whole: &'static str,
    one: &'static str,
) -> impl Iterator<Item = &'v str> {
    let all = items(container.get("envFrom")).iter().filter_map(move |from| from.str_at(&[whole, "name"]));
    let variables = items(container.get("env")).iter();
    all.chain(variables.filter_map(move |variable| variable.str_at(&["valueFrom", one, "name"])))
}

fn projected<'v>(volume: &'v Value, source: &'static str) -> impl Iterator<Item = &'v str> {
    let sources = items(volume.at(&["projected", "sources"])).iter();
    sources.filter_map(move |one| one.str_at(&[source, "name"]))
}
