//! Definitions: how they are deleted, and rules that other tests do not reach.

use catalog::Catalog;
use object::Value;

use crate::tests::{NOW, NOW_TEXT, json, lines, storage, text};
use crate::{
    Context, Decision, ca_bundle_problem, decide, delete_options, kind_of, validate_create, validate_update,
};

fn deleted(object: &str, options: &str) -> Result<Decision, String> {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "customresourcedefinitions");
    let options = delete_options(&json(options)).unwrap();
    decide(kind_of(storage), storage, &json(object), "9", &options, NOW).map_err(|status| status.message)
}

fn definition(version: &str, spec: &str, status: &str) -> Value {
    json(&format!(
        r#"{{"metadata":{{"name":"foos.g.io","uid":"u","resourceVersion":"1","creationTimestamp":"{NOW_TEXT}"}},
            "spec":{{"group":"g.io","scope":"Namespaced","names":{{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"}},
            "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{SCHEMA}}}{version}}}]{spec}}},
            "status":{{"acceptedNames":{{"plural":"foos","kind":"Foo"}},"storedVersions":["v1"]{status}}}}}"#
    ))
}

const SCHEMA: &str = r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}},"spec":{"type":"object",
    "properties":{"s":{"type":"string"},"n":{"type":"number"},"m":{"type":"object","additionalProperties":{"type":"integer"}}}}}}"#;
const ESTABLISHED: &str = r#","conditions":[{"type":"Established","status":"True"}]"#;

fn problems(new: &Value, old: Option<&Value>) -> Vec<String> {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "customresourcedefinitions");
    let (kind, ctx) = (kind_of(storage), Context::plain(storage, NOW));
    lines(&match old {
        None => validate_create(kind, storage, new, &ctx),
        Some(old) => validate_update(kind, storage, new, old, &ctx),
    })
}

#[test]
fn the_first_delete_marks_and_waits_for_the_custom_resources() {
    let Ok(Decision::Keep(new)) = deleted(
        r#"{"metadata":{"name":"x","generation":3,"finalizers":["a/b"]},"status":{"conditions":null}}"#,
        r#"{"propagationPolicy":"Foreground","gracePeriodSeconds":7}"#,
    ) else {
        panic!("kept");
    };
    assert_eq!(
        text(&new),
        format!(
            r#"{{"metadata":{{"name":"x","generation":3,"finalizers":["a/b","customresourcecleanup.apiextensions.k8s.io"],"deletionTimestamp":"{NOW_TEXT}"}},"status":{{"conditions":[{{"type":"Terminating","lastTransitionTime":"{NOW_TEXT}","status":"True","reason":"InstanceDeletionPending","message":"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"}}]}}}}"#
        )
    );
}

#[test]
fn another_delete_goes_the_general_way() {
    let held = format!(
        r#"{{"metadata":{{"name":"x","generation":3,"deletionTimestamp":"{NOW_TEXT}","finalizers":["a/b"]}}}}"#
    );
    let Ok(Decision::Keep(new)) = deleted(&held, r#"{"propagationPolicy":"Foreground"}"#) else {
        panic!("kept");
    };
    assert_eq!(crate::metadata::strings(&new, "finalizers"), ["a/b", "foregroundDeletion"]);
    assert_eq!(new.at(&["metadata", "generation"]), Some(&Value::Int(3)));
    let free = format!(r#"{{"metadata":{{"name":"x","deletionTimestamp":"{NOW_TEXT}"}}}}"#);
    assert_eq!(deleted(&free, "{}"), Ok(Decision::Remove { marked: None }));
}

#[test]
fn preconditions_are_checked_before_the_mark() {
    let object = r#"{"metadata":{"name":"x","uid":"u"}}"#;
    for (options, problem) in [
        (r#"{"preconditions":{"uid":"v"}}"#, "UID in precondition: v, UID in object meta: u"),
        (
            r#"{"preconditions":{"resourceVersion":"8"}}"#,
            "ResourceVersion in precondition: 8, ResourceVersion in object meta: 9",
        ),
    ] {
        let message = format!(
            r#"Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io "x": Precondition failed: {problem}"#
        );
        assert_eq!(deleted(object, options), Err(message));
    }
}

#[test]
fn selectable_fields_are_scalars_of_the_schema() {
    let invalid = |path: &str, why: &str| {
        vec![format!(r#"spec.selectableFields[0].jsonPath: Invalid value: "{path}": {why}"#)]
    };
    let kind = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
    for (path, wanted) in [
        (".spec.s", vec![]),
        (".spec.m.any", vec![]),
        ("", vec!["spec.selectableFields[0].jsonPath: Required value".to_owned()]),
        (".spec.n", invalid(".spec.n", kind)),
        (".spec.m", invalid(".spec.m", kind)),
        (".spec.x", invalid(".spec.x", "is an invalid path: does not refer to a valid field")),
        (".spec.s.t", invalid(".spec.s.t", "is an invalid path: does not refer to a valid field")),
        (".spec['s']", invalid(".spec['s']", "is an invalid path: array notation is not allowed")),
        ("spec.s", invalid("spec.s", "is an invalid path: expected [ or . but got: spec")),
        (".spec.", invalid(".spec.", "is an invalid path: unexpected end of JSON path")),
        (".metadata.name", invalid(".metadata.name", "must not point to fields in metadata")),
    ] {
        let version = format!(r#","selectableFields":[{{"jsonPath":"{path}"}}]"#);
        assert_eq!(problems(&definition(&version, "", ""), None), wanted, "{path}");
    }
    let many = |n: usize| {
        let fields: Vec<String> = (0..n).map(|i| format!(r#"{{"jsonPath":".spec.m.k{i}"}}"#)).collect();
        definition(&format!(r#","selectableFields":[{}]"#, fields.join(",")), "", "")
    };
    assert_eq!(problems(&many(8), None), Vec::<String>::new());
    assert_eq!(problems(&many(9), None), ["spec.selectableFields: Too many: 9: must have at most 8 items"]);
    assert_eq!(problems(&many(9), Some(&many(9))), Vec::<String>::new(), "what was there stays");
    assert_eq!(problems(&many(9), Some(&many(10))).len(), 1);
}

#[test]
fn a_bundle_is_checked_once_the_definition_is_established() {
    let with = |bundle: &str, status: &str| {
        let conversion = format!(
            r#","conversion":{{"strategy":"Webhook","webhook":{{"clientConfig":{{"url":"https://a","caBundle":"{bundle}"}},"conversionReviewVersions":["v1"]}}}}"#
        );
        definition("", &conversion, status)
    };
    let bad = with("QUFB", ESTABLISHED);
    assert_eq!(problems(&with("QUFB", ""), None), Vec::<String>::new());
    assert_eq!(problems(&with("QUFB", ""), Some(&with("", ""))), Vec::<String>::new());
    assert_eq!(
        problems(&bad, Some(&with("", ESTABLISHED))),
        [
            r#"spec.conversion.webhookClientConfig.caBundle: Invalid value: "QUFB": unable to load root certificates: unable to parse bytes as PEM block"#
        ]
    );
    assert_eq!(problems(&bad, Some(&with("QkJC", ESTABLISHED))), Vec::<String>::new(), "it was bad before");
}

#[test]
fn a_bundle_holds_at_least_one_certificate() {
    use base64::Engine;
    let problem = |pem: &str| ca_bundle_problem(&base64::engine::general_purpose::STANDARD.encode(pem));
    let why = |why: &str| Some(format!("unable to load root certificates: {why}"));
    let broken = "-----BEGIN CERTIFICATE-----\nQUFB\n-----END CERTIFICATE-----\n";
    let other = "-----BEGIN X-----\nQUFB\n-----END X-----\n";
    assert_eq!(problem(""), None);
    assert_eq!(problem("AAA"), why("unable to parse bytes as PEM block"));
    assert_eq!(problem(broken), why("failed to parse certificate: x509: malformed certificate"));
    assert_eq!(problem(other), why("no valid certificate authority data seen"));
    assert_eq!(problem(&format!("{other}more")), why("unable to parse bytes as PEM block"));
}
