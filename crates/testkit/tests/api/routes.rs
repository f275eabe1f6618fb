//! Which paths are served: cluster-scoped resources not inside a namespace, and only lists across namespaces. A path too many is a
//! permission too many: authorization uses the namespace in the path.

use auth::{Tokens, UserInfo};
use catalog::Verbs;
use env::Env;
use serde_json::json;
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn root(resource: &catalog::Resource) -> String {
    match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_resources_are_not_served_in_a_namespace() {
    let cluster = TestCluster::simulated(61).await;
    let mut seen = 0;
    for resource in cluster.catalog().resources().iter().filter(|r| !r.namespaced) {
        seen += 1;
        let place = format!("{}/namespaces/default/{}", root(resource), resource.plural);
        for (method, path) in [
            ("GET", place.clone()),
            ("GET", format!("{place}?watch=1&timeoutSeconds=1")),
            ("POST", place.clone()),
            ("DELETE", place.clone()),
            ("GET", format!("{place}/default")),
            ("PUT", format!("{place}/default")),
            ("PATCH", format!("{place}/default")),
            ("DELETE", format!("{place}/default")),
            ("GET", format!("{place}/default/status")),
        ] {
            let reply =
                cluster.request(method, &*path).json(&json!({"metadata": {"name": "default"}})).send().await;
            assert_eq!(reply.status, 404, "{method} {path}: {}", reply.text());
        }
    }
    assert!(seen > 20, "{seen} resources lie in no namespace");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn permissions_in_one_namespace_reach_no_other() {
    let cluster = TestCluster::simulated(62).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    cluster.post(format!("{rbac}/roles"), json!({"metadata": {"name": "owner"}, "rules": all})).await.ok(201);
    let binding = json!({
        "metadata": {"name": "owner"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    cluster.post(format!("{rbac}/rolebindings"), binding).await.ok(201);
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "victim"}})).await.ok(201);
    let jane = UserInfo::new("jane", &[]);
    for (method, path, code) in [
        ("GET", "/api/v1/namespaces/default", 200),
        ("GET", "/api/v1/namespaces/victim", 403),
        ("GET", "/api/v1/namespaces/default/namespaces", 404),
        ("GET", "/api/v1/namespaces/default/namespaces/victim", 404),
        ("PATCH", "/api/v1/namespaces/default/namespaces/victim", 404),
        ("DELETE", "/api/v1/namespaces/default/namespaces/victim", 404),
        ("POST", "/api/v1/namespaces/default/namespaces", 404),
    ] {
        let body = json!({"metadata": {"name": "other", "labels": {"a": "b"}}});
        let ask = cluster.request(method, path).by(jane.clone());
        let ask = if method == "PATCH" {
            ask.typed("application/merge-patch+json", body.to_string().into_bytes())
        } else {
            ask.json(&body)
        };
        let reply = ask.send().await;
        assert_eq!(reply.status, code, "{method} {path}: {}", reply.text());
    }
    let victim = cluster.get("/api/v1/namespaces/victim").await.ok(200);
    assert_eq!(victim["status"]["phase"], "Active");
    assert_eq!(victim["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "victim"}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn only_lists_go_across_namespaces() {
    let cluster = TestCluster::simulated(63).await;
    cluster.post(MAPS, json!({"metadata": {"name": "kept"}})).await.ok(201);
    let mut seen = 0;
    for resource in cluster.catalog().resources().iter().filter(|r| r.namespaced) {
        seen += 1;
        let place = format!("{}/{}", root(resource), resource.plural);
        let (list, write) = if resource.verbs.contains(Verbs::LIST) { (200, 405) } else { (404, 404) };
        assert_eq!(cluster.get(&*place).await.status, list, "GET {place}");
        for method in ["POST", "DELETE", "PUT", "PATCH"] {
            let body = json!({"metadata": {"name": "x", "namespace": "default"}});
            let reply = cluster.request(method, &*place).json(&body).send().await;
            assert_eq!(reply.status, write, "{method} {place}: {}", reply.text());
        }
        assert_eq!(cluster.get(format!("{place}/kept")).await.status, 404, "GET {place}/kept");
    }
    assert!(seen > 30, "{seen} resources lie in namespaces");
    cluster.get(format!("{MAPS}/kept")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn other_methods_on_the_legacy_watch_path_and_head_are_405() {
    let cluster = TestCluster::simulated(64).await;
    cluster.post(MAPS, json!({"metadata": {"name": "kept"}})).await.ok(201);
    let old = "/api/v1/watch/namespaces/default/configmaps";
    for (method, path) in [
        ("DELETE", format!("{old}/kept")),
        ("DELETE", old.to_owned()),
        ("POST", old.to_owned()),
        ("PUT", format!("{old}/kept")),
        ("PATCH", format!("{old}/kept")),
        ("HEAD", format!("{MAPS}/kept")),
        ("HEAD", MAPS.to_owned()),
        ("OPTIONS", MAPS.to_owned()),
    ] {
        let body = json!({"metadata": {"name": "new"}});
        let reply = cluster.request(method, &*path).json(&body).send().await;
        assert_eq!(reply.status, 405, "{method} {path}: {}", reply.text());
    }
    let left = cluster.get(MAPS).await.ok(200);
    let names: Vec<_> = left["items"].as_array().unwrap().iter().map(|i| &i["metadata"]["name"]).collect();
    assert_eq!(names, ["kept"]);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_systems_priority_classes_are_not_deleted_by_name() {
    let cluster = TestCluster::simulated(65).await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let refused = cluster.delete(format!("{classes}/system-node-critical")).await.ok(403);
    let words = "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system \
                 priority class and cannot be deleted";
    assert_eq!(refused["message"], words);
    cluster.post(classes, json!({"metadata": {"name": "mine"}, "value": 1})).await.ok(201);
    cluster.delete(format!("{classes}/mine")).await.ok(200);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_field_selector_is_refused() {
    let cluster = TestCluster::simulated(66).await;
    for path in [
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/apis/resource.k8s.io/v1/resourceslices",
    ] {
        let query = format!("{path}?fieldSelector=metadata.namespace%3Dx");
        assert_eq!(cluster.get(query).await.status, 400, "{path}");
    }
    for path in ["/api/v1/persistentvolumes", "/api/v1/pods", MAPS] {
        let query = format!("{path}?fieldSelector=metadata.namespace%3Dx");
        assert_eq!(cluster.get(query).await.status, 200, "{path}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_may_set_the_timeout_of_its_request() {
    let cluster = TestCluster::simulated(67).await;
    for text in ["1s", "0s", "-1s", "1h", "0"] {
        cluster.get(format!("{MAPS}?timeout={text}")).await.ok(200);
    }
    for text in ["abc", "5", "1x"] {
        let refused = cluster.get(format!("{MAPS}?timeout={text}")).await.ok(400);
        let message = refused["message"].as_str().unwrap();
        assert!(message.starts_with("invalid timeout specified in the request URL - time: "), "{message}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn other_credentials_are_anonymous_and_bad_tokens_are_refused() {
    let tokens = Tokens::parse("tokens".as_ref(), b"s3cret,jane,7\n").expect("a token file");
    let cluster = TestCluster::with_tokens(Env::simulated(68), Some(tokens)).await;
    for (header, health, maps) in [
        ("Basic amFuZTp4", 200, 403),
        ("foo", 200, 403),
        ("bearer", 200, 403),
        ("Bearer  s3cret", 200, 403),
        ("Bearer s3cret", 200, 403),
        ("BEARER s3cret and more", 200, 403),
        ("Bearer wrong", 401, 401),
        ("Bearer \u{e4}", 401, 401),
    ] {
        for (path, code) in [("/healthz", health), (MAPS, maps)] {
            let reply = cluster.request("GET", path).unproven().header("Authorization", header).send().await;
            assert_eq!(reply.status, code, "{header}: {}", reply.text());
            let user =
                if header.contains("s3cret") && !header.contains("  ") { "jane" } else { "system:anonymous" };
            assert!(
                code != 403 || reply.text().contains(&format!("User \\\"{user}\\\"")),
                "{}",
                reply.text()
            );
        }
    }
    cluster.shutdown().await;
}
