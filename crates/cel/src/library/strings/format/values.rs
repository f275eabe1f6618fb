//! Values as `format` writes them. Within lists and maps they look like literals of the language.

use crate::error::Error;
use crate::library::arguments::MAX_TEXT;
use crate::library::strings::format::Verb;
use crate::library::strings::{number, quote};
use crate::ops;
use crate::types::Type;
use crate::value::{List, Map, Val};

#[derive(Default)]
pub(super) struct Output {
    pub(super) text: String,
    /// What has been written altogether.
    written: usize,
}

impl Output {
    pub(super) fn push(&mut self, text: &str) -> Result<(), Error> {
        // Differs from kube-apiserver: a value that holds another one twice, and that one twice, and so on, is not written in full.
        self.written = self.written.saturating_add(text.len());
        if self.written > MAX_TEXT {
            return Err(Error::cost_limit_exceeded());
        }
        self.text.push_str(text);
        Ok(())
    }

    pub(super) fn write(&mut self, verb: Verb, value: &Val<'_>) -> Result<(), Error> {
        let refused = || Err(Error::new(verb.refusal(&value.type_name())));
        let text = match (verb, value) {
            (Verb::String, _) => return self.string(value),
            (Verb::Decimal, Val::Int(i)) => i.to_string(),
            (Verb::Decimal, Val::Uint(u)) => u.to_string(),
            (Verb::Fixed(precision), _) => match double(value) {
                Some(d) => number::fixed(d, precision),
                None => return refused(),
            },
            (Verb::Scientific(precision), _) => match double(value) {
                Some(d) => number::scientific(d, precision),
                None => return refused(),
            },
            (Verb::Binary, Val::Int(i)) => signed(*i, format!("{:b}", i.unsigned_abs())),
            (Verb::Binary, Val::Uint(u)) => format!("{u:b}"),
            (Verb::Binary, Val::Bool(b)) => String::from(if *b { "1" } else { "0" }),
            (Verb::Octal, Val::Int(i)) => signed(*i, format!("{:o}", i.unsigned_abs())),
            (Verb::Octal, Val::Uint(u)) => format!("{u:o}"),
            (Verb::Hex { upper }, _) => {
                let digits = match value {
                    Val::Int(i) => signed(*i, format!("{:x}", i.unsigned_abs())),
                    Val::Uint(u) => format!("{u:x}"),
                    Val::Str(text) => hex(text.as_bytes()),
                    Val::Bytes(bytes) => hex(bytes),
                    _ => return refused(),
                };
                if upper { digits.to_ascii_uppercase() } else { digits }
            }
            _ => return refused(),
        };
        self.push(&text)
    }

    /// `%s`.
    fn string(&mut self, value: &Val<'_>) -> Result<(), Error> {
        match value {
            Val::List(list) => self.list(list),
            Val::Map(map) => self.map(map),
            Val::Null => self.push("null"),
            Val::Str(text) => self.push(text),
            Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Bool(_)
            | Val::Timestamp(_)
            | Val::Bytes(_)
            | Val::Duration(_)
            | Val::Type(_) => self.push(&converted(value)?),
            _ => Err(Error::new(Verb::String.refusal(&value.type_name()))),
        }
    }

    /// A value within another one.
    fn element(&mut self, value: &Val<'_>) -> Result<(), Error> {
        match value {
            Val::Str(text) => self.push(&quote::go(text)),
            Val::Bytes(_) => {
                self.push("b")?;
                self.push(&quote::go(&converted(value)?))
            }
            Val::Timestamp(_) => self.push(&format!("timestamp({})", quote::go(&converted(value)?))),
            Val::Duration(_) => self.push(&format!("duration({})", quote::go(&converted(value)?))),
            Val::Double(d) if d.is_finite() => self.push(&format!("{d:.6}")),
            Val::Double(d) => self.push(match *d {
                f64::INFINITY => "\"+Inf\"",
                f64::NEG_INFINITY => "\"-Inf\"",
                _ => "\"NaN\"",
            }),
            Val::Int(_) | Val::Uint(_) | Val::Bool(_) | Val::Null | Val::Type(_) => self.string(value),
            Val::List(list) => object::deep(|| self.list(list)),
            Val::Map(map) => object::deep(|| self.map(map)),
            _ => Err(Error::new(format!("no formatting function for {}", value.type_name()))),
        }
    }

    fn read_element(&mut self, element: Result<Val<'_>, Error>) -> Result<(), Error> {
        match element {
            Ok(value) => self.element(&value),
            Err(error) if error.is_fatal() => Err(error),
            Err(_) => Err(Error::new("no formatting function for error")),
        }
    }

    fn list(&mut self, list: &List<'_>) -> Result<(), Error> {
        self.push("[")?;
        for (i, item) in list.iter().enumerate() {
            self.push(if i == 0 { "" } else { ", " })?;
            self.read_element(item)?;
        }
        self.push("]")
    }

    /// Entries in the order of their keys as they are written.
    fn map(&mut self, map: &Map<'_>) -> Result<(), Error> {
        let keys = map.keys();
        if keys.len() < map.len() {
            // Members without a schema: upstream reads past the keys it has.
            return Err(Error::internal("runtime error: invalid memory address or nil pointer dereference"));
        }
        let start = self.text.len();
        let mut entries = Vec::with_capacity(keys.len());
        for key in keys {
            match key {
                Val::Str(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_) => self.element(&key)?,
                other => {
                    let ty = other.type_name();
                    return Err(Error::new(format!("no formatting function for map key of type {ty}")));
                }
            }
            let written = self.text.split_off(start);
            let Some(value) = map.find(&key) else {
                let key = quote::go(&key.to_string());
                return Err(Error::new(format!("could not find key: {key}")));
            };
            self.read_element(value)?;
            entries.push((written, self.text.split_off(start)));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.push("{")?;
        for (i, (key, value)) in entries.iter().enumerate() {
            // Keys and values have been counted.
            self.push(if i == 0 { "" } else { ", " })?;
            self.text.push_str(key);
            self.push(":")?;
            self.text.push_str(value);
        }
        self.push("}")
    }
}

fn converted(value: &Val<'_>) -> Result<String, Error> {
    match ops::convert(value, &Type::String) {
        Ok(text) => Ok(text.to_string()),
        Err(error) => {
            Err(Error::new(format!("could not convert argument {} to string", quote::go(error.text()))))
        }
    }
}

/// A double, or the name of one that is not a number.
fn double(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(d) => Some(*d),
        Val::Str(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn signed(number: i64, digits: String) -> String {
    if number < 0 { format!("-{digits}") } else { digits }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
