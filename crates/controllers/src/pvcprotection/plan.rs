//! Whether a pod uses a claim.

use object::Value;

use crate::volumes::pods::{claims_of, is_terminated};

pub const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// What matters of a claim.
pub struct Claim<'a> {
    pub name: &'a str,
    /// The uid of its controller.
    pub owner: Option<&'a str>,
}

/// A claim that a pod on a node uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    claim: String,
    /// The pod's uid, where the claim has to be made for it.
    made_for: Option<String>,
}

impl Use {
    pub fn is_of(&self, claim: &Claim<'_>) -> bool {
        self.claim == claim.name
            && self.made_for.as_deref().is_none_or(|pod| claim.owner.is_some_and(|owner| owner == pod))
    }
}

/// What a pod uses. One without a node uses nothing: no kubelet starts it once the claim is being deleted.
pub fn uses_of(pod: &Value) -> Vec<Use> {
    if pod.str_at(&["spec", "nodeName"]).unwrap_or_default().is_empty() {
        return Vec::new();
    }
    let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
    // The claim of an ephemeral volume goes when the node is done with the pod: its finalizers may wait for that very claim.
    let is_shut_down = is_shut_down(pod);
    let all = claims_of(pod).into_iter().filter(|used| !(used.ephemeral && is_shut_down));
    all.map(|used| Use { claim: used.claim, made_for: used.ephemeral.then(|| uid.to_owned()) }).collect()
}

pub fn uses(pod: &Value, claim: &Claim<'_>) -> bool {
    uses_of(pod).iter().any(|used| used.is_of(claim))
}

/// The kubelet is done with it, or it was deleted by force.
fn is_shut_down(pod: &Value) -> bool {
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
        && pod.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_int) == Some(0)
}

/// A pod that is there and holds none of its claims (any more).
pub fn frees_claims(pod: &Value) -> bool {
    pod.str_at(&["spec", "nodeName"]).unwrap_or_default().is_empty() || is_terminated(pod)
}
