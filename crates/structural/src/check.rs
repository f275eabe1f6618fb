//! What a value may be beyond its type: one check per keyword, in the order upstream makes them.

use std::sync::Arc;

use catalog::Name;
use object::Value;

use crate::format::StringFormat;
use crate::node::NodeId;
use crate::number;
use crate::pattern::Pattern;

/// The order of the variants is the order of the checks of a node, and so of its errors; a node's list is sorted by it.
#[derive(Debug)]
pub(crate) enum Check {
    AnyOf(Box<[NodeId]>),
    OneOf(Box<[NodeId]>),
    AllOf(Box<[NodeId]>),
    Not(NodeId),
    MaxLength(i64),
    MinLength(i64),
    Pattern(Arc<Pattern>),
    /// With its name as it is written, dashes and all.
    Format(StringFormat, Box<str>),
    NumberFormat(NumberFormat),
    MultipleOf(f64),
    Minimum(Bound),
    Maximum(Bound),
    MinItems(i64),
    MaxItems(i64),
    UniqueItems,
    Enum(Box<[Value]>),
    MinProperties(i64),
    MaxProperties(i64),
    Required(Box<[Name]>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) at: f64,
    pub(crate) exclusive: bool,
}

/// Formats of numbers that are checked; the type decides which of them exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberFormat {
    Int32,
    Int64,
    Float,
    Double,
}

impl NumberFormat {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            NumberFormat::Int32 => "int32",
            NumberFormat::Int64 => "int64",
            NumberFormat::Float => "float",
            NumberFormat::Double => "double",
        }
    }
}

/// Whether the string has more characters than that; most are shorter in bytes already.
pub(crate) fn is_longer(text: &str, most: i64) -> bool {
    match usize::try_from(most) {
        Ok(most) => text.len() > most && text.chars().count() > most,
        Err(_) => true,
    }
}

pub(crate) fn is_shorter(text: &str, least: i64) -> bool {
    usize::try_from(least).is_ok_and(|least| text.len() < least || text.chars().count() < least)
}

/// Go converts the value to the type of each allowed one and compares: 1.5 is in `[1]`, and 65 in `["A"]`.
pub(crate) fn is_one_of(value: &Value, allowed: &[Value]) -> bool {
    allowed.iter().any(|allowed| match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Int(i), Value::Float(f)) => *i as f64 == *f,
        (Value::Float(f), Value::Int(i)) => number::to_i64(*f) == *i,
        (Value::Int(i), Value::Str(text)) => {
            let c = u32::try_from(*i).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            text.chars().eq([c])
        }
        (value, allowed) => same(value, allowed),
    })
}

/// Whether two values are equal to Go: the order of names says nothing, numbers of different types differ.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && object::deep(|| a.iter().zip(b).all(|(a, b)| same(a, b)))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && object::deep(|| {
                    let mut others = b.iter();
                    a.iter().all(|(name, value)| match others.next() {
                        Some((other, found)) if name == other => same(value, found),
                        _ => b.get(name).is_some_and(|found| same(value, found)),
                    })
                })
        }
        (a, b) => a == b,
    }
}

/// Whether two elements are equal. Few lists are long, and none of a schema that may still say so.
pub(crate) fn has_duplicates(list: &[Value]) -> bool {
    list.iter().enumerate().any(|(i, value)| list[..i].iter().any(|other| same(value, other)))
}
