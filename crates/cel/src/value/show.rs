//! Values in messages, as Go's `%v` writes them.

use std::fmt;

use crate::value::Val;

impl fmt::Display for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Go prints the number behind protobuf's NullValue.
            Val::Null => f.write_str("0"),
            Val::Bool(b) => write!(f, "{b}"),
            Val::Int(i) => write!(f, "{i}"),
            Val::Uint(u) => write!(f, "{u}"),
            Val::Double(d) => f.write_str(&go_float(*d)),
            Val::Str(text) => f.write_str(text),
            Val::Bytes(bytes) => {
                f.write_str("[")?;
                for (i, byte) in bytes.iter().enumerate() {
                    write!(f, "{}{byte}", if i == 0 { "" } else { " " })?;
                }
                f.write_str("]")
            }
            Val::Duration(nanos) => f.write_str(&object::time::format_duration(*nanos)),
            Val::Timestamp(time) => f.write_str(&time.text()),
            Val::List(list) => {
                f.write_str("[")?;
                for (i, item) in list.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match item {
                        Ok(item) => write!(f, "{item}")?,
                        Err(error) => write!(f, "{error}")?,
                    }
                }
                f.write_str("]")
            }
            Val::Map(map) => {
                f.write_str("{")?;
                for (i, (key, value)) in map.entries().into_iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match value {
                        Ok(value) => write!(f, "{key}: {value}")?,
                        Err(error) => write!(f, "{key}: {error}")?,
                    }
                }
                f.write_str("}")
            }
            Val::Type(ty) => write!(f, "{ty}"),
            Val::Optional(None) => f.write_str("optional.none()"),
            Val::Optional(Some(value)) => write!(f, "optional({value})"),
            Val::Opaque(value) => f.write_str(&value.text()),
            Val::Preserved(value) => write!(f, "{}", Val::dynamic(value)),
            Val::Object(object) => f.write_str(&object.name),
        }
    }
}

/// Go's `%g`: the shortest digits that read back the same, with an exponent below 1e-4 and from a million on.
pub(crate) fn go_float(d: f64) -> String {
    if d.is_nan() {
        return String::from("NaN");
    }
    if d.is_infinite() {
        return String::from(if d > 0.0 { "+Inf" } else { "-Inf" });
    }
    let scientific = format!("{d:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if d == 0.0 || (-4..6).contains(&exponent) {
        return format!("{d}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
