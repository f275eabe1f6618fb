//! What a webhook answered: is it what was asked for?

use object::{Value, quote};

use super::{ConversionError, ReviewVersion, Subject, metadata};
use crate::metrics::FailureType;
use crate::review::{self, member, parse_group_version};

/// So much of an object becomes part of a message. Upstream shows all of it.
const SHOWN_BYTES: usize = 16 << 10;

/// What was wrong, before it is known how to name what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No usable answer.
    Call(String),
    /// The answer is a refusal, or to another question.
    Malformed(String),
    Count {
        returned: usize,
        expected: usize,
    },
    /// The object at this place is none.
    Unreadable {
        at: usize,
        why: String,
    },
    /// It is of another group, version or kind.
    Type {
        at: usize,
        why: String,
    },
    /// It is another object.
    Object {
        at: usize,
        why: String,
    },
    Metadata {
        at: usize,
        why: String,
    },
}

impl Failure {
    /// Which object it is about.
    pub(super) fn at(&self) -> usize {
        match self {
            Failure::Call(_) | Failure::Malformed(_) | Failure::Count { .. } => 0,
            Failure::Unreadable { at, .. }
            | Failure::Type { at, .. }
            | Failure::Object { at, .. }
            | Failure::Metadata { at, .. } => *at,
        }
    }

    /// `about`: the apiVersion and kind it is about; `before`: objects converted by earlier calls.
    pub(super) fn of(self, subject: Subject<'_>, about: (String, String), before: usize) -> ConversionError {
        let (group, version) = parse_group_version(&about.0).unwrap_or_default();
        let webhook = format!("conversion webhook for {group}/{version}, Kind={}", about.1);
        let invalid = FailureType::InvalidConvertedObject;
        let is_list = matches!(subject, Subject::List { .. });
        let (message, failure) = match self {
            Failure::Call(why) => (format!("{webhook} failed: {why}"), FailureType::Call),
            Failure::Malformed(why) => (format!("{webhook} failed: {why}"), FailureType::MalformedResponse),
            Failure::Count { returned, expected } => (
                format!("{webhook} returned {returned} objects, expected {expected}"),
                FailureType::PartialResponse,
            ),
            Failure::Unreadable { at, why } | Failure::Type { at, why } | Failure::Object { at, why }
                if is_list =>
            {
                let at = before + at;
                (format!("{webhook} returned invalid converted object at index {at}: {why}"), invalid)
            }
            Failure::Metadata { at, why } if is_list => {
                let at = before + at;
                (format!("{webhook} returned invalid metadata in object at index {at}: {why}"), invalid)
            }
            // Of a single object upstream says no more.
            Failure::Unreadable { why, .. } => (why, invalid),
            Failure::Type { why, .. } => {
                (format!("{webhook} returned invalid object at index 0: {why}"), invalid)
            }
            Failure::Object { why, .. } => (format!("{webhook} returned invalid object: {why}"), invalid),
            Failure::Metadata { why, .. } => (format!("{webhook} returned invalid metadata: {why}"), invalid),
        };
        ConversionError { message, failure: Some(failure) }
    }
}

/// The converted objects, one for each original, with the metadata of the originals but for labels and annotations.
pub fn judge(
    version: ReviewVersion,
    uid: &str,
    originals: &[&Value],
    desired: &str,
    body: &[u8],
) -> Result<Vec<Value>, Failure> {
    let mut review = review::decode(body, &version.expected()).map_err(Failure::Call)?;
    check_types(version, &review).map_err(Failure::Call)?;
    check_response(version, uid, &review).map_err(Failure::Malformed)?;
    let converted = review.as_map_mut().and_then(|review| review.get_mut("response"));
    let converted =
        converted.and_then(Value::as_map_mut).and_then(|response| response.remove("convertedObjects"));
    let mut converted = match converted {
        Some(Value::List(list)) => list,
        _ => Vec::new(),
    };
    if converted.len() != originals.len() {
        return Err(Failure::Count { returned: converted.len(), expected: originals.len() });
    }
    for (at, (original, object)) in originals.iter().zip(&mut converted).enumerate() {
        check_object(object).map_err(|why| Failure::Unreadable { at, why })?;
        check_kind(original, object, desired).map_err(|why| Failure::Type { at, why })?;
        check_identity(original, object).map_err(|why| Failure::Object { at, why })?;
        metadata::restore(original, object).map_err(|why| Failure::Metadata { at, why })?;
    }
    Ok(converted)
}

/// Go reads into a struct: members must have its types.
fn check_types(version: ReviewVersion, review: &Value) -> Result<(), String> {
    let of = "ConversionResponse.response";
    let response = format!("{}.ConversionResponse", version.expected().version);
    let Some(response) = member(review, "response", "object", "ConversionReview", &response)? else {
        return Ok(());
    };
    member(response, "uid", "string", of, "types.UID")?;
    member(response, "convertedObjects", "array", of, "[]runtime.RawExtension")?;
    let Some(result) = member(response, "result", "object", of, "v1.Status")? else { return Ok(()) };
    let of = "Status.response.result";
    for (name, ty) in [("status", "string"), ("message", "string"), ("reason", "v1.StatusReason")] {
        member(result, name, "string", of, ty)?;
    }
    member(result, "code", "number", of, "int32")?;
    Ok(())
}

fn check_response(version: ReviewVersion, uid: &str, review: &Value) -> Result<(), String> {
    // v1beta1 looks neither at the answer's own kind nor at its uid.
    if version == ReviewVersion::V1 {
        version.expected().check_named(review)?;
    }
    let response =
        review.get("response").filter(|response| !response.is_null()).ok_or("no response provided")?;
    let text = |path: &[&str]| response.str_at(path).unwrap_or_default();
    if version == ReviewVersion::V1 && text(&["uid"]) != uid {
        return Err(format!("expected response.uid={}, got {}", quote(uid), quote(text(&["uid"]))));
    }
    match (text(&["result", "status"]), text(&["result", "message"])) {
        ("Success", _) => Ok(()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// Anything with a kind.
fn check_object(object: &Value) -> Result<(), String> {
    match object {
        Value::Null => return Err("unexpected end of JSON input".to_owned()),
        Value::Map(_) => {}
        other => {
            let found = other.json_type();
            return Err(format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            ));
        }
    }
    // An apiVersion that is none takes the kind with it.
    if parse_group_version(text(object, "apiVersion")).is_none() || text(object, "kind").is_empty() {
        let mut shown = codec::json::to_vec(object);
        if shown.len() > SHOWN_BYTES {
            shown.truncate(SHOWN_BYTES);
            shown.extend_from_slice(b"...");
        }
        return Err(format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(&shown)));
    }
    Ok(())
}

fn check_kind(original: &Value, object: &Value, desired: &str) -> Result<(), String> {
    let received = text(object, "apiVersion");
    if parse_group_version(received) != parse_group_version(desired) {
        return Err(format!("invalid groupVersion (expected {desired}, received {received})"));
    }
    let (expected, received) = (text(original, "kind"), text(object, "kind"));
    if expected != received {
        return Err(format!("invalid kind (expected {expected}, received {received})"));
    }
    Ok(())
}

fn check_identity(original: &Value, object: &Value) -> Result<(), String> {
    for (name, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let of = |value: &Value| value.str_at(&["metadata", name]).unwrap_or_default().to_owned();
        let (expected, received) = (of(original), of(object));
        if expected != received {
            return Err(format!("must have the same {shown}: {expected} != {received}"));
        }
    }
    Ok(())
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
