//! Which pods use which claims.

use std::sync::Arc;

use object::{Obj, Value};
use runtime::{Informer, Key};

use crate::pods::mentions;

/// The index of pods by the claims they name, `namespace/name`.
const BY_CLAIM: &str = "claims";

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimUse {
    pub claim: String,
    /// It is made for the pod, and no other claim of that name is meant.
    pub ephemeral: bool,
}

/// Every claim the pod names, in its volumes' order.
pub(crate) fn claims_of(pod: &Value) -> Vec<ClaimUse> {
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
    let name = pod.str_at(&["metadata", "name"]).unwrap_or_default();
    let used = |volume: &Value| {
        if let Some(claim) = volume.str_at(&["persistentVolumeClaim", "claimName"]) {
            return Some(ClaimUse { claim: claim.to_owned(), ephemeral: false });
        }
        volume.get("ephemeral")?;
        let claim = ephemeral_claim(name, volume.str_at(&["name"]).unwrap_or_default());
        Some(ClaimUse { claim, ephemeral: true })
    };
    volumes.iter().filter_map(used).filter(|used| !used.claim.is_empty()).collect()
}

/// The claim that is made for an ephemeral volume.
pub(crate) fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

/// Most pods are known to use none without being read.
pub(crate) fn may_use_claims(pod: &Obj) -> bool {
    let body = pod.body();
    mentions(body, "\"persistentVolumeClaim\"") || has_ephemeral(pod)
}

pub(crate) fn has_ephemeral(pod: &Obj) -> bool {
    mentions(pod.body(), "\"ephemeral\"")
}

/// The keys of the claims a pod uses.
pub(crate) fn claim_keys(pod: &Obj) -> Vec<Key> {
    if !may_use_claims(pod) {
        return Vec::new();
    }
    let used = claims_of(&runtime::tree(pod));
    used.iter().map(|used| Key::new(pod.namespace(), &used.claim)).collect()
}

/// Has to be called before [`of_claim`].
pub(crate) fn index_by_claim(pods: &Informer) {
    pods.store()
        .add_index(BY_CLAIM, |pod| claim_keys(pod).into_iter().map(|key| key.as_str().to_owned()).collect());
}

/// Pods that name the claim.
pub(crate) fn of_claim(pods: &Informer, claim: &Key) -> Vec<Arc<Obj>> {
    pods.store().by_index(BY_CLAIM, claim.as_str())
}

/// Ended, or deleted with no container running.
pub(crate) fn is_terminated(pod: &Value) -> bool {
    if matches!(pod.str_at(&["status", "phase"]), Some("Failed" | "Succeeded")) {
        return true;
    }
    let rests = |statuses: &str| {
        let statuses = pod.at(&["status", statuses]).and_then(Value::as_list).unwrap_or_default();
        statuses.iter().all(|status| {
            let state = |name: &str| status.at(&["state", name]).is_some_and(|state| !state.is_null());
            state("terminated") || state("waiting")
        })
    };
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
        && ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"].into_iter().all(rests)
}
