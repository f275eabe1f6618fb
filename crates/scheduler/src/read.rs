//! Reading members of a tree that may be absent.

use std::sync::Arc;

use object::Value;
use object::quantity::Quantity;

/// Labels, sorted by key.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

pub fn list<'a>(value: Option<&'a Value>, name: &str) -> &'a [Value] {
    value.and_then(|v| v.get(name)).and_then(Value::as_list).unwrap_or_default()
}

pub fn int(value: &Value, name: &str) -> Option<i64> {
    value.get(name).and_then(Value::as_int)
}

pub fn strings(value: &Value, name: &str) -> Vec<String> {
    list(Some(value), name).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The pairs of a map of strings, sorted by key.
pub fn pairs(value: Option<&Value>) -> Vec<(&str, &str)> {
    let map = value.and_then(Value::as_map);
    let mut pairs: Vec<(&str, &str)> =
        map.into_iter().flat_map(|m| m.iter()).filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect();
    pairs.sort_unstable();
    pairs
}

pub fn labels(value: Option<&Value>) -> Labels {
    pairs(value).into_iter().map(|(k, v)| (k.into(), v.into())).collect()
}

pub fn label<'a>(labels: &'a Labels, key: &str) -> Option<&'a str> {
    labels.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok().map(|at| labels[at].1.as_ref())
}

/// A resource list: names sorted, amounts in thousandths for cpu and whole units for all others.
pub fn amounts(value: Option<&Value>) -> Vec<(&str, i64)> {
    let map = value.and_then(Value::as_map);
    let mut amounts: Vec<(&str, i64)> = map
        .into_iter()
        .flat_map(|m| m.iter())
        .filter_map(|(name, amount)| Some((name.as_str(), quantity(name, amount)?)))
        .collect();
    amounts.sort_unstable();
    amounts
}

fn quantity(name: &str, amount: &Value) -> Option<i64> {
    let parsed = match amount {
        Value::Str(text) => Quantity::parse(text).ok()?,
        Value::Int(number) => Quantity::from_i64(*number, object::quantity::Format::DecimalSi),
        _ => return None,
    };
    Some(if name == "cpu" { parsed.as_milli() } else { parsed.as_i64() })
}
