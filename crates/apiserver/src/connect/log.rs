//! `pods/log`: the kubelet's log of a container, passed on as it comes; over a WebSocket too.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use object::{Details, Status, quote};

use super::Connect;
use super::backend::Backend;
use super::options::LogOptions;
use crate::body::{Body, RequestBody};
use crate::proxied_body::{ProxiedBody, ProxiedSettings};
use crate::respond::{self, Answer};
use crate::websocket;

/// How much of a kubelet's error is read, as upstream has it.
const MAX_ERROR: usize = 50_000;

impl Connect<'_> {
    pub(super) async fn log(&self) -> Result<Answer, Status> {
        let options = LogOptions::read(self.query)?;
        self.api.metrics.connect().log_requested(options.skip_verify);
        let errors = options.validate();
        if !errors.is_empty() {
            return Err(Status::invalid("", "PodLogOptions", self.request.name, errors));
        }
        let pod = self.pod().await?;
        let container = self.container(&pod)?;
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or("");
        if node.is_empty() {
            // A pod without a node has no log yet.
            let mut answer = respond::answer(204, "text/plain", Body::empty());
            answer.headers_mut().remove(CONTENT_TYPE);
            return Ok(answer);
        }
        let kubelet = self.kubelet(node).await?;
        let target = self.kubelet_target(kubelet, options.skip_verify);
        let mut path = format!("/containerLogs/{}/{}/{container}", self.request.namespace, self.request.name);
        let query = options.to_query();
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        let failed = |why: String| {
            if why.contains("x509:") {
                self.api.metrics.connect().log_tls_failed();
            }
            Status::unknown(format!("Get {}: {why}", quote(&format!("https://{}{path}", target.address))))
        };
        let slot = self.slot()?;
        let backend = Backend::open(self.api.registry.env(), &target, slot).await.map_err(failed)?;
        let request = Request::get(path.as_str())
            .header(HOST, target.address.to_string())
            .body(RequestBody::Whole(Bytes::new()).forward())
            .map_err(|error| Status::internal(error.to_string()))?;
        let (response, connection) = backend.send(request).await.map_err(failed)?;
        if response.status().is_redirection() && response.headers().contains_key(http::header::LOCATION) {
            return Err(failed("redirects forbidden".to_owned()));
        }
        if !(200..=206).contains(&response.status().as_u16()) {
            return Err(self.kubelet_error(response.status(), response.into_body()).await);
        }
        let settings = ProxiedSettings {
            // A log that is followed has no end of its own.
            shutdown: options.follow.then(|| self.api.shutdown()),
            cut_is_end: true,
            gauge: self.gauge(200),
            deadline: None,
        };
        let body = ProxiedBody::new(Bytes::new(), response.into_body(), connection, settings);
        let opened = websocket::open_bytes(self.parts, Body::Proxied(Box::new(body)));
        Ok(opened.unwrap_or_else(|body| respond::answer(200, "text/plain", body)))
    }

    /// A kubelet's refusal as a Status.
    async fn kubelet_error(&self, code: StatusCode, body: Incoming) -> Status {
        let text = match read_up_to(body, MAX_ERROR).await {
            Ok(text) => text,
            Err(why) => return Status::internal(why),
        };
        match code.as_u16() {
            500 => Status::internal(text),
            400 => Status::bad_request(text),
            code => server_response(code, self.request.name, &text),
        }
    }
}

/// The beginning of a body, as text.
pub(super) async fn read_up_to(body: Incoming, most: usize) -> Result<String, String> {
    let mut body = Limited::new(body, most);
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => all.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(error) if error.is::<LengthLimitError>() => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// What client-go makes of an answer that is no Status.
fn server_response(code: u16, name: &str, text: &str) -> Status {
    let (reason, message) = match code {
        409 => ("Conflict", "the server reported a conflict"),
        404 => ("NotFound", "the server could not find the requested resource"),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => ("Forbidden", text),
        406 if matches!(text, "" | "unknown") => {
            ("NotAcceptable", "the server was unable to respond with a content type that the client supports")
        }
        406 => ("NotAcceptable", text),
        415 => ("UnsupportedMediaType", text),
        405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        501.. => ("InternalError", ""),
        _ => ("", ""),
    };
    let message = match (reason, message) {
        ("InternalError", _) => {
            format!("an error on the server ({}) has prevented the request from succeeding", quote(text))
        }
        ("", _) => {
            format!("the server responded with the status code {code} but did not return more information")
        }
        (_, message) => message.to_owned(),
    };
    let details = Details { kind: "pods/log".to_owned(), name: name.to_owned(), ..Details::default() };
    Status {
        code,
        reason,
        message: format!("{message} ( pods/log {name})"),
        details: Some(details),
        ..Status::unknown("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_a_kubelet_are_worded_as_client_go_words_them() {
        let cases = [
            (404, "NotFound", "the server could not find the requested resource ( pods/log a)"),
            (403, "Forbidden", "no ( pods/log a)"),
            (
                418,
                "",
                "the server responded with the status code 418 but did not return more information ( pods/log a)",
            ),
            (
                502,
                "InternalError",
                "an error on the server (\"no\") has prevented the request from succeeding ( pods/log a)",
            ),
        ];
        for (code, reason, message) in cases {
            let status = server_response(code, "a", "no");
            assert_eq!((status.code, status.reason, &*status.message), (code, reason, message));
        }
    }
}
