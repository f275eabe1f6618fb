//! Paths of fields: `.spec.containers[name="a"].image`.
//!
//! ```text
//! element        in FieldsV1            in messages
//! Field          f:spec                 .spec
//! Key            k:{"name":"a"}         [name="a"]      of a list of maps, by its keys
//! Value          v:"a"                  [="a"]          of a set of scalars
//! Index          i:0                    [0]             of a list without identity
//! ```

mod json;
mod name;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use object::{Value, quote};

use crate::values;

pub use json::ElementError;
pub(crate) use json::{Escape, write_string};
pub use name::FieldName;

/// One step of a path. Elements are ordered as upstream orders them: fields, keys, values, indexes.
#[derive(Clone)]
pub enum PathElement {
    Field(FieldName),
    /// Sorted by name.
    Key(Arc<[(FieldName, Value)]>),
    Value(Arc<Value>),
    Index(i64),
}

impl PathElement {
    pub fn field(name: &str) -> PathElement {
        PathElement::Field(FieldName::new(name))
    }

    /// Of an element of a list of maps.
    pub fn key(mut fields: Vec<(FieldName, Value)>) -> PathElement {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        PathElement::Key(fields.into())
    }

    pub fn value(value: Value) -> PathElement {
        PathElement::Value(Arc::new(value))
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &PathElement) -> Ordering {
        match (self, other) {
            (PathElement::Field(a), PathElement::Field(b)) => a.cmp(b),
            (PathElement::Key(a), PathElement::Key(b)) => compare_keys(a, b),
            (PathElement::Value(a), PathElement::Value(b)) => values::compare(a, b),
            (PathElement::Index(a), PathElement::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(a: &[(FieldName, Value)], b: &[(FieldName, Value)]) -> Ordering {
    for ((name, value), (other_name, other)) in a.iter().zip(b) {
        let order = name.cmp(other_name).then_with(|| values::compare(value, other));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &PathElement) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for PathElement {
    fn eq(&self, other: &PathElement) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for PathElement {}

/// As in conflict messages and validation errors.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{}", name.as_str()),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{}={}", name.as_str(), shown(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", shown(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Debug for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value in a path. Nothing but scalars is ever an identity, unless a client made it up.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Str(text) => quote(text),
        Value::List(items) => {
            object::deep(|| format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")))
        }
        Value::Map(map) => {
            object::deep(|| map.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect())
        }
        scalar => object::patch::go_text(scalar),
    }
}

/// A path as text.
pub fn path_text(path: &[PathElement]) -> String {
    use fmt::Write;
    let mut out = String::new();
    for element in path {
        // Writing to a string does not fail.
        let _ = write!(out, "{element}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_as_small_as_a_name() {
        assert_eq!(size_of::<FieldName>(), 24);
        assert_eq!(size_of::<PathElement>(), 24);
    }

    #[test]
    fn paths_print_as_in_messages() {
        let path = [
            PathElement::field("spec"),
            PathElement::key(vec![
                (FieldName::new("protocol"), "TCP".into()),
                (FieldName::new("containerPort"), 80.into()),
            ]),
            PathElement::value("a\"b".into()),
            PathElement::Index(3),
            PathElement::value(Value::Float(1e6)),
        ];
        assert_eq!(path_text(&path), r#".spec[containerPort=80,protocol="TCP"][="a\"b"][3][=1e+06]"#);
    }
}
