//! Why the result of a strategic merge patch does not match its type: upstream converts it to an object without JSON in
//! between, with other messages than the decoder.

use catalog::{Schema, Shape, TypeId};

use super::error::{FieldPath, PathElement, go_type};
use super::{MAX_DEPTH, Pass, Strict, go_names};
use crate::base64;
use crate::{Value, deep};

/// What upstream says of the first value that does not fit, in the order its types declare their fields; `None` when all fit.
pub fn restore_error(schema: &Schema, ty: TypeId, value: &Value) -> Option<String> {
    check(schema, &Shape::Struct(ty), value, &FieldPath::ROOT, 0).err()
}

/// Makes numbers that are too large for their field what Go makes of them when it only converts: their lower 32 bits.
pub fn restore_numbers(schema: &Schema, ty: TypeId, value: &mut Value) {
    // Hardly any object has one, and along the schema every field would be looked for in every patch.
    if holds_large(value) {
        wrap(schema, &Shape::Struct(ty), value, 0);
    }
}

fn holds_large(value: &Value) -> bool {
    match value {
        Value::Int(number) => i32::try_from(*number).is_err(),
        Value::List(items) => deep(|| items.iter().any(holds_large)),
        Value::Map(map) => deep(|| map.iter().any(|(_, member)| holds_large(member))),
        _ => false,
    }
}

fn wrap(schema: &Schema, shape: &Shape, value: &mut Value, depth: u32) {
    if depth == MAX_DEPTH {
        return;
    }
    deep(|| match (shape, value) {
        (Shape::Struct(id), Value::Map(map)) => {
            for field in &schema.get(*id).fields {
                if let Some(member) = map.get_mut(&field.name) {
                    wrap(schema, &field.shape, member, depth + 1);
                }
            }
        }
        (Shape::List(inner), Value::List(items)) => {
            items.iter_mut().for_each(|item| wrap(schema, inner, item, depth + 1));
        }
        (Shape::Map(inner), Value::Map(map)) => {
            map.iter_mut().for_each(|(_, item)| wrap(schema, inner, item, depth + 1));
        }
        (Shape::Int32, Value::Int(number)) => *number = i64::from(*number as i32),
        _ => {}
    });
}

fn check(
    schema: &Schema,
    shape: &Shape,
    value: &Value,
    here: &FieldPath<'_>,
    depth: u32,
) -> Result<(), String> {
    if value.is_null() || depth == MAX_DEPTH {
        return Ok(());
    }
    let depth = depth + 1;
    deep(|| match (shape, value) {
        (Shape::Struct(id), Value::Map(map)) => {
            let ty = schema.get(*id);
            for field in &ty.fields {
                if let Some(member) = map.get(&field.name) {
                    let path = FieldPath { parent: Some(here), element: PathElement::Field(ty, &field.name) };
                    check(schema, &field.shape, member, &path, depth)?;
                }
            }
            Ok(())
        }
        (Shape::Struct(_), _) => Err(format!("cannot restore struct from: {}", kind(value))),
        (Shape::List(inner), Value::List(items)) => {
            for (i, item) in items.iter().enumerate() {
                check(
                    schema,
                    inner,
                    item,
                    &FieldPath { parent: Some(here), element: PathElement::Index(i) },
                    depth,
                )?;
            }
            Ok(())
        }
        (Shape::List(_), _) => Err(format!("cannot restore slice from {}", kind(value))),
        (Shape::Map(inner), Value::Map(map)) => {
            for (name, item) in map.iter() {
                check(
                    schema,
                    inner,
                    item,
                    &FieldPath { parent: Some(here), element: PathElement::Key(name) },
                    depth,
                )?;
            }
            Ok(())
        }
        (Shape::Map(_), _) => Err(format!("cannot restore map from {}", kind(value))),
        (Shape::Bytes, Value::Str(text)) => match base64::canonical(text) {
            Ok(_) => Ok(()),
            Err(at) => Err(format!("error decoding from json: illegal base64 data at input byte {at}")),
        },
        (Shape::Bytes, Value::List(_)) | (Shape::Any, _) => Ok(()),
        (Shape::Bytes, _) => Err(format!("cannot restore slice from {}", kind(value))),
        (Shape::String, Value::Str(_)) | (Shape::Bool, Value::Bool(_)) => Ok(()),
        (Shape::Int32 | Shape::Int64, Value::Int(_)) => Ok(()),
        (Shape::Float64, Value::Int(_) | Value::Float(_)) => Ok(()),
        (Shape::Int32 | Shape::Int64, Value::Float(f)) if f.fract() == 0.0 => Ok(()),
        // Go could turn these into each other, and so names them when it must not.
        (Shape::String, Value::Int(_)) | (Shape::Int32 | Shape::Int64, Value::Float(_)) => {
            let wanted = go_names::named_type(here).unwrap_or_else(|| go_type(schema, shape));
            Err(format!("cannot convert {} to {wanted}", kind(value)))
        }
        (Shape::String | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float64, _) => {
            Err(format!("unrecognized type: {}", go_type(schema, shape)))
        }
        (Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime | Shape::Duration, _) => {
            by_its_own_reader(schema, shape, value)
        }
    })
}

/// Types that read JSON themselves are given the value as JSON, and have no path.
fn by_its_own_reader(schema: &Schema, shape: &Shape, value: &Value) -> Result<(), String> {
    let strict = &mut Strict::off();
    let mut pass = Pass::new(schema, strict);
    let read = pass.scalar(shape, &mut value.clone(), &FieldPath::ROOT);
    match (read, pass.first_mismatch) {
        (Err(error), _) | (Ok(()), Some(error)) => Err(error.to_string()),
        (Ok(()), None) => Ok(()),
    }
}

/// Go's word for what a tree holds.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) => "string",
        Value::List(_) => "slice",
        Value::Map(_) | Value::Raw(_) => "map",
    }
}
