//! The rules of `metadata`: names, namespaces, labels, annotations, owners, finalizers, and what an update may not touch.
//!
//! Messages, field paths and order are upstream's. The resourceVersion is not looked at: the registry compares
//! it with the stored revision before anything gets here.

mod entries;
mod owners;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use catalog::Storage;
use object::{FieldError, Value, deep, quote, validate_text};

use crate::rules::{Finalizers, Rules};
pub(crate) use entries::check_field_manager;
use entries::{check_annotations, check_labels, check_managed_fields};
use owners::check_owner_references;
pub use owners::dedup_owner_references;

const FINALIZER_ORPHAN: &str = "orphan";
const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
const FINALIZER_KUBERNETES: &str = "kubernetes";

/// As a kind's strategy checks it on create.
pub(crate) fn check(rules: &Rules, storage: &Storage, new: &Value) -> Vec<FieldError> {
    if rules.skip_metadata {
        return Vec::new();
    }
    let mut errors =
        check_names(new, !rules.skip_generate_name, &|name, prefix| rules.name.problems(name, prefix, new));
    check_rest(storage.namespaced, new, &mut errors);
    check_kubernetes_finalizers(rules, new, &mut errors);
    errors
}

/// As every object is checked, whatever its kind.
pub(crate) fn check_common(storage: &Storage, new: &Value) -> Vec<FieldError> {
    let mut errors = check_names(new, true, &|name, prefix| match prefix {
        true => validate_text::path_segment_prefix(name),
        false => validate_text::path_segment_name(name),
    });
    check_rest(storage.namespaced, new, &mut errors);
    errors
}

/// As that of a resource inside of another is checked: it need not have a name, and what it is decides about a namespace.
pub fn check_embedded(resource: &Value) -> Vec<FieldError> {
    let mut errors = check_names(resource, true, &|name, prefix| match prefix {
        true => validate_text::path_segment_prefix(name),
        false => validate_text::path_segment_name(name),
    });
    if meta(resource, "name").is_none() {
        errors.retain(|error| error.field != "metadata.name");
    }
    check_rest(meta(resource, "namespace").is_some(), resource, &mut errors);
    errors
}

/// As a kind's strategy checks it on update.
pub(crate) fn check_update(rules: &Rules, new: &Value, old: &Value) -> Vec<FieldError> {
    if rules.skip_metadata {
        return Vec::new();
    }
    let mut errors = check_machinery_update(new, old);
    check_kubernetes_finalizers(rules, new, &mut errors);
    errors
}

/// As a kind that is defined at run time checks it: in full on create, what may change on update.
pub fn check_metadata(rules: &Rules, storage: &Storage, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match old {
        None => check(rules, storage, new),
        Some(old) => check_update(rules, new, old),
    }
}

/// What no update of any object may do.
pub(crate) fn check_machinery_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if meta(old, "deletionTimestamp").is_some() {
        let before: BTreeSet<&str> = strings(old, "finalizers").into_iter().collect();
        let mut added: Vec<&str> =
            strings(new, "finalizers").into_iter().filter(|f| !before.contains(f)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|f| quote(f)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    let generation = |v: &Value| meta(v, "generation").and_then(Value::as_int).unwrap_or(0);
    if generation(new) < generation(old) {
        let shown = generation(new).to_string();
        errors.push(FieldError::invalid("metadata.generation", shown, "must not be decremented"));
    }
    for (member, zero) in [
        ("name", "\"\""),
        ("namespace", "\"\""),
        ("uid", "\"\""),
        ("creationTimestamp", "null"),
        ("deletionTimestamp", "null"),
        ("deletionGracePeriodSeconds", "null"),
    ] {
        if !crate::same(meta(new, member), meta(old, member)) {
            let shown = meta(new, member).map_or_else(|| zero.to_owned(), shown);
            errors.push(FieldError::invalid(format!("metadata.{member}"), shown, "field is immutable"));
        }
    }
    check_labels(new, &mut errors);
    check_annotations(new, &mut errors);
    check_owner_references(new, &mut errors);
    check_managed_fields(new, &mut errors);
    errors
}

/// Warnings about finalizers of a custom resource that may conflict with others. Existing ones are not validated again.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let before: BTreeSet<&str> =
        old.map(|old| strings(old, "finalizers")).unwrap_or_default().into_iter().collect();
    let mut added = strings(new, "finalizers");
    added.retain(|f| !before.contains(f));
    added.sort_unstable();
    added.dedup();
    for finalizer in added {
        let shown = quote(finalizer);
        for problem in validate_text::qualified_name(finalizer) {
            warnings.push(format!("metadata.finalizers: {shown}: {problem}"));
        }
        if kubernetes_finalizer_error(String::new(), finalizer).is_some() {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            warnings.push(format!(
                "metadata.finalizers: {shown}: prefer a domain-qualified finalizer name{path} \
                 to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}

/// A value as error messages show it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Str(text) => quote(text),
        Value::Int(i) => i.to_string(),
        Value::Bool(b) => b.to_string(),
        other => {
            let text = codec::json::to_vec(&without_empty(other));
            String::from_utf8(text).unwrap_or_default()
        }
    }
}

/// A struct is shown as its JSON, which leaves out empty lists; the value itself may be one.
fn without_empty(value: &Value) -> Cow<'_, Value> {
    fn goes(name: &str, value: &Value) -> bool {
        match value {
            Value::List(items) => items.is_empty(),
            // Elsewhere an empty map may be a struct, which stays.
            Value::Map(map) => map.is_empty() && ["matchLabels", "labels", "annotations"].contains(&name),
            _ => false,
        }
    }
    fn has(value: &Value) -> bool {
        match value {
            Value::List(items) => deep(|| items.iter().any(has)),
            Value::Map(map) => deep(|| map.iter().any(|(name, v)| goes(name, v) || has(v))),
            _ => false,
        }
    }
    fn take(value: &mut Value) {
        match value {
            Value::List(items) => deep(|| items.iter_mut().for_each(take)),
            Value::Map(map) => {
                map.retain(|name, v| !goes(name, v));
                deep(|| map.iter_mut().for_each(|(_, v)| take(v)));
            }
            _ => {}
        }
    }
    if !has(value) {
        return Cow::Borrowed(value);
    }
    let mut copy = value.clone();
    take(&mut copy);
    Cow::Owned(copy)
}

/// A member of the metadata that is there and not zero.
pub(crate) fn meta<'a>(object: &'a Value, member: &str) -> Option<&'a Value> {
    object.at(&["metadata", member]).filter(|v| !v.is_null() && v.as_str() != Some(""))
}

/// A list of strings in the metadata.
pub(crate) fn strings<'a>(object: &'a Value, member: &str) -> Vec<&'a str> {
    let list = meta(object, member).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

fn check_names(
    new: &Value,
    generate_name: bool,
    problems: &dyn Fn(&str, bool) -> Vec<String>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut report = |field: &str, value: &str, prefix: bool| {
        for problem in problems(value, prefix) {
            errors.push(FieldError::invalid(format!("metadata.{field}"), quote(value), problem));
        }
    };
    if let Some(prefix) = meta(new, "generateName").and_then(Value::as_str).filter(|_| generate_name) {
        report("generateName", prefix, true);
    }
    match meta(new, "name").and_then(Value::as_str) {
        Some(name) => report("name", name, false),
        None => errors.push(FieldError::required("metadata.name", "name or generateName is required")),
    }
    errors
}

fn check_rest(namespaced: bool, new: &Value, errors: &mut Vec<FieldError>) {
    match (namespaced, meta(new, "namespace").and_then(Value::as_str)) {
        (true, None) => errors.push(FieldError::required("metadata.namespace", "")),
        (true, Some(namespace)) => {
            for problem in validate_text::dns1123_label(namespace) {
                errors.push(FieldError::invalid("metadata.namespace", quote(namespace), problem));
            }
        }
        (false, Some(_)) => {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"))
        }
        (false, None) => {}
    }
    if let Some(generation) = meta(new, "generation").and_then(Value::as_int).filter(|g| *g < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", generation.to_string(), detail));
    }
    check_labels(new, errors);
    check_annotations(new, errors);
    check_owner_references(new, errors);
    check_finalizers(new, errors);
    check_managed_fields(new, errors);
}

fn check_finalizers(new: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = strings(new, "finalizers");
    for finalizer in &finalizers {
        for problem in validate_text::qualified_name(finalizer) {
            errors.push(FieldError::invalid("metadata.finalizers", quote(finalizer), problem));
        }
    }
    if finalizers.contains(&FINALIZER_ORPHAN) && finalizers.contains(&FINALIZER_FOREGROUND) {
        let shown = meta(new, "finalizers").map(shown).unwrap_or_default();
        let detail = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid("metadata.finalizers", shown, detail));
    }
}

fn check_kubernetes_finalizers(rules: &Rules, new: &Value, errors: &mut Vec<FieldError>) {
    if rules.finalizers != Finalizers::Kubernetes {
        return;
    }
    for (i, finalizer) in strings(new, "finalizers").into_iter().enumerate() {
        errors.extend(kubernetes_finalizer_error(format!("metadata.finalizers[{i}]"), finalizer));
    }
}

/// A finalizer without a path must be one of Kubernetes' own.
pub(crate) fn kubernetes_finalizer_error(field: String, finalizer: &str) -> Option<FieldError> {
    let own = [FINALIZER_KUBERNETES, FINALIZER_ORPHAN, FINALIZER_FOREGROUND];
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let stray = !finalizer.contains('/') && !own.contains(&finalizer);
    stray.then(|| FieldError::invalid(field, quote(finalizer), detail))
}
