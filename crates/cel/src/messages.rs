//! The few protobuf messages cel-go knows by itself: `google.protobuf.Duration{seconds: 1}`.

use crate::error::Error;
use crate::types::Type;
use crate::value::{OwnedMap, Text, Timestamp, Val};

/// The type a message is the long name of; `None` for messages this language does without.
pub(crate) fn message_type(name: &str) -> Option<Type> {
    let wrapper = |inner| Some(Type::Wrapper(std::sync::Arc::new(inner)));
    match name.strip_prefix("google.protobuf.")? {
        "BoolValue" => wrapper(Type::Bool),
        "BytesValue" => wrapper(Type::Bytes),
        "DoubleValue" | "FloatValue" => wrapper(Type::Double),
        "Int32Value" | "Int64Value" => wrapper(Type::Int),
        "StringValue" => wrapper(Type::String),
        "UInt32Value" | "UInt64Value" => wrapper(Type::Uint),
        "Any" => Some(Type::Any),
        "Duration" => Some(Type::Duration),
        "Timestamp" => Some(Type::Timestamp),
        "ListValue" => Some(Type::list(Type::Dyn)),
        "Struct" => Some(Type::map(Type::String, Type::Dyn)),
        "Value" => Some(Type::Dyn),
        _ => None,
    }
}

/// The type of a message's field.
pub(crate) fn field(message: &str, field: &str) -> Option<Type> {
    let ty = message_type(message)?;
    match (message.rsplit('.').next()?, field) {
        ("Duration" | "Timestamp", "seconds" | "nanos") => Some(Type::Int),
        ("Struct", "fields") | ("Value", "struct_value") => Some(Type::map(Type::String, Type::Dyn)),
        ("ListValue", "values") | ("Value", "list_value") => Some(Type::list(Type::Dyn)),
        ("Value", "null_value") => Some(Type::Int),
        ("Value", "number_value") => Some(Type::Double),
        ("Value", "string_value") | ("Any", "type_url") => Some(Type::String),
        ("Value", "bool_value") => Some(Type::Bool),
        ("Any", "value") => Some(Type::Bytes),
        (_, "value") => match ty {
            Type::Wrapper(inner) => Some((*inner).clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The value a message stands for.
pub(crate) fn construct<'a>(name: &str, mut fields: Vec<(&str, Val<'a>)>) -> Result<Val<'a>, Error> {
    let int = |field: &str| {
        fields.iter().find(|(own, _)| *own == field).and_then(|(_, value)| value.as_int()).unwrap_or(0)
    };
    let short = name.rsplit('.').next().unwrap_or(name);
    let narrow = |fits: bool, value: Val<'a>, what: &str| match fits {
        true => Ok(value),
        false => Err(Error::new(format!("field type conversion error for {name}.value value type: {what}"))),
    };
    match short {
        "Duration" => {
            let nanos = int("seconds").saturating_mul(1_000_000_000).saturating_add(int("nanos"));
            Ok(Val::Duration(nanos))
        }
        "Timestamp" => {
            let nanos = i128::from(int("seconds")) * 1_000_000_000 + i128::from(int("nanos"));
            // Far beyond any year upstream can print.
            let seconds = nanos.div_euclid(1_000_000_000).clamp(-1 << 55, 1 << 55);
            let nanos = nanos.rem_euclid(1_000_000_000) as u32;
            Ok(Val::Timestamp(Timestamp { seconds: seconds as i64, nanos, offset: 0 }))
        }
        "Any" => Err(Error::new("unsupported conversion to ref.Val: (*dynamicpb.Message)")),
        _ => match (short, fields.pop()) {
            ("Value", Some(("null_value", _)) | None) => Ok(Val::Null),
            ("Struct", None) => Ok(OwnedMap::default().into()),
            ("ListValue", None) => Ok(Val::list(Vec::new())),
            ("Value" | "Struct" | "ListValue", Some((_, value))) => json(value),
            ("Int32Value", Some((_, Val::Int(i)))) => {
                narrow(i32::try_from(i).is_ok(), Val::Int(i), "integer overflow")
            }
            ("UInt32Value", Some((_, Val::Uint(u)))) => {
                narrow(u32::try_from(u).is_ok(), Val::Uint(u), "unsigned integer overflow")
            }
            ("FloatValue", Some((_, Val::Double(d)))) => Ok(Val::Double(f64::from(d as f32))),
            (_, Some((_, value))) => Ok(value),
            (_, None) => Ok(match message_type(name) {
                Some(Type::Wrapper(inner)) => zero(&inner),
                _ => Val::Null,
            }),
        },
    }
}

/// A value as JSON has it: every number is a double.
fn json(value: Val<'_>) -> Result<Val<'_>, Error> {
    Ok(match value {
        Val::Int(i) => Val::Double(i as f64),
        Val::Uint(u) => Val::Double(u as f64),
        Val::List(list) => Val::list(list.iter().map(|item| json(item?)).collect::<Result<Vec<_>, Error>>()?),
        Val::Map(map) => map
            .entries()
            .into_iter()
            .map(|(key, value)| Ok((key, json(value?)?)))
            .collect::<Result<OwnedMap<'_>, Error>>()?
            .into(),
        other => other,
    })
}

fn zero<'a>(ty: &Type) -> Val<'a> {
    match ty {
        Type::Bool => Val::Bool(false),
        Type::Int => Val::Int(0),
        Type::Uint => Val::Uint(0),
        Type::Double => Val::Double(0.0),
        Type::String => Val::Str(Text::Borrowed("")),
        Type::Bytes => Val::bytes([]),
        _ => Val::Null,
    }
}
