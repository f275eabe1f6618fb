//! `[JSONPatch{..}]` applied to an object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cel::{Map, Object, Val};
use object::patch::json::JsonPatch;
use object::{Value, deep};

use super::MutationError;
use super::apply_configuration::check_names;

/// The object with the operations applied; `None` if one of them tests what is not so.
pub(super) fn apply(value: &Val<'_>, object: &Value) -> Result<Option<Value>, MutationError> {
    let operations = operations(value).map_err(MutationError::Failed)?;
    let patch =
        JsonPatch::parse_unchecked(operations).map_err(|status| MutationError::Failed(status.message))?;
    let mut patched = object.clone();
    match patch.try_apply(&mut patched) {
        Ok(()) => {}
        // Nothing of it is applied.
        Err(failed) if failed.is_test => return Ok(None),
        Err(failed) => return Err(MutationError::Failed(format!("JSON Patch: {failed}"))),
    }
    if patched.str_at(&["kind"]).is_none_or(str::is_empty) {
        return Err(MutationError::Internal("Object 'Kind' is missing".to_owned()));
    }
    Ok(Some(patched))
}

fn operations(value: &Val<'_>) -> Result<Value, String> {
    let Val::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let mut operations = Vec::with_capacity(list.len());
    for item in list.iter() {
        match item {
            Ok(Val::Object(operation)) if *operation.name == *crate::types::JSON_PATCH => {
                operations.push(one(&operation)?);
            }
            _ => {
                return Err("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
                    .to_owned());
            }
        }
    }
    Ok(Value::List(operations))
}

fn one(operation: &Object<'_>) -> Result<Value, String> {
    let field = |name: &str| operation.fields.iter().find(|(own, _)| *own == name).map(|(_, value)| value);
    let text = |name: &str| field(name).and_then(Val::as_str).unwrap_or_default();
    let mut out = Value::map();
    let map = out.make_map();
    map.set("op", text("op"));
    map.set("path", text("path"));
    if !text("from").is_empty() {
        map.set("from", text("from"));
    }
    if let Some(value) = field("value") {
        if let Val::Object(constructed) = value {
            check_names(constructed)?;
        }
        let no_json = |error| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
        };
        map.set("value", json(value).map_err(no_json)?);
    }
    Ok(out)
}

/// A value as protobuf's JSON has it: large integers are texts, and so are times.
fn json(value: &Val<'_>) -> Result<Value, String> {
    /// Beyond these a double does not have every integer.
    const EXACT: i64 = 1 << 53;
    deep(|| {
        Ok(match value {
            Val::Null => Value::Null,
            Val::Bool(b) => Value::Bool(*b),
            Val::Int(i) if (-EXACT..=EXACT).contains(i) => Value::Int(*i),
            Val::Int(i) => Value::Str(i.to_string()),
            Val::Uint(u) => match i64::try_from(*u) {
                Ok(i) if i <= EXACT => Value::Int(i),
                _ => Value::Str(u.to_string()),
            },
            Val::Double(d) if d.fract() == 0.0 && d.abs() <= EXACT as f64 => Value::Int(*d as i64),
            Val::Double(d) => Value::Float(*d),
            Val::Str(text) => Value::Str(text.to_string()),
            Val::Bytes(bytes) => Value::Str(STANDARD.encode(bytes)),
            Val::Timestamp(time) => Value::Str(time.text()),
            Val::Duration(nanos) => Value::Str(seconds(*nanos)),
            Val::List(list) => {
                let items = list.iter().map(|item| json(&item.map_err(|error| error.to_string())?));
                Value::List(items.collect::<Result<_, String>>()?)
            }
            Val::Map(Map::View { map, .. }) => Value::Map((*map).clone()),
            Val::Map(map) => {
                let mut out = Value::map();
                for (key, value) in map.entries() {
                    let Some(name) = key.as_str() else {
                        let kind = key.type_name();
                        return Err(format!("unsupported type conversion from '{kind}' to string"));
                    };
                    let value = json(&value.map_err(|error| error.to_string())?)?;
                    out.make_map().set(name.to_owned(), value);
                }
                out
            }
            Val::Object(object) => {
                let mut out = Value::map();
                for (name, value) in &object.fields {
                    out.make_map().set((*name).to_owned(), json(value)?);
                }
                out
            }
            Val::Preserved(value) => (*value).clone(),
            Val::Optional(Some(value)) => json(value)?,
            Val::Optional(None) => return Err("optional.none() dereference".to_owned()),
            Val::Type(_) => return Err("type conversion not supported for 'type'".to_owned()),
            Val::Opaque(value) => {
                let ty = value.ty();
                let name = ty.name().rsplit('.').next().unwrap_or_default();
                return Err(format!("type conversion error from '{name}' to '*structpb.Value'"));
            }
        })
    })
}

/// Seconds with as many digits behind the point as it takes, in threes.
fn seconds(nanos: i64) -> String {
    let (whole, rest) = ((nanos / 1_000_000_000).unsigned_abs(), (nanos % 1_000_000_000).unsigned_abs());
    let sign = if nanos < 0 { "-" } else { "" };
    match rest {
        0 => format!("{sign}{whole}s"),
        _ if rest % 1_000_000 == 0 => format!("{sign}{whole}.{:03}s", rest / 1_000_000),
        _ if rest % 1_000 == 0 => format!("{sign}{whole}.{:06}s", rest / 1_000),
        _ => format!("{sign}{whole}.{rest:09}s"),
    }
}
