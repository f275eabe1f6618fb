//! Makes answers comparable: ids, times and versions are replaced as in the recorded ones.

use serde_json::Value;

/// Replaces ids and times inside every string of a tree.
pub fn normalised(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(normalised_text(text)),
        Value::Array(items) => Value::Array(items.iter().map(normalised).collect()),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), normalised(v))).collect()),
        other => other.clone(),
    }
}

pub fn normalised_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (word, skip) = if is_uuid(rest) {
            ("UID", 36)
        } else if is_time(rest) {
            ("TIME", 20)
        } else if let Some(digits) = version_after(&out, rest) {
            ("VERSION", digits)
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.push_str(word);
        rest = &rest[skip..];
    }
    out
}

fn is_uuid(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() >= 36
        && b[..36].iter().enumerate().all(|(i, c)| match i {
            8 | 13 | 18 | 23 => *c == b'-',
            _ => c.is_ascii_hexdigit(),
        })
}

fn is_time(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() >= 20
        && b[..20]
            .iter()
            .zip(b"0000-00-00T00:00:00Z")
            .all(|(c, p)| if *p == b'0' { c.is_ascii_digit() } else { c == p })
}

/// Digits of a resourceVersion that a message mentions.
fn version_after(before: &str, rest: &str) -> Option<usize> {
    let known = ["current: ", "in record (", "resourceVersion\":\"", "resourceVersion\\\":\\\""];
    if !known.iter().any(|k| before.ends_with(k)) {
        return None;
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then_some(digits)
}
