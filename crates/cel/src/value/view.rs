//! Views of API objects: the value of a node under its schema, without a copy.

use object::Value;
use object::patch::go_type;

use crate::error::Error;
use crate::schema::{Format, Schema, Shape};
use crate::value::{List, Map, Text, Timestamp, Val};

impl<'a> Val<'a> {
    /// The value of a node under its schema; an error if it does not fit.
    pub fn view(value: &'a Value, schema: &'a dyn Schema) -> Result<Val<'a>, Error> {
        let invalid = |expected: &str| {
            Err(Error::new(format!("invalid data, expected {expected}, got {}", go_type(value))))
        };
        if value.is_null() {
            if schema.nullable() {
                return Ok(Val::Null);
            }
            return Err(Error::new("invalid data, got null for schema with nullable=false"));
        }
        match (schema.shape(), value) {
            (Shape::String(format), Value::Str(text)) => formatted(text, format),
            (Shape::String(_), _) => invalid("string"),
            (Shape::Integer, Value::Int(i)) => Ok(Val::Int(*i)),
            (Shape::Integer, _) => invalid("int"),
            (Shape::Number, Value::Int(i)) => Ok(Val::Double(*i as f64)),
            (Shape::Number, Value::Float(d)) => Ok(Val::Double(*d)),
            (Shape::Number, _) => invalid("float"),
            (Shape::Boolean, Value::Bool(b)) => Ok(Val::Bool(*b)),
            (Shape::Boolean, _) => invalid("bool"),
            (Shape::IntOrString, Value::Str(text)) => Ok(Val::Str(Text::Borrowed(text))),
            (Shape::IntOrString, Value::Int(i)) => Ok(Val::Int(*i)),
            (Shape::IntOrString, _) => {
                Err(Error::new("invalid data, expected XIntOrString value to be either a string or integer"))
            }
            (Shape::Object | Shape::Map, Value::Map(map)) => {
                Ok(Val::Map(Map::View { map, schema: Some(schema) }))
            }
            (Shape::Object | Shape::Map, _) => {
                Err(Error::new("invalid data, expected a map for the provided schema with type=object"))
            }
            (Shape::List(..), Value::List(items)) => {
                Ok(Val::List(List::View { items, schema: Some(schema) }))
            }
            (Shape::ListWithoutItems, Value::List(_)) => {
                Err(Error::new("invalid array type, expected Items with a non-empty Schema"))
            }
            (Shape::List(..) | Shape::ListWithoutItems, _) => {
                Err(Error::new("invalid data, expected an array for the provided schema with type=array"))
            }
            (Shape::Preserved, _) => Ok(Val::Preserved(value)),
            (Shape::Unknown(name), _) => Err(Error::new(format!(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with \
                 x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {name}"
            ))),
        }
    }

    /// The value JSON stands for, without a schema.
    pub fn dynamic(value: &'a Value) -> Val<'a> {
        match value {
            Value::Null => Val::Null,
            Value::Bool(b) => Val::Bool(*b),
            Value::Int(i) => Val::Int(*i),
            Value::Float(d) => Val::Double(*d),
            Value::Str(text) => Val::Str(Text::Borrowed(text)),
            Value::List(items) => Val::List(List::View { items, schema: None }),
            Value::Map(map) => Val::Map(Map::View { map, schema: None }),
            // No expression sees what the store keeps of managers: it is expanded before.
            Value::Raw(text) => Val::Str(Text::Borrowed(text)),
        }
    }

    /// What upstream's `Value()` followed by its adapter makes of it: no schema, no optional value.
    pub(crate) fn native(self) -> Val<'a> {
        match self {
            Val::List(List::View { items, .. }) => Val::List(List::View { items, schema: None }),
            Val::List(List::Merged { items, .. }) => Val::List(List::Owned(items)),
            Val::Map(Map::View { map, .. }) => Val::Map(Map::View { map, schema: None }),
            Val::Preserved(value) => Val::dynamic(value),
            Val::Optional(Some(value)) => (*value).clone().native(),
            Val::Optional(None) => Val::Null,
            Val::Type(ty) => Val::string(ty.name()),
            other => other,
        }
    }
}

fn formatted(text: &str, format: Format) -> Result<Val<'_>, Error> {
    match format {
        Format::Plain => Ok(Val::Str(Text::Borrowed(text))),
        Format::Duration => crate::value::time::parse_format_duration(text)
            .map(Val::Duration)
            .map_err(|error| Error::new(format!("Invalid duration {text}: {error}"))),
        Format::Date => Timestamp::parse_date(text)
            .map(Val::Timestamp)
            .map_err(|error| Error::new(format!("Invalid date formatted string {text}: {error}"))),
        Format::DateTime => Timestamp::parse_date_time(text)
            .map(Val::Timestamp)
            .map_err(|error| Error::new(format!("Invalid date-time formatted string {text}: {error}"))),
        Format::Byte => decode_base64(text)
            .map(Val::bytes)
            .map_err(|error| Error::new(format!("Invalid byte formatted string {text}: {error}"))),
    }
}

/// Standard base64 with padding, newlines skipped, as Go decodes it; the error says where it ends to be that.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let corrupt = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut quantum = 0u32;
    let mut filled = 0;
    let mut padding = 0;
    for (at, byte) in text.bytes().enumerate() {
        let digit = match byte {
            b'\r' | b'\n' => continue,
            b'=' if filled >= 2 => {
                padding += 1;
                filled += 1;
                0
            }
            _ if padding > 0 => return corrupt(at),
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return corrupt(at),
        };
        if padding == 0 {
            filled += 1;
        }
        quantum = quantum << 6 | u32::from(digit);
        if filled == 4 {
            out.extend(&quantum.to_be_bytes()[1..4 - padding]);
            quantum = 0;
            if padding == 0 {
                filled = 0;
            }
        } else if filled > 4 {
            return corrupt(at);
        }
    }
    if filled % 4 != 0 { corrupt(text.len()) } else { Ok(out) }
}
