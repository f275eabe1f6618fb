//! Functions of strings: `charAt`, `indexOf`, `split`, `join`, `format` and others. Positions count characters.

mod cost;
mod format;
mod number;
mod quote;

use crate::error::Error;
use crate::function::{Function, Overload};
use crate::library::Library;
use crate::library::arguments::{MAX_TEXT, int, list, part, text};
use crate::library::costs::RECEIVER_READ;
use crate::types::Type;
use crate::value::{Text, Val};

/// cel-go's version 2 of the library.
pub fn library() -> Library {
    let mut functions = basic();
    functions.extend([
        Function::new(
            "format",
            [Overload::member(
                "string_format",
                [Type::String, Type::list(Type::Dyn)],
                Type::String,
                format::format,
            )],
        )
        .validated(format::check),
        Function::new(
            "strings.quote",
            [Overload::global("strings_quote", [Type::String], Type::String, |args| {
                Ok(quote::cel(text(args, 0)?).into())
            })],
        ),
        join([
            Overload::member("list_join", [Type::list(Type::String)], Type::String, |args| {
                joined(args, "", as_is)
            }),
            Overload::member(
                "list_join_string",
                [Type::list(Type::String), Type::String],
                Type::String,
                |args| joined(args, text(args, 1)?, as_is),
            ),
        ]),
    ]);
    Library { functions, ..Library::default() }
}

/// Version 0: without `format` and `strings.quote`, and `join` takes what can be converted to a string.
pub fn version_0() -> Library {
    let mut functions = basic();
    functions.push(join([
        Overload::member("list_join", [Type::list(Type::String)], Type::String, |args| {
            joined(args, "", converted)
        }),
        Overload::member(
            "list_join_string",
            [Type::list(Type::String), Type::String],
            Type::String,
            |args| joined(args, text(args, 1)?, converted),
        ),
    ]));
    Library { functions, ..Library::default() }
}

fn join(overloads: [Overload; 2]) -> Function {
    Function::new("join", overloads).cost(cost::JOIN)
}

/// What all versions have.
fn basic() -> Vec<Function> {
    use Type::{Int, String};
    vec![
        Function::new("charAt", [Overload::member("string_char_at_int", [String, Int], String, char_at)]),
        Function::new(
            "indexOf",
            [
                Overload::member("string_index_of_string", [String, String], Int, |args| {
                    index_of(text(args, 0)?, text(args, 1)?, 0)
                }),
                Overload::member("string_index_of_string_int", [String, String, Int], Int, |args| {
                    index_of(text(args, 0)?, text(args, 1)?, int(args, 2)?)
                }),
            ],
        )
        .cost(RECEIVER_READ),
        Function::new(
            "lastIndexOf",
            [
                Overload::member("string_last_index_of_string", [String, String], Int, last_index_of),
                Overload::member("string_last_index_of_string_int", [String, String, Int], Int, |args| {
                    last_index_up_to(text(args, 0)?, text(args, 1)?, int(args, 2)?)
                }),
            ],
        )
        .cost(RECEIVER_READ),
        Function::new(
            "lowerAscii",
            [Overload::member("string_lower_ascii", [String], String, |args| {
                Ok(text(args, 0)?.to_ascii_lowercase().into())
            })],
        )
        .cost(cost::READ),
        Function::new(
            "replace",
            [
                Overload::member("string_replace_string_string", [String, String, String], String, |args| {
                    replace(args, -1)
                }),
                Overload::member(
                    "string_replace_string_string_int",
                    [String, String, String, Int],
                    String,
                    |args| replace(args, int(args, 3)?),
                ),
            ],
        )
        .cost(cost::REPLACE),
        Function::new(
            "split",
            [
                Overload::member("string_split_string", [String, String], Type::list(String), |args| {
                    split(args, -1)
                }),
                Overload::member(
                    "string_split_string_int",
                    [String, String, Int],
                    Type::list(String),
                    |args| split(args, int(args, 2)?),
                ),
            ],
        )
        .cost(cost::SPLIT),
        Function::new(
            "substring",
            [
                Overload::member("string_substring_int", [String, Int], String, substring_from),
                Overload::member("string_substring_int_int", [String, Int, Int], String, substring),
            ],
        )
        .cost(cost::READ),
        Function::new("trim", [Overload::member("string_trim", [String], String, trim)]).cost(cost::READ),
        Function::new(
            "upperAscii",
            [Overload::member("string_upper_ascii", [String], String, |args| {
                Ok(text(args, 0)?.to_ascii_uppercase().into())
            })],
        )
        .cost(cost::READ),
    ]
}

fn out_of_range(index: i64) -> Error {
    Error::new(format!("index out of range: {index}"))
}

/// Where a character begins, or the text ends.
fn offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn receiver<'v, 'a>(args: &'v [Val<'a>]) -> Result<&'v Text<'a>, Error> {
    match args.first() {
        Some(Val::Str(text)) => Ok(text),
        _ => Err(Error::no_such_overload()),
    }
}

fn char_at<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (text, index) = (receiver(args)?, int(args, 1)?);
    let start = offset(text, index).ok_or_else(|| out_of_range(index))?;
    let length = text[start..].chars().next().map_or(0, char::len_utf8);
    Ok(part(text, start..start + length))
}

fn index_of<'a>(text: &str, wanted: &str, from: i64) -> Result<Val<'a>, Error> {
    if wanted.is_empty() {
        return Ok(from.into());
    }
    if from < 0 {
        return Err(out_of_range(from));
    }
    let found = offset(text, from).and_then(|start| {
        Some(from + text[start..start + text[start..].find(wanted)?].chars().count() as i64)
    });
    Ok(found.unwrap_or(-1).into())
}

fn last_index_of<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (text, wanted) = (text(args, 0)?, text(args, 1)?);
    let length = || text.chars().count() as i64;
    if wanted.is_empty() {
        return Ok(length().into());
    }
    if text.len() < wanted.len() {
        return Ok((-1).into());
    }
    last_index_up_to(text, wanted, length() - 1)
}

/// Where a text occurs last, beginning at a character or before.
fn last_index_up_to<'a>(text: &str, wanted: &str, last: i64) -> Result<Val<'a>, Error> {
    if wanted.is_empty() {
        return Ok(last.into());
    }
    if last < 0 {
        return Err(out_of_range(last));
    }
    let found = offset(text, last).filter(|&start| start < text.len()).and_then(|start| {
        let length = wanted.chars().count();
        let end = text[start..].char_indices().nth(length).map_or(text.len(), |(at, _)| start + at);
        text[..end].rfind(wanted)
    });
    Ok(found.map_or(-1, |at| text[..at].chars().count() as i64).into())
}

fn replace<'a>(args: &[Val<'a>], limit: i64) -> Result<Val<'a>, Error> {
    let (text, old, new) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    // A negative limit is none.
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(old).take(limit).count();
    // Differs from kube-apiserver: the result could be as large as both texts multiplied.
    if text.len().saturating_add(count.saturating_mul(new.len())) > MAX_TEXT {
        return Err(Error::cost_limit_exceeded());
    }
    if count == 0 {
        return Ok(args[0].clone());
    }
    Ok(text.replacen(old, new, limit).into())
}

fn split<'a>(args: &[Val<'a>], limit: i64) -> Result<Val<'a>, Error> {
    let (whole, separator) = (receiver(args)?, text(args, 1)?);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut start = 0;
    if separator.is_empty() {
        // Into characters, the rest of them in the last part.
        while start < whole.len() && parts.len() < limit {
            let length = match whole[start..].chars().next() {
                Some(c) if parts.len() + 1 < limit => c.len_utf8(),
                _ => whole.len() - start,
            };
            parts.push(part(whole, start..start + length));
            start += length;
        }
        return Ok(Val::list(parts));
    }
    if limit == 0 {
        return Ok(Val::list(parts));
    }
    for (at, found) in whole.match_indices(separator).take(limit - 1) {
        parts.push(part(whole, start..at));
        start = at + found.len();
    }
    parts.push(part(whole, start..whole.len()));
    Ok(Val::list(parts))
}

fn substring_from<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (text, start) = (receiver(args)?, int(args, 1)?);
    let from = offset(text, start).ok_or_else(|| out_of_range(start))?;
    Ok(part(text, from..text.len()))
}

fn substring<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (text, start, end) = (receiver(args)?, int(args, 1)?, int(args, 2)?);
    if start > end {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = offset(text, start).ok_or_else(|| out_of_range(start))?;
    let to = offset(text, end).ok_or_else(|| out_of_range(end))?;
    Ok(part(text, from..to))
}

fn trim<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let text = receiver(args)?;
    let end = text.trim_end().len();
    let start = end - text[..end].trim_start().len();
    Ok(part(text, start..end))
}

/// Joins the elements of a list, each made a string by `string`.
fn joined<'a>(
    args: &[Val<'a>],
    separator: &str,
    string: for<'b> fn(Result<Val<'b>, Error>) -> Result<Val<'b>, Error>,
) -> Result<Val<'a>, Error> {
    let mut out = String::new();
    for (i, item) in list(args, 0)?.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        let item = string(item)?;
        out.push_str(item.as_str().unwrap_or_default());
        if out.len() > MAX_TEXT {
            return Err(Error::cost_limit_exceeded());
        }
    }
    Ok(out.into())
}

fn as_is(item: Result<Val<'_>, Error>) -> Result<Val<'_>, Error> {
    let refused = match item {
        Ok(item @ Val::Str(_)) => return Ok(item),
        Ok(other) => other.to_string(),
        Err(error) if error.is_fatal() => return Err(error),
        Err(error) => error.to_string(),
    };
    Err(Error::new(format!("join: invalid input: {refused}")))
}

fn converted(item: Result<Val<'_>, Error>) -> Result<Val<'_>, Error> {
    Err(Error::new(match item? {
        item @ Val::Str(_) => return Ok(item),
        Val::Optional(Some(value)) => return converted(Ok((*value).clone())),
        Val::Opaque(value) => return Ok(value.text().into()),
        Val::Optional(None) => "optional.none() dereference",
        Val::Int(_) => "unsupported type conversion from 'int' to string",
        Val::Uint(_) => "unsupported type conversion from 'uint' to string",
        Val::Double(_) => "type conversion error from Double to 'string'",
        Val::Bool(_) => "type conversion error from bool to 'string'",
        Val::Bytes(_) => "type conversion error from Bytes to 'string'",
        Val::Null => "type conversion error from 'null_type' to 'string'",
        Val::Duration(_) => "type conversion error from 'Duration' to 'string'",
        Val::Timestamp(_) => "type conversion error from 'Timestamp' to 'string'",
        Val::List(_) => "type conversion error from list to 'string'",
        Val::Map(_) => "type conversion error from map to 'string'",
        Val::Type(_) => "type conversion not supported for 'type'",
        Val::Preserved(_) | Val::Object(_) => "type conversion error to 'string'",
    }))
}

#[cfg(test)]
mod tests;
