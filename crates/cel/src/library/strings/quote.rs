//! Texts in quotes, as expressions and as Go write them.

/// `strings.quote`: with the escapes of the language.
pub fn cel(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match escape(c) {
            Some(escaped) => out.push_str(escaped),
            None => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Go's `%q`: what cannot be printed is escaped, too.
pub fn go(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match escape(c) {
            Some(escaped) => out.push_str(escaped),
            None if printable(c) => out.push(c),
            None => out.push_str(&match c as u32 {
                code @ (..0x20 | 0x7f) => format!("\\x{code:02x}"),
                code @ ..0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push('"');
    out
}

fn escape(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        '\\' => "\\\\",
        '"' => "\\\"",
        _ => return None,
    })
}

/// Letters, marks, numbers, punctuation, symbols and the space, as in Go.
fn printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // The standard library escapes what is not printable. Behind another character it leaves marks alone.
    let mut buffer = [b'a'; 5];
    let length = c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..1 + length]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}
