//! Values: small, cheap to clone, and borrowed from the object under evaluation wherever possible.

mod list;
mod map;
mod show;
pub(crate) use show::go_float;
mod time;
mod view;

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

pub use list::List;
pub use map::{Map, Mapper, OwnedMap};
pub(crate) use map::{member, member_name, unhashable};
pub use time::Timestamp;

use crate::error::Error;
use crate::types::Type;

/// A value. `'a` is the life of what it is borrowed from: the variables and the program.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Text<'a>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Type(Type),
    Optional(Option<Arc<Val<'a>>>),
    /// A value of a library's type.
    Opaque(Arc<dyn Opaque>),
    /// Data a schema preserves without a type: can only be compared.
    Preserved(&'a object::Value),
    /// `Name{field: value}` of a type whose values are what the expression wrote: can only be compared, and converted by
    /// whoever evaluates it.
    Object(Arc<Object<'a>>),
}

/// What an expression constructed, field by field.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// The name of its type.
    pub name: Box<str>,
    /// In the order they were written, each once.
    pub fields: Vec<(&'a str, Val<'a>)>,
}

/// A text, borrowed if it comes from the object or the program.
#[derive(Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

/// A value of a type the language itself does not know, such as `kubernetes.Quantity`.
pub trait Opaque: Any + Send + Sync + fmt::Debug {
    /// Its type, as `type(x)` answers.
    fn ty(&self) -> Type;
    /// `==`. Upstream's types mostly answer "no such overload" to a value of another type.
    fn equal(&self, other: &Val<'_>) -> Result<bool, Error>;
    /// What costs count as its size; `None`: 1.
    fn size(&self) -> Option<u64> {
        None
    }
    /// The zero value, for `optional.ofNonZeroValue`; `None`: the type has none.
    fn is_zero(&self) -> Option<bool> {
        None
    }
    /// For people, and for messages (`%v` in Go).
    fn text(&self) -> String;
    /// What Go calls it (`%T`): upstream's types are named after what they are called here.
    fn go_type(&self) -> String {
        format!("cel.{}", self.ty().name().rsplit('.').next().unwrap_or(""))
    }
    fn as_any(&self) -> &dyn Any;
}

impl<'a> Val<'a> {
    pub fn string(text: impl Into<Arc<str>>) -> Val<'a> {
        Val::Str(Text::Shared(text.into()))
    }
    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Val<'a> {
        Val::Bytes(bytes.into())
    }
    pub fn list(items: Vec<Val<'a>>) -> Val<'a> {
        Val::List(List::Owned(Arc::new(items)))
    }
    pub fn none() -> Val<'a> {
        Val::Optional(None)
    }
    pub fn some(value: Val<'a>) -> Val<'a> {
        Val::Optional(Some(Arc::new(value)))
    }
    pub fn opaque(value: impl Opaque) -> Val<'a> {
        Val::Opaque(Arc::new(value))
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Val::Str(text) => Some(text),
            _ => None,
        }
    }
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Val::Int(i) => Some(*i),
            _ => None,
        }
    }
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Val::Bool(b) => Some(*b),
            _ => None,
        }
    }
    pub fn as_list(&self) -> Option<&List<'a>> {
        match self {
            Val::List(list) => Some(list),
            _ => None,
        }
    }
    pub fn as_map(&self) -> Option<&Map<'a>> {
        match self {
            Val::Map(map) => Some(map),
            _ => None,
        }
    }
    /// The value of a library's type.
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Val::Opaque(value) => value.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Its type at run time: elements are `dyn`.
    pub fn ty(&self) -> Type {
        match self {
            Val::Null => Type::Null,
            Val::Bool(_) => Type::Bool,
            Val::Int(_) => Type::Int,
            Val::Uint(_) => Type::Uint,
            Val::Double(_) => Type::Double,
            Val::Str(_) => Type::String,
            Val::Bytes(_) => Type::Bytes,
            Val::Duration(_) => Type::Duration,
            Val::Timestamp(_) => Type::Timestamp,
            Val::List(_) => Type::list(Type::Dyn),
            Val::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Val::Type(_) => Type::Type(None),
            Val::Optional(_) => Type::opaque("optional_type", []),
            Val::Opaque(value) => value.ty(),
            Val::Preserved(_) => Type::object("unknown"),
            Val::Object(object) => Type::object(object.name.to_string()),
        }
    }
    /// The name of its type, as in "no such overload: f(int, string)".
    pub fn type_name(&self) -> String {
        match self {
            Val::List(_) => String::from("list"),
            Val::Map(_) => String::from("map"),
            other => other.ty().name().to_owned(),
        }
    }

    /// The size costs are computed from: of strings in characters, 1 for what has none.
    pub fn cost_size(&self) -> u64 {
        match self {
            Val::Str(text) => text.chars().count() as u64,
            Val::Bytes(bytes) => bytes.len() as u64,
            Val::List(list) => list.len() as u64,
            Val::Map(map) => map.len() as u64,
            Val::Optional(Some(value)) => value.cost_size(),
            Val::Opaque(value) => value.size().unwrap_or(1),
            _ => 1,
        }
    }

    /// The same value, borrowing what it shares.
    pub fn reborrow<'b>(&'b self) -> Val<'b>
    where
        'a: 'b,
    {
        match self {
            Val::Str(text) => Val::Str(Text::Borrowed(text)),
            other => other.clone(),
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}
impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
impl<'a> From<&'a str> for Val<'a> {
    fn from(text: &'a str) -> Self {
        Val::Str(Text::Borrowed(text))
    }
}
impl From<String> for Val<'_> {
    fn from(text: String) -> Self {
        Val::string(text)
    }
}
impl From<bool> for Val<'_> {
    fn from(b: bool) -> Self {
        Val::Bool(b)
    }
}
impl From<i64> for Val<'_> {
    fn from(i: i64) -> Self {
        Val::Int(i)
    }
}
impl<'a> From<Vec<Val<'a>>> for Val<'a> {
    fn from(items: Vec<Val<'a>>) -> Self {
        Val::list(items)
    }
}
