//! What is asked, and which answers pass. The texts were recorded from kube-apiserver v1.36.4 and a webhook that answers so.

use super::*;

const ORIGINAL: &str = r#"{"apiVersion":"s.io/v1","kind":"Foo","metadata":{"name":"a","namespace":"d","uid":"u1","generation":1,"labels":{"l":"1"}},"spec":{"x":1}}"#;
const CONVERTED: &str = r#"{"apiVersion":"s.io/v2","kind":"Foo","metadata":{"name":"a","namespace":"d","uid":"u1","generation":1,"labels":{"l":"1"}},"spec":{"x":1}}"#;

fn value(json: &str) -> Value {
    codec::json::parse(json.as_bytes(), None).unwrap()
}

fn text(value: &Value) -> String {
    String::from_utf8(codec::json::to_vec(value)).unwrap()
}

/// An answer with these objects.
fn answer(objects: &str) -> String {
    response(&format!(r#"{{"uid":"q","result":{{"status":"Success"}},"convertedObjects":{objects}}}"#))
}

fn response(response: &str) -> String {
    format!(r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{response}}}"#)
}

fn judged(body: &str) -> Result<Vec<Value>, ConversionError> {
    judged_as(ReviewVersion::V1, Subject::Objects, body)
}

fn judged_as(
    version: ReviewVersion,
    subject: Subject<'_>,
    body: &str,
) -> Result<Vec<Value>, ConversionError> {
    let original = value(ORIGINAL);
    judge(version, "q", &[&original], "s.io/v2", body.as_bytes())
        .map_err(|failure| failure.of(subject, subject_of(subject, Some(&original)), 0))
}

fn refused(body: &str) -> String {
    judged(body).unwrap_err().message
}

#[test]
fn a_question_is_upstreams_to_the_byte() {
    let (body, count) =
        question(ReviewVersion::V1, "q", "s.io/v2", [&value(r#"{"a":1}"#), &value(r#"{"b":2}"#)], 1 << 20);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        concat!(
            r#"{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"q","desiredAPIVersion":"s.io/v2","#,
            r#""objects":[{"a":1},{"b":2}]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#,
            "\n"
        )
    );
    assert_eq!(count, 2);
    let (body, count) = question(ReviewVersion::V1beta1, "q", "s.io/v2", [&value("{}"), &value("{}")], 1);
    assert!(String::from_utf8(body).unwrap().contains(r#""apiVersion":"apiextensions.k8s.io/v1beta1""#));
    assert_eq!(count, 1, "one at least, and no more behind the limit");
}

#[test]
fn the_first_known_version_of_the_review_is_chosen() {
    assert_eq!(ReviewVersion::choose(["v9", "v1beta1", "v1"]), Some(ReviewVersion::V1beta1));
    assert_eq!(ReviewVersion::choose(["v1", "v1beta1"]), Some(ReviewVersion::V1));
    assert_eq!(ReviewVersion::choose(["v9"]), None);
}

#[test]
fn a_good_answer_passes() {
    let converted = judged(&answer(&format!("[{CONVERTED}]"))).unwrap();
    assert_eq!(text(&converted[0]), CONVERTED);
}

#[test]
fn answers_to_another_question_are_refused() {
    let webhook = "conversion webhook for s.io/v1, Kind=Foo";
    for (body, expected) in [
        (response("null"), "failed: no response provided"),
        (
            r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}"#.to_owned(),
            "failed: no response provided",
        ),
        (
            r#"{"apiVersion":"apiextensions.k8s.io/v1","response":{}}"#.to_owned(),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=",
        ),
        (response(r#"{"uid":"zz"}"#), r#"failed: expected response.uid="q", got "zz""#),
        (response("{}"), r#"failed: expected response.uid="q", got """#),
        (response(r#"{"uid":"q","result":{"status":"Failure","message":"no way"}}"#), "failed: no way"),
        (
            response(r#"{"uid":"q","result":{"status":"Failure"}}"#),
            "failed: response.result.status was 'Failure', not 'Success'",
        ),
        (response(r#"{"uid":"q"}"#), "failed: response.result.status was '', not 'Success'"),
        (
            response(r#""x""#),
            "failed: json: cannot unmarshal string into Go struct field ConversionReview.response of type v1.ConversionResponse",
        ),
        (
            response(r#"{"uid":5}"#),
            "failed: json: cannot unmarshal number into Go struct field ConversionResponse.response.uid of type types.UID",
        ),
        (
            response(r#"{"result":"x"}"#),
            "failed: json: cannot unmarshal string into Go struct field ConversionResponse.response.result of type v1.Status",
        ),
        (
            response(r#"{"result":{"status":1}}"#),
            "failed: json: cannot unmarshal number into Go struct field Status.response.result.status of type string",
        ),
        (
            response(r#"{"result":{"code":"1"}}"#),
            "failed: json: cannot unmarshal string into Go struct field Status.response.result.code of type int32",
        ),
        (
            answer("{}"),
            "failed: json: cannot unmarshal object into Go struct field ConversionResponse.response.convertedObjects of type []runtime.RawExtension",
        ),
        (answer("[]"), "returned 0 objects, expected 1"),
        (answer("null"), "returned 0 objects, expected 1"),
        (answer("[{},{}]"), "returned 2 objects, expected 1"),
    ] {
        assert_eq!(refused(&body), format!("{webhook} {expected}"), "{body}");
    }
}

#[test]
fn objects_that_are_not_the_original_are_refused() {
    let webhook = "conversion webhook for s.io/v1, Kind=Foo";
    let metadata =
        |metadata: &str| format!(r#"{{"apiVersion":"s.io/v2","kind":"Foo","metadata":{metadata}}}"#);
    let named = |rest: &str| metadata(&format!(r#"{{"name":"a","namespace":"d","uid":"u1",{rest}}}"#));
    for (object, expected) in [
        ("null".to_owned(), "unexpected end of JSON input".to_owned()),
        (
            r#""x""#.to_owned(),
            "json: cannot unmarshal string into Go value of type map[string]interface {}".to_owned(),
        ),
        ("{}".to_owned(), "Object 'Kind' is missing in '{}'".to_owned()),
        (
            r#"{"apiVersion":"s.io/v2","kind":3}"#.to_owned(),
            r#"Object 'Kind' is missing in '{"apiVersion":"s.io/v2","kind":3}'"#.to_owned(),
        ),
        (
            r#"{"apiVersion":"a/b/c","kind":"Foo"}"#.to_owned(),
            r#"Object 'Kind' is missing in '{"apiVersion":"a/b/c","kind":"Foo"}'"#.to_owned(),
        ),
        (
            r#"{"kind":"Foo"}"#.to_owned(),
            format!(
                "{webhook} returned invalid object at index 0: invalid groupVersion (expected s.io/v2, received )"
            ),
        ),
        (
            ORIGINAL.to_owned(),
            format!(
                "{webhook} returned invalid object at index 0: invalid groupVersion (expected s.io/v2, received s.io/v1)"
            ),
        ),
        (
            r#"{"apiVersion":"s.io/v2","kind":"Bar"}"#.to_owned(),
            format!(
                "{webhook} returned invalid object at index 0: invalid kind (expected Foo, received Bar)"
            ),
        ),
        (
            metadata(r#"{"name":"b"}"#),
            format!("{webhook} returned invalid object: must have the same name: a != b"),
        ),
        (metadata(r#""x""#), format!("{webhook} returned invalid object: must have the same name: a != ")),
        (
            metadata(r#"{"name":"a","namespace":"b"}"#),
            format!("{webhook} returned invalid object: must have the same namespace: d != b"),
        ),
        (
            metadata(r#"{"name":"a","namespace":"d","uid":"b"}"#),
            format!("{webhook} returned invalid object: must have the same UID: u1 != b"),
        ),
        (
            named(r#""labels":{"a":1}"#),
            format!(
                "{webhook} returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"
            ),
        ),
        (
            named(r#""labels":["a"]"#),
            format!(
                "{webhook} returned invalid metadata: invalid metadata.labels of type []interface {{}} in converted object"
            ),
        ),
        (
            named(r#""annotations":{"a":{"b":1}}"#),
            format!(
                "{webhook} returned invalid metadata: metadata.annotations[a] must be a string, but is map[string]interface {{}} in converted object"
            ),
        ),
        (
            named(&format!(r#""annotations":{{"a":"{}"}}"#, "x".repeat(262_144))),
            format!(
                "{webhook} returned invalid metadata: metadata.annotation: Too long: may not be more than 262144 bytes"
            ),
        ),
    ] {
        assert_eq!(refused(&answer(&format!("[{object}]"))), expected, "{object}");
    }
    let part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let annotation =
        answer(&format!("[{}]", named(r#""annotations":{"A b":"x","UPPER.example.com/X":"y"}"#)));
    assert_eq!(
        refused(&annotation),
        format!(r#"{webhook} returned invalid metadata: metadata.annotation: Invalid value: "A b": {part}"#)
    );
    let labels = refused(&answer(&format!("[{}]", named(r#""labels":{"c":"y z","a b":"x"}"#))));
    assert!(labels.starts_with(&format!(r#"{webhook} returned invalid metadata: [metadata.labels: Invalid value: "a b": {part}, metadata.labels: Invalid value: "y z": a valid label"#)), "{labels}");
}

#[test]
fn of_a_list_the_place_is_named() {
    let list = Subject::List { api_version: "s.io/v1", kind: "FooList" };
    let webhook = "conversion webhook for s.io/v1, Kind=FooList";
    for (object, expected) in [
        ("null", "returned invalid converted object at index 0: unexpected end of JSON input"),
        (
            ORIGINAL,
            "returned invalid converted object at index 0: invalid groupVersion (expected s.io/v2, received s.io/v1)",
        ),
        (
            r#"{"apiVersion":"s.io/v2","kind":"Foo","metadata":{"name":"a","namespace":"d","uid":"u1","labels":3}}"#,
            "returned invalid metadata in object at index 0: invalid metadata.labels of type int64 in converted object",
        ),
    ] {
        let error = judged_as(ReviewVersion::V1, list, &answer(&format!("[{object}]"))).unwrap_err();
        assert_eq!(error.message, format!("{webhook} {expected}"));
        assert_eq!(error.failure, Some(FailureType::InvalidConvertedObject));
    }
    let failure = Failure::Type { at: 1, why: "x".to_owned() };
    let error = failure.of(list, ("s.io/v1".to_owned(), "FooList".to_owned()), 3);
    assert_eq!(
        error.message,
        format!("{webhook} returned invalid converted object at index 4: x"),
        "behind earlier calls"
    );
}

#[test]
fn v1beta1_looks_less_closely() {
    let body = format!(
        r#"{{"response":{{"uid":"zz","result":{{"status":"Success"}},"convertedObjects":[{CONVERTED}]}}}}"#
    );
    judged_as(ReviewVersion::V1beta1, Subject::Objects, &body).unwrap();
    assert!(judged(&body).is_err());
}

#[test]
fn labels_and_annotations_are_the_webhooks_and_the_rest_is_not() {
    let with = |metadata: &str| {
        let object = format!(
            r#"{{"apiVersion":"s.io/v2","kind":"Foo","metadata":{{"name":"a","namespace":"d","uid":"u1"{metadata}}}}}"#
        );
        let converted = judged(&answer(&format!("[{object}]"))).unwrap();
        text(converted[0].get("metadata").unwrap())
    };
    let original = r#"{"name":"a","namespace":"d","uid":"u1","generation":1"#;
    assert_eq!(
        with(r#","generation":99,"labels":{"l":"1"}"#),
        format!(r#"{original},"labels":{{"l":"1"}}}}"#)
    );
    assert_eq!(with(""), format!("{original}}}"), "labels that do not come back are gone");
    assert_eq!(with(r#","labels":null"#), format!("{original}}}"));
    assert_eq!(
        with(r#","labels":{"n":"2"},"annotations":{"x":"y"}"#),
        format!(r#"{original},"labels":{{"n":"2"}},"annotations":{{"x":"y"}}}}"#)
    );
}

#[test]
fn what_was_invalid_before_may_stay() {
    let original =
        value(r#"{"apiVersion":"s.io/v1","kind":"Foo","metadata":{"name":"a","labels":{"a b":"x"}}}"#);
    let same =
        answer(r#"[{"apiVersion":"s.io/v2","kind":"Foo","metadata":{"name":"a","labels":{"a b":"x"}}}]"#);
    judge(ReviewVersion::V1, "q", &[&original], "s.io/v2", same.as_bytes()).unwrap();
    let more = answer(
        r#"[{"apiVersion":"s.io/v2","kind":"Foo","metadata":{"name":"a","labels":{"a b":"x","c":"d"}}}]"#,
    );
    judge(ReviewVersion::V1, "q", &[&original], "s.io/v2", more.as_bytes()).unwrap_err();
}

#[test]
fn a_crd_says_how_it_converts() {
    let crd = |conversion: &str| {
        value(&format!(r#"{{"metadata":{{"name":"foos.s.io"}},"spec":{{"conversion":{conversion}}}}}"#))
    };
    assert!(Converter::from_crd(&crd(r#"{"strategy":"None"}"#)).unwrap().is_none());
    assert!(Converter::from_crd(&value("{}")).unwrap().is_none());
    let webhook = r#"{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://h/c"}}}"#;
    let converter = Converter::from_crd(&crd(webhook)).unwrap().unwrap();
    assert_eq!((&*converter.crd, converter.version), ("foos.s.io", Some(ReviewVersion::V1)));
    assert_eq!(Converter::from_crd(&crd(r#"{"strategy":"Webhook"}"#)).unwrap_err(), ConfigError::NoTarget);
}
