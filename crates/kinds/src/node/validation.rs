//! The rules of nodes: taints, addresses of pods, and amounts that are amounts.

use object::{Value, validate_text};

use crate::check::text::{Cidr, parse_cidr};
use crate::check::{Errors, Path, entries, int, items, text, texts};
use crate::checked::Write;
use crate::pod::validation::{quantity_value, taint_effect};
use crate::workload::{SPEC, STATUS};

const FEATURE_MAX_BYTES: usize = 253;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let (spec, status) = (write.spec(), write.status());
    let Some(old) = write.old_spec() else {
        check_taints(spec, errors);
        check_resources(status, errors);
        check_swap(status, errors);
        check_features(status, errors);
        return check_pod_cidrs(spec, errors);
    };
    check_resources(status, errors);
    check_features(status, errors);
    let addresses = items(status, "addresses");
    for (i, address) in addresses.iter().enumerate() {
        if addresses[..i].contains(address) {
            errors.duplicate(&STATUS.child("addresses").index(i), address);
        }
    }
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    let (now, before) = (items(spec, "podCIDRs"), items(old, "podCIDRs"));
    if !before.is_empty() {
        let changes = match now.len() == before.len() {
            true => before.iter().zip(now).filter(|(a, b)| a != b).count(),
            false => 1,
        };
        for _ in 0..changes {
            errors.forbidden(&SPEC.child("podCIDRs"), detail);
        }
    }
    let provider = text(old, "providerID");
    if !provider.is_empty() && provider != text(spec, "providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&SPEC.child("providerID"), detail);
    }
    check_taints(spec, errors);
    if text(spec, "externalID") != text(old, "externalID") {
        errors.forbidden(&SPEC.child("externalID"), "may not be updated");
    }
}

/// Upstream's path of a node's taints is below the metadata.
fn check_taints(spec: &Value, errors: &mut Errors) {
    let list = Path::Root("metadata.taints");
    let taints = items(spec, "taints");
    for (i, taint) in taints.iter().enumerate() {
        let at = list.index(i);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        errors.qualified(&at.child("key"), key);
        let problems = validate_text::label_value(value);
        if !problems.is_empty() {
            errors.invalid(&at.child("value"), value, problems.join(";"));
        }
        taint_effect(effect, &at.child("effect"), errors);
        if taints[..i].iter().any(|t| text(t, "key") == key && text(t, "effect") == effect) {
            errors.duplicate_because(&at, taint, "taints must be unique by key and effect pair");
        }
    }
}

fn check_resources(status: &Value, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        for (name, value) in entries(status, list) {
            let at = STATUS.child(list);
            quantity_value(name, value, &at.child(name), errors);
        }
    }
}

fn check_swap(status: &Value, errors: &mut Errors) {
    if let Some(capacity) = status.at(&["nodeInfo", "swap"]).and_then(|swap| int(swap, "capacity")) {
        errors.positive(&Path::Root("metadata.nodeSwapStatus.capacity"), capacity);
    }
}

fn check_features(status: &Value, errors: &mut Errors) {
    let names: Vec<&str> = texts(status, "declaredFeatures").collect();
    for (i, name) in names.iter().enumerate() {
        let at = STATUS.child("declaredFeatures");
        let quoted = object::quote(name);
        if name.len() > FEATURE_MAX_BYTES {
            let detail = format!("invalid feature name {quoted}: must be no more than 253 characters");
            errors.invalid(&at.index(i), *name, detail);
        } else if !is_feature(name) {
            let detail = format!(
                "invalid feature name {quoted}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errors.invalid(&at.index(i), *name, detail);
        }
        let Some(next) = names.get(i + 1) else { continue };
        if name == next {
            errors.duplicate(&at.index(i + 1), *next);
        } else if name > next {
            errors.invalid(&at.index(i + 1), *next, "list must be sorted alphabetically");
        }
    }
}

fn is_feature(name: &str) -> bool {
    let word = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric());
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.split('/').all(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()) && word(part))
}

fn check_pod_cidrs(spec: &Value, errors: &mut Errors) {
    let at = SPEC.child("podCIDRs");
    let cidrs: Vec<&str> = texts(spec, "podCIDRs").collect();
    for (i, cidr) in cidrs.iter().enumerate() {
        errors.cidr(&at.index(i), cidr, &[]);
    }
    if cidrs.len() > 1 {
        let v4 = |cidr: &&str| match parse_cidr(cidr) {
            Cidr::Good(ip, _) => Some(ip.is_ipv4()),
            _ => None,
        };
        let families: Vec<Option<bool>> = cidrs.iter().map(v4).collect();
        let dual = families.contains(&Some(true)) && families.contains(&Some(false));
        if !dual || cidrs.len() > 2 {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.invalid(&at, spec.get("podCIDRs"), detail);
        }
    }
}
