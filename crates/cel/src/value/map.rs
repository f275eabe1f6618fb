//! Maps: of the expression, of the object, and of whoever computes members on demand.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::escape::{escape, unescape};
use crate::schema::{Schema, Shape};
use crate::value::Val;

#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Made by the expression.
    Owned(Arc<OwnedMap<'a>>),
    /// A map or object of the object. Without a schema its members are what JSON makes of them.
    View { map: &'a object::Map, schema: Option<&'a dyn Schema> },
    /// Members on demand.
    Custom(&'a dyn Mapper),
}

/// A map whose members are computed when they are read: lazily evaluated variables, maps with defaults.
pub trait Mapper: Sync + fmt::Debug {
    fn find<'a>(&'a self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>>;
    /// `in`: not for keys that are found by default only.
    fn contains(&self, key: &Val<'_>) -> Result<bool, Error> {
        match self.find(key) {
            Some(Err(error)) if error.is_fatal() => Err(error),
            found => Ok(found.is_some()),
        }
    }
    fn keys<'a>(&'a self) -> Vec<Val<'a>>;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Owned(map) => map.entries.len(),
            Map::View { map, .. } => map.len(),
            Map::Custom(map) => map.len(),
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A member, numbers of other types finding an equal key. Fails if the key cannot be one, or the member does not fit its schema.
    pub fn find(&self, key: &Val<'_>) -> Option<Result<Val<'a>, Error>> {
        match self {
            Map::Owned(map) => match key {
                Val::Bytes(_) if !map.entries.is_empty() => Some(Err(unhashable())),
                key => map.get(key).cloned().map(Ok),
            },
            Map::Custom(map) => map.find(key),
            Map::View { map, schema } => match member_name(*schema, key)? {
                Ok(name) => member(map.get(&name)?, *schema, &name),
                Err(error) => Some(Err(error)),
            },
        }
    }
    /// Keys and values, in the order of the entries.
    pub fn entries(&self) -> Vec<(Val<'a>, Result<Val<'a>, Error>)> {
        match self {
            Map::Owned(map) => {
                map.entries.iter().map(|(key, value)| (key.clone(), Ok(value.clone()))).collect()
            }
            Map::View { map, schema } => map
                .iter()
                .filter_map(|(name, value)| Some((view_key(name, *schema)?, member(value, *schema, name)?)))
                .collect(),
            Map::Custom(map) => {
                map.keys().into_iter().filter_map(|key| Some((key.clone(), map.find(&key)?))).collect()
            }
        }
    }
    /// The keys, in the order of the entries.
    pub fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Map::Owned(map) => map.entries.iter().map(|(key, _)| key.clone()).collect(),
            Map::View { map, schema } => map.iter().filter_map(|(name, _)| view_key(name, *schema)).collect(),
            Map::Custom(map) => map.keys(),
        }
    }
    /// The first entry that fits its schema.
    pub(crate) fn first(&self) -> Option<(Val<'a>, Val<'a>)> {
        match self {
            Map::Owned(map) => map.entries.first().cloned(),
            Map::View { map, schema } => map.iter().find_map(|(name, value)| {
                Some((view_key(name, *schema)?, member(value, *schema, name)?.ok()?))
            }),
            Map::Custom(_) => self.entries().into_iter().find_map(|(key, value)| Some((key, value.ok()?))),
        }
    }
}

/// The name of the member a key of a view stands for; `None` if it stands for none.
pub(crate) fn member_name<'k>(
    schema: Option<&dyn Schema>,
    key: &'k Val<'_>,
) -> Option<Result<Cow<'k, str>, Error>> {
    match (schema, key.as_str()) {
        (None, key) => key.map(|key| Ok(Cow::Borrowed(key))),
        (Some(_), None) => Some(Err(Error::no_such_overload())),
        (Some(schema), Some(key)) if matches!(schema.shape(), Shape::Object) => unescape(key).map(Ok),
        (Some(_), Some(key)) => Some(Ok(Cow::Borrowed(key))),
    }
}

/// The value of a member of a view. A null field of an object is absent, and so is one without a schema.
pub(crate) fn member<'a>(
    value: &'a object::Value,
    schema: Option<&'a dyn Schema>,
    name: &str,
) -> Option<Result<Val<'a>, Error>> {
    let Some(schema) = schema else { return Some(Ok(Val::dynamic(value))) };
    if value.is_null() && matches!(schema.shape(), Shape::Object) {
        return None;
    }
    Some(Val::view(value, schema.member(name)?))
}

/// What a member of a view is called; `None` for one without a schema.
fn view_key<'a>(name: &'a str, schema: Option<&dyn Schema>) -> Option<Val<'a>> {
    let Some(schema) = schema else { return Some(Val::from(name)) };
    schema.member(name)?;
    Some(match escape(name) {
        Some(Cow::Owned(escaped)) if matches!(schema.shape(), Shape::Object) => Val::string(escaped),
        _ => Val::from(name),
    })
}

/// What Go says of bytes as a key.
pub(crate) fn unhashable() -> Error {
    Error::internal("runtime error: hash of unhashable type types.Bytes")
}

/// Entries in the order they were made, with an index once there are many.
#[derive(Clone, Debug, Default)]
pub struct OwnedMap<'a> {
    pub(crate) entries: Vec<(Val<'a>, Val<'a>)>,
    texts: HashMap<Box<str>, usize>,
    numbers: HashMap<Number, usize>,
}

/// Fewer entries are found faster by a scan.
const FEW: usize = 8;

/// A key that is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Number {
    Bool(bool),
    Int(i64),
    Uint(u64),
}

impl Number {
    fn of(value: &Val<'_>) -> Option<Number> {
        match value {
            Val::Bool(b) => Some(Number::Bool(*b)),
            Val::Int(i) => Some(Number::Int(*i)),
            Val::Uint(u) => Some(Number::Uint(*u)),
            _ => None,
        }
    }
}

impl<'a> OwnedMap<'a> {
    pub fn get(&self, key: &Val<'_>) -> Option<&Val<'a>> {
        let exact = self.position(key);
        let at = exact.or_else(|| match key {
            Val::Double(d) => {
                let as_int = crate::ops::lossless_int(*d).and_then(|i| self.position(&Val::Int(i)));
                as_int.or_else(|| crate::ops::lossless_uint(*d).and_then(|u| self.position(&Val::Uint(u))))
            }
            Val::Int(i) => self.position(&Val::Uint(u64::try_from(*i).ok()?)),
            Val::Uint(u) => self.position(&Val::Int(i64::try_from(*u).ok()?)),
            _ => None,
        })?;
        Some(&self.entries[at].1)
    }
    fn position(&self, key: &Val<'_>) -> Option<usize> {
        if self.entries.len() > FEW {
            if let Some(text) = key.as_str() {
                return self.texts.get(text).copied();
            }
            if let Some(number) = Number::of(key) {
                return self.numbers.get(&number).copied();
            }
        }
        self.entries.iter().position(|(own, _)| crate::ops::same_key(own, key))
    }
    /// Adds an entry, or replaces the value of that very key.
    pub fn insert(&mut self, key: Val<'a>, value: Val<'a>) {
        if let Some(at) = self.position(&key) {
            self.entries[at].1 = value;
            return;
        }
        self.entries.push((key, value));
        let count = self.entries.len();
        if count > FEW {
            let unindexed = if count == FEW + 1 { 0 } else { count - 1 };
            (unindexed..count).for_each(|at| self.index(at));
        }
    }
    fn index(&mut self, at: usize) {
        let key = &self.entries[at].0;
        if let Some(text) = key.as_str() {
            self.texts.insert(Box::from(text), at);
        } else if let Some(number) = Number::of(key) {
            self.numbers.insert(number, at);
        }
    }
    pub(crate) fn remove(&mut self, key: &Val<'_>) {
        if self.position(key).is_some() {
            let entries = std::mem::take(self).entries;
            *self = entries.into_iter().filter(|(own, _)| !crate::ops::same_key(own, key)).collect();
        }
    }
}

impl<'a> FromIterator<(Val<'a>, Val<'a>)> for OwnedMap<'a> {
    fn from_iter<I: IntoIterator<Item = (Val<'a>, Val<'a>)>>(entries: I) -> Self {
        let mut map = OwnedMap::default();
        entries.into_iter().for_each(|(key, value)| map.insert(key, value));
        map
    }
}
impl<'a> From<OwnedMap<'a>> for Val<'a> {
    fn from(map: OwnedMap<'a>) -> Self {
        Val::Map(Map::Owned(Arc::new(map)))
    }
}
