//! Which secrets a pod mentions, and whether its account lists them.

use object::Value;

use crate::tree::{items, member, text};

/// Where volumes name a secret: the source, then the member that is a reference.
const REFERENCES: [(&str, &str); 8] = [
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
];

/// Refuses the first secret of the pod that its account does not list.
pub fn check(account: &Value, pod: &Value) -> Result<(), String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let who = name_of(account);
    for secret in items(spec, "volumes").iter().filter_map(|v| member(v, "secret")) {
        let name = text(secret, "secretName");
        if !lists(account, "secrets", name) {
            return Err(format!(
                "volume with secret.secretName=\"{name}\" is not allowed because service account {who} does not reference that secret"
            ));
        }
    }
    check_containers(account, spec, "initContainers", "init container")?;
    check_containers(account, spec, "containers", "container")?;
    for (i, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        let name = text(secret, "name");
        if !lists(account, "imagePullSecrets", name) {
            return Err(format!(
                "imagePullSecrets[{i}].name=\"{name}\" is not allowed because service account {who} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// The same for the containers that came later.
pub fn check_ephemeral(account: &Value, pod: &Value) -> Result<(), String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    check_containers(account, spec, "ephemeralContainers", "ephemeral container")
}

/// Does the pod mention a secret anywhere?
pub fn mentions_any(spec: &Value) -> bool {
    let named = |reference: &Value| !text(reference, "name").is_empty();
    let in_containers = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| items(spec, list))
        .any(|c| from_env(c).any(|(_, secret)| named(secret)) || from_env_from(c).any(named));
    in_containers
        || items(spec, "imagePullSecrets").iter().any(named)
        || items(spec, "volumes").iter().any(|volume| {
            let referenced = REFERENCES.iter().any(|(source, reference)| {
                member(volume, source).and_then(|s| member(s, reference)).is_some_and(named)
            });
            let own =
                |source: &str| member(volume, source).is_some_and(|s| !text(s, "secretName").is_empty());
            let projected = member(volume, "projected").map(|p| items(p, "sources")).unwrap_or_default();
            referenced
                || own("secret")
                || own("azureFile")
                || projected.iter().filter_map(|s| member(s, "secret")).any(named)
        })
}

fn check_containers(account: &Value, spec: &Value, list: &str, kind: &str) -> Result<(), String> {
    let who = name_of(account);
    for container in items(spec, list) {
        let called = text(container, "name");
        for (variable, secret) in from_env(container) {
            let name = text(secret, "name");
            if !lists(account, "secrets", name) {
                return Err(format!(
                    "{kind} {called} with envVar {variable} referencing secret.secretName=\"{name}\" is not allowed because service account {who} does not reference that secret"
                ));
            }
        }
        for secret in from_env_from(container) {
            let name = text(secret, "name");
            if !lists(account, "secrets", name) {
                return Err(format!(
                    "{kind} {called} with envFrom referencing secret.secretName=\"{name}\" is not allowed because service account {who} does not reference that secret"
                ));
            }
        }
    }
    Ok(())
}

fn from_env(container: &Value) -> impl Iterator<Item = (&str, &Value)> {
    items(container, "env").iter().filter_map(|variable| {
        Some((text(variable, "name"), member(variable.get("valueFrom")?, "secretKeyRef")?))
    })
}

fn from_env_from(container: &Value) -> impl Iterator<Item = &Value> {
    items(container, "envFrom").iter().filter_map(|source| member(source, "secretRef"))
}

fn lists(account: &Value, list: &str, name: &str) -> bool {
    items(account, list).iter().any(|secret| text(secret, "name") == name)
}

fn name_of(account: &Value) -> &str {
    account.str_at(&["metadata", "name"]).unwrap_or_default()
}
