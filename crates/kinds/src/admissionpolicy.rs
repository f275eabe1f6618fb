//! Admission policies and their bindings, validating and mutating.

mod authorization;
mod columns;
pub(crate) mod defaults;
pub(crate) mod warnings;

use std::collections::HashSet;

use jsonpath::JsonPath;
use object::{Value, validate_text};

use crate::admissionrule::{
    FAILURE, REINVOCATION, Scope, Use, check_conditions, check_match_resources, check_mutable,
};
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

const VALIDATING_POLICIES: &str = "validatingadmissionpolicies";
const MUTATING_POLICIES: &str = "mutatingadmissionpolicies";

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
    check_validating_spec(write, errors);
    // What a policy that is not valid asks for is not known for sure.
    if errors.list.is_empty() {
        authorization::check_param_kind(write, errors);
    }
}

fn check_validating_spec(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let (spec, stored) = (write.spec(), Stored::of(write.old_spec()));
    let scope = check_common(write, &stored, false, errors);
    if items(spec, "validations").is_empty() && items(spec, "auditAnnotations").is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required(&SPEC.child("validations"), detail);
        return errors.required(&SPEC.child("auditAnnotations"), detail);
    }
    for (i, validation) in items(spec, "validations").iter().enumerate() {
        check_validation(validation, &scope, &stored, &SPEC.child("validations").index(i), errors);
    }
    let name = write.new.str_at(&["metadata", "name"]).unwrap_or_default();
    check_audit(spec, name, &scope, &stored, errors);
}

fn check_mutating(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let (spec, stored) = (write.spec(), Stored::of(write.old_spec()));
    let scope = check_common(write, &stored, true, errors);
    if items(spec, "mutations").is_empty() {
        errors.required(&SPEC.child("mutations"), "mutations must contain at least one item");
    }
    for (i, mutation) in items(spec, "mutations").iter().enumerate() {
        check_mutation(mutation, &scope, &stored, &SPEC.child("mutations").index(i), errors);
    }
    errors.choice(&SPEC.child("reinvocationPolicy"), text(spec, "reinvocationPolicy"), &REINVOCATION);
    if errors.list.is_empty() {
        authorization::check_param_kind(write, errors);
    }
}

/// The expressions of the stored policy, by what they are for: those may use what a later version has.
#[derive(Default)]
struct Stored<'a> {
    conditions: HashSet<&'a str>,
    validations: HashSet<&'a str>,
    messages: HashSet<&'a str>,
    audit: HashSet<&'a str>,
    configurations: HashSet<&'a str>,
}

impl<'a> Stored<'a> {
    fn of(old: Option<&'a Value>) -> Stored<'a> {
        let all = |list: &str, path: &[&str]| {
            let entries = old.map(|old| items(old, list)).unwrap_or_default();
            entries.iter().filter_map(|entry| entry.str_at(path)).collect()
        };
        Stored {
            conditions: all("matchConditions", &["expression"]),
            validations: all("validations", &["expression"]),
            messages: all("validations", &["messageExpression"]),
            audit: all("auditAnnotations", &["valueExpression"]),
            configurations: all("mutations", &["applyConfiguration", "expression"]),
        }
    }
}

/// From the failure policy to the variables. The scope is that of the expressions after them.
fn check_common(write: &Write<'_>, stored: &Stored<'_>, mutating: bool, errors: &mut Errors) -> Scope {
    let spec = write.spec();
    let scope = Scope::with_params(member(spec, "paramKind").is_some());
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
        check_conditions(spec, &scope, &stored.conditions, &SPEC, errors);
    }
    let variables = items(spec, "variables");
    let mut scope = if mutating || !variables.is_empty() { scope.composed() } else { scope };
    for (i, variable) in variables.iter().enumerate() {
        check_variable(variable, &mut scope, stored, &SPEC.child("variables").index(i), errors);
    }
    scope
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

fn check_variable(
    variable: &Value,
    scope: &mut Scope,
    stored: &Stored<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let name = text(variable, "name");
    if name.trim().is_empty() {
        errors.required(&at.child("name"), "name is not specified");
    } else if !is_identifier(name) {
        errors.invalid(&at.child("name"), name, "must be a valid CEL identifier");
    }
    let expression = text(variable, "expression");
    match expression.trim().is_empty() {
        true => errors.required(&at.child("expression"), "expression is not specified"),
        // Upstream looks for them among the validations.
        false => {
            let is_stored = stored.validations.contains(expression);
            scope.add(name, expression, is_stored, &at.child("expression"), errors);
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(word)
        && !RESERVED.contains(&name)
}

fn check_validation(
    validation: &Value,
    scope: &Scope,
    stored: &Stored<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let expression = text(validation, "expression");
    match expression.trim().is_empty() {
        true => errors.required(&at.child("expression"), "expression is not specified"),
        false => {
            let is_stored = stored.validations.contains(expression);
            scope.check(Use::Condition, expression, is_stored, &at.child("expression"), errors);
        }
    }
    for name in ["messageExpression", "message"] {
        let value = text(validation, name);
        if !value.is_empty() && value.trim().is_empty() {
            errors.invalid(&at.child(name), value, "must be non-empty if specified");
        } else if name == "message" && value.trim().contains(['\n', '\r']) {
            errors.invalid(&at.child(name), value, "must not contain line breaks");
        } else if name == "messageExpression" && !value.is_empty() {
            let is_stored = stored.messages.contains(value);
            scope.check(Use::Message, value, is_stored, &at.child(name), errors);
        }
    }
    errors.one_of_member(at, validation, "reason", &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn check_audit(spec: &Value, policy: &str, scope: &Scope, stored: &Stored<'_>, errors: &mut Errors) {
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
        let expression = text(annotation, "valueExpression");
        match expression.trim().len() {
            0 => errors.required(&at.child("valueExpression"), "valueExpression is not specified"),
            bytes if bytes > AUDIT_MAX_BYTES => {
                let detail = format!("must not exceed {AUDIT_MAX_BYTES} bytes in length");
                errors.required(&at.child("valueExpression"), &detail);
            }
            _ => {
                let is_stored = stored.audit.contains(expression);
                let (trimmed, at) = (expression.trim(), at.child("valueExpression"));
                scope.check_shown(Use::Audit, trimmed, expression, is_stored, &at, errors);
            }
        }
        if seen.again(key) {
            errors.duplicate(&at.child("key"), key);
        }
    }
}

fn check_mutation(mutation: &Value, scope: &Scope, stored: &Stored<'_>, at: &Path<'_>, errors: &mut Errors) {
    let kind = text(mutation, "patchType");
    let (own, other) = match kind {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => return errors.choice(&at.child("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    match member(mutation, own) {
        None => errors.required(&at.child(own), &format!("must be specified when patchType is {kind}")),
        Some(patch) => {
            let (expression, at) = (text(patch, "expression"), at.child(own));
            let of = if own == "jsonPatch" { Use::JsonPatch } else { Use::ApplyConfiguration };
            match expression.trim() {
                "" => errors.required(&at.child("expression"), ""),
                // Upstream looks for both among the apply configurations.
                trimmed => {
                    let is_stored = stored.configurations.contains(expression);
                    scope.check(of, trimmed, is_stored, &at.child("expression"), errors);
                }
            }
        }
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
    if errors.list.is_empty() {
        authorization::check_param_ref(write, VALIDATING_POLICIES, errors);
    }
}

fn check_mutating_binding(write: &Write<'_>, errors: &mut Errors) {
    check_binding(write, errors);
    if let Some(matched) = member(write.spec(), "matchResources") {
        check_mutable(matched, &SPEC.child("matchResources"), errors);
    }
    if errors.list.is_empty() {
        authorization::check_param_ref(write, MUTATING_POLICIES, errors);
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
        let (field, at) = (text(warning, "fieldRef").trim(), at.child("fieldRef"));
        if field.is_empty() {
            errors.required(&at, "");
        } else if let Err(error) = JsonPath::parse(field) {
            errors.invalid(&at, field, format!("invalid JSONPath: {error}"));
        }
    }
    errors.conditions(&STATUS.child("conditions"), status);
}
