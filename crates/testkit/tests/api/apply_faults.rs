//! What goes wrong with server-side apply: broken managers, lists without keys, applies at the same time, refusals that leave
//! nothing behind. What kube-apiserver v1.36.4 answered stands in the tables.

use std::sync::Arc;

use auth::UserInfo;
use serde_json::{Value, json};
use testkit::{Reply, TestCluster};

use crate::concurrency::on_disk;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn apply(cluster: &TestCluster, path: &str, manager: &str, config: &Value) -> Reply {
    apply_by(cluster, testkit::admin(), path, manager, config).await
}

async fn apply_by(cluster: &TestCluster, user: UserInfo, path: &str, manager: &str, config: &Value) -> Reply {
    let and = if path.contains('?') { '&' } else { '?' };
    let ask = cluster.request("PATCH", format!("{path}{and}fieldManager={manager}")).by(user);
    ask.typed("application/apply-patch+yaml", config.to_string()).send().await
}

fn map(metadata: Value, data: Value) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    map["metadata"]["name"] = json!("a");
    map
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

fn deployment(metadata: Value, replicas: u32) -> Value {
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "i"}]}}}});
    deployment["metadata"]["name"] = json!("web");
    deployment
}

/// `name fields` of every manager, in the order of the object.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value| format!("{} {}", entry["manager"].as_str().unwrap_or("-"), entry["fieldsV1"]);
    entries.iter().map(text).collect()
}

/// An entry of `managedFields`, changed.
fn entry(change: Value) -> Value {
    let mut entry = json!({"manager": "m", "operation": "Update", "apiVersion": "v1",
        "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}});
    for (name, value) in change.as_object().unwrap() {
        entry[name] = value.clone();
    }
    entry
}

/// What becomes of managers that a client sends with a create, an update and a patch.
#[tokio::test]
async fn broken_managers_are_as_good_as_none() {
    const C: &str = r#"c {"f:data":{".":{},"f:a":{}}}"#;
    const C_LEFT: &str = r#"c {"f:data":{}}"#;
    const U: &str = r#"u {"f:data":{"f:a":{}}}"#;
    const M: &str = r#"m {"f:data":{"f:a":{}}}"#;
    // As if none had been sent; as if none were left; as they are.
    let ignored: [&[&str]; 3] = [&[C], &[C_LEFT, U], &[C_LEFT, U]];
    let cleared: [&[&str]; 3] = [&[C], &[], &[]];
    let dropped: [&[&str]; 3] = [&[C], &[U], &[]];
    let taken: [&[&str]; 3] = [&[C], &[U], &[M]];
    let gone = r#"m {"f:data":{"f:a":{"f:deep":{}},"f:zz":{}},"f:nope":{"f:a":{}}}"#;
    let last = r#"m {"f:data":{"f:b":{}}}"#;
    let no_keys = r#"m {"f:data":{"k:{}":{}}}"#;
    let cases: [(Value, [&[&str]; 3]); 33] = [
        (json!([entry(json!({"fieldsV1": {"x:data": {}}}))]), dropped),
        (json!([entry(json!({"fieldsV1": {"data": {}}}))]), ignored),
        (json!([entry(json!({"fieldsV1": "abc"}))]), ignored),
        (json!([entry(json!({"fieldsV1": 3}))]), ignored),
        (json!([entry(json!({"fieldsV1": [1]}))]), ignored),
        (json!([entry(json!({"fieldsV1": {"k:{": {}}}))]), ignored),
        (
            json!([entry(json!({"fieldsV1": {"f:data": {"k:{}": {}}}}))]),
            [&[no_keys, C], &[no_keys, U], &[no_keys]],
        ),
        (json!([entry(json!({"fieldsV1": {"f:data": {"v:": {}}}}))]), ignored),
        (json!([entry(json!({"fieldsV1": {"f:data": {"i:x": {}}}}))]), ignored),
        (json!([entry(json!({"fieldsV1": {"f:data": {"f:a": 1}}}))]), ignored),
        (json!([entry(json!({"fieldsV1": null}))]), dropped),
        (json!([entry(json!({"fieldsType": "FieldsV2"}))]), ignored),
        (json!([entry(json!({"fieldsType": ""}))]), ignored),
        (json!([entry(json!({"apiVersion": "v9"}))]), dropped),
        (json!([entry(json!({"apiVersion": "apps/v1"}))]), dropped),
        (json!([entry(json!({"apiVersion": "a/b/c"}))]), [&[], &[], &[]]),
        (json!([entry(json!({"apiVersion": ""}))]), ignored),
        (json!([entry(json!({"operation": "Replace"}))]), ignored),
        (json!([entry(json!({"operation": ""}))]), ignored),
        (
            json!([entry(
                json!({"fieldsV1": {"f:nope": {"f:a": {}}, "f:data": {"f:zz": {}, "f:a": {"f:deep": {}}}}})
            )]),
            [&[gone, C], &[gone, U], &[gone]],
        ),
        (
            json!([entry(json!({})), entry(json!({"fieldsV1": {"f:data": {"f:b": {}}}}))]),
            [&[last, C], &[last, U], &[last]],
        ),
        (json!([entry(json!({"manager": ""}))]), [&[C], &[U], &[r#"- {"f:data":{"f:a":{}}}"#]]),
        (json!([]), cleared),
        (json!([{}]), cleared),
        (json!([{"manager": "", "time": null}]), cleared),
        (json!([{}, {}]), ignored),
        (json!([{}, entry(json!({}))]), ignored),
        (json!(null), ignored),
        (json!([entry(json!({"time": null}))]), taken),
        (json!([entry(json!({"time": "2099-01-01T00:00:00Z"}))]), taken),
        (json!([entry(json!({"subresource": "status"}))]), taken),
        (json!([entry(json!({"unknown": 1}))]), taken),
        (json!([entry(json!({"operation": "Apply"}))]), taken),
    ];
    let cluster = TestCluster::start().await;
    let path = format!("{MAPS}/a");
    for (sent, [created, updated, patched]) in cases {
        let with = |data: &str| map(json!({"managedFields": sent}), json!({"a": data}));
        let made = cluster.post(format!("{MAPS}?fieldManager=c"), with("1")).await.ok(201);
        assert_eq!(managers(&made), created, "created with {sent}");
        cluster.delete(&*path).await.ok(200);
        cluster.post(format!("{MAPS}?fieldManager=c"), map(json!({}), json!({"a": "1"}))).await.ok(201);
        let put = cluster.put(format!("{path}?fieldManager=u"), with("2")).await.ok(200);
        assert_eq!(managers(&put), updated, "updated with {sent}");
        let patch = json!({"metadata": {"managedFields": sent}});
        let merged = cluster.merge(format!("{path}?fieldManager=p"), patch).await.ok(200);
        assert_eq!(managers(&merged), patched, "patched with {sent}");
        assert_eq!(merged["data"], json!({"a": "2"}), "nothing else is lost");
        let refused = apply(&cluster, &path, "ap", &with("3")).await;
        match sent.is_array() {
            true => assert_eq!(refused.ok(400)["message"], "metadata.managedFields must be nil"),
            false => assert_eq!(refused.status, 409, "{}", refused.text()),
        }
        let now = apply(&cluster, &format!("{path}?force=true"), "ap", &map(json!({}), json!({"a": "3"})))
            .await
            .ok(200);
        assert_eq!(managers(&now)[0], r#"ap {"f:data":{"f:a":{}}}"#, "{sent}");
        cluster.delete(&*path).await.ok(200);
    }
    for (wrong, why) in [
        (
            json!({"manager": "x".repeat(129)}),
            "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
        ),
        (json!({"manager": "a\u{1}b"}), "invalid character U+0001 (at position 1)"),
    ] {
        cluster.post(MAPS, map(json!({}), json!({"a": "1"}))).await.ok(201);
        let refused =
            cluster.merge(&*path, json!({"metadata": {"managedFields": [entry(wrong)]}})).await.ok(422);
        assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
        cluster.delete(&*path).await.ok(200);
    }
}

#[tokio::test]
async fn many_large_and_deep_sets_are_bounded() {
    let cluster = TestCluster::start().await;
    let many = |operation: &str| -> Vec<Value> {
        let fields = |i: i32| json!({"f:data": {format!("f:k{i}"): {}}});
        let one =
            |i| entry(json!({"manager": format!("m{i}"), "operation": operation, "fieldsV1": fields(i)}));
        (0..5000).map(one).collect()
    };
    let path = format!("{MAPS}/a");
    let made =
        cluster.post(MAPS, map(json!({"managedFields": many("Update")}), json!({"a": "1"}))).await.ok(201);
    assert_eq!(made["metadata"]["managedFields"].as_array().unwrap().len(), 10, "the rest is ancient");
    assert!(managers(&made)[0].starts_with("ancient-changes "), "{:?}", managers(&made)[1]);
    cluster.delete(&*path).await.ok(200);
    let made =
        cluster.post(MAPS, map(json!({"managedFields": many("Apply")}), json!({"a": "1"}))).await.ok(201);
    assert_eq!(made["metadata"]["managedFields"].as_array().unwrap().len(), 5001, "who applies is kept");
    let more = apply(&cluster, &path, "m7", &map(json!({}), json!({"b": "1"}))).await.ok(200);
    assert_eq!(more["metadata"]["managedFields"].as_array().unwrap().len(), 5001);
    cluster.delete(&*path).await.ok(200);

    let deep = format!("{}{{}}{}", "{\"f:a\":".repeat(9000), "}".repeat(9000));
    let body = map(json!({"managedFields": [entry(json!({"fieldsV1": "DEEP"}))]}), json!({"a": "1"}));
    let body = body.to_string().replace("\"DEEP\"", &deep);
    let made = cluster.request("POST", MAPS).typed("application/json", body).send().await;
    assert!([201, 400].contains(&made.status), "{}", made.text());
    let now = apply(&cluster, &path, "ap", &map(json!({}), json!({"b": "1"}))).await;
    assert!([200, 201].contains(&now.status), "{}", now.text());
}

/// The managers of an object make it too large: who did not ask for them does without, who applies is refused.
#[tokio::test]
async fn an_object_too_large_with_its_managers_is_stored_without_unless_applied() {
    let cluster = TestCluster::start().await;
    let data: serde_json::Map<String, Value> =
        (0..60_000).map(|i| (format!("k{i:05}"), json!("abcde"))).collect();
    let (path, big) = (format!("{MAPS}/a"), map(json!({}), Value::Object(data)));
    let refused = apply(&cluster, &path, "one", &big).await;
    assert!(refused.status >= 400 && refused.text().contains("too large"), "{}", refused.text());
    assert_eq!(cluster.get(&*path).await.status, 404);
    let made = cluster.post(MAPS, big.clone()).await.ok(201);
    assert!(made["metadata"].get("managedFields").is_none());
    let refused = apply(&cluster, &path, "one", &big).await;
    assert!(refused.status >= 400 && refused.text().contains("too large"), "{}", refused.text());
    let changed = cluster.merge(&*path, json!({"data": {"k00001": "x"}})).await.ok(200);
    assert!(changed["metadata"].get("managedFields").is_none());
    cluster.delete(&*path).await.ok(200);
    cluster.post(MAPS, map(json!({}), json!({"a": "b"}))).await.ok(201);
    let changed = cluster.put(&*path, big).await.ok(200);
    assert!(changed["metadata"].get("managedFields").is_none());
}

#[tokio::test]
async fn items_without_keys_and_values_that_are_none_are_as_upstream_has_them() {
    let cluster = TestCluster::start().await;
    let path = format!("{PODS}/p");
    let typed = "failed to create typed patch object (/p; /v1, Kind=Pod): .spec";
    let ports = |ports: Value| json!({"containers": [{"name": "c", "image": "i", "ports": ports}]});
    for (spec, status, why) in [
        (
            json!({"containers": [{"name": "c"}, {"name": "c"}]}),
            500,
            ".containers: duplicate entries for key [name=\"c\"]",
        ),
        (
            json!({"containers": [{"name": 5}]}),
            500,
            ".containers[name=5].name: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (json!({"containers": {}}), 500, ".containers: expected list, got &{map[]}"),
        (
            json!({"containers": [null]}),
            500,
            ".containers: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"containers": ["x"]}),
            500,
            ".containers: element 0: associative list with keys may not have non-map elements",
        ),
        (json!({"nope": 1}), 500, ".nope: field not declared in schema"),
        (json!({"hostname": 7}), 500, ".hostname: expected string, got &value.valueUnstructured{Value:7}"),
        (
            ports(json!([{"containerPort": 80}, {"containerPort": 80}])),
            500,
            ".containers[name=\"c\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]",
        ),
        (
            ports(json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80}])),
            500,
            ".containers[name=\"c\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]",
        ),
        (
            json!({"containers": [{"image": "i"}]}),
            422,
            "Pod \"p\" is invalid: spec.containers[0].name: Required value",
        ),
        (
            json!({"containers": [{"name": null, "image": "i"}]}),
            422,
            "Pod \"p\" is invalid: spec.containers[0].name: Required value",
        ),
        (json!({"containers": []}), 422, "Pod \"p\" is invalid: spec.containers: Required value"),
        (json!({"containers": null}), 422, "Pod \"p\" is invalid: spec.containers: Required value"),
    ] {
        let refused = apply(&cluster, &path, "a", &pod(spec)).await.ok(status);
        let why = if status == 500 { format!("{typed}{why}") } else { why.to_owned() };
        assert_eq!(refused["message"], json!(why));
        assert_eq!(cluster.get(&*path).await.status, 404, "what is refused is not there");
    }
    let nulls = json!({"hostname": null, "nodeSelector": null, "tolerations": null});
    let made = apply(&cluster, &path, "a", &pod(nulls)).await.ok(201);
    let own = r#"a {"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}},"f:hostname":{},"f:nodeSelector":{},"f:tolerations":{}}}"#;
    assert_eq!(managers(&made), [own], "a null is a wish");
}

#[tokio::test]
async fn values_that_go_cannot_convert_are_named() {
    let cluster = TestCluster::start().await;
    let limits = |cpu: Value| {
        pod(json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}}]}))
    };
    let unable = |kind: &str, named: &str, why: &str| {
        format!(
            "failed to convert new object ({named}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}"
        )
    };
    let refused = apply(&cluster, &format!("{PODS}/p"), "a", &limits(json!("abc"))).await.ok(500);
    let regex = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    assert_eq!(refused["message"], json!(unable("/v1, Kind=Pod", "/p", regex)));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "default"}, "data": {"k": "!!"}});
    let refused = apply(&cluster, "/api/v1/namespaces/default/secrets/x", "a", &secret).await.ok(500);
    let why = "error decoding from json: illegal base64 data at input byte 0";
    assert_eq!(refused["message"], json!(unable("/v1, Kind=Secret", "default/x", why)));
    let mut large = deployment(json!({}), 1);
    large["spec"]["replicas"] = json!(9_999_999_999_i64);
    let made = apply(&cluster, &format!("{DEPLOYMENTS}/web"), "a", &large).await.ok(201);
    assert_eq!(made["spec"]["replicas"], 1_410_065_407, "Go takes the lower 32 bits");
}

#[tokio::test]
async fn ports_of_services_are_told_apart_by_protocol_and_follow_their_key() {
    let cluster = TestCluster::start().await;
    let path = "/api/v1/namespaces/default/services/s";
    let service = |ports: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"selector": {"a": "b"}, "ports": ports}})
    };
    apply(&cluster, path, "a", &service(json!([{"port": 80, "name": "t"}]))).await.ok(201);
    let both = apply(&cluster, path, "b", &service(json!([{"port": 80, "protocol": "UDP", "name": "u"}])))
        .await
        .ok(200);
    let names = |service: &Value| -> Vec<String> {
        let ports = service["spec"]["ports"].as_array().unwrap();
        ports.iter().map(|port| format!("{} {}/{}", port["name"], port["port"], port["protocol"])).collect()
    };
    assert_eq!(names(&both), ["\"t\" 80/\"TCP\"", "\"u\" 80/\"UDP\""]);
    let moved = apply(&cluster, path, "a", &service(json!([{"port": 81, "name": "t"}]))).await.ok(200);
    assert_eq!(names(&moved), ["\"u\" 80/\"UDP\"", "\"t\" 81/\"TCP\""], "another key is another item");
    let own = r#"a {"f:spec":{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}},"f:selector":{}}}"#;
    assert_eq!(managers(&moved)[0], own);
    let less = apply(&cluster, path, "b", &service(json!([]))).await.ok(200);
    assert_eq!(names(&less), ["\"t\" 81/\"TCP\""]);
}

#[tokio::test]
async fn string_data_of_secrets_is_owned_as_it_was_sent() {
    let cluster = TestCluster::start().await;
    let path = "/api/v1/namespaces/default/secrets/x";
    let secret = |more: Value| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}});
        secret.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        secret
    };
    let made = apply(&cluster, path, "a", &secret(json!({"stringData": {"k": "v"}}))).await.ok(201);
    assert_eq!(
        (managers(&made), &made["data"]["k"]),
        (vec![r#"a {"f:stringData":{"f:k":{}}}"#.to_owned()], &json!("dg=="))
    );
    let again = apply(&cluster, path, "a", &secret(json!({"stringData": {"k": "v"}}))).await.ok(200);
    assert_eq!(again, made);
    let refused = apply(&cluster, path, "b", &secret(json!({"stringData": {"k": "z"}}))).await.ok(409);
    assert_eq!(refused["message"], "Apply failed with 1 conflict: conflict with \"a\": .stringData.k");
    let other = apply(&cluster, path, "b", &secret(json!({"data": {"k": "eg=="}}))).await.ok(200);
    assert_eq!(other["data"]["k"], "eg==", "nobody has this field");
    let less = apply(&cluster, path, "a", &secret(json!({}))).await.ok(200);
    assert_eq!(
        (managers(&less), &less["data"]["k"]),
        (vec![r#"b {"f:data":{"f:k":{}}}"#.to_owned()], &json!("eg=="))
    );
}

#[tokio::test]
async fn owners_are_told_apart_by_uid_and_the_last_finalizer_given_up_ends_an_object() {
    let cluster = TestCluster::start().await;
    let path = format!("{MAPS}/a");
    let owner =
        |uid: &str, name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let config = |metadata: Value| map(metadata, json!({"a": "1"}));
    let one = config(json!({"ownerReferences": [owner("u1", "o")], "finalizers": ["x.io/a"]}));
    let two = config(json!({"ownerReferences": [owner("u2", "o")], "finalizers": ["x.io/b"]}));
    let made = apply(&cluster, &path, "one", &one).await.ok(201);
    let own = r#"one {"f:data":{"f:a":{}},"f:metadata":{"f:finalizers":{"v:\"x.io/a\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}}}"#;
    assert_eq!(managers(&made), [own]);
    let both = apply(&cluster, &path, "two", &two).await.ok(200);
    assert_eq!(both["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
    assert_eq!(both["metadata"]["finalizers"], json!(["x.io/a", "x.io/b"]));
    let stolen = config(json!({"ownerReferences": [owner("u1", "other")], "finalizers": ["x.io/b"]}));
    let refused = apply(&cluster, &path, "two", &stolen).await.ok(409);
    assert_eq!(
        refused["message"],
        "Apply failed with 1 conflict: conflict with \"one\": .metadata.ownerReferences[uid=\"u1\"]"
    );
    let twice = config(json!({"ownerReferences": [owner("u2", "o"), owner("u2", "o")]}));
    let refused = apply(&cluster, &path, "two", &twice).await.ok(500);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .ends_with(".metadata.ownerReferences: duplicate entries for key [uid=\"u2\"]"),
        "{refused}"
    );

    cluster.delete(&*path).await.ok(200);
    let labelled = apply(&cluster, &path, "three", &config(json!({"labels": {"l": "m"}}))).await.ok(200);
    assert!(labelled["metadata"]["deletionTimestamp"].is_string(), "an object that goes is applied to");
    let refused = apply(&cluster, &path, "three", &config(json!({"finalizers": ["x.io/n"]}))).await.ok(422);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("no new finalizers can be added if the object is being deleted")
    );
    apply(&cluster, &path, "one", &config(json!({}))).await.ok(200);
    assert_eq!(cluster.get(&*path).await.ok(200)["metadata"]["finalizers"], json!(["x.io/b"]));
    apply(&cluster, &path, "two", &config(json!({}))).await.ok(200);
    assert_eq!(cluster.get(&*path).await.status, 404);
    let anew = apply(&cluster, &path, "two", &config(json!({}))).await.ok(201);
    assert_ne!(anew["metadata"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test]
async fn events_carry_the_managers_and_an_apply_of_nothing_sends_none() {
    let cluster = TestCluster::start().await;
    let version = cluster.get(MAPS).await.version();
    let mut watch = cluster.watch(format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    let path = format!("{MAPS}/a");
    let made = apply(&cluster, &path, "one", &map(json!({}), json!({"a": "1"}))).await.ok(201);
    let added = watch.next().await.unwrap();
    assert_eq!((&added["type"], &added["object"]), (&json!("ADDED"), &made));
    apply(&cluster, &path, "one", &map(json!({}), json!({"a": "1"}))).await.ok(200);
    apply(&cluster, &path, "two", &map(json!({}), json!({"a": "2"}))).await.ok(409);
    apply(&cluster, &format!("{path}?dryRun=All"), "two", &map(json!({}), json!({"b": "2"}))).await.ok(200);
    // Nothing of the object changes, but who owns it.
    let shared = apply(&cluster, &path, "two", &map(json!({}), json!({"a": "1"}))).await.ok(200);
    let modified = watch.next().await.unwrap();
    assert_eq!((&modified["type"], &modified["object"]), (&json!("MODIFIED"), &shared));
    assert_eq!(managers(&shared).len(), 2);
}

#[tokio::test]
async fn a_dry_run_leaves_nothing() {
    let cluster = TestCluster::start().await;
    let path = format!("{MAPS}/a");
    let dry = format!("{path}?dryRun=All");
    let shown = apply(&cluster, &dry, "one", &map(json!({}), json!({"a": "1"}))).await.ok(201);
    assert_eq!(managers(&shown), [r#"one {"f:data":{"f:a":{}}}"#]);
    assert_eq!(cluster.get(&*path).await.status, 404);
    let made = apply(&cluster, &path, "one", &map(json!({}), json!({"a": "1"}))).await.ok(201);
    apply(&cluster, &dry, "two", &map(json!({}), json!({"a": "2"}))).await.ok(409);
    let shown = apply(&cluster, &dry, "two", &map(json!({}), json!({"b": "2"}))).await.ok(200);
    assert_eq!((managers(&shown).len(), &shown["data"]), (2, &json!({"a": "1", "b": "2"})));
    assert_eq!(shown["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(cluster.get(&*path).await.ok(200), made);
}

#[tokio::test]
async fn an_apply_that_creates_needs_the_permission_to_create_and_a_namespace_that_stays() {
    let cluster = TestCluster::start().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for (user, verbs) in [("jane", ["patch", "get"]), ("joe", ["create", "update"])] {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        cluster
            .post(format!("{rbac}/clusterroles"), json!({"metadata": {"name": user}, "rules": rules}))
            .await
            .ok(201);
        let group = "rbac.authorization.k8s.io";
        let binding = json!({"metadata": {"name": user}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
        cluster.post(format!("{rbac}/clusterrolebindings"), binding).await.ok(201);
    }
    let (jane, joe) = (UserInfo::new("jane", &["devs"]), UserInfo::new("joe", &["devs"]));
    let (path, config) = (format!("{MAPS}/a"), map(json!({}), json!({"a": "1"})));
    for query in ["", "?dryRun=All"] {
        let refused =
            apply_by(&cluster, jane.clone(), &format!("{path}{query}"), "one", &config).await.ok(403);
        let why = "configmaps \"a\" is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"";
        assert_eq!(refused["message"], why);
    }
    assert_eq!(cluster.get(&*path).await.status, 404);
    apply(&cluster, &path, "one", &config).await.ok(201);
    apply_by(&cluster, jane, &path, "two", &map(json!({}), json!({"b": "1"}))).await.ok(200);
    let refused = apply_by(&cluster, joe, &path, "two", &config).await.ok(403);
    assert!(refused["message"].as_str().unwrap().contains("cannot patch resource"), "{refused}");

    let missing = apply(&cluster, "/api/v1/namespaces/nope/configmaps/a", "one", &config).await.ok(404);
    assert_eq!(missing["message"], "namespaces \"nope\" not found");
    cluster
        .post("/api/v1/namespaces", json!({"metadata": {"name": "going", "finalizers": ["x.io/a"]}}))
        .await
        .ok(201);
    let going = "/api/v1/namespaces/going/configmaps";
    apply(&cluster, &format!("{going}/a"), "one", &config).await.ok(201);
    cluster.delete("/api/v1/namespaces/going").await.ok(200);
    let mut new = config.clone();
    new["metadata"]["name"] = json!("b");
    let refused = apply(&cluster, &format!("{going}/b"), "one", &new).await.ok(403);
    assert!(refused["message"].as_str().unwrap().contains("because it is being terminated"), "{refused}");
    let labelled =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going", "labels": {"a": "b"}}});
    apply(&cluster, "/api/v1/namespaces/going", "one", &labelled).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn quotas_count_what_is_created_by_apply_and_generations_count_changes_of_the_spec() {
    let cluster = TestCluster::simulated(7).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/deployments.apps": "1"}}});
    cluster.post(quotas, quota).await.ok(201);
    while cluster.get(format!("{quotas}/q")).await.json()["status"]["hard"].is_null() {
        cluster.env().sleep(std::time::Duration::from_millis(10)).await;
    }
    let path = format!("{DEPLOYMENTS}/web");
    let generation = |object: &Value| object["metadata"]["generation"].as_u64().unwrap();
    let made = apply(&cluster, &path, "one", &deployment(json!({}), 1)).await.ok(201);
    assert_eq!(generation(&made), 1);
    let mut second = deployment(json!({}), 1);
    second["metadata"]["name"] = json!("second");
    let refused = apply(&cluster, &format!("{DEPLOYMENTS}/second"), "one", &second).await.ok(403);
    assert!(refused["message"].as_str().unwrap().contains("exceeded quota: q"), "{refused}");
    let labelled = apply(&cluster, &path, "one", &deployment(json!({"labels": {"a": "b"}}), 1)).await.ok(200);
    assert_eq!(generation(&labelled), 1, "labels are no spec");
    let shared = apply(&cluster, &path, "two", &deployment(json!({}), 1)).await.ok(200);
    assert_eq!(generation(&shared), 1, "owners are no spec");
    let scaled =
        apply(&cluster, &format!("{path}?force=true"), "two", &deployment(json!({}), 2)).await.ok(200);
    assert_eq!(generation(&scaled), 2);
    let given_up = apply(
        &cluster,
        &path,
        "one",
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}),
    )
    .await
    .ok(200);
    assert_eq!(generation(&given_up), 2, "the other has it");
}

/// 64 managers apply to one object at the same time, which none of them created: all of them are there, also after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applies_of_many_managers_at_a_time_all_arrive() {
    const MANAGERS: usize = 64;
    let folder = tempfile::TempDir::new().expect("a folder");
    let cluster = Arc::new(on_disk(folder.path()).await);
    let config = |i: usize| {
        let key = format!("k{i}");
        map(json!({"labels": {&key: "l"}}), json!({key: i.to_string(), "all": "x"}))
    };
    let tasks: Vec<_> = (0..MANAGERS)
        .map(|i| {
            let cluster = cluster.clone();
            cluster.env().clone().spawn("manager", async move {
                let reply = apply(&cluster, &format!("{MAPS}/a"), &format!("m{i}"), &config(i)).await;
                assert!([200, 201].contains(&reply.status), "{}", reply.text());
                usize::from(reply.status == 201)
            })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        created += task.await.unwrap();
    }
    assert_eq!(created, 1, "one of them creates it");
    let complete = |object: &Value| {
        assert_eq!(object["data"].as_object().unwrap().len(), MANAGERS + 1);
        assert_eq!(object["metadata"]["labels"].as_object().unwrap().len(), MANAGERS);
        assert_eq!(object["metadata"]["managedFields"].as_array().unwrap().len(), MANAGERS);
        for i in 0..MANAGERS {
            let own = format!(
                r#"m{i} {{"f:data":{{"f:all":{{}},"f:k{i}":{{}}}},"f:metadata":{{"f:labels":{{"f:k{i}":{{}}}}}}}}"#
            );
            assert!(managers(object).contains(&own), "{own} in {object}");
        }
    };
    let path = format!("{MAPS}/a");
    let before = cluster.get(&*path).await.ok(200);
    complete(&before);
    Arc::try_unwrap(cluster).unwrap_or_else(|_| panic!("a manager is still at work")).shutdown().await;
    let cluster = on_disk(folder.path()).await;
    assert_eq!(cluster.get(&*path).await.ok(200), before);
    for i in 0..MANAGERS {
        assert_eq!(
            apply(&cluster, &path, &format!("m{i}"), &config(i)).await.ok(200),
            before,
            "applied again"
        );
    }
    cluster.shutdown().await;
}

/// What is answered and never stored is tracked like what is stored.
#[tokio::test]
async fn reviews_and_tokens_name_who_asked() {
    let cluster = TestCluster::start().await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews?fieldManager=me";
    let answer = cluster.post(path, review).await.ok(201);
    let own = r#"me {"f:spec":{"f:resourceAttributes":{".":{},"f:resource":{},"f:verb":{}},"f:user":{}}}"#;
    assert_eq!(managers(&answer), [own]);
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}});
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token?fieldManager=me";
    let answer = cluster.post(path, token).await.ok(201);
    assert_eq!(managers(&answer), [r#"me {"f:spec":{"f:audiences":{},"f:expirationSeconds":{}}}"#]);
    assert_eq!(answer["metadata"]["managedFields"][0]["subresource"], "token");
}

#[tokio::test]
async fn who_updates_the_string_data_of_a_secret_owns_data() {
    let cluster = TestCluster::start().await;
    let path = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "x"}, "stringData": {"a": "1"}, "data": {"b": "MQ=="}});
    let made = cluster.post(format!("{path}?fieldManager=c"), secret).await.ok(201);
    assert_eq!(managers(&made), [r#"c {"f:data":{".":{},"f:a":{},"f:b":{}},"f:type":{}}"#]);
    let same = json!({"stringData": {"a": "1"}});
    let same = cluster.merge(format!("{path}/x?fieldManager=m"), same).await.ok(200);
    assert_eq!(same, made, "nothing changes");
    let more =
        cluster.merge(format!("{path}/x?fieldManager=m"), json!({"stringData": {"a": "2"}})).await.ok(200);
    assert_eq!(
        managers(&more),
        [r#"c {"f:data":{".":{},"f:b":{}},"f:type":{}}"#, r#"m {"f:data":{"f:a":{}}}"#]
    );
    assert_eq!(more["data"], json!({"a": "Mg==", "b": "MQ=="}));
    let null = json!({"metadata": {"name": "y"}, "data": {"a": null}});
    assert_eq!(cluster.post(path, null).await.ok(201)["data"], json!({"a": ""}), "no bytes are none");
}
