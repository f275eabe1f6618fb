//! Path elements as the names of members in `FieldsV1`: `f:spec`, `k:{"name":"a"}`, `v:"a"`, `i:0`.

use object::normalise::format_float;
use object::{Value, deep};
use thiserror::Error;

use super::PathElement;

/// Why a name in `FieldsV1` is no path element.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ElementError {
    #[error("key must be 2 characters long:")]
    Short,
    #[error("missing colon: {0}")]
    Colon(String),
    #[error("invalid value: {0}")]
    Value(String),
    #[error("strconv.Atoi: parsing {}: invalid syntax", object::quote(.0))]
    Index(String),
}

impl PathElement {
    /// `None` for one of a type that does not exist (yet): upstream leaves those out.
    pub fn parse(text: &str) -> Result<Option<PathElement>, ElementError> {
        let &[kind, colon, ..] = text.as_bytes() else { return Err(ElementError::Short) };
        if colon != b':' {
            return Err(ElementError::Colon(text.to_owned()));
        }
        // A colon in second place: the first byte is a character of its own.
        let rest = &text[2..];
        let wrong = || ElementError::Value(rest.to_owned());
        Ok(Some(match kind {
            b'f' => PathElement::field(rest),
            b'v' => PathElement::value(first_value(rest).ok_or_else(wrong)?),
            b'k' => match first_value(rest).ok_or_else(wrong)? {
                Value::Map(map) => {
                    PathElement::key(map.into_iter().map(|(name, value)| ((&name).into(), value)).collect())
                }
                Value::Null => PathElement::key(Vec::new()),
                _ => return Err(wrong()),
            },
            b'i' => PathElement::Index(rest.parse().map_err(|_| ElementError::Index(rest.to_owned()))?),
            _ => return Ok(None),
        }))
    }

    /// Appends the element as [`PathElement::parse`] reads it.
    pub fn write(&self, out: &mut String) {
        match self {
            PathElement::Field(name) => {
                out.push_str("f:");
                out.push_str(name.as_str());
            }
            PathElement::Key(fields) => {
                out.push_str("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_string(name.as_str(), Escape::Needed, out);
                    out.push(':');
                    write_value(value, out);
                }
                out.push('}');
            }
            PathElement::Value(value) => {
                out.push_str("v:");
                write_value(value, out);
            }
            PathElement::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
    }
}

/// The JSON value a text begins with; what follows is not looked at, and numbers are floats, as upstream reads them.
fn first_value(text: &str) -> Option<Value> {
    let text = text.trim_start_matches([' ', '\n', '\t', '\r']);
    let text = &text.as_bytes()[..end_of_value(text.as_bytes())];
    let mut value = codec::json::parse(text, None).ok()?;
    floats(&mut value);
    if text.starts_with(b"-") && matches!(value, Value::Float(0.0)) {
        value = Value::Float(-0.0);
    }
    Some(value)
}

/// Where the first value ends, if it is one.
fn end_of_value(bytes: &[u8]) -> usize {
    let mut open = 0usize;
    let mut quoted = false;
    let mut at = 0;
    while let Some(&c) = bytes.get(at) {
        at += 1;
        if quoted {
            match c {
                b'\\' => at += 1,
                b'"' => quoted = false,
                _ => continue,
            }
        } else {
            match c {
                b'"' => quoted = true,
                b'{' | b'[' => open += 1,
                b'}' | b']' => open = open.saturating_sub(1),
                _ if open > 0 => {}
                b'n' => return bytes.len().min(4),
                b't' => return bytes.len().min(4),
                b'f' => return bytes.len().min(5),
                _ => {
                    let number = |c: &u8| matches!(c, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    return bytes.iter().position(|c| !number(c)).unwrap_or(bytes.len());
                }
            }
        }
        if open == 0 && !quoted {
            break;
        }
    }
    at.min(bytes.len())
}

fn floats(value: &mut Value) {
    match value {
        Value::Int(i) => *value = Value::Float(*i as f64),
        Value::List(items) => deep(|| items.iter_mut().for_each(floats)),
        Value::Map(map) => deep(|| map.iter_mut().for_each(|(_, value)| floats(value))),
        _ => {}
    }
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => out.push_str(&i.to_string()),
        Value::Float(f) => write_float(*f, out),
        Value::Str(text) => write_string(text, Escape::Html, out),
        Value::Raw(text) => out.push_str(text),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                deep(|| write_value(item, out));
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            // Of duplicate names the last one wins, as in a Go map.
            entries.dedup_by(|later, kept| {
                later.0 == kept.0 && {
                    kept.1 = later.1;
                    true
                }
            });
            out.push('{');
            for (i, (name, value)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(name, Escape::Html, out);
                out.push(':');
                deep(|| write_value(value, out));
            }
            out.push('}');
        }
    }
}

/// Upstream's writer of field sets, unlike others, pads a negative exponent: `1e-07`.
fn write_float(f: f64, out: &mut String) {
    let text = format_float(f);
    match text.split_once("e-") {
        Some((digits, exponent)) if exponent.len() == 1 => {
            out.push_str(digits);
            out.push_str("e-0");
            out.push_str(exponent);
        }
        _ => out.push_str(&text),
    }
}

/// What is escaped in a string.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Escape {
    /// What JSON demands.
    Needed,
    /// Also what means something in HTML.
    Html,
}

/// Appends a quoted string.
pub(crate) fn write_string(text: &str, escape: Escape, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape == Escape::Html => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
