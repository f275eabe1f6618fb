//! The rules of autoscalers: bounds, a target, complete metrics, and scaling behavior.

use object::{Value, validate_text};

use crate::check::{Errors, NEGATIVE, Path, int, items, member, quantity, quantity_text, text};
use crate::pod::validation::container_resource_name;
use crate::workload::{SPEC, check_counts};
use crate::write::Write;

const PERIOD_MAX: i64 = 1800;
const WINDOW_MAX: i64 = 3600;
const METRICS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    if write.is_status() {
        return check_counts(write.status(), &["currentReplicas", "desiredReplicas"], errors);
    }
    let (spec, old) = (write.spec(), write.old_spec());
    // The feature for zero is off by default, but a stored zero may stay.
    let lowest = i64::from(old.is_none_or(|old| int(old, "minReplicas") != Some(0)));
    let (min, max) = (int(spec, "minReplicas"), int(spec, "maxReplicas").unwrap_or(0));
    if let Some(min) = min.filter(|min| *min < lowest) {
        let detail = format!("must be greater than or equal to {lowest}");
        errors.invalid(&SPEC.child("minReplicas"), min, detail);
    }
    let at = SPEC.child("maxReplicas");
    if max == 0 {
        errors.required(&at, "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(&at, max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(&at, max, "must be greater than or equal to `minReplicas`");
    }
    let none = Value::Null;
    let target = spec.get("scaleTargetRef").unwrap_or(&none);
    check_reference(target, target_version(target, old), &SPEC.child("scaleTargetRef"), errors);
    check_metrics(spec, min, described_version(old), errors);
    if let Some(behavior) = member(spec, "behavior") {
        let at = SPEC.child("behavior");
        for name in ["scaleUp", "scaleDown"] {
            if let Some(rules) = member(behavior, name) {
                check_rules(rules, &at.child(name), errors);
            }
        }
    }
}

/// What an apiVersion must be.
#[derive(Clone, Copy)]
enum Version {
    /// One that names a group.
    OfGroup,
    Any,
    /// The stored one is wrong already, or nothing about it changes.
    Unchecked,
}

impl Version {
    fn problem(self, version: &str) -> Option<String> {
        let slashes = version.matches('/').count();
        match self {
            Version::Unchecked => None,
            _ if slashes > 1 => Some(format!("unexpected GroupVersion string: {version}")),
            // "/" alone is no group either.
            Version::OfGroup if slashes == 0 || version.starts_with('/') => {
                Some("apiVersion must specify API group".to_owned())
            }
            _ => None,
        }
    }
}

fn target_version(target: &Value, old: Option<&Value>) -> Version {
    let before = old.and_then(|old| old.get("scaleTargetRef"));
    let alike = |name: &str| before.map_or("", |b| text(b, name)) == text(target, name);
    match () {
        _ if old.is_some() && alike("apiVersion") && alike("kind") => Version::Unchecked,
        // The only scalable kind of the core group.
        _ if text(target, "kind") == "ReplicationController" => Version::Any,
        _ => Version::OfGroup,
    }
}

fn described_version(old: Option<&Value>) -> Version {
    let wrong = |metric: &Value| {
        let version = metric.str_at(&["object", "describedObject", "apiVersion"]).unwrap_or_default();
        text(metric, "type") == "Object" && Version::Any.problem(version).is_some()
    };
    match old.is_some_and(|old| items(old, "metrics").iter().any(wrong)) {
        true => Version::Unchecked,
        false => Version::Any,
    }
}

fn check_reference(reference: &Value, version: Version, at: &Path<'_>, errors: &mut Errors) {
    for name in ["kind", "name"] {
        let value = text(reference, name);
        errors.need(at, reference, name);
        errors.each(&at.child(name), value, validate_text::path_segment_name(value));
    }
    let api_version = text(reference, "apiVersion");
    if let Some(problem) = version.problem(api_version) {
        errors.invalid(&at.child("apiVersion"), api_version, problem);
    }
}

fn check_metrics(spec: &Value, min: Option<i64>, described: Version, errors: &mut Errors) {
    let at = SPEC.child("metrics");
    let metrics = items(spec, "metrics");
    for (i, metric) in metrics.iter().enumerate() {
        check_metric(metric, described, &at.index(i), errors);
    }
    let outside = |m: &Value| matches!(text(m, "type"), "Object" | "External");
    if min == Some(0) && !metrics.iter().any(outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&at, detail);
    }
}

fn check_metric(metric: &Value, described: Version, at: &Path<'_>, errors: &mut Errors) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        errors.required(&at.child("type"), "must specify a metric source type");
    }
    errors.one_of(&at.child("type"), kind, &METRICS);
    let sources = ["object", "external", "pods", "resource", "containerResource"];
    let mut present: Vec<&str> = Vec::new();
    for name in sources {
        let Some(source) = member(metric, name) else { continue };
        present.push(name);
        if present.len() == 1 {
            check_source(name, source, described, &at.child(name), errors);
        }
    }
    let expected = match kind {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        other => {
            errors.not_supported(&at.child("type"), other, &METRICS);
            ""
        }
    };
    if !expected.is_empty() && !present.contains(&expected) {
        let detail = "must populate information for the given metric source";
        errors.required(&at.child(expected), detail);
    }
    if present.len() != 1 {
        for name in present.into_iter().filter(|name| *name != expected) {
            errors.forbidden(&at.child(name), "must populate the given metric source only");
        }
    }
}

fn check_source(kind: &str, source: &Value, described: Version, at: &Path<'_>, errors: &mut Errors) {
    let none = Value::Null;
    let target = source.get("target").unwrap_or(&none);
    let target_at = at.child("target");
    let has = |name: &str| member(target, name).is_some();
    if kind == "object" {
        let object = source.get("describedObject").unwrap_or(&none);
        check_reference(object, described, &at.child("describedObject"), errors);
    }
    match kind {
        "object" | "external" | "pods" => {
            let metric = source.get("metric").unwrap_or(&none);
            let name = text(metric, "name");
            let name_at = at.child("metric");
            let name_at = name_at.child("name");
            if name.is_empty() {
                errors.required(&name_at, "must specify a metric name");
            } else {
                errors.each(&name_at, name, validate_text::path_segment_name(name));
            }
        }
        _ => check_resource(kind, source, at, errors),
    }
    check_target(target, &target_at, errors);
    let average = target_at.child("averageValue");
    match kind {
        "object" if !has("value") && !has("averageValue") => {
            errors.required(&average, "must set either a target value or averageValue");
        }
        "external" if !has("value") && !has("averageValue") => {
            errors.required(&average, "must set either a target value for metric or a per-pod target");
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(&target_at.child("value"), detail);
        }
        "pods" if !has("averageValue") => {
            errors.required(&average, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" => match (has("averageUtilization"), has("averageValue")) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                errors.required(&target_at.child("averageUtilization"), detail);
            }
            (true, true) => {
                errors.forbidden(&average, "may not set both a target raw value and a target utilization");
            }
            _ => {}
        },
        _ => {}
    }
}

fn check_resource(kind: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = text(source, "name");
    if name.is_empty() {
        errors.required(&at.child("name"), "must specify a resource name");
    } else if kind == "containerResource" {
        container_resource_name(name, &at.child("name"), errors);
    }
    if kind == "containerResource" {
        match text(source, "container") {
            "" => errors.required(&at.child("container"), "must specify a container"),
            container => errors.dns_label(&at.child("container"), container),
        }
    }
}

fn check_target(target: &Value, at: &Path<'_>, errors: &mut Errors) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.required(&at.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&at.child("type"), kind, detail);
    }
    for name in ["value", "averageValue"] {
        if let Some(value) = member(target, name).filter(|v| quantity(v).sign() != 1) {
            errors.invalid(&at.child(name), value, "must be positive");
        }
    }
    if let Some(percent) = int(target, "averageUtilization").filter(|p| *p < 1) {
        errors.invalid(&at.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn check_rules(rules: &Value, at: &Path<'_>, errors: &mut Errors) {
    let window_at = at.child("stabilizationWindowSeconds");
    match int(rules, "stabilizationWindowSeconds") {
        Some(window) if window < 0 => {
            errors.invalid(&window_at, window, "must be greater than or equal to zero");
        }
        Some(window) if window > WINDOW_MAX => {
            errors.invalid(&window_at, window, format!("must be less than or equal to {WINDOW_MAX}"));
        }
        _ => {}
    }
    errors.one_of_member(at, rules, "selectPolicy", &["Disabled", "Max", "Min"]);
    let list = at.child("policies");
    if items(rules, "policies").is_empty() {
        errors.required(&list, "must specify at least one Policy");
    }
    for (i, policy) in items(rules, "policies").iter().enumerate() {
        let at = list.index(i);
        errors.one_of(&at.child("type"), text(policy, "type"), &["Percent", "Pods"]);
        errors.positive(&at.child("value"), int(policy, "value").unwrap_or(0));
        let period = int(policy, "periodSeconds").unwrap_or(0);
        errors.positive(&at.child("periodSeconds"), period);
        if period > PERIOD_MAX {
            let detail = format!("must be less than or equal to {PERIOD_MAX}");
            errors.invalid(&at.child("periodSeconds"), period, detail);
        }
    }
    if let Some(tolerance) = member(rules, "tolerance").filter(|t| quantity(t).sign() < 0) {
        errors.invalid(&at.child("tolerance"), quantity_text(tolerance).as_str(), NEGATIVE);
    }
}
