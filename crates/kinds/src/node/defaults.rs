//! Nodes: what is not said to be kept back is allocatable; the first range of pod addresses has two names.

use object::{Map, Value};

use crate::defaults::amounts;
use crate::defaults::fill::{at, is_empty, is_set, text};

pub(crate) fn apply(node: &mut Map) {
    if let Some(spec) = at(node, "spec") {
        ranges(spec);
    }
    let Some(status) = at(node, "status") else { return };
    amounts::round(status, "capacity");
    if !is_set(status, "allocatable")
        && let Some(capacity) = status.get("capacity").filter(|_| !is_empty(status, "capacity")).cloned()
    {
        status.set("allocatable", capacity);
    }
    amounts::round(status, "allocatable");
}

/// `podCIDR` is the first of `podCIDRs`; where they differ, `podCIDR` is right.
fn ranges(spec: &mut Map) {
    let first = spec.get("podCIDRs").and_then(Value::as_list).and_then(|list| list.first());
    let first = first.and_then(Value::as_str).unwrap_or_default();
    let range = text(spec, "podCIDR");
    if range == first {
        return;
    }
    if range.is_empty() {
        let first = Value::from(first);
        spec.set("podCIDR", first);
    } else {
        let only = Value::from(range);
        spec.set("podCIDRs", vec![only]);
    }
}
