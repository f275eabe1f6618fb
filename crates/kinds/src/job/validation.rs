//! The rules of jobs: completions, policies, and a template of pods that end.

mod indexes;
mod policies;
mod status;

use object::{Value, validate_text};

use crate::check::internal::pod::{POD_SPEC, POD_TEMPLATE_SPEC, with_host_namespaces};
use crate::check::internal::{Field, Go, NULL, TEXT, internal};
use crate::check::text::selects;
use crate::check::{Errors, IMMUTABLE, Path, Raw, flag, int, items, member, text};
use crate::pod::validation::{self, Options};
use crate::same;
use crate::workload::{SPEC, options};
use crate::write::Write;

const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// Above as many completions the other numbers have to be smaller.
const COMPLETIONS_SOFT_LIMIT: i64 = 100_000;
const HIGH_COMPLETIONS_LIMIT: i64 = 10_000;
const MANAGED_BY_MAX_BYTES: usize = 63;
/// What stays as it was created, and how upstream shows it.
const FIXED: [(&str, Go); 5] = [
    ("completionMode", NULL),
    ("podFailurePolicy", Go::Pointer(&[("rules", "Rules", Go::List(FAILURE_RULE))])),
    ("backoffLimitPerIndex", NULL),
    ("managedBy", NULL),
    ("successPolicy", Go::Pointer(&[("rules", "Rules", Go::List(SUCCESS_RULE))])),
];
const FAILURE_RULE: &[Field] = &[
    ("action", "Action", TEXT),
    ("onExitCodes", "OnExitCodes", Go::Pointer(EXIT_CODES)),
    ("onPodConditions", "OnPodConditions", Go::List(&[("type", "Type", TEXT), ("status", "Status", TEXT)])),
];
const EXIT_CODES: &[Field] =
    &[("containerName", "ContainerName", NULL), ("operator", "Operator", TEXT), ("values", "Values", NULL)];
const SUCCESS_RULE: &[Field] =
    &[("succeededIndexes", "SucceededIndexes", NULL), ("succeededCount", "SucceededCount", NULL)];
const METADATA: Path<'static> = Path::Root("metadata");

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    let Some(old) = write.old else { return check_job(write, errors) };
    if write.is_status() {
        write.check_metadata(errors);
        return status::check(write.new, old, errors);
    }
    check_job(write, errors);
    write.check_metadata(errors);
    check_job_spec(write.spec(), &options(write), errors);
    check_update(write, old, errors);
}

fn check_job(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    check_generated_selector(write, errors);
    let spec = write.spec();
    check_job_spec(spec, &options(write), errors);
    let completions = int(spec, "completions").unwrap_or(0);
    if is_indexed(spec) && completions > 0 {
        let name = write.new.str_at(&["metadata", "name"]).unwrap_or_default();
        let longest = format!("{name}-{}", completions - 1);
        if !validate_text::dns1123_label(&longest).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {longest}");
            errors.invalid(&METADATA.child("name"), name, detail);
        }
    }
}

/// Unless the user selects by hand, selector and labels are the job's own.
fn check_generated_selector(write: &Write<'_>, errors: &mut Errors) {
    let spec = write.spec();
    let Some(selector) = member(spec, "selector").filter(|_| !flag(spec, "manualSelector")) else { return };
    let uid = write.new.str_at(&["metadata", "uid"]).unwrap_or_default();
    let name = write.new.str_at(&["metadata", "name"]).unwrap_or_default();
    if uid.is_empty() {
        errors.required(&METADATA.child("uid"), "");
    }
    // A job from before the prefixed labels does not need them.
    let prefixed = write.old.is_none_or(|old| {
        let labels = old.at(&["spec", "template", "metadata", "labels"]);
        let has = |key: &str| labels.is_some_and(|l| l.get(key).is_some());
        has("batch.kubernetes.io/job-name") && has("batch.kubernetes.io/controller-uid")
    });
    let mut wanted = vec![("controller-uid", uid), ("job-name", name)];
    if prefixed {
        wanted.extend([("batch.kubernetes.io/controller-uid", uid), ("batch.kubernetes.io/job-name", name)]);
    }
    let labels = spec.at(&["template", "metadata", "labels"]);
    let mut expected = object::Map::default();
    for (key, value) in wanted {
        expected.set(catalog::Name::from(key.to_owned()), value);
        let template = SPEC.child("template");
        let metadata = template.child("metadata");
        let list = metadata.child("labels");
        let at = list.key(key);
        match labels.and_then(|l| l.get(key)).map(|v| v.as_str().unwrap_or_default()) {
            None => errors.required(&at, &format!("must be '{value}'")),
            Some(actual) if actual != value => errors.invalid(&at, labels, format!("must be '{value}'")),
            Some(_) => {}
        }
    }
    if selects(Some(selector), Some(&Value::Map(expected))) == Some(false) {
        errors.invalid(&SPEC.child("selector"), selector, "`selector` not auto-generated");
    }
}

fn check_job_spec(spec: &Value, options: &Options, errors: &mut Errors) {
    check_spec(spec, &SPEC, options, errors);
    let selector = member(spec, "selector");
    match selector {
        None => errors.required(&SPEC.child("selector"), ""),
        Some(_) => errors.label_selector(&SPEC.child("selector"), selector),
    }
    let labels = spec.at(&["template", "metadata", "labels"]);
    if selects(selector, labels) == Some(false) {
        let template = SPEC.child("template");
        let metadata = template.child("metadata");
        errors.invalid(&metadata.child("labels"), labels, "`selector` does not match template `labels`");
    }
}

pub(super) fn is_indexed(spec: &Value) -> bool {
    text(spec, "completionMode") == "Indexed"
}

/// The spec of a job, or of the jobs of a cron job (which have no selector yet).
pub(crate) fn check_spec(spec: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.nonnegative(at, spec, name);
    }
    if int(spec, "maxFailedIndexes").is_some() && int(spec, "backoffLimitPerIndex").is_none() {
        errors.required(&at.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = member(spec, "managedBy").and_then(Value::as_str) {
        let at = at.child("managedBy");
        errors.domain_prefixed_path(&at, manager);
        if manager.len() > MANAGED_BY_MAX_BYTES {
            errors.too_long(&at, MANAGED_BY_MAX_BYTES);
        }
    }
    errors.one_of_member(at, spec, "completionMode", &["NonIndexed", "Indexed"]);
    if is_indexed(spec) {
        check_indexed(spec, at, errors);
    } else if matches!(text(spec, "completionMode"), "" | "NonIndexed") {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = int(spec, name) {
                errors.invalid(&at.child(name), number, "requires indexed completion mode");
            }
        }
    }
    policies::check(spec, at, errors);
    let none = Value::Null;
    let template = spec.get("template").unwrap_or(&none);
    let template_at = at.child("template");
    validation::template(template, &template_at, options, errors);
    check_restart_policy(spec, template, &template_at, errors);
}

fn check_indexed(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let number = |name: &str| int(spec, name);
    if number("completions").is_none() {
        errors.required(&at.child("completions"), "when completion mode is Indexed");
    }
    if let Some(n) = number("parallelism").filter(|n| *n > INDEXED_PARALLELISM_MAX) {
        let detail = format!(
            "must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
        );
        errors.invalid(&at.child("parallelism"), n, detail);
    }
    let (failed, completions) = (number("maxFailedIndexes"), number("completions"));
    let failed_at = at.child("maxFailedIndexes");
    if let (Some(failed), Some(completions)) = (failed, completions)
        && failed > completions
    {
        errors.invalid(&failed_at, failed, "must be less than or equal to completions");
    }
    if let Some(failed) = failed.filter(|n| *n > FAILED_INDEXES_MAX) {
        let detail = format!("must be less than or equal to {FAILED_INDEXES_MAX}");
        errors.invalid(&failed_at, failed, detail);
    }
    let many = completions.is_some_and(|n| n > COMPLETIONS_SOFT_LIMIT);
    if !many || number("backoffLimitPerIndex").is_none() {
        return;
    }
    if failed.is_none() {
        let detail = format!("must be specified when completions is above {COMPLETIONS_SOFT_LIMIT}");
        errors.required(&failed_at, &detail);
    }
    for name in ["parallelism", "maxFailedIndexes"] {
        if let Some(n) = number(name).filter(|n| *n > HIGH_COMPLETIONS_LIMIT) {
            let detail = format!(
                "must be less than or equal to {HIGH_COMPLETIONS_LIMIT} when completions are above {COMPLETIONS_SOFT_LIMIT} and used with backoff limit per index"
            );
            errors.invalid(&at.child(name), n, detail);
        }
    }
}

/// Pods of a job end.
fn check_restart_policy(spec: &Value, template: &Value, at: &Path<'_>, errors: &mut Errors) {
    let policy = template.str_at(&["spec", "restartPolicy"]).unwrap_or_default();
    let at = at.child("spec");
    let at = at.child("restartPolicy");
    match policy {
        "Always" | "" => errors.required(&at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if member(spec, "podFailurePolicy").is_some() => {
            errors.invalid(&at, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(&at, other, &["OnFailure", "Never"]),
    }
}

fn check_update(write: &Write<'_>, old: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let (spec, before) = (write.spec(), old.get("spec").unwrap_or(&none));
    let at = SPEC.child("completions");
    let changed = !same(spec.get("completions"), before.get("completions"));
    if changed && !is_indexed(spec) {
        errors.immutable(&at, spec.get("completions"), before.get("completions"));
    } else if let Some(completions) = int(spec, "completions").filter(|_| changed)
        && int(spec, "parallelism") != Some(completions)
    {
        errors.invalid(&at, completions, "can only be modified in tandem with spec.parallelism");
    }
    errors.immutable(&SPEC.child("selector"), spec.get("selector"), before.get("selector"));
    check_template_update(write, old, errors);
    for (name, how) in FIXED {
        if !write.same(&["spec", name], spec.get(name), before.get(name)) {
            errors.invalid(&SPEC.child(name), Raw(&how.show(spec.get(name))), IMMUTABLE);
        }
    }
}

fn template_shown(template: &Value) -> String {
    let mut copy = template.clone();
    let spec = with_host_namespaces(template.get("spec").unwrap_or(&Value::Null));
    copy.make_map().set("spec", spec);
    internal(Some(&copy), POD_TEMPLATE_SPEC)
}

/// The scheduling directives and resources of a suspended job without pods may still change.
fn check_template_update(write: &Write<'_>, old: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let spec = write.spec();
    let before = old.get("spec").unwrap_or(&none);
    let status = old.get("status").unwrap_or(&none);
    let suspended = flag(before, "suspend");
    let idle = member(status, "startTime").is_none() || status::is_true(status, "Suspended");
    let mutable = suspended && idle && int(status, "active").unwrap_or(0) == 0;
    let template = spec.get("template").unwrap_or(&none);
    let old_template = before.get("template").unwrap_or(&none);
    let at = SPEC.child("template");
    if !mutable {
        if !write.same(&["spec", "template"], Some(template), Some(old_template)) {
            errors.invalid(&at, Raw(&template_shown(template)), IMMUTABLE);
        }
        return;
    }
    let settled = |template: &Value| {
        let mut copy = template.get("spec").cloned().unwrap_or(Value::Null);
        let map = copy.make_map();
        for name in ["nodeSelector", "tolerations", "schedulingGates"] {
            map.remove(name);
        }
        if let Some(affinity) = map.get_mut("affinity").and_then(Value::as_map_mut) {
            affinity.remove("nodeAffinity");
        }
        copy
    };
    let (mut now, mut was) = (settled(template), settled(old_template));
    // If only one of them has an affinity, one with nothing but a node affinity counts as none.
    if member(&now, "affinity").is_none() != member(&was, "affinity").is_none() {
        for spec in [&mut now, &mut was] {
            let map = spec.make_map();
            if map.get("affinity").and_then(Value::as_map).is_some_and(|affinity| affinity.is_empty()) {
                map.remove("affinity");
            }
        }
    }
    for list in ["containers", "initContainers"] {
        keep_resources(&mut now, &was, list);
    }
    if !write.same(&["spec", "template", "spec"], Some(&now), Some(&was)) {
        let shown = internal(Some(&with_host_namespaces(template.get("spec").unwrap_or(&none))), POD_SPEC);
        errors.invalid(&Path::Root("spec.template.spec"), Raw(&shown), IMMUTABLE);
    }
}

/// As if the resources of containers that are still the same ones had not changed.
fn keep_resources(now: &mut Value, was: &Value, list: &'static str) {
    let before = items(was, list);
    let Some(Value::List(containers)) = now.as_map_mut().and_then(|m| m.get_mut(list)) else { return };
    if containers.len() != before.len() {
        return;
    }
    for (container, before) in containers.iter_mut().zip(before) {
        if text(container, "name") == text(before, "name") {
            crate::strategy::restore(container, before, &[], "resources");
        }
    }
}
