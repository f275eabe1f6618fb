//! Does a node have the labels a pod demands, and does the pod stand the node's NoExecute taints?

use object::Value;

/// nodeSelector and the required part of nodeAffinity.
pub fn matches(pod: &Value, node: &Value) -> bool {
    let label = |name: &str| node.at(&["metadata", "labels"])?.str_at(&[name]);
    if let Some(selector) = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_map)
        && !selector.iter().all(|(name, value)| label(name) == value.as_str())
    {
        return false;
    }
    let required = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    let Some(terms) = pod.at(&required).and_then(Value::as_list) else { return true };
    let node_name = node.str_at(&["metadata", "name"]);
    terms.iter().any(|term| {
        let list = |name: &str| term.get(name).and_then(Value::as_list).unwrap_or_default();
        let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
        // A term that says nothing matches nothing.
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|e| meets(e, label(e.str_at(&["key"]).unwrap_or(""))))
            && fields.iter().all(|e| e.str_at(&["key"]) == Some("metadata.name") && meets(e, node_name))
    })
}

fn meets(requirement: &Value, value: Option<&str>) -> bool {
    let values = requirement.get("values").and_then(Value::as_list).unwrap_or_default();
    let listed = || values.iter().any(|v| v.as_str() == value);
    let numbers = || {
        let wanted: i64 = values.first()?.as_str()?.parse().ok()?;
        Some((value?.parse::<i64>().ok()?, wanted))
    };
    match requirement.str_at(&["operator"]).unwrap_or("") {
        "In" => value.is_some() && listed(),
        "NotIn" => value.is_none() || !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(there, wanted)| there > wanted),
        "Lt" => numbers().is_some_and(|(there, wanted)| there < wanted),
        _ => false,
    }
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
