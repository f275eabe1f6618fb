//! Malformed HTTP/1 requests, refused with the messages of Go's server, which clients of kube-apiserver know.
//!
//! hyper refuses most of what Go refuses, but with a bare status code; what it accepts is checked here before the chain sees it.

use http::header::{CONNECTION, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, StatusCode, Version};
use hyper::ext::ReasonPhrase;

use crate::body::Body;
use crate::respond::{self, Answer};

/// Go's limit of the head, with its allowance for read-ahead.
const MAX_HEAD: usize = (1 << 20) + 4096;
/// How much of a head is kept to find out what is wrong with it.
pub const KEPT_HEAD: usize = 4096;

const TEXT: &str = "text/plain; charset=utf-8";
const NOT_CHUNKED: &str = "Unsupported transfer encoding";

/// The refusal of a request that hyper accepts and Go does not.
pub fn refusal<B>(request: &Request<B>) -> Option<Answer> {
    if request.version() == Version::HTTP_2 {
        return None;
    }
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let one_one = request.version() == Version::HTTP_11;
    let size = |text: &str| text.len() + 4;
    let head: usize = headers.iter().map(|(name, value)| size(name.as_str()) + value.len()).sum();
    if head + uri.path_and_query().map_or(0, |path| size(path.as_str())) > MAX_HEAD {
        return Some(plain(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    }
    let bare_authority = uri.scheme().is_none() && uri.authority().is_some();
    if bare_authority && method != Method::CONNECT || !is_escaped(uri.path()) {
        return Some(plain(StatusCode::BAD_REQUEST));
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next()
        && one_one
        && (codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        let mut answer = respond::answer(501, TEXT, NOT_CHUNKED.as_bytes().to_vec().into());
        close(&mut answer);
        return Some(answer);
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if one_one && method != Method::CONNECT => {
            return Some(worded(StatusCode::BAD_REQUEST, "missing required Host header"));
        }
        (Some(host), None) if !host.as_bytes().iter().all(|b| may_be_in_host(*b)) => {
            return Some(worded(StatusCode::BAD_REQUEST, "malformed Host header"));
        }
        (_, Some(_)) => return Some(plain(StatusCode::BAD_REQUEST)),
        _ => {}
    }
    if headers
        .get(EXPECT)
        .is_some_and(|e| !e.is_empty() && !e.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    {
        let mut answer = Answer::new(Body::empty());
        *answer.status_mut() = StatusCode::EXPECTATION_FAILED;
        close(&mut answer);
        return Some(answer);
    }
    // Answered by Go's server itself.
    (method == Method::OPTIONS && uri.path() == "*").then(|| Answer::new(Body::empty()))
}

/// Replaces hyper's own `answer` to a malformed `head`; `None` for all other answers.
pub fn reworded(answer: &[u8], head: &[u8]) -> Option<Vec<u8>> {
    // Every answer of ours with one of these codes names its request, or has a body; hyper's own has three headers.
    let line = answer.strip_prefix(b"HTTP/1.1 ")?;
    let code = StatusCode::from_bytes(line.get(..3)?)
        .ok()
        .filter(|code| matches!(code.as_u16(), 400 | 414 | 431))?;
    let bare = memchr::memmem::find(answer, b"\r\ncontent-length: 0\r\n").is_some()
        && memchr::memmem::find(answer, b"\r\naudit-id: ").is_none();
    if !bare {
        return None;
    }
    let (code, words, body) = match code {
        StatusCode::BAD_REQUEST => diagnosis(head),
        code => (code, None, None),
    };
    let mut line = format!("{} {}", code.as_str(), code.canonical_reason().unwrap_or(""));
    if let Some(words) = words {
        line.push_str(": ");
        line.push_str(words);
    }
    let body = body.unwrap_or(&line);
    Some(format!("HTTP/1.1 {line}\r\nContent-Type: {TEXT}\r\nConnection: close\r\n\r\n{body}").into_bytes())
}

/// The position of the minor version in a request line, if Go treats it like HTTP/1.1 and hyper does not.
pub fn minor_version(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let at = line.len().checked_sub(1)?;
    (line[..at].ends_with(b" HTTP/1.") && matches!(line[at], b'2'..=b'9')).then_some(at)
}

type Diagnosis = (StatusCode, Option<&'static str>, Option<&'static str>);

/// Go's answer to a head that hyper could not parse.
fn diagnosis(head: &[u8]) -> Diagnosis {
    const MALFORMED: Diagnosis = (StatusCode::BAD_REQUEST, None, None);
    let mut lines = head.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut words = lines.next().unwrap_or_default().splitn(3, |b| *b == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let good_method = method.is_some_and(|m| !m.is_empty() && m.iter().all(|b| is_token(*b)));
    let major = match version {
        Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor]) if minor.is_ascii_digit() => *major,
        _ => 0,
    };
    let good_target =
        target.is_some_and(|t| t.starts_with(b"/") && t.iter().all(|b| *b > b' ' && *b != 0x7f));
    if !good_method || !good_target || !major.is_ascii_digit() {
        return MALFORMED;
    }
    let (mut spaced, mut coded) = (false, false);
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some(colon) = line.iter().position(|b| *b == b':') else { return MALFORMED };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        spaced |= name.contains(&b' ');
        coded |= name.eq_ignore_ascii_case(b"transfer-encoding") && !value.eq_ignore_ascii_case(b"chunked");
        let good_name =
            !name.is_empty() && name[0] != b' ' && name.iter().all(|b| is_token(*b) || *b == b' ');
        if !good_name || value.iter().any(|b| *b < b' ' && *b != b'\t' || *b == 0x7f) {
            return MALFORMED;
        }
    }
    match major {
        _ if coded => (StatusCode::NOT_IMPLEMENTED, None, Some(NOT_CHUNKED)),
        b'1' if spaced => (StatusCode::BAD_REQUEST, Some("invalid header name"), None),
        b'1' => MALFORMED,
        _ => (StatusCode::HTTP_VERSION_NOT_SUPPORTED, Some("unsupported protocol version"), None),
    }
}

fn plain(code: StatusCode) -> Answer {
    let text = format!("{} {}", code.as_str(), code.canonical_reason().unwrap_or(""));
    let mut answer = respond::answer(code.as_u16(), TEXT, text.into_bytes().into());
    close(&mut answer);
    answer
}

/// Go says what is wrong in the reason phrase, and again in the body.
fn worded(code: StatusCode, words: &str) -> Answer {
    let reason = format!("{}: {words}", code.canonical_reason().unwrap_or(""));
    let text = format!("{} {reason}", code.as_str());
    let mut answer = respond::answer(code.as_u16(), TEXT, text.into_bytes().into());
    if let Ok(reason) = ReasonPhrase::try_from(reason.into_bytes()) {
        answer.extensions_mut().insert(reason);
    }
    close(&mut answer);
    answer
}

fn close(answer: &mut Answer) {
    let headers = answer.headers_mut();
    headers.remove(http::header::CACHE_CONTROL);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

/// Every `%` is followed by the two digits it needs.
fn is_escaped(path: &str) -> bool {
    let mut parts = path.split('%');
    parts.next();
    parts.all(|part| part.as_bytes().iter().take(2).filter(|b| b.is_ascii_hexdigit()).count() == 2)
}

fn may_be_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &[u8] =
        b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";

    fn words(head: &[u8]) -> String {
        let reworded = String::from_utf8(reworded(BARE, head).expect("hyper's own")).expect("text");
        reworded.split_once("\r\n\r\n").expect("a body").1.to_owned()
    }

    #[test]
    fn an_unsupported_version_is_distinguished_from_a_malformed_request() {
        let version = "505 HTTP Version Not Supported: unsupported protocol version";
        assert_eq!(words(b"GET /a HTTP/9.9\r\nHost: x\r\n\r\n"), version);
        assert_eq!(words(b"GET /a HTTP/2.0\r\n\r\n"), version);
        for head in [&b"garbage\r\n\r\n"[..], b"GET /a HTTP/1.10\r\n\r\n", b"GET  /a HTTP/1.1\r\n\r\n", b""] {
            assert_eq!(words(head), "400 Bad Request");
        }
        assert_eq!(words(b"GET /a HTTP/9.9\r\nHost\r\n\r\n"), "400 Bad Request");
        let spaced = "400 Bad Request: invalid header name";
        assert_eq!(words(b"GET /a HTTP/1.1\r\nA B: c\r\n\r\n"), spaced);
        assert_eq!(words(b"POST /a HTTP/1.1\r\nTransfer-Encoding: foo\r\n\r\n"), NOT_CHUNKED);
    }

    #[test]
    fn our_own_answers_pass_as_they_are() {
        assert_eq!(reworded(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""), None);
        assert_eq!(
            reworded(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\naudit-id: a\r\n\r\n", b""),
            None
        );
        assert_eq!(reworded(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\n\r\n", b""), None);
    }

    #[test]
    fn newer_minor_versions_are_served_as_http_1_1() {
        assert_eq!(minor_version(b"GET / HTTP/1.2\r"), Some(13));
        assert_eq!(minor_version(b"GET / HTTP/1.1\r"), None);
        assert_eq!(minor_version(b"GET / HTTP/2.0"), None);
        assert_eq!(minor_version(b""), None);
    }
}
