//! Comprehensions with two variables: what their macros call.

use std::sync::Arc;

use super::Library;
use crate::environment::Feature;
use crate::error::Error;
use crate::function::{Function, Overload};
use crate::types::Type;
use crate::value::{Map, OwnedMap, Val};

pub fn library() -> Library {
    let key = || Type::param("K");
    let value = || Type::param("V");
    let map = || Type::map(key(), value());
    let functions = vec![Function::new(
        "cel.@mapInsert",
        [
            Overload::global("@mapInsert_map_key_value", [map(), key(), value()], map(), |args| {
                insert(&args[0], [(args[1].clone(), args[2].clone())])
            }),
            Overload::global("@mapInsert_map_map", [map(), map()], map(), |args| {
                let update = args[1].as_map().ok_or_else(Error::no_such_overload)?;
                let entries = update.entries().into_iter().map(|(key, value)| Ok((key, value?)));
                insert(&args[0], entries.collect::<Result<Vec<_>, Error>>()?)
            }),
        ],
    )];
    Library { functions, features: vec![Feature::TwoVariableComprehensions], ..Library::default() }
}

fn insert<'a>(
    map: &Val<'a>,
    entries: impl IntoIterator<Item = (Val<'a>, Val<'a>)>,
) -> Result<Val<'a>, Error> {
    let mut own = match map.as_map() {
        Some(Map::Owned(map)) => Arc::clone(map),
        Some(other) => {
            let entries = other.entries().into_iter().map(|(key, value)| Ok((key, value?)));
            Arc::new(entries.collect::<Result<OwnedMap<'a>, Error>>()?)
        }
        None => return Err(Error::no_such_overload()),
    };
    for (key, value) in entries {
        if own.get(&key).is_some() {
            return Err(Error::new(format!("insert failed: key {key} already exists")));
        }
        Arc::make_mut(&mut own).insert(key, value);
    }
    Ok(Val::Map(Map::Owned(own)))
}
