//! Sets as `FieldsV1`: `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`.
//!
//! An empty object is a member; `.` says that an element with members below is one, too.

use object::{Value, deep};
use thiserror::Error;

use super::{Entry, Set};
use crate::path::{ElementError, Escape, PathElement, write_string};

/// Why a value is not `FieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FieldsError {
    #[error("{0}")]
    Json(#[from] codec::json::ParseError),
    #[error("ReadMapCB: expect {{ or n, but found {0}")]
    NoMap(String),
    #[error("parsing key as path element: {0}")]
    Element(#[from] ElementError),
}

impl Set {
    /// From the JSON of `FieldsV1`.
    pub fn parse(json: &[u8]) -> Result<Set, FieldsError> {
        Set::from_fields(&codec::json::parse(json, None)?)
    }

    /// The set, and whether [`Set::to_raw`] would give the same text again.
    pub(crate) fn read_text(json: &str) -> Result<(Set, bool), FieldsError> {
        match super::text::read(json) {
            Some(set) => Ok((set, true)),
            None => Ok((Set::parse(json.as_bytes())?, false)),
        }
    }

    /// From `FieldsV1` in a tree.
    pub fn from_fields(fields: &Value) -> Result<Set, FieldsError> {
        read(fields).map(|(set, _)| set)
    }

    /// The JSON of `FieldsV1`, with upstream's escapes.
    pub fn to_json(&self) -> String {
        super::text::written(self, |name, out| {
            let mut quoted = String::with_capacity(name.len() + 2);
            write_string(name, Escape::Needed, &mut quoted);
            out.extend_from_slice(quoted.as_bytes());
        })
    }
}

/// What is below an element, and whether it is a member itself.
fn read(fields: &Value) -> Result<(Set, bool), FieldsError> {
    let map = match fields {
        Value::Map(map) => map,
        Value::Null => return Ok((Set::new(), true)),
        other => return Err(FieldsError::NoMap(other.json_type().to_owned())),
    };
    let (mut member, mut sorted) = (false, true);
    let mut entries: Vec<Entry> = Vec::with_capacity(map.len());
    for (name, value) in map.iter() {
        if name.as_str() == "." {
            member = true;
            continue;
        }
        let Some(element) = PathElement::parse(name)? else { continue };
        let (children, is_member) = deep(|| read(value))?;
        sorted &= entries.last().is_none_or(|last| last.element < element);
        entries.push(Entry { element, member: is_member, children });
    }
    // They come sorted, unless somebody else wrote them.
    if !sorted {
        entries.sort_by(|a, b| a.element.cmp(&b.element));
        entries.dedup_by(|later, first| {
            let same = later.element == first.element;
            if same {
                first.member |= later.member;
                if !later.children.is_empty() {
                    first.children = std::mem::take(&mut later.children);
                }
            }
            same
        });
    }
    let set = Set::of_sorted(entries);
    member |= set.is_empty();
    Ok((set, member))
}
