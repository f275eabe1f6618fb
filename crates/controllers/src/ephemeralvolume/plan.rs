//! The claims a pod's ephemeral volumes lack.

use object::{Map, Value};

use crate::volumes::pods::ephemeral_claim;

#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    Create {
        claim: String,
        body: Value,
    },
    /// A claim of that name is there, and not the pod's: why nothing is done.
    Foreign(String),
}

impl Plan {
    pub fn describe(&self) -> String {
        match self {
            Plan::Create { claim, .. } => format!("create claim {claim}"),
            Plan::Foreign(why) => why.clone(),
        }
    }
}

/// Volumes by name, and what to do for each. `owner` of a claim: `None` if there is no such claim, else the uid of its controller.
pub fn plan(pod: &Value, uid: &str, owner: &dyn Fn(&str) -> Option<Option<String>>) -> Vec<(String, Plan)> {
    let text = |name: &str| pod.str_at(&["metadata", name]).unwrap_or_default();
    let (namespace, pod_name) = (text("namespace"), text("name"));
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
    let mut planned = Vec::new();
    for volume in volumes {
        let Some(template) = volume.at(&["ephemeral", "volumeClaimTemplate"]) else { continue };
        let name = volume.str_at(&["name"]).unwrap_or_default();
        let claim = ephemeral_claim(pod_name, name);
        let plan = match owner(&claim) {
            Some(Some(owner)) if owner == uid => continue,
            Some(_) => Plan::Foreign(format!(
                "PVC {namespace}/{claim} was not created for pod {namespace}/{pod_name} (pod is not owner)"
            )),
            None => {
                let body = claim_of(template, &claim, namespace, pod_name, uid);
                Plan::Create { claim, body }
            }
        };
        planned.push((name.to_owned(), plan));
    }
    planned
}

fn claim_of(template: &Value, name: &str, namespace: &str, pod: &str, uid: &str) -> Value {
    let mut owner = Map::default();
    owner.set("apiVersion", "v1");
    owner.set("kind", "Pod");
    owner.set("name", pod);
    owner.set("uid", uid);
    owner.set("controller", true);
    owner.set("blockOwnerDeletion", true);
    let mut claim = Value::map();
    let metadata = claim.map_at(&["metadata"]);
    metadata.set("name", name);
    metadata.set("namespace", namespace);
    metadata.set("ownerReferences", vec![Value::Map(owner)]);
    for field in ["annotations", "labels"] {
        if let Some(value) = template.at(&["metadata", field]) {
            metadata.set(field, value.clone());
        }
    }
    claim.make_map().set("spec", template.get("spec").cloned().unwrap_or_else(Value::map));
    claim
}
