//! Server-side apply of custom resources: what schemas say about lists and maps, and what happens when they say something else.
//! Answers are those of kube-apiserver v1.36.4 for the same requests.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.io";
const THINGS: &str = "/apis/example.io/v1/namespaces/default/things";

/// With `spec.f` of that schema.
fn spec(schema: &Value) -> Value {
    json!({"group": "example.io", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"f": schema}}}}}}]})
}

async fn define(schema: &Value) -> TestCluster {
    let cluster = TestCluster::start().await;
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.io"}, "spec": spec(schema)});
    cluster.post(CRDS, crd).await.ok(201);
    while cluster.get(THINGS).await.status != 200 {
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    cluster
}

async fn redefine(cluster: &TestCluster, schema: &Value) {
    cluster.redefine(CRD, |now| *now = spec(schema)).await;
}

async fn apply(cluster: &TestCluster, name: &str, manager: &str, force: bool, f: &Value) -> Reply {
    let config =
        json!({"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"f": f}});
    let path = format!("{THINGS}/{name}?fieldManager={manager}&force={force}");
    cluster.request("PATCH", path).typed("application/apply-patch+yaml", config.to_string()).send().await
}

/// What each manager owns of `spec.f`; `null` where it is the field as a whole.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owned = |entry: &Value| match &entry["fieldsV1"]["f:spec"]["f:f"] {
        Value::Object(fields) if fields.is_empty() => Value::Null,
        fields => fields.clone(),
    };
    entries.iter().map(|entry| (entry["manager"].as_str().unwrap().to_owned(), owned(entry))).collect()
}

/// A schema that becomes another, and what comes of applying `next` where `first` was applied before.
struct Change {
    from: Value,
    to: Value,
    first: Value,
    next: Value,
    /// Value and owners, if the one who applied `first` applies `next`.
    same: (Value, Value),
    /// Which fields another one has a conflict about.
    conflict: Option<&'static str>,
    /// Value and owners, if that one insists.
    other: (Value, Value),
}

fn list(kind: &str) -> Value {
    match kind {
        "map" => {
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}})
        }
        "atomic objects" => json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}}),
        kind => json!({"type": "array", "x-kubernetes-list-type": kind, "items": {"type": "string"}}),
    }
}

fn map(kind: &str) -> Value {
    match kind {
        "preserve" => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        kind => json!({"type": "object", "x-kubernetes-map-type": kind,
            "properties": {"a": {"type": "string"}, "c": {"type": "string"}}}),
    }
}

fn changes() -> Vec<Change> {
    let (two, one) = (json!([{"k": "1", "v": "1"}, {"k": "2", "v": "1"}]), json!([{"k": "1", "v": "2"}]));
    let (both, a) = (json!({"a": "1", "c": "1"}), json!({"a": "2"}));
    let first = json!({"k:{\"k\":\"1\"}": {".": {}, "f:k": {}, "f:v": {}}});
    let merged = json!([{"k": "1", "v": "2"}, {"k": "2", "v": "1"}]);
    let whole = |owner: &str| json!({owner: null});
    vec![
        // From whole to parts: nobody knows who owned which, so nothing is pruned, and nothing in the way.
        Change {
            from: list("atomic objects"),
            to: list("map"),
            first: two.clone(),
            next: one.clone(),
            same: (merged.clone(), json!({"one": first})),
            conflict: None,
            other: (merged, json!({"one": null, "two": first})),
        },
        Change {
            from: list("atomic"),
            to: list("set"),
            first: json!(["1", "2"]),
            next: json!(["1"]),
            same: (json!(["1", "2"]), json!({"one": {"v:\"1\"": {}}})),
            conflict: None,
            other: (json!(["1", "2"]), json!({"one": null, "two": {"v:\"1\"": {}}})),
        },
        Change {
            from: map("atomic"),
            to: map("granular"),
            first: both.clone(),
            next: a.clone(),
            same: (json!({"a": "2", "c": "1"}), json!({"one": {"f:a": {}}})),
            conflict: None,
            other: (json!({"a": "2", "c": "1"}), json!({"one": null, "two": {"f:a": {}}})),
        },
        // From parts to whole: who owned a part owns it all.
        Change {
            from: list("map"),
            to: list("atomic objects"),
            first: two,
            next: one.clone(),
            same: (one.clone(), whole("one")),
            conflict: Some(".spec.f"),
            other: (one, whole("two")),
        },
        Change {
            from: list("set"),
            to: list("atomic"),
            first: json!(["1", "2"]),
            next: json!(["1"]),
            same: (json!(["1"]), whole("one")),
            conflict: Some(".spec.f"),
            other: (json!(["1"]), whole("two")),
        },
        Change {
            from: map("granular"),
            to: map("atomic"),
            first: both.clone(),
            next: a.clone(),
            same: (a.clone(), whole("one")),
            conflict: Some(".spec.f"),
            other: (a.clone(), whole("two")),
        },
        // What is no longer declared has the owners it had.
        Change {
            from: map("granular"),
            to: map("preserve"),
            first: both,
            next: a.clone(),
            same: (a, json!({"one": {"f:a": {}}})),
            conflict: Some(".spec.f.a"),
            other: (json!({"a": "2", "c": "1"}), json!({"one": {"f:c": {}}, "two": {"f:a": {}}})),
        },
    ]
}

#[tokio::test]
async fn a_schema_that_changes_keeps_or_widens_what_was_owned() {
    for Change { from, to, first, next, same, conflict, other } in changes() {
        let cluster = define(&from).await;
        for name in ["a", "b"] {
            apply(&cluster, name, "one", false, &first).await.ok(201);
        }
        redefine(&cluster, &to).await;
        let what = format!("{from} to {to}");
        let found = |object: &Value| (object["spec"]["f"].clone(), owners(object));
        let again = apply(&cluster, "a", "one", false, &next).await.ok(200);
        assert_eq!(found(&again), same, "{what}");
        let refused = apply(&cluster, "b", "two", false, &next).await;
        let message =
            conflict.map(|field| format!("Apply failed with 1 conflict: conflict with \"one\": {field}"));
        assert_eq!(refused.json()["message"].as_str(), message.as_deref(), "{what}");
        let forced = apply(&cluster, "b", "two", true, &next).await.ok(200);
        assert_eq!(found(&forced), other, "{what}");
    }
}

#[tokio::test]
async fn values_without_a_type_are_merged_by_their_members_and_lists_as_a_whole() {
    let cluster = define(&json!({"x-kubernetes-preserve-unknown-fields": true})).await;
    let first = json!({"a": {"b": 1, "c": 1}, "l": [{"x": 1}, {"y": 1}]});
    let made = apply(&cluster, "a", "one", false, &first).await.ok(201);
    assert_eq!(owners(&made), json!({"one": {"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:l": {}}}));
    let less = apply(&cluster, "a", "one", false, &json!({"a": {"c": 1}, "l": [{"y": 1}]})).await.ok(200);
    assert_eq!(less["spec"]["f"], json!({"a": {"c": 1}, "l": [{"y": 1}]}));
    let other = apply(&cluster, "a", "two", false, &json!({"l": [{"x": 1}]})).await.ok(409);
    assert_eq!(other["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.f.l");
    // What was a map becomes a number: all of it goes.
    let scalar = apply(&cluster, "a", "one", false, &json!(7)).await.ok(200);
    assert_eq!((&scalar["spec"]["f"], owners(&scalar)), (&json!(7), json!({"one": null})));
}

#[tokio::test]
async fn what_an_apply_leaves_empty_is_gone_where_null_is_allowed() {
    let text = json!({"type": "string"});
    let inner = json!({"type": "object", "properties": {"d": text}});
    let cluster = define(&json!({"type": "object", "properties": {"a": text, "c": inner}})).await;
    apply(&cluster, "a", "one", false, &json!({"a": "1", "c": {"d": "1"}})).await.ok(201);
    let open =
        json!({"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true}});
    redefine(&cluster, &open).await;
    let left = apply(&cluster, "a", "one", false, &json!({"a": "2"})).await.ok(200);
    assert_eq!(left["spec"]["f"], json!({"a": "2"}));
    assert_eq!(cluster.get(format!("{THINGS}/a")).await.ok(200), left);
}

#[tokio::test]
async fn a_map_without_its_last_member_is_refused_as_null() {
    let cluster = define(&json!({"type": "object", "properties": {"a": {"type": "string"}}})).await;
    apply(&cluster, "a", "one", false, &json!({"a": "1"})).await.ok(201);
    let refused = apply(&cluster, "a", "one", false, &json!({})).await.ok(422);
    assert_eq!(
        refused["message"],
        "Thing.example.io \"a\" is invalid: spec.f: Invalid value: \"null\": spec.f in body must be of type object: \"null\""
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_apply_moves_no_version() {
    let ports = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"x-kubernetes-int-or-string": true}, "protocol": {"type": "string", "default": "TCP"}}}});
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let nullable = json!({"type": "string", "nullable": true});
    let number = json!({"type": "number"});
    let fields = [
        ("keys with a default", ports, json!([{"port": 80}, {"port": "http", "protocol": "UDP"}])),
        (
            "an embedded object",
            embedded,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}),
        ),
        ("null", nullable, Value::Null),
        ("a number", number, json!(1.5)),
    ];
    for (what, schema, value) in fields {
        let cluster = define(&schema).await;
        let first = apply(&cluster, "a", "one", false, &value).await;
        assert_eq!(first.status, 201, "{what}: {}", first.text());
        for _ in 0..2 {
            cluster.env().sleep(Duration::from_secs(2)).await;
            let again = apply(&cluster, "a", "one", false, &value).await;
            assert_eq!(again.text(), first.text(), "{what}");
        }
        cluster.shutdown().await;
    }
}
