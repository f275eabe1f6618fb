//! NodeRestriction: a kubelet changes its own node, what runs there, and nothing else.

mod mirror_pods;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use auth::groups;
use object::{About, Status, Value, quote};

use crate::{Attempt, Authorize, Effects, Operation, Plugin, Refusal};

const USER: &str = "system:node:";
const NODE_LEASES: &str = "kube-node-lease";
/// Labels under kubernetes.io and k8s.io a kubelet may give its node.
const OWN_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const OWN_LABEL_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

pub struct NodeRestriction(pub Authorize);

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        Ok(self.check(attempt, Some(new))?)
    }

    /// Deletions, which nothing mutates.
    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        if new.is_none() {
            self.check(attempt, None)?;
        }
        Ok(())
    }
}

impl NodeRestriction {
    fn check(&self, attempt: &Attempt<'_>, new: Option<&Value>) -> Result<(), Status> {
        if !attempt.user.name.starts_with(USER) || !attempt.user.is_in(groups::NODES) {
            return Ok(());
        }
        let node = &attempt.user.name[USER.len()..];
        if node.is_empty() {
            let told = format!("could not determine node from user {}", quote(&attempt.user.name));
            return Err(attempt.forbidden(told));
        }
        match (&*attempt.storage.group, &*attempt.storage.plural) {
            ("", "pods") => match attempt.subresource {
                None => pod(attempt, node, new),
                Some("status") => pod_status(attempt, node, new),
                Some("eviction") => eviction(attempt, node, new),
                Some(other) => Err(attempt.forbidden(format!(
                    "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                    quote(other)
                ))),
            },
            ("", "nodes") => own_node(attempt, node, new),
            ("", "persistentvolumeclaims") if attempt.subresource == Some("status") => {
                claim_status(attempt, node, new)
            }
            ("", "persistentvolumeclaims") => Err(attempt.forbidden("may only update PVC status")),
            ("", "serviceaccounts") => tokens::check(&self.0, attempt, node, new),
            ("coordination.k8s.io", "leases") => lease(attempt, node),
            ("storage.k8s.io", "csinodes") if attempt.name != node => {
                Err(attempt.forbidden("can only access CSINode with the same name as the requesting node"))
            }
            ("resource.k8s.io", "resourceslices") => resource_slice(attempt, node, new),
            ("certificates.k8s.io", "certificatesigningrequests") => signing_request(attempt, node, new),
            _ => Ok(()),
        }
    }
}

fn pod(attempt: &Attempt<'_>, node: &str, new: Option<&Value>) -> Result<(), Status> {
    match (attempt.operation, new) {
        (Operation::Create, Some(new)) => mirror_pods::check(attempt, node, new),
        (Operation::Delete, _) => {
            let runs_on = attempt.old.and_then(|old| old.str_at(&["spec", "nodeName"])).unwrap_or("");
            if runs_on == node {
                return Ok(());
            }
            Err(attempt.forbidden(format!(
                "node {} can only delete pods with spec.nodeName set to itself",
                quote(node)
            )))
        }
        (operation, _) => Err(attempt.forbidden(format!(
            "unexpected operation {}, node {} can only create and delete mirror pods",
            quote(operation.name()),
            quote(node)
        ))),
    }
}

fn pod_status(attempt: &Attempt<'_>, node: &str, new: Option<&Value>) -> Result<(), Status> {
    let (Operation::Update, Some(new), Some(old)) = (attempt.operation, new, attempt.old) else {
        return Err(unexpected(attempt));
    };
    let node_text = quote(node);
    let no = |told: String| Err(attempt.forbidden(told));
    if old.str_at(&["spec", "nodeName"]).unwrap_or("") != node {
        return no(format!(
            "node {node_text} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if !changed_labels(new, Some(old)).is_empty() {
        return no(format!("node {node_text} cannot update labels through pod status"));
    }
    let differs = |member| filled(old.at(&["status", member])) != filled(new.at(&["status", member]));
    if differs("resourceClaimStatuses") {
        return no(format!("node {node_text} cannot update resource claim statues"));
    }
    if differs("extendedResourceClaimStatus") {
        return no(format!("node {node_text} cannot update extended resource claim status"));
    }
    Ok(())
}

fn eviction(attempt: &Attempt<'_>, node: &str, new: Option<&Value>) -> Result<(), Status> {
    if attempt.operation != Operation::Create {
        return Err(attempt.forbidden(format!("unexpected operation {}", attempt.operation.name())));
    }
    let in_body = new.and_then(|e| e.str_at(&["metadata", "name"])).unwrap_or("");
    let name = if attempt.name.is_empty() { in_body } else { attempt.name };
    if name.is_empty() {
        return Err(attempt.forbidden("could not determine pod from request data"));
    }
    let Some(pod) = attempt.find("", "pods", attempt.namespace, name) else {
        return Err(Status::not_found(About { group: "", resource: "pod" }, name));
    };
    if attempt.tree(&pod).str_at(&["spec", "nodeName"]).unwrap_or("") != node {
        return Err(
            attempt.forbidden(format!("node {node} can only evict pods with spec.nodeName set to itself"))
        );
    }
    Ok(())
}

fn own_node(attempt: &Attempt<'_>, node: &str, new: Option<&Value>) -> Result<(), Status> {
    let node_text = quote(node);
    let no = |told: String| Err(attempt.forbidden(told));
    if attempt.name != node {
        return no(format!("node {node_text} is not allowed to modify node {}", quote(attempt.name)));
    }
    let Some(new) = new else { return Ok(()) };
    let source = filled(new.at(&["spec", "configSource"]));
    let labels: Vec<String> =
        changed_labels(new, attempt.old).into_iter().filter(|label| !may_label(label)).collect();
    let Some(old) = attempt.old else {
        if source.is_some() {
            return no(format!("node {node_text} is not allowed to create pods with a non-nil configSource"));
        }
        if !labels.is_empty() {
            let labels = labels.join(", ");
            return no(format!("node {node_text} is not allowed to set the following labels: {labels}"));
        }
        return Ok(());
    };
    if source.is_some() && source != filled(old.at(&["spec", "configSource"])) {
        return no(format!(
            "node {node_text} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    if filled(new.at(&["spec", "taints"])) != filled(old.at(&["spec", "taints"])) {
        return no(format!("node {node_text} is not allowed to modify taints"));
    }
    let owners = ["metadata", "ownerReferences"];
    if filled(new.at(&owners)) != filled(old.at(&owners)) {
        return no(format!("node {node_text} is not allowed to modify ownerReferences"));
    }
    if !labels.is_empty() {
        return no(format!("is not allowed to modify labels: {}", labels.join(", ")));
    }
    Ok(())
}

/// Everything but what a kubelet reports about a volume stays.
fn claim_status(attempt: &Attempt<'_>, node: &str, new: Option<&Value>) -> Result<(), Status> {
    let (Operation::Update, Some(new), Some(old)) = (attempt.operation, new, attempt.old) else {
        return Err(unexpected(attempt));
    };
    let rest = |tree: &Value| {
        let mut tree = tree.clone();
        let metadata = tree.map_at(&["metadata"]);
        for ours in ["resourceVersion", "managedFields"] {
            metadata.remove(ours);
        }
        let status = tree.map_at(&["status"]);
        for reported in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            status.remove(reported);
        }
        tree
    };
    let (new, old) = (rest(new), rest(old));
    if new == old {
        return Ok(());
    }
    let members = |tree: &Value, other: &Value| -> Vec<String> {
        let map = tree.as_map().map(|m| m.iter().collect::<Vec<_>>()).unwrap_or_default();
        map.iter().filter(|(n, v)| other.get(n) != Some(v)).map(|(n, _)| n.to_string()).collect()
    };
    let differing: BTreeSet<String> = members(&new, &old).into_iter().chain(members(&old, &new)).collect();
    let differing: Vec<String> = differing.into_iter().collect();
    Err(attempt.forbidden(format!(
        "node {} is not allowed to update fields other than status.quantity and status.conditions: {} differs",
        quote(node),
        differing.join(", ")
    )))
}

fn lease(attempt: &Attempt<'_>, node: &str) -> Result<(), Status> {
    if attempt.namespace != NODE_LEASES {
        let place = quote(NODE_LEASES);
        return Err(attempt.forbidden(format!("can only access leases in the {place} system namespace")));
    }
    if attempt.name != node {
        let told = "can only access node lease with the same name as the requesting node";
        return Err(attempt.forbidden(told));
    }
    Ok(())
}

fn resource_slice(attempt: &Attempt<'_>, node: &str, new: Option<&Value>) -> Result<(), Status> {
    let (object, verb) = match attempt.operation {
        Operation::Create => (new, "create"),
        Operation::Delete => (attempt.old, "delete"),
        // Others are the node authorizer's.
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if object.and_then(|slice| slice.str_at(&["spec", "nodeName"])) == Some(node) {
        return Ok(());
    }
    let told = format!("can only {verb} ResourceSlice with the same NodeName as the requesting node");
    Err(attempt.forbidden(told))
}

fn signing_request(attempt: &Attempt<'_>, node: &str, new: Option<&Value>) -> Result<(), Status> {
    let Some(new) = new.filter(|_| attempt.operation == Operation::Create) else { return Ok(()) };
    let signer = new.str_at(&["spec", "signerName"]).unwrap_or("");
    if !matches!(signer, "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet") {
        return Ok(());
    }
    let request = auth::pki::request_of(new);
    let request = request.map_err(|error| attempt.forbidden(format!("unable to parse csr: {error}")))?;
    if request.common_name() != format!("{USER}{node}") {
        return Err(attempt.forbidden(format!("can only create a node CSR with CN={USER}{node}")));
    }
    Ok(())
}

fn unexpected(attempt: &Attempt<'_>) -> Status {
    attempt.forbidden(format!("unexpected operation {}", quote(attempt.operation.name())))
}

/// Sorted names of the labels that differ.
fn changed_labels(new: &Value, old: Option<&Value>) -> BTreeSet<String> {
    fn labels(tree: Option<&Value>) -> BTreeMap<&str, &Value> {
        let map = tree.and_then(|tree| tree.at(&["metadata", "labels"])).and_then(Value::as_map);
        map.map(|map| map.iter().map(|(name, value)| (&**name, value)).collect()).unwrap_or_default()
    }
    let (new, old) = (labels(Some(new)), labels(old));
    let appeared = new.iter().filter(|(name, value)| old.get(*name) != Some(value));
    let vanished = old.iter().filter(|(name, value)| new.get(*name) != Some(value));
    appeared.chain(vanished).map(|(name, _)| (*name).to_owned()).collect()
}

fn may_label(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within =
        |whole: &str| domain == whole || domain.strip_suffix(whole).is_some_and(|rest| rest.ends_with('.'));
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    let reserved = within("kubernetes.io") || within("k8s.io");
    !reserved || OWN_LABELS.contains(&label) || OWN_LABEL_DOMAINS.iter().any(|domain| within(domain))
}

/// Empty is as good as absent.
fn filled(value: Option<&Value>) -> Option<&Value> {
    value.filter(|v| !v.is_null() && v.as_list().is_none_or(|list| !list.is_empty()))
}
