//! The rules of claims: what they request, and the few fields that may change.

use object::{Map, Value, validate_text};

use crate::check::difference::difference;
use crate::check::internal::volume::PERSISTENT_VOLUME_CLAIM_SPEC as CLAIM;
use crate::check::{Errors, NEGATIVE, Path, entries, items, member, quantity, quantity_text, text, texts};
use crate::equal::same;
use crate::pod::validation::is_native;
use crate::write::Write;

pub(crate) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(crate) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const SPEC: Path<'static> = Path::Root("spec");
const STATUS: Path<'static> = Path::Root("status");
/// The annotation from before the class was a field.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// The spec of a claim or of a claim's template. `old`: the stored spec, which may keep what newer rules refuse.
pub(crate) fn check_spec(spec: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    if items(spec, "accessModes").is_empty() {
        errors.required(&at.child("accessModes"), "at least 1 access mode is required");
    }
    let bad_values = old.is_some_and(|old| {
        let mut found = Errors::default();
        found.label_selector(at, old.get("selector"));
        !found.is_empty()
    });
    errors.label_selector_with(&at.child("selector"), spec.get("selector"), bad_values);
    check_access_modes(spec, at, errors);
    let resources = at.child("resources");
    let storage_at = resources.key("storage");
    match spec.at(&["resources", "requests", "storage"]) {
        None => errors.required(&storage_at, ""),
        Some(storage) if quantity(storage).sign() <= 0 => {
            errors.invalid(&storage_at, quantity_text(storage).as_str(), "must be greater than zero");
        }
        Some(_) => {}
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.subdomain(&at.child("storageClassName"), class);
    }
    errors.one_of_member(at, spec, "volumeMode", &VOLUME_MODES);
    let any_group = old.is_some_and(|old| {
        ["dataSource", "dataSourceRef"].iter().any(|s| old.at(&[s, "apiGroup"]).is_some_and(|g| !g.is_null()))
    });
    for name in ["dataSource", "dataSourceRef"] {
        if let Some(source) = member(spec, name) {
            check_source(source, any_group, &at.child(name), errors);
        }
    }
    check_sources_agree(spec, at, errors);
    let class = text(spec, "volumeAttributesClassName");
    if !class.is_empty() {
        errors.subdomain(&at.child("volumeAttributesClassName"), class);
    }
}

/// Known modes, and the exclusive one alone.
pub(crate) fn check_access_modes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("accessModes");
    let (mut exclusive, mut other) = (false, false);
    for mode in texts(spec, "accessModes") {
        errors.one_of(&at, mode, &ACCESS_MODES);
        exclusive |= mode == "ReadWriteOncePod";
        other |= mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode);
    }
    if exclusive && other {
        errors.forbidden(&at, "may not use ReadWriteOncePod with other access modes");
    }
}

fn check_source(source: &Value, any_group: bool, at: &Path<'_>, errors: &mut Errors) {
    errors.need(at, source, "name");
    errors.need(at, source, "kind");
    let (kind, group) = (text(source, "kind"), text(source, "apiGroup"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.is_empty() && !any_group {
        errors.subdomain(&at.child("apiGroup"), group);
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        errors.dns_label(&at.child("namespace"), namespace);
    }
}

fn check_sources_agree(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (Some(source), Some(reference)) = (member(spec, "dataSource"), member(spec, "dataSourceRef")) else {
        return;
    };
    // Upstream hands its path object over as the bad value, which prints as an empty struct.
    let shown = crate::check::Raw("{}");
    if !text(reference, "namespace").is_empty() {
        errors.invalid(at, shown, "may not be specified when dataSourceRef.namespace is specified");
    } else if !["apiGroup", "kind", "name"].iter().all(|name| same(source.get(name), reference.get(name))) {
        errors.invalid(at, shown, "must match dataSourceRef");
    }
}

pub(super) fn check_update(write: &Write<'_>, old: &Value, errors: &mut Errors) {
    let new = write.new;
    let none = Value::Null;
    let spec = new.get("spec").unwrap_or(&none);
    let old_spec = old.get("spec").unwrap_or(&none);
    let bound = new.str_at(&["status", "phase"]) == Some("Bound");
    let annotation = |v: &Value| v.str_at(&["metadata", "annotations", BETA_CLASS]).map(str::to_owned);
    let (class, old_class) = (member(spec, "storageClassName"), member(old_spec, "storageClassName"));
    let named = class.and_then(Value::as_str).map(str::to_owned);
    let (beta, old_beta) = (annotation(new), annotation(old));
    // The class may move from the annotation to the field, and be given to a claim that had none.
    let moved = old_beta.is_some()
        && old_class.is_none()
        && named == old_beta
        && (beta.is_none() || beta == old_beta);
    if !moved && beta.clone().unwrap_or_default() != old_beta.clone().unwrap_or_default() {
        let metadata = Path::Root("metadata");
        let annotations = metadata.child("annotations");
        errors.invalid(
            &annotations.key(BETA_CLASS),
            beta.as_deref().unwrap_or_default(),
            crate::check::IMMUTABLE,
        );
    }
    let given =
        named.is_some() && old_class.is_none() && old_beta.as_ref().is_none_or(|b| Some(b) == named.as_ref());
    // What may change is made equal before the two are compared.
    let (mut now, mut was) = (spec.clone(), old_spec.clone());
    let take = |to: &mut Value, from: &Value, name: &'static str| match member(from, name) {
        Some(value) => to.make_map().set(name, value.clone()),
        None => drop(to.make_map().remove(name)),
    };
    if text(old_spec, "volumeName").is_empty() {
        take(&mut was, spec, "volumeName");
    }
    if moved || given {
        take(&mut now, old_spec, "storageClassName");
    }
    if bound {
        take(&mut now, old_spec, "volumeAttributesClassName");
        if let Some(requests) = requests_mut(now.make_map()) {
            let before = old_spec.at(&["resources", "requests", "storage"]).cloned();
            requests.set("storage", before.unwrap_or_else(|| Value::from("0")));
        }
    }
    if !write.same(&["spec"], Some(&now), Some(&was)) {
        let changed = difference(&was, &now, CLAIM);
        errors.forbidden(&SPEC, format!("{FIXED}\n{changed}"));
    }
    let size = |v: &Value, path: &[&str]| v.at(path).map(quantity);
    let request = ["spec", "resources", "requests", "storage"];
    let zero = object::quantity::Quantity::ZERO;
    let (now, before) = (size(new, &request).unwrap_or(zero), size(old, &request).unwrap_or(zero));
    if now < before && now <= size(old, &["status", "capacity", "storage"]).unwrap_or(zero) {
        let detail = "field can not be less than status.capacity";
        errors.forbidden(&Path::Root("spec.resources.requests.storage"), detail);
    }
    errors.immutable(&Path::Root("volumeMode"), spec.get("volumeMode"), old_spec.get("volumeMode"));
    let current = old.at(&["status", "currentVolumeAttributesClassName"]).is_some_and(|c| !c.is_null());
    let attributes = member(spec, "volumeAttributesClassName");
    if current && !same(attributes, member(old_spec, "volumeAttributesClassName")) {
        let at = SPEC.child("volumeAttributesClassName");
        let when = "is forbidden when status.currentVolumeAttributesClassName is not nil";
        match attributes.map(|a| a.as_str().unwrap_or_default()) {
            None => errors.forbidden(&at, format!("update to nil {when}")),
            Some("") => errors.forbidden(&at, format!("update to empty string {when}")),
            Some(_) => {}
        }
    }
}

fn requests_mut(spec: &mut Map) -> Option<&mut Map> {
    spec.get_mut("resources")?.as_map_mut()?.get_mut("requests")?.as_map_mut()
}

pub(super) fn check_status(new: &Value, errors: &mut Errors) {
    let none = Value::Null;
    if new.get("spec").is_none_or(|spec| items(spec, "accessModes").is_empty()) {
        errors.required(&Path::Root("Spec.accessModes"), "");
    }
    let status = new.get("status").unwrap_or(&none);
    for (name, value) in entries(status, "capacity") {
        check_basic(value, &STATUS.child("capacity").key(name), errors);
    }
    let at = STATUS.child("allocatedResourceStatuses");
    for (name, state) in entries(status, "allocatedResourceStatuses") {
        check_resource_key(name, &at, errors);
        if !RESIZE_STATES.contains(&state.as_str().unwrap_or_default()) {
            errors.not_supported(&at, name, &RESIZE_STATES);
        }
    }
    let at = STATUS.child("allocatedResources");
    for (name, value) in entries(status, "allocatedResources") {
        let before = errors.len();
        check_resource_key(name, &at, errors);
        if errors.len() > before {
            continue;
        }
        check_basic(value, &at.key(name), errors);
        if errors.len() == before && quantity(value).sign() < 0 {
            errors.invalid(&at.key(name), quantity_text(value).as_str(), NEGATIVE);
        }
    }
}

pub(crate) fn check_basic(value: &Value, at: &Path<'_>, errors: &mut Errors) {
    let amount = quantity(value).as_i64();
    if amount < 0 {
        errors.invalid(at, amount, "must be a valid resource quantity");
    }
}

fn check_resource_key(name: &str, at: &Path<'_>, errors: &mut Errors) {
    let problems = validate_text::qualified_name(name);
    if !problems.is_empty() {
        return errors.each(at, name, problems);
    }
    if is_native(name) && name != "storage" {
        errors.not_supported(at, name, &["storage"]);
    }
}
