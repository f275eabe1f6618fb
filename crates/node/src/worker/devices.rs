//! The devices of a container's claims, and how they are: what `allocatedResourcesStatus` says.

use object::{Map, Value};

use crate::pod::Container;

/// The devices allocated to a claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimDevices {
    /// The pod's name for the claim.
    pub claim: String,
    /// The request each was allocated for, and `driver/pool/device`.
    pub devices: Vec<(String, String)>,
}

impl ClaimDevices {
    pub fn read(name: &str, claim: &Value) -> ClaimDevices {
        let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_list);
        let read = |result: &Value| {
            let part = |name: &str| result.str_at(&[name]).unwrap_or_default();
            // Of one of several alternatives it is the request that counts.
            let request = part("request").split('/').next().unwrap_or_default();
            (request.to_owned(), format!("{}/{}/{}", part("driver"), part("pool"), part("device")))
        };
        ClaimDevices {
            claim: name.to_owned(),
            devices: results.unwrap_or_default().iter().map(read).collect(),
        }
    }
}

/// Nobody tells a simulated kubelet how a device is.
const HEALTH: &str = "Unknown";

/// `None`: the container has no devices.
pub fn allocated_status(container: &Container<'_>, claims: &[ClaimDevices]) -> Option<Value> {
    let wanted = container.spec.at(&["resources", "claims"]).and_then(Value::as_list).unwrap_or_default();
    let mut all = Vec::new();
    for entry in wanted {
        let (name, request) = (entry.str_at(&["name"])?, entry.str_at(&["request"]).unwrap_or_default());
        let Some(claim) = claims.iter().find(|claim| claim.claim == name) else { continue };
        let of_request = |of: &str| request.is_empty() || of == request.split('/').next().unwrap_or_default();
        let mut ids: Vec<&str> = Vec::new();
        for (of, id) in &claim.devices {
            if of_request(of) && !ids.contains(&id.as_str()) {
                ids.push(id);
            }
        }
        if ids.is_empty() {
            continue;
        }
        let health = |id: &str| {
            let mut health = Map::with_capacity(2);
            health.set("resourceID", id.to_owned());
            health.set("health", HEALTH);
            Value::Map(health)
        };
        let mut status = Map::with_capacity(2);
        let shown =
            if request.is_empty() { format!("claim:{name}") } else { format!("claim:{name}/{request}") };
        status.set("name", shown);
        status.set("resources", Value::List(ids.into_iter().map(health).collect()));
        all.push(Value::Map(status));
    }
    (!all.is_empty()).then_some(Value::List(all))
}
