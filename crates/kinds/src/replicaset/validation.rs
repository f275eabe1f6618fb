//! The rules of replica sets.

use crate::check::Errors;
use crate::workload::{SPEC, check_at_most, check_counts, check_replica_template, check_selector, options};
use crate::write::Write;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    if write.is_status() {
        return check_status(write, errors);
    }
    let spec = write.spec();
    errors.nonnegative(&SPEC, spec, "replicas");
    errors.nonnegative(&SPEC, spec, "minReadySeconds");
    // Upstream says "deployment" here too.
    check_selector(spec, "deployment", &SPEC, errors);
    check_replica_template(spec, &SPEC, &options(write), "ReplicaSet", errors);
    if let Some(old) = write.old_spec() {
        errors.immutable(&SPEC.child("selector"), spec.get("selector"), old.get("selector"));
    }
}

fn check_status(write: &Write<'_>, errors: &mut Errors) {
    let status = write.status();
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    check_counts(status, &counts, errors);
    check_at_most(status, &counts[1..4], "replicas", "status.replicas", errors);
    check_at_most(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
}
