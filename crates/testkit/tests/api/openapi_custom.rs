//! OpenAPI of custom resources: published with their definition, changed with it, gone with it, and built only on request.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestCluster;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "apis/example.io/v1";
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

fn crd(group: &str, plural: &str, kind: &str, spec: Value) -> Value {
    let schema = json!({"type": "object", "description": "A thing.", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// The URL of a document, by the index.
async fn place_of(cluster: &TestCluster, document: &str) -> Option<String> {
    let index = cluster.get("/openapi/v3").await.json();
    index["paths"][document]["serverRelativeURL"].as_str().map(str::to_owned)
}

/// Waits until the index has the document at another URL than `before`; `None` is no URL.
async fn moved(cluster: &TestCluster, document: &str, before: Option<&str>) -> Option<String> {
    for _ in 0..2000 {
        let place = place_of(cluster, document).await;
        if place.as_deref() != before {
            return place;
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    panic!("{document} stays at {before:?}");
}

#[tokio::test]
async fn documents_follow_the_definition() {
    let cluster = TestCluster::start().await;
    let apps = place_of(&cluster, "apis/apps/v1").await;
    let other = cluster.post(CRDS, crd("other.io", "others", "Other", json!({"type": "object"}))).await;
    assert_eq!(other.status, 201);
    let other = moved(&cluster, "apis/other.io/v1", None).await;

    // It appears.
    let spec = json!({"type": "object", "description": "Wanted.", "properties": {
        "color": {"type": "string", "description": "Its color.", "default": "red", "nullable": true}}});
    cluster.post(CRDS, crd("example.io", "widgets", "Widget", spec)).await.ok(201);
    let first = moved(&cluster, V1, None).await.expect("it is published");
    let document = cluster.get(&first).await.ok(200);
    let widget = &document["components"]["schemas"]["io.example.v1.Widget"];
    assert_eq!(widget["description"], "A thing.");
    let color = &widget["properties"]["spec"]["properties"]["color"];
    assert_eq!(
        *color,
        json!({"type": "string", "description": "Its color.", "default": "red", "nullable": true})
    );
    assert!(
        document["paths"]["/apis/example.io/v1/namespaces/{namespace}/widgets/{name}"]["patch"].is_object()
    );
    let v2 = cluster.get("/openapi/v2").await.ok(200);
    let spec = &v2["definitions"]["io.example.v1.Widget"]["properties"]["spec"];
    assert_eq!(spec["properties"]["color"], json!({"description": "Its color."}), "v2 has no null");
    assert_eq!(cluster.get("/openapi/v3/apis/example.io").await.status, 404, "as upstream");

    // It changes, in every encoding.
    let protobuf = |path: String, accept: &'static str| {
        let ask = cluster.request("GET", path).accept(accept);
        async move { ask.send().await.bytes }
    };
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has(&protobuf(first.clone(), PROTOBUF_V3).await, "Its color."));
    assert!(has(&protobuf("/openapi/v2".into(), PROTOBUF_V2).await, "Its color."));
    let patch = json!([{"op": "replace", "value": "Another.",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/description"}]);
    let ask = cluster.request("PATCH", format!("{CRDS}/widgets.example.io"));
    let patched = ask.typed("application/json-patch+json", patch.to_string()).send().await;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let second = moved(&cluster, V1, Some(&first)).await.expect("it is published");
    assert!(cluster.get(&second).await.text().contains("Another."));
    assert!(has(&protobuf(second.clone(), PROTOBUF_V3).await, "Another."));
    for accept in ["application/json", PROTOBUF_V2] {
        let bytes = protobuf("/openapi/v2".into(), accept).await;
        assert!(has(&bytes, "Another.") && !has(&bytes, "Its color."), "{accept}");
    }
    let redirected = cluster.get(&first).await;
    assert_eq!((redirected.status, redirected.headers["location"].to_str().unwrap()), (301, second.as_str()));

    // What is not the definition's schema changes no document.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.merge(format!("{CRDS}/widgets.example.io"), label).await.ok(200);
    assert_eq!(place_of(&cluster, V1).await.as_ref(), Some(&second));
    assert_eq!(place_of(&cluster, "apis/apps/v1").await, apps);
    assert_eq!(place_of(&cluster, "apis/other.io/v1").await, other);

    // It is gone.
    cluster.delete(format!("{CRDS}/widgets.example.io")).await.ok(200);
    assert_eq!(moved(&cluster, V1, Some(&second)).await, None);
    assert_eq!(cluster.get(&second).await.status, 404);
    let v2 = cluster.get("/openapi/v2").await.text();
    assert!(!v2.contains("io.example.v1") && v2.contains("io.other.v1.Other"));
    assert_eq!(place_of(&cluster, "apis/other.io/v1").await, other);
    cluster.shutdown().await;
}

/// A definition that is created again may be another one: its document is not the cached one.
#[tokio::test]
async fn a_definition_made_again_has_another_hash() {
    let cluster = TestCluster::start().await;
    let mut before = None;
    for description in ["first", "second"] {
        let spec = json!({"type": "object", "description": description});
        cluster.post(CRDS, crd("example.io", "widgets", "Widget", spec)).await.ok(201);
        let place = moved(&cluster, V1, None).await.expect("it is published");
        assert!(cluster.get(&place).await.text().contains(description));
        assert_ne!(before.replace(place.clone()), Some(place.clone()));
        cluster.delete(format!("{CRDS}/widgets.example.io")).await.ok(200);
        assert_eq!(moved(&cluster, V1, Some(&place)).await, None);
    }
    cluster.shutdown().await;
}

/// Operators install dozens of definitions, and clients ask for few of their documents.
#[tokio::test]
async fn one_definition_more_rebuilds_its_own_document_alone() {
    const MANY: usize = 100;
    let cluster = TestCluster::start().await;
    let spec = || json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    for i in 0..MANY {
        let group = format!("g{i}.example.io");
        cluster.post(CRDS, crd(&group, "widgets", "Widget", spec())).await.ok(201);
    }
    let last = format!("apis/g{}.example.io/v1", MANY - 1);
    assert!(moved(&cluster, &last, None).await.is_some());
    let built = || cluster.api().openapi_documents_built();
    for i in 0..MANY {
        cluster.get(format!("/openapi/v3/apis/g{i}.example.io/v1")).await.ok(200);
    }
    cluster.get("/openapi/v2").await.ok(200);
    cluster.get("/openapi/v3/apis/apps/v1").await.ok(200);
    assert!(cluster.api().openapi_cache_bytes() < 5 << 20);

    cluster.post(CRDS, crd("more.example.io", "widgets", "Widget", spec())).await.ok(201);
    moved(&cluster, "apis/more.example.io/v1", None).await;
    let before = built();
    for i in MANY - 10..MANY {
        cluster.get(format!("/openapi/v3/apis/g{i}.example.io/v1")).await.ok(200);
    }
    cluster.get("/openapi/v3/apis/apps/v1").await.ok(200);
    assert_eq!(built(), before, "nothing of theirs has changed");
    cluster.get("/openapi/v3/apis/more.example.io/v1").await.ok(200);
    assert_eq!(built(), before + 1);
    let v2 = cluster.get("/openapi/v2").await.ok(200);
    assert_eq!(built(), before + 2);
    assert!(v2["definitions"]["io.example.more.v1.Widget"].is_object());
    assert!(cluster.api().openapi_cache_bytes() < 5 << 20);
    cluster.shutdown().await;
}
