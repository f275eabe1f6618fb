//! Environment variables: names, sources, and the pod fields they may refer to.

use object::{Value, validate_text};

use super::volume_sources::no_backsteps;
use crate::check::{Errors, Path, member, quantity, text};

/// Pod fields a variable may refer to, sorted.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Pod fields a file of a downward API volume may contain, sorted.
pub(super) const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// All fields of the downward API.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_UNITS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn check(variables: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (i, variable) in variables.iter().enumerate() {
        let at = at.index(i);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.each(&at.child("name"), name, validate_text::env_var_name(name));
        }
        if let Some(from) = member(variable, "valueFrom") {
            check_source(from, text(variable, "value"), &at.child("valueFrom"), errors);
        }
    }
}

pub(super) fn check_from(sources: &[Value], list: &Path<'_>, errors: &mut Errors) {
    for (i, source) in sources.iter().enumerate() {
        let at = list.index(i);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            errors.each(&at.child("prefix"), prefix, validate_text::env_var_name(prefix));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = member(source, kind) else { continue };
            count += 1;
            let at = at.child(kind);
            let name = text(reference, "name");
            // Upstream checks it as the start of a name here: a dash may end it.
            let checked = crate::rules::NameRule::Subdomain.problems(name, true, &Value::Null);
            match name {
                "" => errors.required(&at.child("name"), ""),
                _ => errors.each(&at.child("name"), name, checked),
            }
        }
        match count {
            0 => errors.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(list, "", "may not have more than one field specified at a time"),
        }
    }
}

fn check_source(from: &Value, value: &str, at: &Path<'_>, errors: &mut Errors) {
    let mut count = 0;
    if let Some(field) = member(from, "fieldRef") {
        count += 1;
        check_field(field, &VARIABLE_FIELDS, &at.child("fieldRef"), errors);
    }
    if let Some(resource) = member(from, "resourceFieldRef") {
        count += 1;
        check_resource(resource, false, &at.child("resourceFieldRef"), errors);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(key) = member(from, kind) {
            count += 1;
            check_key(key, &at.child(kind), errors);
        }
    }
    if let Some(file) = member(from, "fileKeyRef") {
        count += 1;
        check_file(file, &at.child("fileKeyRef"), errors);
    }
    if count == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(at, "", detail);
    } else if !value.is_empty() {
        errors.invalid(at, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(at, "", "may not have more than one field specified at a time");
    }
}

/// A field of the pod.
pub(super) fn check_field(field: &Value, allowed: &[&str], at: &Path<'_>, errors: &mut Errors) {
    for name in ["apiVersion", "fieldPath"] {
        if text(field, name).is_empty() {
            errors.required(&at.child(name), "");
            return;
        }
    }
    let (version, path) = (text(field, "apiVersion"), text(field, "fieldPath"));
    let refused = |errors: &mut Errors, why: String| {
        errors.invalid(&at.child("fieldPath"), path, format!("error converting fieldPath: {why}"));
    };
    if version != "v1" {
        return refused(errors, format!("unsupported pod version: {version}"));
    }
    if let Some((map, key)) = subscript(path) {
        match map {
            "metadata.annotations" => errors.qualified(at, &key.to_lowercase()),
            "metadata.labels" => errors.qualified(at, key),
            _ => refused(errors, format!("field label does not support subscript: {path}")),
        }
        return;
    }
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    if !KNOWN_FIELDS.contains(&path) {
        return refused(errors, format!("field label not supported: {path}"));
    }
    errors.one_of(&at.child("fieldPath"), path, allowed);
}

/// `metadata.labels['app']` is a map and a key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

/// A number of the container's resources; in a volume the container must be named.
pub(super) fn check_resource(resource: &Value, in_volume: bool, at: &Path<'_>, errors: &mut Errors) {
    let name = text(resource, "resource");
    let huge_pages = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if in_volume && text(resource, "containerName").is_empty() {
        errors.required(&at.child("containerName"), "");
    } else if name.is_empty() {
        errors.required(&at.child("resource"), "");
    } else if !huge_pages {
        errors.one_of(&at.child("resource"), name, &RESOURCES);
    }
    let Some(divisor) = member(resource, "divisor").filter(|d| !quantity(d).is_zero()) else { return };
    let written = quantity(divisor).to_string();
    let (units, detail): (&[&str], _) = match name {
        "limits.cpu" | "requests.cpu" => {
            (&["1m", "1"], "only divisor's values 1m and 1 are supported with the cpu resource")
        }
        "limits.memory" | "requests.memory" => (
            &BYTE_UNITS,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource",
        ),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (
            &BYTE_UNITS,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource",
        ),
        _ if huge_pages => (
            &BYTE_UNITS,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource",
        ),
        _ => return,
    };
    if !units.contains(&written.as_str()) {
        errors.invalid(&at.child("divisor"), name, detail);
    }
}

/// A key of a config map or a secret.
fn check_key(key: &Value, at: &Path<'_>, errors: &mut Errors) {
    errors.subdomain(&at.child("name"), text(key, "name"));
    let name = text(key, "key");
    if name.is_empty() {
        errors.required(&at.child("key"), "");
    } else {
        errors.each(&at.child("key"), name, validate_text::config_map_key(name));
    }
}

fn check_file(file: &Value, at: &Path<'_>, errors: &mut Errors) {
    let key = text(file, "key");
    if key.is_empty() {
        errors.required(&at.child("key"), "");
    } else {
        errors.each(&at.child("key"), key, validate_text::env_var_name(key));
    }
    errors.need_label(&at.child("volumeName"), text(file, "volumeName"));
    let path = text(file, "path");
    if path.is_empty() {
        errors.required(&at.child("path"), "");
    } else {
        no_backsteps(path, &at.child("path"), errors);
    }
}
