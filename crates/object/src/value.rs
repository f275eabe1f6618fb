//! The tree: the only mutable in-memory form of an object.
//!
//! A write parses its body once into a [`Value`], modifies it, and encodes it once. Reads never use one.

use std::fmt;

use catalog::Name;

use crate::deep::{deep, has_room};

/// A JSON value. Integers and floats are separate, because `1` and `1.0` differ in Kubernetes.
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    List(Vec<Value>),
    Map(Map),
    /// A map that nobody has looked into: its JSON, as the writer would write it. Only `fieldsV1` of objects read from the store or
    /// about to be written there; `codec::json::expanded` makes a map of it.
    Raw(Box<str>),
}

/// An ordered list of entries. Directly after parsing it may contain duplicate names (the decoder reports
/// them); after `normalise` names are unique, structs in declaration order, maps sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    entries: Vec<(Name, Value)>,
}

impl Value {
    pub fn map() -> Value {
        Value::Map(Map::default())
    }
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(l) => Some(l),
            _ => None,
        }
    }
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
    /// What JSON calls the value, in Go's words: "null", "bool", "number", "string", "array", "object".
    pub fn json_type(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::Str(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) | Value::Raw(_) => "object",
        }
    }
    /// A member of a map; `None` for anything else.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_map()?.get(name)
    }
    /// A value deep inside: `v.at(&["metadata", "labels"])`.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |v, name| v.get(name))
    }
    pub fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }
    /// The map at `path`, made on the way where absent or not a map.
    pub fn map_at(&mut self, path: &[&'static str]) -> &mut Map {
        let mut here = self;
        for name in path {
            here = here.make_map().entry(Name::Static(name));
        }
        here.make_map()
    }
    /// Whether it has members or elements.
    fn is_full(&self) -> bool {
        match self {
            Value::List(list) => !list.is_empty(),
            Value::Map(map) => !map.is_empty(),
            _ => false,
        }
    }
    /// This value as a map; replaced by an empty one when it is something else.
    pub fn make_map(&mut self) -> &mut Map {
        if !matches!(self, Value::Map(_)) {
            *self = Value::map();
        }
        match self {
            Value::Map(m) => m,
            _ => unreachable!("made a map above"),
        }
    }
}

impl Clone for Value {
    fn clone(&self) -> Value {
        match self {
            Value::Null => Value::Null,
            Value::Bool(b) => Value::Bool(*b),
            Value::Int(i) => Value::Int(*i),
            Value::Float(f) => Value::Float(*f),
            Value::Str(s) => Value::Str(s.clone()),
            Value::List(list) => deep(|| Value::List(list.clone())),
            Value::Map(map) => deep(|| Value::Map(map.clone())),
            Value::Raw(text) => Value::Raw(text.clone()),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::List(a), Value::List(b)) => deep(|| a == b),
            (Value::Map(a), Value::Map(b)) => deep(|| a == b),
            (Value::Raw(a), Value::Raw(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("Null"),
            Value::Bool(b) => f.debug_tuple("Bool").field(b).finish(),
            Value::Int(i) => f.debug_tuple("Int").field(i).finish(),
            Value::Float(n) => f.debug_tuple("Float").field(n).finish(),
            Value::Str(s) => f.debug_tuple("Str").field(s).finish(),
            Value::List(list) => deep(|| f.debug_tuple("List").field(list).finish()),
            Value::Map(map) => deep(|| f.debug_tuple("Map").field(map).finish()),
            Value::Raw(text) => f.debug_tuple("Raw").field(text).finish(),
        }
    }
}

impl Drop for Map {
    /// Recursion takes apart what is flat, and a loop the rest where the stack ends. A list has no such hook, so that lists in
    /// lists are the business of the map around them; those in no map at all cost a hundred bytes of stack a level.
    fn drop(&mut self) {
        let mut nested = false;
        for (_, value) in &mut self.entries {
            match value {
                Value::Map(_) => nested = true,
                Value::List(list) => {
                    nested = true;
                    if list.iter().any(|item| matches!(item, Value::List(_))) {
                        discard(std::mem::replace(value, Value::Null));
                    }
                }
                _ => {}
            }
        }
        if nested && !has_room() {
            self.entries.drain(..).for_each(|(_, value)| discard(value));
        }
    }
}

/// Drops a value level by level, however many there are.
pub fn discard(value: Value) {
    if !value.is_full() {
        return;
    }
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::List(list) => open.extend(list.into_iter().filter(Value::is_full)),
            Value::Map(map) => {
                open.extend(map.into_iter().map(|(_, member)| member).filter(Value::is_full));
            }
            _ => {}
        }
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::Str(s.to_owned())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::Str(s)
    }
}
impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Int(i)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
impl From<Map> for Value {
    fn from(m: Map) -> Self {
        Value::Map(m)
    }
}
impl From<Vec<Value>> for Value {
    fn from(l: Vec<Value>) -> Self {
        Value::List(l)
    }
}

impl Map {
    pub fn with_capacity(n: usize) -> Map {
        Map { entries: Vec::with_capacity(n) }
    }
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// The last entry of that name: what Go's decoder would keep of duplicates.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v)
    }
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.entries.iter_mut().rev().find(|(n, _)| n == name).map(|(_, v)| v)
    }
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
    /// Appends without looking for the name: for parsers.
    pub fn push(&mut self, name: Name, value: Value) {
        self.entries.push((name, value));
    }
    /// Replaces the value of that name in place, or appends it.
    pub fn set(&mut self, name: impl Into<Name>, value: impl Into<Value>) {
        let name = name.into();
        match self.get_mut(&name) {
            Some(slot) => discard(std::mem::replace(slot, value.into())),
            None => self.entries.push((name, value.into())),
        }
    }
    /// The value of that name, `Null` at the end of the map when absent.
    pub fn entry(&mut self, name: Name) -> &mut Value {
        let at = match self.entries.iter().rposition(|(n, _)| *n == name) {
            Some(at) => at,
            None => {
                self.entries.push((name, Value::Null));
                self.entries.len() - 1
            }
        };
        &mut self.entries[at].1
    }
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.entries.iter().rposition(|(n, _)| n == name)?;
        Some(self.entries.remove(at).1)
    }
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Name, &Value)> {
        self.entries.iter().map(|(n, v)| (n, v))
    }
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Name, &mut Value)> {
        self.entries.iter_mut().map(|(n, v)| (&*n, v))
    }
    pub fn retain(&mut self, mut keep: impl FnMut(&Name, &mut Value) -> bool) {
        self.entries.retain_mut(|(n, v)| keep(n, v));
    }
    /// The entries themselves, for passes that reorder them.
    pub fn entries_mut(&mut self) -> &mut Vec<(Name, Value)> {
        &mut self.entries
    }
}

impl FromIterator<(Name, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Name, Value)>>(iter: I) -> Self {
        Map { entries: iter.into_iter().collect() }
    }
}
impl IntoIterator for Map {
    type Item = (Name, Value);
    type IntoIter = std::vec::IntoIter<(Name, Value)>;
    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut self.entries).into_iter()
    }
}
