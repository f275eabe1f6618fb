//! Roles and bindings, of namespaces and of the cluster: complete rules, immutable references.

mod columns;
mod defaults;

use object::{Value, validate_text};

use crate::check::internal::{Field, TEXT, internal};
use crate::check::{Errors, Path, Raw, items, member, text};
use crate::generic::GenericKind;
use crate::rules::{NameRule, Rules};
use crate::same;
use crate::write::Write;

const RULES: Rules = Rules::PLAIN.with_name(NameRule::PathSegment);
const ROLE_REF: &[Field] = &[("apiGroup", "APIGroup", TEXT), ("kind", "Kind", TEXT), ("name", "Name", TEXT)];
const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) static ROLE: GenericKind = GenericKind::new(RULES, check_role);
pub(crate) static CLUSTER_ROLE: GenericKind = GenericKind::new(RULES, check_cluster_role);
pub(crate) static ROLE_BINDING: GenericKind = GenericKind::new(RULES, check_role_binding)
    .with_defaults(defaults::apply)
    .with_printer(&columns::BINDING);
pub(crate) static CLUSTER_ROLE_BINDING: GenericKind = GenericKind::new(RULES, check_cluster_role_binding)
    .with_defaults(defaults::apply)
    .with_printer(&columns::BINDING);

fn check_role(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    check_rules(write.new, true, errors);
    check_update(write, errors);
}

fn check_cluster_role(write: &Write<'_>, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    check_rules(write.new, false, errors);
    if let Some(aggregation) = member(write.new, "aggregationRule") {
        let at = Path::Root("aggregationRule.clusterRoleSelectors");
        let selectors = items(aggregation, "clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.required(&at, detail);
        }
        for (i, selector) in selectors.iter().enumerate() {
            errors.label_selector(&at.index(i), Some(selector));
            if object::selector::LabelSelector::from_label_selector(selector).is_err() {
                errors.invalid(&at.index(i), None, "invalid label selector.");
            }
        }
    }
    check_update(write, errors);
}

fn check_rules(role: &Value, namespaced: bool, errors: &mut Errors) {
    for (i, rule) in items(role, "rules").iter().enumerate() {
        let list = Path::Root("rules");
        let at = list.index(i);
        let empty = |name: &str| items(rule, name).is_empty();
        if empty("verbs") {
            errors.required(&at.child("verbs"), "verbs must contain at least one value");
        }
        if !empty("nonResourceURLs") {
            let at = at.child("nonResourceURLs");
            let shown = rule.get("nonResourceURLs");
            if namespaced {
                errors.invalid(&at, shown, "namespaced rules cannot apply to non-resource URLs");
            }
            if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&at, shown, detail);
            }
            continue;
        }
        if empty("apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.required(&at.child("apiGroups"), detail);
        }
        if empty("resources") {
            errors.required(&at.child("resources"), "resource rules must supply at least one resource");
        }
    }
}

fn check_role_binding(write: &Write<'_>, errors: &mut Errors) {
    check_binding(write, true, errors);
}

fn check_cluster_role_binding(write: &Write<'_>, errors: &mut Errors) {
    check_binding(write, false, errors);
}

fn check_binding(write: &Write<'_>, namespaced: bool, errors: &mut Errors) {
    write.check_whole_metadata(errors);
    let none = Value::Null;
    let reference = write.new.get("roleRef").unwrap_or(&none);
    let at = Path::Root("roleRef");
    errors.one_of(&at.child("apiGroup"), text(reference, "apiGroup"), &[GROUP]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    errors.one_of(&at.child("kind"), text(reference, "kind"), kinds);
    let name = text(reference, "name");
    errors.need(&at, reference, "name");
    errors.each(&at.child("name"), name, validate_text::path_segment_name(name));
    for (i, subject) in items(write.new, "subjects").iter().enumerate() {
        let list = Path::Root("subjects");
        check_subject(subject, namespaced, &list.index(i), errors);
    }
    check_update(write, errors);
    if let Some(old) = write.old
        && !same(write.new.get("roleRef"), old.get("roleRef"))
    {
        errors.invalid(&at, Raw(&internal(Some(reference), ROLE_REF)), "cannot change roleRef");
    }
}

fn check_subject(subject: &Value, namespaced: bool, at: &Path<'_>, errors: &mut Errors) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    errors.need(at, subject, "name");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.subdomain(&at.child("name"), name);
            }
            errors.one_of(&at.child("apiGroup"), group, &[""]);
            if !namespaced {
                errors.need(at, subject, "namespace");
            }
        }
        "User" | "Group" => errors.one_of(&at.child("apiGroup"), group, &[GROUP]),
        other => errors.not_supported(&at.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// After the object itself, as upstream does for these kinds.
fn check_update(write: &Write<'_>, errors: &mut Errors) {
    if write.old.is_some() {
        write.check_metadata(errors);
    }
}
