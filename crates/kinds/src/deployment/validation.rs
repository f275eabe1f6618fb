//! The rules of deployments: a template its selector finds, and a strategy that can make progress.

use object::Value;

use crate::check::internal::{Go, ROLLING_UPDATE};
use crate::check::text::count_or_percent;
use crate::check::{Errors, Path, Raw, int, member, text};
use crate::workload::{
    SPEC, check_at_most, check_collisions, check_counts, check_replica_template, check_selector, options,
};
use crate::write::Write;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    if write.is_status() {
        return check_status(write, errors);
    }
    let spec = write.spec();
    errors.nonnegative(&SPEC, spec, "replicas");
    check_selector(spec, "deployment", &SPEC, errors);
    check_replica_template(spec, &SPEC, &options(write), "ReplicaSet", errors);
    let none = Value::Null;
    check_strategy(spec.get("strategy").unwrap_or(&none), &SPEC.child("strategy"), errors);
    errors.nonnegative(&SPEC, spec, "minReadySeconds");
    errors.nonnegative(&SPEC, spec, "revisionHistoryLimit");
    let rollback = super::rollback_to(write.new).and_then(|text| object::parse_int(text).ok());
    if let Some(revision) = rollback.filter(|revision| *revision < 0) {
        let at = SPEC.child("rollback");
        errors.invalid(&at.child("version"), revision, "must be greater than or equal to 0");
    }
    if let Some(deadline) = int(spec, "progressDeadlineSeconds") {
        errors.nonnegative(&SPEC, spec, "progressDeadlineSeconds");
        if deadline <= int(spec, "minReadySeconds").unwrap_or(0) {
            let at = SPEC.child("progressDeadlineSeconds");
            errors.invalid(&at, deadline, "must be greater than minReadySeconds");
        }
    }
    if let Some(old) = write.old_spec() {
        errors.immutable(&SPEC.child("selector"), spec.get("selector"), old.get("selector"));
    }
}

fn check_strategy(strategy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rolling = member(strategy, "rollingUpdate");
    let rolling_at = at.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("Recreate", Some(_)) => {
            errors.forbidden(&rolling_at, "may not be specified when strategy `type` is 'Recreate'");
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => errors.required(&rolling_at, "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(rolling)) => check_rolling(rolling, &rolling_at, errors),
        (other, rolling) => {
            let rolling = Go::Pointer(ROLLING_UPDATE).show(rolling);
            let shown = format!(r#"{{"Type":{},"RollingUpdate":{rolling}}}"#, object::quote(other));
            errors.not_supported(at, Raw(&shown), &["Recreate", "RollingUpdate"]);
        }
    }
}

/// Surge and unavailable must not both be zero.
fn check_rolling(rolling: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (most, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    let most_at = at.child("maxUnavailable");
    errors.count_or_percent(&most_at, most);
    errors.count_or_percent(&at.child("maxSurge"), surge);
    if count_or_percent(most) == 0 && count_or_percent(surge) == 0 {
        errors.invalid(&most_at, most, "may not be 0 when `maxSurge` is 0");
    }
    errors.at_most_100_percent(&most_at, most);
}

fn check_status(write: &Write<'_>, errors: &mut Errors) {
    let status = write.status();
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    check_counts(status, &counts, errors);
    check_at_most(status, &counts[2..5], "replicas", "status.replicas", errors);
    check_at_most(status, &["availableReplicas"], "readyReplicas", "readyReplicas", errors);
    check_collisions(write, errors);
}
