//! Who asks, in the headers another server reads: it believes them, because our certificate is the front proxy's.

use std::fmt::Write as _;

use auth::UserInfo;
use http::header::InvalidHeaderValue;
use http::{HeaderMap, HeaderName, HeaderValue};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// Replaces whatever the client claimed. The error: the user cannot be named in a header, and nothing must be sent.
pub(crate) fn set(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), String> {
    let forged: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(EXTRA)).cloned().collect();
    for name in forged.iter().chain([&USER, &UID, &GROUP]) {
        headers.remove(name);
    }
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_: InvalidHeaderValue| format!("{} cannot be a header", object::quote(text)))
    };
    headers.insert(USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escape(key));
        let name =
            HeaderName::try_from(&name).map_err(|_| format!("{} cannot be a header", object::quote(key)))?;
        for text in values {
            headers.append(name.clone(), value(text)?);
        }
    }
    Ok(())
}

/// What no name of a header may have, and `%` itself, as `%XX`.
fn escape(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => out.push(byte as char),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|'
            | b'~' => {
                out.push(byte as char);
            }
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_claims_is_replaced() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "root"),
            ("x-remote-uid", "0"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-a", "b"),
            ("x-kept", "1"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let mut user = UserInfo::new("jané", &["a", "b"]);
        user.extra.insert("example.org/a%b".to_owned(), vec!["1".to_owned(), "2".to_owned()]);
        set(&mut headers, &user).unwrap();
        let mut found: Vec<(String, String)> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        found.sort();
        let expected = [
            ("x-kept", "1"),
            ("x-remote-extra-example.org%2fa%25b", "1"),
            ("x-remote-extra-example.org%2fa%25b", "2"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-user", "jané"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_user_that_no_header_can_name_is_refused() {
        assert!(set(&mut HeaderMap::new(), &UserInfo::new("a\nb", &[])).is_err());
        assert!(set(&mut HeaderMap::new(), &UserInfo::new("a", &["b\r\nx-remote-group: c"])).is_err());
    }
}
