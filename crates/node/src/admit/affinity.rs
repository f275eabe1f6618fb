//! Does a node have the labels a pod demands, and does the pod stand the node's NoExecute taints?

use object::Value;
use object::selector::NodeSelector;

/// nodeSelector and the required part of nodeAffinity.
pub fn matches(pod: &Value, node: &Value) -> bool {
    let label = |name: &str| node.at(&["metadata", "labels"])?.str_at(&[name]);
    if let Some(selector) = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_map)
        && !selector.iter().all(|(name, value)| label(name) == value.as_str())
    {
        return false;
    }
    let name = node.str_at(&["metadata", "name"]).unwrap_or("");
    NodeSelector::required_by(pod).is_none_or(|required| required.matches(name, &label))
}

/// Every NoExecute taint has a toleration. (The others are the scheduler's.)
pub fn tolerates(pod: &Value, node: &Value) -> bool {
    let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
    no_execute(node).all(|taint| tolerations.iter().any(|toleration| covers(toleration, taint)))
}

/// The taints a node agent cares for.
pub fn no_execute(node: &Value) -> impl Iterator<Item = &Value> {
    let taints = node.at(&["spec", "taints"]).and_then(Value::as_list).unwrap_or_default();
    taints.iter().filter(|taint| taint.str_at(&["effect"]) == Some("NoExecute"))
}

fn covers(toleration: &Value, taint: &Value) -> bool {
    let of = |value: &Value, name: &str| value.str_at(&[name]).unwrap_or("").to_owned();
    let effect = of(toleration, "effect");
    let key = of(toleration, "key");
    if !(effect.is_empty() || effect == of(taint, "effect")) || !(key.is_empty() || key == of(taint, "key")) {
        return false;
    }
    match &*of(toleration, "operator") {
        "" | "Equal" => of(toleration, "value") == of(taint, "value"),
        "Exists" => true,
        _ => false,
    }
}
