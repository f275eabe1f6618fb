//! The one place where results become HTTP responses.

use bytes::{Bytes, BytesMut};
use catalog::Catalog;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use object::{Status, Value};

use crate::body::Body;
use crate::negotiate::{Encoding, Negotiated};
use crate::{views, warnings};

pub type Answer = Response<Body>;

/// An error, in the encoding of the client.
pub fn status(catalog: &Catalog, status: &Status, wanted: Negotiated) -> Answer {
    let mut answer = value(catalog, status.code, &status.to_value(), wanted);
    warn(&mut answer, &status.warnings);
    if let Some(details) = &status.details
        && details.retry_after_seconds > 0
    {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(details.retry_after_seconds));
    }
    if status.code == 401 {
        // Upstream answers 401 without naming a scheme; clients only look at the code.
        answer.headers_mut().remove(WWW_AUTHENTICATE);
    }
    answer
}

pub fn json_bytes(code: u16, bytes: Bytes) -> Answer {
    answer(code, "application/json", bytes.into())
}

pub fn text(code: u16, text: impl Into<String>) -> Answer {
    let mut answer = answer(code, "text/plain; charset=utf-8", text.into().into_bytes().into());
    // A message may echo the request: browsers must not take it for a page.
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The 404 of paths outside the API.
pub fn page_not_found() -> Answer {
    text(404, "404 page not found\n")
}

/// A tree in the negotiated encoding.
pub fn value(catalog: &Catalog, code: u16, value: &Value, wanted: Negotiated) -> Answer {
    let mut bytes = views::encode_value(catalog, value, wanted.encoding);
    if wanted.encoding == Encoding::Json {
        bytes.push(b'\n');
    }
    answer(code, wanted.content_type(), bytes.into())
}

/// JSON in the negotiated encoding; without a copy if that is JSON.
pub fn encoded(catalog: &Catalog, code: u16, bytes: Bytes, wanted: Negotiated) -> Answer {
    let body = match wanted.encoding {
        Encoding::Json => line(bytes).into(),
        other => views::encode(catalog, &bytes, other).into(),
    };
    answer(code, wanted.content_type(), body)
}

/// JSON in one line ends with a newline, as Go's encoder writes it.
pub fn line(bytes: Bytes) -> Bytes {
    if bytes.ends_with(b"\n") {
        return bytes;
    }
    let mut bytes = BytesMut::from(bytes);
    bytes.extend_from_slice(b"\n");
    bytes.freeze()
}

pub fn answer(code: u16, content_type: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// Warnings as `299 - "text"` headers: each text once, and truncated if they are too long together.
pub fn warn(answer: &mut Answer, warnings: &[String]) {
    for text in warnings::fitting(warnings) {
        answer.headers_mut().append(WARNING, text);
    }
}

/// A warning before all others.
pub fn warn_first(answer: &mut Answer, warning: &str) {
    let headers = answer.headers_mut();
    let others: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    for value in warnings::fitting(&[warning.to_owned()]).into_iter().chain(others) {
        headers.append(WARNING, value);
    }
}
