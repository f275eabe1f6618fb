//! The errors of refused patches, as kube-apiserver v1.36.4 reports them.

use serde_json::{Value, json};
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A deployment or a daemon set.
fn workload(name: &str, annotations: Value) -> Value {
    let containers = json!([{"name": "c", "image": "i"}, {"name": "c2", "image": "i"}]);
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}}})
}

async fn patch(cluster: &TestCluster, path: String, media: &str, body: Value) -> (u16, Value) {
    let answer = cluster.request("PATCH", path).typed(media, body.to_string()).send().await;
    (answer.status, answer.json())
}

#[tokio::test(start_paused = true)]
async fn a_refused_strategic_patch_is_shown_without_the_directives_it_followed() {
    let cluster = TestCluster::simulated(350).await;
    cluster.post(DEPLOYMENTS, workload("d", json!({}))).await.ok(201);
    let containers = |list: Value| json!({"spec": {"bogus": 1, "template": {"spec": {"containers": list}}}});
    for (body, shown) in [
        (
            json!({"spec": {"bogus": 1, "template": {"spec": {
                "$setElementOrder/containers": [{"name": "c2"}, {"name": "c"}],
                "containers": [{"name": "c", "image": "j"}]}}}}),
            "map[spec:map[bogus:1 template:map[spec:map[]]]]",
        ),
        (
            json!({"metadata": {"bogus": 2, "$deleteFromPrimitiveList/finalizers": ["a/b"],
                "$setElementOrder/finalizers": ["q/d"], "finalizers": ["q/d"]}}),
            "map[metadata:map[$deleteFromPrimitiveList/finalizers:[a/b] bogus:2]]",
        ),
        (
            json!({"spec": {"bogus": 1, "strategy":
                {"$retainKeys": ["type"], "type": "Recreate", "rollingUpdate": null}}}),
            "map[spec:map[bogus:1 strategy:map[rollingUpdate:<nil> type:Recreate]]]",
        ),
        (json!({"$patch": "replace", "bogus": 1}), "map[bogus:1]"),
        // What is new loses its nulls; directives stay where they did not stand in a map that was taken over.
        (
            json!({"spec": {"bogus": [{"$patch": "delete"}], "more": {"a": null, "b": {"c": null},
                "d": {"$patch": "delete"}, "e": [{"$patch": "delete"}, {"f": null}]}}}),
            "map[spec:map[bogus:[map[$patch:delete]] more:map[b:map[] e:[map[]]]]]",
        ),
        (
            json!({"spec": {"bogus": 1}, "metadata": {"labels": {"$patch": "replace", "x": "y"}}}),
            "map[metadata:map[labels:map[$patch:replace x:y]] spec:map[bogus:1]]",
        ),
        (
            containers(json!([{"name": "c", "$patch": "delete"}])),
            "map[spec:map[bogus:1 template:map[spec:map[containers:[map[$patch:delete name:c]]]]]]",
        ),
        (
            containers(json!([{"$patch": "replace"}, {"name": "z", "image": null}])),
            "map[spec:map[bogus:1 template:map[spec:map[containers:[map[$patch:replace] map[image:<nil> name:z]]]]]]",
        ),
        (
            containers(
                json!([{"name": "c", "env": [{"name": "n", "value": null}]}, {"name": "z", "env": null}]),
            ),
            "map[spec:map[bogus:1 template:map[spec:map[containers:[map[env:[map[name:n]] name:c] \
             map[env:<nil> name:z]]]]]]",
        ),
    ] {
        let path = format!("{DEPLOYMENTS}/d?fieldValidation=Strict&dryRun=All");
        let (code, refused) = patch(&cluster, path, STRATEGIC, body.clone()).await;
        assert_eq!(code, 422, "{body} {refused}");
        let words = refused["message"].as_str().unwrap();
        let start =
            format!(" \"\" is invalid: patch: Invalid value: \"{shown}\": strict decoding error: unknown ");
        assert!(words.starts_with(&start), "{body}\n{words}\n{start}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_type_is_refused_before_everything_else() {
    let cluster = TestCluster::simulated(351).await;
    cluster.post(MAPS, json!({"metadata": {"name": "m"}, "data": {"a": "b"}})).await.ok(201);
    let why = |what: &str, field: &str| {
        format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go struct field .{field} \
             of type string"
        )
    };
    for (body, what, field) in [
        (json!({"kind": 1}), "number", "kind"),
        (json!({"kind": {}}), "object", "kind"),
        (json!({"Kind": true}), "bool", "kind"),
        (json!({"apiVersion": ["x"]}), "array", "apiVersion"),
        (json!({"apiVersion": 2, "kind": 1, "metadata": 3}), "number", "apiVersion"),
        (json!({"apiVersion": null, "kind": 1}), "number", "kind"),
    ] {
        for validation in ["Ignore", "Warn", "Strict"] {
            let path = format!("{MAPS}/m?fieldValidation={validation}");
            let (code, refused) = patch(&cluster, path, MERGE, body.clone()).await;
            let words = refused["message"].as_str().unwrap();
            assert_eq!(code, 422, "{body} {words}");
            assert!(words.ends_with(&format!("\": {}", why(what, field))), "{body} {words}");
        }
        let refused = cluster.post(MAPS, body.clone()).await.ok(400);
        let start = "the object provided is unrecognized (must be of type ConfigMap): ";
        let words = format!("{start}{} ({}", why(what, field), &body.to_string()[..5]);
        assert!(refused["message"].as_str().unwrap().starts_with(&words), "{refused}");
    }
    // A strategic patch has no document to read them from.
    let (code, refused) = patch(&cluster, format!("{MAPS}/m"), STRATEGIC, json!({"kind": 1})).await;
    let words = " \"\" is invalid: patch: Invalid value: \"map[kind:1]\": cannot convert int64 to string";
    assert_eq!((code, refused["message"].as_str()), (422, Some(words)));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_annotation_upstream_parses_as_a_number_must_be_one() {
    let cluster = TestCluster::simulated(352).await;
    let generation = "deprecated.daemonset.template.generation";
    let rollback = "deprecated.deployment.rollback.to";
    let abc = "strconv.ParseInt: parsing \"abc\": invalid syntax";
    let rollback_abc = format!("failed to parse annotation[{rollback}]=abc as int64: {abc}");
    let large = "strconv.ParseInt: parsing \"9223372036854775808\": value out of range";
    for (path, kind, annotation, value, why) in [
        (DAEMON_SETS, "DaemonSet", generation, "abc", abc),
        (DAEMON_SETS, "DaemonSet", generation, "9223372036854775808", large),
        (DEPLOYMENTS, "Deployment", rollback, "abc", rollback_abc.as_str()),
    ] {
        cluster.post(path, workload("w", json!({}))).await;
        let odd = json!({annotation: value});
        let unfit = format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}");
        // Before what a strict client hears, and before anything is looked up.
        let mut unknown = workload("n", odd.clone());
        unknown["bogus"] = json!(1);
        let strict = cluster.post(format!("{path}?fieldValidation=Strict"), unknown).await.ok(400);
        assert_eq!(strict["message"], unfit);
        for (url, name) in
            [(format!("{path}/w"), "w"), (format!("{path}/w/status"), "w"), (format!("{path}/x"), "x")]
        {
            let refused = cluster.put(url, workload(name, odd.clone())).await.ok(400);
            assert_eq!(refused["message"], unfit);
        }
        let patched = json!({"metadata": {"annotations": odd}});
        let (code, refused) = patch(&cluster, format!("{path}/w"), MERGE, patched.clone()).await;
        assert_eq!(code, 422);
        assert!(refused["message"].as_str().unwrap().ends_with(&format!("\": {why}")), "{refused}");
        let (code, refused) = patch(&cluster, format!("{path}/w"), STRATEGIC, patched).await;
        assert_eq!((code, refused["message"].as_str()), (500, Some(why)));
    }
    let dry = format!("{DEPLOYMENTS}?dryRun=All");
    let made = cluster.post(dry.as_str(), workload("n", json!({rollback: "+007"}))).await.ok(201);
    assert_eq!(made["metadata"]["annotations"][rollback], "7");
    let refused = cluster.post(dry, workload("n", json!({rollback: "-3"}))).await.ok(422);
    let words = "Deployment.apps \"n\" is invalid: spec.rollback.version: Invalid value: -3: must be greater than or equal to 0";
    assert_eq!(refused["message"], words);
    // It is part of the spec: a status neither sets nor removes it.
    let status = |value: Value| {
        let path = format!("{DEPLOYMENTS}/w/status");
        patch(&cluster, path, MERGE, json!({"metadata": {"annotations": {rollback: value}}}))
    };
    assert_eq!(status(json!("4")).await.1["metadata"]["annotations"].get(rollback), None);
    let set = json!({"metadata": {"annotations": {rollback: "5"}}});
    assert_eq!(patch(&cluster, format!("{DEPLOYMENTS}/w"), MERGE, set).await.0, 200);
    assert_eq!(status(Value::Null).await.1["metadata"]["annotations"][rollback], "5");
    cluster.shutdown().await;
}

/// Upstream reads what a patch leads to in the version it names, and has it back in its own.
#[tokio::test(start_paused = true)]
async fn a_patch_may_name_another_version_of_the_kind() {
    let cluster = TestCluster::simulated(353).await;
    cluster.post(DEPLOYMENTS, workload("d", json!({"deprecated.deployment.rollback.to": ""}))).await.ok(201);
    let path = || format!("{DEPLOYMENTS}/d");
    for (media, version) in
        [(MERGE, "apps/v1beta2"), (MERGE, "extensions/v1beta1"), (STRATEGIC, "apps/v1beta1")]
    {
        let body = json!({"apiVersion": version, "spec": {"replicas": 2}});
        let (code, answer) = patch(&cluster, path(), media, body).await;
        assert_eq!((code, &answer["apiVersion"]), (200, &json!("apps/v1")), "{version}: {answer}");
        assert_eq!(answer["spec"]["replicas"], 2);
        assert!(answer["metadata"].get("annotations").is_none(), "an empty revision is none: {answer}");
    }
    let body = json!([{"op": "replace", "path": "/apiVersion", "value": "apps/v1beta1"}]);
    let (code, _) = patch(&cluster, path(), "application/json-patch+json", body).await;
    assert_eq!(code, 200);
    let (code, answer) = patch(&cluster, path(), MERGE, json!({"apiVersion": "apps/v9"})).await;
    assert_eq!(code, 422, "{answer}");
    cluster.shutdown().await;
}
