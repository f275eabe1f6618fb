//! FlowSchemas report whether their priority level exists, and bootstrap flow control objects are reconciled.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestCluster;

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const AUTO: &str = "apf.kubernetes.io/autoupdate-spec";
/// How often the server looks at its own, and a little more.
const A_LOOK: Duration = Duration::from_secs(61);

fn schema(name: &str, level: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": 1000,
        "rules": [{
            "subjects": [{"kind": "Group", "group": {"name": "g"}}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
        }],
    }})
}

fn level(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}})
}

fn in_words(level: &str, there: bool) -> Value {
    let named = format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\"");
    if there {
        json!({"status": "False", "reason": "Found", "message": format!("{named} and it exists")})
    } else {
        json!({"status": "True", "reason": "NotFound", "message": format!("{named} but there is no such object")})
    }
}

/// The condition without its time, which must be one.
fn dangling(schema: &Value) -> Value {
    let conditions = schema["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut of_type: Vec<Value> = conditions.into_iter().filter(|c| c["type"] == "Dangling").collect();
    assert!(of_type.len() < 2, "{schema}");
    let Some(mut condition) = of_type.pop() else { return Value::Null };
    let members = condition.as_object_mut().unwrap();
    let time = members.remove("lastTransitionTime").unwrap();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    members.remove("type");
    condition
}

async fn until_dangling(cluster: &TestCluster, name: &str, level: &str, there: bool) {
    let want = in_words(level, there);
    cluster
        .until(&format!("{name} says {want}"), || async {
            dangling(&cluster.get(format!("{SCHEMAS}/{name}")).await.ok(200)) == want
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn bootstrap_flow_schemas_say_that_their_levels_exist() {
    let cluster = TestCluster::simulated(4201).await;
    let all = cluster.get(SCHEMAS).await.ok(200);
    let all = all["items"].as_array().unwrap();
    assert_eq!(all.len(), 11);
    for schema in all {
        let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap();
        assert_eq!(dangling(schema), in_words(level, true), "{schema}");
        assert_eq!(schema["metadata"]["annotations"][AUTO], "true");
        assert_eq!(schema["metadata"]["generation"], 1);
    }
    let table =
        cluster.request("GET", SCHEMAS).accept("application/json;as=Table;v=v1;g=meta.k8s.io").send().await;
    let table = table.ok(200);
    let at =
        table["columnDefinitions"].as_array().unwrap().iter().position(|c| c["name"] == "MissingPL").unwrap();
    assert!(table["rows"].as_array().unwrap().iter().all(|row| row["cells"][at] == "False"), "{table}");
    // Nothing is left to do: no look writes anything.
    let before = cluster.api().registry().table().revision();
    cluster.env().sleep(3 * A_LOOK).await;
    let unchanged = cluster.get(SCHEMAS).await.ok(200);
    assert_eq!(unchanged["items"], json!(all), "{before:?}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_flow_schema_follows_the_level_it_names() {
    let cluster = TestCluster::simulated(4202).await;
    cluster.post(SCHEMAS, schema("a", "mine")).await.ok(201);
    until_dangling(&cluster, "a", "mine", false).await;
    cluster.post(LEVELS, level("mine")).await.ok(201);
    until_dangling(&cluster, "a", "mine", true).await;
    cluster.delete(format!("{LEVELS}/mine")).await.ok(200);
    until_dangling(&cluster, "a", "mine", false).await;
    // It names another one.
    let other = json!({"spec": {"priorityLevelConfiguration": {"name": "system"}}});
    cluster.merge(format!("{SCHEMAS}/a"), other).await.ok(200);
    until_dangling(&cluster, "a", "system", true).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_status_is_corrected_and_other_conditions_stay() {
    let cluster = TestCluster::simulated(4203).await;
    cluster.post(SCHEMAS, schema("a", "system")).await.ok(201);
    until_dangling(&cluster, "a", "system", true).await;
    let conditions = json!([
        {"type": "E2E", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "r", "message": "m"},
        {"type": "Dangling", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "r", "message": "m"},
    ]);
    let status = format!("{SCHEMAS}/a/status");
    cluster.merge(&status, json!({"status": {"conditions": conditions}})).await.ok(200);
    until_dangling(&cluster, "a", "system", true).await;
    let now = cluster.get(format!("{SCHEMAS}/a")).await.ok(200);
    assert_eq!(now["status"]["conditions"][0], conditions[0]);
    assert_eq!(now["metadata"]["generation"], 1);
    // Somebody who insists is given way to for a while, so that two do not write without end.
    let wrong = json!({"status": {"conditions": [conditions[1]]}});
    for _ in 0..20 {
        cluster.merge(&status, wrong.clone()).await.ok(200);
        cluster.env().sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(cluster.get(format!("{SCHEMAS}/a")).await.ok(200)["status"]["conditions"][0]["reason"], "r");
    until_dangling(&cluster, "a", "system", true).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn mandatory_flow_control_objects_come_back_within_a_minute() {
    let cluster = TestCluster::simulated(4204).await;
    let at = |base: &str, name: &str| format!("{base}/{name}");
    let spec = async |path: String| cluster.get(path).await.ok(200)["spec"].clone();
    let mandatory = [(SCHEMAS, "exempt"), (SCHEMAS, "catch-all"), (LEVELS, "exempt"), (LEVELS, "catch-all")];
    let mut specs = Vec::new();
    for (base, name) in mandatory {
        specs.push(spec(at(base, name)).await);
    }
    // Gone, suggested and mandatory alike.
    for (base, name) in mandatory.into_iter().chain([(SCHEMAS, "probes"), (LEVELS, "workload-low")]) {
        cluster.delete(at(base, name)).await.ok(200);
    }
    until_dangling(&cluster, "service-accounts", "workload-low", false).await;
    cluster.env().sleep(A_LOOK).await;
    for ((base, name), before) in mandatory.into_iter().zip(&specs) {
        assert_eq!(&spec(at(base, name)).await, before, "{base}/{name}");
    }
    cluster.get(at(SCHEMAS, "probes")).await.ok(200);
    until_dangling(&cluster, "service-accounts", "workload-low", true).await;

    // What people may change of the mandatory ones, and the annotation, is put back; the exempt level's shares are theirs.
    let off = json!({"metadata": {"annotations": {AUTO: "false"}}});
    cluster.merge(at(LEVELS, "catch-all"), off.clone()).await.ok(200);
    cluster.merge(at(LEVELS, "exempt"), json!({"spec": {"exempt": {"lendablePercent": 7}}})).await.ok(200);
    cluster.env().sleep(A_LOOK).await;
    assert_eq!(cluster.get(at(LEVELS, "catch-all")).await.ok(200)["metadata"]["annotations"][AUTO], "true");
    assert_eq!(spec(at(LEVELS, "exempt")).await["exempt"]["lendablePercent"], 7);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_suggested_object_is_the_servers_as_long_as_its_annotation_says_so() {
    let cluster = TestCluster::simulated(4205).await;
    let path = |name: &str| format!("{LEVELS}/{name}");
    let shares = async |name: &str| {
        cluster.get(path(name)).await.ok(200)["spec"]["limited"]["nominalConcurrencyShares"].as_i64().unwrap()
    };
    let changed = |annotation: Value| json!({"metadata": {"annotations": {AUTO: annotation}}, "spec": {"limited": {"nominalConcurrencyShares": 77}}});
    for (name, annotation) in [
        ("global-default", json!("true")),
        ("workload-low", json!("false")),
        // Taken away, or no boolean, with a spec that was changed: people's.
        ("workload-high", Value::Null),
        ("system", json!("maybe")),
    ] {
        cluster.merge(path(name), changed(annotation)).await.ok(200);
    }
    // Taken away, with a spec nobody changed: the server's again.
    cluster.merge(path("node-high"), json!({"metadata": {"annotations": {AUTO: null}}})).await.ok(200);
    cluster.env().sleep(A_LOOK).await;
    let annotation =
        async |name: &str| cluster.get(path(name)).await.ok(200)["metadata"]["annotations"][AUTO].clone();
    for (name, want, says) in [
        ("global-default", 20, "true"),
        ("workload-low", 77, "false"),
        ("workload-high", 77, "false"),
        ("system", 77, "false"),
        ("node-high", 40, "true"),
    ] {
        assert_eq!((shares(name).await, annotation(name).await), (want, json!(says)), "{name}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn obsolete_bootstrap_objects_are_removed() {
    let cluster = TestCluster::simulated(4206).await;
    let with = |mut object: Value, annotation: &str| {
        object["metadata"]["annotations"] = json!({AUTO: annotation});
        object
    };
    cluster.post(LEVELS, with(level("old"), "true")).await.ok(201);
    cluster.post(LEVELS, with(level("kept"), "false")).await.ok(201);
    cluster.post(LEVELS, level("mine")).await.ok(201);
    cluster.post(SCHEMAS, with(schema("old", "system"), "true")).await.ok(201);
    cluster.post(SCHEMAS, with(schema("odd", "system"), "maybe")).await.ok(201);
    // A name that only the other kind has does not protect it.
    cluster.post(SCHEMAS, with(schema("workload-low", "system"), "true")).await.ok(201);
    cluster.env().sleep(A_LOOK).await;
    for (path, name, status) in [
        (LEVELS, "old", 404),
        (LEVELS, "kept", 200),
        (LEVELS, "mine", 200),
        (SCHEMAS, "old", 404),
        (SCHEMAS, "odd", 200),
        (SCHEMAS, "workload-low", 404),
        (LEVELS, "workload-low", 200),
    ] {
        assert_eq!(cluster.get(format!("{path}/{name}")).await.status, status, "{path}/{name}");
    }
    cluster.shutdown().await;
}
