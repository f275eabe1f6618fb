//! Where a pod wants to run: node and pod affinity, node selectors, topology spread.

use std::collections::BTreeMap;

use object::{Value, validate_text};

use super::Options;
use super::options::bad_values;
use crate::check::{Errors, Path, Seen, all_of, entries, int, items, member, text, texts};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NOT_AN_OPERATOR: &str = "not a valid selector operator";

pub(super) fn check(spec: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    let Some(affinity) = member(spec, "affinity") else { return };
    if let Some(node) = member(affinity, "nodeAffinity") {
        let at = at.child("nodeAffinity");
        if let Some(required) = member(node, REQUIRED) {
            node_selector(required, options.bad_node_affinity_values, &at.child(REQUIRED), errors);
        }
        for (i, term) in items(node, PREFERRED).iter().enumerate() {
            let list = at.child(PREFERRED);
            let at = list.index(i);
            check_weight(term, &at, errors);
            let preference = term.get("preference").unwrap_or(&Value::Null);
            node_selector_term(preference, true, &at.child("preference"), errors);
        }
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let Some(pod) = member(affinity, name) else { continue };
        let at = at.child(name);
        for (i, term) in items(pod, REQUIRED).iter().enumerate() {
            check_term(term, &at.child(REQUIRED).index(i), options, errors);
        }
        for (i, weighted) in items(pod, PREFERRED).iter().enumerate() {
            let list = at.child(PREFERRED);
            let at = list.index(i);
            check_weight(weighted, &at, errors);
            let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
            check_term(term, &at.child("podAffinityTerm"), options, errors);
        }
    }
}

fn check_weight(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let weight = int(term, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&at.child("weight"), weight, "must be in the range 1-100");
    }
}

fn check_term(term: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        errors.label_selector_with(&at.child(name), term.get(name), options.bad_selector_values);
    }
    for name in texts(term, "namespaces") {
        errors.dns_label(&at.child("namespace"), name);
    }
    label_keys(term, at, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(&at.child("topologyKey"), "can not be empty");
    }
    errors.qualified(&at.child("topologyKey"), key);
}

/// A selector of nodes: terms of which one must hold.
pub(crate) fn node_selector(selector: &Value, bad_values: bool, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("nodeSelectorTerms");
    let terms = items(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&at, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        node_selector_term(term, bad_values, &at.index(i), errors);
    }
}

fn node_selector_term(term: &Value, bad_values: bool, at: &Path<'_>, errors: &mut Errors) {
    for (i, requirement) in items(term, "matchExpressions").iter().enumerate() {
        let list = at.child("matchExpressions");
        check_expression(requirement, bad_values, &list.index(i), errors);
    }
    for (i, requirement) in items(term, "matchFields").iter().enumerate() {
        let list = at.child("matchFields");
        check_field(requirement, &list.index(i), errors);
    }
}

fn check_expression(requirement: &Value, bad_values: bool, at: &Path<'_>, errors: &mut Errors) {
    let count = items(requirement, "values").len();
    let values = at.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" if count == 0 => {
            errors.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            errors.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if count != 1 => {
            errors.required(&values, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&at.child("operator"), other, NOT_AN_OPERATOR),
    }
    errors.qualified(&at.child("key"), text(requirement, "key"));
    if !bad_values {
        for (i, value) in texts(requirement, "values").enumerate() {
            errors.each(&values.index(i), value, validate_text::label_value(value));
        }
    }
}

/// Of a node's fields only its name can be matched.
fn check_field(requirement: &Value, at: &Path<'_>, errors: &mut Errors) {
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if items(requirement, "values").len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(&at.child("values"), detail);
            }
        }
        other => errors.invalid(&at.child("operator"), other, NOT_AN_OPERATOR),
    }
    match text(requirement, "key") {
        "metadata.name" => {
            for (i, name) in texts(requirement, "values").enumerate() {
                errors.subdomain(&at.child("values").index(i), name);
            }
        }
        other => errors.invalid(&at.child("key"), other, "not a valid field selector key"),
    }
}

pub(super) fn check_spread(spec: &Value, list: &Path<'_>, options: &Options, errors: &mut Errors) {
    let constraints = items(spec, "topologySpreadConstraints");
    let last: BTreeMap<(&str, &str), usize> = (constraints.iter().enumerate())
        .map(|(i, c)| ((text(c, "topologyKey"), text(c, "whenUnsatisfiable")), i))
        .collect();
    for (i, constraint) in constraints.iter().enumerate() {
        let at = list.index(i);
        errors.positive(&at.child("maxSkew"), int(constraint, "maxSkew").unwrap_or(0));
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            errors.required(&at.child("topologyKey"), "can not be empty");
        }
        errors.one_of(&at.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        // A duplicate is reported at its first position.
        if last.get(&(key, action)).is_some_and(|last| *last > i) {
            let shown = format!("{{{key}, {action}}}");
            errors.duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), shown.as_str());
        }
        if let Some(domains) = int(constraint, "minDomains") {
            let at = at.child("minDomains");
            errors.positive(&at, domains);
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&at, domains, detail);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.one_of_member(&at, constraint, name, &["Honor", "Ignore"]);
        }
        match options.bad_match_label_keys {
            true => legacy_label_keys(constraint, &at.child("matchLabelKeys"), errors),
            false => label_keys(constraint, &at, errors),
        }
        if !options.bad_spread_selectors {
            errors.label_selector(&at.child("labelSelector"), constraint.get("labelSelector"));
        }
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys`: label names, with a selector to be merged into, and not both.
pub(super) fn label_keys(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let selector = member(term, "labelSelector");
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        if items(term, name).is_empty() {
            continue;
        }
        if selector.is_none() {
            errors.forbidden(&at.child(name), "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in texts(term, name).enumerate() {
            errors.qualified(&at.child(name).index(i), key);
        }
    }
    let keys = items(term, "matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    if let Some(selector) = selector {
        let expressions = items(selector, "matchExpressions");
        let mut seen = Seen::default();
        let places: BTreeMap<&str, usize> =
            keys.iter().enumerate().filter_map(|(i, key)| Some((key.as_str()?, i))).collect();
        for expression in expressions {
            let key = text(expression, "key");
            let Some(&index) = places.get(key) else { continue };
            let before = seen.again(key);
            if before || selector.at(&["matchLabels", key]).is_some() {
                errors.invalid(&at.index(index), key, "exists in both matchLabelKeys and labelSelector");
            }
        }
    }
    let mismatched: Seen<&str> = texts(term, "mismatchLabelKeys").collect();
    for (i, key) in texts(term, "matchLabelKeys").enumerate() {
        if mismatched.has(&key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&at.child("matchLabelKeys").index(i), key, detail);
        }
    }
}

/// The older rule, for objects that break the newer one already.
fn legacy_label_keys(constraint: &Value, at: &Path<'_>, errors: &mut Errors) {
    if items(constraint, "matchLabelKeys").is_empty() {
        return;
    }
    let selector = member(constraint, "labelSelector");
    if selector.is_none() {
        errors.forbidden(at, "must not be specified when labelSelector is not set");
    }
    let expressions = all_of(selector.map(|s| items(s, "matchExpressions")).unwrap_or_default(), "key");
    let labels: Seen<&str> =
        selector.into_iter().flat_map(|s| entries(s, "matchLabels")).map(|(key, _)| key).collect();
    let selected = |key: &str| labels.has(&key) || expressions.has(&key);
    for (i, key) in texts(constraint, "matchLabelKeys").enumerate() {
        errors.qualified(&at.index(i), key);
        if selected(key) {
            errors.invalid(&at.index(i), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
}

pub(super) fn has_bad_selector_values(spec: &Value) -> bool {
    let Some(affinity) = member(spec, "affinity") else { return false };
    ["podAffinity", "podAntiAffinity"].iter().filter_map(|name| member(affinity, name)).any(|pod| {
        let preferred = items(pod, PREFERRED).iter().filter_map(|w| w.get("podAffinityTerm"));
        let mut terms = items(pod, REQUIRED).iter().chain(preferred);
        terms.any(|t| bad_values(t.get("labelSelector")) || bad_values(t.get("namespaceSelector")))
    })
}

pub(super) fn has_bad_node_values(spec: &Value) -> bool {
    let Some(required) = spec.at(&["affinity", "nodeAffinity", REQUIRED]) else { return false };
    has_bad_values(required)
}

/// Whether a node selector has an invalid label value.
pub(crate) fn has_bad_values(selector: &Value) -> bool {
    let expressions = items(selector, "nodeSelectorTerms").iter().flat_map(|t| items(t, "matchExpressions"));
    expressions.into_iter().any(|e| texts(e, "values").any(|v| !validate_text::label_value(v).is_empty()))
}
