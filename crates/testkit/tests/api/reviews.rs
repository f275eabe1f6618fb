//! Requests that are answered and never stored (reviews, tokens) are decoded, refused and shown like all others.

use bytes::Bytes;
use serde_json::{Value, json};
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const SCHEME: &str = "in scheme \"pkg/api/legacyscheme/scheme.go:30\"";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The kind, its package and version upstream, and where it is asked.
const REVIEWS: [(&str, &str, &str); 7] = [
    ("SelfSubjectReview", "authentication", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ("TokenReview", "authentication", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ("SubjectAccessReview", "authorization", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ("SelfSubjectAccessReview", "authorization", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ("SelfSubjectRulesReview", "authorization", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"),
    (
        "LocalSubjectAccessReview",
        "authorization",
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
    ),
    ("TokenRequest", "authentication", TOKEN),
];

async fn with_account(seed: u64) -> TestCluster {
    let cluster = TestCluster::simulated(seed).await;
    let account = json!({"metadata": {"name": "default"}});
    let made = cluster.post("/api/v1/namespaces/default/serviceaccounts", account).await;
    assert!(matches!(made.status, 201 | 409), "{}", made.text());
    cluster
}

/// The message of a refusal.
async fn refused(cluster: &TestCluster, path: &str, body: Value) -> String {
    let reply = cluster.post(path, body).await.ok(400);
    reply["message"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_review_of_another_kind_or_version_is_refused() {
    let cluster = with_account(871).await;
    for (kind, package, path) in REVIEWS {
        let words = |named: &str, version: &str, why: String| {
            format!("{named} in version \"{version}\" cannot be handled as a {kind}: {why}")
        };
        let pod = refused(&cluster, path, json!({"kind": "Pod", "apiVersion": "v1"})).await;
        assert_eq!(
            pod,
            words("Pod", "v1", format!("converting (v1.Pod) to ({package}.{kind}): unknown conversion"))
        );
        let unknown = refused(&cluster, path, json!({"kind": "Foo"})).await;
        let group = format!("{package}.k8s.io");
        let why = format!("no kind \"Foo\" is registered for version \"{group}/v1\" {SCHEME}");
        assert_eq!(unknown, words("Foo", "v1", why));
        // Versions that are no longer served are still known, where there were some.
        let old =
            refused(&cluster, path, json!({"kind": kind, "apiVersion": format!("{group}/v1beta1")})).await;
        let expected = match kind {
            "TokenRequest" => words(
                kind,
                "v1beta1",
                format!("no kind \"{kind}\" is registered for version \"{group}/v1beta1\" {SCHEME}"),
            ),
            _ => format!(
                "the API version in the data ({group}/v1beta1) does not match the expected API version ({group}/v1)"
            ),
        };
        assert_eq!(old, expected);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_of_a_review_are_refused_or_warned_about() {
    let cluster = with_account(872).await;
    for (kind, _, path) in REVIEWS {
        let odd = json!({"unk": 1});
        let strict = refused(&cluster, &format!("{path}?fieldValidation=Strict"), odd.clone()).await;
        let why = "strict decoding error: unknown field \"unk\"";
        assert_eq!(strict, format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}"));
        // Some of these are answered, some refused: the warning comes with both.
        for query in ["", "?fieldValidation=Warn"] {
            let told = cluster.post(format!("{path}{query}"), odd.clone()).await;
            assert_eq!(told.warnings(), ["299 - \"unknown field \\\"unk\\\"\""], "{path}: {}", told.text());
        }
        let ignored = cluster.post(format!("{path}?fieldValidation=Ignore"), odd).await;
        assert_eq!(ignored.warnings(), [""; 0], "{path}");
        let yaml = |query: &str| {
            let ask = cluster.request("POST", format!("{path}{query}"));
            ask.typed("application/yaml", "a: 1\na: 2\n").send()
        };
        assert_eq!(
            yaml("").await.warnings(),
            ["299 - \"line 2: key \\\"a\\\" already set in map\"", "299 - \"unknown field \\\"a\\\"\""]
        );
        let strict = yaml("?fieldValidation=Strict").await.ok(400)["message"].as_str().unwrap().to_owned();
        assert!(strict.ends_with("line 2: key \"a\" already set in map, unknown field \"a\""), "{strict}");
    }
    let elsewhere = cluster.post(TOKEN, json!({"metadata": {"namespace": "other"}, "unk": 1})).await;
    elsewhere.ok(400);
    assert_eq!(elsewhere.warnings(), ["299 - \"unknown field \\\"unk\\\"\""]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn reviews_have_no_items_and_no_list_across_namespaces() {
    let cluster = with_account(873).await;
    let mut paths: Vec<String> = Vec::new();
    for (_, _, path) in REVIEWS.iter().filter(|(kind, ..)| *kind != "TokenRequest") {
        paths.extend([format!("{path}/x"), format!("{path}/x/y")]);
    }
    let bindings = "/api/v1/namespaces/default/bindings";
    paths.extend([
        format!("{bindings}/x"),
        "/api/v1/bindings".into(),
        "/api/v1/watch/namespaces/default/bindings".into(),
        "/apis/authorization.k8s.io/v1/localsubjectaccessreviews".into(),
    ]);
    for path in paths {
        for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "POST", "OPTIONS"] {
            let reply = cluster.request(method, &*path).json(&json!({})).send().await;
            assert_eq!(reply.status, 404, "{method} {path}: {}", reply.text());
            if method != "HEAD" {
                let words = "the server could not find the requested resource";
                assert_eq!(reply.ok(404)["message"], json!(words), "{method} {path}");
            }
        }
    }
    for method in ["GET", "PUT", "DELETE"] {
        let reply = cluster.request(method, bindings).json(&json!({})).send().await;
        assert_eq!(reply.status, 405, "{method}: the path itself is there");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_review_is_answered_as_metadata_but_not_as_a_table() {
    let cluster = with_account(874).await;
    for (kind, package, path) in REVIEWS {
        let body = match kind {
            "SelfSubjectRulesReview" => json!({"spec": {"namespace": "x"}}),
            "TokenReview" => json!({"metadata": {"labels": {"a": "b"}}, "spec": {"token": "t"}}),
            _ => {
                json!({"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}})
            }
        };
        let body = match kind {
            "LocalSubjectAccessReview" => {
                json!({"spec": {"user": "u", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}})
            }
            _ => body,
        };
        let ask = |view: &str| {
            let accept = format!("application/json;as={view};g=meta.k8s.io;v=v1");
            cluster.request("POST", path).header("accept", &accept).json(&body).send()
        };
        let metadata = ask("PartialObjectMetadata").await.ok(201);
        assert_eq!(metadata["kind"], json!("PartialObjectMetadata"), "{kind}");
        assert_eq!(metadata["apiVersion"], json!("meta.k8s.io/v1"), "{kind}");
        assert!(metadata.get("status").is_none() && metadata["metadata"].is_object(), "{metadata}");
        if kind == "TokenReview" {
            assert_eq!(metadata["metadata"]["labels"], json!({"a": "b"}));
        }
        let list = ask("PartialObjectMetadataList").await.ok(406)["message"].clone();
        let words = "you requested PartialObjectMetadataList, but the requested object is not a list";
        assert_eq!(list, json!(format!("{words} (*{package}.{kind})")));
        assert_eq!(ask("Table").await.status, 406, "{kind}");
    }
    cluster.shutdown().await;
}

/// Upstream's schemes have types for versions it no longer serves, and each of its three servers has its own.
#[tokio::test(start_paused = true)]
async fn a_version_that_is_known_but_not_served_cannot_be_converted() {
    let cluster = with_account(875).await;
    let pods = "/api/v1/namespaces/default/pods/p";
    let old = json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1beta1"});
    for (path, kind, internal) in [
        (MAPS.to_owned(), "ConfigMap", "core.ConfigMap"),
        (format!("{pods}/eviction"), "Eviction", "policy.Eviction"),
        (format!("{pods}/binding"), "Binding", "core.Binding"),
        ("/api/v1/namespaces/default/bindings".into(), "Binding", "core.Binding"),
        ("/apis/events.k8s.io/v1/namespaces/default/events".into(), "Event", "core.Event"),
    ] {
        let why = format!("converting (v1beta1.TokenReview) to ({internal}): unknown conversion");
        let words = format!("TokenReview in version \"v1beta1\" cannot be handled as a {kind}: {why}");
        assert_eq!(refused(&cluster, &path, old.clone()).await, words);
    }
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let hpas = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    for (path, kind, version, words) in [
        (
            hpas,
            "HorizontalPodAutoscaler",
            "autoscaling/v2",
            "the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)",
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            "Deployment",
            "extensions/v1beta1",
            "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)",
        ),
        (
            crds,
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1beta1",
            "the API version in the data (apiextensions.k8s.io/v1beta1) does not match the expected API version (apiextensions.k8s.io/v1)",
        ),
        (
            crds,
            "ConfigMap",
            "v1",
            "ConfigMap in version \"v1\" cannot be handled as a CustomResourceDefinition: no kind \"ConfigMap\" is registered for version \"v1\" in scheme \"pkg/apiserver/apiserver.go:55\"",
        ),
        (
            MAPS,
            "PodList",
            "v1",
            "PodList in version \"v1\" cannot be handled as a ConfigMap: converting (v1.PodList) to (core.ConfigMap): unknown conversion",
        ),
        (
            MAPS,
            "ConfigMap",
            "a/b/c",
            "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\",\"kind\":\" ...)",
        ),
    ] {
        let body = json!({"kind": kind, "apiVersion": version});
        assert_eq!(refused(&cluster, path, body).await, words);
    }
    cluster.shutdown().await;
}

/// A body in protobuf: its envelope, and the bytes of the message in it.
fn sealed(version: &str, kind: &str, message: &[u8]) -> Bytes {
    let mut out = Vec::new();
    codec::protobuf::seal(version, kind, &mut out, |out| out.extend_from_slice(message));
    out.into()
}

#[tokio::test(start_paused = true)]
async fn invalid_protobuf_is_reported_like_invalid_json() {
    let cluster = with_account(876).await;
    let no_prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    let mut cases: Vec<(&str, &str, Bytes, String)> = Vec::new();
    for (kind, path) in [("ConfigMap", MAPS), ("TokenRequest", TOKEN), ("TokenReview", REVIEWS[1].2)] {
        for (body, why) in [
            ("x", format!("{no_prefix} (78)")),
            ("{\"a\":1}", format!("{no_prefix} ({{\"a\":1}})")),
            ("", "empty data (<empty>)".into()),
            ("k8s\0", "empty body (6b387300)".into()),
            ("k8s\0zz", "unexpected EOF (6b3873007a7a)".into()),
        ] {
            let words = format!("the object provided is unrecognized (must be of type {kind}): {why}");
            cases.push(("POST", path, Bytes::from(body), words));
        }
    }
    let named = |kind: &str, version: &str, why: &str| {
        format!("{kind} in version \"{version}\" cannot be handled as a ConfigMap: {why}")
    };
    let unknown = format!("no kind \"Foo\" is registered for version \"v1\" {SCHEME}");
    let old = "converting (v1beta1.TokenReview) to (core.ConfigMap): unknown conversion";
    cases.extend([
        ("POST", MAPS, sealed("v1", "ConfigMap", b"zz"), named("ConfigMap", "v1", "unexpected EOF")),
        ("POST", MAPS, sealed("", "", b"zz"), named("ConfigMap", "v1", "unexpected EOF")),
        ("POST", MAPS, sealed("v1", "Foo", b"zz"), named("Foo", "v1", &unknown)),
        (
            "POST",
            MAPS,
            sealed("authentication.k8s.io/v1beta1", "TokenReview", b""),
            named("TokenReview", "v1beta1", old),
        ),
        ("DELETE", MAPS, Bytes::from("zzz"), no_prefix.to_owned()),
        ("DELETE", MAPS, sealed("v1", "DeleteOptions", b"zz"), "unexpected EOF".to_owned()),
    ]);
    for (method, path, body, words) in cases {
        let reply = cluster.request(method, path).typed(PROTOBUF, body.clone()).send().await;
        assert_eq!(reply.ok(400)["message"], json!(words), "{method} {path} {body:?}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_review_of_no_rules_has_an_empty_list() {
    let cluster = TestCluster::simulated(879).await;
    for name in ["system:discovery", "system:public-info-viewer"] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}");
        cluster.delete(path).await.ok(200);
    }
    let nobody = auth::UserInfo::new("nobody", &[auth::groups::AUTHENTICATED]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({"spec": {"namespace": "default"}});
    let answer = cluster.request("POST", path).json(&review).by(nobody).send().await.ok(201);
    assert_eq!(answer["status"]["nonResourceRules"], json!([]));
    cluster.shutdown().await;
}
