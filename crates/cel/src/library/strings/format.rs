//! `format`: `"%s has %d".format([name, count])`.
//!
//! Two read a format: evaluation, which writes arguments, and validation of expressions, which looks at their types.
//!
//! ```text
//! "a %.2f%%" ──Reader──> Text("a "), Clause { 0, Fixed(2) }, Text("%")
//! ```

mod check;
mod values;

pub(crate) use check::check;

use crate::error::Error;
use crate::library::arguments::{list, text};
use crate::library::strings::format::values::Output;
use crate::types::Type;
use crate::value::Val;

/// What an argument is written as. Precisions are as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    String,
    Decimal,
    Fixed(Option<i64>),
    Scientific(Option<i64>),
    Binary,
    Hex { upper: bool },
    Octal,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'f> {
    Text(&'f str),
    Clause {
        /// Of the argument.
        index: usize,
        verb: Verb,
    },
}

/// Reads a format piece by piece: of several mistakes the first one counts, in it or in an argument.
pub(crate) struct Reader<'f> {
    format: &'f str,
    at: usize,
    /// How many clauses there were.
    pub(crate) clauses: usize,
}

impl<'f> Reader<'f> {
    pub(crate) fn new(format: &'f str) -> Reader<'f> {
        Reader { format, at: 0, clauses: 0 }
    }

    /// The next piece, with so many arguments for all clauses. Nothing follows an error.
    pub(crate) fn next(&mut self, arguments: usize) -> Option<Result<Piece<'f>, String>> {
        let rest = &self.format[self.at..];
        let Some(clause) = rest.strip_prefix('%') else {
            let text = rest.split('%').next().filter(|text| !text.is_empty())?;
            self.at += text.len();
            return Some(Ok(Piece::Text(text)));
        };
        if clause.starts_with('%') {
            self.at += 2;
            return Some(Ok(Piece::Text(&rest[..1])));
        }
        let index = self.clauses;
        if index >= arguments {
            return Some(Err(format!("index {index} out of range")));
        }
        if clause.is_empty() {
            return Some(Err(String::from("unexpected end of string")));
        }
        Some(match parse(clause.as_bytes()) {
            Ok((verb, length)) => {
                self.at += 1 + length;
                self.clauses += 1;
                Ok(Piece::Clause { index, verb })
            }
            Err(error) => Err(format!("could not parse formatting clause: {error}")),
        })
    }
}

/// A verb and what is before it, and how long they are.
fn parse(clause: &[u8]) -> Result<(Verb, usize), String> {
    let wrong = |what: String| format!("error while parsing precision: {what}");
    let mut at = 0;
    let mut precision = None;
    if clause.first() == Some(&b'.') {
        let digits = clause[1..].iter().take_while(|c| c.is_ascii_digit()).count();
        at = 1 + digits;
        if at == clause.len() {
            return Err(wrong(String::from("could not find end of precision specifier")));
        }
        let digits = String::from_utf8_lossy(&clause[1..at]);
        precision = Some(digits.parse::<i64>().map_err(|error| {
            let why = object::number_error(&error);
            wrong(format!(
                "error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {why}"
            ))
        })?);
    }
    let verb = match clause.get(at) {
        Some(b's') => Verb::String,
        Some(b'd') => Verb::Decimal,
        Some(b'f') => Verb::Fixed(precision),
        Some(b'e') => Verb::Scientific(precision),
        Some(b'b') => Verb::Binary,
        Some(b'x') => Verb::Hex { upper: false },
        Some(b'X') => Verb::Hex { upper: true },
        Some(b'o') => Verb::Octal,
        // Upstream takes a byte for a character.
        other => {
            let c = char::from(other.copied().unwrap_or_default());
            return Err(format!("unrecognized formatting clause \"{c}\""));
        }
    };
    Ok((verb, at + 1))
}

impl Verb {
    /// Whether arguments of a type can be written so, as far as the type alone tells. Validation asks this for the elements of
    /// literal lists and maps that are written with `%s`, too.
    pub(crate) fn accepts(self, ty: &Type) -> Result<(), String> {
        let kind = match ty {
            Type::Wrapper(inner) => inner,
            other => other,
        };
        let accepted = match self {
            Verb::String => matches!(
                kind,
                Type::List(_)
                    | Type::Map(_)
                    | Type::Int
                    | Type::Uint
                    | Type::Double
                    | Type::Bool
                    | Type::String
                    | Type::Timestamp
                    | Type::Bytes
                    | Type::Duration
                    | Type::Type(_)
                    | Type::Null
            ),
            Verb::Decimal | Verb::Octal => matches!(kind, Type::Int | Type::Uint),
            // Of strings only the names of numbers that are none are, which only evaluation sees.
            Verb::Fixed(_) | Verb::Scientific(_) => matches!(kind, Type::Double | Type::String),
            Verb::Binary => matches!(kind, Type::Int | Type::Uint | Type::Bool),
            Verb::Hex { .. } => matches!(kind, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
        if accepted || matches!(ty, Type::Dyn) { Ok(()) } else { Err(self.refusal(ty.name())) }
    }

    fn refusal(self, ty: &str) -> String {
        let rule = match self {
            Verb::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
                 timestamps"
            }
            Verb::Decimal => "decimal clause can only be used on integers",
            Verb::Fixed(_) => "fixed-point clause can only be used on doubles",
            Verb::Scientific(_) => "scientific clause can only be used on doubles",
            Verb::Binary => "only integers and bools can be formatted as binary",
            Verb::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Verb::Octal => "octal clause can only be used on integers",
        };
        format!("{rule}, was given {ty}")
    }
}

pub(super) fn format<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (format, arguments) = (text(args, 0)?, list(args, 1)?);
    let mut reader = Reader::new(format);
    let mut out = Output::default();
    while let Some(piece) = reader.next(arguments.len()) {
        match piece.map_err(Error::new)? {
            Piece::Text(text) => out.push(text)?,
            Piece::Clause { index, verb } => {
                let written = match arguments.get(index) {
                    Some(Ok(value)) => out.write(verb, &value),
                    Some(Err(error)) if error.is_fatal() => Err(error),
                    _ => Err(Error::new(verb.refusal("error"))),
                };
                written.map_err(|error| match error.is_fatal() {
                    true => error,
                    false => Error::new(format!("error during formatting: {error}")),
                })?;
            }
        }
    }
    Ok(out.text.into())
}
