//! A restart: a watcher that resumes from its version misses nothing, and a webhook that is down keeps nobody from being served.

use serde_json::{Value, json};

use crate::harness::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

type Seen = (String, String, String, u64);

/// Type, name, value and version of every event up to `last`.
async fn events(client: &kube::Client, path: &str, last: u64) -> Vec<Seen> {
    let mut watch = Watch::open(client, path).await.unwrap();
    let mut seen: Vec<Seen> = Vec::new();
    while seen.last().is_none_or(|(.., version)| *version < last) {
        let event = watch.next().await.unwrap().expect("more events");
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let object = &event["object"];
        assert_eq!(object["kind"], "ConfigMap", "{event}");
        let (kind, name) = (text(&event["type"]), text(&object["metadata"]["name"]));
        seen.push((kind, name, text(&object["data"]["value"]), revision(object)));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_after_a_restart_without_loss() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start(&data);
    let client = server.client().await;
    let (_, first) = call(&client, "POST", MAPS, Some(config_map("first", "0"))).await;
    let from = revision(&first);
    // What a labelled watcher sees of an object that leaves its selection must survive, too.
    let labelled = |label: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "moving", "labels": {"side": label}}, "data": {"value": label}})
    };
    call(&client, "POST", MAPS, Some(labelled("left"))).await;
    for n in 1..6 {
        call(&client, "PUT", &format!("{MAPS}/first"), Some(config_map("first", &n.to_string()))).await;
    }
    call(&client, "PUT", &format!("{MAPS}/moving"), Some(labelled("right"))).await;
    call(&client, "POST", MAPS, Some(config_map("gone", "x"))).await;
    call(&client, "DELETE", &format!("{MAPS}/gone"), None).await;
    let (_, end) = call(&client, "POST", MAPS, Some(config_map("end", "y"))).await;
    let last = revision(&end);

    // The root certificate is published whenever its controller gets to it: before `first` or after.
    let others = "fieldSelector=metadata.name%21%3Dkube-root-ca.crt";
    let watch = format!("{MAPS}?watch=1&resourceVersion={from}&{others}");
    let left = format!("{watch}&labelSelector=side%3Dleft&timeoutSeconds=600");
    let want = events(&client, &watch, last).await;
    assert_eq!(want.len(), 10, "{want:?}");
    let moved = want[6].3;
    let want_left = events(&client, &left, moved).await;
    let kinds: Vec<_> = want_left.iter().map(|e| e.0.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "DELETED"]);
    server.stop();

    // Once after a proper stop, once after none.
    for kill in [true, false] {
        let server = Proc::start(&data);
        let client = server.client().await;
        assert_eq!(events(&client, &watch, last).await, want);
        assert_eq!(events(&client, &left, moved).await, want_left);
        // A list of the past is there as well, and the log goes on.
        let path = format!("{MAPS}?resourceVersion={from}&resourceVersionMatch=Exact");
        let (code, list) = call(&client, "GET", &path, None).await;
        assert_eq!((code, list["items"][0]["data"]["value"].as_str()), (200, Some("0")), "{list}");
        let name = format!("after-{kill}");
        let (_, more) = call(&client, "POST", MAPS, Some(config_map(&name, "z"))).await;
        let seen = events(&client, &watch, revision(&more)).await;
        assert_eq!(seen[..want.len()], want);
        assert_eq!(seen.last().map(|e| (e.0.as_str(), e.1.as_str())), Some(("ADDED", name.as_str())));
        if kill { server.kill() } else { server.stop() }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_webhook_is_down_starts_and_gets_back_what_it_lacks() {
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start(&data);
    let client = server.client().await;
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view";
    let hook = json!({"name": "down.example.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [{"apiGroups": ["*"], "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"], "resources": ["*/*"]}]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "down"}, "webhooks": [hook]});
    let (code, made) = call(&client, "POST", hooks, Some(configuration)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(call(&client, "DELETE", role, None).await.0, 200);
    server.stop();

    let server = Proc::start(&data);
    let client = server.client().await;
    assert_eq!(call(&client, "GET", role, None).await.0, 404);
    assert_eq!(call(&client, "GET", "/readyz", None).await.0, 500);
    wait_until("it says what is wrong", || server.log().contains("warning: initial objects are missing"));
    let (code, said) = call(&client, "GET", "/readyz/poststarthook/rbac/bootstrap-roles", None).await;
    let said = said.as_str().unwrap_or_default();
    assert!(code == 500 && said.contains("ClusterRole \"view\": ") && said.contains("webhook"), "{said}");
    assert_eq!(call(&client, "DELETE", &format!("{hooks}/down"), None).await.0, 200);
    for path in [role, "/readyz"] {
        let deadline = std::time::Instant::now() + PATIENCE;
        while call(&client, "GET", path, None).await.0 != 200 {
            assert!(std::time::Instant::now() < deadline, "{path}: {}", server.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    server.stop();
}
