//! The rules of nodes: taints, pod CIDRs, and quantities.

use object::{Value, validate_text};

use crate::check::internal::{Field, NULL, TEXT, internal};
use crate::check::text::sloppy_cidr;
use crate::check::{Errors, Path, Raw, Seen, entries, int, items, member, text, texts};
use crate::pod::validation::{quantity_value, taint_effect};
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

const FEATURE_MAX_BYTES: usize = 253;

const TAINTS: Path<'static> = Path::Root("metadata.taints");
const ANNOTATIONS: Path<'static> = Path::Root("metadata.annotations");
const TAINTS_KEY: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_KEY: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const TAINT: [Field; 4] = [
    ("key", "Key", TEXT),
    ("value", "Value", TEXT),
    ("effect", "Effect", TEXT),
    ("timeAdded", "TimeAdded", NULL),
];
const ADDRESS: [Field; 2] = [("type", "Type", TEXT), ("address", "Address", TEXT)];

/// An update is validated as a node and as an update, one of the status only as an update.
pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    let (spec, status) = (write.spec(), write.status());
    if !write.is_status() {
        write.check_whole_metadata(errors);
        check_annotations(write.new, errors);
        check_taints(items(spec, "taints"), &TAINTS, errors);
        check_resources(status, errors);
        check_swap(status, errors);
        check_features(status, errors);
        check_pod_cidrs(spec, errors);
    }
    if let Some(old) = write.old_spec() {
        write.check_metadata(errors);
        let had_config = write.old_status().is_some_and(|old| member(old, "config").is_some());
        check_update(write.new, old, had_config, errors);
    }
}

fn check_update(node: &Value, old: &Value, had_config: bool, errors: &mut Errors) {
    let none = Value::Null;
    let (spec, status) = (node.get("spec").unwrap_or(&none), node.get("status").unwrap_or(&none));
    check_annotations(node, errors);
    check_resources(status, errors);
    check_features(status, errors);
    let addresses = items(status, "addresses");
    let mut seen = Seen::default();
    for (i, address) in addresses.iter().enumerate() {
        if seen.again((text(address, "type"), text(address, "address"))) {
            let shown = internal(Some(address), &ADDRESS);
            errors.duplicate(&STATUS.child("addresses").index(i), Raw(&shown));
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
    // Unused now: a node that has one keeps it, but it cannot be added.
    if let Some(source) = member(spec, "configSource").filter(|_| member(old, "configSource").is_some()) {
        check_config(source, false, &SPEC.child("configSource"), errors);
    }
    if let Some(config) = member(status, "config").filter(|_| had_config) {
        let at = STATUS.child("config");
        for name in ["assigned", "active", "lastKnownGood"] {
            if let Some(source) = member(config, name) {
                check_config(source, true, &at.child(name), errors);
            }
        }
    }
    check_taints(items(spec, "taints"), &TAINTS, errors);
    if text(spec, "externalID") != text(old, "externalID") {
        errors.forbidden(&SPEC.child("externalID"), "may not be updated");
    }
}

/// A complete reference to a config map; uid and version (`exact`) only in the status.
fn check_config(source: &Value, exact: bool, at: &Path<'_>, errors: &mut Errors) {
    let Some(map) = member(source, "configMap") else {
        let detail = "exactly one reference subfield must be non-nil";
        return errors.invalid(at, Raw("{\"ConfigMap\":null}"), detail);
    };
    let at = at.child("configMap");
    for name in ["uid", "resourceVersion"] {
        match (exact, text(map, name)) {
            (true, "") => errors.required(&at.child(name), ""),
            (true, _) | (false, "") => {}
            (false, _) => errors.forbidden(&at.child(name), format!("{name} must not be set in spec")),
        }
    }
    errors.need_label(&at.child("namespace"), text(map, "namespace"));
    errors.need_subdomain(&at.child("name"), text(map, "name"));
    let key = text(map, "kubeletConfigKey");
    let key_at = at.child("kubeletConfigKey");
    match key {
        "" => errors.required(&key_at, ""),
        _ => errors.each(&key_at, key, validate_text::config_map_key(key)),
    }
}

/// Taints and avoided controllers once were JSON in annotations, and are still validated there.
fn check_annotations(node: &Value, errors: &mut Errors) {
    let annotation = |key: &str| node.str_at(&["metadata", "annotations", key]).filter(|t| !t.is_empty());
    if let Some(text) = annotation(TAINTS_KEY) {
        match codec::json::parse(text.as_bytes(), None) {
            Ok(Value::List(taints)) => check_taints(&taints, &ANNOTATIONS.child(TAINTS_KEY), errors),
            Ok(Value::Null) => {}
            Ok(other) => errors.invalid(&ANNOTATIONS, TAINTS_KEY, mistyped(&other, "[]v1.Taint")),
            Err(error) => errors.invalid(&ANNOTATIONS, TAINTS_KEY, error.to_string()),
        }
    }
    if let Some(text) = annotation(AVOID_KEY) {
        let at = ANNOTATIONS.child("AvoidPods");
        match codec::json::parse(text.as_bytes(), None) {
            Ok(avoid @ (Value::Map(_) | Value::Null)) => check_avoided(&avoid, errors),
            Ok(other) => errors.invalid(&at, AVOID_KEY, mistyped(&other, "v1.AvoidPods")),
            Err(error) => errors.invalid(&at, AVOID_KEY, error.to_string()),
        }
    }
}

fn mistyped(value: &Value, wanted: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {wanted}", value.json_type())
}

fn check_avoided(avoid: &Value, errors: &mut Errors) {
    let list = ANNOTATIONS.child(AVOID_KEY);
    for (i, entry) in items(avoid, "preferAvoidPods").iter().enumerate() {
        let at = list.index(i);
        let at = at.child("PodSignature");
        match entry.at(&["podSignature", "podController"]).filter(|c| !c.is_null()) {
            None => errors.required(&at, ""),
            Some(owner) if !crate::check::flag(owner, "controller") => {
                let at = at.child("PodController");
                errors.invalid(&at.child("Controller"), false, "must point to a controller");
            }
            Some(_) => {}
        }
    }
}

/// Upstream's path of a node's taints is below the metadata.
fn check_taints(taints: &[Value], list: &Path<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    for (i, taint) in taints.iter().enumerate() {
        let at = list.index(i);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        errors.qualified(&at.child("key"), key);
        let problems = validate_text::label_value(value);
        if !problems.is_empty() {
            errors.invalid(&at.child("value"), value, problems.join(";"));
        }
        taint_effect(effect, &at.child("effect"), errors);
        if seen.again((key, effect)) {
            errors.duplicate_because(
                &at,
                Raw(&internal(Some(taint), &TAINT)),
                "taints must be unique by key and effect pair",
            );
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
        let v4 = |cidr: &&str| sloppy_cidr(cidr).map(|(ip, _)| ip.to_canonical().is_ipv4());
        let families: Vec<Option<bool>> = cidrs.iter().map(v4).collect();
        if let Some(i) = families.iter().position(Option::is_none) {
            let why = format!("invalid CIDR[{i}]: <nil> (invalid CIDR address: {})", cidrs[i]);
            let detail = format!("invalid PodCIDRs. failed to check with dual stack with error:{why}");
            errors.internal(&at, detail);
        }
        let dual = families.contains(&Some(true)) && families.contains(&Some(false));
        if !dual || cidrs.len() > 2 {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.invalid(&at, spec.get("podCIDRs"), detail);
        }
    }
}
