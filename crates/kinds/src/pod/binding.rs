//! Binding a pod to a node: once, and only while it may be scheduled.

use object::{FieldError, Value, quote};

use crate::conditions::{self, Condition};

/// What is wrong with a Binding by itself.
pub fn check(binding: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = binding.str_at(&["target", "kind"]).unwrap_or("");
    if !kind.is_empty() && kind != "Node" {
        errors.push(FieldError::not_supported("target.kind", quote(kind), &["Node", "<empty>"]));
    }
    if binding.str_at(&["target", "name"]).unwrap_or("").is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    errors
}

/// Puts the pod on the binding's node; `Err` says why it cannot be.
pub fn apply(pod: &mut Value, binding: &Value, now: i64) -> Result<(), String> {
    let name = pod.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
    if pod.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null()) {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or("");
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node {}", quote(node)));
    }
    let gates = pod.at(&["spec", "schedulingGates"]).and_then(Value::as_list);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let node = binding.str_at(&["target", "name"]).unwrap_or("");
    pod.map_at(&["spec"]).set("nodeName", node);
    // The nominated node is obsolete.
    pod.map_at(&["status"]).remove("nominatedNodeName");
    for member in ["annotations", "labels"] {
        let Some(brought) = binding.at(&["metadata", member]).and_then(Value::as_map) else { continue };
        for (key, value) in brought.iter() {
            pod.map_at(&["metadata", member]).set(key.clone(), value.clone());
        }
    }
    let scheduled = Condition { kind: "PodScheduled", status: "True", ..Condition::default() };
    conditions::set(pod, &scheduled, now);
    Ok(())
}
