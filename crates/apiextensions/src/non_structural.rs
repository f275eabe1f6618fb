//! Definitions whose schemas are not structural: only ones that an older server accepted, and they say so.

#[cfg(test)]
mod tests;

use object::Value;
use structural::rules;

use crate::conditions::{Draft, NON_STRUCTURAL_SCHEMA, aggregate, find, says};

/// The new status, if it changes.
pub fn plan(definition: &Value, now: i64) -> Option<Value> {
    let old = find(definition, NON_STRUCTURAL_SCHEMA);
    let mut draft = Draft::of(definition, now);
    match condition(definition) {
        None if old.is_none() => return None,
        None => draft.remove(NON_STRUCTURAL_SCHEMA),
        Some((status, reason, message)) => {
            if says(old, status, reason, &message) {
                return None;
            }
            draft.set(NON_STRUCTURAL_SCHEMA, status, reason, &message);
        }
    }
    Some(draft.finish())
}

/// Status, reason and message; `None` if there is nothing to say.
fn condition(definition: &Value) -> Option<(&'static str, &'static str, String)> {
    let mut errors = Vec::new();
    if definition.at(&["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true)) {
        errors.push("spec.preserveUnknownFields: Invalid value: true: must be false".to_owned());
    }
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    for (i, version) in versions.iter().enumerate() {
        let schema = version.at(&["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null());
        let Some(schema) = schema else { continue };
        match rules::violations(schema, &format!("spec.versions[{i}].schema.openAPIV3Schema")) {
            Ok(found) => errors.extend(found.iter().map(ToString::to_string)),
            Err(why) => {
                let name = version.str_at(&["name"]).unwrap_or_default();
                let message = format!("failed to check validation schema for version {name}: {why}");
                return Some(("Unknown", "StructuralError", message));
            }
        }
    }
    (!errors.is_empty()).then(|| ("True", "Violations", aggregate(&errors)))
}
