//! A webhook's answer, judged as upstream judges it.

use std::collections::BTreeSet;

use catalog::Catalog;
use codec::json;
use object::normalise::{Strict, normalise};
use object::patch::json::JsonPatch;
use object::{Status, Value, base64, quote};
use webhook::review::Expected;

use super::call::Failure;
use super::hook::Webhook;

/// Bytes of what a webhook says that are kept, of its warnings together and of its refusal: more than anybody is told of the first, and
/// as much as is read of a refusal by HTTP. A request holds it while others are asked.
const MAX_SAID_BYTES: usize = 64 << 10;
/// Bytes of one warning; no more than 4096 characters are sent.
const MAX_WARNING_BYTES: usize = 16 << 10;
/// Bytes of whole warnings: more than 4096 characters, beyond which clients are sent the beginnings of warnings.
const MAX_WHOLE_BYTES: usize = 48 << 10;
/// What clients are sent of each warning, and of all, once the whole ones are too many.
const WARNING_BEGIN_CHARS: usize = 256;
const MAX_BEGINS_CHARS: usize = 4 << 10;
/// Bytes of a patched object: twice what can be stored, because somebody after it might still make it smaller.
const MAX_PATCHED_BYTES: usize = 3 << 20;
/// A patch of so many bytes adds no more to an object, unless it copies.
const SMALL_PATCH_BYTES: usize = 256 << 10;

/// What a webhook said.
#[derive(Debug)]
pub struct Verdict {
    allowed: bool,
    /// A JSON patch, as it came.
    patch: Vec<u8>,
    patch_type: String,
    /// `status`.
    result: Option<Value>,
    pub audit_annotations: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

/// Why an answer is none.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is not of its type.
    Undecodable(String),
    /// It does not say what it must.
    Invalid(String),
}

impl From<String> for Unusable {
    fn from(why: String) -> Unusable {
        Unusable::Invalid(why)
    }
}

impl From<&str> for Unusable {
    fn from(why: &str) -> Unusable {
        Unusable::Invalid(why.to_owned())
    }
}

/// Whether a value is of a member's type.
type Fits = fn(&Value) -> bool;

/// The response, if Go would read it: members have their types, and `patch` is base64 or a list of bytes.
fn decode<'a>(review: &'a Value, version: &str) -> Result<(Option<&'a Value>, Vec<u8>), String> {
    let wrong = |value: &Value, field: &str, ty: &str| {
        let found = value.json_type();
        format!("json: cannot unmarshal {found} into Go struct field {field} of type {ty}")
    };
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
        return Ok((None, Vec::new()));
    };
    if response.as_map().is_none() {
        return Err(wrong(response, "AdmissionReview.response", &format!("{version}.AdmissionResponse")));
    }
    let patch_type = format!("{version}.PatchType");
    let members: [(&str, &str, Fits); 7] = [
        ("uid", "types.UID", |value| value.as_str().is_some()),
        ("allowed", "bool", |value| value.as_bool().is_some()),
        ("status", "v1.Status", |value| value.as_map().is_some()),
        ("patch", "[]uint8", |value| value.as_str().is_some() || value.as_list().is_some()),
        ("patchType", &patch_type, |value| value.as_str().is_some()),
        ("auditAnnotations", "map[string]string", |value| value.as_map().is_some()),
        ("warnings", "[]string", |value| value.as_list().is_some()),
    ];
    for (name, ty, fits) in members {
        let Some(value) = response.get(name).filter(|value| !value.is_null()) else { continue };
        let field = format!("AdmissionResponse.response.{name}");
        if !fits(value) {
            return Err(wrong(value, &field, ty));
        }
        if name == "patch" {
            continue;
        }
        let items = value.as_list().unwrap_or_default().iter();
        let items = items.chain(
            value
                .as_map()
                .filter(|_| name != "status")
                .into_iter()
                .flat_map(|map| map.iter().map(|(_, value)| value)),
        );
        if let Some(item) = items.into_iter().find(|item| !item.is_null() && item.as_str().is_none()) {
            return Err(wrong(item, &field, "string"));
        }
    }
    let patch = match response.get("patch") {
        Some(Value::List(items)) => base64::bytes_of(items).map_err(|item| {
            let field = "AdmissionResponse.response.patch";
            match item {
                Value::Int(_) | Value::Float(_) => {
                    let number = String::from_utf8(json::to_vec(item)).unwrap_or_default();
                    format!(
                        "json: cannot unmarshal number {number} into Go struct field {field} of type uint8"
                    )
                }
                item => wrong(item, field, "uint8"),
            }
        })?,
        Some(Value::Str(text)) => {
            base64::decode(text).map_err(|at| format!("illegal base64 data at input byte {at}"))?
        }
        _ => Vec::new(),
    };
    Ok((Some(response), patch))
}

/// `status` with the members of its type, and no others.
fn decode_status(mut status: Value, catalog: &Catalog) -> Result<Value, String> {
    if let Some(ty) = catalog.schema().find("meta.v1.Status") {
        normalise(catalog.schema(), ty, &mut status, &mut Strict::off())
            .map_err(|error| error.to_string())?;
    }
    Ok(status)
}

impl Verdict {
    pub fn read(
        review: &Value,
        expected: &Expected,
        uid: &str,
        mutating: bool,
        catalog: &Catalog,
    ) -> Result<Verdict, Unusable> {
        let (response, patch) = decode(review, expected.version).map_err(Unusable::Undecodable)?;
        let response = response.ok_or("webhook response was absent")?;
        let result = response.get("status").filter(|status| !status.is_null()).cloned();
        let result = result.map(|status| decode_status(status, catalog)).transpose();
        let result = result.map_err(Unusable::Undecodable)?;
        let text = |name: &str| response.get(name).and_then(Value::as_str);
        let mut patch_type = text("patchType").map(str::to_owned);
        if expected.version == "v1" {
            let said = text("uid").unwrap_or_default();
            if said != uid {
                return Err(format!("expected response.uid={}, got {}", quote(uid), quote(said)).into());
            }
            expected.check_named(review)?;
            match (mutating, patch.is_empty(), &patch_type) {
                (true, false, None) => {
                    return Err("webhook returned response.patch but not response.patchType".into());
                }
                (true, true, Some(_)) => {
                    return Err("webhook returned response.patchType but not response.patch".into());
                }
                (true, _, Some(named)) if named.is_empty() => {
                    return Err("webhook returned invalid response.patchType of \"\"".into());
                }
                (false, false, _) => return Err("validating webhook may not return response.patch".into()),
                (false, _, Some(_)) => {
                    return Err("validating webhook may not return response.patchType".into());
                }
                _ => {}
            }
        } else {
            patch_type = (mutating && !patch.is_empty()).then(|| "JSONPatch".to_owned());
        }
        let annotations = response.get("auditAnnotations").and_then(Value::as_map);
        let annotations = annotations.into_iter().flat_map(|map| map.iter());
        let warnings = response.get("warnings").and_then(Value::as_list).unwrap_or_default();
        Ok(Verdict {
            allowed: response.get("allowed").and_then(Value::as_bool) == Some(true),
            patch: if mutating { patch } else { Vec::new() },
            patch_type: patch_type.unwrap_or_default(),
            result,
            audit_annotations: annotations
                .map(|(key, value)| (key.to_string(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            warnings: kept_warnings(warnings),
        })
    }

    /// An error where it says no.
    pub fn allowed(&self, hook: &Webhook) -> Result<(), Failure> {
        match self.allowed {
            true => Ok(()),
            false => Err(Failure::Rejected(denied(&hook.name, self.result.as_ref()))),
        }
    }

    /// The object with its patch; `None` if it has none.
    pub fn patched(self, hook: &Webhook, object: Option<&Value>) -> Result<Option<Value>, Failure> {
        self.allowed(hook)?;
        if self.patch.is_empty() {
            return Ok(None);
        }
        let calling = |why: String, code| Failure::Calling {
            message: cut(format!("failed calling webhook {}: {why}", quote(&hook.name))),
            code,
            canceled: false,
        };
        let undecodable =
            |why: String| calling(format!("received undecodable patch in webhook response: {why}"), 503);
        let operations = json::parse(&self.patch, None).map_err(|error| undecodable(error.to_string()))?;
        let is_empty = operations.as_list().is_some_and(|operations| operations.is_empty());
        if is_empty || operations.is_null() {
            return Ok(None);
        }
        let copies = |operation: &Value| operation.str_at(&["op"]) == Some("copy");
        let may_be_large = self.patch.len() > SMALL_PATCH_BYTES
            || operations.as_list().is_some_and(|operations| operations.iter().any(copies));
        let patch = JsonPatch::parse_unchecked(operations).map_err(|status| undecodable(status.message))?;
        let Some(object) = object else {
            let why = format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                quote(&hook.name)
            );
            return Err(Failure::Internal(Status::internal(why)));
        };
        if self.patch_type != "JSONPatch" {
            // The code that a refusal with this result would have.
            let code = denied(&hook.name, self.result.as_ref()).code;
            return Err(calling(format!("unsupported patch type {}", quote(&self.patch_type)), code));
        }
        let mut patched = object.clone();
        patch
            .try_apply(&mut patched)
            .map_err(|failed| Failure::Internal(Status::internal(cut(failed.message))))?;
        if may_be_large {
            let bytes = json::to_vec(&patched).len();
            if bytes > MAX_PATCHED_BYTES {
                return Err(Failure::Internal(Status::too_large(format!(
                    "Request entity too large: the object has {bytes} bytes with the patch of webhook {}, limit is {MAX_PATCHED_BYTES}",
                    quote(&hook.name)
                ))));
            }
        }
        Ok(Some(patched))
    }
}

/// The beginning of a text that a webhook may have made long.
pub fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_SAID_BYTES));
    text
}

/// Those that may be sent: each once, and no more than is good.
fn kept_warnings(warnings: &[Value]) -> Vec<String> {
    let (mut left, mut begins) = (MAX_WHOLE_BYTES, 0);
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for warning in warnings.iter().filter_map(Value::as_str) {
        let warning = &warning[..warning.floor_char_boundary(MAX_WARNING_BYTES)];
        if !seen.insert(warning) {
            continue;
        }
        if let Some(rest) = left.checked_sub(warning.len()) {
            left = rest;
            kept.push(warning.to_owned());
            continue;
        }
        // With this one they are too long to be sent whole.
        let begin: String = warning.chars().take(WARNING_BEGIN_CHARS).collect();
        begins += begin.chars().count();
        kept.push(begin);
        if begins >= MAX_BEGINS_CHARS {
            break;
        }
    }
    kept
}

/// A refusal that is too long without what only programs read.
fn bounded(mut result: Value) -> Value {
    if json::to_vec(&result).len() <= MAX_SAID_BYTES {
        return result;
    }
    let map = result.make_map();
    map.retain(|name, _| matches!(name.as_str(), "status" | "message" | "reason" | "code"));
    for name in ["status", "message", "reason"] {
        let Some(text) = map.get(name).and_then(Value::as_str) else { continue };
        let fits = text[..text.floor_char_boundary(MAX_SAID_BYTES)].to_owned();
        map.set(name, fits);
    }
    result
}

/// Upstream's words around a webhook's own.
fn denied(webhook: &str, result: Option<&Value>) -> Status {
    let mut result = bounded(result.cloned().unwrap_or_else(Value::map));
    let text =
        |result: &Value, name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let code = result.get("code").and_then(Value::as_int).unwrap_or(0);
    let code = u16::try_from(code).ok().filter(|code| *code >= 400).unwrap_or(400);
    let denied = format!("admission webhook {} denied the request", quote(webhook));
    let (said, reason) = (text(&result, "message"), text(&result, "reason"));
    let message = match (said.as_str(), reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (said, _) => format!("{denied}: {said}"),
    };
    let map = result.make_map();
    map.set("code", i64::from(code));
    map.set("message", message);
    if matches!(map.get("status").and_then(Value::as_str), None | Some("" | "Success")) {
        map.set("status", "Failure");
    }
    Status::from_outside(code, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(json: &str) -> Result<String, String> {
        let review = format!(r#"{{"response":{{"patch":{json}}}}}"#);
        let review = json::parse(review.as_bytes(), None).unwrap();
        decode(&review, "v1").map(|(_, patch)| String::from_utf8(patch).unwrap())
    }

    /// As Go's decoder does: line breaks, of Python's `encodebytes` or of `openssl base64`, are no part of it.
    #[test]
    fn patches_are_read_as_leniently_as_upstream_reads_them() {
        assert_eq!(patch(r#""W3sib3Ai\nOiJhIn1d\r\n""#).unwrap(), r#"[{"op":"a"}]"#);
        // The last letter has bits that are in no byte.
        assert_eq!(patch(r#""e31=""#).unwrap(), "{}");
        assert_eq!(patch("[91, 93, null]").unwrap(), "[]\0");
        assert_eq!((patch("null").unwrap(), patch("[]").unwrap()), (String::new(), String::new()));
        let member = "into Go struct field AdmissionResponse.response.patch of type";
        for (wrong, why) in [
            (r#""W10""#, "illegal base64 data at input byte 0".to_owned()),
            (r#""W10=\n%""#, "illegal base64 data at input byte 5".to_owned()),
            ("[91, 256]", format!("json: cannot unmarshal number 256 {member} uint8")),
            (r#"["x"]"#, format!("json: cannot unmarshal string {member} uint8")),
            ("1", format!("json: cannot unmarshal number {member} []uint8")),
        ] {
            assert_eq!(patch(wrong).unwrap_err(), why, "{wrong}");
        }
    }

    const REVIEW: Expected = Expected { group: "admission.k8s.io", version: "v1", kind: "AdmissionReview" };

    fn verdict(members: &str) -> Verdict {
        let review = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"u",{members}}}}}"#
        );
        let review = json::parse(review.as_bytes(), None).unwrap();
        Verdict::read(&review, &REVIEW, "u", true, &Catalog::builtin()).unwrap()
    }

    fn hook() -> Webhook {
        Webhook::read("c", "w.example.com".to_owned(), 0, &Value::map())
    }

    /// A request may hold it while another webhook takes its time.
    #[test]
    fn no_more_is_kept_of_an_answer_than_somebody_is_told() {
        let long = "ä".repeat(1 << 20);
        let warnings: Vec<String> = (0..4000).map(|n| format!(r#""{n} {}""#, "x".repeat(2000))).collect();
        let mut said =
            verdict(&format!(r#""allowed":true,"warnings":["a","a","{long}",{}]"#, warnings.join(",")));
        assert!(said.warnings.iter().map(String::len).sum::<usize>() <= MAX_SAID_BYTES);
        assert_eq!((&*said.warnings[0], said.warnings[1].chars().count()), ("a", MAX_WARNING_BYTES / 2));
        assert!(said.warnings.pop().is_some_and(|last| last.starts_with("31 ")));

        let said = verdict(&format!(
            r#""allowed":false,"status":{{"code":418,"reason":"Tea","message":"{long}","details":{{"name":"{long}"}}}}"#
        ));
        let Err(Failure::Rejected(status)) = said.allowed(&hook()) else { panic!("it was allowed") };
        let document = status.to_value();
        assert_eq!((status.code, document.str_at(&["reason"])), (418, Some("Tea")));
        assert!(json::to_vec(&document).len() < MAX_SAID_BYTES + 1024);
        assert!(status.message.starts_with("admission webhook \"w.example.com\" denied the request: ää"));
    }

    /// Once they are too long, clients are sent 256 characters of each of the first sixteen.
    #[test]
    fn long_warnings_leave_room_for_the_beginnings_of_later_ones() {
        let long = "€".repeat(5000);
        let warnings: Vec<String> = (0..40).map(|n| format!(r#""{n:02}{long}""#)).collect();
        let said = verdict(&format!(r#""allowed":true,"warnings":[{}]"#, warnings.join(",")));
        let lengths: Vec<usize> = said.warnings.iter().map(|warning| warning.chars().count()).collect();
        assert_eq!(lengths, [vec![5002; 3], vec![256; 16]].concat());
        assert!(said.warnings[18].starts_with("18"));
        assert!(said.warnings.iter().map(String::len).sum::<usize>() <= MAX_SAID_BYTES);
    }

    #[test]
    fn an_object_that_a_patch_makes_too_large_is_refused() {
        let large = "x".repeat(600_000);
        let object = json::parse(format!(r#"{{"data":{{"large":"{large}"}}}}"#).as_bytes(), None).unwrap();
        let patched = |patch: String| {
            let patch = base64::encode(patch.as_bytes());
            let said = verdict(&format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#));
            said.patched(&hook(), Some(&object))
        };
        let add =
            |bytes: usize| format!(r#"[{{"op":"add","path":"/data/x","value":"{}"}}"#, "x".repeat(bytes));
        assert!(patched(add(1 << 20) + "]").is_ok());
        let Err(Failure::Internal(status)) = patched(add(4 << 20) + "]") else { panic!("it was taken") };
        assert_eq!(status.code, 413);
        let copies: Vec<String> =
            (0..5).map(|n| format!(r#",{{"op":"copy","from":"/data/large","path":"/data/x{n}"}}"#)).collect();
        let Err(Failure::Internal(status)) = patched(add(1) + &copies.join("") + "]") else {
            panic!("it was taken")
        };
        assert_eq!(status.code, 413);
    }
}
