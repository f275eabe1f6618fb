//! Disruption budgets follow their pods; pods that were to be disrupted and were not lose their condition.

use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{EVENTS, PODS, items, pass, plane, set_status, steady, until};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &[&str] = &["disruption-controller"];

async fn budget(cluster: &TestCluster, spec: Json) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    cluster.post(BUDGETS, json!({"metadata": {"name": "web"}, "spec": spec})).await.ok(201);
}

/// A ready pod, of a replica set if one is given.
async fn pod(cluster: &TestCluster, name: &str, owner: Option<&Json>) -> Json {
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "nginx"}]}});
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": owner["kind"], "controller": true,
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]);
    }
    let pod = cluster.post(PODS, pod).await.ok(201);
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    set_status(cluster, &pod, status).await;
    pod
}

async fn told(cluster: &TestCluster, what: &str, wanted: [i64; 4]) -> Json {
    let path = format!("{BUDGETS}/web");
    let numbers = |b: &Json| {
        ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
            .map(|name| b["status"][name].as_i64())
    };
    until(cluster, &path, what, |b| {
        numbers(b) == wanted.map(Some) && b["status"]["observedGeneration"] == b["metadata"]["generation"]
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_the_pods_it_selects() {
    let cluster = TestCluster::simulated(1).await;
    let plane = plane(&cluster, CONTROLLERS);
    budget(&cluster, json!({"minAvailable": 1})).await;
    let empty = told(&cluster, "no pods", [0, 0, 1, 0]).await;
    assert_eq!(empty["status"]["conditions"][0]["reason"], "InsufficientPods");
    pod(&cluster, "a", None).await;
    pod(&cluster, "b", None).await;
    let two = told(&cluster, "two pods", [2, 2, 1, 1]).await;
    assert_eq!(two["status"]["conditions"][0]["reason"], "SufficientPods");
    assert_eq!(two["status"]["conditions"][0]["status"], "True");
    steady(&cluster).await;
    // An eviction is remembered; the pod goes, and is forgotten.
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    cluster.post(format!("{PODS}/a/eviction"), eviction).await.ok(201);
    let after = told(&cluster, "one healthy pod", [2, 1, 1, 0]).await;
    assert!(after["status"]["disruptedPods"].is_null());
    cluster.delete(format!("{PODS}/a?gracePeriodSeconds=0")).await.ok(200);
    told(&cluster, "one pod", [1, 1, 1, 0]).await;
    let events = items(&cluster, EVENTS).await;
    let no_pods = events.iter().find(|e| e["reason"] == "NoPods").unwrap();
    assert_eq!(no_pods["message"], "No matching pods found");
    assert_eq!(no_pods["source"]["component"], "controllermanager");
    assert_eq!(no_pods["reportingComponent"], "controllermanager");
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn percentages_are_of_the_replicas_controllers_want() {
    let cluster = TestCluster::simulated(2).await;
    let plane = plane(&cluster, CONTROLLERS);
    let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}});
    let set = cluster.post(SETS, set).await.ok(201);
    budget(&cluster, json!({"maxUnavailable": "25%"})).await;
    for name in ["a", "b", "c", "d"] {
        pod(&cluster, name, Some(&set)).await;
    }
    told(&cluster, "four of four", [4, 4, 3, 1]).await;
    // A pod without a controller is not counted as expected, and gets an event.
    pod(&cluster, "stray", None).await;
    told(&cluster, "a stray", [4, 5, 3, 2]).await;
    let events = items(&cluster, EVENTS).await;
    assert!(events.iter().any(|e| e["reason"] == "UnmanagedPods"));
    // Of a controller that is not there nothing is known.
    let gone = json!({"kind": "ReplicaSet", "metadata": {"name": "gone", "uid": "0-0"}});
    pod(&cluster, "lost", Some(&gone)).await;
    let path = format!("{BUDGETS}/web");
    let failed = |b: &Json| b["status"]["conditions"][0]["reason"] == "SyncFailed";
    let failed = until(&cluster, &path, "a failure", failed).await;
    assert_eq!(failed["status"]["disruptionsAllowed"], 0);
    assert_eq!(failed["status"]["conditions"][0]["message"], "found no controllers for pod \"lost\"");
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_disrupted_pod_that_stays_is_forgotten_after_two_minutes() {
    let cluster = TestCluster::simulated(3).await;
    let plane = plane(&cluster, CONTROLLERS);
    budget(&cluster, json!({"minAvailable": 1})).await;
    pod(&cluster, "a", None).await;
    pod(&cluster, "b", None).await;
    let two = told(&cluster, "two pods", [2, 2, 1, 1]).await;
    let at = object::time::format_seconds(cluster.env().now_seconds() as i64);
    let mut status = two["status"].clone();
    status["disruptedPods"] = json!({"a": at});
    cluster.merge(format!("{BUDGETS}/web/status"), json!({"status": status})).await.ok(200);
    told(&cluster, "one disrupted", [2, 1, 1, 0]).await;
    pass(&cluster, 110).await;
    told(&cluster, "still disrupted", [2, 1, 1, 0]).await;
    let begun = cluster.env().now_seconds();
    let well = told(&cluster, "well again", [2, 2, 1, 1]).await;
    assert!(cluster.env().now_seconds() - begun <= 13);
    assert!(well["status"]["disruptedPods"].is_null());
    let events = items(&cluster, EVENTS).await;
    let message = "Pod was expected by PDB default/web to be deleted but it wasn't";
    assert!(events.iter().any(|e| e["reason"] == "NotDeleted" && e["message"] == message));
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_disruption_condition_turns_false() {
    let cluster = TestCluster::simulated(4).await;
    let plane = plane(&cluster, CONTROLLERS);
    let a = pod(&cluster, "a", None).await;
    let at = object::time::format_seconds(cluster.env().now_seconds() as i64);
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": at});
    let status = json!({"conditions": [{"type": "Ready", "status": "True"}, condition]});
    set_status(&cluster, &a, status).await;
    let path = format!("{PODS}/a");
    let target = |pod: &Json| {
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap()["status"].clone()
    };
    pass(&cluster, 115).await;
    assert_eq!(target(&cluster.get(&path).await.json()), "True");
    until(&cluster, &path, "the condition to turn", |pod| target(pod) == "False").await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}
