//! Admission policies and their bindings, validating and mutating.
//!
//! Differs from kube-apiserver: expressions are not compiled when they are written; that they are there is checked.

mod columns;
pub(crate) mod defaults;
pub(crate) mod warnings;

use object::{Value, validate_text};

use crate::admissionrule::{FAILURE, REINVOCATION, check_conditions, check_match_resources, check_mutable};
use crate::check::internal::{Field, Go, TEXT};
use crate::check::{Errors, Path, Raw, Seen, items, member, text, texts};
use crate::generic::GenericKind;
use crate::rules::{Finalizers, Generation, Rules, StatusMeta};
use crate::same;
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

const RULES: Rules = Rules::PLAIN.with_finalizers(Finalizers::Qualified).with_generation(Generation::SPEC);

pub(crate) static VALIDATING: GenericKind =
    GenericKind::new(RULES.with_status(StatusMeta::KeepAll), check_validating)
        .with_defaults(defaults::apply_policy)
        .with_warnings(warnings::warn)
        .with_status_warnings(warnings::warn)
        .with_printer(&columns::VALIDATING);
pub(crate) static VALIDATING_BINDING: GenericKind = GenericKind::new(RULES, check_validating_binding)
    .with_defaults(defaults::apply_binding)
    .with_warnings(warnings::warn)
    .with_printer(&columns::BINDING);
pub(crate) static MUTATING: GenericKind = GenericKind::new(RULES, check_mutating)
    .with_defaults(defaults::apply_policy)
    .with_warnings(warnings::warn)
    .with_printer(&columns::MUTATING);
pub(crate) static MUTATING_BINDING: GenericKind = GenericKind::new(RULES, check_mutating_binding)
    .with_defaults(defaults::apply_binding)
    .with_warnings(warnings::warn)
    .with_printer(&columns::BINDING);

const AUDIT_MAX: usize = 20;
const AUDIT_MAX_BYTES: usize = 5 * 1024;
const AUDIT: Go = Go::List(&AUDIT_FIELDS);
const AUDIT_FIELDS: [Field; 2] = [("key", "Key", TEXT), ("valueExpression", "ValueExpression", TEXT)];
#[rustfmt::skip]
const RESERVED: [&str; 21] = [
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
    "let", "loop", "package", "namespace", "return", "var", "void", "while",
];

fn check_validating(write: &Write<'_>, errors: &mut Errors) {
    if write.is_status() {
        return check_status(write.status(), errors);
    }
    write.check_whole_metadata(errors);
    let spec = write.spec();
    check_common(write, false, errors);
    if items(spec, "validations").is_empty() && items(spec, "auditAnnotations").is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(&SPEC.child("validations"), detail);
        return errors.required(&SPEC.child("auditAnnotations"), detail);
    }
    for (i, validation) in items(spec, "validations").iter().enumerate() {
        check_validation(validation, &SPEC.child("validations").index(i), errors);
    }
    check_audit(spec, write.new.str_at(&["metadata", "name"]).unwrap_or_default(), errors);
}

fn check_mutating(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let spec = write.spec();
    check_common(write, true, errors);
    if items(spec, "mutations").is_empty() {
        errors.required(&SPEC.child("mutations"), "mutations must contain at least one item");
    }
    for (i, mutation) in items(spec, "mutations").iter().enumerate() {
        check_mutation(mutation, &SPEC.child("mutations").index(i), errors);
    }
    errors.choice(&SPEC.child("reinvocationPolicy"), text(spec, "reinvocationPolicy"), &REINVOCATION);
}

/// From the failure policy to the variables.
fn check_common(write: &Write<'_>, mutating: bool, errors: &mut Errors) {
    let spec = write.spec();
    match member(spec, "failurePolicy").and_then(Value::as_str) {
        None => errors.required(&SPEC.child("failurePolicy"), ""),
        Some(policy) => errors.one_of(&SPEC.child("failurePolicy"), policy, &FAILURE),
    }
    if let Some(kind) = member(spec, "paramKind") {
        check_param_kind(kind, &SPEC.child("paramKind"), errors);
    }
    let at = SPEC.child("matchConstraints");
    match member(spec, "matchConstraints") {
        None => errors.required(&at, ""),
        Some(matched) => {
            check_match_resources(matched, &at, errors);
            if items(matched, "resourceRules").is_empty() {
                errors.required(&at.child("resourceRules"), "");
            }
            if mutating {
                check_mutable(matched, &at, errors);
            }
        }
    }
    let untouched = write.old_spec().is_some_and(|old| {
        ["paramKind", "matchConditions"].iter().all(|name| same(spec.get(name), old.get(name)))
    });
    if !untouched {
        check_conditions(spec, &SPEC, errors);
    }
    for (i, variable) in items(spec, "variables").iter().enumerate() {
        check_variable(variable, &SPEC.child("variables").index(i), errors);
    }
}

fn check_param_kind(kind: &Value, at: &Path<'_>, errors: &mut Errors) {
    let version_at = at.child("apiVersion");
    let api_version = text(kind, "apiVersion");
    let (group, version) = match api_version {
        "/" => ("", ""),
        _ => api_version.split_once('/').unwrap_or(("", api_version)),
    };
    if api_version.is_empty() {
        errors.required(&version_at, "");
    } else if version.contains('/') {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        errors.invalid(&version_at, api_version, detail);
    } else {
        let mut joined = |value: &str, problems: Vec<String>| {
            if !problems.is_empty() {
                errors.invalid(&version_at, value, problems.join(","));
            }
        };
        if !group.is_empty() {
            joined(group, validate_text::dns1123_subdomain(group));
        }
        match version {
            "" => errors.invalid(&version_at, api_version, "version must be specified"),
            _ => joined(version, validate_text::dns1035_label(version)),
        }
    }
    let name = text(kind, "kind");
    let problems = validate_text::dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.required(&at.child("kind"), "");
    } else if !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.invalid(&at.child("kind"), name, detail);
    }
}

fn check_variable(variable: &Value, at: &Path<'_>, errors: &mut Errors) {
    let name = text(variable, "name");
    if name.trim().is_empty() {
        errors.required(&at.child("name"), "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(&at.child("name"), name, "must be a valid CEL identifier");
    }
    if text(variable, "expression").trim().is_empty() {
        errors.required(&at.child("expression"), "expression is not specified");
    }
}

fn is_identifier(name: &str) -> bool {
    let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(word)
        && !RESERVED.contains(&name)
}

fn check_validation(validation: &Value, at: &Path<'_>, errors: &mut Errors) {
    if text(validation, "expression").trim().is_empty() {
        errors.required(&at.child("expression"), "expression is not specified");
    }
    for name in ["messageExpression", "message"] {
        let value = text(validation, name);
        if !value.is_empty() && value.trim().is_empty() {
            errors.invalid(&at.child(name), value, "must be non-empty if specified");
        } else if name == "message" && value.trim().contains(['\n', '\r']) {
            errors.invalid(&at.child(name), value, "must not contain line breaks");
        }
    }
    errors.one_of_member(at, validation, "reason", &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn check_audit(spec: &Value, policy: &str, errors: &mut Errors) {
    let list = SPEC.child("auditAnnotations");
    let annotations = items(spec, "auditAnnotations");
    if annotations.len() > AUDIT_MAX {
        let shown = AUDIT.show(spec.get("auditAnnotations"));
        let detail = format!("must not have more than {AUDIT_MAX} auditAnnotations");
        errors.invalid(&list, Raw(&shown), detail);
    }
    let mut seen = Seen::default();
    for (i, annotation) in annotations.iter().enumerate() {
        let at = list.index(i);
        let key = text(annotation, "key");
        match policy {
            "" => errors.invalid(&at.child("key"), key, "requires metadata.name be non-empty"),
            _ => errors.qualified(&at.child("key"), &format!("{policy}/{key}")),
        }
        match text(annotation, "valueExpression").trim().len() {
            0 => errors.required(&at.child("valueExpression"), "valueExpression is not specified"),
            bytes if bytes > AUDIT_MAX_BYTES => {
                let detail = format!("must not exceed {AUDIT_MAX_BYTES} bytes in length");
                errors.required(&at.child("valueExpression"), &detail);
            }
            _ => {}
        }
        if seen.again(key) {
            errors.duplicate(&at.child("key"), key);
        }
    }
}

fn check_mutation(mutation: &Value, at: &Path<'_>, errors: &mut Errors) {
    let kind = text(mutation, "patchType");
    let (own, other) = match kind {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => return errors.choice(&at.child("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    match member(mutation, own) {
        None => errors.required(&at.child(own), &format!("must be specified when patchType is {kind}")),
        Some(patch) if text(patch, "expression").trim().is_empty() => {
            errors.required(&at.child(own).child("expression"), "");
        }
        Some(_) => {}
    }
    if member(mutation, other).is_some() {
        let (shown, detail) =
            (format!("{{{other}}}"), format!("must not be specified when patchType is {kind}"));
        errors.invalid(&at.child(other), shown.as_str(), detail);
    }
}

fn check_validating_binding(write: &Write<'_>, errors: &mut Errors) {
    check_binding(write, errors);
    let (spec, at) = (write.spec(), SPEC.child("validationActions"));
    let actions: Vec<&str> = texts(spec, "validationActions").collect();
    let mut seen = Seen::default();
    for (i, action) in actions.iter().enumerate() {
        errors.one_of(&at.index(i), action, &["Audit", "Deny", "Warn"]);
        if seen.again(action) {
            errors.duplicate(&at.index(i), *action);
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(&at, spec.get("validationActions"), detail);
    }
    if actions.is_empty() {
        errors.required(&at, "at least one validation action is required");
    }
}

fn check_mutating_binding(write: &Write<'_>, errors: &mut Errors) {
    check_binding(write, errors);
    if let Some(matched) = member(write.spec(), "matchResources") {
        check_mutable(matched, &SPEC.child("matchResources"), errors);
    }
}

fn check_binding(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let spec = write.spec();
    errors.need_subdomain(&SPEC.child("policyName"), text(spec, "policyName"));
    if let Some(reference) = member(spec, "paramRef") {
        check_param_ref(reference, &SPEC.child("paramRef"), errors);
    }
    if let Some(matched) = member(spec, "matchResources") {
        check_match_resources(matched, &SPEC.child("matchResources"), errors);
    }
}

fn check_param_ref(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (name, selector) = (text(reference, "name"), member(reference, "selector"));
    let both = "name and selector are mutually exclusive";
    if !name.is_empty() {
        errors.each(&at.child("name"), name, validate_text::path_segment_name(name));
        if selector.is_some() {
            errors.forbidden(&at.child("name"), both);
        }
    }
    if selector.is_some() {
        errors.label_selector(&at.child("selector"), selector);
        if !name.is_empty() {
            errors.forbidden(&at.child("selector"), both);
        }
    }
    if name.is_empty() && selector.is_none() {
        errors.required(at, "one of name or selector must be specified");
    }
    let action = text(reference, "parameterNotFoundAction");
    errors.choice(&at.child("parameterNotFoundAction"), action, &["Deny", "Allow"]);
}

fn check_status(status: &Value, errors: &mut Errors) {
    let at = STATUS.child("typeChecking");
    let at = at.child("expressionWarnings");
    let none = Value::Null;
    let checking = status.get("typeChecking").unwrap_or(&none);
    for (i, warning) in items(checking, "expressionWarnings").iter().enumerate() {
        let at = at.index(i);
        errors.need(&at, warning, "warning");
        if text(warning, "fieldRef").trim().is_empty() {
            errors.required(&at.child("fieldRef"), "");
        }
    }
    errors.conditions(&STATUS.child("conditions"), status);
}
