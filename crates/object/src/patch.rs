//! The three patch types of the API, applied to a [`Value`]: JSON patch, JSON merge patch, strategic merge patch.
//!
//! ```text
//! application/json-patch+json             json::JsonPatch      a list of operations on paths
//! application/merge-patch+json            merge::apply         maps merge, everything else is replaced
//! application/strategic-merge-patch+json  strategic::apply     the same, but lists merge by the schema's keys
//! ```
//!
//! All three work on the object in the request's version and leave a tree that the caller normalises again.
//! When one fails, the document is half changed: the caller drops it.

mod entries;
mod go_format;
pub mod json;
pub mod merge;
pub mod strategic;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

use catalog::{Schema, TypeId};

use crate::{Status, Value, deep};
use json::JsonPatch;

pub use crate::MAX_DEPTH;
pub use go_format::go_type;

/// A patch, whatever its form.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
    /// Server-side apply: the fields their manager wants, as it wants them. What becomes of the object depends on who manages the
    /// others, so the registry does it.
    Apply(Value),
}

/// The forms of a patch, by the content type that names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    const ALL: [PatchType; 4] = [PatchType::Json, PatchType::Merge, PatchType::Strategic, PatchType::Apply];

    pub fn content_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
            PatchType::Apply => "application/apply-patch+yaml",
        }
    }

    pub fn of_content_type(text: &str) -> Option<PatchType> {
        PatchType::ALL.into_iter().find(|form| form.content_type() == text)
    }
}

impl Patch {
    /// A JSON patch from its list of operations.
    pub fn json(operations: Value) -> Result<Patch, Status> {
        JsonPatch::parse(operations).map(Patch::Json)
    }

    pub fn form(&self) -> PatchType {
        match self {
            Patch::Json(_) => PatchType::Json,
            Patch::Merge(_) => PatchType::Merge,
            Patch::Strategic(_) => PatchType::Strategic,
            Patch::Apply(_) => PatchType::Apply,
        }
    }

    /// As the body of a request says it.
    pub fn into_value(self) -> Value {
        match self {
            Patch::Json(patch) => patch.into_value(),
            Patch::Merge(patch) | Patch::Strategic(patch) | Patch::Apply(patch) => patch,
        }
    }

    /// Of members with one name the last is kept; what strict clients hear of the others, and of what an operation has no use for.
    pub fn without_duplicates(&mut self) -> Vec<String> {
        let patch = match self {
            Patch::Json(patch) => return patch.strict_errors().to_vec(),
            Patch::Merge(patch) | Patch::Strategic(patch) | Patch::Apply(patch) => patch,
        };
        let found = duplicate_fields(patch);
        if !found.is_empty() {
            keep_last_fields(patch);
        }
        found
    }

    /// Changes an object of that type; after a refusal the object is half changed and of no use.
    pub fn apply(&self, schema: &Schema, ty: TypeId, object: &mut Value) -> Result<(), Status> {
        match self {
            Patch::Json(patch) => patch.apply(object),
            Patch::Merge(patch) => merge::apply(object, patch.clone()),
            Patch::Strategic(patch) => strategic::apply(schema, ty, object, patch.clone()),
            Patch::Apply(_) => Err(Status::internal("an apply was taken for a patch of the object alone")),
        }
    }
}

/// Upstream's decoder collects at most this many.
const MAX_STRICT_ERRORS: usize = 100;

/// Strict field validation of a patch body before it is applied: duplicate names in a
/// map, as `duplicate field "metadata.labels.a"`.
pub fn duplicate_fields(patch: &Value) -> Vec<String> {
    duplicate_fields_below("", patch)
}

/// As above, of a value that stands at `path`.
fn duplicate_fields_below(path: &str, value: &Value) -> Vec<String> {
    let mut out = Vec::new();
    find_duplicates(value, &mut path.to_owned(), &mut out);
    out
}

/// Of duplicate names the last one wins, as in a Go map.
pub fn keep_last_fields(patch: &mut Value) {
    match patch {
        Value::Map(map) => {
            let mut seen = std::collections::HashSet::with_capacity(map.len());
            let later: Vec<bool> =
                map.entries_mut().iter().rev().map(|(name, _)| !seen.insert(name.clone())).collect();
            let mut repeated = later.into_iter().rev();
            map.entries_mut().retain(|_| !repeated.next().unwrap_or(false));
            deep(|| map.iter_mut().for_each(|(_, value)| keep_last_fields(value)));
        }
        Value::List(list) => deep(|| list.iter_mut().for_each(keep_last_fields)),
        _ => {}
    }
}

/// A patch as Go prints it in an error: `map[metadata:map[labels:x]]`.
pub fn go_text(patch: &Value) -> String {
    go_format::print(patch)
}

/// Nulls in maps mean "remove"; where there is nothing to remove they mean nothing.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Map(map) => deep(|| {
            map.retain(|_, value| {
                discard_nulls(value);
                !value.is_null()
            })
        }),
        Value::List(list) => deep(|| list.iter_mut().for_each(discard_nulls)),
        _ => {}
    }
}

fn find_duplicates(value: &Value, path: &mut String, out: &mut Vec<String>) {
    let here = path.len();
    match value {
        Value::Map(map) => {
            let mut seen = std::collections::HashSet::with_capacity(map.len());
            for (name, value) in map.iter() {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                if !seen.insert(name.as_str()) && out.len() < MAX_STRICT_ERRORS {
                    let words = format!("duplicate field \"{path}\"");
                    if !out.contains(&words) {
                        out.push(words);
                    }
                }
                deep(|| find_duplicates(value, path, out));
                path.truncate(here);
            }
        }
        Value::List(list) => {
            for (i, value) in list.iter().enumerate() {
                path.push_str(&format!("[{i}]"));
                deep(|| find_duplicates(value, path, out));
                path.truncate(here);
            }
        }
        _ => {}
    }
}

/// The bracket of the first map or list beyond the maximum depth, as a reader would find it.
pub fn too_deep(document: &Value) -> Option<char> {
    fn below(value: &Value, depth: usize) -> Option<char> {
        match value {
            Value::Map(_) if depth == MAX_DEPTH => Some('{'),
            Value::List(_) if depth == MAX_DEPTH => Some('['),
            Value::Map(map) => deep(|| map.iter().find_map(|(_, member)| below(member, depth + 1))),
            Value::List(list) => deep(|| list.iter().find_map(|item| below(item, depth + 1))),
            _ => None,
        }
    }
    below(document, 0)
}

/// Of all values in it, itself included.
fn count(value: &Value) -> usize {
    match value {
        Value::Map(map) => 1 + deep(|| map.iter().map(|(_, value)| count(value)).sum::<usize>()),
        Value::List(list) => 1 + deep(|| list.iter().map(count).sum::<usize>()),
        _ => 1,
    }
}

/// How many maps and lists lie around the deepest scalar.
fn depth(value: &Value) -> usize {
    match value {
        Value::Map(map) => 1 + deep(|| map.iter().map(|(_, v)| depth(v)).max().unwrap_or(0)),
        Value::List(list) => 1 + deep(|| list.iter().map(depth).max().unwrap_or(0)),
        _ => 0,
    }
}
