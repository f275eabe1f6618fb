//! The status a policy should have.

use admission_policy::{Kinds, type_check};
use object::Value;

/// Whether its expressions have changed since they were checked.
pub fn is_due(policy: &Value) -> bool {
    let number = |path: [&str; 2]| policy.at(&path).and_then(Value::as_int).unwrap_or(0);
    number(["metadata", "generation"]) > number(["status", "observedGeneration"])
}

/// The configuration to apply.
pub fn plan(policy: &Value, kinds: &dyn Kinds) -> Value {
    let nothing = Value::map();
    let warnings = type_check(policy.get("spec").unwrap_or(&nothing), kinds);
    let warnings: Vec<Value> = warnings
        .into_iter()
        .map(|warning| {
            let mut out = Value::map();
            let map = out.make_map();
            map.set("fieldRef", warning.field_ref);
            map.set("warning", warning.warning);
            out
        })
        .collect();
    let mut config = Value::map();
    let status = config.map_at(&["status"]);
    let generation = policy.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
    status.set("observedGeneration", generation);
    let mut checking = Value::map();
    if !warnings.is_empty() {
        checking.make_map().set("expressionWarnings", Value::List(warnings));
    }
    status.set("typeChecking", checking);
    config
}
