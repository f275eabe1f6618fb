//! From a claim to the volume that is bound to it.

use client::resources::{NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use client::{Client, Value};
use object::selector::NodeSelector;
use runtime::tree;

/// The group that may use the files of a volume.
const GROUP: &str = "pv.beta.kubernetes.io/gid";
/// Keeps a claim alive while pods use it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The PersistentVolume of a claim, in kubelet's words where there is none.
pub async fn volume(
    client: &dyn Client,
    pod: &Value,
    claim_name: &str,
    ephemeral: bool,
) -> Result<Value, String> {
    let namespace = pod.str_at(&["metadata", "namespace"]).unwrap_or_default();
    let processing = |error: String| format!("error processing PVC {namespace}/{claim_name}: {error}");
    let claim = client.get(PERSISTENT_VOLUME_CLAIMS.at(namespace, claim_name)).await;
    let claim = claim
        .map_err(|status| processing(format!("failed to fetch PVC from API server: {}", status.message)))?;
    let claim = tree(&claim);
    let volume_name = check_claim(&claim).map_err(|error| processing(error.to_owned()))?;
    if ephemeral && !is_owned_by(&claim, pod) {
        let pod_name = pod.str_at(&["metadata", "name"]).unwrap_or_default();
        return Err(format!(
            "PVC {namespace}/{claim_name} was not created for pod {namespace}/{pod_name} (pod is not owner)"
        ));
    }
    let volume = client.get(PERSISTENT_VOLUMES.at("", volume_name)).await.map_err(|status| {
        processing(format!("failed to fetch PV {volume_name} from API server: {}", status.message))
    })?;
    let volume = tree(&volume);
    let claim_uid = claim.str_at(&["metadata", "uid"]).unwrap_or_default();
    check_volume(&volume, volume_name, claim_uid).map_err(processing)?;
    Ok(volume)
}

/// What is no number counts as nothing.
pub fn group(volume: &Value) -> Option<i64> {
    volume.str_at(&["metadata", "annotations", GROUP])?.parse().ok()
}

/// Whether the volume is one of this node's: a pod that no scheduler placed may want one that is elsewhere.
pub async fn check_node(client: &dyn Client, node: &str, volume: &Value) -> Result<(), String> {
    let Some(required) = volume.at(&["spec", "nodeAffinity", "required"]) else { return Ok(()) };
    let node = client.get(NODES.at("", node)).await.map_err(|status| status.message)?;
    if NodeSelector::parse(required).matches(node.name(), &|label| node.label(label)) {
        return Ok(());
    }
    Err("no matching NodeSelectorTerms".to_owned())
}

/// The name of the volume it is bound to.
fn check_claim(claim: &Value) -> Result<&str, &'static str> {
    let finalizers = claim.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    let protected = finalizers.iter().any(|finalizer| finalizer.as_str() == Some(PROTECTION));
    if claim.at(&["metadata", "deletionTimestamp"]).is_some() && !protected {
        return Err("PVC is being deleted");
    }
    if claim.str_at(&["status", "phase"]) != Some("Bound") {
        return Err("PVC is not bound");
    }
    let name = claim.str_at(&["spec", "volumeName"]).filter(|name| !name.is_empty());
    name.ok_or("PVC has empty pvc.Spec.VolumeName")
}

fn check_volume(volume: &Value, name: &str, claim_uid: &str) -> Result<(), String> {
    let Some(reference) = volume.at(&["spec", "claimRef"]) else {
        return Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    };
    let uid = reference.str_at(&["uid"]).unwrap_or_default();
    if uid == claim_uid {
        return Ok(());
    }
    Err(format!(
        "found PV object {name} but its pv.Spec.ClaimRef.UID {uid} does not point to claim.UID {claim_uid}"
    ))
}

fn is_owned_by(claim: &Value, pod: &Value) -> bool {
    let uid = pod.str_at(&["metadata", "uid"]);
    let owners = claim.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
    owners.iter().any(|owner| {
        owner.get("controller").and_then(Value::as_bool) == Some(true) && owner.str_at(&["uid"]) == uid
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        runtime::parse(text).unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn a_claim_must_be_bound_and_stay() {
        let check = |text: &str| check_claim(&parse(text)).map(str::to_owned);
        assert_eq!(check("{spec: {volumeName: v}, status: {phase: Bound}}"), Ok("v".to_owned()));
        assert_eq!(check("{spec: {volumeName: v}, status: {phase: Pending}}"), Err("PVC is not bound"));
        assert_eq!(check("{spec: {}, status: {phase: Bound}}"), Err("PVC has empty pvc.Spec.VolumeName"));
        let going = "deletionTimestamp: '2026-01-01T00:00:00Z'";
        let bound = "spec: {volumeName: v}, status: {phase: Bound}";
        assert_eq!(check(&format!("{{metadata: {{{going}}}, {bound}}}")), Err("PVC is being deleted"));
        let kept = format!("{{metadata: {{{going}, finalizers: [{PROTECTION}]}}, {bound}}}");
        assert_eq!(check(&kept), Ok("v".to_owned()));
    }

    #[test]
    fn a_volume_must_be_the_claims() {
        let check = |text: &str| check_volume(&parse(text), "v", "u");
        assert_eq!(check("{spec: {claimRef: {uid: u}}}"), Ok(()));
        assert!(check("{spec: {}}").unwrap_err().contains("nil pv.Spec.ClaimRef"));
        assert!(
            check("{spec: {claimRef: {uid: w}}}")
                .unwrap_err()
                .contains("UID w does not point to claim.UID u")
        );
    }
}
