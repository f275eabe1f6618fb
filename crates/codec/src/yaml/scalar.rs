//! Resolves plain scalars: the types of YAML 1.1 as in upstream's library.

use object::Value;

use super::YamlError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Above the greatest `i64`.
    Uint(u64),
    Float(f64),
    /// Read as text, but quoted when written.
    Timestamp,
    Text,
}

impl Scalar {
    pub fn resolve(text: &str) -> Scalar {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                return Scalar::Bool(true);
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
                return Scalar::Bool(false);
            }
            ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
            _ => {}
        }
        match text.as_bytes().first() {
            Some(b'.') => float(text).map_or(Scalar::Text, Scalar::Float),
            Some(b'+' | b'-' | b'0'..=b'9') => {
                if is_timestamp(text) {
                    return Scalar::Timestamp;
                }
                let plain = text.replace('_', "");
                integer(&plain).or_else(|| float(&plain).map(Scalar::Float)).unwrap_or(Scalar::Text)
            }
            _ => Scalar::Text,
        }
    }

    /// With an explicit tag (`!!int "12"`): the tag overrides quotes, and text that does not match is rejected.
    pub fn resolve_tagged(text: &str, tag: &str) -> Result<Scalar, YamlError> {
        let found = match tag {
            "bool" | "int" | "float" | "null" | "timestamp" => Scalar::resolve(text),
            // `!!str`, and tags that mean nothing to Kubernetes.
            _ => return Ok(Scalar::Text),
        };
        match (tag, found) {
            ("float", Scalar::Int(i)) => Ok(Scalar::Float(i as f64)),
            _ if found.tag() == tag => Ok(found),
            _ => {
                let (found, tag) = (found.long_tag(), format!("!!{tag}"));
                Err(YamlError::BadTag { found, text: text.to_owned(), tag })
            }
        }
    }

    fn tag(self) -> &'static str {
        self.long_tag().trim_start_matches('!')
    }

    fn long_tag(self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Uint(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::Timestamp => "!!timestamp",
            Scalar::Text => "!!str",
        }
    }

    /// The value after the detour through JSON text, where whole numbers are integers.
    pub fn into_value(self, text: &str) -> Result<Value, YamlError> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(i) => Value::Int(i),
            Scalar::Uint(u) => Value::Float(u as f64),
            Scalar::Float(f) if f.is_nan() => return Err(YamlError::NotANumber("NaN")),
            Scalar::Float(f) if f.is_infinite() => {
                return Err(YamlError::NotANumber(if f > 0.0 { "+Inf" } else { "-Inf" }));
            }
            Scalar::Float(f) => whole(f).map_or(Value::Float(f), Value::Int),
            Scalar::Timestamp | Scalar::Text => Value::Str(text.to_owned()),
        })
    }
}

/// The integer a float is, if it is one that fits.
pub(super) fn whole(f: f64) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    (f.fract() == 0.0 && (-BOUND..BOUND).contains(&f)).then_some(f as i64)
}

/// Characters allowed in YAML.
pub(super) fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

/// An integer of Go's syntax: `0x`, `0o`, `0b`, and a leading zero for octal. Underscores are gone already.
fn integer(text: &str) -> Option<Scalar> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let signed = digits.len() != text.len();
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|b| char::from(b).is_digit(base)) {
        return None;
    }
    let size = u64::from_str_radix(digits, base).ok()?;
    match i64::try_from(size) {
        Ok(i) => Some(Scalar::Int(if negative { -i } else { i })),
        Err(_) if negative && size == i64::MIN.unsigned_abs() => Some(Scalar::Int(i64::MIN)),
        Err(_) if !signed => Some(Scalar::Uint(size)),
        Err(_) => None,
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, and within a double's range.
fn float(text: &str) -> Option<f64> {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = |bytes: &[u8]| usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let bytes = text.as_bytes();
    let mut at = sign(bytes);
    let before = digits(&bytes[at..]);
    at += before;
    let mut after = 0;
    if bytes.get(at) == Some(&b'.') {
        after = digits(&bytes[at + 1..]);
        at += 1 + after;
    }
    if before + after == 0 {
        return None;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + sign(&bytes[at + 1..]);
        let exponent = digits(&bytes[at..]);
        if exponent == 0 {
            return None;
        }
        at += exponent;
    }
    if at != bytes.len() {
        return None;
    }
    text.parse().ok().filter(|f: &f64| f.is_finite())
}

/// A date, or a date and a time, in one of the forms upstream's library takes for timestamps.
pub(super) fn is_timestamp(text: &str) -> bool {
    let mut rest = text;
    let Some((year, _)) = number(&mut rest, 4, 4) else { return false };
    let date = (|| {
        let (month, _) = eat(&mut rest, "-").then(|| number(&mut rest, 1, 2))??;
        let (day, _) = eat(&mut rest, "-").then(|| number(&mut rest, 1, 2))??;
        Some((month, day))
    })();
    let Some((month, day)) = date else { return false };
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    let zoned = eat(&mut rest, "T") || eat(&mut rest, "t");
    if !zoned && !eat(&mut rest, " ") {
        return false;
    }
    let time = (|| {
        let (hour, _) = number(&mut rest, 1, 2)?;
        let (minute, _) = eat(&mut rest, ":").then(|| number(&mut rest, 1, 2))??;
        let (second, _) = eat(&mut rest, ":").then(|| number(&mut rest, 1, 2))??;
        Some(hour < 24 && minute < 60 && second < 60)
    })();
    if time != Some(true) {
        return false;
    }
    if eat(&mut rest, ".") && number(&mut rest, 1, usize::MAX).is_none() {
        return false;
    }
    if !zoned || rest == "Z" {
        return rest.is_empty() != zoned;
    }
    if !eat(&mut rest, "+") && !eat(&mut rest, "-") {
        return false;
    }
    let zone = (|| {
        let (hours, _) = number(&mut rest, 2, 2)?;
        let (minutes, _) = eat(&mut rest, ":").then(|| number(&mut rest, 2, 2))??;
        Some(hours <= 24 && minutes <= 60)
    })();
    zone == Some(true) && rest.is_empty()
}

/// `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`: a number of base 60 to other readers, so it is quoted.
pub(super) fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let mut rest = parts.peekable();
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && rest.peek().is_some()
        && rest.all(|part| match part.as_bytes() {
            [ones] => ones.is_ascii_digit(),
            [b'0'..=b'5', ones] => ones.is_ascii_digit(),
            _ => false,
        })
        && digits(fraction)
}

/// Go's `strconv.FormatFloat(f, 'g', -1, 64)`.
pub(super) fn print_float(f: f64) -> String {
    print_shortest(&format!("{f:e}"), f == 0.0 && f.is_sign_negative())
}

/// The same with 32 bits: how upstream prints floats that are names.
pub(super) fn print_float_32(f: f64) -> String {
    print_shortest(&format!("{:e}", f as f32), false)
}

/// From Rust's shortest digits with an exponent to Go's form: an exponent only below 1e-4 and from 1e6, special
/// values in YAML's words.
fn print_shortest(scientific: &str, negative_zero: bool) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return match scientific {
            "inf" => ".inf",
            "-inf" => "-.inf",
            _ => ".nan",
        }
        .to_owned();
    };
    if negative_zero {
        return "-0".to_owned();
    }
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    if !(-4..6).contains(&exponent) {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{mark}{:02}", exponent.abs());
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let point = exponent as usize + 1;
    if digits.len() <= point {
        return format!("{sign}{digits}{}", "0".repeat(point - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..point], &digits[point..])
}

fn eat(rest: &mut &str, prefix: &str) -> bool {
    match rest.strip_prefix(prefix) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

/// Digits, at least and at most so many; the number saturates.
fn number(rest: &mut &str, least: usize, most: usize) -> Option<(u32, usize)> {
    let len = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if len < least {
        return None;
    }
    let value =
        rest[..len].bytes().fold(0u32, |n, b| n.saturating_mul(10).saturating_add(u32::from(b - b'0')));
    *rest = &rest[len..];
    Some((value, len))
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
