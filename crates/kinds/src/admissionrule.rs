//! What webhooks and admission policies share: which requests they are about.

mod expression;

use std::collections::HashSet;

use object::{Value, validate_text};

pub(crate) use expression::{Scope, Use};

use crate::check::{Errors, Path, Seen, items, member, text, texts};

pub(crate) const FAILURE: [&str; 2] = ["Fail", "Ignore"];
pub(crate) const MATCH: [&str; 2] = ["Equivalent", "Exact"];
pub(crate) const REINVOCATION: [&str; 2] = ["IfNeeded", "Never"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// A mutating policy cannot match DELETE.
const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const CONDITIONS_MAX: usize = 64;

/// One rule with its operations.
pub(crate) fn check_rule(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    check_list(rule, "operations", "operations", at, errors);
    for (i, operation) in texts(rule, "operations").enumerate() {
        errors.one_of(&at.child("operations").index(i), operation, &OPERATIONS);
    }
    check_list(rule, "apiGroups", "API groups", at, errors);
    check_list(rule, "apiVersions", "API versions", at, errors);
    for (i, version) in texts(rule, "apiVersions").enumerate() {
        if version.is_empty() {
            errors.required(&at.child("apiVersions").index(i), "");
        }
    }
    check_resources(rule, &at.child("resources"), errors);
    errors.one_of_member(at, rule, "scope", &["*", "Cluster", "Namespaced"]);
}

/// Not empty, and `*` alone.
fn check_list(rule: &Value, name: &str, words: &str, at: &Path<'_>, errors: &mut Errors) {
    let list = items(rule, name);
    if list.is_empty() {
        errors.required(&at.child(name), "");
    }
    if list.len() > 1 && list.iter().any(|v| v.as_str() == Some("*")) {
        let detail = format!("if '*' is present, must not specify other {words}");
        errors.invalid(&at.child(name), rule.get(name), detail);
    }
}

fn check_resources(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let resources: Vec<&str> = texts(rule, "resources").collect();
    if resources.is_empty() {
        errors.required(at, "");
    }
    // Upstream remembers only the last resource without a subresource.
    let (mut any_sub, mut any_resource, mut whole) = (Vec::new(), Vec::new(), false);
    for (i, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            errors.required(&at.index(i), "");
            continue;
        }
        let Some((name, sub)) = resource.split_once('/') else {
            whole = *resource != "*";
            continue;
        };
        if any_sub.contains(&name) {
            let detail = format!("if '{name}/*' is present, must not specify {resource}");
            errors.invalid(&at.index(i), *resource, detail);
        }
        if any_resource.contains(&sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.invalid(&at.index(i), *resource, detail);
        }
        if sub == "*" {
            any_sub.push(name);
        }
        if name == "*" {
            any_resource.push(sub);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(at, rule.get("resources"), detail);
    }
    if whole && resources.contains(&"*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(at, rule.get("resources"), detail);
    }
}

/// `matchConstraints` of a policy, `matchResources` of a binding.
pub(crate) fn check_match_resources(matched: &Value, at: &Path<'_>, errors: &mut Errors) {
    match member(matched, "matchPolicy").and_then(Value::as_str) {
        None => errors.required(&at.child("matchPolicy"), ""),
        Some(policy) => errors.one_of(&at.child("matchPolicy"), policy, &MATCH),
    }
    for name in ["namespaceSelector", "objectSelector"] {
        match member(matched, name) {
            None => errors.required(&at.child(name), ""),
            selector => errors.label_selector(&at.child(name), selector),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        let list = at.child(name);
        for (i, rule) in items(matched, name).iter().enumerate() {
            let at = list.index(i);
            let names: Vec<&str> = texts(rule, "resourceNames").collect();
            let mut seen = Seen::default();
            for (j, name) in names.iter().enumerate() {
                let at = at.child("resourceNames");
                errors.each(&at.index(j), name, validate_text::path_segment_name(name));
                if seen.again(name) {
                    errors.duplicate(&at.index(j), *name);
                }
            }
            check_rule(rule, &at, errors);
        }
    }
}

/// A mutating policy's rules name operations that can be mutated. Upstream's path has no index.
pub(crate) fn check_mutable(matched: &Value, at: &Path<'_>, errors: &mut Errors) {
    for rule in items(matched, "resourceRules") {
        for operation in texts(rule, "operations") {
            let at = at.child("resourceRules");
            errors.one_of(&at.child("operations"), operation, &MUTABLE);
        }
    }
}

/// Conditions on the request. `scope` is what their expressions may use; those the old object has too are `stored`.
pub(crate) fn check_conditions(
    of: &Value,
    scope: &Scope,
    stored: &HashSet<&str>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let list = at.child("matchConditions");
    let conditions = items(of, "matchConditions");
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(&list, conditions.len(), CONDITIONS_MAX);
    }
    let mut seen = Seen::default();
    for (i, condition) in conditions.iter().enumerate() {
        let at = list.index(i);
        match text(condition, "expression").trim() {
            "" => errors.required(&at.child("expression"), ""),
            trimmed => {
                let is_stored = stored.contains(trimmed);
                scope.check(Use::Condition, trimmed, is_stored, &at.child("expression"), errors);
            }
        }
        let name = text(condition, "name");
        match name {
            "" => errors.required(&at.child("name"), ""),
            _ => errors.qualified(&at.child("name"), name),
        }
        if !name.is_empty() && seen.again(name) {
            errors.duplicate(&at.child("name"), name);
        }
    }
}
