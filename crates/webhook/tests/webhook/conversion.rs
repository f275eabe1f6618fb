//! Conversion from end to end.

use std::sync::Arc;

use object::Value;
use parking_lot::Mutex;
use webhook::conversion::{Converter, Subject};
use webhook::{ConversionError, ConversionMetrics, FailureType};

use super::hook::*;

/// Answers as a good conversion webhook does.
fn convert(seen: &Seen) -> Vec<u8> {
    let mut review = value(&seen.body);
    let uid = review.str_at(&["request", "uid"]).unwrap().to_owned();
    let desired = review.str_at(&["request", "desiredAPIVersion"]).unwrap().to_owned();
    let mut objects = review.at(&["request", "objects"]).unwrap().clone();
    if let Value::List(objects) = &mut objects {
        for object in objects {
            object.make_map().set("apiVersion", desired.as_str());
            object.map_at(&["spec"]).set("converted", true);
        }
    }
    review.make_map().remove("request");
    let response = review.map_at(&["response"]);
    response.set("uid", uid);
    response.set("convertedObjects", objects);
    review.map_at(&["response", "result"]).set("status", "Success");
    codec::json::to_vec(&review)
}

fn converter(hook: &Hook, ca: &Ca) -> Converter {
    use base64::Engine as _;
    let bundle = base64::engine::general_purpose::STANDARD.encode(ca.issuer.ca_pem());
    let crd = format!(
        r#"{{"metadata":{{"name":"foos.s.io"}},"spec":{{"conversion":{{"strategy":"Webhook","webhook":{{
        "conversionReviewVersions":["v1","v1beta1"],"clientConfig":{{"url":"{}","caBundle":"{bundle}"}}}}}}}}}}"#,
        hook.url("/convert")
    );
    Converter::from_crd(&value(crd.as_bytes())).unwrap().unwrap()
}

fn foo(version: &str, name: &str, payload: &str) -> Value {
    let object = format!(
        r#"{{"apiVersion":"s.io/{version}","kind":"Foo","metadata":{{"name":"{name}","uid":"u-{name}"}},"spec":{{"p":"{payload}"}}}}"#
    );
    value(object.as_bytes())
}

async fn converted(
    converter: &Converter,
    objects: Vec<Value>,
) -> (Result<Vec<Value>, ConversionError>, String) {
    let metrics = ConversionMetrics::default();
    let converted = converter.convert(&client(), &metrics, objects, "s.io/v2", Subject::Objects, LONG).await;
    let mut text = String::new();
    metrics.write(&mut text);
    (converted, text)
}

#[tokio::test]
async fn objects_are_converted_together_and_keep_their_places() {
    let ca = Ca::new();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let noted = sent.clone();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, move |seen| {
        noted.lock().push(value(&seen.body).at(&["request", "objects"]).unwrap().as_list().unwrap().len());
        Reply::json(convert(&seen))
    })
    .await;
    let objects = vec![
        foo("v1", "a", ""),
        foo("v2", "b", ""),
        value(br#"{"apiVersion":"s.io/v1","kind":"Foo"}"#),
        foo("v1", "c", ""),
    ];
    let (converted, metrics) = converted(&converter(&hook, &ca), objects).await;
    let converted = converted.unwrap();
    let shown: Vec<_> = converted
        .iter()
        .map(|object| {
            assert_eq!(object.str_at(&["apiVersion"]), Some("s.io/v2"));
            (object.str_at(&["metadata", "name"]), object.at(&["spec", "converted"]).is_some())
        })
        .collect();
    assert_eq!(shown, [(Some("a"), true), (Some("b"), false), (None, false), (Some("c"), true)]);
    assert_eq!(*sent.lock(), [2], "those of another version, in one call");
    let count = r#"apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="foos.s.io",from_version="v1",succeeded="true",to_version="v2"} 1"#;
    assert!(metrics.contains(count), "{metrics}");
}

#[tokio::test]
async fn what_is_in_the_desired_version_asks_nobody() {
    let ca = Ca::new();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, |_| Reply::Closes).await;
    let (converted, _) = converted(&converter(&hook, &ca), vec![foo("v2", "a", "")]).await;
    assert_eq!(converted.unwrap(), [foo("v2", "a", "")]);
    assert_eq!(hook.opened(), 0);
}

#[tokio::test]
async fn many_objects_take_several_calls() {
    let ca = Ca::new();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let noted = sizes.clone();
    let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Both, move |seen| {
        noted.lock().push(seen.body.len());
        Reply::json(convert(&seen))
    })
    .await;
    let payload = "x".repeat(100 << 10);
    let objects: Vec<Value> = (0..100).map(|n| foo("v1", &format!("n{n}"), &payload)).collect();
    let (converted, _) = converted(&converter(&hook, &ca), objects).await;
    for (n, object) in converted.unwrap().iter().enumerate() {
        assert_eq!(object.str_at(&["metadata", "name"]), Some(format!("n{n}").as_str()));
        assert_eq!(object.at(&["spec", "converted"]).and_then(Value::as_bool), Some(true));
    }
    let sizes = sizes.lock();
    assert_eq!(sizes.len(), 3, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < 5 << 20), "{sizes:?}");
}

#[tokio::test]
async fn failures_are_told_and_counted() {
    let ca = Ca::new();
    for (answer, message, failure, label) in [
        (
            (|_| Reply::Closes) as fn(Seen) -> Reply,
            "conversion webhook for s.io/v1, Kind=Foo failed: Post \"URL\": EOF",
            FailureType::Call,
            "conversion_webhook_call_failure",
        ),
        (
            |_| Reply::Full(200, vec![("content-type", "text/html")], b"<html>hi</html>".to_vec()),
            "conversion webhook for s.io/v1, Kind=Foo failed: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
            FailureType::Call,
            "conversion_webhook_call_failure",
        ),
        (
            |_| Reply::json(r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#),
            "conversion webhook for s.io/v1, Kind=Foo failed: no response provided",
            FailureType::MalformedResponse,
            "conversion_webhook_malformed_response_failure",
        ),
        (
            |seen| Reply::json(String::from_utf8(convert(&seen)).unwrap().replace("s.io/v2", "s.io/v3")),
            "conversion webhook for s.io/v1, Kind=Foo returned invalid object at index 0: invalid groupVersion (expected s.io/v2, received s.io/v3)",
            FailureType::InvalidConvertedObject,
            "conversion_webhook_invalid_converted_object_failure",
        ),
    ] {
        let hook = Hook::start(&ca.serving(&["127.0.0.1"]), Speaks::Http1, answer).await;
        let (converted, metrics) = converted(&converter(&hook, &ca), vec![foo("v1", "a", "")]).await;
        let error = converted.unwrap_err();
        assert_eq!(error.message.replace(&hook.url("/convert?timeout=20s"), "URL"), message);
        assert_eq!(error.failure, Some(failure));
        assert_eq!((error.to_status().code, error.to_status().reason), (500, ""));
        let count = format!(
            "apiserver_conversion_webhook_request_total{{failure_type=\"{label}\",result=\"failure\"}} 1"
        );
        assert!(metrics.contains(&count), "{metrics}");
    }
}
