//! From client-side to server-side apply: `kubectl apply` used to keep what it applied in an annotation.

use catalog::Name;
use object::Value;

use super::FieldManager;
use crate::conflict::Conflicts;
use crate::set::Set;
use crate::typed::{self, Duplicates};

/// Other managers decide against the migration by their name.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most bytes that the annotations of an object have, names and values.
const MAX_ANNOTATIONS: usize = 256 * 1024;

impl FieldManager<'_> {
    /// The conflicts that remain if what was applied last, and is still so, is no conflict; `None` if there are none.
    pub(super) fn without_last_applied(&self, live: &Value, conflicts: Conflicts) -> Option<Conflicts> {
        let Some(allowed) = self.last_applied_set(live) else { return Some(conflicts) };
        if conflicts.set().difference(&allowed).is_empty() {
            return None;
        }
        Some(conflicts.without(&allowed))
    }

    fn last_applied_set(&self, live: &Value) -> Option<Set> {
        let text = annotation(live)?;
        typed::validate(live, self.ty, Duplicates::Refused).ok()?;
        let last = codec::json::parse(text.as_bytes(), None).ok()?;
        let text = |name| last.get(name).and_then(Value::as_str);
        if text("apiVersion") != Some(self.api_version) || text("kind") != Some(self.kind) {
            return None;
        }
        typed::validate(&last, self.ty, Duplicates::Refused).ok()?;
        let found = typed::compare(&last, live, self.ty).ok()?;
        let set = typed::field_set(&last, self.ty);
        Some(set.difference(&found.modified).difference(&found.added).difference(&found.removed))
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object.str_at(&["metadata", "annotations", ANNOTATION]).filter(|text| !text.is_empty())
}

/// The annotation of an object that has one is what was applied now, so that client-side apply can go on from there.
pub(super) fn follow(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    let metadata = config.as_map_mut().and_then(|config| config.get_mut("metadata"));
    if let Some(Value::Map(metadata)) = metadata
        && let Some(annotations) = metadata.get_mut("annotations")
    {
        let is_text = |map: &object::Map| map.iter().all(|(_, value)| value.as_str().is_some());
        match annotations {
            Value::Map(map) if is_text(map) => drop(map.remove(ANNOTATION)),
            _ => drop(metadata.remove("annotations")),
        }
    }
    sort(&mut config);
    let mut text = codec::json::to_vec(&config);
    // As Go's encoder ends a document.
    text.push(b'\n');
    let text = String::from_utf8(text).unwrap_or_default();
    let annotations = object.map_at(&["metadata", "annotations"]);
    annotations.set(Name::Static(ANNOTATION), text);
    let size = |(name, value): (&Name, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn sort(value: &mut Value) {
    match value {
        Value::Map(map) => object::deep(|| {
            map.entries_mut().sort_by(|a, b| a.0.cmp(&b.0));
            map.iter_mut().for_each(|(_, value)| sort(value));
        }),
        Value::List(items) => object::deep(|| items.iter_mut().for_each(sort)),
        _ => {}
    }
}
