//! Nodes: allocatable defaults to the capacity; `podCIDR` and the first of `podCIDRs` are kept equal.

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

/// `podCIDR` is the first of `podCIDRs`; if they differ, `podCIDR` wins.
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
