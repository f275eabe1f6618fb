//! What an update may change of a pod: images, deadlines, tolerations, gates; while gated also its node selection.

use std::collections::HashMap;

use catalog::{Name, Storage};
use object::{Map, Value, validate_text};

use super::{Options, SPEC, scheduling};
use crate::check::difference::difference;
use crate::check::internal::pod::{EPHEMERAL_CONTAINER, NODE_SELECTOR_TERM, POD_SPEC, with_host_namespaces};
use crate::check::internal::{Go, internal};
use crate::check::{Errors, Path, Raw, Seen, all_of, entries, int, items, member, text};
use crate::equal::{FieldType, same};

const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(storage: &Storage, new: &Value, old: &Value, options: &Options, errors: &mut Errors) {
    let spot = FieldType::of(storage, &["spec"]);
    let none = Value::Null;
    let (new, old) = (new.get("spec").unwrap_or(&none), old.get("spec").unwrap_or(&none));
    for list in ["containers", "initContainers"] {
        if items(new, list).len() != items(old, list).len() {
            errors.forbidden(&SPEC.child(list), "pod updates may not add or remove containers");
            return;
        }
        for (i, container) in items(new, list).iter().enumerate() {
            let at = SPEC.child(list);
            let at = at.index(i);
            errors.need(&at, container, "image");
            super::container::check_image_spaces(container, &at, errors);
        }
    }
    if !check_deadline(new, old, errors) {
        return;
    }
    check_tolerations(new, old, options, errors);
    check_gates(new, old, errors);
    if spot.same(Some(new), Some(old)) {
        return;
    }
    let gated = !items(old, "schedulingGates").is_empty();
    if gated {
        check_node_selector(new, old, errors);
        check_node_affinity(new, old, errors);
    }
    let settled = settled(new, old, gated);
    if !spot.same(Some(&settled), Some(old)) {
        let changed = difference(&with_host_namespaces(old), &with_host_namespaces(&settled), POD_SPEC);
        errors.forbidden(&SPEC, format!("{UPDATABLE}\n{changed}"));
    }
}

/// Whether checking goes on.
fn check_deadline(new: &Value, old: &Value, errors: &mut Errors) -> bool {
    let at = SPEC.child("activeDeadlineSeconds");
    let before = int(old, "activeDeadlineSeconds");
    let Some(seconds) = int(new, "activeDeadlineSeconds") else {
        if before.is_some() {
            errors.invalid(&at, None, "must not update from a positive integer to nil value");
        }
        return true;
    };
    let problems = validate_text::in_range(seconds, 0, i64::from(i32::MAX));
    if let Some(problem) = problems.into_iter().next() {
        errors.invalid(&at, seconds, problem);
        return false;
    }
    if before.is_some_and(|before| before < seconds) {
        errors.invalid(&at, seconds, "must be less than or equal to previous value");
        return false;
    }
    true
}

fn check_tolerations(new: &Value, old: &Value, options: &Options, errors: &mut Errors) {
    let (now, before) = (items(new, "tolerations"), items(old, "tolerations"));
    let at = SPEC.child("tolerations");
    let tolerated: Seen<[&str; 4]> =
        now.iter().map(|t| ["key", "operator", "value", "effect"].map(|name| text(t, name))).collect();
    let kept =
        |old: &Value| tolerated.has(&["key", "operator", "value", "effect"].map(|name| text(old, name)));
    if !before.iter().all(kept) {
        errors.forbidden(&at, "existing toleration can not be modified except its tolerationSeconds");
        return;
    }
    scheduling::tolerations(now, &at, options.comparison_operators, errors);
}

fn check_gates(new: &Value, old: &Value, errors: &mut Errors) {
    let before = all_of(items(old, "schedulingGates"), "name");
    for (i, gate) in items(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !before.has(&name) {
            let at = SPEC.child("schedulingGates");
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&at.index(i).child("name"), detail);
        }
    }
}

/// While a pod is gated its node selection may be narrowed.
fn check_node_selector(new: &Value, old: &Value, errors: &mut Errors) {
    let now = new.get("nodeSelector");
    if entries(old, "nodeSelector").any(|(key, value)| now.and_then(|s| s.get(key)) != Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&SPEC.child("nodeSelector"), now, detail);
    }
}

fn check_node_affinity(new: &Value, old: &Value, errors: &mut Errors) {
    let path = ["affinity", "nodeAffinity", REQUIRED];
    let Some(before) = old.at(&path).filter(|v| !v.is_null()) else { return };
    let none = Value::Null;
    let now = new.at(&path).unwrap_or(&none);
    let (before, after) = (items(before, "nodeSelectorTerms"), items(now, "nodeSelectorTerms"));
    let affinity = SPEC.child("affinity");
    let node = affinity.child("nodeAffinity");
    let required = node.child(REQUIRED);
    let at = required.child("nodeSelectorTerms");
    if !before.is_empty() && before.len() != after.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = Go::List(NODE_SELECTOR_TERM).show(now.get("nodeSelectorTerms"));
        errors.invalid(&at, Raw(&shown), detail);
        return;
    }
    for (i, (old, new)) in before.iter().zip(after).enumerate() {
        if !only_adds(new, old) {
            let shown = internal(Some(new), NODE_SELECTOR_TERM);
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&at.index(i), Raw(&shown), detail);
        }
    }
}

fn only_adds(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    // An empty term matches nothing: adding to it would widen, not narrow.
    let empty = lists.iter().all(|list| items(old, list).is_empty());
    if empty && lists.iter().any(|list| !items(new, list).is_empty()) {
        return false;
    }
    lists.iter().all(|list| {
        let (now, before) = (items(new, list), items(old, list));
        now.len() >= before.len() && before.iter().zip(now).all(|(a, b)| same(Some(a), Some(b)))
    })
}

/// The new spec with all that an update may change as it was.
fn settled(new: &Value, old: &Value, gated: bool) -> Value {
    let mut copy = new.clone();
    let spec = copy.make_map();
    let mut back = |name: &'static str| match member(old, name) {
        Some(value) => spec.set(name, value.clone()),
        None => drop(spec.remove(name)),
    };
    back("activeDeadlineSeconds");
    back("tolerations");
    back("schedulingGates");
    let grace = "terminationGracePeriodSeconds";
    if int(old, grace).is_some_and(|seconds| seconds < 0) && int(new, grace) == Some(1) {
        back(grace);
    }
    if gated {
        back("nodeSelector");
        settle_node_affinity(spec, old);
    }
    for list in ["containers", "initContainers"] {
        let Some(Value::List(containers)) = spec.get_mut(list) else { continue };
        for (container, before) in containers.iter_mut().zip(items(old, list)) {
            crate::strategy::restore(container, before, &[], "image");
        }
    }
    copy
}

fn settle_node_affinity(spec: &mut Map, old: &Value) {
    let before = old.at(&["affinity", "nodeAffinity"]).filter(|v| !v.is_null());
    let Some(Value::Map(affinity)) = spec.get_mut("affinity") else {
        if let Some(before) = before {
            spec.set(
                "affinity",
                Value::Map([(Name::Static("nodeAffinity"), before.clone())].into_iter().collect()),
            );
        }
        return;
    };
    match before {
        Some(before) => affinity.set("nodeAffinity", before.clone()),
        None => drop(affinity.remove("nodeAffinity")),
    }
    if affinity.is_empty() && member(old, "affinity").is_none() {
        spec.remove("affinity");
    }
}

/// Ephemeral containers can be added, but not changed or removed.
pub(super) fn check_ephemeral_containers(storage: &Storage, new: &Value, old: &Value, errors: &mut Errors) {
    if old.at(&["metadata", "annotations", super::annotations::MIRROR]).is_some() {
        errors.list.clear();
        errors.forbidden(&Path::Root(""), "static pods do not support ephemeral containers");
        return;
    }
    fn of(pod: &Value) -> &[Value] {
        pod.get("spec").map(|s| items(s, "ephemeralContainers")).unwrap_or_default()
    }
    // Of several with one name the last counts.
    let now: HashMap<&str, &Value> =
        of(new).iter().map(|container| (text(container, "name"), container)).collect();
    let at = SPEC.child("ephemeralContainers");
    let spot = FieldType::of(storage, &["spec", "ephemeralContainers", "[]"]);
    for before in of(old) {
        let name = object::quote(text(before, "name"));
        match now.get(text(before, "name")) {
            None => {
                errors.forbidden(&at, format!("existing ephemeral containers {name} may not be removed\n"));
            }
            Some(after) if !spot.same(Some(after), Some(before)) => {
                let changed = difference(before, after, EPHEMERAL_CONTAINER);
                let detail = format!("existing ephemeral containers {name} may not be changed\n{changed}");
                errors.forbidden(&at, detail);
            }
            Some(_) => {}
        }
    }
}
