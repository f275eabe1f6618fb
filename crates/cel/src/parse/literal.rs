//! The values of literals.

use crate::ops::go_parse_float;
use crate::value::Val;

type Answer = Result<Val<'static>, &'static str>;

const BROKEN: &str = "unable to unescape string";

pub(super) fn int(text: &str, negative: bool) -> Option<Val<'static>> {
    let (digits, base) = based(text);
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    let value = if negative { 0i128 - i128::from(magnitude) } else { i128::from(magnitude) };
    i64::try_from(value).ok().map(Val::Int)
}

pub(super) fn uint(text: &str) -> Option<Val<'static>> {
    let (digits, base) = based(&text[..text.len() - 1]);
    u64::from_str_radix(digits, base).ok().map(Val::Uint)
}

fn based(text: &str) -> (&str, u32) {
    text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16))
}

pub(super) fn double(text: &str, negative: bool) -> Option<Val<'static>> {
    go_parse_float(text).map(|d| Val::Double(if negative { -d } else { d }))
}

pub(super) fn string(text: &str) -> Answer {
    let bytes = unquote(text, false)?;
    String::from_utf8(bytes).map(Val::string).map_err(|_| BROKEN)
}

/// With its `b` in front.
pub(super) fn bytes(text: &str) -> Answer {
    unquote(&text[1..], true).map(Val::bytes)
}

fn unquote(text: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let normalised;
    let mut text = text;
    if text.contains('\r') {
        normalised = text.replace("\r\n", "\n").replace('\r', "\n");
        text = &normalised;
    }
    let raw = text.starts_with(['r', 'R']);
    text = &text[usize::from(raw)..];
    let quotes =
        if text.len() >= 6 && (text.starts_with("'''") || text.starts_with("\"\"\"")) { 3 } else { 1 };
    let inner = text.get(quotes..text.len().saturating_sub(quotes)).ok_or(BROKEN)?;
    if raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        let escape = rest.chars().next().ok_or("unable to unescape string, found '\\' as last character")?;
        rest = &rest[escape.len_utf8()..];
        let simple = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => escape as u8,
            'x' | 'X' | 'u' | 'U' | '0'..='3' => {
                let (digits, radix) = match escape {
                    'x' | 'X' => (2, 16),
                    'u' if !bytes => (4, 16),
                    'U' if !bytes => (8, 16),
                    '0'..='3' => (2, 8),
                    _ => return Err(BROKEN),
                };
                let text = rest.get(..digits).ok_or(BROKEN)?;
                let mut code = u32::from_str_radix(text, radix).map_err(|_| BROKEN)?;
                rest = &rest[digits..];
                if radix == 8 {
                    code += (escape as u32 - '0' as u32) * 64;
                }
                if bytes {
                    out.push(code as u8);
                } else {
                    push(&mut out, char::from_u32(code).ok_or("invalid unicode code point")?);
                }
                continue;
            }
            _ => return Err(BROKEN),
        };
        out.push(simple);
    }
    Ok(out)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
}
