//! Where a new condition goes when a strategic patch adds it: behind those that are there.

use object::{Map, Value};

/// The patch's member for it. Without it the server puts what is new first, as kube-apiserver does; client-go's patches
/// always carry it.
pub const CONDITIONS_ORDER: &str = "$setElementOrder/conditions";

/// The types of the conditions of `object.status` as they stand; `kind` behind them if it is new.
pub fn conditions_with(object: &Value, kind: &str) -> Value {
    let there = object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let mut kinds: Vec<&str> = there.iter().filter_map(|c| c.str_at(&["type"])).collect();
    if !kinds.contains(&kind) {
        kinds.push(kind);
    }
    let element = |kind: &str| {
        let mut element = Map::default();
        element.set("type", kind);
        Value::Map(element)
    };
    Value::List(kinds.into_iter().map(element).collect())
}
