//! Equality that does not see what encoding would not show: order of members, nulls, empty lists and maps.

use object::{Map, Value, deep};

/// Upstream's "semantic" equality of two members that may be absent.
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    // Two maps tell by their members; to look first whether there are any would visit every level once for each above it.
    if let (Some(Value::Map(a)), Some(Value::Map(b))) = (a, b) {
        return deep(|| same_maps(a, b, &[]));
    }
    match (present(a), present(b)) {
        (None, None) => true,
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.len() == b.len() && deep(|| a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b))))
        }
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Whether both trees have members of these names in the same places, be they empty. For pointers, whose presence says
/// something.
pub fn hold_alike(a: &Value, b: &Value, names: &[&str]) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            let has = |map: &Map, name: &str| map.get(name).is_some_and(|value| !value.is_null());
            names.iter().all(|name| has(a, name) == has(b, name))
                && deep(|| a.iter().all(|(name, a)| b.get(name).is_none_or(|b| hold_alike(a, b, names))))
        }
        (Value::List(a), Value::List(b)) => deep(|| a.iter().zip(b).all(|(a, b)| hold_alike(a, b, names))),
        _ => true,
    }
}

/// As [`same`] on two objects, without these members at the top.
pub(crate) fn same_but(a: &Value, b: &Value, without: &[&str]) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => same_maps(a, b, without),
        _ => a == b,
    }
}

fn same_maps(a: &Map, b: &Map, without: &[&str]) -> bool {
    // Canonical trees have the same members in the same order: then one walk is enough.
    if a.len() == b.len() && a.iter().zip(b.iter()).all(|((n, _), (m, _))| n == m) {
        return a
            .iter()
            .zip(b.iter())
            .all(|((n, v), (_, w))| without.contains(&&**n) || same(Some(v), Some(w)));
    }
    let counted =
        |m: &Map| m.iter().filter(|(n, v)| !without.contains(&&***n) && present(Some(v)).is_some()).count();
    counted(a) == counted(b)
        && a.iter()
            .all(|(n, v)| without.contains(&&**n) || present(Some(v)).is_none() || same(Some(v), b.get(n)))
}

/// `None` for what Go would leave out or write as null. A map whose members are all absent counts as one:
/// the struct held by value that one side did not write.
fn present(value: Option<&Value>) -> Option<&Value> {
    match value? {
        Value::Null => None,
        Value::List(l) if l.is_empty() => None,
        Value::Map(m) if deep(|| m.iter().all(|(_, v)| present(Some(v)).is_none())) => None,
        value => Some(value),
    }
}
