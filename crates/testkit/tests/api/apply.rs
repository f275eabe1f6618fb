//! Server-side apply, and who manages which fields after every kind of write.

use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn apply(cluster: &TestCluster, path: &str, manager: &str, config: &Value) -> Reply {
    let and = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{and}fieldManager={manager}");
    cluster.request("PATCH", path).typed("application/apply-patch+yaml", config.to_string()).send().await
}

/// Who manages what: name, operation and subresource to the fields.
fn managers(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let name = |entry: &Value| match text(entry, "subresource").as_str() {
        "" => text(entry, "manager"),
        subresource => format!("{}/{subresource}", text(entry, "manager")),
    };
    entries.iter().map(|entry| (name(entry), text(entry, "operation"), entry["fieldsV1"].clone())).collect()
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn web(replicas: u32, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}]}}}})
}

#[tokio::test]
async fn a_create_and_an_update_are_tracked() {
    let cluster = TestCluster::start().await;
    let path = format!("{MAPS}?fieldManager=maker");
    let made = cluster.post(path, map(json!({"k": "1"}))).await.ok(201);
    assert_eq!(managers(&made), [("maker".into(), "Update".into(), json!({"f:data": {".": {}, "f:k": {}}}))]);
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!((&entry["apiVersion"], &entry["fieldsType"]), (&json!("v1"), &json!("FieldsV1")));
    assert!(entry["time"].is_string(), "{entry}");
    let mut changed = made.clone();
    changed["data"] = json!({"k": "1", "l": "2"});
    let changed = cluster.put(format!("{MAPS}/a?fieldManager=other"), changed).await.ok(200);
    assert_eq!(
        managers(&changed),
        [
            ("maker".into(), "Update".into(), json!({"f:data": {".": {}, "f:k": {}}})),
            ("other".into(), "Update".into(), json!({"f:data": {"f:l": {}}})),
        ]
    );
    let same = cluster.put(format!("{MAPS}/a?fieldManager=third"), changed.clone()).await.ok(200);
    assert_eq!(same, changed, "who changes nothing owns nothing, and nothing is written");
    let cleared = json!({"metadata": {"managedFields": [{}]}});
    let cleared = cluster.merge(format!("{MAPS}/a"), cleared).await.ok(200);
    assert_eq!(managers(&cleared), []);
}

#[tokio::test]
async fn an_apply_creates_merges_and_gives_up_fields() {
    let cluster = TestCluster::start().await;
    let path = format!("{MAPS}/a");
    let made = apply(&cluster, &path, "one", &map(json!({"k": "1", "l": "1"}))).await.ok(201);
    assert_eq!(managers(&made), [("one".into(), "Apply".into(), json!({"f:data": {"f:k": {}, "f:l": {}}}))]);
    let again = apply(&cluster, &path, "one", &map(json!({"k": "1", "l": "1"}))).await.ok(200);
    assert_eq!(again, made, "nothing changes, nothing is written");
    let both = apply(&cluster, &path, "two", &map(json!({"l": "1", "m": "2"}))).await.ok(200);
    assert_eq!(both["data"], json!({"k": "1", "l": "1", "m": "2"}));
    let less = apply(&cluster, &path, "one", &map(json!({}))).await.ok(200);
    assert_eq!(less["data"], json!({"l": "1", "m": "2"}), "what another applies stays");
}

#[tokio::test]
async fn conflicts_name_their_managers_and_are_forced() {
    let cluster = TestCluster::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    apply(&cluster, &path, "one", &web(1, "a:1")).await.ok(201);
    let refused = apply(&cluster, &path, "two", &web(2, "a:2")).await.ok(409);
    assert_eq!(
        refused["message"],
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.replicas\n- .spec.template.spec.containers[name=\"web\"].image"
    );
    assert_eq!(refused["details"]["causes"].as_array().map(Vec::len), Some(2), "{refused}");
    assert_eq!(refused["details"]["causes"][0]["reason"], "FieldManagerConflict");
    assert_eq!(cluster.get(&*path).await.ok(200)["spec"]["replicas"], 1);
    let forced = apply(&cluster, &format!("{path}?force=true"), "two", &web(2, "a:2")).await.ok(200);
    assert_eq!(forced["spec"]["replicas"], 2);
    let one = managers(&forced).into_iter().find(|(name, ..)| name == "one").unwrap();
    assert!(one.2["f:spec"].get("f:replicas").is_none(), "{one:?}");
}

#[tokio::test]
async fn the_scale_and_the_status_have_managers_of_their_own() {
    let cluster = TestCluster::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    apply(&cluster, &path, "one", &web(1, "a:1")).await.ok(201);
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
        "spec": {"replicas": 3}});
    let refused = apply(&cluster, &format!("{path}/scale"), "scaler", &scale).await.ok(409);
    assert!(refused["message"].as_str().unwrap().contains("conflict with \"one\""), "{refused}");
    let scaled = apply(&cluster, &format!("{path}/scale?force=true"), "scaler", &scale).await.ok(200);
    assert_eq!(scaled["spec"]["replicas"], 3);
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "status": {"replicas": 3}});
    let now = apply(&cluster, &format!("{path}/status"), "node", &status).await.ok(200);
    assert_eq!(now["status"]["replicas"], 3);
    let who: Vec<String> = managers(&now).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(who, ["scaler/scale", "node/status", "one"], "{now}");
}

#[tokio::test]
async fn an_object_without_managers_belongs_to_before_first_apply() {
    let cluster = TestCluster::start().await;
    cluster.post(MAPS, map(json!({"k": "1"}))).await.ok(201);
    cluster.merge(format!("{MAPS}/a"), json!({"metadata": {"managedFields": [{}]}})).await.ok(200);
    let changed = cluster.merge(format!("{MAPS}/a"), json!({"data": {"l": "1"}})).await.ok(200);
    assert_eq!(managers(&changed), [], "updates do not begin it");
    let applied = apply(&cluster, &format!("{MAPS}/a"), "one", &map(json!({"m": "1"}))).await.ok(200);
    let who: Vec<String> = managers(&applied).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(who, ["one", "before-first-apply"], "{applied}");
}

#[tokio::test]
async fn a_uid_means_an_object_that_exists_and_a_manager_must_be_named() {
    let cluster = TestCluster::start().await;
    let mut config = map(json!({}));
    config["metadata"]["uid"] = json!("of-another");
    let refused = apply(&cluster, &format!("{MAPS}/a"), "one", &config).await.ok(409);
    assert!(refused["message"].as_str().unwrap().contains("uid mismatch"), "{refused}");
    let nobody = cluster.request("PATCH", format!("{MAPS}/a"));
    let nobody =
        nobody.typed("application/apply-patch+yaml", map(json!({})).to_string()).send().await.ok(422);
    assert!(nobody["message"].as_str().unwrap().contains("fieldManager"), "{nobody}");
}
