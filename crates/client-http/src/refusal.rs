//! Turns what a server says when it refuses into a [`Status`].

use codec::json;
use object::{Cause, Details};
use object::{Status, Value};

/// More of an answer that is no JSON says nothing more.
const SHOWN: usize = 1024;

/// The reasons of `metav1.StatusReason`, and the code each stands for.
const REASONS: [(&str, u16); 19] = [
    ("BadRequest", 400),
    ("Unauthorized", 401),
    ("Forbidden", 403),
    ("NotFound", 404),
    ("MethodNotAllowed", 405),
    ("NotAcceptable", 406),
    ("Conflict", 409),
    ("AlreadyExists", 409),
    ("Expired", 410),
    ("Gone", 410),
    ("RequestEntityTooLarge", 413),
    ("UnsupportedMediaType", 415),
    ("Invalid", 422),
    ("TooManyRequests", 429),
    ("InternalError", 500),
    ("ServerTimeout", 500),
    ("StoreReadError", 500),
    ("ServiceUnavailable", 503),
    ("Timeout", 504),
];

/// The reasons of `metav1.CauseType`, and what servers add to them.
const CAUSES: [&str; 17] = [
    "FieldValueNotFound",
    "FieldValueRequired",
    "FieldValueDuplicate",
    "FieldValueInvalid",
    "FieldValueNotSupported",
    "FieldValueForbidden",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
    "InternalError",
    "UnexpectedServerResponse",
    "FieldManagerConflict",
    "ResourceVersionTooLarge",
    "NamespaceTerminating",
    "DisruptionBudget",
    "InsufficientPods",
    "TypeConverterUnavailable",
];

/// A refused request. `code` is HTTP's: proxies in between write no Status.
pub fn of_answer(code: u16, body: &[u8]) -> Status {
    match json::parse(body, None) {
        Ok(value) if value.str_at(&["kind"]) == Some("Status") => of_status(&value, code),
        _ => {
            let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]);
            let text = text.trim();
            let name = http::StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason());
            let name = name.unwrap_or("an unknown code");
            let colon = if text.is_empty() { "" } else { ": " };
            let message = format!("the server answered {code} ({name}){colon}{text}");
            Status { code, reason: reason_of(code), message, ..Status::unknown("") }
        }
    }
}

/// A Status document, of an answer or of a watch's ERROR event. `code`: for one that names none.
pub(crate) fn of_status(value: &Value, code: u16) -> Status {
    let said = value.get("code").and_then(Value::as_int).and_then(|code| u16::try_from(code).ok());
    let code = said.filter(|code| *code != 0).unwrap_or(code);
    let text = |name: &str| value.str_at(&[name]).unwrap_or("");
    let reason = REASONS.iter().map(|(reason, _)| *reason).find(|reason| *reason == text("reason"));
    // A reason is a static word here; one nobody knows becomes that of its code, unless none was given at all.
    let reason = reason.unwrap_or(if text("reason").is_empty() { "" } else { reason_of(code) });
    let token = value.str_at(&["metadata", "continue"]).filter(|token| !token.is_empty());
    Status {
        code,
        reason,
        message: text("message").to_owned(),
        details: value.get("details").filter(|details| !details.is_null()).map(details),
        continue_token: token.map(str::to_owned),
        warnings: Vec::new(),
        document: None,
    }
}

fn details(value: &Value) -> Details {
    let text = |name: &str| value.str_at(&[name]).unwrap_or("").to_owned();
    let causes = value.get("causes").and_then(Value::as_list).unwrap_or_default();
    let seconds = value.get("retryAfterSeconds").and_then(Value::as_int).unwrap_or(0);
    Details {
        name: text("name"),
        group: text("group"),
        kind: text("kind"),
        uid: text("uid"),
        causes: causes.iter().map(cause).collect(),
        retry_after_seconds: u32::try_from(seconds).unwrap_or(0),
    }
}

fn cause(value: &Value) -> Cause {
    let text = |name: &str| value.str_at(&[name]).unwrap_or("");
    let reason = CAUSES.iter().copied().find(|known| *known == text("reason"));
    Cause {
        reason: reason.unwrap_or(""),
        message: text("message").to_owned(),
        field: text("field").to_owned(),
    }
}

fn reason_of(code: u16) -> &'static str {
    REASONS.iter().find(|(_, of)| *of == code).map_or("", |(reason, _)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{About, FieldError};

    #[test]
    fn a_status_survives_the_wire() {
        let about = About { group: "apps", resource: "deployments" };
        let bad = FieldError::required("spec.selector", "");
        let mut expired = Status::expired("gone");
        expired.continue_token = Some("t".to_owned());
        for status in [
            Status::not_found(about, "web"),
            Status::modified(about, "web"),
            Status::already_exists(about, "web"),
            Status::invalid("apps", "Deployment", "web", vec![bad]),
            Status::too_large_resource_version(9, 1),
            Status::too_many_requests("later", 3),
            Status::internal("x"),
            Status::unknown("no reason at all"),
            expired,
        ] {
            let sent = json::to_vec(&status.to_value());
            assert_eq!(of_answer(status.code, &sent), status);
        }
    }

    #[test]
    fn responses_without_a_status_keep_their_code_and_text() {
        let status = of_answer(502, b"<html>bad gateway</html>\n");
        assert_eq!((status.code, status.reason), (502, ""));
        assert_eq!(status.message, "the server answered 502 (Bad Gateway): <html>bad gateway</html>");
        assert_eq!(of_answer(404, b"").reason, "NotFound");
        assert_eq!(of_answer(403, b"{\"kind\":\"Other\"}").reason, "Forbidden");
        assert_eq!(of_answer(500, &[0xff; 5000]).code, 500);
    }

    #[test]
    fn unknown_reasons_become_the_reason_of_the_code() {
        let status = of_answer(403, br#"{"kind":"Status","reason":"Novel","code":403,"details":{"causes":[{"reason":"New","message":"m"}]}}"#);
        assert_eq!(status.reason, "Forbidden");
        assert_eq!(status.details.unwrap().causes[0].message, "m");
    }
}
