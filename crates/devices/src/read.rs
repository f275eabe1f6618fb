//! Reading members of a tree that may be absent.

use std::sync::Arc;

use object::Value;
use object::quantity::{Format, Quantity};

pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

pub fn shared(value: &Value, name: &str) -> Arc<str> {
    text(value, name).into()
}

/// A text that is there and says something.
pub fn some_text(value: &Value, name: &str) -> Option<Arc<str>> {
    Some(text(value, name)).filter(|text| !text.is_empty()).map(Arc::from)
}

pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_list).unwrap_or_default()
}

pub fn int(value: &Value, name: &str) -> Option<i64> {
    value.get(name).and_then(Value::as_int)
}

pub fn flag(value: &Value, name: &str) -> Option<bool> {
    value.get(name).and_then(Value::as_bool)
}

pub fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|member| !member.is_null())
}

pub fn strings(value: &Value, name: &str) -> Vec<Arc<str>> {
    list(value, name).iter().filter_map(Value::as_str).map(Arc::from).collect()
}

/// What `read` makes of each member of a map, by name.
pub fn members<T>(map: Option<&Value>, read: impl Fn(&Value) -> T) -> Vec<(Arc<str>, T)> {
    let map = map.and_then(Value::as_map);
    let mut members: Vec<(Arc<str>, T)> =
        map.into_iter().flat_map(|m| m.iter()).map(|(name, v)| (Arc::from(name.as_str()), read(v))).collect();
    members.sort_by(|a, b| a.0.cmp(&b.0));
    members.dedup_by(|later, earlier| later.0 == earlier.0);
    members
}

/// A quantity. What is none was never stored, and counts as zero.
pub fn quantity(value: &Value) -> Quantity {
    match value {
        Value::Str(text) => Quantity::parse(text).unwrap_or(Quantity::ZERO),
        Value::Int(number) => Quantity::from_i64(*number, Format::DecimalSi),
        _ => Quantity::ZERO,
    }
}

/// The member of a sorted list of members.
pub fn find<'a, T>(members: &'a [(Arc<str>, T)], name: &str) -> Option<&'a T> {
    members.binary_search_by(|(own, _)| (**own).cmp(name)).ok().map(|at| &members[at].1)
}
