//! What the server does to an object before it is validated: status and spec put back, generation, identity.
//!
//! ```text
//! create: status dropped · generation 1 · the kind's own part
//! update: generation back to the old one · fields of features that are off dropped
//!           object: status := old status · the kind's own part · generation +1 if it moved
//!           status: spec := old spec · metadata as the row says · the kind's own part
//!         uid, creationTimestamp, deletion: as they were
//! ```

use object::{Map, Value};

use crate::kind::{Context, Kind};
use crate::rules::StatusMeta;

/// Before a create is validated. `metadata` already holds name, namespace, uid and creationTimestamp.
pub fn prepare_create(kind: &dyn Kind, new: &mut Value, ctx: &Context<'_>) {
    let rules = kind.rules();
    if rules.wipe_status_on_create {
        new.make_map().set("status", Value::map());
    }
    if rules.generation.starts_at_one() {
        new.map_at(&["metadata"]).set("generation", 1i64);
    }
    kind.prepare_create(new, ctx);
}

/// Before an update of the object or a subresource is validated.
pub fn prepare_update(kind: &dyn Kind, new: &mut Value, old: &Value, ctx: &Context<'_>) {
    let rules = kind.rules();
    kind.sent_update(new);
    restore(new, old, &["metadata"], "generation");
    let as_sent = rules.generation.is_of_what_was_sent() && rules.generation.moved(ctx.storage, new, old);
    crate::drop_disabled(kind, new, Some(old));
    if ctx.is_object() {
        if rules.keep_status_on_update {
            restore(new, old, &[], "status");
        }
        kind.prepare_update(new, old, ctx);
    } else {
        if ctx.is_status() {
            restore(new, old, &[], "spec");
            restore_metadata(new, old, rules.status_meta);
        }
        kind.prepare_update(new, old, ctx);
    }
    // A status write cannot change it: the spec is the old one, and annotations count for the object only. Nor does a binding:
    // it chooses the node, not the spec.
    let moved = || as_sent || rules.generation.moved(ctx.storage, new, old);
    if !matches!(ctx.subresource, Some("status" | "binding")) && moved() {
        let next = old.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0).saturating_add(1);
        new.map_at(&["metadata"]).set("generation", next);
    }
    restore_identity(new, old);
}

/// Makes `new`'s member what `old` has there, or absent.
pub(crate) fn restore(new: &mut Value, old: &Value, path: &[&'static str], member: &'static str) {
    let before = old.at(path).and_then(|v| v.get(member));
    match before {
        Some(value) if !value.is_null() => new.map_at(path).set(member, value.clone()),
        _ => {
            if let Some(map) = map_mut(new, path) {
                map.remove(member);
            }
        }
    }
}

/// The map at `path`, if every step is one.
pub(crate) fn map_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map> {
    let mut here = value;
    for name in path {
        here = here.as_map_mut()?.get_mut(name)?;
    }
    here.as_map_mut()
}

fn restore_metadata(new: &mut Value, old: &Value, rule: StatusMeta) {
    let kept: &[&'static str] = match rule {
        StatusMeta::Free => &[],
        StatusMeta::KeepLabels => &["labels"],
        StatusMeta::KeepOwners => &["ownerReferences", "deletionTimestamp"],
        StatusMeta::KeepAll => {
            &["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"]
        }
        StatusMeta::KeepWhole => &[
            "generateName",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "uid",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ],
    };
    for member in kept {
        restore(new, old, &["metadata"], member);
    }
}

/// An update cannot change uid, creation and deletion. Absent means unchanged; other values are left to validation.
fn restore_identity(new: &mut Value, old: &Value) {
    let filled = |v: Option<&Value>| v.is_some_and(|v| !v.is_null() && v.as_str() != Some(""));
    let before = |member| old.at(&["metadata", member]).filter(|v| filled(Some(v)));
    for member in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = before(member) {
            new.map_at(&["metadata"]).set(member, value.clone());
        }
    }
    for member in ["uid", "deletionGracePeriodSeconds"] {
        if let Some(value) = before(member)
            && !filled(new.at(&["metadata", member]))
        {
            new.map_at(&["metadata"]).set(member, value.clone());
        }
    }
}
