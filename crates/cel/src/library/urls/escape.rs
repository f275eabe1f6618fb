//! Escaping in the parts of a URL, as Go's `net/url` does it.

use super::super::quote::quote;

/// Where a text stands; each part has its own reserved characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    User,
    Host,
    /// What follows the `%25` of an IPv6 address.
    Zone,
    Path,
    Query,
    Fragment,
}

impl Part {
    /// Whether a byte is written as it is.
    fn keeps(self, c: u8) -> bool {
        match c {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => true,
            b'$' | b'&' | b'+' | b',' | b';' | b'=' => self != Part::Query,
            b':' => !matches!(self, Part::User | Part::Query),
            b'@' | b'/' => matches!(self, Part::Path | Part::Fragment),
            b'?' => self == Part::Fragment,
            b'!' | b'(' | b')' | b'*' => matches!(self, Part::Host | Part::Zone | Part::Fragment),
            b'\'' | b'[' | b']' | b'<' | b'>' | b'"' => matches!(self, Part::Host | Part::Zone),
            _ => false,
        }
    }
}

/// Fails at an escape that is none, and in a host at one that is not needed and at a byte that cannot stand there.
pub(super) fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let in_host = matches!(part, Part::Host | Part::Zone);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [c, after @ ..] = rest {
        rest = after;
        match (*c, after) {
            (b'%', [high, low, behind @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let byte = hex(*high) << 4 | hex(*low);
                let refused = match part {
                    _ if byte == b'%' => false,
                    Part::Host => byte < 0x80,
                    Part::Zone => byte != b' ' && !Part::Host.keeps(byte),
                    _ => false,
                };
                if refused {
                    return Err(invalid_escape(&[b'%', *high, *low]));
                }
                out.push(byte);
                rest = behind;
            }
            (b'%', after) => {
                let shown: Vec<u8> = [b'%'].iter().chain(after.iter().take(2)).copied().collect();
                return Err(invalid_escape(&shown));
            }
            (b'+', _) if part == Part::Query => out.push(b' '),
            (c, _) if in_host && c.is_ascii() && !part.keeps(c) => {
                return Err(format!("invalid character {} in host name", quote(&[c])));
            }
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

fn invalid_escape(escape: &[u8]) -> String {
    format!("invalid URL escape {}", quote(escape))
}

pub(super) fn escape(bytes: &[u8], part: Part) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match part.keeps(*byte) {
            true => out.push(char::from(*byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A text in the form it was written, if that is a valid one, and in the one form there is otherwise.
pub(super) fn escaped(text: &str, part: Part) -> Result<String, String> {
    let plain = unescape(text, part)?;
    let valid = |c: u8| b"!$&'()*+,;=:@[]%".contains(&c) || part.keeps(c);
    Ok(if text.bytes().all(valid) { text.to_owned() } else { escape(&plain, part) })
}

/// As text. Differs from kube-apiserver: its texts may hold any bytes, ours are Unicode. Each byte that is not makes one
/// character, so that at least sizes agree.
pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let mut out = String::new();
        for chunk in error.as_bytes().utf8_chunks() {
            out.push_str(chunk.valid());
            out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        out
    })
}

fn hex(c: u8) -> u8 {
    char::from(c).to_digit(16).map_or(0, |digit| digit as u8)
}
