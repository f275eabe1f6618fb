//! Members of a schema's JSON.

use object::Value;

/// A member that is there and not null.
pub(crate) fn member<'v>(of: &'v Value, name: &str) -> Option<&'v Value> {
    of.get(name).filter(|v| !v.is_null())
}

/// A text; empty when absent.
pub(crate) fn text<'v>(of: &'v Value, name: &str) -> &'v str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A boolean; false when absent.
pub(crate) fn flag(of: &Value, name: &str) -> bool {
    of.get(name).and_then(Value::as_bool) == Some(true)
}

pub(crate) fn items<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of.get(name).and_then(Value::as_list).unwrap_or_default()
}

/// The texts of a list.
pub(crate) fn texts<'v>(of: &'v Value, name: &str) -> impl Iterator<Item = &'v str> {
    items(of, name).iter().map(|v| v.as_str().unwrap_or_default())
}

/// The entries of a map.
pub(crate) fn entries<'v>(of: &'v Value, name: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    of.get(name).and_then(Value::as_map).into_iter().flat_map(|m| m.iter()).map(|(k, v)| (&**k, v))
}
