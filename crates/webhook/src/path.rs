//! Paths of webhooks as client-go sends them: cleaned, then escaped anew.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// What Go leaves alone in the path of a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Rooted, without empty, `.` and `..` segments and without a slash at the end.
pub(crate) fn clean(path: &[u8]) -> String {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    let mut out = String::with_capacity(path.len() + 1);
    for segment in &kept {
        out.push('/');
        out.extend(percent_encode(segment, PLAIN));
    }
    if kept.is_empty() {
        out.push('/');
    }
    out
}

/// Decodes `%41`; the error is the escape that is none.
pub(crate) fn unescape(path: &str) -> Result<Vec<u8>, String> {
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let escape = &bytes[at..bytes.len().min(at + 3)];
        let digit = |at: usize| escape.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (digit(1), digit(2)) {
            (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
            _ => return Err(String::from_utf8_lossy(escape).into_owned()),
        }
        at += 3;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_and_escaped_as_recorded_from_kube_apiserver() {
        let sent = |path: &str| clean(&unescape(path).unwrap());
        assert_eq!(sent(""), "/");
        assert_eq!(sent("//a/../good/"), "/good");
        assert_eq!(sent("/../.."), "/");
        assert_eq!(sent("/a%20b%2Fc!"), "/a%20b/c%21");
        assert_eq!(sent("/ü?"), "/%C3%BC%3F");
        assert_eq!(sent("/a:b@c;d=e,f+g&h$~"), "/a:b@c;d=e,f+g&h$~");
    }

    #[test]
    fn a_broken_escape_is_named() {
        assert_eq!(unescape("/%zz/a"), Err("%zz".to_owned()));
        assert_eq!(unescape("/%4"), Err("%4".to_owned()));
        assert_eq!(unescape("/%"), Err("%".to_owned()));
    }
}
