//! The rules of metadata with upstream's words.

use catalog::Catalog;
use object::Value;

use super::{check_embedded, finalizer_warnings};
use crate::tests::{NOW, json, lines, storage};
use crate::{Context, kind_of, validate_create, validate_update};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn created(catalog: &Catalog, plural: &str, object: &Value) -> Vec<String> {
    let storage = storage(catalog, plural);
    let errors = validate_create(kind_of(storage), storage, object, &Context::plain(storage, NOW));
    of_metadata(lines(&errors))
}

/// Without what else the kind finds wrong with an object that is nothing but metadata.
fn of_metadata(mut errors: Vec<String>) -> Vec<String> {
    errors.retain(|line| line.starts_with("metadata."));
    errors
}

fn config_map(catalog: &Catalog, metadata: &str) -> Vec<String> {
    created(
        catalog,
        "configmaps",
        &json(&format!(r#"{{"metadata":{{"name":"x","namespace":"n",{metadata}}}}}"#)),
    )
}

#[test]
fn names_follow_the_rule_of_their_kind() {
    let catalog = Catalog::builtin();
    let table = [
        ("configmaps", "a.b", true),
        ("configmaps", "Bad_Name", false),
        ("namespaces", "a.b", false),
        ("namespaces", "a-b", true),
        ("services", "1a", true),
        ("services", "a.b", false),
        ("statefulsets", "a.b", false),
        ("deployments", "a.b", true),
        ("nodes", "n1.example.com", true),
        ("clusterroles", "system:node", true),
        ("clusterroles", "A B", true),
        ("clusterroles", "a/b", false),
        ("clusterroles", "..", false),
        ("certificatesigningrequests", "Any_Thing", true),
        ("certificatesigningrequests", "a%b", false),
        ("poddisruptionbudgets", "Any_Thing", true),
        ("poddisruptionbudgets", ".", false),
        ("ipaddresses", "10.0.0.1", true),
        ("ipaddresses", "2001:db8::1", true),
        ("ipaddresses", "2001:DB8::1", false),
        ("ipaddresses", "010.0.0.1", false),
        ("ipaddresses", "::ffff:1.2.3.4", false),
        ("ipaddresses", "x", false),
        ("apiservices", "v1.example.com", true),
        ("apiservices", "v2.example.com", false),
        ("customresourcedefinitions", "things.example.com", true),
        ("customresourcedefinitions", "others.example.com", false),
    ];
    for (plural, name, fine) in table {
        let (_, members) = crate::samples::content(plural);
        let errors = crate::samples::created(&catalog, plural, name, &members);
        assert_eq!(errors.is_empty(), fine, "{plural} {name}: {errors:?}");
        assert!(errors.iter().all(|e| e.starts_with("metadata.name: Invalid value: ")), "{errors:?}");
    }
}

#[test]
fn names_and_namespaces_are_required_by_scope() {
    let catalog = Catalog::builtin();
    let none = json("{}");
    assert_eq!(
        created(&catalog, "configmaps", &none),
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value"
        ]
    );
    let node = json(r#"{"metadata":{"name":"n","namespace":"x"}}"#);
    assert_eq!(
        created(&catalog, "nodes", &node),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    let bad = json(r#"{"metadata":{"name":"Bad_Name","namespace":"n"}}"#);
    assert_eq!(
        created(&catalog, "configmaps", &bad),
        [format!("metadata.name: Invalid value: \"Bad_Name\": {SUBDOMAIN}")]
    );
    assert_eq!(config_map(&catalog, r#""generateName":"web-""#), [""; 0]);
    let bad = config_map(&catalog, r#""generateName":"Web-""#);
    assert_eq!(bad, [format!("metadata.generateName: Invalid value: \"Web-\": {SUBDOMAIN}")]);
    let rc = json(r#"{"metadata":{"name":"x","namespace":"n","generateName":"Web-"}}"#);
    assert_eq!(created(&catalog, "replicationcontrollers", &rc), [""; 0]);
    // The character before the last dash is masked with it, so that one may be anything; the generated name is validated.
    for weird in ["-", "é-", "\u{0}a-", "\u{1F600}-"] {
        let mut object = json(r#"{"metadata":{"name":"x","namespace":"n"}}"#);
        object.map_at(&["metadata"]).set("generateName", weird);
        assert!(!created(&catalog, "configmaps", &object).is_empty(), "{weird:?}");
    }
}

#[test]
fn labels_annotations_and_managers_have_their_syntax() {
    let catalog = Catalog::builtin();
    let errors = config_map(&catalog, r#""labels":{"a b":"c d"}"#);
    assert_eq!(errors.len(), 2);
    assert!(
        errors[0].starts_with("metadata.labels: Invalid value: \"a b\": name part must consist of"),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("metadata.labels: Invalid value: \"c d\": a valid label must be"),
        "{errors:?}"
    );
    assert_eq!(config_map(&catalog, r#""annotations":{"Example.COM/Key":"any \n thing"}"#), [""; 0]);
    let big = format!(r#""annotations":{{"a":"{}"}}"#, "x".repeat(262_144));
    assert_eq!(
        config_map(&catalog, &big),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    let errors =
        config_map(&catalog, r#""managedFields":[{"manager":"m","operation":"Edit","fieldsType":"V2"}]"#);
    assert_eq!(
        errors,
        [
            "metadata.managedFields[0].operation: Invalid value: \"Edit\": must be `Apply` or `Update`",
            "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`"
        ]
    );
    let negative = config_map(&catalog, r#""generation":-1"#);
    assert_eq!(negative, ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]);
}

#[test]
fn owners_are_complete_and_one_of_them_controls() {
    let catalog = Catalog::builtin();
    let owner = |kind: &str, controller: bool| {
        format!(r#"{{"apiVersion":"v1","kind":"{kind}","name":"o","uid":"1","controller":{controller}}}"#)
    };
    let owners =
        |list: &[String]| config_map(&catalog, &format!(r#""ownerReferences":[{}]"#, list.join(",")));
    assert_eq!(owners(&[owner("Pod", true), owner("Job", false)]), [""; 0]);
    assert_eq!(
        owners(&["{}".to_owned()]),
        [
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"
        ]
    );
    let event = owners(&[r#"{"apiVersion":"v1","kind":"Event","name":"o","uid":"1"}"#.to_owned()]);
    assert_eq!(
        event,
        [
            r#"metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"o","uid":"1"}: /v1, Kind=Event is disallowed from being an owner"#
        ]
    );
    let two = owners(&[owner("Pod", true), owner("Job", true)]);
    assert!(two[0].ends_with("Only one reference can have Controller set to true. Found \"true\" in references for Pod/o and Job/o"), "{two:?}");
}

#[test]
fn finalizers_are_qualified_and_do_not_contradict() {
    let catalog = Catalog::builtin();
    assert_eq!(config_map(&catalog, r#""finalizers":["example.com/x","orphan","kubernetes"]"#), [""; 0]);
    assert_eq!(
        config_map(&catalog, r#""finalizers":["stray"]"#),
        [
            "metadata.finalizers[0]: Invalid value: \"stray\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
    assert_eq!(
        config_map(&catalog, r#""finalizers":["orphan","foregroundDeletion"]"#),
        [
            r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
        ]
    );
    let lease = json(r#"{"metadata":{"name":"x","namespace":"n","finalizers":["stray"]}}"#);
    assert_eq!(created(&catalog, "leases", &lease), [""; 0]);
    assert_eq!(
        finalizer_warnings(&lease, None),
        [
            "metadata.finalizers: \"stray\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
        ]
    );
}

#[test]
fn an_update_cannot_change_the_identity_of_an_object() {
    let catalog = Catalog::builtin();
    let storage = storage(&catalog, "deployments");
    let updated = |new: &str, old: &str| {
        let object = |m: &str| json(&format!(r#"{{"metadata":{{"namespace":"n",{m}}}}}"#));
        let ctx = Context::plain(storage, NOW);
        let found = validate_update(kind_of(storage), storage, &object(new), &object(old), &ctx);
        let mut errors = of_metadata(lines(&found));
        // Once by the rules of every object, once by the kind's.
        errors.dedup();
        let half = errors.len() / 2;
        if errors.len().is_multiple_of(2) && errors[..half] == errors[half..] {
            errors.truncate(half);
        }
        errors
    };
    let old = r#""name":"x","uid":"1","creationTimestamp":"2023-11-14T22:13:20Z","generation":2"#;
    assert_eq!(updated(old, old), [""; 0]);
    assert_eq!(
        updated(r#""name":"y","uid":"2","generation":1,"deletionTimestamp":"2023-11-14T22:13:20Z""#, old),
        [
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"y\": field is immutable",
            "metadata.uid: Invalid value: \"2\": field is immutable",
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"2023-11-14T22:13:20Z\": field is immutable"
        ]
    );
    let going = r#""name":"x","deletionTimestamp":"2023-11-14T22:13:20Z","finalizers":["a/a"]"#;
    let more = going.replace(r#"["a/a"]"#, r#"["a/a","b/c","b/b"]"#);
    assert_eq!(
        updated(&more, going),
        [
            r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"b/b", "b/c"}"#
        ]
    );
    assert_eq!(updated(&going.replace(r#"["a/a"]"#, "[]"), going), [""; 0]);
}

#[test]
fn wrong_shapes_of_metadata_are_refused_or_ignored_but_never_a_panic() {
    let catalog = Catalog::builtin();
    let shapes = ["null", "1", "\"x\"", "[]", "{}", "[[]]", "[null]", "{\"a\":null}", "{\"a\":[1]}"];
    let members = [
        "name",
        "generateName",
        "namespace",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    for storage in catalog.storages() {
        let kind = kind_of(storage);
        let ctx = Context::plain(storage, NOW);
        for member in members {
            for shape in shapes {
                let mut new = json(&format!(
                    r#"{{"metadata":{{"{member}":{shape}}},"spec":{shape},"status":{shape},"data":{shape}}}"#
                ));
                let old = new.clone();
                let _ = validate_create(kind, storage, &new, &ctx);
                for subresource in [
                    None,
                    Some("status"),
                    Some("finalize"),
                    Some("approval"),
                    Some("resize"),
                    Some("ephemeralcontainers"),
                ] {
                    let ctx = Context { subresource, ..ctx };
                    crate::prepare_update(kind, &mut new, &old, &ctx);
                    let _ = validate_update(kind, storage, &new, &old, &ctx);
                }
                crate::prepare_create(kind, &mut new, &ctx);
                let options =
                    object::DeleteOptions { grace_period_seconds: Some(i64::MIN), ..Default::default() };
                let _ = crate::decide(kind, storage, &old, "1", &options, i64::MAX);
            }
        }
    }
}

/// What upstream answered about embedded resources; the rest of those cases is `structural`'s.
#[test]
fn metadata_of_embedded_resources_is_checked_as_upstream_checks_it() {
    let catalog = Catalog::builtin();
    let mut count = 0;
    let cases = include_str!("../../../structural/tests/data/schema-lists.jsonl");
    for case in cases.lines().map(json) {
        let wanted = case.at(&["want", "embedded"]).and_then(Value::as_list).unwrap_or_default();
        let (Some(schema), Some(object)) = (case.get("schema"), case.get("object")) else { continue };
        let schema = structural::Structural::parse(schema).expect("a schema");
        let mut object = object.clone();
        if schema.coerce(&mut object, catalog.schema(), structural::Coerce::default()).is_err() {
            continue;
        }
        let mut errors = Vec::new();
        schema.validate_embedded(&object, &check_embedded, &mut errors);
        let mut got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let mut wanted: Vec<&str> = wanted.iter().filter_map(|error| error.str_at(&["text"])).collect();
        got.sort();
        wanted.sort_unstable();
        assert_eq!(got, wanted, "{}", case.str_at(&["id"]).unwrap_or_default());
        count += wanted.len();
    }
    assert!(count > 10, "{count} errors");
}
