//! API failures: `Status` values with upstream's reasons, codes, messages and causes.
//!
//! Every error a client sees is built by one of these constructors, so that each message exists once.

use crate::{Map, Value};

/// A failed request, as sent to the client.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    /// Empty where upstream sends none.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Details>,
    /// Set on a 410 of a paged list: the token to continue with an inconsistent list.
    pub continue_token: Option<String>,
    /// Warnings added before the request failed; sent as headers, not part of the body.
    pub warnings: Vec<String>,
    /// Said by somebody outside, a webhook: sent as it is.
    pub document: Option<Box<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// A resource (`configmaps`) or, for `Invalid`, a kind (`ConfigMap`).
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

/// The group and plural (or kind) a message is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub group: &'a str,
    pub resource: &'a str,
}

impl About<'_> {
    fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
    fn details(&self, name: &str) -> Option<Details> {
        Some(Details {
            name: name.into(),
            group: self.group.into(),
            kind: self.resource.into(),
            ..Details::default()
        })
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Status {
        Status {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Vec::new(),
            document: None,
        }
    }

    /// A Status that somebody outside made, such as a webhook's refusal.
    pub fn from_outside(code: u16, mut document: Value) -> Status {
        const REASONS: [&str; 6] =
            ["BadRequest", "Forbidden", "Invalid", "Conflict", "NotFound", "InternalError"];
        let said = document.str_at(&["reason"]).unwrap_or_default();
        let reason = REASONS.into_iter().find(|reason| *reason == said).unwrap_or_default();
        let message = document.str_at(&["message"]).unwrap_or_default().to_owned();
        // The body has them as they came; the answer's header is made of this.
        let retry_after = document.at(&["details", "retryAfterSeconds"]).and_then(Value::as_int);
        let retry_after = retry_after.and_then(|seconds| u32::try_from(seconds).ok()).filter(|n| *n > 0);
        let details =
            retry_after.map(|retry_after_seconds| Details { retry_after_seconds, ..Details::default() });
        let map = document.make_map();
        map.set("kind", "Status");
        map.set("apiVersion", "v1");
        if map.get("metadata").is_none() {
            map.set("metadata", Map::default());
        }
        Status { details, document: Some(Box::new(document)), ..Status::new(code, reason, message) }
    }
    /// Upstream adds an empty `details` object to the statuses of its generic layer.
    pub fn with_empty_details(mut self) -> Status {
        self.details = Some(Details::default());
        self
    }
    /// The same failure, after these warnings.
    pub fn after_warnings(mut self, warnings: Vec<String>) -> Status {
        self.warnings.splice(0..0, warnings);
        self
    }
    pub fn bad_request(message: impl Into<String>) -> Status {
        Status::new(400, "BadRequest", message)
    }
    /// A name that cannot be part of a key finds nothing: upstream rejects it before the lookup.
    pub fn check_key_name(name: &str) -> Result<(), Status> {
        let mut why = Vec::new();
        match name {
            "" => return Err(Status::bad_request("Name parameter required.")),
            "." => why.push("may not be '.'"),
            ".." => why.push("may not be '..'"),
            _ => {
                if name.contains('/') {
                    why.push("may not contain '/'");
                }
                if name.contains('%') {
                    why.push("may not contain '%'");
                }
            }
        }
        if why.is_empty() {
            return Ok(());
        }
        let why = why.join(";");
        Err(Status::bad_request(format!("Name parameter invalid: {}: {why}", crate::quote(name))))
    }
    pub fn unauthorized() -> Status {
        Status::new(401, "Unauthorized", "Unauthorized")
    }
    /// `reason` completes "x is forbidden: ".
    pub fn forbidden(about: About<'_>, name: &str, reason: impl AsRef<str>) -> Status {
        let reason = reason.as_ref();
        let message = match (about.resource, name) {
            ("", _) => format!("forbidden: {reason}"),
            (_, "") => format!("{} is forbidden: {reason}", about.qualified()),
            _ => format!("{} {} is forbidden: {reason}", about.qualified(), quote(name)),
        };
        Status { details: about.details(name), ..Status::new(403, "Forbidden", message) }
    }
    pub fn not_found(about: About<'_>, name: &str) -> Status {
        let message = format!("{} {} not found", about.qualified(), quote(name));
        Status { details: about.details(name), ..Status::new(404, "NotFound", message) }
    }
    /// No such resource: the path is not served.
    pub fn no_such_resource() -> Status {
        Status::new(404, "NotFound", "the server could not find the requested resource").with_empty_details()
    }
    pub fn method_not_allowed() -> Status {
        Status::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_empty_details()
    }
    pub fn not_acceptable(message: impl Into<String>) -> Status {
        Status::new(406, "NotAcceptable", message)
    }
    pub fn already_exists(about: About<'_>, name: &str) -> Status {
        let message = format!("{} {} already exists", about.qualified(), quote(name));
        Status { details: about.details(name), ..Status::new(409, "AlreadyExists", message) }
    }
    /// The generated name is taken.
    pub fn no_unique_name(about: About<'_>, name: &str) -> Status {
        let mut status = Status::already_exists(about, name);
        status.message.push_str(", the server was not able to generate a unique name for the object");
        if let Some(details) = &mut status.details {
            details.retry_after_seconds = 1;
        }
        status
    }
    /// A conflict with its own message.
    pub fn conflict(about: About<'_>, name: &str, reason: impl AsRef<str>) -> Status {
        let (what, reason) = (about.qualified(), reason.as_ref());
        let message = format!("Operation cannot be fulfilled on {what} {}: {reason}", quote(name));
        Status { details: about.details(name), ..Status::new(409, "Conflict", message) }
    }
    /// Fields of an apply that others own, each with its cause.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Status {
        let details = Details { causes, ..Details::default() };
        Status { details: Some(details), ..Status::new(409, "Conflict", message) }
    }
    /// The object was modified since the resourceVersion of the request.
    pub fn modified(about: About<'_>, name: &str) -> Status {
        let words =
            "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(about, name, words)
    }
    /// 410: a resourceVersion or continue token older than the history.
    pub fn expired(message: impl Into<String>) -> Status {
        Status::new(410, "Expired", message)
    }
    /// 504: the requested resourceVersion does not exist yet.
    pub fn too_large_resource_version(wanted: u64, current: u64) -> Status {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        Status { details: Some(details), ..Status::new(504, "Timeout", message) }
    }
    pub fn too_large(message: impl Into<String>) -> Status {
        Status::new(413, "RequestEntityTooLarge", message)
    }
    /// 405: the resource is served, but not for this verb.
    pub fn not_supported(about: About<'_>, verb: &str) -> Status {
        let About { group, resource } = about;
        let qualified = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let message = format!("{verb} is not supported on resources of kind {}", quote(&qualified));
        let details = Details { group: group.into(), kind: resource.into(), ..Details::default() };
        Status { details: Some(details), ..Status::new(405, "MethodNotAllowed", message) }
    }
    pub fn unsupported_media_type(message: impl Into<String>) -> Status {
        Status::new(415, "UnsupportedMediaType", message)
    }
    /// The object is invalid; every error is a cause. `kind` is a kind, not a resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: Vec<FieldError>) -> Status {
        let listed = match errors.as_slice() {
            [one] => one.to_string(),
            many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = if errors.is_empty() {
            format!("{qualified} {} is invalid", quote(name))
        } else {
            format!("{qualified} {} is invalid: {listed}", quote(name))
        };
        let causes = errors
            .into_iter()
            .map(|e| Cause { reason: e.kind.reason(), message: e.detail_message(), field: e.field })
            .collect();
        let details = Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes,
            ..Details::default()
        };
        Status { details: Some(details), ..Status::new(422, "Invalid", message) }
    }
    /// A patch whose operations do not apply.
    pub fn unprocessable() -> Status {
        Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .with_empty_details()
    }
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Status {
        let details = Details { retry_after_seconds, ..Details::default() };
        Status { details: Some(details), ..Status::new(429, "TooManyRequests", message) }
    }
    pub fn internal(message: impl AsRef<str>) -> Status {
        let message = message.as_ref();
        let cause = Cause { reason: "", message: message.to_owned(), field: String::new() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Status {
            details: Some(details),
            ..Status::new(500, "InternalError", format!("Internal error occurred: {message}"))
        }
    }
    /// A 500 without a reason: upstream's response for errors that are not API errors.
    pub fn unknown(message: impl Into<String>) -> Status {
        Status::new(500, "", message)
    }
    pub fn unavailable(message: impl Into<String>) -> Status {
        Status::new(503, "ServiceUnavailable", message)
    }
    /// The client took too long to send its request.
    pub fn request_timeout(message: impl Into<String>) -> Status {
        Status::new(408, "Timeout", message).with_empty_details()
    }
    /// 507: the store is full. Upstream answers 500 with the same message from etcd.
    pub fn insufficient_storage(why: impl AsRef<str>) -> Status {
        let message = format!("etcdserver: mvcc: database space exceeded: {}", why.as_ref());
        Status::new(507, "InsufficientStorage", message)
    }
    pub fn timeout(message: impl AsRef<str>) -> Status {
        Status::new(504, "Timeout", format!("Timeout: {}", message.as_ref())).with_empty_details()
    }

    /// A request whose deadline has passed.
    pub fn out_of_time() -> Status {
        Status::timeout("request did not complete within requested timeout - context deadline exceeded")
    }

    /// The Status object a client receives.
    pub fn to_value(&self) -> Value {
        if let Some(document) = &self.document {
            return (**document).clone();
        }
        let mut out = Map::default();
        out.set("kind", "Status");
        out.set("apiVersion", "v1");
        let mut metadata = Map::default();
        if let Some(token) = &self.continue_token {
            metadata.set("continue", token.as_str());
        }
        out.set("metadata", metadata);
        out.set("status", "Failure");
        out.set("message", self.message.as_str());
        if !self.reason.is_empty() {
            out.set("reason", self.reason);
        }
        if let Some(details) = &self.details {
            out.set("details", details.to_value());
        }
        out.set("code", i64::from(self.code));
        Value::Map(out)
    }
}

impl Details {
    /// Empty members are left out, as everywhere.
    pub fn to_value(&self) -> Value {
        let mut out = Map::default();
        for (name, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                out.set(name, text.as_str());
            }
        }
        if !self.causes.is_empty() {
            out.set("causes", self.causes.iter().map(Cause::to_value).collect::<Vec<_>>());
        }
        if self.retry_after_seconds > 0 {
            out.set("retryAfterSeconds", i64::from(self.retry_after_seconds));
        }
        Value::Map(out)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = Map::default();
        for (name, text) in [("reason", self.reason), ("message", &self.message), ("field", &self.field)] {
            if !text.is_empty() {
                out.set(name, text);
            }
        }
        Value::Map(out)
    }
}

/// A validation error of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    /// `spec.containers[0].name`.
    pub field: String,
    /// The offending value as upstream prints it (strings quoted); empty where it prints none.
    pub bad_value: String,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
    Internal,
    TypeInvalid,
}

impl FieldErrorKind {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

impl FieldError {
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::plain(FieldErrorKind::Required, field, detail)
    }
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::plain(FieldErrorKind::Forbidden, field, detail)
    }
    pub fn too_long(field: impl Into<String>, bytes: usize) -> FieldError {
        FieldError::plain(FieldErrorKind::TooLong, field, format!("may not be more than {bytes} bytes"))
    }
    /// `bad_value` already printed: quote strings with [`quote`].
    pub fn invalid(
        field: impl Into<String>,
        bad_value: impl Into<String>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError {
            kind: FieldErrorKind::Invalid,
            field: field.into(),
            bad_value: bad_value.into(),
            detail: detail.into(),
        }
    }
    /// `supported` in the order upstream lists them (sorted).
    pub fn not_supported(
        field: impl Into<String>,
        bad_value: impl Into<String>,
        supported: &[&str],
    ) -> FieldError {
        let listed: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        FieldError {
            kind: FieldErrorKind::NotSupported,
            field: field.into(),
            bad_value: bad_value.into(),
            detail: format!("supported values: {}", listed.join(", ")),
        }
    }
    fn plain(kind: FieldErrorKind, field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError { kind, field: field.into(), bad_value: String::new(), detail: detail.into() }
    }
    /// Everything after the field's path.
    fn detail_message(&self) -> String {
        let mut out = self.kind.words().to_owned();
        if !self.bad_value.is_empty() {
            out.push_str(": ");
            out.push_str(&self.bad_value);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.detail_message())
    }
}

/// Parses a number as Go does, or returns Go's error message.
pub fn parse_int(text: &str) -> Result<i64, String> {
    let words = |error| format!("strconv.ParseInt: parsing {}: {}", quote(text), number_error(&error));
    text.parse().map_err(words)
}

/// What Go says is wrong with a number.
pub fn number_error(error: &std::num::ParseIntError) -> &'static str {
    match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// A string the way Go's `%q` prints it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_ascii() || is_printable(c) => out.push(c),
            c if c <= '\u{ffff}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// Whether Go prints a character as it is: letters, marks, numbers, punctuation, symbols. Rust escapes the others, too, and a mark
/// only where it has no letter before it.
fn is_printable(c: char) -> bool {
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().nth(1) == Some(c)
}
