//! What a resize may change: cpu and memory of containers, never the pod's class of service.

use catalog::Storage;
use object::{Map, Value};

use super::SPEC;
use super::annotations::MIRROR;
use crate::check::{Errors, Path, entries, items, member, text};
use crate::equal::{FieldType, same};
use crate::strategy::map_mut;

const COMPUTE: [&str; 2] = ["cpu", "memory"];

pub(super) fn check(storage: &Storage, new: &Value, old: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let refused = |errors: &mut Errors, why: &str| {
        errors.list.clear();
        errors.forbidden(&Path::Root(""), why);
    };
    if old.at(&["metadata", "annotations", MIRROR]).is_some() {
        return refused(errors, "static pods cannot be resized");
    }
    if old.at(&["spec", "os", "name"]).and_then(Value::as_str) == Some("windows") {
        return refused(errors, "windows pods cannot be resized");
    }
    let class = crate::pod::qos::class(new);
    let before = old.str_at(&["status", "qosClass"]).filter(|c| !c.is_empty());
    if before.unwrap_or_else(|| crate::pod::qos::class(old)) != class {
        let shown = new.str_at(&["status", "qosClass"]).unwrap_or_default();
        errors.invalid(&SPEC, shown, "Pod QOS Class may not change as a result of resizing");
    }
    // A node that reports no resources of a running container cannot change them.
    let statuses = old.get("status").map(|s| items(s, "containerStatuses")).unwrap_or_default();
    let running = statuses.iter().find(|s| s.at(&["state", "running"]).is_some_and(|r| !r.is_null()));
    if running.is_some_and(|s| member(s, "resources").is_none()) {
        errors.forbidden(&SPEC, "Pod running on node without support for resize");
    }
    let claims =
        old.get("status").map(|s| items(s, "nodeAllocatableResourceClaimStatuses")).unwrap_or_default();
    let (new, old) = (new.get("spec").unwrap_or(&none), old.get("spec").unwrap_or(&none));
    let of_pod = |spec: &Value| {
        let of = |r: &Value| entries(r, "requests").chain(entries(r, "limits")).next().is_some();
        member(spec, "resources").is_some_and(of)
    };
    // An empty member has no resources: it is a change like any other.
    let pod_level = of_pod(new) || of_pod(old);
    if pod_level {
        check_pod_level(new, old, errors);
    }
    if !claims.is_empty() {
        errors.forbidden(&SPEC, "pods with node allocatable resource claims cannot be resized");
    }
    if !same_order(new, old, errors) {
        return;
    }
    let container = FieldType::of(storage, &["spec", "containers", "[]"]);
    for list in ["initContainers", "containers"] {
        for (i, (now, before)) in items(new, list).iter().zip(items(old, list)).enumerate() {
            let at = SPEC.child(list);
            check_removed(now, before, &at.index(i).child("resources"), errors);
            let other_change =
                !container.same(Some(&without_claims(without_compute(now))), Some(&without_compute(before)));
            if list == "containers" {
                if other_change {
                    errors.forbidden(&SPEC, "only cpu and memory resources are mutable");
                }
                continue;
            }
            if other_change {
                let detail = "only cpu and memory resources for init or sidecar containers are mutable";
                errors.forbidden(&at.index(i), detail);
            }
            if text(now, "restartPolicy") != "Always" && !container.same(Some(now), Some(before)) {
                let restarts = |p: &&Value| text(p, "restartPolicy") == "RestartContainer";
                for _ in items(now, "resizePolicy").iter().filter(restarts) {
                    let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    errors.forbidden(&at.index(i), detail);
                }
            }
        }
    }
    if !errors.is_empty() {
        return;
    }
    let rest = |spec: &Value| {
        let mut rest = spec.clone();
        for list in ["containers", "initContainers"] {
            rest.make_map().remove(list);
        }
        if pod_level {
            rest.make_map().remove("resources");
        }
        rest
    };
    if !FieldType::of(storage, &["spec"]).same(Some(&rest(new)), Some(&rest(old))) {
        errors.forbidden(&SPEC, "only cpu and memory resources are mutable");
    }
}

/// Upstream compares requests and limits only: changed claims are ignored here.
fn without_claims(mut container: Value) -> Value {
    if let Some(resources) = map_mut(&mut container, &["resources"]) {
        resources.remove("claims");
    }
    container
}

fn check_pod_level(new: &Value, old: &Value, errors: &mut Errors) {
    let at = SPEC.child("resources");
    let (now, before) = (member(new, "resources"), member(old, "resources"));
    let (before, Some(now)) = (before.unwrap_or(&Value::Null), now) else {
        return errors.forbidden(&at, "pod-level resources cannot be removed");
    };
    for list in ["requests", "limits"] {
        if is_removed(now, before, list) {
            errors.forbidden(&at.child(list), format!("pod-level resource {list} cannot be removed"));
        }
    }
    let own = |resources: &Value| {
        let mut holder = Map::default();
        holder.set("resources", resources.clone());
        without_compute(&Value::Map(holder))
    };
    if !same(Some(&own(now)), Some(&own(before))) {
        errors.forbidden(&SPEC, "only cpu and memory resources are mutable at pod-level");
    }
}

fn same_order(new: &Value, old: &Value, errors: &mut Errors) -> bool {
    let before = errors.len();
    for list in ["containers", "initContainers"] {
        let (now, then) = (items(new, list), items(old, list));
        if now.len() != then.len() {
            errors.forbidden(&SPEC.child(list), format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (i, (now, then)) in now.iter().zip(then).enumerate() {
            if text(now, "name") != text(then, "name") {
                let at = SPEC.child(list);
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&at.index(i).child("name"), detail);
            }
        }
    }
    errors.len() == before
}

/// Requests and limits may change but not be removed.
fn check_removed(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    let none = Value::Null;
    let (now, before) = (new.get("resources").unwrap_or(&none), old.get("resources").unwrap_or(&none));
    for list in ["requests", "limits"] {
        if is_removed(now, before, list) {
            errors.forbidden(&at.child(list), format!("resource {list} cannot be removed"));
        }
    }
}

fn is_removed(new: &Value, old: &Value, list: &str) -> bool {
    entries(old, list).any(|(name, _)| new.at(&[list, name]).is_none())
}

/// A container without its cpu and memory.
fn without_compute(container: &Value) -> Value {
    let mut copy = container.clone();
    let Some(resources) = copy.as_map_mut().and_then(|m| m.get_mut("resources")) else { return copy };
    for list in ["requests", "limits"] {
        if let Some(map) = resources.as_map_mut().and_then(|m| m.get_mut(list)).and_then(Value::as_map_mut) {
            map.retain(|name, _| !COMPUTE.contains(&&**name));
        }
    }
    copy
}
