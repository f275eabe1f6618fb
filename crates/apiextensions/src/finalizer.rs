//! How a definition goes: its objects first.
//!
//! ```text
//! DELETE ─ finalizer, Terminating=True InstanceDeletionPending        (kinds::customresourcedefinition)
//!   is_due ─ begin ─ Terminating=True InstanceDeletionInProgress ─ write
//!     instances ─ Delete ─ list, delete by namespace, wait until none is left ─ end(outcome)
//!               └ Keep(outcome) ─────────────────────────────────────────────── end(outcome)
//!   end ─ done: status and finalizers in one status update, and the definition goes
//!       └ not done: status, and again later
//! ```

#[cfg(test)]
mod tests;

use kinds::CUSTOM_RESOURCE_CLEANUP;
use object::Value;

use crate::conditions::{Draft, ESTABLISHED, TERMINATING, aggregate, find, is_true};

/// How long upstream waits for the last object to go, and how often it looks.
pub const INSTANCES_GONE_WITHIN_SECONDS: u64 = 60;
pub const INSTANCES_POLL_SECONDS: u64 = 5;

/// Resources whose objects lie where a definition of the same name would store its own.
const BUILT_IN: [(&str, &str); 2] =
    [("apiregistration.k8s.io", "apiservices"), ("apiextensions.k8s.io", "customresourcedefinitions")];

/// What became of a definition's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They are a built-in resource's, and stay.
    OverlappingBuiltIn,
    /// There never were any.
    NeverEstablished,
    Completed,
    /// With the error.
    NotListed(String),
    /// With one error for each namespace where the deletion failed.
    NotDeleted(Vec<String>),
    /// Some were still there in the end. With the error, or `context deadline exceeded`.
    NotGone(String),
}

/// Whether objects are to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instances {
    Delete,
    Keep(Outcome),
}

/// What to write when the objects are dealt with.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub status: Value,
    /// The finalizers that remain; `None`: not done, all of them do.
    pub finalizers: Option<Vec<Value>>,
}

/// The definition is deleted, and waits for its objects.
pub fn is_due(definition: &Value) -> bool {
    let deleted = definition.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
    deleted && finalizers(definition).iter().any(|name| name.as_str() == Some(CUSTOM_RESOURCE_CLEANUP))
}

/// The status to write first, since what follows may take a while; `None` if it says so already.
pub fn begin(definition: &Value, now: i64) -> Option<Value> {
    let mut draft = Draft::of(definition, now);
    let message = "CustomResource deletion is in progress";
    draft.set(TERMINATING, "True", "InstanceDeletionInProgress", message);
    draft.changed(definition)
}

/// The status says what went wrong: it stays until that changes, although it is tried again.
pub fn has_failed(definition: &Value) -> bool {
    let reason = find(definition, TERMINATING).and_then(|condition| condition.str_at(&["reason"]));
    matches!(reason, Some("InstanceDeletionFailed" | "InstanceDeletionCheck"))
}

pub fn instances(definition: &Value) -> Instances {
    let text = |path: &[&str]| definition.str_at(path).unwrap_or_default();
    if BUILT_IN.contains(&(text(&["spec", "group"]), text(&["spec", "names", "plural"]))) {
        return Instances::Keep(Outcome::OverlappingBuiltIn);
    }
    if is_true(definition, ESTABLISHED) {
        return Instances::Delete;
    }
    Instances::Keep(Outcome::NeverEstablished)
}

pub fn end(definition: &Value, outcome: &Outcome, now: i64) -> End {
    let (done, reason, message) = match outcome {
        Outcome::OverlappingBuiltIn => {
            let message = "instances overlap with built-in resources in storage".to_owned();
            (true, "OverlappingBuiltInResource", message)
        }
        Outcome::NeverEstablished => (true, "NeverEstablished", "resource was never established".to_owned()),
        Outcome::Completed => (true, "InstanceDeletionCompleted", "removed all instances".to_owned()),
        Outcome::NotListed(error) => {
            (false, "InstanceDeletionFailed", format!("could not list instances: {error}"))
        }
        Outcome::NotDeleted(errors) => {
            let message = format!("could not issue all deletes: {}", aggregate(errors));
            (false, "InstanceDeletionFailed", message)
        }
        Outcome::NotGone(error) => {
            let message = format!("could not confirm zero CustomResources remaining: {error}");
            (false, "InstanceDeletionCheck", message)
        }
    };
    let mut draft = Draft::of(definition, now);
    draft.set(TERMINATING, if done { "False" } else { "True" }, reason, &message);
    let remaining = finalizers(definition).iter().filter(|f| f.as_str() != Some(CUSTOM_RESOURCE_CLEANUP));
    End { status: draft.finish(), finalizers: done.then(|| remaining.cloned().collect()) }
}

fn finalizers(definition: &Value) -> &[Value] {
    definition.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default()
}
