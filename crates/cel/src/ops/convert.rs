//! Conversions between types: `int(x)`, `string(x)`, `type(x)` and the others.

use crate::error::Error;
use crate::types::Type;
use crate::value::{Text, Timestamp, Val};

/// The value as one of another type.
pub fn convert<'a>(value: &Val<'a>, to: &Type) -> Result<Val<'a>, Error> {
    if *to == Type::Type(None) {
        return Ok(Val::Type(value.ty()));
    }
    let overflow = || Error::new("integer overflow");
    let unsigned = || Error::new("unsigned integer overflow");
    let converted = match (value, to) {
        (Val::Str(text), Type::Int) => go_parse_int(text).map(Val::Int),
        (Val::Str(text), Type::Uint) => go_parse_uint(text).map(Val::Uint),
        (Val::Str(text), Type::Double) => go_parse_float(text).map(Val::Double),
        (Val::Str(text), Type::Bool) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(Val::Bool(false)),
            _ => None,
        },
        (Val::Str(text), Type::Bytes) => Some(Val::bytes(text.as_bytes())),
        (Val::Str(text), Type::Duration) => object::time::parse_duration(text).ok().map(Val::Duration),
        (Val::Str(text), Type::Timestamp) => match Timestamp::parse(text) {
            Some(time) if !time.in_range() => return Err(Error::new("timestamp overflow")),
            parsed => parsed.map(Val::Timestamp),
        },
        (Val::Int(i), Type::Uint) => Some(Val::Uint(u64::try_from(*i).map_err(|_| unsigned())?)),
        (Val::Int(i), Type::Double) => Some(Val::Double(*i as f64)),
        (Val::Int(i), Type::String) => Some(Val::string(i.to_string())),
        (Val::Int(i), Type::Timestamp) => {
            let time = Timestamp::new(*i, 0, 0).ok_or_else(|| Error::new("timestamp overflow"))?;
            Some(Val::Timestamp(time))
        }
        (Val::Uint(u), Type::Int) => Some(Val::Int(i64::try_from(*u).map_err(|_| overflow())?)),
        (Val::Uint(u), Type::Double) => Some(Val::Double(*u as f64)),
        (Val::Uint(u), Type::String) => Some(Val::string(u.to_string())),
        (Val::Double(d), Type::Int) => Some(Val::Int(double_to_int(*d).ok_or_else(overflow)?)),
        (Val::Double(d), Type::Uint) => Some(Val::Uint(double_to_uint(*d).ok_or_else(unsigned)?)),
        (Val::Double(d), Type::String) => Some(Val::string(crate::value::go_float(*d))),
        (Val::Bool(b), Type::String) => Some(Val::Str(Text::Borrowed(if *b { "true" } else { "false" }))),
        (Val::Null, Type::String) => Some(Val::Str(Text::Borrowed("null"))),
        (Val::Type(ty), Type::String) => Some(Val::string(ty.name())),
        (Val::Bytes(bytes), Type::String) => match std::str::from_utf8(bytes) {
            Ok(text) => Some(Val::string(text)),
            Err(_) => return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        (Val::Duration(nanos), Type::String) => Some(Val::string(seconds_text(*nanos))),
        (Val::Duration(nanos), Type::Int) => Some(Val::Int(*nanos)),
        (Val::Timestamp(time), Type::String) => Some(Val::string(time.text())),
        (Val::Timestamp(time), Type::Int) => Some(Val::Int(time.seconds)),
        (value, to) if value.ty().name() == to.name() => Some(value.clone()),
        _ => None,
    };
    converted.ok_or_else(|| Error::new(format!("type conversion error from '{}' to '{}'", value.ty(), to)))
}

/// A duration in seconds: `1.5s`, as the shortest decimal of the nearest double.
pub(crate) fn seconds_text(nanos: i64) -> String {
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}

pub(super) fn double_to_int(d: f64) -> Option<i64> {
    (d > i64::MIN as f64 && d < i64::MAX as f64).then_some(d as i64)
}
pub(super) fn double_to_uint(d: f64) -> Option<u64> {
    (0.0..18_446_744_073_709_551_616.0).contains(&d).then_some(d as u64)
}

/// Go's `ParseInt(s, 10, 64)`: a sign and digits.
fn go_parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}
fn go_parse_uint(text: &str) -> Option<u64> {
    if !text.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Go's `ParseFloat`: decimal and hexadecimal, `inf`, `nan`, underscores between digits; beyond the range is an error.
pub fn go_parse_float(text: &str) -> Option<f64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut lower = digits.to_ascii_lowercase();
    if lower.contains('_') {
        lower = without_underscores(&lower)?;
    }
    let magnitude = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" if text.len() == 3 => return Some(f64::NAN),
        _ if lower.starts_with("0x") => hex_float(&lower[2..])?,
        _ => {
            let plain = |c: u8| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'+' | b'-');
            if !lower.bytes().all(plain) || !lower.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return None;
            }
            lower.parse::<f64>().ok().filter(|d| d.is_finite())?
        }
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Underscores have digits, or the prefix, on both sides.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let hex = text.starts_with("0x");
    let digit = |c: &u8| c.is_ascii_digit() || (hex && c.is_ascii_hexdigit());
    let fine = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        (before.is_some_and(digit) || (hex && at == 2)) && bytes.get(at + 1).is_some_and(digit)
    };
    let ok = bytes.iter().enumerate().all(|(at, c)| *c != b'_' || fine(at));
    ok.then(|| text.replace('_', ""))
}

/// `1.8p3` without its prefix: Go wants the exponent.
fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let exponent = go_parse_int(exponent)?.clamp(-5000, 5000) as i32;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Digits beyond what a double holds only move the exponent, the first of them rounding.
    let mut value = 0u64;
    let mut shift = 0i32;
    for (at, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = digit.to_digit(16)?;
        let behind_point = at >= whole.len();
        if value < 1 << 59 {
            value = value << 4 | u64::from(digit);
            shift -= if behind_point { 4 } else { 0 };
        } else {
            value |= u64::from(digit != 0);
            shift += if behind_point { 0 } else { 4 };
        }
    }
    let scale = exponent + shift;
    let result = value as f64 * 2f64.powi(scale / 2) * 2f64.powi(scale - scale / 2);
    result.is_finite().then_some(result)
}
