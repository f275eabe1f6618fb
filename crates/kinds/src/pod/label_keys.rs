//! Label keys of a new pod's affinity and spread, turned into requirements with the pod's own values.
//!
//! ```text
//! matchLabelKeys: [a]     labels: {a: x}   ->  labelSelector … a in (x)
//! mismatchLabelKeys: [b]          {b: y}   ->  labelSelector … b notin (y)
//! ```
//!
//! Done once, on create: the pod's labels may change later, its scheduling requirements may not.

use object::{Map, Value};

use crate::strategy::map_mut;

pub(super) fn merge(pod: &mut Value) {
    let Some(labels) = pod.at(&["metadata", "labels"]).and_then(Value::as_map).cloned() else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = ["spec", "affinity", kind];
        for weighted in list_mut(pod, &path, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.as_map_mut().and_then(|m| m.get_mut("podAffinityTerm")) {
                merge_term(term, &labels);
            }
        }
        for term in list_mut(pod, &path, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_term(term, &labels);
        }
    }
    for constraint in list_mut(pod, &["spec"], "topologySpreadConstraints") {
        merge_keys(constraint, "matchLabelKeys", "In", &labels);
    }
}

fn merge_term(term: &mut Value, labels: &Map) {
    merge_keys(term, "matchLabelKeys", "In", labels);
    merge_keys(term, "mismatchLabelKeys", "NotIn", labels);
}

/// An absent selector selects nothing, and stays absent.
fn merge_keys(term: &mut Value, member: &str, operator: &'static str, labels: &Map) {
    let keys = term.get(member).and_then(Value::as_list).unwrap_or_default();
    let requirement = |key: &Value| {
        let value = labels.get(key.as_str()?)?.clone();
        let mut requirement = Map::default();
        requirement.set("key", key.clone());
        requirement.set("operator", operator);
        requirement.set("values", vec![value]);
        Some(Value::Map(requirement))
    };
    let added: Vec<Value> = keys.iter().filter_map(requirement).collect();
    let Some(selector) = map_mut(term, &["labelSelector"]).filter(|_| !added.is_empty()) else { return };
    match selector.entry("matchExpressions".into()) {
        Value::List(list) => list.extend(added),
        other => *other = Value::List(added),
    }
}

fn list_mut<'a>(pod: &'a mut Value, path: &[&str], member: &str) -> &'a mut [Value] {
    match map_mut(pod, path).and_then(|m| m.get_mut(member)) {
        Some(Value::List(list)) => list,
        _ => &mut [],
    }
}
