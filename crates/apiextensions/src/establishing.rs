//! When a definition is served for good: its names are accepted and every server has had the time to serve it.
//!
//! Upstream waits five seconds where several servers share an etcd; with one server it does not wait.

#[cfg(test)]
mod tests;

use object::Value;

use crate::conditions::{Draft, ESTABLISHED, NAMES_ACCEPTED, is_true};

const CA_BUNDLE: [&str; 5] = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];

/// Whether the definition waits for this.
pub fn is_due(definition: &Value) -> bool {
    is_true(definition, NAMES_ACCEPTED) && !is_true(definition, ESTABLISHED)
}

/// The new status, if it changes.
pub fn plan(definition: &Value, now: i64) -> Option<Value> {
    if !is_due(definition) {
        return None;
    }
    let mut draft = Draft::of(definition, now);
    if has_valid_ca_bundle(definition) {
        draft.set(ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted");
    } else {
        draft.set(ESTABLISHED, "False", "InvalidCABundle", "The conversion webhook CABundle is invalid");
    }
    draft.changed(definition)
}

/// The bundle was checked when it was written; definitions of an older server may hold anything.
fn has_valid_ca_bundle(definition: &Value) -> bool {
    definition.str_at(&CA_BUNDLE).and_then(kinds::ca_bundle_problem).is_none()
}
