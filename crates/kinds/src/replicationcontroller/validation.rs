//! The rules of replication controllers, whose selector is a plain map of labels.

use object::Value;

use crate::check::{Errors, entries, member};
use crate::pod::validation;
use crate::workload::{SPEC, check_always, check_at_most, check_counts, options};
use crate::write::Write;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    if write.is_status() {
        return check_status(write, errors);
    }
    let spec = write.spec();
    errors.nonnegative(&SPEC, spec, "minReadySeconds");
    let empty = entries(spec, "selector").next().is_none();
    if empty {
        errors.required(&SPEC.child("selector"), "");
    }
    match member(spec, "replicas") {
        None => errors.required(&SPEC.child("replicas"), ""),
        Some(_) => errors.nonnegative(&SPEC, spec, "replicas"),
    }
    let at = SPEC.child("template");
    let Some(template) = member(spec, "template") else { return errors.required(&at, "") };
    let labels = template.at(&["metadata", "labels"]);
    let selected = |(key, value): (&str, &Value)| labels.and_then(|l| l.get(key)) == Some(value);
    if !entries(spec, "selector").all(selected) {
        let metadata = at.child("metadata");
        errors.invalid(&metadata.child("labels"), labels, "`selector` does not match template `labels`");
    }
    validation::template(template, &at, &options(write), errors);
    check_always(template, &at, "ReplicationController", errors);
}

fn check_status(write: &Write<'_>, errors: &mut Errors) {
    let status = write.status();
    let counts =
        ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    check_counts(status, &counts, errors);
    check_at_most(status, &counts[1..4], "replicas", "status.replicas", errors);
    check_at_most(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
}
