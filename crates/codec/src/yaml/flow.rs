//! JSON that means the same as YAML. Clients apply what their JSON encoder made, under YAML's media type, and the JSON reader is
//! much faster.

/// Names longer than this are no names in YAML (1,024 characters, with the quotes).
const MAX_NAME: usize = 1000;

/// Whether a text that is JSON means the same as YAML: one object on one line, with escapes, numbers and names that both
/// languages read alike.
pub fn is_plain_json(text: &str) -> bool {
    let bytes = text.as_bytes();
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.first() != Some(&b'{') {
        return false;
    }
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => match string(&bytes[at..]) {
                Some(length) => at += length,
                None => return false,
            },
            b'-' | b'0'..=b'9' => {
                let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                at += digits;
                // Fractions, exponents, negative zeros and what is larger than an i64: YAML has its own ways with them.
                let is_plain = digits < 18 && !matches!(bytes.get(at), Some(b'.' | b'e' | b'E'));
                if !is_plain || byte == b'-' && bytes.get(at - digits) == Some(&b'0') {
                    return false;
                }
            }
            b' '..=b'~' => {}
            _ => return false,
        }
    }
    true
}

/// The length of a string, with its closing quote; `None` if YAML reads it in another way, or not at all.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *bytes.get(at)? {
            b'"' => break,
            b'\\' => match bytes.get(at + 1)? {
                b'"' | b'\\' | b'n' | b't' | b'r' | b'b' | b'f' => at += 2,
                _ => return None,
            },
            b' '..=b'~' => at += 1,
            // Some characters beyond ASCII end a line in YAML.
            _ => return None,
        }
    }
    let is_name = bytes[at + 1..].iter().find(|byte| **byte != b' ') == Some(&b':');
    let merges = &bytes[..at] == b"<<";
    (!is_name || at <= MAX_NAME && !merges).then_some(at + 1)
}
