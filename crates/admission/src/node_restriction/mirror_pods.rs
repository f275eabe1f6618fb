//! Pods a kubelet creates: mirrors of what its machine says, owned by its node, that refer to nothing in the cluster.

use object::{About, Status, Value, quote};

use crate::Attempt;

const MIRROR: &str = "kubernetes.io/config.mirror";

pub fn check(attempt: &Attempt<'_>, node: &str, pod: &Value) -> Result<(), Status> {
    let node_text = quote(node);
    let no = |told: String| Err(attempt.forbidden(told));
    if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
        return no(format!(
            "pod does not have {} annotation, node {node_text} can only create mirror pods",
            quote(MIRROR)
        ));
    }
    if pod.str_at(&["spec", "nodeName"]).unwrap_or("") != node {
        return no(format!("node {node_text} can only create pods with spec.nodeName set to itself"));
    }
    let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
    let can = format!("node {node_text} can only create pods with");
    let owner = match owners {
        [owner] => owner,
        [] => return no(format!("{can} an owner reference set to itself")),
        _ => return no(format!("{can} a single owner reference set to itself")),
    };
    let text = |member| owner.str_at(&[member]).unwrap_or("");
    let flag = |member| owner.get(member).and_then(Value::as_bool).unwrap_or(false);
    if text("apiVersion") != "v1" || text("kind") != "Node" || text("name") != node {
        return no(format!("{can} an owner reference set to itself"));
    }
    if !flag("controller") {
        return no(format!("{can} a controller owner reference set to itself"));
    }
    if flag("blockOwnerDeletion") {
        return no(format!("node {node_text} must not set blockOwnerDeletion on an owner reference"));
    }
    let Some(obj) = attempt.find("", "nodes", "", node) else {
        return Err(Status::not_found(About { group: "", resource: "node" }, node));
    };
    if obj.uid() != text("uid") {
        let (expected, got) = (text("uid"), obj.uid());
        return no(format!("node {node} UID mismatch: expected {expected} got {got}"));
    }
    match kinds::pod::api_reference(pod) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => no(format!("node {node_text} can not create pods that reference {what}")),
        Err(why) => no(format!("error checking mirror pod for API references: {why}")),
    }
}
