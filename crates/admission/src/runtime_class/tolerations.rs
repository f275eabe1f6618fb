//! Merging tolerations: what another one covers is left out.

use object::{Map, Value};

use crate::tree::{items, list_mut, text};

/// The pod's tolerations and then the class's.
pub fn merge(spec: &mut Map, scheduling: &Value) {
    let own = spec.get("tolerations").and_then(Value::as_list).unwrap_or_default();
    let all: Vec<Value> = own.iter().chain(items(scheduling, "tolerations")).cloned().collect();
    let mut merged: Vec<Value> = Vec::with_capacity(all.len());
    for (i, one) in all.iter().enumerate() {
        let before = merged.iter().any(|other| covers(other, one));
        let after = all[i + 1..].iter().any(|other| !same(other, one) && covers(other, one));
        if !before && !after {
            merged.push(one.clone());
        }
    }
    if !merged.is_empty() {
        *list_mut(spec, "tolerations") = merged;
    }
}

fn same(a: &Value, b: &Value) -> bool {
    ["key", "operator", "value", "effect"].iter().all(|name| text(a, name) == text(b, name))
        && seconds(a) == seconds(b)
}

fn seconds(toleration: &Value) -> Option<i64> {
    toleration.get("tolerationSeconds").and_then(Value::as_int)
}

/// Does `wide` tolerate everything `narrow` does?
fn covers(wide: &Value, narrow: &Value) -> bool {
    if same(wide, narrow) {
        return true;
    }
    let any_key = text(wide, "key").is_empty() && text(wide, "operator") == "Exists";
    if !any_key && text(wide, "key") != text(narrow, "key") {
        return false;
    }
    let effect = text(wide, "effect");
    if !effect.is_empty() && effect != text(narrow, "effect") {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match text(wide, "operator") {
        "" | "Equal" => text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value"),
        "Exists" => true,
        _ => false,
    }
}
