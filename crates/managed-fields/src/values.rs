//! Equality and order of values as upstream has them: 1 and 1.0 are one value, and members have no order.

use std::cmp::Ordering;

use object::{Index, Map, Value, deep};

/// Whether two values are the same.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Float(f), Value::Int(i)) | (Value::Int(i), Value::Float(f)) => *f == *i as f64,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && deep(|| a.iter().zip(b).all(|(a, b)| equal(a, b)))
        }
        (Value::Map(a), Value::Map(b)) => a.len() == b.len() && deep(|| equal_maps(a, b)),
        _ => a == b,
    }
}

fn equal_maps(a: &Map, b: &Map) -> bool {
    // Canonical trees have their members in the same order.
    if a.iter().zip(b.iter()).all(|((name, _), (other, _))| name == other) {
        return a.iter().zip(b.iter()).all(|((_, a), (_, b))| equal(a, b));
    }
    let index = Index::of_map(b);
    a.iter().all(|(name, a)| index.get(name).is_some_and(|b| equal(a, b)))
}

/// The order of values, whatever their types: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Value::Float(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)).unwrap_or(Ordering::Equal),
        (Value::Int(a), Value::Float(b)) => (*a as f64).partial_cmp(b).unwrap_or(Ordering::Equal),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Str(a), Value::Str(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => deep(|| compare_lists(a, b)),
        (Value::Map(a), Value::Map(b)) => deep(|| compare_maps(a, b)),
        (Value::Raw(a), Value::Raw(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        // Two numbers are compared above, so that here any number is before anything else.
        Value::Float(_) | Value::Int(_) => 0,
        Value::Str(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) | Value::Raw(_) => 4,
        Value::Null => 5,
    }
}

fn compare_lists(a: &[Value], b: &[Value]) -> Ordering {
    let different = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| *order != Ordering::Equal);
    different.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn compare_maps(a: &Map, b: &Map) -> Ordering {
    let sorted = |map: &Map| {
        let mut names: Vec<_> = map.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let (names, others) = (sorted(a), sorted(b));
    for (name, other) in names.iter().zip(&others) {
        let order = name.cmp(other).then_with(|| match (a.get(name), b.get(name)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        });
        if order != Ordering::Equal {
            return order;
        }
    }
    names.len().cmp(&others.len())
}
