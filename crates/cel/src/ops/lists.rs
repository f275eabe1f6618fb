//! Equality and concatenation of lists, which for lists of the object depend on `x-kubernetes-list-type`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::Name;
use object::Value;

use crate::error::Error;
use crate::escape::escape;
use crate::ops::{equal as equals, same};
use crate::schema::ListKind;
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
        }
        Some((_, ListKind::Atomic)) => {
            for (a, b) in left.iter().zip(right.iter()) {
                if !same(&a?, &b?)? {
                    return Ok(false);
                }
            }
        }
        Some((_, ListKind::Set)) => {
            let set = natives(left)?.into_iter().collect::<HashSet<_>>();
            for item in right.iter() {
                if !set.contains(&Native::of(&item?)?) {
                    return Ok(false);
                }
            }
        }
        Some((_, ListKind::Map(keys))) => {
            let keys = escaped(keys);
            let own = left.to_vec()?;
            // Of duplicate keys the last one counts.
            let by_key: HashMap<_, _> = own.iter().map(|item| (keys_of(item, &keys), item)).collect();
            for item in right.iter() {
                let item = item?;
                let twin = keys_of(&item, &keys).and_then(|keys| by_key.get(&Some(keys)));
                match twin {
                    Some(twin) if same(twin, &item)? => {}
                    _ => return Ok(false),
                }
            }
        }
    }
    Ok(true)
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
            let mut set = natives(left)?.into_iter().collect::<HashSet<_>>();
            for item in right.iter() {
                let item = item?;
                if set.insert(Native::of(&item)?) {
                    items.push(item);
                }
            }
        }
        ListKind::Map(keys) => {
            let keys = escaped(keys);
            let places: HashMap<_, _> =
                items.iter().enumerate().map(|(at, item)| (keys_of(item, &keys), at)).collect();
            for item in right.iter() {
                let item = item?;
                let place = keys_of(&item, &keys).and_then(|keys| places.get(&Some(keys)));
                match place {
                    Some(at) => items[*at] = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(List::Merged { items: Arc::new(items), schema })
}

/// A value as Go compares what it was decoded to.
#[derive(PartialEq, Eq, Hash)]
enum Native {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// Its bits, both zeros being one.
    Double(u64),
    Text(Box<str>),
    Duration(i64),
    Time(i64, u32),
    /// Equal to nothing else.
    Other(usize),
}

impl Native {
    fn of(item: &Val<'_>) -> Result<Native, Error> {
        let unhashable =
            |ty: &str| Err(Error::internal(format_args!("runtime error: hash of unhashable type {ty}")));
        Ok(match item {
            Val::Null => Native::Null,
            Val::Bool(b) => Native::Bool(*b),
            Val::Int(i) => Native::Int(*i),
            Val::Uint(u) => Native::Uint(*u),
            Val::Double(d) => Native::Double((d + 0.0).to_bits()),
            Val::Str(text) => Native::Text(Box::from(&**text)),
            Val::Duration(nanos) => Native::Duration(*nanos),
            Val::Timestamp(time) => Native::Time(time.seconds, time.nanos),
            // Go panics when a slice or a map is looked up in a map.
            Val::Map(Map::View { .. }) => return unhashable("map[string]interface {}"),
            Val::List(List::View { .. }) => return unhashable("[]interface {}"),
            Val::Map(_) => return unhashable("map[ref.Val]ref.Val"),
            Val::List(_) => return unhashable("[]ref.Val"),
            Val::Bytes(_) => return unhashable("[]uint8"),
            other => Native::Other(std::ptr::from_ref(other).addr()),
        })
    }
}

/// The elements of a set, without their schema.
fn natives(list: &List<'_>) -> Result<Vec<Native>, Error> {
    match list {
        List::View { items, .. } => items.iter().map(|item| Native::of(&Val::dynamic(item))).collect(),
        other => other.iter().map(|item| Native::of(&item?)).collect(),
    }
}

/// Upstream looks the keys up by their escaped names.
fn escaped(keys: &[Name]) -> Vec<String> {
    keys.iter().map(|key| escape(key).map_or_else(|| key.to_string(), |name| name.into_owned())).collect()
}

/// The values of an element's keys, what is absent being null. `None` for what is no object of the API.
fn keys_of(item: &Val<'_>, keys: &[String]) -> Option<Vec<Native>> {
    let Val::Map(Map::View { map, .. }) = item else { return None };
    keys.iter().map(|key| Native::of(&map.get(key).map_or(Val::Null, Val::dynamic)).ok()).collect()
}

/// Equality of data without a schema.
pub(super) fn deep_equal(a: &Value, b: &Value) -> bool {
    object::deep(|| match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| deep_equal(a, b))
        }
        (Value::Map(own), Value::Map(other)) => {
            let members = object::Index::of(Some(b));
            own.len() == other.len()
                && own.iter().all(|(name, a)| members.get(name).is_some_and(|b| deep_equal(a, b)))
        }
        (a, b) => a == b,
    })
}

/// Whether preserved data equals a value.
pub(super) fn native_equal(value: &Value, other: &Val<'_>) -> bool {
    match (value, other) {
        (_, Val::Preserved(other)) => deep_equal(value, other),
        (Value::Bool(a), Val::Bool(b)) => a == b,
        (Value::Int(a), Val::Int(b)) => a == b,
        (Value::Float(a), Val::Double(b)) => a == b,
        (Value::Str(a), Val::Str(b)) => **a == **b,
        (Value::List(a), Val::List(List::View { items, .. })) => {
            a.len() == items.len() && a.iter().zip(*items).all(|(a, b)| deep_equal(a, b))
        }
        (Value::Map(a), Val::Map(Map::View { map, .. })) => {
            let members = object::Index::of(Some(value));
            a.len() == map.len()
                && map.iter().all(|(name, b)| members.get(name).is_some_and(|a| deep_equal(a, b)))
        }
        _ => false,
    }
}
