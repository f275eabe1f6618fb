//! Answers that are no success, as client-go words them.

use object::{Value, quote};

use crate::error::CallError;
use crate::review;

/// So much of a body becomes part of a message.
const SHOWN_BYTES: usize = 2048;

/// `content_type`: the header, empty if there is none.
pub(crate) fn of(code: u16, content_type: &str, body: &[u8]) -> CallError {
    if let Some((code, message)) = own_status(code, body) {
        return CallError::Refused { code, message };
    }
    let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]);
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = content_type.is_empty() || media_type.starts_with("text/");
    let shown = if is_text { shown.trim() } else { "unknown" };
    CallError::Refused { code, message: message(code, shown) }
}

/// A Status in the body says it better.
fn own_status(code: u16, body: &[u8]) -> Option<(u16, String)> {
    let status = review::parse(body).ok()?;
    let text = |name| status.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_status = text("kind") == "Status" && matches!(text("apiVersion"), "" | "v1");
    if !is_status || text("status") != "Failure" {
        return None;
    }
    let own = status.get("code").and_then(Value::as_int).and_then(|code| u16::try_from(code).ok());
    Some((own.unwrap_or(code), text("message").to_owned()))
}

fn message(code: u16, shown: &str) -> String {
    let message = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => shown,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if shown.is_empty() || shown == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => shown,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                quote(shown)
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from kube-apiserver v1.36.4 and a webhook that answers so.
    #[test]
    fn refusals_are_worded_as_client_go_does() {
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"mine","code":418}"#;
        let nameless = r#"{"kind":"Status","status":"Failure","message":"mine"}"#;
        let generic = |code| {
            format!("the server responded with the status code {code} but did not return more information")
        };
        for (code, content_type, body, expected) in [
            (
                500,
                "text/plain",
                "  boo \"q\" \n",
                r#"an error on the server ("boo \"q\"") has prevented the request from succeeding"#,
            ),
            (
                500,
                "application/json",
                r#"{"a":1}"#,
                r#"an error on the server ("unknown") has prevented the request from succeeding"#,
            ),
            (500, "", "boo", r#"an error on the server ("boo") has prevented the request from succeeding"#),
            (
                502,
                "text/html",
                "<b>gw</b>",
                r#"an error on the server ("<b>gw</b>") has prevented the request from succeeding"#,
            ),
            (500, "application/json", status, "mine"),
            (500, "text/plain", status, "mine"),
            (500, "application/json", nameless, "mine"),
            (403, "text/plain", "forb", "forb"),
            (403, "application/json", "forb", "unknown"),
            (404, "text/plain", "404 page not found", "the server could not find the requested resource"),
            (415, "text/plain", "unsup", "unsup"),
            (302, "text/plain", "x", &generic(302)),
            (410, "text/plain", "x", &generic(410)),
        ] {
            assert_eq!(of(code, content_type, body.as_bytes()).to_string(), expected, "{code} {body}");
        }
        assert_eq!(of(500, "application/json", status.as_bytes()).code(), 418);
        assert_eq!(of(500, "application/json", nameless.as_bytes()).code(), 500);
    }

    #[test]
    fn a_long_body_is_cut() {
        let shown = of(500, "text/plain", "x".repeat(5000).as_bytes()).to_string();
        assert_eq!(shown.matches('x').count(), 2048);
        // In the middle of a character, too.
        of(500, "text/plain", "ü".repeat(1025).as_bytes());
        of(500, "text/plain", format!("a{}", "ü".repeat(2000)).as_bytes());
    }
}
