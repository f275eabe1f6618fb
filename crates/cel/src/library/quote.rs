//! Text in messages, as Go's `%q` writes it.

/// Any bytes: upstream's messages also cut characters in two.
pub(super) fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(&mut out, c));
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

fn push(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        ' '..='~' => out.push(c),
        '\0'..='\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        _ if is_printable(c) => out.push(c),
        '\0'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// What Go and Rust both print: letters, marks, numbers, punctuation, symbols.
fn is_printable(c: char) -> bool {
    // Behind another character, combining ones stand for themselves.
    let mut buffer = [b'a', 0, 0, 0, 0];
    c.encode_utf8(&mut buffer[1..]);
    std::str::from_utf8(&buffer[..=c.len_utf8()]).is_ok_and(|text| text.escape_debug().nth(1) == Some(c))
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn is_what_go_quotes() {
        for (bytes, quoted) in [
            (&b"a\"\\\n\x00\x7f"[..], r#""a\"\\\n\x00\x7f""#),
            ("é日本😀\u{301}".as_bytes(), "\"é日本😀\u{301}\""),
            ("\u{a0}\u{200b}\u{feff}\u{e0001}\u{80}".as_bytes(), r#""\u00a0\u200b\ufeff\U000e0001\u0080""#),
            (b"%a\xc3", r#""%a\xc3""#),
            (b"\xff\xfe", r#""\xff\xfe""#),
            ("\u{fffd}'".as_bytes(), "\"\u{fffd}'\""),
        ] {
            assert_eq!(quote(bytes), quoted);
        }
    }
}
