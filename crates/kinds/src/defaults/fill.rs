//! Building blocks of defaulting: descend into existing members, fill in missing ones.
//!
//! Nothing here allocates when nothing is missing, and no value of an unexpected type is replaced: such a tree did not pass
//! `normalise`, and defaulting must not hide that.

use catalog::Name;
use object::{Index, Map, Value};

/// A constant value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Literal {
    Text(&'static str),
    Int(i64),
    Bool(bool),
    /// A struct with nothing in it.
    Empty,
}

impl From<Literal> for Value {
    fn from(literal: Literal) -> Value {
        match literal {
            Literal::Text(text) => Value::from(text),
            Literal::Int(number) => Value::Int(number),
            Literal::Bool(truth) => Value::Bool(truth),
            Literal::Empty => Value::map(),
        }
    }
}

/// One default of a struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Default {
    name: &'static str,
    /// A zero counts as missing too: Go cannot distinguish the two if the field is no pointer.
    zero_is_missing: bool,
    literal: Literal,
}

/// A default of a Go pointer: zero is a value the user may want.
pub(crate) const fn pointer(name: &'static str, literal: Literal) -> Default {
    Default { name, zero_is_missing: false, literal }
}

/// A default of a plain Go field.
pub(crate) const fn plain(name: &'static str, literal: Literal) -> Default {
    Default { name, zero_is_missing: true, literal }
}

/// Fills in what is missing.
pub(crate) fn fill(map: &mut Map, defaults: &[Default]) {
    for default in defaults {
        match map.get_mut(default.name) {
            None => map.push(Name::Static(default.name), default.literal.into()),
            Some(slot) if slot.is_null() || (default.zero_is_missing && is_zero(slot)) => {
                *slot = default.literal.into();
            }
            Some(_) => {}
        }
    }
}

/// The struct that a pointer of this name points to.
pub(crate) fn at<'m>(map: &'m mut Map, name: &str) -> Option<&'m mut Map> {
    map.get_mut(name)?.as_map_mut()
}

/// The struct held by value under this name, created if it is absent. Call it only if something will be filled in: `normalise`
/// might have dropped an empty one.
pub(crate) fn inside<'m>(map: &'m mut Map, name: &'static str) -> Option<&'m mut Map> {
    let slot = map.entry(Name::Static(name));
    if slot.is_null() {
        *slot = Value::map();
    }
    slot.as_map_mut()
}

/// Every struct of the list of this name.
pub(crate) fn each(map: &mut Map, name: &str, mut step: impl FnMut(&mut Map)) {
    if let Some(Value::List(items)) = map.get_mut(name) {
        items.iter_mut().filter_map(Value::as_map_mut).for_each(&mut step);
    }
}

/// The text of this name, empty when there is none.
pub(crate) fn text<'m>(map: &'m Map, name: &str) -> &'m str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Go's `!= nil`.
pub(crate) fn is_set(map: &Map, name: &str) -> bool {
    map.get(name).is_some_and(|value| !value.is_null())
}

/// Go's `len(..) == 0`, or a plain field's zero.
pub(crate) fn is_empty(map: &Map, name: &str) -> bool {
    match map.get(name) {
        Some(Value::Map(members)) => members.is_empty(),
        Some(value) => is_zero(value),
        None => true,
    }
}

/// Copies the entries of one map that another lacks, as `requests` default to `limits`.
pub(crate) fn copy_missing(parent: &mut Map, from: &str, into: &'static str) {
    copy_missing_if(parent, from, into, |_| true);
}

/// As [`copy_missing`], of the entries so named only.
pub(crate) fn copy_missing_if(parent: &mut Map, from: &str, into: &'static str, wanted: fn(&str) -> bool) {
    let Some(source) = parent.get(from).and_then(Value::as_map) else { return };
    let there = Index::of(parent.get(into));
    let missing: Vec<(Name, Value)> = source
        .iter()
        .filter(|(name, _)| wanted(name) && there.get(name).is_none())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if missing.is_empty() {
        return;
    }
    if let Some(target) = inside(parent, into) {
        // None of them is there, and the source names each once.
        for (name, value) in missing {
            target.push(name, value);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Int(number) => *number == 0,
        Value::Float(number) => *number == 0.0,
        Value::Str(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(_) | Value::Raw(_) => false,
    }
}
