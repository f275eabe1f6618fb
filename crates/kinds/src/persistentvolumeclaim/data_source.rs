//! The two fields that say where a claim's first contents come from, kept as one.
//!
//! ```text
//! dataSourceRef from another namespace   dropped: that feature is off (CrossNamespaceVolumeDataSource)
//! dataSource of an unknown kind          dropped where only the old field is used, as it always was
//! one of the two                         copied to the other
//! ```
//! A claim that has a source already keeps it.

use object::{Map, Value};

use crate::check::{member, text};
use crate::strategy::map_mut;

const OLD: &str = "dataSource";
const NEW: &str = "dataSourceRef";

pub(super) fn prepare(claim: &mut Value, old: Option<&Value>) {
    let before = |field: &str| old.and_then(|old| old.at(&["spec", field])).is_some_and(|v| !v.is_null());
    let (had_old, had_new) = (before(OLD), before(NEW));
    let Some(spec) = map_mut(claim, &["spec"]) else { return };
    let source = |spec: &Map, field: &str| spec.get(field).filter(|v| !v.is_null()).cloned();
    if !had_new && source(spec, NEW).is_some_and(|reference| elsewhere(&reference)) {
        spec.remove(NEW);
    }
    let known = source(spec, OLD).is_some_and(|source| is_claim_or_snapshot(&source));
    if !had_old && !had_new && source(spec, NEW).is_none() && !known {
        spec.remove(OLD);
    }
    match (source(spec, OLD), source(spec, NEW)) {
        (Some(source), None) => spec.set(NEW, copy(&source)),
        (None, Some(reference)) if !elsewhere(&reference) => spec.set(OLD, copy(&reference)),
        _ => {}
    }
}

fn elsewhere(reference: &Value) -> bool {
    !text(reference, "namespace").is_empty()
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (text(source, "apiGroup"), text(source, "kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

/// What both fields can say.
fn copy(source: &Value) -> Value {
    let mut copy = Map::default();
    for name in ["apiGroup", "kind", "name"] {
        if let Some(value) = member(source, name) {
            copy.set(name, value.clone());
        }
    }
    Value::Map(copy)
}
