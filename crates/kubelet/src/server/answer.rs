//! Answers, in the forms kubelet has them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use object::Value;
use streaming::upgrade::{Accepted, Refused};
use tokio::sync::mpsc;

pub type Body = UnsyncBoxBody<Bytes, Infallible>;
pub type Answer = Response<Body>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
/// Prometheus' text format.
const METRICS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
const SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

fn answer(status: StatusCode, kind: Option<HeaderValue>, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    if let Some(kind) = kind {
        answer.headers_mut().insert(CONTENT_TYPE, kind);
    }
    answer
}

/// What go-restful's `WriteError` writes, and anything else in plain words.
pub fn text(status: StatusCode, message: impl Into<Bytes>) -> Answer {
    answer(status, Some(TEXT), message)
}

/// What Go's `http.Error` writes.
pub fn error(status: StatusCode, message: &str) -> Answer {
    let mut answer = text(status, format!("{message}\n"));
    answer.headers_mut().insert(SNIFF, HeaderValue::from_static("nosniff"));
    answer
}

pub fn plain_ok(message: impl Into<Bytes>) -> Answer {
    let mut answer = text(StatusCode::OK, message);
    answer.headers_mut().insert(SNIFF, HeaderValue::from_static("nosniff"));
    answer
}

pub fn json(value: &Value) -> Answer {
    answer(StatusCode::OK, Some(JSON), codec::json::to_vec(value))
}

pub fn yaml(value: &Value) -> Answer {
    let mut text = Vec::new();
    codec::yaml::write(value, &mut text);
    answer(StatusCode::OK, Some(YAML), text)
}

pub fn json_bytes(bytes: Vec<u8>) -> Answer {
    answer(StatusCode::OK, Some(JSON), bytes)
}

pub fn metrics(text: String) -> Answer {
    answer(StatusCode::OK, Some(METRICS), text)
}

/// No handler has such a path.
pub fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// A handler has the first part of the path, and not the rest.
pub fn no_route() -> Answer {
    text(StatusCode::NOT_FOUND, "404: Page Not Found")
}

pub fn method_not_allowed(allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

pub fn moved(to: &'static str) -> Answer {
    let body = format!("<a href=\"{to}\">Moved Permanently</a>.\n\n");
    let mut answer = answer(StatusCode::MOVED_PERMANENTLY, Some(HTML), body);
    answer.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    answer
}

/// To a place beside the one that was asked for.
pub fn redirect(to: &str) -> Answer {
    let mut answer = answer(StatusCode::MOVED_PERMANENTLY, None, Bytes::new());
    if let Ok(to) = HeaderValue::from_str(to) {
        answer.headers_mut().insert(LOCATION, to);
    }
    answer
}

pub fn html(page: String) -> Answer {
    answer(StatusCode::OK, Some(HTML), page)
}

/// What a runtime answered instead of an exec, attach or port-forward.
pub fn runtime_error(error: &cri::Error) -> Answer {
    let status = match error.code {
        cri::Code::NotFound => StatusCode::NOT_FOUND,
        cri::Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut answer = text(status, error.to_string());
    if status == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
    }
    answer
}

pub fn refused(refused: Refused) -> Answer {
    let mut answer = error(refused.status, &refused.message);
    answer.headers_mut().extend(refused.headers);
    answer
}

pub fn switching(accepted: Accepted) -> Answer {
    switching_with(accepted.headers)
}

pub fn switching_with(headers: HeaderMap) -> Answer {
    let mut answer = answer(StatusCode::SWITCHING_PROTOCOLS, None, Bytes::new());
    *answer.headers_mut() = headers;
    answer
}

/// Text that comes bit by bit. `work` writes it, for as long as somebody reads it: it runs in the connection's own task.
pub fn stream(work: impl FnOnce(mpsc::Sender<Bytes>) -> BoxFuture<'static, ()>) -> Answer {
    // One piece waits while another is sent.
    let (sender, pieces) = mpsc::channel(1);
    let mut answer = Response::new(Stream { work: Some(work(sender)), pieces }.boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, TEXT);
    answer
}

struct Stream {
    work: Option<BoxFuture<'static, ()>>,
    pieces: mpsc::Receiver<Bytes>,
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(work) = &mut self.work
            && work.as_mut().poll(cx).is_ready()
        {
            self.work = None;
        }
        self.pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
