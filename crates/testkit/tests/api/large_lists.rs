//! Lists as long as a body allows are processed without quadratic comparisons.
//!
//! A quadratic walk would take minutes or all memory. No clock is read: such a walk shows in the duration of the tests.

use serde_json::{Value, json};
use testkit::TestCluster;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn many(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

fn pod(name: &str, container: Value, spec: Value) -> Value {
    let mut first = json!({"name": "c", "image": "i"});
    first.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut whole = json!({"metadata": {"name": name}, "spec": {"containers": [first]}});
    whole["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    whole
}

/// A dry run goes through all rules, and what the store could not hold does not matter.
async fn answered(cluster: &TestCluster, path: &str, body: Value) -> (u16, usize) {
    let response = cluster.post(format!("{path}?dryRun=All"), body).await;
    (response.status, response.headers.get_all("warning").iter().count())
}

#[tokio::test(start_paused = true)]
async fn lists_of_a_pod_are_walked_once() {
    let cluster = TestCluster::simulated(3101).await;
    let none = || json!({});
    let cases = [
        (
            "variables",
            pod("p", json!({"env": many(60_000, |i| json!({"name": format!("v{i}")}))}), none()),
            201,
        ),
        ("one variable", pod("p", json!({"env": many(60_000, |_| json!({"name": "v"}))}), none()), 201),
        ("one port", pod("p", json!({"ports": many(60_000, |_| json!({"containerPort": 80}))}), none()), 201),
        (
            "ports of the host",
            pod(
                "p",
                json!({"ports": many(40_000, |i| json!({"containerPort": 80, "hostPort": i + 1}))}),
                none(),
            ),
            201,
        ),
        (
            "mounts of nothing",
            pod(
                "p",
                json!({"volumeMounts": many(30_000, |i| json!({"name": "v", "mountPath": format!("/{i}")}))}),
                none(),
            ),
            422,
        ),
        (
            "aliases",
            pod(
                "p",
                none(),
                json!({"hostAliases": many(60_000, |i| json!({"ip": format!("10.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255)}))}),
            ),
            201,
        ),
        (
            "volumes",
            pod("p", none(), json!({"volumes": many(60_000, |i| json!({"name": format!("v{i}")}))})),
            201,
        ),
        (
            "files",
            pod(
                "p",
                none(),
                json!({"volumes": [{"name": "v", "configMap": {"name": "m", "items":
                many(40_000, |i| json!({"key": "k", "path": format!("f{i}")}))}}]}),
            ),
            201,
        ),
        (
            "claims",
            pod(
                "p",
                json!({"resources": {"claims": many(30_000, |i| json!({"name": format!("a{i}")}))}}),
                json!({"resourceClaims": many(30_000, |i| json!({"name": format!("b{i}"), "resourceClaimName": "c"}))}),
            ),
            422,
        ),
        (
            "spread",
            pod(
                "p",
                none(),
                json!({"topologySpreadConstraints": many(10_000, |i| json!({"maxSkew": 1,
                    "topologyKey": format!("k{i}"), "whenUnsatisfiable": "ScheduleAnyway"}))}),
            ),
            201,
        ),
        (
            "gates",
            pod("p", none(), json!({"schedulingGates": many(60_000, |i| json!({"name": format!("g{i}")}))})),
            201,
        ),
        (
            "init containers",
            pod(
                "p",
                none(),
                json!({"initContainers": many(20_000, |i| json!({"name": format!("i{i}"), "image": "i"}))}),
            ),
            201,
        ),
    ];
    for (name, body, status) in cases {
        let (code, warnings) = answered(&cluster, PODS, body).await;
        println!("{name}: {code}, {warnings} warnings");
        // Some are too large to be kept, which is found out after all rules.
        assert!(code == status || code == 413, "{name}: {code}");
        assert!(warnings <= 4096, "{name}");
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn lists_of_other_kinds_are_walked_once() {
    let cluster = TestCluster::simulated(3102).await;
    let owner = |i: usize| json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{i}"), "uid": format!("{i}")});
    let cases = [
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "m", "ownerReferences": many(40_000, owner)}}),
            201,
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "None",
                "ports": many(40_000, |i| json!({"name": format!("p{i}"), "port": i + 1}))}}),
            201,
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"metadata": {"name": "s"}, "provisioner": "a/b", "allowedTopologies": many(60_000, |_| json!({}))}),
            422,
        ),
        (
            "/api/v1/nodes",
            json!({"metadata": {"name": "n"}, "spec": {"taints":
                many(40_000, |i| json!({"key": format!("k{i}"), "effect": "NoSchedule"}))}}),
            201,
        ),
    ];
    let keys = |first: &str| -> serde_json::Map<String, Value> {
        (0..30_000).map(|i| (format!("{first}{i}"), json!(""))).collect()
    };
    let maps = json!({"metadata": {"name": "m"}, "data": keys("k"), "binaryData": keys("kk")});
    let annotated = json!({"metadata": {"name": "p", "annotations": keys("container.apparmor.security.beta.kubernetes.io/")},
        "spec": {"containers": many(100_000, |_| json!({}))}});
    let cases = cases
        .into_iter()
        .chain([("/api/v1/namespaces/default/configmaps", maps, 201), (PODS, annotated, 422)]);
    for (path, body, status) in cases {
        let (code, _) = answered(&cluster, path, body).await;
        println!("{path}: {code}");
        assert!(code == status || code == 413, "{path}: {code}");
    }
    cluster.shutdown().await;
}

/// As large as the store takes them, changed in every way there is.
#[tokio::test(start_paused = true)]
async fn large_objects_are_changed_member_by_member() {
    let cluster = TestCluster::simulated(3103).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |value: &str| {
        let data: serde_json::Map<String, Value> =
            (0..40_000).map(|i| (format!("key-{i}"), json!(value))).collect();
        json!({"metadata": {"name": "m"}, "data": data})
    };
    let path = format!("{maps}/m");
    let strategic = "application/strategic-merge-patch+json";
    cluster.post(maps, map("a")).await.ok(201);
    cluster.put(&path, map("b")).await.ok(200);
    for (media, value) in [("application/merge-patch+json", "c"), (strategic, "d")] {
        let patched = cluster.request("PATCH", &path).typed(media, map(value).to_string()).send().await;
        assert_eq!(patched.ok(200)["data"]["key-39999"], value);
    }
    let template = |value: &str| {
        let env = many(20_000, |i| json!({"name": format!("v{i}"), "value": value}));
        let container = json!({"name": "c", "image": "i", "env": env});
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}})
    };
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template("x")});
    cluster.post(deployments, json!({"metadata": {"name": "d"}, "spec": spec})).await.ok(201);
    let patch = json!({"spec": {"template": template("y")}}).to_string();
    cluster.request("PATCH", format!("{deployments}/d")).typed(strategic, patch).send().await.ok(200);
    cluster.shutdown().await;
}
