//! What a resource claim is charged besides its devices by class: the same devices under the names of extended resources.
//!
//! A pod that asks for an extended resource is charged for it itself. The claim the scheduler makes for such a pod is charged only what
//! goes beyond that.

use object::Value;

use super::evaluator::DEVICE_CLASS;
use super::list::List;
use super::pods;

const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/";
const REQUESTS: &str = "requests.";
/// On claims the scheduler made for extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

/// The objects that a charge depends on beside the one that is charged.
pub trait Lookup {
    fn device_class(&self, name: &str) -> Option<Value>;
    fn pod(&self, namespace: &str, name: &str) -> Option<Value>;
    /// At least those a pod controls, by its uid.
    fn claims_of_pod(&self, namespace: &str, uid: &str) -> Vec<Value>;
}

/// Adds to what `claim` uses, by what the classes of the cluster are called.
pub fn extend(used: &mut List, claim: &Value, now: i64, lookup: &dyn Lookup) {
    let mut more = List::new();
    for (name, amount) in used.iter() {
        let Some(class) = name.strip_suffix(DEVICE_CLASS).filter(|class| !class.is_empty()) else { continue };
        // A class that stands for no extended resource is nothing pods could ask for.
        let Some(extended) = extended_resource(class, lookup) else { continue };
        more.insert(format!("{IMPLICIT}{class}"), *amount);
        more.insert(format!("{REQUESTS}{extended}"), *amount);
    }
    if more.is_empty() {
        return;
    }
    let charged = pod_usage(claim, now, lookup).unwrap_or_default();
    for (name, amount) in more {
        let left = charged.get(&name).map_or(amount, |charged| amount - *charged);
        if left.sign() > 0 {
            used.insert(name, left);
        }
    }
}

fn extended_resource(class: &str, lookup: &dyn Lookup) -> Option<String> {
    let class = lookup.device_class(class)?;
    class.str_at(&["spec", "extendedResourceName"]).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// What the pod that a claim was made for is charged already.
fn pod_usage(claim: &Value, now: i64, lookup: &dyn Lookup) -> Option<List> {
    let (name, namespace) =
        (claim.str_at(&["metadata", "name"]).unwrap_or_default(), claim.str_at(&["metadata", "namespace"])?);
    if claim.str_at(&["metadata", "annotations", EXTENDED]) != Some("true") {
        return None;
    }
    let (pod_name, uid) = owning_pod(claim)?;
    let pod = lookup.pod(namespace, pod_name)?;
    if pod.str_at(&["metadata", "uid"]) != Some(uid) {
        return None;
    }
    match pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]) {
        Some(said) if said != name => return None,
        Some(_) => {}
        // It does not say which: the first one made for it.
        None => {
            let made = |claim: &Value| {
                let text = |part: &str| claim.str_at(&["metadata", part]).unwrap_or_default().to_owned();
                (text("creationTimestamp"), text("name"))
            };
            let own = made(claim);
            for other in lookup.claims_of_pod(namespace, uid) {
                let of_pod = other.str_at(&["metadata", "annotations", EXTENDED]) == Some("true")
                    && owning_pod(&other).is_some_and(|(_, owner)| owner == uid);
                if of_pod && made(&other) < own {
                    return None;
                }
            }
        }
    }
    Some(pods::usage(&pod, now))
}

fn owning_pod(claim: &Value) -> Option<(&str, &str)> {
    let owners = claim.at(&["metadata", "ownerReferences"]).and_then(Value::as_list)?;
    let owner = owners.iter().find(|o| o.get("controller").and_then(Value::as_bool) == Some(true))?;
    let is_pod = owner.str_at(&["kind"]) == Some("Pod") && owner.str_at(&["apiVersion"]) == Some("v1");
    is_pod.then(|| Some((owner.str_at(&["name"])?, owner.str_at(&["uid"])?))).flatten()
}
