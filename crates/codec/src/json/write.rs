//! The JSON writer: the same bytes as Go's encoder.

use object::normalise::format_float;
use object::{LEVELS_AT_ONCE, Value, deep};

/// Appends the value in compact form.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    write_at(0, value, out);
}

fn write_at(level: u32, value: &Value, out: &mut Vec<u8>) {
    if level == LEVELS_AT_ONCE {
        return with_room(value, out);
    }
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(i) => out.extend_from_slice(itoa::Buffer::new().format(*i).as_bytes()),
        Value::Float(f) => write_float(*f, out),
        Value::Str(s) => write_string(s, out),
        Value::Raw(text) => out.extend_from_slice(text.as_bytes()),
        Value::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_at(level + 1, item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.push(b'{');
            for (i, (name, member)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                write_at(level + 1, member, out);
            }
            out.push(b'}');
        }
    }
}

/// [`write`] after checking the stack.
#[cold]
#[inline(never)]
fn with_room(value: &Value, out: &mut Vec<u8>) {
    deep(|| write_at(0, value, out));
}

pub fn to_vec(value: &Value) -> Vec<u8> {
    // Fits most objects without reallocation.
    let mut out = Vec::with_capacity(4096);
    write(value, &mut out);
    out
}

/// Maximum indented levels.
const MAX_INDENTED: usize = 128;

/// For people (`?pretty=true`): two spaces a level; empty objects and lists stay on their line.
// Differs from kube-apiserver: deeper levels stay on one line. Thousands of spaces before each of
// many thousand lines would turn megabytes into gigabytes.
pub fn write_pretty(value: &Value, out: &mut Vec<u8>) {
    write_indented(value, 0, out);
}

fn write_indented(value: &Value, depth: usize, out: &mut Vec<u8>) {
    match value {
        Value::List(items) if !items.is_empty() && depth < MAX_INDENTED => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                new_line(depth + 1, out);
                write_indented(item, depth + 1, out);
            }
            new_line(depth, out);
            out.push(b']');
        }
        Value::Map(map) if !map.is_empty() && depth < MAX_INDENTED => {
            out.push(b'{');
            for (i, (name, member)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                new_line(depth + 1, out);
                write_string(name, out);
                out.extend_from_slice(b": ");
                write_indented(member, depth + 1, out);
            }
            new_line(depth, out);
            out.push(b'}');
        }
        one_line => write(one_line, out),
    }
}

fn new_line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

/// Appends a quoted string. `<`, `>`, `&` and the two line separators are escaped, as in Go.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut done = 0;
    let mut at = 0;
    loop {
        at = plain_until(bytes, at);
        let Some(&c) = bytes.get(at) else { break };
        let separator = c == 0xe2 && matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9]));
        if c == 0xe2 && !separator {
            at += 1;
            continue;
        }
        out.extend_from_slice(&bytes[done..at]);
        at += 1;
        match c {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', c]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0xe2 => {
                out.extend_from_slice(if bytes[at + 1] == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                at += 2;
            }
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(c >> 4)], HEX[usize::from(c & 15)]]);
            }
        }
        done = at;
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

/// The position of the first byte after `from` that may need an escape (or the end), eight bytes at a time.
fn plain_until(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let mut at = from;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("the slice has eight bytes"));
        // `<` and `>` differ in one bit. A borrow can only affect bytes after the first hit, and only that is used.
        let hits = ((word.wrapping_sub(ONES * 0x20) & !word)
            | zero_bytes(word ^ (ONES * b'"' as u64))
            | zero_bytes(word ^ (ONES * b'\\' as u64))
            | zero_bytes(word ^ (ONES * b'&' as u64))
            | zero_bytes((word | (ONES * 2)) ^ (ONES * b'>' as u64))
            | zero_bytes(word ^ (ONES * 0xe2)))
            & HIGHS;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(c) = bytes.get(at) {
        if *c < 0x20 || matches!(c, b'"' | b'\\' | b'&' | b'<' | b'>' | 0xe2) {
            break;
        }
        at += 1;
    }
    at
}

fn write_float(f: f64, out: &mut Vec<u8>) {
    if f.is_finite() {
        out.extend_from_slice(format_float(f).as_bytes());
    } else {
        // No reader produces one, and JSON cannot represent it.
        out.extend_from_slice(b"null");
    }
}
