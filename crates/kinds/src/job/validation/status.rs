//! Status writes of a job: only changes are validated, so that an odd status can still be updated.

use object::Value;

use super::{indexes, is_indexed};
use crate::check::internal::{NULL, internal};
use crate::check::{Errors, Path, Raw, Seen, flag, int, items, member, text};
use crate::same;

const STATUS: Path<'static> = Path::Root("status");

pub(super) fn is_true(status: &Value, condition: &str) -> bool {
    has(status, condition, "True")
}

fn has(status: &Value, condition: &str, state: &str) -> bool {
    items(status, "conditions").iter().any(|c| text(c, "type") == condition && text(c, "status") == state)
}

fn is_finished(status: &Value) -> bool {
    is_true(status, "Complete") || is_true(status, "Failed")
}

pub(super) fn check(new: &Value, old: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let spec = new.get("spec").unwrap_or(&none);
    let now = new.get("status").unwrap_or(&none);
    let was = old.get("status").unwrap_or(&none);
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        errors.nonnegative(&STATUS, now, name);
    }
    check_uncounted(now, errors);
    check_conditions(now, was, errors);
    check_finished(spec, now, was, errors);
    check_indexes(spec, now, was, errors);
    let changed = |name: &str| !same(now.get(name), was.get(name));
    if is_finished(now) && (is_finished(was) != is_finished(now) || changed("terminating")) {
        no_more(now, "terminating", "terminating>0 is invalid for finished job", errors);
    }
    if (changed("ready") || changed("active"))
        && let Some(ready) = int(now, "ready").filter(|ready| *ready > int(now, "active").unwrap_or(0))
    {
        errors.invalid(&STATUS.child("ready"), ready, "cannot set more ready pods than active");
    }
    check_success(spec, now, errors);
    check_transitions(spec, now, was, errors);
}

fn refuse(errors: &mut Errors, why: impl Into<String>) {
    errors.invalid(&STATUS.child("conditions"), Raw(""), why);
}

fn no_more(status: &Value, name: &str, why: &str, errors: &mut Errors) {
    if let Some(count) = int(status, name).filter(|n| *n > 0) {
        errors.invalid(&STATUS.child(name), count, why);
    }
}

fn check_uncounted(now: &Value, errors: &mut Errors) {
    let Some(pods) = member(now, "uncountedTerminatedPods") else { return };
    let mut seen = Seen::default();
    for list in ["succeeded", "failed"] {
        for (i, uid) in items(pods, list).iter().enumerate() {
            let uid = uid.as_str().unwrap_or_default();
            let at = STATUS.child("uncountedTerminatedPods");
            let at = at.child(list);
            if uid.is_empty() {
                errors.invalid(&at.index(i), uid, "must not be empty");
            } else if seen.again(uid) {
                errors.duplicate(&at.index(i), uid);
            }
        }
    }
}

fn check_conditions(now: &Value, was: &Value, errors: &mut Errors) {
    let moved = |name: &str| is_true(now, name) != is_true(was, name);
    let changed = |name: &str| !same(now.get(name), was.get(name));
    let (complete, failed) = (is_true(now, "Complete"), is_true(now, "Failed"));
    if complete && failed && (moved("Complete") || moved("Failed")) {
        refuse(errors, "cannot set Complete=True and Failed=true conditions");
    }
    if complete && is_true(now, "FailureTarget") && (moved("Complete") || moved("FailureTarget")) {
        refuse(errors, "cannot set Complete=True and FailureTarget=true conditions");
    }
    let at = STATUS.child("completionTime");
    let (start, end) = (member(now, "startTime"), member(now, "completionTime"));
    if moved("Complete") || changed("completionTime") {
        match end {
            Some(end) if !complete => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(&at, end, why);
            }
            None if complete => errors.required(&at, "completionTime is required for Complete jobs"),
            _ => {}
        }
    }
    if let (Some(start), Some(end)) = (start, end)
        && (changed("startTime") || changed("completionTime"))
    {
        let seconds = |v: &Value| v.as_str().and_then(object::time::parse);
        if seconds(end) < seconds(start) {
            errors.invalid(&at, end, "must be equal to or after `startTime`");
        }
    }
    if failed && !is_true(now, "FailureTarget") && (moved("Failed") || changed("failedIndexes")) {
        refuse(errors, "cannot set Failed=True condition without the FailureTarget=true condition");
    }
    let met = is_true(now, "SuccessCriteriaMet");
    if complete && !met && (moved("Complete") || moved("SuccessCriteriaMet")) {
        refuse(errors, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
}

fn check_finished(spec: &Value, now: &Value, was: &Value, errors: &mut Errors) {
    if !is_finished(now) {
        return;
    }
    let ended = is_finished(now) != is_finished(was);
    let changed = |name: &str| ended || !same(now.get(name), was.get(name));
    if changed("active") {
        no_more(now, "active", "active>0 is invalid for finished job", errors);
    }
    // A job of no completions can be finished while it is suspended, without ever having started.
    let never_started = flag(spec, "suspend") && int(spec, "completions") == Some(0);
    if changed("startTime") && !never_started && member(now, "startTime").is_none() {
        errors.required(&STATUS.child("startTime"), "startTime is required for finished job");
    }
    if changed("uncountedTerminatedPods")
        && let Some(pods) = member(now, "uncountedTerminatedPods")
        && ["failed", "succeeded"].iter().any(|list| !items(pods, list).is_empty())
    {
        let at = STATUS.child("uncountedTerminatedPods");
        let shown = internal(Some(pods), &[("succeeded", "Succeeded", NULL), ("failed", "Failed", NULL)]);
        errors.invalid(&at, Raw(&shown), "must be empty for finished job");
    }
}

fn check_indexes(spec: &Value, now: &Value, was: &Value, errors: &mut Errors) {
    let changed = |name: &str| !same(now.get(name), was.get(name));
    let completions = int(spec, "completions");
    let completed = text(now, "completedIndexes");
    let failed = member(now, "failedIndexes").and_then(Value::as_str);
    let (completed_at, failed_at) = (STATUS.child("completedIndexes"), STATUS.child("failedIndexes"));
    let per_index = int(spec, "backoffLimitPerIndex").is_some();
    if changed("completedIndexes")
        && let Some(Err(error)) = completions.map(|n| indexes::count(completed, n))
    {
        errors.invalid(&completed_at, completed, format!("error parsing completedIndexes: {error}"));
    }
    if changed("failedIndexes")
        && per_index
        && let (Some(completions), Some(failed)) = (completions, failed)
        && let Err(error) = indexes::count(failed, completions)
    {
        errors.invalid(&failed_at, failed, format!("error parsing failedIndexes: {error}"));
    }
    if changed("completedIndexes") && !completed.is_empty() && !is_indexed(spec) {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_at, completed, why);
    }
    let Some(failed) = failed else { return };
    if changed("failedIndexes") && !per_index {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_at, failed, why);
    }
    if (changed("failedIndexes") || changed("completedIndexes"))
        && let Some(index) = completions.and_then(|n| indexes::overlap(completed, failed, n))
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed_at, failed, why);
    }
}

fn check_success(spec: &Value, now: &Value, errors: &mut Errors) {
    let met = is_true(now, "SuccessCriteriaMet");
    if met && is_true(now, "Failed") {
        refuse(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && is_true(now, "FailureTarget") {
        refuse(errors, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if member(spec, "successPolicy").is_some() && !met && is_true(now, "Complete") {
        refuse(errors, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
    }
}

fn check_transitions(spec: &Value, now: &Value, was: &Value, errors: &mut Errors) {
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if is_true(was, condition) && !is_true(now, condition) {
            refuse(errors, format!("cannot disable the terminal {condition}=True condition"));
        }
    }
    let count = |status: &Value, name: &str| int(status, name).unwrap_or(0);
    let scales = is_indexed(spec) && same(spec.get("completions"), spec.get("parallelism"));
    for (name, checked) in [("failed", true), ("succeeded", !scales)] {
        if checked && count(now, name) < count(was, name) {
            let why = format!("cannot decrease the {name} counter");
            errors.invalid(&STATUS.child(name), count(now, name), why);
        }
    }
    let times = |name: &str| (member(now, name), member(was, name));
    if let (Some(end), Some(before)) = times("completionTime")
        && end != before
    {
        errors.invalid(&STATUS.child("completionTime"), end, crate::check::IMMUTABLE);
    }
    let resuming = is_true(was, "Suspended") && has(now, "Suspended", "False");
    let (start, before) = times("startTime");
    if before.is_some() && start != before && !resuming && !flag(spec, "suspend") {
        let why = "field is immutable for unsuspended job once set";
        errors.invalid(&STATUS.child("startTime"), start, why);
    }
    let met = |status: &Value| is_true(status, "SuccessCriteriaMet");
    if met(was) && !met(now) {
        refuse(errors, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is_true(was, "Complete") && !met(was) && met(now) {
        refuse(errors, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
}
