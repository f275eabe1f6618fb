//! Refusals of bodies, patches and scales with kube-apiserver's messages, recorded from v1.36.4.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

async fn patch(cluster: &TestCluster, path: &str, media: &str, body: impl ToString) -> Reply {
    cluster.request("PATCH", path).typed(media, body.to_string()).send().await
}

#[tokio::test(start_paused = true)]
async fn a_broken_body_is_shown_by_its_first_bytes() {
    let cluster = TestCluster::simulated(310).await;
    let parse = "couldn't get version/kind; json parse error: ";
    let (json, yaml) = ("application/json", "application/yaml");
    let mut bomb = String::from("a: &a [\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\",\"x\"]\n");
    for (this, last) in ('b'..='i').zip('a'..='h') {
        bomb += &format!("{this}: &{this} [{}]\n", vec![format!("*{last}"); 9].join(","));
    }
    let long = "{\"a\":1,\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\":";
    for (media, body, why) in [
        (
            json,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"w1\"}} trailing",
            format!("{parse}invalid character 't' after top-level value ({{\"apiVersion\":\"v1\",\"kind\":\"Con ...)"),
        ),
        (json, "{\"a\":1", format!("{parse}unexpected end of JSON input ({{\"a\":1)")),
        (json, long, format!("{parse}unexpected end of JSON input ({{\"a\":1,\"bbbbbbbbbbbbbbbbbbbbbb ...)")),
        (
            json,
            "\u{1}\u{2}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            format!(
                "{parse}invalid character '\\x01' looking for beginning of value (010261616161616161616161616161616161616161616161616161616161 ...)"
            ),
        ),
        (json, "", format!("{parse}unexpected end of JSON input (<empty>)")),
        (yaml, "\tbad", "yaml: found character that cannot start any token (09626164)".into()),
        (
            yaml,
            &bomb,
            "yaml: document contains excessive aliasing (613a202661205b2278222c2278222c2278222c2278222c2278222c227822 ...)"
                .into(),
        ),
    ] {
        let reply = cluster.request("POST", MAPS).typed(media, body.to_owned()).send().await;
        let words = format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
        assert_eq!(reply.ok(400)["message"], json!(words));
    }
    cluster.shutdown().await;
}

/// Null is an object without members.
#[tokio::test(start_paused = true)]
async fn a_body_of_null_is_an_empty_object() {
    let cluster = TestCluster::simulated(311).await;
    for (media, body) in
        [("application/json", "null"), ("application/yaml", "null"), ("application/yaml", "")]
    {
        let reply = cluster.request("POST", MAPS).typed(media, body).send().await;
        let words =
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
        assert_eq!(reply.ok(422)["message"], json!(words), "{media} {body:?}");
    }
    let named = cluster.request("PUT", format!("{MAPS}/a")).typed("application/json", "null").send().await;
    let words = "the name of the object (a based on URL) was undeterminable: name must be provided";
    assert_eq!(named.ok(400)["message"], json!(words));
    let gone = cluster.request("DELETE", format!("{MAPS}/a")).typed("application/json", "null").send().await;
    assert_eq!(gone.status, 404);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn strict_yaml_reports_duplicate_and_unknown_fields() {
    let cluster = TestCluster::simulated(312).await;
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: dd\ndata:\n  a: b\n  a: c\nfoo: 1\n";
    let ask = cluster.request("POST", format!("{MAPS}?dryRun=All&fieldValidation=Strict"));
    let reply = ask.typed("application/yaml", body).send().await;
    let words = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 7: key \"a\" already set in map, unknown field \"foo\"";
    assert_eq!(reply.ok(400)["message"], json!(words));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_collision_of_a_generated_name_says_so() {
    let cluster = TestCluster::simulated(313).await;
    let body = json!({"metadata": {"name": "a", "generateName": "x"}});
    cluster.post(MAPS, body.clone()).await.ok(201);
    for query in ["", "?dryRun=All"] {
        let reply = cluster.post(format!("{MAPS}{query}"), body.clone()).await;
        let status = reply.ok(409);
        let words = "configmaps \"a\" already exists, the server was not able to generate a unique name for the object";
        assert_eq!((&status["message"], &status["reason"]), (&json!(words), &json!("AlreadyExists")));
        assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps", "retryAfterSeconds": 1}));
        assert_eq!(reply.headers["retry-after"], "1");
    }
    let plain = cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(409);
    assert_eq!(plain["message"], json!("configmaps \"a\" already exists"));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn names_are_quoted_as_go_does() {
    let cluster = TestCluster::simulated(314).await;
    let missing = cluster.get(format!("{MAPS}/a%00b")).await.ok(404);
    assert_eq!(missing["message"], json!("configmaps \"a\\x00b\" not found"));
    assert_eq!(missing["details"]["name"], json!("a\u{0}b"));
    let invalid = cluster.post(MAPS, json!({"metadata": {"name": "a\u{0}b"}})).await.ok(422);
    let message = invalid["message"].as_str().unwrap();
    assert!(
        message.starts_with("ConfigMap \"a\\x00b\" is invalid: metadata.name: Invalid value: \"a\\x00b\": "),
        "{message}"
    );
    cluster.shutdown().await;
}

/// A strategic patch changes the object itself, whose type is no field of it; the others change a document.
#[tokio::test(start_paused = true)]
async fn the_type_in_a_strategic_patch_is_ignored() {
    let cluster = TestCluster::simulated(315).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let map = format!("{MAPS}/a");
    for body in [
        json!({"kind": "Secret"}),
        json!({"apiVersion": "v3"}),
        json!({"apiVersion": "v3", "kind": "Z"}),
        json!({"kind": ""}),
        json!({"kind": null}),
    ] {
        for query in ["", "?fieldValidation=Strict"] {
            let done = patch(&cluster, &format!("{map}{query}"), STRATEGIC, &body).await.ok(200);
            assert_eq!((&done["kind"], &done["apiVersion"]), (&json!("ConfigMap"), &json!("v1")), "{body}");
        }
    }
    let words = "\"\" is invalid: patch: Invalid value: \"map[kind:5]\": cannot convert int64 to string";
    let refused = patch(&cluster, &map, STRATEGIC, json!({"kind": 5})).await.ok(422);
    assert_eq!(refused["message"], json!(format!(" {words}")));
    for (media, body) in [
        (MERGE, json!({"kind": "Secret"})),
        (JSON_PATCH, json!([{"op": "replace", "path": "/kind", "value": "Secret"}])),
    ] {
        let message = patch(&cluster, &map, media, body).await.ok(422)["message"].clone();
        let message = message.as_str().unwrap();
        assert!(
            message.ends_with("converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
            "{message}"
        );
    }
    for (media, words) in [
        (STRATEGIC, "unexpected end of JSON input"),
        (MERGE, "error decoding patch: unexpected end of JSON input"),
        (JSON_PATCH, "error decoding patch: unexpected end of JSON input"),
    ] {
        assert_eq!(patch(&cluster, &map, media, "").await.ok(400)["message"], json!(words));
    }
    cluster.shutdown().await;
}

async fn with_deployment(seed: u64) -> TestCluster {
    let cluster = TestCluster::simulated(seed).await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    cluster.post(DEPLOYMENTS, deployment).await.ok(201);
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_validated_before_its_parent_is_looked_up() {
    let cluster = with_deployment(316).await;
    let scheme = "in scheme \"pkg/api/legacyscheme/scheme.go:30\"";
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"replicas": 1}});
    let typed =
        |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "d"}});
    for (name, body, words) in [
        ("nope", named("d"), "the name of the object (d) does not match the name on the URL (nope)".to_owned()),
        (
            "nope",
            json!({"spec": {"replicas": 1}}),
            "the name of the object (nope based on URL) was undeterminable: name must be provided".into(),
        ),
        (
            "nope",
            json!({"metadata": {"name": "nope", "namespace": "zz"}}),
            "the namespace of the provided object does not match the namespace sent on the request".into(),
        ),
        (
            "d",
            json!({"kind": "Foo"}),
            format!("Foo in version \"v1\" cannot be handled as a Scale: no kind \"Foo\" is registered for version \"autoscaling/v1\" {scheme}"),
        ),
        (
            "d",
            json!({"apiVersion": "v3"}),
            format!("Scale in version \"v3\" cannot be handled as a Scale: no kind \"Scale\" is registered for version \"v3\" {scheme}"),
        ),
        (
            "d",
            typed("apps/v1", "Deployment"),
            "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion".into(),
        ),
        (
            "d",
            json!({"metadata": {"name": "d"}, "spec": {"replicas": "x"}}),
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32".into(),
        ),
    ] {
        let reply = cluster.put(format!("{DEPLOYMENTS}/{name}/scale"), body).await;
        assert_eq!(reply.ok(400)["message"], json!(words));
    }
    let missing = cluster.put(format!("{DEPLOYMENTS}/nope/scale"), named("nope")).await.ok(404);
    assert_eq!(missing["message"], json!("deployments.apps \"nope\" not found"));
    let patched = patch(&cluster, &format!("{DEPLOYMENTS}/nope/scale"), MERGE, named("d")).await.ok(404);
    assert_eq!(patched["message"], json!("deployments.apps \"nope\" not found"));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_a_scale_is_refused_as_any_other() {
    let cluster = with_deployment(317).await;
    let scale = format!("{DEPLOYMENTS}/d/scale");
    let replicas = json!({"spec": {"replicas": "x"}});
    let go = "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32";
    for (query, media, body, why) in [
        ("", MERGE, replicas.to_string(), go),
        ("", JSON_PATCH, json!([{"op": "replace", "path": "/spec/replicas", "value": "x"}]).to_string(), go),
        (
            "",
            MERGE,
            json!({"kind": "Foo"}).to_string(),
            "no kind \"Foo\" is registered for version \"autoscaling/v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            "?fieldValidation=Strict",
            MERGE,
            json!({"foo": 1}).to_string(),
            "strict decoding error: unknown field \"foo\"",
        ),
        (
            "?fieldValidation=Strict",
            MERGE,
            r#"{"spec":{"replicas":1,"replicas":1}}"#.into(),
            "strict decoding error: duplicate field \"spec.replicas\"",
        ),
    ] {
        let status = patch(&cluster, &format!("{scale}{query}"), media, &body).await.ok(422);
        let message = status["message"].as_str().unwrap();
        let start = " \"\" is invalid: patch: Invalid value: \"{\\\"";
        assert!(message.starts_with(start) && message.ends_with(&format!("\": {why}")), "{message}");
    }
    // What an operation has no use for, in the order in which it was read.
    let operation =
        r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b","a":"c"},"typo":1,"op":"add"}]"#;
    let found = [
        "json patch duplicate field \"[0].value.a\"",
        "json patch unknown field \"[0].typo\"",
        "json patch duplicate field \"[0].op\"",
        // The outcome has it too.
        "duplicate field \"metadata.labels.a\"",
    ];
    let map = "/api/v1/namespaces/default/configmaps/strict";
    cluster
        .post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "strict"}}))
        .await
        .ok(201);
    for path in [map, &scale] {
        let strict =
            patch(&cluster, &format!("{path}?fieldValidation=Strict"), JSON_PATCH, operation).await.ok(422);
        let message = strict["message"].as_str().unwrap();
        assert!(message.ends_with(&format!("\": strict decoding error: {}", found.join(", "))), "{message}");
        let warned =
            patch(&cluster, &format!("{path}?fieldValidation=Warn&dryRun=All"), JSON_PATCH, operation).await;
        assert_eq!(warned.warnings(), found.map(|words| format!("299 - {words:?}")));
    }
    let unknown =
        patch(&cluster, &format!("{scale}?fieldValidation=Strict"), STRATEGIC, json!({"foo": 1})).await;
    let words = " \"\" is invalid: patch: Invalid value: \"map[foo:1]\": strict decoding error: unknown field \"foo\"";
    assert_eq!(unknown.ok(422)["message"], json!(words));
    for media in [MERGE, STRATEGIC] {
        let renamed = patch(&cluster, &scale, media, json!({"metadata": {"name": "x"}})).await.ok(400);
        assert_eq!(
            renamed["message"],
            json!("the name of the object (x) does not match the name on the URL (d)")
        );
    }
    let kind: Value = patch(&cluster, &scale, STRATEGIC, json!({"kind": "Foo"})).await.ok(200);
    assert_eq!(kind["kind"], json!("Scale"));
    assert_eq!(
        patch(&cluster, &scale, MERGE, json!({"spec": {"replicas": 4}})).await.ok(200)["spec"]["replicas"],
        json!(4)
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_of_an_object_being_deleted_is_refused_with_that_reason() {
    let cluster = TestCluster::simulated(320).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    cluster.post(maps, held.clone()).await.ok(201);
    let exists = "configmaps \"held\" already exists";
    assert_eq!(cluster.post(maps, held.clone()).await.ok(409)["message"], json!(exists));
    cluster.delete(format!("{maps}/held")).await.ok(200);
    for path in [maps.to_owned(), format!("{maps}?dryRun=All")] {
        let refused = cluster.post(path, held.clone()).await.ok(409);
        assert_eq!(refused["message"], json!(format!("object is being deleted: {exists}")));
        assert_eq!(refused["reason"], json!("AlreadyExists"));
    }
    let namespaces = "/api/v1/namespaces";
    let full = json!({"metadata": {"name": "full"}});
    cluster.post(namespaces, full.clone()).await.ok(201);
    cluster.delete(format!("{namespaces}/full")).await.ok(200);
    let refused = cluster.post(namespaces, full).await.ok(409);
    assert_eq!(refused["message"], json!("object is being deleted: namespaces \"full\" already exists"));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn warnings_are_sent_with_later_refusals_too() {
    let cluster = TestCluster::simulated(321).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}, "datas": {}});
    cluster.post(maps, json!({"metadata": {"name": "there"}})).await.ok(201);
    let unknown = ["299 - \"unknown field \\\"datas\\\"\""];
    let warn = "fieldValidation=Warn";
    for (method, path, body, code) in [
        ("POST", format!("{maps}?{warn}"), body("there", ""), 409),
        ("POST", format!("{maps}?{warn}&dryRun=All"), body("there", ""), 409),
        ("POST", format!("{maps}?{warn}"), body("new", "5"), 500),
        (
            "POST",
            format!("{maps}?{warn}"),
            json!({"metadata": {"name": "x", "namespace": "other"}, "datas": {}}),
            400,
        ),
        ("PUT", format!("{maps}/missing?{warn}"), body("missing", "5"), 404),
        ("PUT", format!("{maps}/there?{warn}"), body("there", "1"), 409),
        ("PUT", format!("{maps}/there?{warn}"), body("another", ""), 400),
        ("PUT", format!("{maps}/there?{warn}"), json!({"datas": {}}), 400),
    ] {
        let reply = cluster.request(method, &path).typed("application/json", body.to_string()).send().await;
        assert_eq!(reply.status, code, "{method} {path} {body}");
        assert_eq!(reply.warnings(), unknown, "{method} {path} {body}");
    }
    for media in [MERGE, STRATEGIC] {
        for (body, code) in [
            (json!({"metadata": {"resourceVersion": "1"}, "datas": {"a": "b"}}), 409),
            (json!({"metadata": {"name": "another"}, "datas": {"a": "b"}}), 400),
        ] {
            let reply = patch(&cluster, &format!("{maps}/there?{warn}"), media, &body).await;
            assert_eq!((reply.status, reply.warnings().len()), (code, 1), "{media} {body}");
        }
    }
    // What the kind itself warns of, too.
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"externalName": "x.example.com", "ports": [{"port": 80}]}});
    assert_eq!(cluster.post(services, service.clone()).await.warnings().len(), 1);
    let again = cluster.post(services, service).await;
    assert_eq!((again.status, again.warnings().len()), (409, 1));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn json_in_one_line_ends_with_a_newline() {
    let cluster = TestCluster::simulated(322).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let large = json!({"metadata": {"name": "large"}, "data": {"k": "x".repeat(100_000)}});
    let created = cluster.post(maps, large).await;
    assert!(created.bytes.ends_with(b"}\n"));
    let scaler = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 2,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let scalers = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    cluster.post(scalers, scaler).await.ok(201);
    let get = |path: String, accept: &'static str| {
        let cluster = &cluster;
        async move { cluster.request("GET", path).header("accept", accept).send().await }
    };
    let json = "application/json";
    let views = [
        json,
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ];
    let objects = [format!("{maps}/large"), format!("{scalers}/h")];
    for (path, view) in objects.iter().flat_map(|path| views.map(|view| (path, view))) {
        let reply = get(path.clone(), view).await;
        assert!(reply.status == 200 && reply.bytes.ends_with(b"}\n"), "{path} as {view}");
        let pretty = get(format!("{path}?pretty=true"), view).await;
        assert!(pretty.bytes.ends_with(b"\n}"), "{path} as {view}");
    }
    let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept) in [
        (maps, json),
        ("/api/v1/namespaces/default/secrets", json),
        (scalers, json),
        (maps, views[1]),
        ("/api/v1/nosuch", json),
        ("/api", json),
        ("/api/v1", json),
        ("/apis", json),
        ("/apis", discovery),
    ] {
        let reply = get(path.to_owned(), accept).await;
        let ends = reply.bytes.ends_with(b"}\n") && !reply.bytes.ends_with(b"\n\n");
        assert!(ends, "{path} as {accept}: {}", String::from_utf8_lossy(&reply.bytes));
    }
    for path in ["/version", "/"] {
        assert!(get(path.to_owned(), json).await.bytes.ends_with(b"\n}"), "{path}");
    }
    cluster.shutdown().await;
}
