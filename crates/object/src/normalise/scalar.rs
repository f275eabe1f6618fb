//! Scalars: how each type is parsed, and its canonical form.

use std::borrow::Cow;

use catalog::Shape;

use super::error::FieldPath;
use super::{Pass, TypeError};
use crate::base64;
use crate::time::{self, Layout};
use crate::{Value, quantity};

impl<'s> Pass<'s> {
    pub(super) fn scalar(
        &mut self,
        shape: &Shape,
        value: &mut Value,
        here: &FieldPath<'_>,
    ) -> Result<(), TypeError> {
        match (shape, &mut *value) {
            (Shape::String, Value::Str(_)) | (Shape::Bool, Value::Bool(_)) => Ok(()),
            (Shape::Int64, Value::Int(_)) => Ok(()),
            (Shape::Int32, Value::Int(i)) if i32::try_from(*i).is_ok() => Ok(()),
            (Shape::Int32 | Shape::Int64, Value::Int(_) | Value::Float(_)) => {
                if self.first_mismatch.is_none() {
                    let wanted = if *shape == Shape::Int32 { "int32" } else { "int64" };
                    self.first_mismatch = Some(number_mismatch(value, here, wanted));
                }
                Ok(())
            }
            (Shape::Float64, Value::Int(i)) => {
                *value = Value::Float(*i as f64);
                shorten_float(value);
                Ok(())
            }
            (Shape::Float64, Value::Float(_)) => {
                shorten_float(value);
                Ok(())
            }
            (Shape::Bytes, Value::Str(text)) => {
                match base64::canonical(text) {
                    Ok(Cow::Borrowed(_)) => {}
                    Ok(Cow::Owned(clean)) => *text = clean,
                    Err(at) if self.first_mismatch.is_none() => {
                        self.first_mismatch = Some(TypeError::Base64(at))
                    }
                    Err(_) => {}
                }
                Ok(())
            }
            (Shape::Bytes, Value::List(items)) => {
                match base64::from_numbers(items) {
                    Some(text) => *value = Value::Str(text),
                    None => self.mismatch(shape, value, here),
                }
                Ok(())
            }
            (Shape::Time, _) => rewrite_time(value, Layout::Seconds, here),
            (Shape::MicroTime, _) => rewrite_time(value, Layout::Micros, here),
            (Shape::Duration, Value::Str(text)) => {
                let clean = time::format_duration(time::parse_duration(text)?);
                if clean != *text {
                    *text = clean;
                }
                Ok(())
            }
            (Shape::Duration, _) => {
                Err(TypeError::unmarshal(value.json_type().to_owned(), here, "string".to_owned()))
            }
            (Shape::Quantity, _) => rewrite_quantity(value),
            (Shape::IntOrString, Value::Str(_)) => Ok(()),
            (Shape::IntOrString, Value::Int(i)) if i32::try_from(*i).is_ok() => Ok(()),
            (Shape::IntOrString, _) => Err(number_mismatch(value, here, "int32")),
            _ => {
                self.mismatch(shape, value, here);
                Ok(())
            }
        }
    }
}

/// Go names the number it could not fit; of other values only what they are.
fn number_mismatch(value: &Value, here: &FieldPath<'_>, wanted: &str) -> TypeError {
    let found = match value {
        Value::Int(i) => format!("number {i}"),
        // The text is gone; a float that would fit had a point or an exponent in it.
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 9.2e18 => format!("number {f:.1}"),
        Value::Float(f) => format!("number {}", format_float(*f)),
        other => other.json_type().to_owned(),
    };
    TypeError::unmarshal(found, here, wanted.to_owned())
}

fn rewrite_time(value: &mut Value, layout: Layout, here: &FieldPath<'_>) -> Result<(), TypeError> {
    let Value::Str(text) = value else {
        return Err(TypeError::unmarshal(value.json_type().to_owned(), here, "string".to_owned()));
    };
    let (seconds, nanos) = time::parse_layout(text, layout)?;
    if seconds == time::ZERO_SECONDS {
        *value = Value::Null;
        return Ok(());
    }
    // In its one form already, when it is read and has that form's length (see `time`: all else is longer or shorter).
    let b = text.as_bytes();
    let clean = match layout {
        Layout::Seconds => b.len() == 20 && b[19] == b'Z',
        Layout::Micros => b.len() == 27 && b[19] == b'.' && b[26] == b'Z',
    };
    if !clean {
        *text = match layout {
            Layout::Seconds => time::format_seconds(seconds),
            Layout::Micros => time::format_micros(seconds, nanos),
        };
    }
    Ok(())
}

fn rewrite_quantity(value: &mut Value) -> Result<(), TypeError> {
    match value {
        Value::Str(text) => {
            let trimmed = text.trim();
            let clean = quantity::canonical(trimmed)?;
            if *clean != **text {
                *text = clean.into_owned();
            }
        }
        Value::Int(i) => *value = Value::Str(quantity::canonical(&i.to_string())?.into_owned()),
        Value::Float(f) => *value = Value::Str(quantity::canonical(&format_float(*f))?.into_owned()),
        _ => return Err(quantity::QuantityError::Format.into()),
    }
    Ok(())
}

/// The shortest digits that read back the same, as Go writes them: an exponent only for the very small and very large.
pub fn format_float(f: f64) -> String {
    let magnitude = f.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        return format!("{f}");
    }
    // Rust says 1e21 where Go says 1e+21.
    let text = format!("{f:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

/// A float that is a whole number prints without a point and reads back as an integer; so it is one from the start.
pub(super) fn shorten_float(value: &mut Value) {
    let Value::Float(f) = value else { return };
    if f.fract() != 0.0 || f.abs() >= 1e19 {
        return;
    }
    // Above 2^53 the shortest digits end in zeros, where the float's exact value does not.
    let whole = if f.abs() < 9e15 { Some(*f as i64) } else { format_float(*f).parse().ok() };
    if let Some(whole) = whole {
        *value = Value::Int(whole);
    }
}
