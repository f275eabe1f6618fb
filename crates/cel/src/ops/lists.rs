//! Equality and concatenation of lists, which for lists of the object depend on `x-kubernetes-list-type`.

use std::sync::Arc;

use catalog::Name;
use object::Value;

use crate::error::Error;
use crate::escape::escape;
use crate::ops::{equal as equals, same};
use crate::schema::{ListKind, Schema};
use crate::value::{List, Map, Val};

pub(super) fn equal(left: &List<'_>, right: &List<'_>) -> Result<bool, Error> {
    if left.len() != right.len() {
        return Ok(false);
    }
    match left.kind() {
        None => {
            for (a, b) in left.iter().zip(right.iter()) {
                // Only a plain "no" counts here: upstream goes on after an error.
                if let (Ok(a), Ok(b)) = (a, b)
                    && let Ok(false) = equals(&a, &b)
                {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Some((_, ListKind::Atomic)) => {
            for (a, b) in left.iter().zip(right.iter()) {
                if !same(&a?, &b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Some((_, ListKind::Set)) => {
            let set = Natives::of(left)?;
            for item in right.iter() {
                if !set.contains(&item?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Some((_, ListKind::Map(keys))) => {
            let keys = escaped(keys);
            let own: Vec<Val<'_>> = left.to_vec()?;
            for item in right.iter() {
                let item = item?;
                // Of duplicate keys the last one counts.
                let twin = own.iter().rev().find(|own| same_keys(own, &item, &keys));
                match twin {
                    Some(twin) if same(twin, &item)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
    }
}

/// `+`.
pub fn concat<'a>(left: &List<'a>, right: &List<'a>) -> Result<List<'a>, Error> {
    let Some((schema, kind)) = left.kind() else {
        if left.is_empty() {
            return Ok(right.clone());
        }
        if right.is_empty() {
            return Ok(left.clone());
        }
        let mut items = left.to_vec()?;
        items.extend(right.to_vec()?);
        return Ok(List::Owned(Arc::new(items)));
    };
    let mut items = left.to_vec()?;
    match kind {
        ListKind::Atomic => items.extend(right.to_vec()?),
        ListKind::Set => {
            let mut set = Natives::of(left)?;
            for item in right.iter() {
                let item = item?;
                if !set.contains(&item)? {
                    set.0.push(item.clone());
                    items.push(item);
                }
            }
        }
        ListKind::Map(keys) => {
            let keys = escaped(keys);
            let own = items.len();
            for item in right.iter() {
                let item = item?;
                match items[..own].iter().rposition(|own| same_keys(own, &item, &keys)) {
                    Some(at) => items[at] = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(merged(items, schema))
}

fn merged<'a>(items: Vec<Val<'a>>, schema: &'a dyn Schema) -> List<'a> {
    List::Merged { items: Arc::new(items), schema }
}

/// The elements of a set, compared as Go compares what they were decoded to.
struct Natives<'a>(Vec<Val<'a>>);

impl<'a> Natives<'a> {
    fn of(list: &List<'a>) -> Result<Natives<'a>, Error> {
        let raw = match list {
            List::View { items, .. } => items.iter().map(Val::dynamic).collect(),
            other => other.to_vec()?,
        };
        raw.iter().try_for_each(hashable)?;
        Ok(Natives(raw))
    }
    fn contains(&self, item: &Val<'_>) -> Result<bool, Error> {
        hashable(item)?;
        Ok(self.0.iter().any(|own| super::same_key(own, item)))
    }
}

/// Go panics when a slice or a map is looked up in a map.
fn hashable(item: &Val<'_>) -> Result<(), Error> {
    let unhashable =
        |ty: &str| Err(Error::internal(format_args!("runtime error: hash of unhashable type {ty}")));
    match item {
        Val::Map(Map::View { .. }) => unhashable("map[string]interface {}"),
        Val::List(List::View { .. }) => unhashable("[]interface {}"),
        Val::Map(_) => unhashable("map[ref.Val]ref.Val"),
        Val::List(_) => unhashable("[]ref.Val"),
        Val::Bytes(_) => unhashable("[]uint8"),
        _ => Ok(()),
    }
}

/// Upstream looks the keys up by their escaped names.
fn escaped(keys: &[Name]) -> Vec<String> {
    keys.iter().map(|key| escape(key).map_or_else(|| key.to_string(), |name| name.into_owned())).collect()
}

fn same_keys(a: &Val<'_>, b: &Val<'_>, keys: &[String]) -> bool {
    let (Val::Map(Map::View { map: a, .. }), Val::Map(Map::View { map: b, .. })) = (a, b) else {
        return false;
    };
    keys.iter().all(|key| match (a.get(key), b.get(key)) {
        (Some(a), Some(b)) => deep_equal(a, b),
        (None, None) => true,
        (Some(value), None) | (None, Some(value)) => value.is_null(),
    })
}

/// Equality of data without a schema: empty and absent are one in Go's semantic equality.
pub(super) fn deep_equal(a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    };
    object::deep(|| match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| deep_equal(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| deep_equal(a, b)))
        }
        (Value::Null, other) | (other, Value::Null) => other.is_null() || (empty(other) && false),
        (a, b) => a == b,
    })
}

/// Whether preserved data equals a value.
pub(super) fn native_equal(value: &Value, other: &Val<'_>) -> bool {
    match (value, other) {
        (_, Val::Preserved(other)) => deep_equal(value, other),
        (Value::Null, Val::Null) => false,
        (Value::Bool(a), Val::Bool(b)) => a == b,
        (Value::Int(a), Val::Int(b)) => a == b,
        (Value::Float(a), Val::Double(b)) => a == b,
        (Value::Str(a), Val::Str(b)) => **a == **b,
        (Value::List(a), Val::List(List::View { items, .. })) => {
            a.len() == items.len() && a.iter().zip(*items).all(|(a, b)| deep_equal(a, b))
        }
        (Value::Map(a), Val::Map(Map::View { map, .. })) => {
            a.len() == map.len() && a.iter().all(|(name, a)| map.get(name).is_some_and(|b| deep_equal(a, b)))
        }
        _ => false,
    }
}
