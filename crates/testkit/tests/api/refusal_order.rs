//! Which error is reported first when a request has several: kube-apiserver's order.

use auth::{Tokens, UserInfo};
use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn bound(cluster: &TestCluster, user: &str, verbs: &[&str]) {
    let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": verbs}]);
    let role = json!({"metadata": {"name": user}, "rules": rules});
    cluster.post(format!("{RBAC}/clusterroles"), role).await.ok(201);
    let binding = json!({"metadata": {"name": user}, "roleRef": role_ref("ClusterRole", user),
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(format!("{RBAC}/clusterrolebindings"), binding).await.ok(201);
}

fn role_ref(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
}

#[tokio::test(start_paused = true)]
async fn a_missing_role_is_reported_before_an_invalid_binding() {
    let cluster = TestCluster::simulated(911).await;
    bound(&cluster, "writer", &["create", "update"]).await;
    bound(&cluster, "binder", &["create", "update", "bind"]).await;
    cluster.post(format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "empty"}})).await.ok(201);
    let (cluster_wide, inside) =
        (format!("{RBAC}/clusterrolebindings"), format!("{RBAC}/namespaces/default/rolebindings"));
    for path in [&cluster_wide, &inside] {
        let old = json!({"metadata": {"name": "old"}, "roleRef": role_ref("ClusterRole", "empty")});
        cluster.post(path, old).await.ok(201);
    }
    let kind = "clusterrolebindings.rbac.authorization.k8s.io";
    for (path, role, code, words) in [
        (&cluster_wide, role_ref("Role", "none"), 400, "Namespace parameter required.".to_owned()),
        (&cluster_wide, role_ref("Role", ""), 400, "Namespace parameter required.".to_owned()),
        (&cluster_wide, role_ref("ClusterRole", "none"), 404, format!("{kind} \"none\" not found")),
        (&cluster_wide, role_ref("ClusterRole", ""), 400, "Name parameter required.".to_owned()),
        (&inside, role_ref("Role", ""), 400, "Name parameter required.".to_owned()),
        (
            &inside,
            role_ref("Role", "a/b"),
            400,
            "Name parameter invalid: \"a/b\": may not contain '/'".to_owned(),
        ),
        (
            &inside,
            role_ref("ClusterRole", "."),
            400,
            "Name parameter invalid: \".\": may not be '.'".to_owned(),
        ),
        (&inside, role_ref("Other", "x"), 500, "unsupported role reference kind: \"Other\"".to_owned()),
        (&cluster_wide, role_ref("", ""), 500, "unsupported role reference kind: \"\"".to_owned()),
    ] {
        let send = |user: &str, update: bool| {
            let body = json!({"metadata": {"name": if update { "old" } else { "new" }}, "roleRef": role});
            let (method, path) = if update { ("PUT", format!("{path}/old")) } else { ("POST", path.clone()) };
            cluster.request(method, path).by(UserInfo::new(user, &[])).json(&body).send()
        };
        for update in [false, true] {
            let refused = send("writer", update).await.ok(code);
            assert_eq!(refused["message"], words, "{role} update: {update}");
            if code == 400 {
                assert_eq!((&refused["reason"], refused.get("details")), (&json!("BadRequest"), None));
            }
        }
        // Who may bind is not asked what the role holds; the binding itself is judged then, unless it names no kind of role.
        let code = if code == 500 { 500 } else { 422 };
        let updated = send("binder", true).await;
        assert_eq!(updated.status, code, "{role}: {}", updated.text());
    }
    // A missing role may be bound by those who may bind.
    for (path, role) in
        [(&cluster_wide, role_ref("ClusterRole", "none")), (&inside, role_ref("Role", "none"))]
    {
        let body = json!({"metadata": {"name": "new"}, "roleRef": role});
        let asked = cluster.request("POST", path.as_str()).by(UserInfo::new("binder", &[])).json(&body);
        assert_eq!(asked.send().await.status, 201);
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_patch_of_a_missing_object_is_not_found() {
    let cluster = TestCluster::simulated(912).await;
    let patch = |path: String, kind: &str, body: &str| {
        cluster.request("PATCH", path).typed(kind, body.to_owned()).send()
    };
    let scale = "/apis/apps/v1/namespaces/default/deployments/none/scale";
    for kind in [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH] {
        for path in [&format!("{MAPS}/none"), &format!("{PODS}/none/status"), scale] {
            for body in ["{", "", "\"x\"", "[1]", "{} x"] {
                let refused = patch(path.to_string(), kind, body).await.ok(404);
                assert_eq!(refused["details"]["name"], "none", "{kind} {path} {body}");
            }
        }
        // The query is looked at before the object, and the size of a body before the query.
        for query in ["dryRun=Bad", "fieldValidation=Bad", "force=true", "dryRun="] {
            assert_eq!(patch(format!("{MAPS}/none?{query}"), kind, "{").await.status, 422, "{query}");
        }
        let large = format!("[{}]", " ".repeat(3 << 20));
        assert_eq!(patch(format!("{MAPS}/none?dryRun=Bad"), kind, &large).await.status, 413);
    }
    for (query, code) in [("", 422), ("?fieldManager=x&dryRun=Bad", 422), ("?fieldManager=x", 400)] {
        assert_eq!(patch(format!("{MAPS}/none{query}"), APPLY, "{").await.status, code, "{query}");
    }
    assert_eq!(
        patch(format!("{MAPS}/none?dryRun=Bad"), "application/apply-patch+cbor", "{").await.status,
        415
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unvalidated_patch_is_refused_when_it_is_applied() {
    let cluster = TestCluster::simulated(913).await;
    cluster.post(MAPS, json!({"metadata": {"name": "m"}})).await.ok(201);
    let patch = |query: &str, kind: &str, body: &'static str| {
        cluster.request("PATCH", format!("{MAPS}/m?fieldValidation={query}")).typed(kind, body).send()
    };
    let into =
        |kind: &str, ty: &str| format!("json: cannot unmarshal {kind} into Go value of type jsonpatch.{ty}");
    for (kind, body, code, words) in [
        (JSON_PATCH, "{", 400, "unexpected end of JSON input".to_owned()),
        (JSON_PATCH, "{}", 400, into("object", "Patch")),
        (JSON_PATCH, "[1]", 400, into("number", "Operation")),
        (
            JSON_PATCH,
            r#"[{"op":1}]"#,
            422,
            "the server rejected our request due to an error in our request".to_owned(),
        ),
        (MERGE_PATCH, "{", 400, "Invalid JSON Patch".to_owned()),
        (MERGE_PATCH, "3", 400, "Invalid JSON Patch".to_owned()),
        (STRATEGIC_PATCH, "{", 400, "unexpected end of JSON input".to_owned()),
    ] {
        assert_eq!(patch("Ignore", kind, body).await.ok(code)["message"], words, "{kind} {body}");
    }
    let refused = patch("Ignore", MERGE_PATCH, "[1,null]").await.ok(422);
    let cause = refused["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(
        cause.starts_with("Invalid value: \"[1]\": couldn't get version/kind; json parse error"),
        "{cause}"
    );

    // A member no operation has.
    let unknown = r#"[{"op":"add","path":"/data","value":{},"zz":1}]"#;
    let words = "json patch unknown field \"[0].zz\"";
    let warned = patch("Warn", JSON_PATCH, unknown).await;
    assert_eq!(
        (warned.status, warned.warnings()),
        (200, vec![format!("299 - \"{}\"", words.replace('"', "\\\""))])
    );
    let refused = patch("Strict", JSON_PATCH, unknown).await.ok(422);
    let cause = refused["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(cause.ends_with(&format!("strict decoding error: {words}")), "{cause}");
    assert_eq!(patch("Ignore", JSON_PATCH, unknown).await.warnings(), Vec::<String>::new());
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_behind_an_extra_space_is_ignored() {
    let tokens = Tokens::parse("tokens".as_ref(), b"s3cret,jane,7,devs\n").expect("a token file");
    let cluster = TestCluster::with_tokens(Env::simulated(914), Some(tokens)).await;
    let review = |token: &str, audiences: Value| {
        let body = json!({"spec": {"token": token, "audiences": audiences}});
        cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", body)
    };
    for token in [" s3cret", "  ", " "] {
        let status = &review(token, json!([])).await.ok(201)["status"];
        assert_eq!(status["authenticated"], true, "{token:?}");
        assert_eq!(
            status["user"],
            json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]})
        );
        assert_eq!(status["audiences"].as_array().unwrap().len(), 1);
        assert_eq!(review(token, json!(["zz"])).await.ok(201)["status"]["audiences"], json!(["zz"]));
    }
    for token in ["s3cret", "s3cret ", "s3cret\n", "s3cret more"] {
        assert_eq!(review(token, json!([])).await.ok(201)["status"]["user"]["username"], "jane", "{token:?}");
    }
    for token in ["\ts3cret\n", "\u{a0}s3cret", "\u{2003}s3cret", "more s3cret"] {
        let status = &review(token, json!([])).await.ok(201)["status"];
        assert_eq!(status, &json!({"user": {}, "error": "invalid bearer token"}), "{token:?}");
    }
    assert_eq!(review("", json!([])).await.status, 400);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn bad_options_of_an_eviction_are_reported_by_its_deletion() {
    let cluster = TestCluster::simulated(915).await;
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    cluster.post(PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await.ok(201);
    let evict = |pod: &str, query: &str, dry_run: Value| {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod},
            "deleteOptions": {"dryRun": dry_run}});
        cluster.post(format!("{PODS}/{pod}/eviction{query}"), body)
    };
    for (bad, shown) in
        [(json!([""]), ""), (json!(["all"]), "all"), (json!([null]), ""), (json!(["All", "Bad"]), "All Bad")]
    {
        let refused = evict("p", "", bad.clone()).await.ok(422);
        assert_eq!(refused["details"]["kind"], "DeleteOptions", "{bad}");
        assert_eq!(refused["details"]["causes"][0]["field"], "dryRun");
        assert_eq!(evict("none", "", bad.clone()).await.status, 404, "{bad}");
        for pod in ["p", "none"] {
            let refused = evict(pod, "?dryRun=All", bad.clone()).await.ok(500);
            let words = format!("Non-matching dry-run options in request and content: [All] and [{shown}]");
            assert_eq!((&refused["message"], refused.get("reason")), (&json!(words), None));
        }
        // The body of a DELETE is looked at before what it deletes.
        for path in [format!("{PODS}/none"), PODS.to_owned()] {
            let asked = cluster.request("DELETE", &path).json(&json!({"dryRun": bad}));
            assert_eq!(asked.send().await.ok(422)["details"]["kind"], "DeleteOptions", "{path}");
        }
    }
    assert_eq!(evict("p", "?dryRun=Bad", json!(["All"])).await.ok(422)["details"]["kind"], "CreateOptions");
    for (query, dry_run) in
        [("?dryRun=All", json!(["All"])), ("?dryRun=All", json!([])), ("", json!(["All"]))]
    {
        evict("p", query, dry_run).await.ok(201);
    }
    let pod = cluster.get(format!("{PODS}/p")).await.ok(200);
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
    assert_eq!(pod["status"].get("conditions"), None, "no refused eviction marks the pod");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_as_metadata_list_ends_silently_at_the_first_event() {
    let cluster = TestCluster::simulated(916).await;
    let list = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let begun = cluster.get(MAPS).await.ok(200)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let watch = |media: &str, query: String| {
        let path = format!("{MAPS}?watch=1&timeoutSeconds=100&{query}");
        cluster.request("GET", path).accept(&format!("{media};{list}"))
    };
    for media in ["application/json", "application/vnd.kubernetes.protobuf"] {
        // The bookmark that ends the initial events is one already.
        let reply = watch(media, "allowWatchBookmarks=true".to_owned()).send().await;
        assert_eq!((reply.status, reply.text().as_str()), (200, ""));
        assert!(reply.content_type().starts_with(media), "{}", reply.content_type());
    }
    let mut stream = watch("application/json", format!("resourceVersion={begun}")).stream().await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let before = cluster.env().monotonic();
    assert_eq!(stream.next().await, None);
    assert!(
        cluster.env().monotonic() - before < std::time::Duration::from_secs(50),
        "it is not the time that ends it"
    );

    // There is no YAML of events, which is seen behind all else.
    let refused = watch("application/yaml", String::new()).send().await.ok(406);
    assert!(
        refused["message"].as_str().unwrap().ends_with("application/vnd.kubernetes.protobuf;stream=watch")
    );
    assert_eq!(watch("application/yaml", "labelSelector=a%3D%3D%3Db".to_owned()).send().await.status, 400);
    let table = cluster.request("GET", format!("{MAPS}?watch=1&includeObject=Bad"));
    assert_eq!(table.accept("application/yaml;as=Table;v=v1;g=meta.k8s.io").send().await.status, 400);
    let unknown = cluster.request("GET", format!("{MAPS}?watch=1"));
    assert_eq!(unknown.accept("application/json;as=TableList;v=v1;g=meta.k8s.io").send().await.status, 406);
    cluster.shutdown().await;
}
