//! URLs and paths as Go's `net/url` and `path` read and write them: what a proxy passes on is what upstream would.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// A URL in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    /// What follows the scheme where no slash does: `mailto:a@b`.
    opaque: String,
    /// With user and port, as it was written.
    pub host: String,
    /// Decoded.
    pub path: Vec<u8>,
    /// As it was written.
    raw_path: String,
    /// With its `?`.
    query: String,
    /// With its `#`.
    fragment: String,
}

impl Url {
    /// None if Go would not parse it.
    pub fn parse(text: &str) -> Option<Url> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        let (rest, fragment) = split_before(text, '#');
        let (scheme, rest) = split_scheme(rest)?;
        let (rest, query) = split_before(rest, '?');
        let mut url = Url {
            scheme: scheme.to_ascii_lowercase(),
            query: query.to_owned(),
            fragment: fragment.to_owned(),
            ..Url::default()
        };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Some(url);
            }
            // A colon in the first segment would be taken for a scheme's.
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return None;
            }
        }
        let mut path = rest;
        if let Some(authority) = rest.strip_prefix("//")
            && (!scheme.is_empty() || !rest.starts_with("///"))
        {
            let end = authority.find('/').unwrap_or(authority.len());
            let host = &authority[..end];
            if host.contains(['<', '>', '"', ' ', '\\', '^', '`', '{', '}', '|']) {
                return None;
            }
            (url.host, path) = (host.to_owned(), &authority[end..]);
        }
        url.path = decode(path)?;
        url.raw_path = path.to_owned();
        Some(url)
    }

    /// The path as it was written if that is valid, else encoded.
    fn escaped_path(&self) -> Cow<'_, str> {
        let valid = |byte: u8| {
            is_path_byte(byte) || matches!(byte, b'%' | b'!' | b'\'' | b'(' | b')' | b'*' | b'[' | b']')
        };
        let as_written =
            self.raw_path.bytes().all(valid) && decode(&self.raw_path).as_ref() == Some(&self.path);
        if as_written { Cow::Borrowed(&*self.raw_path) } else { Cow::Owned(escape_path(&self.path)) }
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            let path = self.escaped_path();
            if !self.host.is_empty() || (!self.scheme.is_empty() && path.starts_with("//")) {
                write!(f, "//{}", self.host)?;
            }
            if !self.host.is_empty() && !path.is_empty() && !path.starts_with('/') {
                f.write_str("/")?;
            }
            f.write_str(&path)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        write!(f, "{}{}", self.query, self.fragment)
    }
}

fn split_before(text: &str, mark: char) -> (&str, &str) {
    text.split_at(text.find(mark).unwrap_or(text.len()))
}

/// The scheme, if there is one; none at all if the text begins with a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

/// None if a `%` is not followed by two digits.
fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = |rest: &[u8]| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit);
    let escaped = text.as_bytes().split(|byte| *byte == b'%').skip(1).all(digits);
    escaped.then(|| percent_decode(text.as_bytes()).collect())
}

fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@'
        )
}

/// A path with everything escaped that Go escapes.
pub fn escape_path(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    path.iter().for_each(|byte| push_byte(*byte, is_path_byte(*byte), &mut out));
    out
}

/// A value in a query.
pub fn escape_query(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value {
        match byte {
            b' ' => out.push('+'),
            byte => push_byte(
                *byte,
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~'),
                &mut out,
            ),
        }
    }
    out
}

fn push_byte(byte: u8, plain: bool, out: &mut String) {
    if plain {
        out.push(char::from(byte));
    } else {
        let digit = |half: u8| char::from(b"0123456789ABCDEF"[usize::from(half)]);
        out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
    }
}

/// Both as one clean path, without `.`, `..` and empty parts; a slash at the end is dropped. Empty if both are.
pub fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    let whole: Vec<u8> = match (first, second) {
        (b"", b"") => return Vec::new(),
        (b"", one) | (one, b"") => one.to_vec(),
        (first, second) => [first, b"/", second].concat(),
    };
    let rooted = whole.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in whole.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => _ = parts.pop(),
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    let mut out = if rooted { b"/".to_vec() } else { Vec::new() };
    out.extend(parts.join(&b'/'));
    if out.is_empty() { b".".to_vec() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_written_as_they_were_read() {
        let same = [
            "http://10.0.0.1:80/a/b?c=d#e",
            "/a%20b",
            "a/b",
            "",
            "mailto:a@b",
            "//host/path",
            "?q",
            "#f",
            "https://u@h/",
            "/a%2Fb",
        ];
        for text in same {
            assert_eq!(Url::parse(text).map(|url| url.to_string()).as_deref(), Some(text));
        }
        assert_eq!(Url::parse("HTTP://h/a b").map(|url| url.to_string()).as_deref(), Some("http://h/a%20b"));
        for text in ["a:b:", ":x", "/%zz", "/a\nb", "1:2", "http://a b/"] {
            assert!(Url::parse(text).is_none_or(|url| url.scheme == "a"), "{text}");
        }
    }

    #[test]
    fn joined_paths_are_clean() {
        let cases: [(&str, &str, &str); 8] = [
            ("", "", ""),
            ("", "/", "/"),
            ("", "/a//b/", "/a/b"),
            ("/p", "/../../x", "/x"),
            ("/api/v1", "/a/./b", "/api/v1/a/b"),
            ("", "a/..", "."),
            ("", "../a", "../a"),
            ("/", "a", "/a"),
        ];
        for (first, second, joined) in cases {
            let found = join(first.as_bytes(), second.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), joined, "{first} {second}");
        }
    }

    #[test]
    fn what_is_special_is_escaped() {
        assert_eq!(escape_path("/a b?c%d/é!".as_bytes()), "/a%20b%3Fc%25d/%C3%A9%21");
        assert_eq!(escape_query(b"a b&c=d/~"), "a+b%26c%3Dd%2F~");
    }
}
