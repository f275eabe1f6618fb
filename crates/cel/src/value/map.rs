//! Maps: of the expression, of the object, and of whoever computes members on demand.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::Error;
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
            Map::View { map, schema: None } => map.get(key.as_str()?).map(|value| Ok(Val::dynamic(value))),
            Map::View { map, schema: Some(schema) } => {
                let Some(key) = key.as_str() else { return Some(Err(Error::no_such_overload())) };
                if matches!(schema.shape(), Shape::Object) {
                    member(map, *schema, &crate::escape::unescape(key)?)
                } else {
                    member(map, *schema, key)
                }
            }
        }
    }
    /// A member by a name that needs no unescaping any more.
    pub(crate) fn find_unescaped(&self, name: &str) -> Option<Result<Val<'a>, Error>> {
        match self {
            Map::View { map, schema: Some(schema) } => member(map, *schema, name),
            _ => self.find(&Val::from(name)),
        }
    }
    /// The keys, in the order of the entries.
    pub fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Map::Owned(map) => map.entries.iter().map(|(key, _)| key.clone()).collect(),
            Map::Custom(map) => map.keys(),
            Map::View { map, schema: None } => map.iter().map(|(name, _)| Val::from(name.as_str())).collect(),
            Map::View { map, schema: Some(schema) } => {
                let is_object = matches!(schema.shape(), Shape::Object);
                map.iter()
                    .filter(|(name, _)| schema.member(name).is_some())
                    .map(|(name, _)| match crate::escape::escape(name) {
                        Some(escaped) if is_object && escaped != name.as_str() => Val::string(&*escaped),
                        _ => Val::from(name.as_str()),
                    })
                    .collect()
            }
        }
    }
    /// Keys and values, in the order of the entries.
    pub fn entries(&self) -> Vec<(Val<'a>, Result<Val<'a>, Error>)> {
        if let Map::Owned(map) = self {
            return map.entries.iter().map(|(key, value)| (key.clone(), Ok(value.clone()))).collect();
        }
        self.keys()
            .into_iter()
            .filter_map(|key| {
                let value = self.find(&key)?;
                Some((key, value))
            })
            .collect()
    }
}

fn member<'a>(map: &'a object::Map, schema: &'a dyn Schema, name: &str) -> Option<Result<Val<'a>, Error>> {
    let value = map.get(name)?;
    if value.is_null() && matches!(schema.shape(), Shape::Object) {
        return None;
    }
    Some(Val::view(value, schema.member(name)?))
}

/// What Go says of bytes as a key.
pub(crate) fn unhashable() -> Error {
    Error::internal("runtime error: hash of unhashable type types.Bytes")
}

/// Entries in the order they were made, with an index once there are many.
#[derive(Clone, Debug, Default)]
pub struct OwnedMap<'a> {
    pub(crate) entries: Vec<(Val<'a>, Val<'a>)>,
    index: HashMap<Key, usize>,
}

/// Fewer entries are found faster by a scan.
const FEW: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Str(Arc<str>),
}

impl Key {
    fn of(value: &Val<'_>) -> Option<Key> {
        Some(match value {
            Val::Bool(b) => Key::Bool(*b),
            Val::Int(i) => Key::Int(*i),
            Val::Uint(u) => Key::Uint(*u),
            Val::Str(text) => Key::Str(Arc::from(&**text)),
            _ => return None,
        })
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
        if self.entries.len() > FEW
            && let Some(key) = Key::of(key)
        {
            return self.index.get(&key).copied();
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
        let added = if self.entries.len() == FEW + 1 { 0 } else { self.entries.len() - 1 };
        if self.entries.len() > FEW {
            for at in added..self.entries.len() {
                if let Some(key) = Key::of(&self.entries[at].0) {
                    self.index.insert(key, at);
                }
            }
        }
    }
    pub(crate) fn remove(&mut self, key: &Val<'_>) {
        let kept: Vec<_> =
            self.entries.drain(..).filter(|(own, _)| !crate::ops::same_key(own, key)).collect();
        self.index.clear();
        kept.into_iter().for_each(|(key, value)| self.insert(key, value));
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
