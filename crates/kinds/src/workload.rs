//! What the workloads share: a selector that finds the pods of their template, and counts in their status.

use object::Value;

use crate::check::text::{is_empty_selector, selects};
use crate::check::{Errors, Path, int, member, text};
use crate::pod::validation::{self, Options};
use crate::write::Write;

pub(crate) const SPEC: Path<'static> = Path::Root("spec");
pub(crate) const STATUS: Path<'static> = Path::Root("status");
/// Where most workloads hold the spec of their pods.
pub(crate) const POD_SPEC: &[&str] = &["spec", "template", "spec"];
const MISMATCH: &str = "`selector` does not match template `labels`";

/// Upstream's internal form has a number where the versioned one may have none.
pub(crate) fn without_replicas(blank: &mut Value) {
    blank.map_at(&["spec"]).set("replicas", 0i64);
}

/// The template of a workload, with what the stored one is allowed to keep.
pub(crate) fn options(write: &Write<'_>) -> Options {
    Options::for_template(write.old_spec().and_then(|spec| spec.get("template")))
}

/// A selector that is present, well-formed and not empty. `of` names the workload in the error.
pub(crate) fn check_selector(spec: &Value, of: &str, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("selector");
    let Some(selector) = member(spec, "selector") else { return errors.required(&at, "") };
    errors.label_selector(&at, Some(selector));
    if is_empty_selector(selector) {
        errors.invalid(&at, selector, format!("empty selector is invalid for {of}"));
    }
}

/// The template whose pods a ReplicaSet (a Deployment's or its own) keeps. Upstream names the ReplicaSet for both.
pub(crate) fn check_replica_template(
    spec: &Value,
    spec_at: &Path<'_>,
    options: &Options,
    kind: &str,
    errors: &mut Errors,
) {
    let none = Value::Null;
    let template = spec.get("template").unwrap_or(&none);
    let at = spec_at.child("template");
    let selector = member(spec, "selector");
    if selects(selector, None).is_none() {
        return errors.invalid(&spec_at.child("selector"), selector, "invalid label selector");
    }
    check_selected(selector, template, &at, errors);
    validation::template(template, &at, options, errors);
    check_always(template, &at, kind, errors);
}

/// The template's labels are among what is selected. No selector, or an empty one, was refused already.
pub(crate) fn check_selected(selector: Option<&Value>, template: &Value, at: &Path<'_>, errors: &mut Errors) {
    let labels = template.at(&["metadata", "labels"]);
    let applies = selector.is_none_or(|s| !is_empty_selector(s));
    if applies && selects(selector, labels) == Some(false) {
        let metadata = at.child("metadata");
        errors.invalid(&metadata.child("labels"), labels, MISMATCH);
    }
}

/// Pods that are to run for ever restart always and have no deadline.
pub(crate) fn check_always(template: &Value, at: &Path<'_>, kind: &str, errors: &mut Errors) {
    let none = Value::Null;
    let spec = template.get("spec").unwrap_or(&none);
    let at = at.child("spec");
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(&at.child("restartPolicy"), policy, &["Always"]);
    }
    if member(spec, "activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&at.child("activeDeadlineSeconds"), detail);
    }
}

/// Counts of a status: none below zero.
pub(crate) fn check_counts(status: &Value, names: &[&str], errors: &mut Errors) {
    for name in names {
        errors.nonnegative(&STATUS, status, name);
    }
}

/// None of these exceeds `most`, which `words` describe in the error.
pub(crate) fn check_at_most(status: &Value, names: &[&str], most: &str, words: &str, errors: &mut Errors) {
    let most = int(status, most).unwrap_or(0);
    for name in names {
        let count = int(status, name).unwrap_or(0);
        if count > most {
            errors.invalid(&STATUS.child(name), count, format!("cannot be greater than {words}"));
        }
    }
}

/// The collision count never decreases.
pub(crate) fn check_collisions(write: &Write<'_>, errors: &mut Errors) {
    let count = |status: Option<&Value>| status.and_then(|s| int(s, "collisionCount"));
    let (now, before) = (count(Some(write.status())), count(write.old_status()));
    if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
        errors.invalid(&STATUS.child("collisionCount"), now.unwrap_or(0), "cannot be decremented");
    }
}
