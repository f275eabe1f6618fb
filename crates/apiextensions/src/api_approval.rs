//! Definitions in groups of the Kubernetes project say whether the project approved them.

#[cfg(test)]
mod tests;

use kinds::api_approval::{ANNOTATION, Approval, is_protected};
use object::Value;

use crate::conditions::{API_APPROVAL, Draft, find, says};

/// The new status, if it changes. The group of a definition never does, so a condition is never taken back.
pub fn plan(definition: &Value, now: i64) -> Option<Value> {
    if !is_protected(definition.str_at(&["spec", "group"]).unwrap_or_default()) {
        return None;
    }
    let annotation = definition.str_at(&["metadata", "annotations", ANNOTATION]).unwrap_or_default();
    let approval = Approval::of(annotation);
    let (status, reason) = match approval {
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Invalid => ("False", "InvalidAnnotation"),
    };
    let message = approval.message(annotation);
    if says(find(definition, API_APPROVAL), status, reason, &message) {
        return None;
    }
    let mut draft = Draft::of(definition, now);
    draft.set(API_APPROVAL, status, reason, &message);
    Some(draft.finish())
}
