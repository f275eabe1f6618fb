//! Named formats: `format.dns1123Label().validate(self.metadata.name)`.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use object::validate_text;
use regexp::Regexp;

use super::arguments::{opaque, text};
use super::costs::NOMINAL;
use super::urls::parse_request_uri;
use crate::cost::{self, CallEstimate, Cost, REGEX_LENGTH, STRING_TRAVERSAL};
use crate::error::Error;
use crate::function::{Function, Native, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::{Opaque, Val};

/// A row: a format and its functions.
struct Format {
    /// As `format.named` knows it.
    key: &'static str,
    /// The function that returns it, and the name of its signature.
    function: &'static str,
    get: Native,
    /// As it calls itself.
    name: &'static str,
    /// What is wrong with a text.
    problems: fn(&str) -> Vec<String>,
    /// The length of the pattern that costs are computed from.
    pattern_length: u64,
}

macro_rules! named {
    ($at:literal, $key:literal, $name:literal, $pattern_length:literal, $problems:expr) => {
        Format {
            key: $key,
            function: concat!("format.", $key),
            get: |_| Ok(Val::opaque(NamedFormat(&FORMATS[$at]))),
            name: $name,
            problems: $problems,
            pattern_length: $pattern_length,
        }
    };
}

static FORMATS: [Format; 13] = [
    named!(0, "dns1123Label", "DNS1123Label", 30, validate_text::dns1123_label),
    named!(1, "dns1123Subdomain", "DNS1123Subdomain", 60, validate_text::dns1123_subdomain),
    named!(2, "dns1035Label", "DNS1035Label", 30, validate_text::dns1035_label),
    named!(3, "qualifiedName", "QualifiedName", 60, validate_text::qualified_name),
    named!(4, "dns1123LabelPrefix", "DNS1123LabelPrefix", 30, |text| {
        validate_text::dns1123_label(&without_last_dash(text))
    }),
    named!(5, "dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60, |text| {
        validate_text::dns1123_subdomain(&without_last_dash(text))
    }),
    named!(6, "dns1035LabelPrefix", "DNS1035LabelPrefix", 30, |text| {
        validate_text::dns1035_label(&without_last_dash(text))
    }),
    named!(7, "labelValue", "LabelValue", 40, validate_text::label_value),
    named!(8, "uri", "URI", 1103, |text| parse_request_uri(text).err().into_iter().collect()),
    named!(9, "uuid", "uuid", 70, |text| unless(is_uuid(text), "does not match the UUID format")),
    named!(10, "byte", "byte", 84, |text| unless(is_base64(text), "invalid base64")),
    named!(11, "date", "date", 71, |text| unless(is_date(text), "invalid date")),
    named!(12, "datetime", "datetime", 71, |text| unless(is_datetime(text), "invalid datetime")),
];

/// The value of `format.named()` and its like.
#[derive(Clone, Copy)]
pub struct NamedFormat(&'static Format);

fn format_type() -> Type {
    Type::object("kubernetes.NamedFormat")
}

pub fn library() -> Library {
    let result = Type::optional(Type::list(Type::String));
    let mut functions = vec![
        Function::new(
            "validate",
            [Overload::member("format-validate", [format_type(), Type::String], result, validate)],
        )
        .cost(VALIDATE),
        Function::new(
            "format.named",
            [Overload::global("format-named", [Type::String], Type::optional(format_type()), |args| {
                let name = text(args, 0)?;
                let found = FORMATS.iter().find(|format| format.key == name);
                Ok(found.map_or_else(Val::none, |format| Val::some(Val::opaque(NamedFormat(format)))))
            })],
        )
        .cost(NOMINAL),
    ];
    functions.extend(FORMATS.iter().map(|format| {
        let overload = Overload::global(format.function, [], format_type(), format.get);
        Function::new(format.function, [overload])
    }));
    Library { functions, ..Library::default() }
}

fn validate<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let format: &NamedFormat = opaque(args, 0)?;
    let problems = (format.0.problems)(text(args, 1)?);
    if problems.is_empty() {
        return Ok(Val::none());
    }
    Ok(Val::some(Val::list(problems.into_iter().map(Val::string).collect())))
}

/// As matching a pattern, which most formats do; the estimate knows only how long a pattern may be.
const VALIDATE: Cost = Cost {
    actual: |call| {
        let [format, text, ..] = call.args else { return None };
        let pattern = format.as_opaque::<NamedFormat>()?.0.pattern_length;
        let pattern = (pattern as f64 * REGEX_LENGTH).ceil() as u64;
        Some(cost::traversal(1 + text.cost_size()) * pattern)
    },
    estimate: |call| -> Option<CallEstimate> {
        const MAX_PATTERN_LENGTH: f64 = 128.0;
        let text = call.size(call.args.first()?).scale(STRING_TRAVERSAL);
        Some(text.scale(MAX_PATTERN_LENGTH * REGEX_LENGTH).into())
    },
};

fn unless(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.to_owned()] }
}

/// The start of a name may end in a dash. Upstream masks it together with the byte before.
fn without_last_dash(text: &str) -> Cow<'_, str> {
    let Some(before) = text.strip_suffix('-').filter(|before| !before.is_empty()) else {
        return Cow::Borrowed(text);
    };
    // A character cut in two is as wrong as the whole.
    let head = before.get(..before.len() - 1).unwrap_or(before);
    Cow::Owned(format!("{head}a"))
}

/// Five groups of hexadecimal digits; the dashes between them may be missing.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (i, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.split_at_checked(length) {
            Some((group, after)) if group.bytes().all(|c| c.is_ascii_hexdigit()) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// With padding, and not empty.
fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let digit = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && digits.bytes().all(digit)
}

/// `2006-01-02`.
fn is_date(text: &str) -> bool {
    text.len() == 10 && object::time::parse(&format!("{text}T00:00:00Z")).is_some()
}

/// A date and a time with a zone; what follows a second `T` does not matter.
fn is_datetime(text: &str) -> bool {
    static TIME: LazyLock<Option<Regexp>> = LazyLock::new(|| {
        Regexp::new(r"^[0-9]{2}:[0-9]{2}:[0-9]{2}(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$").ok()
    });
    let lower = text.to_ascii_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let is_time = TIME.as_ref().is_some_and(|pattern| pattern.is_match(time));
    is_date(date) && is_time && &time[..2] <= "23" && &time[3..5] <= "59" && &time[6..8] <= "59"
}

impl Opaque for NamedFormat {
    fn ty(&self) -> Type {
        format_type()
    }
    fn equal(&self, other: &Val<'_>) -> Result<bool, Error> {
        let other = other.as_opaque::<NamedFormat>().ok_or_else(Error::no_such_overload)?;
        Ok(self.0.name == other.0.name)
    }
    fn text(&self) -> String {
        self.0.name.to_owned()
    }
    fn go_type(&self) -> String {
        String::from("cel.Format")
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedFormat").field(&self.0.name).finish()
    }
}
