//! Who manages which fields of objects whose managers speak different versions. Answers are those of kube-apiserver
//! v1.36.4 for the same requests.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Reply as Response, TestCluster};

use crate::conversion_hook::{Hook, Reply};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/servers.example.io";

/// A version of the test's webhook, with a list, a status and a scale.
fn version(name: &str) -> Value {
    let own = match name {
        "v1" => json!({"hostPort": {"type": "string"}}),
        _ => json!({"host": {"type": "string"}, "port": {"type": "string"}}),
    };
    let mut spec = json!({"type": "object", "properties": {
        "color": {"type": "string"}, "replicas": {"type": "integer"}, "size": {"type": "integer"}}});
    spec["properties"].as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    let replicas = if name == "v3" { ".spec.size" } else { ".spec.replicas" };
    json!({"name": name, "served": true, "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec,
            "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}}}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": replicas,
            "statusReplicasPath": ".status.replicas"}}})
}

fn crd(conversion: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "servers.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced",
            "names": {"plural": "servers", "singular": "server", "kind": "Server"},
            "versions": [version("v1"), version("v2"), version("v3")], "conversion": conversion}})
}

/// The path of an object, and who asks.
fn one(version: &str, name: &str, manager: &str) -> String {
    format!("/apis/example.io/{version}/namespaces/default/servers/{name}?fieldManager={manager}")
}

fn server(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.io/{version}"), "kind": "Server", "metadata": {"name": name}, "spec": spec})
}

async fn define(crd: Value) -> TestCluster {
    let cluster = TestCluster::start().await;
    cluster.post(CRDS, crd).await.ok(201);
    let all = "/apis/example.io/v1/namespaces/default/servers";
    while cluster.get(all).await.status != 200 {
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    cluster
}

async fn with_hook() -> (TestCluster, Hook) {
    let hook = Hook::start().await;
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": hook.config()});
    (define(crd(json!({"strategy": "Webhook", "webhook": webhook}))).await, hook)
}

async fn without_hook() -> TestCluster {
    define(crd(json!({"strategy": "None"}))).await
}

async fn redefine(cluster: &TestCluster, change: impl Fn(&mut Value)) {
    cluster.redefine(CRD, change).await;
}

/// As [`one`], sent as an apply of the version and name in the path.
async fn apply(cluster: &TestCluster, version: &str, name: &str, manager: &str, spec: Value) -> Response {
    let config = server(version, name, spec).to_string();
    let path = one(version, name, manager);
    cluster.request("PATCH", path).typed("application/apply-patch+yaml", config).send().await
}

async fn merge(cluster: &TestCluster, version: &str, name: &str, manager: &str, patch: Value) -> Value {
    cluster.merge(one(version, name, manager), patch).await.ok(200)
}

#[track_caller]
fn message(answer: &Response, code: u16) -> String {
    assert_eq!(answer.status, code, "{}", answer.text());
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

/// Who manages what, in its version; sorted, since their own order depends on the second they wrote in.
fn managers(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let who = |entry: &Value| {
        let version = text(entry, "apiVersion").replace("example.io/", "");
        match text(entry, "subresource").as_str() {
            "" => format!("{} {version}", text(entry, "manager")),
            subresource => format!("{}/{subresource} {version}", text(entry, "manager")),
        }
    };
    let mut managers: Vec<_> = entries.iter().map(|entry| (who(entry), entry["fieldsV1"].clone())).collect();
    managers.sort_by(|(a, _), (b, _)| a.cmp(b));
    managers
}

fn expected(managers: Value) -> Vec<(String, Value)> {
    let list = managers.as_array().unwrap().iter();
    let mut managers: Vec<_> =
        list.map(|pair| (pair[0].as_str().unwrap().to_owned(), pair[1].clone())).collect();
    managers.sort_by(|(a, _), (b, _)| a.cmp(b));
    managers
}

#[tokio::test]
async fn an_update_takes_fields_from_managers_of_other_versions_through_the_webhook() {
    let (cluster, hook) = with_hook().await;
    let spec = json!({"hostPort": "h:80", "color": "red"});
    cluster.post(one("v1", "", "maker"), server("v1", "a", spec)).await.ok(201);
    merge(&cluster, "v1", "a", "other", json!({"spec": {"color": "blue"}})).await;
    assert_eq!(hook.asked(), [], "all are of the version that is stored");
    let changed = merge(&cluster, "v2", "a", "two", json!({"spec": {"port": "81"}})).await;
    assert_eq!(
        managers(&changed),
        expected(json!([
            ["maker v1", {"f:spec": {}}],
            ["other v1", {"f:spec": {"f:color": {}}}],
            ["two v2", {"f:spec": {"f:port": {}}}]
        ])),
        "the port is a part of what the maker wrote"
    );
    hook.asked();
    let back = merge(&cluster, "v1", "a", "other", json!({"spec": {"hostPort": "i:81"}})).await;
    assert_eq!(
        managers(&back),
        expected(json!([
            ["maker v1", {"f:spec": {}}],
            ["two v2", {"f:spec": {"f:port": {}}}],
            ["other v1", {"f:spec": {"f:color": {}, "f:hostPort": {}}}]
        ])),
        "the port is what it was"
    );
    let desired: Vec<String> = hook.asked().into_iter().map(|question| question.desired).collect();
    assert_eq!(desired, ["example.io/v2", "example.io/v2"], "the old object and the new one, once each");
}

#[tokio::test]
async fn an_apply_conflicts_and_gives_up_fields_across_versions() {
    let (cluster, _hook) = with_hook().await;
    apply(&cluster, "v1", "a", "one", json!({"hostPort": "h:80", "color": "red"})).await.ok(201);
    let refused = apply(&cluster, "v2", "a", "two", json!({"host": "i"})).await;
    assert_eq!(
        message(&refused, 409),
        "Apply failed with 1 conflict: conflict with \"one\": .spec.hostPort",
        "in the words of the version it was applied in"
    );
    let shared = apply(&cluster, "v2", "a", "two", json!({"host": "h", "size": 1})).await.ok(200);
    assert_eq!(
        managers(&shared),
        expected(json!([
            ["one v1", {"f:spec": {"f:color": {}, "f:hostPort": {}}}],
            ["two v2", {"f:spec": {"f:host": {}, "f:size": {}}}]
        ]))
    );
    // The same manager in another version: what it no longer wants goes, in the version it wanted it in.
    let moved = apply(&cluster, "v3", "a", "one", json!({"host": "h", "port": "80"})).await.ok(200);
    assert_eq!(moved["spec"], json!({"host": "h", "port": "80", "size": 1}), "the colour was its own");
    assert_eq!(
        managers(&moved),
        expected(json!([
            ["two v2", {"f:spec": {"f:host": {}, "f:size": {}}}],
            ["one v3", {"f:spec": {"f:host": {}, "f:port": {}}}]
        ]))
    );
    let again = apply(&cluster, "v3", "a", "one", json!({"host": "h", "port": "80"})).await.ok(200);
    assert_eq!(again, moved, "nothing changes, nothing is written");
}

#[tokio::test]
async fn a_webhook_that_fails_costs_an_update_its_managers_and_refuses_an_apply() {
    let (cluster, hook) = with_hook().await;
    for name in ["a", "b"] {
        apply(&cluster, "v2", name, "two", json!({"host": "h", "port": "80"})).await.ok(201);
    }
    hook.answers(|mut review| {
        review["response"]["result"] = json!({"status": "Failure", "message": "not today"});
        Reply::Review(review)
    });
    let refused = apply(&cluster, "v1", "a", "one", json!({"color": "red"})).await;
    let failed = "conversion webhook for example.io/v1, Kind=Server failed: not today";
    assert_eq!(message(&refused, 500), failed);
    let changed = merge(&cluster, "v1", "b", "one", json!({"spec": {"color": "red"}})).await;
    assert_eq!((managers(&changed), &changed["spec"]["color"]), (vec![], &json!("red")), "the write goes on");
    hook.converts();
    let whole = apply(&cluster, "v1", "a", "one", json!({"color": "red"})).await.ok(200);
    assert_eq!(managers(&whole).len(), 2);
}

#[tokio::test]
async fn a_webhook_that_returns_what_the_version_does_not_have_is_an_error() {
    let (cluster, hook) = with_hook().await;
    apply(&cluster, "v2", "a", "two", json!({"host": "h", "port": "80"})).await.ok(201);
    hook.answers(|mut review| {
        review["response"]["convertedObjects"][0]["spec"]["nonsense"] = json!(1);
        Reply::Review(review)
    });
    let refused = apply(&cluster, "v1", "a", "one", json!({"color": "red"})).await;
    assert_eq!(message(&refused, 500), ".spec.nonsense: field not declared in schema");
}

#[tokio::test]
async fn managers_a_client_names_in_a_create_are_converted_too() {
    let (cluster, hook) = with_hook().await;
    let mut new = server("v1", "a", json!({"hostPort": "h:80", "color": "red"}));
    new["metadata"]["managedFields"] = json!([{"manager": "sent", "operation": "Update", "apiVersion": "example.io/v2",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:host": {}}}}]);
    let made = cluster.post(one("v1", "", "maker"), new).await.ok(201);
    assert_eq!(
        managers(&made),
        expected(json!([["maker v1", {"f:spec": {".": {}, "f:color": {}, "f:hostPort": {}}}]])),
        "a create owns all of it"
    );
    assert_eq!(hook.asked().len(), 1, "of nothing there is nothing to convert");
}

#[tokio::test]
async fn versions_without_a_webhook_share_what_both_have() {
    let cluster = without_hook().await;
    cluster.post(one("v1", "", "maker"), server("v1", "a", json!({"color": "red"}))).await.ok(201);
    let changed = merge(&cluster, "v2", "a", "two", json!({"spec": {"color": "blue"}})).await;
    let both = json!([["maker v1", {"f:spec": {}}], ["two v2", {"f:spec": {"f:color": {}}}]]);
    assert_eq!(managers(&changed), expected(both));
    let lost = merge(&cluster, "v1", "a", "maker", json!({"spec": {"hostPort": "h:80"}})).await;
    assert_eq!(managers(&lost), [], "version v2 has no hostPort");
    apply(&cluster, "v1", "b", "one", json!({"color": "red"})).await.ok(201);
    apply(&cluster, "v2", "b", "one", json!({"color": "red"})).await.ok(200);
    let refused = apply(&cluster, "v1", "b", "two", json!({"hostPort": "h:80"})).await;
    assert_eq!(
        message(&refused, 500),
        "failed to convert new object: .spec.hostPort: field not declared in schema"
    );
}

/// A default that only the request's version has is not in the object that was stored in another one.
#[tokio::test]
async fn an_apply_that_changes_nothing_sets_no_defaults() {
    let mut crd = crd(json!({"strategy": "None"}));
    let port = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/port";
    *crd.pointer_mut(port).unwrap() = json!({"type": "string", "default": "80"});
    let cluster = define(crd).await;
    apply(&cluster, "v2", "a", "one", json!({"color": "red"})).await.ok(201);
    let before = apply(&cluster, "v2", "a", "two", json!({"color": "red"})).await.ok(200);
    let after = apply(&cluster, "v2", "a", "two", json!({"color": "red"})).await.ok(200);
    assert_eq!(after, before);
    // A change sets them, and the stored version prunes them again.
    let changed = apply(&cluster, "v2", "a", "one", json!({"color": "red", "host": "h"})).await.ok(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(changed["spec"], json!({"color": "red"}));
}

#[tokio::test]
async fn a_version_that_is_not_served_has_managers_and_one_that_is_gone_is_an_error() {
    let cluster = without_hook().await;
    for name in ["a", "b"] {
        apply(&cluster, "v2", name, "two", json!({"color": "red", "replicas": 1})).await.ok(201);
    }
    redefine(&cluster, |spec| spec["versions"][1]["served"] = json!(false)).await;
    let refused = apply(&cluster, "v1", "a", "one", json!({"color": "blue"})).await;
    assert_eq!(message(&refused, 409), "Apply failed with 1 conflict: conflict with \"two\": .spec.color");
    let scaled = merge(&cluster, "v1", "a/scale", "scaler", json!({"spec": {"replicas": 2}})).await;
    assert_eq!(scaled["spec"]["replicas"], 2);
    let two =
        json!([["two v2", {"f:spec": {"f:color": {}}}], ["scaler/scale v1", {"f:spec": {"f:replicas": {}}}]]);
    assert_eq!(managers(&cluster.get(one("v1", "a", "")).await.ok(200)), expected(two));
    redefine(&cluster, |spec| drop(spec["versions"].as_array_mut().unwrap().remove(1))).await;
    let refused = apply(&cluster, "v1", "a", "one", json!({"color": "red"})).await;
    assert_eq!(message(&refused, 500), "request to convert CR to an invalid group/version: example.io/v2");
    let changed = merge(&cluster, "v1", "b", "one", json!({"spec": {"color": "blue"}})).await;
    assert_eq!(managers(&changed), []);
    // Now it has none, and an apply begins anew.
    apply(&cluster, "v1", "b", "one", json!({"size": 1})).await.ok(200);
}

#[tokio::test]
async fn the_status_and_the_scale_are_managed_in_every_version() {
    let cluster = without_hook().await;
    cluster.post(one("v1", "", "maker"), server("v1", "a", json!({"replicas": 1, "size": 1}))).await.ok(201);
    let status = merge(&cluster, "v1", "a/status", "node", json!({"status": {"phase": "Up"}})).await;
    let maker = json!(["maker v1", {"f:spec": {".": {}, "f:replicas": {}, "f:size": {}}}]);
    let node = json!(["node/status v1", {"f:status": {".": {}, "f:phase": {}}}]);
    assert_eq!(managers(&status), expected(json!([maker, node])));
    let patch = json!({"spec": {"color": "red"}, "status": {"phase": "No"}});
    let changed = merge(&cluster, "v1", "a", "user", patch.clone()).await;
    let user = json!(["user v1", {"f:spec": {"f:color": {}}}]);
    assert_eq!(
        managers(&changed),
        expected(json!([maker, node, user])),
        "the status is reset, and so not taken"
    );
    // Only in the version of the request is it known that it is.
    let node = json!(["node/status v1", {"f:status": {}}]);
    let changed = merge(&cluster, "v2", "a", "user", patch).await;
    assert_eq!(changed["status"]["phase"], "Up");
    assert_eq!(managers(&changed), expected(json!([maker, node, user])));
    // Version v3 scales another field.
    merge(&cluster, "v3", "a/scale", "scaler", json!({"spec": {"replicas": 5}})).await;
    let scaled = cluster.get(one("v1", "a", "")).await.ok(200);
    assert_eq!(scaled["spec"], json!({"replicas": 1, "size": 5, "color": "red"}));
    let scaler = json!(["scaler/scale v3", {"f:spec": {"f:size": {}}}]);
    let maker = json!(["maker v1", {"f:spec": {".": {}, "f:size": {}}}]);
    let now = managers(&scaled);
    assert!(now.contains(&expected(json!([scaler]))[0]), "{now:?}");
    assert!(now.contains(&expected(json!([maker]))[0]), "each is asked where it has its replicas: {now:?}");
}

/// The body, sent as an apply.
async fn apply_at(cluster: &TestCluster, path: &str, manager: &str, config: Value) -> Response {
    let request = cluster.request("PATCH", format!("{path}?fieldManager={manager}"));
    request.typed("application/apply-patch+yaml", config.to_string()).send().await
}

#[tokio::test]
async fn built_in_versions_are_converted_from_whichever_they_are_in() {
    let cluster = TestCluster::start().await;
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/a");
    let config = |version: &str, own: Value| {
        let mut spec = json!({"maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}});
        spec.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a"}, "spec": spec})
    };
    let metrics = json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}}]});
    let apply = |version: &'static str, manager: &'static str, own: Value| {
        let (cluster, config, path) = (&cluster, config(version, own), path(version));
        async move { apply_at(cluster, &path, manager, config).await }
    };
    apply("v2", "one", metrics.clone()).await.ok(201);
    let refused = apply("v1", "two", json!({"targetCPUUtilizationPercentage": 60})).await;
    assert_eq!(message(&refused, 409), "Apply failed with 1 conflict: conflict with \"one\": .spec.metrics");
    let moved =
        apply("v1", "one", json!({"targetCPUUtilizationPercentage": 50, "minReplicas": 2})).await.ok(200);
    assert_eq!(moved["spec"]["targetCPUUtilizationPercentage"], 50);
    apply("v2", "two", metrics.clone()).await.ok(200);
    // What it wanted in version v1 is given up in version v2: the replicas were its own, the metrics are not.
    let back = apply("v2", "one", json!({})).await.ok(200);
    assert_eq!((&back["spec"]["metrics"], &back["spec"]["minReplicas"]), (&metrics["metrics"], &json!(1)));
    // Version v1 has no field for all of a status, and says the rest in an annotation.
    let status =
        json!({"status": {"currentReplicas": 3, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 5}});
    let status = cluster.merge(format!("{}/status?fieldManager=st", path("v1")), status).await.ok(200);
    let noted = managers(&status).into_iter().find(|(name, _)| name.starts_with("st/status")).unwrap();
    let annotation = "f:autoscaling.alpha.kubernetes.io/current-metrics";
    assert_eq!(noted.1["f:metadata"]["f:annotations"][annotation], json!({}), "{noted:?}");
}

#[tokio::test]
async fn managers_of_an_event_of_the_core_group_are_forgotten_by_the_other() {
    let cluster = TestCluster::start().await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "R",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    cluster.post("/api/v1/namespaces/default/events?fieldManager=core", event).await.ok(201);
    let path = "/apis/events.k8s.io/v1/namespaces/default/events/e?fieldManager=other";
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = cluster.merge(path, labels).await.ok(200);
    let other = json!([["other events.k8s.io/v1", {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}]]);
    assert_eq!(managers(&changed), expected(other));
}
