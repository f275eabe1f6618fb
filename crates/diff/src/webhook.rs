//! The webhook that servers ask in cases about admission: it answers as its path says, and keeps what it was asked.
//!
//! `/m07/label` is the mutating webhook `m07`, which puts a label on what it sees; `/v01/deny` a validating one that refuses.

use std::sync::{Mutex, PoisonError};

use object::Value;

use crate::case::{parse, text_of};

/// Calls that are kept until somebody asks for them; more are dropped, which a comparison shows.
const MOST_CALLS: usize = 4096;

/// What a webhook was asked.
#[derive(Debug, Clone)]
pub struct Call {
    /// `m07`: mutating ones begin with an m.
    pub webhook: String,
    /// `request` of the review.
    pub request: Value,
    /// `admission.k8s.io/v1`.
    pub version: String,
}

impl Call {
    /// Calls in the order of their webhooks say nothing where webhooks are asked all at once.
    pub fn is_validating(&self) -> bool {
        is_validating(&self.webhook)
    }
}

pub fn is_validating(webhook: &str) -> bool {
    webhook.starts_with('v')
}

/// Answers for one server, and what that server asked.
#[derive(Default)]
pub struct Webhook {
    /// Guards the calls since they were taken last.
    calls: Mutex<Vec<Call>>,
}

impl Webhook {
    /// Status and body.
    pub fn answer(&self, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let Some(review) = parse(&String::from_utf8_lossy(body)) else { return (400, Vec::new()) };
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let (webhook, behaviour) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let call = Call {
            webhook: webhook.to_owned(),
            request: review.get("request").cloned().unwrap_or(Value::Null),
            version: review.str_at(&["apiVersion"]).unwrap_or_default().to_owned(),
        };
        let answer = answer(webhook, behaviour, &call);
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() < MOST_CALLS {
            calls.push(call);
        }
        answer
    }

    /// The calls since the last time.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a webhook may do wrong or right, by the name that stands in its path. `$UID` and `$VERSION` become those of the review.
pub const BEHAVIOURS: &[(&str, u16, &str)] = &[
    (
        "deny",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":false}}"#,
    ),
    (
        "deny-message",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":false,"status":{"message":"not this one"}}}"#,
    ),
    (
        "deny-reason",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":false,"status":{"reason":"Teapot"}}}"#,
    ),
    (
        "deny-code",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":false,"status":{"code":418,"message":"short","reason":"Stout"}}}"#,
    ),
    (
        "deny-code-200",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":false,"status":{"code":200,"status":"Success","message":"fine"}}}"#,
    ),
    (
        "deny-details",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":false,"status":{"code":422,"reason":"Invalid","message":"m","details":{"name":"n","kind":"k","causes":[{"reason":"FieldValueInvalid","message":"c","field":"data"}],"retryAfterSeconds":3}}}}"#,
    ),
    (
        "deny-warn",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":false,"warnings":["first","second"]}}"#,
    ),
    (
        "warn",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"warnings":["careful","careful","","more \"so\""]}}"#,
    ),
    (
        "annotate",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"auditAnnotations":{"a":"1","not a key":"2"}}}"#,
    ),
    (
        "allow-status",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"status":{"code":500,"message":"ignored"}}}"#,
    ),
    (
        "wrong-uid",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"other","allowed":true}}"#,
    ),
    ("no-uid", 200, r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"allowed":true}}"#),
    ("no-response", 200, r#"{"apiVersion":"$VERSION","kind":"AdmissionReview"}"#),
    ("null-response", 200, r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":null}"#),
    ("no-version", 200, r#"{"response":{"uid":"$UID","allowed":true}}"#),
    (
        "wrong-kind",
        200,
        r#"{"apiVersion":"$VERSION","kind":"ConversionReview","response":{"uid":"$UID","allowed":true}}"#,
    ),
    (
        "wrong-version",
        200,
        r#"{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true}}"#,
    ),
    (
        "old-version",
        200,
        r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true}}"#,
    ),
    (
        "wrong-type",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":"yes"}}"#,
    ),
    (
        "wrong-warnings",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"warnings":"one"}}"#,
    ),
    (
        "unknown-field",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"more":1}}"#,
    ),
    ("rubbish", 200, "<html>no</html>"),
    ("cut", 200, r#"{"apiVersion":"$VERSION","kind":"#),
    ("list", 200, "[]"),
    ("empty", 200, ""),
    ("null", 200, "null"),
    ("status-500", 500, "broken"),
    ("status-404", 404, "404 page not found\n"),
    (
        "status-403",
        403,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"not you","reason":"Forbidden","code":403}"#,
    ),
    (
        "status-503",
        503,
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"later","code":503}"#,
    ),
    ("status-204", 204, ""),
    (
        "status-202",
        202,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true}}"#,
    ),
    (
        "patch-only",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"patch":"W10="}}"#,
    ),
    (
        "patch-type-only",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"patchType":"JSONPatch"}}"#,
    ),
    (
        "patch-empty-type",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"patchType":"","patch":"W10="}}"#,
    ),
    (
        "patch-other-type",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"patchType":"MergePatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEveCIsInZhbHVlIjoieSJ9XQ=="}}"#,
    ),
    (
        "patch-not-base64",
        200,
        r#"{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{"uid":"$UID","allowed":true,"patchType":"JSONPatch","patch":"%%%"}}"#,
    ),
];

/// Patches by the name that stands in a path, as JSON.
pub const PATCHES: &[(&str, &str)] = &[
    ("patch-nothing", "[]"),
    ("patch-null", "null"),
    ("patch-no-list", r#"{"op":"add","path":"/data/x","value":"y"}"#),
    ("patch-cut", r#"[{"op":"add""#),
    ("patch-add", r#"[{"op":"add","path":"/data/x","value":"y"}]"#),
    ("patch-same", r#"[{"op":"replace","path":"/data/k","value":"1"}]"#),
    ("patch-remove", r#"[{"op":"remove","path":"/data/k"}]"#),
    ("patch-remove-missing", r#"[{"op":"remove","path":"/data/none"}]"#),
    ("patch-replace-missing", r#"[{"op":"replace","path":"/data/none","value":"1"}]"#),
    ("patch-add-below-nothing", r#"[{"op":"add","path":"/metadata/annotations/a","value":"1"}]"#),
    (
        "patch-test",
        r#"[{"op":"test","path":"/data/k","value":"1"},{"op":"add","path":"/data/tested","value":"yes"}]"#,
    ),
    ("patch-test-fails", r#"[{"op":"test","path":"/data/k","value":"other"}]"#),
    ("patch-unknown-op", r#"[{"op":"jump","path":"/data/k"}]"#),
    ("patch-no-path", r#"[{"op":"add","value":"1"}]"#),
    ("patch-no-value", r#"[{"op":"add","path":"/data/x"}]"#),
    ("patch-copy", r#"[{"op":"copy","from":"/data/k","path":"/data/copied"}]"#),
    ("patch-move", r#"[{"op":"move","from":"/data/k","path":"/data/moved"}]"#),
    (
        "patch-whole",
        r#"[{"op":"replace","path":"","value":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}}]"#,
    ),
    ("patch-wrong-type", r#"[{"op":"replace","path":"/data","value":5}]"#),
    ("patch-wrong-value-type", r#"[{"op":"add","path":"/data/x","value":5}]"#),
    ("patch-unknown-field", r#"[{"op":"add","path":"/spec","value":{"a":1}}]"#),
    ("patch-name", r#"[{"op":"replace","path":"/metadata/name","value":"renamed"}]"#),
    ("patch-namespace", r#"[{"op":"replace","path":"/metadata/namespace","value":"elsewhere"}]"#),
    ("patch-kind", r#"[{"op":"replace","path":"/kind","value":"Secret"}]"#),
    ("patch-version", r#"[{"op":"replace","path":"/apiVersion","value":"v2"}]"#),
    ("patch-bad-label", r#"[{"op":"add","path":"/metadata/labels","value":{"not a key":"x"}}]"#),
    ("patch-finalizer", r#"[{"op":"add","path":"/metadata/finalizers","value":["example.com/held"]}]"#),
    ("patch-uid", r#"[{"op":"add","path":"/metadata/uid","value":"11111111-1111-1111-1111-111111111111"}]"#),
    ("patch-managed-fields", r#"[{"op":"add","path":"/metadata/managedFields","value":[]}]"#),
    ("patch-immutable", r#"[{"op":"add","path":"/immutable","value":true}]"#),
];

fn answer(webhook: &str, behaviour: &str, call: &Call) -> (u16, Vec<u8>) {
    let uid = call.request.str_at(&["uid"]).unwrap_or_default();
    let filled = |text: &str| text.replace("$UID", uid).replace("$VERSION", &call.version).into_bytes();
    if let Some((_, code, text)) = BEHAVIOURS.iter().find(|(name, ..)| *name == behaviour) {
        return (*code, filled(text));
    }
    let patch = match behaviour {
        "label" => label(webhook, &call.request),
        _ => PATCHES.iter().find(|(name, _)| *name == behaviour).map(|(_, patch)| (*patch).to_owned()),
    };
    let patch =
        patch.map(|patch| format!(r#","patchType":"JSONPatch","patch":"{}""#, base64(patch.as_bytes())));
    let text = format!(
        r#"{{"apiVersion":"$VERSION","kind":"AdmissionReview","response":{{"uid":"$UID","allowed":true{}}}}}"#,
        patch.unwrap_or_default()
    );
    (200, filled(&text))
}

/// The webhook's name as a label, where there is something to label that has not got it.
fn label(webhook: &str, request: &Value) -> Option<String> {
    let metadata = request.at(&["object", "metadata"])?;
    match metadata.get("labels") {
        Some(labels) if labels.get(webhook).is_some() => None,
        Some(_) => Some(format!(r#"[{{"op":"add","path":"/metadata/labels/{webhook}","value":"yes"}}]"#)),
        None => Some(format!(r#"[{{"op":"add","path":"/metadata/labels","value":{{"{webhook}":"yes"}}}}]"#)),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A call as it is compared: `request` without what is of one time or one server only.
pub fn told(call: &Call, normalised: Value) -> Value {
    let mut out = Value::map();
    let map = out.make_map();
    map.set("webhook", call.webhook.clone());
    map.set("version", call.version.clone());
    map.set("request", normalised);
    out
}

/// `m01 m02 v07`.
pub fn names(calls: &[Value]) -> String {
    let names: Vec<&str> = calls.iter().filter_map(|call| call.str_at(&["webhook"])).collect();
    names.join(" ")
}

/// All that was asked, for a recording.
pub fn text(calls: &[Value]) -> String {
    calls.iter().map(text_of).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_answers_as_its_path_says_and_keeps_what_it_was_asked() {
        let webhook = Webhook::default();
        let review = r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":{"metadata":{"labels":{"m1":"yes"}}}}}"#;
        let ask = |path: &str| {
            let (code, body) = webhook.answer(path, review.as_bytes());
            (code, String::from_utf8(body).unwrap())
        };
        assert!(ask("/v1/allow").1.contains(r#""uid":"u","allowed":true}"#));
        assert!(ask("/v1/deny").1.contains(r#""allowed":false"#));
        assert!(ask("/m2/label").1.contains("patchType"));
        assert!(!ask("/m1/label").1.contains("patchType"));
        assert_eq!(ask("/v1/status-404").0, 404);
        let names: Vec<String> = webhook.take().into_iter().map(|call| call.webhook).collect();
        assert_eq!(names, ["v1", "v1", "m2", "m1", "v1"]);
        assert!(webhook.take().is_empty());
    }
}
