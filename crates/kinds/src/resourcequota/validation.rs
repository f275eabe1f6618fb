//! The rules of quotas: resources that can be counted, scopes that fit them.

use object::Value;

use crate::check::{Errors, Path, entries, items, member, text, texts};
use crate::pod::validation::{STANDARD, is_huge_page, quantity_value, resource_name};
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

const COMPUTE: [&str; 6] =
    ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    if write.is_status() {
        return check_status(write.status(), errors);
    }
    let spec = write.spec();
    check_amounts(spec, "hard", &SPEC, errors);
    check_scopes(spec, errors);
    check_selector(spec, errors);
    match write.old_spec() {
        None => check_status(write.status(), errors),
        Some(old) => {
            let set = |spec: &Value| {
                let mut scopes: Vec<String> = texts(spec, "scopes").map(str::to_owned).collect();
                scopes.sort();
                scopes.dedup();
                scopes
            };
            if set(spec) != set(old) {
                errors.invalid(&SPEC.child("scopes"), spec.get("scopes"), crate::check::IMMUTABLE);
            }
        }
    }
}

fn check_status(status: &Value, errors: &mut Errors) {
    check_amounts(status, "hard", &STATUS, errors);
    check_amounts(status, "used", &STATUS, errors);
}

fn is_standard(name: &str) -> bool {
    // What a quota calls storage is always asked for: `requests.storage`.
    (STANDARD.contains(&name) && name != "storage")
        || is_huge_page(name)
        || name.starts_with("requests.hugepages-")
}

fn check_amounts(of: &Value, list: &str, at: &Path<'_>, errors: &mut Errors) {
    for (name, value) in entries(of, list) {
        let at = at.child(list);
        let at = at.key(name);
        resource_name(name, &at, errors);
        if !name.contains('/') && !is_standard(name) {
            errors.invalid(&at, name, "must be a standard resource for quota");
        }
        quantity_value(name, value, &at, errors);
    }
}

fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || COMPUTE.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn misfits(spec: &Value, scope: &str) -> usize {
    entries(spec, "hard").filter(|(name, _)| is_standard(name) && !fits(scope, name)).count()
}

fn check_scopes(spec: &Value, errors: &mut Errors) {
    let at = SPEC.child("scopes");
    let shown = spec.get("scopes");
    let scopes: Vec<&str> = texts(spec, "scopes").collect();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.invalid(&at, shown, "unsupported scope");
        }
        for _ in 0..misfits(spec, scope) {
            errors.invalid(&at, shown, "unsupported scope applied to resource");
        }
    }
    for pair in CONFLICTS {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.invalid(&at, shown, "conflicting scopes");
        }
    }
}

fn check_selector(spec: &Value, errors: &mut Errors) {
    let Some(selector) = member(spec, "scopeSelector") else { return };
    let at = SPEC.child("scopeSelector");
    let at = at.child("matchExpressions");
    let requirements = items(selector, "matchExpressions");
    for requirement in requirements {
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        let count = items(requirement, "values").len();
        if !SCOPES.contains(&scope) {
            errors.invalid(&at.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..misfits(spec, scope) {
            errors.invalid(&at, selector, "unsupported scope applied to resource");
        }
        let presence = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        if presence && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&at.child("operator"), operator, detail);
        }
        match operator {
            "In" | "NotIn" if count == 0 => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(&at.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&at.child("values"), requirement.get("values"), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(&at.child("operator"), other, "not a valid selector operator"),
        }
    }
    for pair in CONFLICTS {
        if pair.iter().all(|scope| requirements.iter().any(|r| text(r, "scopeName") == *scope)) {
            errors.invalid(&at, spec.get("scopes"), "conflicting scopes");
        }
    }
}
