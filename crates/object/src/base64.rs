//! Bytes in JSON: base64, read as leniently as Go does, written in one form.

use std::borrow::Cow;

use crate::Value;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The same bytes in standard base64, or the offset of the first byte that is none. Go skips line breaks and
/// ignores the unused bits of the last letter; it wants the padding.
pub(crate) fn canonical(text: &str) -> Result<Cow<'_, str>, usize> {
    let bytes = text.as_bytes();
    if is_canonical(bytes) {
        return Ok(Cow::Borrowed(text));
    }
    decode(text).map(|decoded| Cow::Owned(encode(&decoded)))
}

/// A list of numbers from 0 to 255, which Go takes for bytes too.
pub(crate) fn from_numbers(items: &[Value]) -> Option<String> {
    bytes_of(items).ok().map(|bytes| encode(&bytes))
}

/// Those bytes themselves, or the first item that is none.
pub fn bytes_of(items: &[Value]) -> Result<Vec<u8>, &Value> {
    let byte = |item: &'_ Value| match item {
        Value::Null => Some(0),
        other => u8::try_from(other.as_int()?).ok(),
    };
    let byte = |item| byte(item).ok_or(item);
    items.iter().map(byte).collect()
}

fn is_canonical(bytes: &[u8]) -> bool {
    if !bytes.len().is_multiple_of(4) {
        return false;
    }
    let padding = bytes.iter().rev().take(2).take_while(|c| **c == b'=').count();
    let letters = &bytes[..bytes.len() - padding];
    let unused_bits = match padding {
        0 => 0,
        1 => 0b11,
        _ => 0b1111,
    };
    letters.iter().all(|c| value_of(*c).is_some())
        && letters.last().and_then(|c| value_of(*c)).is_none_or(|last| last & unused_bits == 0)
}

fn value_of(c: u8) -> Option<u8> {
    match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// The bytes, or where Go would say the first wrong one is.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let text = text.as_bytes();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = [0u8; 4];
    let mut held = 0;
    let mut at = 0;
    while at < text.len() {
        let c = text[at];
        at += 1;
        match value_of(c) {
            _ if c == b'\n' || c == b'\r' => {}
            Some(v) => {
                group[held] = v;
                held += 1;
                if held == 4 {
                    push_group(&mut out, group, 3);
                    held = 0;
                }
            }
            None if c == b'=' && held >= 2 => {
                at = end_of_padding(text, at, held)?;
                group[held..].fill(0);
                push_group(&mut out, group, held - 1);
                return if at < text.len() { Err(at) } else { Ok(out) };
            }
            None => return Err(at - 1),
        }
    }
    // An unfinished group: Go points at its first letter.
    if held > 0 { Err(at - held) } else { Ok(out) }
}

/// After the first `=`: one more when the group held two letters, then nothing but line breaks.
fn end_of_padding(text: &[u8], mut at: usize, held: usize) -> Result<usize, usize> {
    let skip_breaks = |mut at: usize| {
        while matches!(text.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        at
    };
    if held == 2 {
        at = skip_breaks(at);
        match text.get(at) {
            None => return Err(text.len()),
            Some(b'=') => at += 1,
            Some(_) => return Err(at - 1),
        }
    }
    Ok(skip_breaks(at))
}

fn push_group(out: &mut Vec<u8>, group: [u8; 4], bytes: usize) {
    let joined = group.iter().fold(0u32, |bits, v| bits << 6 | u32::from(*v));
    out.extend_from_slice(&joined.to_be_bytes()[1..=bytes]);
}

/// Standard base64 with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().chain([0, 0].iter()).take(3).fold(0u32, |bits, b| bits << 8 | u32::from(*b));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}
