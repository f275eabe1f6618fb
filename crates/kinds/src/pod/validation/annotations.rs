//! Annotations with a meaning for pods: mirror pods, deletion cost, and profiles from before they were fields.

use object::Value;

use super::volume_sources::descending_path;
use super::{METADATA, Options, containers_of, scheduling};
use crate::check::{Errors, Path, Seen, below, member, text};

pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// `at` is the path of the annotations.
pub(crate) fn check(
    annotations: Option<&Value>,
    spec: &Value,
    at: &Path<'_>,
    options: &Options,
    errors: &mut Errors,
) {
    let Some(map) = annotations.and_then(Value::as_map).filter(|m| !m.is_empty()) else { return };
    let get = |key: &str| map.get(key).map(|v| v.as_str().unwrap_or_default());
    if let Some(value) = get(MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&at.key(MIRROR), value, detail);
    }
    if let Some(value) = get(TOLERATIONS).filter(|v| !v.is_empty()) {
        match codec::json::parse(value.as_bytes(), None) {
            Ok(Value::List(list)) => {
                scheduling::tolerations(&list, &at.child(TOLERATIONS), options.comparison_operators, errors);
            }
            Ok(Value::Null) => {}
            Ok(other) => {
                let why = format!(
                    "json: cannot unmarshal {} into Go value of type []core.Toleration",
                    other.json_type()
                );
                errors.invalid(at, TOLERATIONS, why);
            }
            Err(error) => errors.invalid(at, TOLERATIONS, error.to_string()),
        }
    }
    if let Some(value) = bad_deletion_cost(annotations).filter(|_| !options.bad_deletion_cost) {
        errors.invalid(&at.key(DELETION_COST), value, "must be a 32bit integer");
    }
    if let Some(profile) = get(SECCOMP_POD) {
        check_seccomp(profile, &at.child(SECCOMP_POD), errors);
    }
    for (key, profile) in map.iter().filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        check_seccomp(profile.as_str().unwrap_or_default(), &at.child(key), errors);
    }
    let containers: Seen<&str> = containers_of(spec).map(|(_, _, c)| text(c, "name")).collect();
    for (key, profile) in map.iter() {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { continue };
        if !containers.has(&container) {
            errors.invalid(&at.key(key), container, "container not found");
        }
        let profile = profile.as_str().unwrap_or_default();
        let known =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !known {
            let detail = format!("invalid AppArmor profile name: {}", object::quote(profile));
            errors.invalid(&at.key(key), profile, detail);
        }
    }
}

/// The cost, if it is one that cannot be read.
pub(super) fn bad_deletion_cost(annotations: Option<&Value>) -> Option<&str> {
    let value = annotations?.get(DELETION_COST)?.as_str().unwrap_or_default();
    // A leading plus or zero would let the same number be written in many ways.
    let digits = value.strip_prefix('-').unwrap_or(value);
    let written = !value.starts_with('+') && (value == "0" || !digits.starts_with('0'));
    let good = written && value.parse::<i32>().is_ok();
    (!good).then_some(value)
}

fn check_seccomp(profile: &str, at: &Path<'_>, errors: &mut Errors) {
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) => descending_path(path, at, errors),
        None => errors.invalid(at, profile, "must be a valid seccomp profile"),
    }
}

/// The rules of updates.
pub(super) fn check_update(new: &Value, old: &Value, options: &Options, errors: &mut Errors) {
    let at = METADATA.child("annotations");
    let (new_map, old_map) = (new.at(&["metadata", "annotations"]), old.at(&["metadata", "annotations"]));
    for (key, value) in old_map.and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
        if new_map.and_then(|m| m.get(key)) == Some(value) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(&at.key(key), "may not remove or update AppArmor annotations");
        }
        if &**key == MIRROR {
            errors.forbidden(&at.key(key), "may not remove or update mirror pod annotation");
        }
    }
    for (key, _) in new_map.and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
        if old_map.and_then(|m| m.get(key)).is_some() {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            errors.forbidden(&at.key(key), "may not add AppArmor annotations");
        }
        if &**key == MIRROR {
            errors.forbidden(&at.key(key), "may not add mirror pod annotation");
        }
    }
    let spec = new.get("spec").unwrap_or(&Value::Null);
    check(new_map, spec, &at, options, errors);
}

/// Profiles named twice, by annotation and by field, must be the same. `at` is the spec's path.
pub(super) fn check_profiles_match<'a>(
    annotations: Option<&'a Value>,
    spec: &Value,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(map) = annotations.and_then(Value::as_map).filter(|m| !m.is_empty()) else { return };
    let said = |annotation: Option<&'a Value>| annotation.map(|a| a.as_str().unwrap_or_default());
    let (seccomp, app_armor) = (below(map, SECCOMP_CONTAINER), below(map, APP_ARMOR));
    let of_pod = said(map.get(SECCOMP_POD));
    if let (Some(profile), Some(annotation)) = (profile_of(spec, "seccompProfile"), of_pod) {
        let at = at.child("securityContext");
        check_match(annotation, profile, "seccomp", &at.child("seccompProfile"), errors);
    }
    for (list, i, container) in containers_of(spec) {
        let annotation = said(seccomp.get(text(container, "name")).copied());
        if let (Some(profile), Some(annotation)) = (profile_of(container, "seccompProfile"), annotation) {
            let list = at.child(list);
            let at = list.index(i);
            check_match(
                annotation,
                profile,
                "seccomp",
                &at.child("securityContext").child("seccompProfile"),
                errors,
            );
        }
    }
    if spec.at(&["os", "name"]).and_then(Value::as_str) == Some("windows") {
        return;
    }
    let of_pod = profile_of(spec, "appArmorProfile");
    for (list, i, container) in containers_of(spec) {
        let annotation = said(app_armor.get(text(container, "name")).copied());
        let profile = profile_of(container, "appArmorProfile").or(of_pod);
        if let (Some(profile), Some(annotation)) = (profile, annotation) {
            let list = at.child(list);
            let at = list.index(i);
            check_match(
                annotation,
                profile,
                "apparmor",
                &at.child("securityContext").child("appArmorProfile"),
                errors,
            );
        }
    }
}

fn profile_of<'v>(of: &'v Value, name: &str) -> Option<&'v Value> {
    of.at(&["securityContext", name]).filter(|p| !p.is_null())
}

fn check_match(annotation: &str, profile: &Value, what: &str, at: &Path<'_>, errors: &mut Errors) {
    let kinds = format!("{what} type in annotation and field must match");
    match text(profile, "type") {
        "Unconfined" if annotation != "unconfined" => errors.forbidden(&at.child("type"), kinds),
        "RuntimeDefault" => {
            let docker = what == "seccomp" && annotation == "docker/default";
            if annotation != "runtime/default" && !docker {
                errors.forbidden(&at.child("type"), kinds);
            }
        }
        "Localhost" => match annotation.strip_prefix("localhost/") {
            None => errors.forbidden(&at.child("type"), kinds),
            Some(file) if member(profile, "localhostProfile").and_then(Value::as_str) != Some(file) => {
                let detail = format!("{what} profile in annotation and field must match");
                errors.forbidden(&at.child("localhostProfile"), detail);
            }
            Some(_) => {}
        },
        _ => {}
    }
}
