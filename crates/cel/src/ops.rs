//! What operators do to values: equality, membership, order, arithmetic, conversion.

mod arithmetic;
mod convert;
mod lists;

pub use arithmetic::{add, compare, divide, modulo, multiply, negate, subtract};
pub use convert::{convert, go_parse_float};
pub use lists::concat;

use std::collections::HashMap;

use crate::error::Error;
use crate::schema::Schema;
use crate::value::{List, Map, Object, Val, member, member_name};

/// `==`.
pub fn equal(left: &Val<'_>, right: &Val<'_>) -> Result<bool, Error> {
    match (left, right) {
        (Val::Null, Val::Null) => Ok(true),
        (Val::Null, _) | (_, Val::Null) => Ok(false),
        _ => same(left, right),
    }
}

/// Equality as a value's own type defines it, which for null differs from `==`'s only in what a view answers.
pub(crate) fn same(left: &Val<'_>, right: &Val<'_>) -> Result<bool, Error> {
    match (left, right) {
        (Val::Null, other) => Ok(matches!(other, Val::Null)),
        (Val::Bool(a), Val::Bool(b)) => Ok(a == b),
        (Val::Str(a), Val::Str(b)) => Ok(a == b),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(a == b),
        (Val::Duration(a), Val::Duration(b)) => Ok(a == b),
        (Val::Timestamp(a), Val::Timestamp(b)) => Ok(a == b),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            Ok(arithmetic::compare_numbers(left, right).is_some_and(|order| order.is_eq()))
        }
        (Val::Type(a), Val::Type(b)) => Ok(a.name() == b.name()),
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => same(a, b),
            (a, b) => Ok(a.is_none() && b.is_none()),
        },
        (Val::Opaque(value), other) => value.equal(other),
        (Val::Preserved(value), other) => Ok(lists::native_equal(value, other)),
        (Val::Object(a), Val::Object(b)) => object::deep(|| object_equal(a, b)),
        (Val::List(a), Val::List(b)) => object::deep(|| lists::equal(a, b)),
        (Val::Map(a), Val::Map(b)) => object::deep(|| map_equal(a, b)),
        // A view refuses what is not of its kind; values of the expression are just different.
        (Val::List(list), _) if list.kind().is_some() => Err(Error::no_such_overload()),
        (Val::Map(Map::View { schema: Some(_), .. }), _) => Err(Error::no_such_overload()),
        _ => Ok(false),
    }
}

/// The same type and fields.
fn object_equal(left: &Object<'_>, right: &Object<'_>) -> Result<bool, Error> {
    if left.name != right.name || left.fields.len() != right.fields.len() {
        return Ok(false);
    }
    for (name, value) in &left.fields {
        let Some((_, other)) = right.fields.iter().find(|(own, _)| own == name) else { return Ok(false) };
        if !equal(value, other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn map_equal(left: &Map<'_>, right: &Map<'_>) -> Result<bool, Error> {
    if left.len() != right.len() {
        return Ok(false);
    }
    if let Map::View { map, schema: Some(schema) } = left {
        return view_equal(map, *schema, right);
    }
    let right = Lookup::of(right);
    for (key, value) in left.entries() {
        let Some(other) = right.find(&key) else { return Ok(false) };
        // Only a plain "no" counts here: upstream goes on after an error.
        match (value, other) {
            (Ok(value), Ok(other)) => {
                if let Ok(false) = equal(&value, &other) {
                    return Ok(false);
                }
            }
            (Ok(_), Err(_)) => return Ok(false),
            (Err(_), _) => {}
        }
    }
    Ok(true)
}

/// Equality of a view with a schema, which also sees members without one.
fn view_equal(map: &object::Map, schema: &dyn Schema, right: &Map<'_>) -> Result<bool, Error> {
    let lookup = Lookup::of(right);
    for (name, value) in map.iter() {
        if schema.member(name).is_some() {
            // Upstream looks for both by this name, as if it were an escaped one.
            let key = Val::from(name.as_str());
            let own = match member_name(Some(schema), &key) {
                Some(Ok(own)) if *own == **name => member(value, Some(schema), name),
                Some(Ok(own)) => map.get(&own).and_then(|value| member(value, Some(schema), &own)),
                _ => None,
            };
            match (own, lookup.find(&key)) {
                (None, None) => {}
                (Some(a), Some(b)) => {
                    if !same(&a?, &b?)? {
                        return Ok(false);
                    }
                }
                _ => return Ok(false),
            }
        } else {
            // A member without a schema is compared as it is, if the other side has it.
            if !matches!(right, Map::View { schema: Some(_), .. }) {
                return Err(Error::no_such_overload());
            }
            if lookup.raw(name).is_some_and(|other| !lists::deep_equal(value, other)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// More members are indexed before many are looked up.
pub(crate) const MANY: usize = 32;

/// A map to look many keys up in.
struct Lookup<'m, 'a> {
    map: &'m Map<'a>,
    index: Option<HashMap<&'a str, &'a object::Value>>,
}

impl<'m, 'a> Lookup<'m, 'a> {
    fn of(map: &'m Map<'a>) -> Lookup<'m, 'a> {
        let index = match map {
            Map::View { map, .. } if map.len() > MANY => {
                Some(map.iter().map(|(name, value)| (name.as_str(), value)).collect())
            }
            _ => None,
        };
        Lookup { map, index }
    }
    fn raw(&self, name: &str) -> Option<&'a object::Value> {
        match (&self.index, self.map) {
            (Some(index), _) => index.get(name).copied(),
            (None, Map::View { map, .. }) => map.get(name),
            _ => None,
        }
    }
    fn find(&self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
        match (&self.index, self.map) {
            (Some(_), Map::View { schema, .. }) => match member_name(*schema, key)? {
                Ok(name) => member(self.raw(&name)?, *schema, &name),
                Err(error) => Some(Err(error)),
            },
            _ => self.map.find(key),
        }
    }
}

/// `in`.
pub fn contains(container: &Val<'_>, item: &Val<'_>) -> Result<bool, Error> {
    match container {
        Val::List(list) if list.kind().is_some() => {
            let mut failure = None;
            for element in list.iter() {
                match element.and_then(|element| same(&element, item)) {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            failure.map_or(Ok(false), Err)
        }
        Val::List(list) => Ok(list
            .iter()
            .any(|element| element.is_ok_and(|element| matches!(same(item, &element), Ok(true))))),
        Val::Map(map @ Map::View { schema: Some(_), .. }) => {
            map.find(item).transpose().map(|found| found.is_some())
        }
        Val::Map(Map::Custom(map)) => map.contains(item),
        Val::Map(map) => match map.find(item) {
            Some(Err(error)) if error.is_fatal() => Err(error),
            found => Ok(found.is_some()),
        },
        _ => Err(Error::no_such_overload()),
    }
}

/// Whether a map of the expression treats both as one key: same type, same value.
pub(crate) fn same_key(a: &Val<'_>, b: &Val<'_>) -> bool {
    match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Int(a), Val::Int(b)) => a == b,
        (Val::Uint(a), Val::Uint(b)) => a == b,
        (Val::Double(a), Val::Double(b)) => a == b,
        (Val::Str(a), Val::Str(b)) => a == b,
        (Val::Null, Val::Null) => true,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Timestamp(a), Val::Timestamp(b)) => a == b,
        _ => false,
    }
}

/// The integer a double stands for exactly.
pub(crate) fn lossless_int(d: f64) -> Option<i64> {
    let i = convert::double_to_int(d)?;
    (i as f64 == d).then_some(i)
}
pub(crate) fn lossless_uint(d: f64) -> Option<u64> {
    let u = convert::double_to_uint(d)?;
    (u as f64 == d).then_some(u)
}

/// The position an index value stands for in a list.
pub(crate) fn list_index(index: &Val<'_>) -> Result<i64, Error> {
    let unsupported = || Err(Error::new(format!("unsupported index value {index} in list")));
    match index {
        Val::Int(i) => Ok(*i),
        Val::Double(d) => lossless_int(*d).map_or_else(unsupported, Ok),
        Val::Uint(u) => i64::try_from(*u).map_or_else(|_| unsupported(), Ok),
        other => Err(Error::new(format!("unsupported index type '{}' in list", other.ty()))),
    }
}

/// A member of a map, an element of a list: what `[]` and `.` read. `None`: there is no such key or element.
pub(crate) fn select<'a>(operand: &Val<'a>, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
    match operand {
        Val::Map(map) => map.find(key),
        Val::List(list) => match list_index(key) {
            Err(error) => Some(Err(error)),
            Ok(index) => {
                let found = usize::try_from(index).ok().and_then(|index| list.get(index))?;
                match (list, key) {
                    // A view takes integers only, although it checks the bounds for any number before.
                    (
                        List::View { schema: Some(_), .. } | List::Merged { .. },
                        Val::Double(_) | Val::Uint(_),
                    ) => Some(Err(Error::new(format!("unsupported index: {key}")))),
                    _ => Some(found),
                }
            }
        },
        _ => None,
    }
}
