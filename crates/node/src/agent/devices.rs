//! Devices of a pod: it starts when its claims are allocated, and reserved for it.

use client::resources::RESOURCE_CLAIMS;
use object::Value;
use runtime::owners;

use super::Agent;
use crate::pod::Pod;
use crate::worker::ClaimDevices;

impl Agent {
    /// The devices of a pod that is about to start; `None`: it has none, or has started. `Err`: why they are not there for it, in
    /// kubelet's words.
    pub(super) async fn prepare(&self, tree: &Value) -> Result<Option<Vec<ClaimDevices>>, String> {
        let pod = Pod::read(tree);
        let claims = claims(tree);
        if claims.is_empty() || pod.deletion.is_some() || pod.is_over() || pod.phase == "Running" {
            return Ok(None);
        }
        if self.inner.lock().runtime.look(&pod, self.now()).is_some() {
            return Ok(None);
        }
        let mut prepared = Vec::new();
        for (entry, claim) in claims {
            let claim = self.prepare_claim(&pod, entry, claim).await;
            prepared.extend(claim.map_err(|why| format!("prepare dynamic resources: {why}"))?);
        }
        Ok(Some(prepared))
    }

    async fn prepare_claim(
        &self,
        pod: &Pod<'_>,
        entry: &str,
        claim: Claim<'_>,
    ) -> Result<Option<ClaimDevices>, String> {
        let (name, owned) = match claim {
            Claim::Named { name, owned } => (name, owned),
            Claim::NotNeeded => return Ok(None),
            Claim::NotCreated => {
                return Err(format!("pod \"{}/{}\": ResourceClaim not created yet", pod.namespace, pod.name));
            }
        };
        let found = self.client.get(RESOURCE_CLAIMS.at(pod.namespace, name)).await;
        let obj = found.map_err(|status| format!("fetch ResourceClaim {name}: {}", status.message))?;
        if owned && owners::controller_of(&obj).is_none_or(|owner| owner.uid != pod.uid) {
            let (namespace, pod) = (pod.namespace, pod.name);
            return Err(format!(
                "ResourceClaim {namespace}/{name} was not created for Pod {namespace}/{pod} (Pod is not owner)"
            ));
        }
        let claim = runtime::tree(&obj);
        let reserved = claim.at(&["status", "reservedFor"]).and_then(Value::as_list).unwrap_or_default();
        if !reserved.iter().any(|consumer| consumer.str_at(&["uid"]) == Some(pod.uid)) {
            let (pod, pod_uid, uid) = (pod.name, pod.uid, obj.uid());
            return Err(format!("pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {name} ({uid})"));
        }
        if claim.at(&["status", "allocation"]).is_none_or(Value::is_null) {
            return Err(format!("ResourceClaim {name}: not allocated"));
        }
        Ok(Some(ClaimDevices::read(entry, &claim)))
    }
}

/// What is known of the claim an entry of a pod stands for.
enum Claim<'a> {
    /// `owned`: it must have been made for the pod.
    Named {
        name: &'a str,
        owned: bool,
    },
    NotNeeded,
    NotCreated,
}

/// The claims of a pod by the names it has for them, with the one that the scheduler made for its extended resources.
fn claims(pod: &Value) -> Vec<(&str, Claim<'_>)> {
    let list = |path: &[&str]| pod.at(path).and_then(Value::as_list).unwrap_or_default();
    let statuses = list(&["status", "resourceClaimStatuses"]);
    let read = |entry| {
        let own = Value::str_at(entry, &["name"]).unwrap_or_default();
        if let Some(name) = entry.str_at(&["resourceClaimName"]) {
            return (own, Claim::Named { name, owned: false });
        }
        let status = statuses.iter().find(|s| s.str_at(&["name"]) == Some(own));
        let claim = match status.map(|status| status.str_at(&["resourceClaimName"])) {
            None => Claim::NotCreated,
            Some(None) => Claim::NotNeeded,
            Some(Some(name)) => Claim::Named { name, owned: true },
        };
        (own, claim)
    };
    let extended = pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    let extended = extended.map(|name| ("", Claim::Named { name, owned: false }));
    list(&["spec", "resourceClaims"]).iter().map(read).chain(extended).collect()
}
