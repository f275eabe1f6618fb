//! The rules of daemon sets.

use object::Value;

use crate::check::internal::{Go, ROLLING_UPDATE};
use crate::check::text::{count_or_percent, is_empty_selector, selects};
use crate::check::{Errors, Path, Raw, member, text};
use crate::pod::validation;
use crate::workload::{SPEC, check_always, check_collisions, check_counts, options};
use crate::write::Write;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    if write.is_status() {
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        check_counts(write.status(), &counts, errors);
        return check_collisions(write, errors);
    }
    let spec = write.spec();
    let selector = member(spec, "selector");
    let at = SPEC.child("selector");
    if let Some(old) = write.old_spec() {
        errors.immutable(&at, selector, old.get("selector"));
    }
    let none = Value::Null;
    let template = spec.get("template").unwrap_or(&none);
    let template_at = SPEC.child("template");
    let labels = template.at(&["metadata", "labels"]);
    errors.label_selector(&at, selector);
    if selects(selector, labels) == Some(false) {
        let metadata = template_at.child("metadata");
        errors.invalid(&metadata.child("labels"), labels, "`selector` does not match template `labels`");
    }
    if let Some(selector) = selector.filter(|s| is_empty_selector(s)) {
        errors.invalid(&at, selector, "empty selector is invalid for daemonset");
    }
    validation::template(template, &template_at, &options(write), errors);
    check_always(template, &template_at, "DaemonSet", errors);
    errors.nonnegative(&SPEC, spec, "minReadySeconds");
    check_strategy(spec.get("updateStrategy").unwrap_or(&none), &SPEC.child("updateStrategy"), errors);
    errors.nonnegative(&SPEC, spec, "revisionHistoryLimit");
}

fn check_strategy(strategy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let rolling = member(strategy, "rollingUpdate");
    let rolling_at = at.child("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.required(&rolling_at, ""),
        ("RollingUpdate", Some(rolling)) => check_rolling(rolling, &rolling_at, errors),
        (other, rolling) => {
            let rolling = Go::Pointer(ROLLING_UPDATE).show(rolling);
            let shown = format!(r#"{{"Type":{},"RollingUpdate":{rolling}}}"#, object::quote(other));
            errors.not_supported(at, Raw(&shown), &["RollingUpdate", "OnDelete"]);
        }
    }
}

/// A node's pod either goes first or comes first.
fn check_rolling(rolling: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (most, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    let (most_at, surge_at) = (at.child("maxUnavailable"), at.child("maxSurge"));
    errors.count_or_percent(&most_at, most);
    errors.count_or_percent(&surge_at, surge);
    errors.at_most_100_percent(&most_at, most);
    errors.at_most_100_percent(&surge_at, surge);
    match (count_or_percent(most) != 0, count_or_percent(surge) != 0) {
        (true, true) => errors.invalid(&surge_at, surge, "may not be set when maxUnavailable is non-zero"),
        (false, false) => errors.required(&most_at, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}
