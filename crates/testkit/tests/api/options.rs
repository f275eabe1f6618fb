//! Options of requests, as they are refused.

use serde_json::json;
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// An empty value is no dry run and no write either: whoever sends it meant the first.
#[tokio::test(start_paused = true)]
async fn an_empty_dry_run_is_refused_by_every_verb() {
    let cluster = TestCluster::simulated(300).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(PODS, pod).await.ok(201);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    cluster.post(DEPLOYMENTS, deployment).await.ok(201);
    let before = cluster.get(MAPS).await.version();

    let merge = "application/merge-patch+json";
    let body = "application/json";
    let named = |name: &str| json!({"metadata": {"name": name}}).to_string();
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}}).to_string();
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}}).to_string();
    for (method, path, media, sent, kind) in [
        ("POST", MAPS.to_owned(), body, named("b"), "CreateOptions"),
        ("PUT", format!("{MAPS}/a"), body, named("a"), "UpdateOptions"),
        ("PATCH", format!("{MAPS}/a"), merge, r#"{"data":{"a":"b"}}"#.into(), "PatchOptions"),
        ("DELETE", format!("{MAPS}/a"), "", String::new(), "DeleteOptions"),
        ("DELETE", MAPS.to_owned(), "", String::new(), "DeleteOptions"),
        ("PUT", format!("{PODS}/p/status"), body, named("p"), "UpdateOptions"),
        ("PATCH", format!("{PODS}/p/status"), merge, r#"{"status":{"phase":"Failed"}}"#.into(), "PatchOptions"),
        ("POST", format!("{PODS}/p/binding"), body, binding, "CreateOptions"),
        ("POST", format!("{PODS}/p/eviction"), body, named("p"), "CreateOptions"),
        ("PUT", format!("{DEPLOYMENTS}/d/scale"), body, scale, "UpdateOptions"),
        ("PATCH", format!("{DEPLOYMENTS}/d/scale"), merge, r#"{"spec":{"replicas":3}}"#.into(), "PatchOptions"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token".into(), body, "{}".into(), "CreateOptions"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews".into(), body, "{}".into(), "CreateOptions"),
    ] {
        for (query, shown) in [("dryRun=", r#"[""]"#), ("dryRun=All&dryRun=", r#"["All",""]"#)] {
            let ask = cluster.request(method, format!("{path}?{query}"));
            let ask = if media.is_empty() { ask } else { ask.typed(media, sent.clone()) };
            let reply = ask.send().await;
            let words = format!(
                "{kind}.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: {shown}: supported values: \"All\""
            );
            assert_eq!(reply.ok(422)["message"], json!(words), "{method} {path}");
        }
    }
    let options = json!({"dryRun": [""]}).to_string();
    for path in [format!("{MAPS}/a"), MAPS.to_owned()] {
        let reply = cluster.request("DELETE", path).typed(body, options.clone()).send().await;
        let words =
            r#"DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All""#;
        assert_eq!(reply.ok(422)["message"], json!(words));
    }
    assert_eq!(cluster.get(MAPS).await.version(), before, "nothing was written");
    cluster.shutdown().await;
}
