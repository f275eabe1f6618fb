//! Unreachable nodes are tainted and their pods evicted; if most nodes are unreachable, nothing is.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::nodes_and_pods::{NODES, PODS, World};

const CONTROLLERS: &[&str] = &["node-lifecycle-controller", "taint-eviction-controller"];

/// "key:effect", sorted.
fn taints(node: &Value) -> Vec<String> {
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<String> = list
        .iter()
        .map(|t| {
            let key = t["key"].as_str().unwrap().trim_start_matches("node.kubernetes.io/");
            format!("{key}:{}", t["effect"].as_str().unwrap())
        })
        .collect();
    all.sort();
    all
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let none = &Value::Null;
    let list = object["status"]["conditions"].as_array();
    list.and_then(|list| list.iter().find(|c| c["type"] == kind)).unwrap_or(none)
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_node_is_tainted_and_its_pods_evicted_after_their_toleration() {
    let world = World::new(411, CONTROLLERS).await;
    for name in ["a", "b", "c"] {
        world.node(name, json!({"kubernetes.io/os": "linux"})).await;
        let path = format!("{NODES}/{name}");
        world.until(&path, "the first taint goes", |n| taints(n).is_empty()).await;
        world
            .until(&path, "old label", |n| n["metadata"]["labels"]["beta.kubernetes.io/os"] == "linux")
            .await;
    }
    world.pod("stays", "a", "10.0.0.1").await;
    world.pod("goes", "b", "10.0.0.2").await;
    let forever = json!({"tolerations": [{"operator": "Exists"}]});
    world.pod_of("tolerant", "b", "10.0.0.3", json!({}), forever).await;
    world.live(20, &["a", "b", "c"]).await;

    // b falls silent; it has 50 seconds.
    world.live(40, &["a", "c"]).await;
    assert_eq!(taints(&world.get(&format!("{NODES}/b")).await), Vec::<String>::new());
    world.live(20, &["a", "c"]).await;
    let node = world.get(&format!("{NODES}/b")).await;
    assert_eq!(taints(&node), ["unreachable:NoExecute", "unreachable:NoSchedule"]);
    let ready = condition(&node, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NodeStatusUnknown")));
    assert_eq!(ready["message"], "Kubelet stopped posting node status.");
    let never = condition(&node, "PIDPressure");
    assert_eq!((&never["status"], &never["reason"]), (&json!("Unknown"), &json!("NodeStatusNeverUpdated")));
    assert_eq!(never["message"], "Kubelet never posted node status.");
    let pod = world.get(&format!("{PODS}/goes")).await;
    assert_eq!(condition(&pod, "Ready")["status"], "False");
    assert_eq!(condition(&world.get(&format!("{PODS}/stays")).await, "Ready")["status"], "True");

    world.live(280, &["a", "c"]).await;
    let pod = world.get(&format!("{PODS}/goes")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_null(), "not before 300 seconds have passed");
    world.live(40, &["a", "c"]).await;
    let pod = world.get(&format!("{PODS}/goes")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let target = condition(&pod, "DisruptionTarget");
    assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("DeletionByTaintManager")));
    assert_eq!(target["message"], "Taint manager: deleting due to NoExecute taint");
    assert_eq!(pod["status"]["conditions"].as_array().unwrap().last(), Some(target), "behind the others");
    for pod in ["stays", "tolerant"] {
        let pod = world.get(&format!("{PODS}/{pod}")).await;
        assert!(pod["metadata"]["deletionTimestamp"].is_null());
    }
    let told = world.events().await;
    for want in [
        "RegisteredNode: Node b event: Registered Node b in Controller",
        "NodeNotReady: Node b status is now: NodeNotReady",
        "NodeNotReady: Node is not ready",
        "TaintManagerEviction: Marking for deletion Pod default/goes",
    ] {
        assert!(told.iter().any(|event| event == want), "{want} is not in {told:#?}");
    }

    // Nothing more happens while nothing changes, but the leases.
    let before = world.revision();
    world.live(600, &["a", "c"]).await;
    assert_eq!(world.revision() - before, 2 * 60, "leases only");

    // It comes back.
    world.node_condition("b", "Ready", "True").await;
    world.until(&format!("{NODES}/b"), "untainted", |n| taints(n).is_empty()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_cancelled_when_the_node_comes_back_in_time() {
    let world = World::new(412, CONTROLLERS).await;
    for name in ["a", "b"] {
        world.node(name, json!({})).await;
    }
    world.pod("p", "b", "10.0.0.1").await;
    world.live(100, &["a"]).await;
    let node = world.get(&format!("{NODES}/b")).await;
    assert_eq!(taints(&node), ["unreachable:NoExecute", "unreachable:NoSchedule"]);
    world.node_condition("b", "Ready", "False").await;
    world.live(10, &["a", "b"]).await;
    let node = world.get(&format!("{NODES}/b")).await;
    assert_eq!(
        taints(&node),
        ["not-ready:NoExecute", "not-ready:NoSchedule"],
        "the reason changed, the taint did"
    );
    world.node_condition("b", "Ready", "True").await;
    world.live(400, &["a", "b"]).await;
    let pod = world.get(&format!("{PODS}/p")).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_null());
    assert!(taints(&world.get(&format!("{NODES}/b")).await).is_empty());
    let told = world.events().await;
    assert!(
        told.iter().any(|e| e == "TaintManagerEviction: Cancelling deletion of Pod default/p"),
        "{told:#?}"
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn when_most_nodes_are_unreachable_nothing_is_evicted() {
    let names = ["a", "b", "c", "d", "e", "f"];
    for alive in [0, 1, 2] {
        let world = World::new(413 + alive as u64, CONTROLLERS).await;
        for name in names {
            world.node(name, json!({})).await;
            world.pod(&format!("on-{name}"), name, "10.0.0.1").await;
        }
        world.live(20, &names).await;
        world.live(900, &names[..alive]).await;
        for name in &names[alive..] {
            let node = world.get(&format!("{NODES}/{name}")).await;
            assert_eq!(taints(&node), ["unreachable:NoSchedule"], "{alive} nodes are well");
            assert_eq!(condition(&node, "Ready")["status"], "Unknown");
        }
        for name in names {
            let pod = world.get(&format!("{PODS}/on-{name}")).await;
            assert!(pod["metadata"]["deletionTimestamp"].is_null());
        }
        // All are back: all is well again.
        for name in names {
            world.node_condition(name, "Ready", "True").await;
        }
        world.live(20, &names).await;
        for name in names {
            assert!(taints(&world.get(&format!("{NODES}/{name}")).await).is_empty());
        }
        world.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_become_taints_and_a_node_without_heartbeat_is_unknown() {
    let world = World::new(416, CONTROLLERS).await;
    world.node("a", json!({})).await;
    let path = format!("{NODES}/a");
    for (kind, taint) in [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
        ("NetworkUnavailable", "network-unavailable"),
    ] {
        world.node_condition("a", kind, "True").await;
        let want = [format!("{taint}:NoSchedule")];
        world.until(&path, taint, |n| taints(n) == want).await;
        world.node_condition("a", kind, "False").await;
        world.until(&path, "gone", |n| taints(n).is_empty()).await;
    }
    world.cluster.merge(&path, json!({"spec": {"unschedulable": true}})).await.ok(200);
    world.until(&path, "cordoned", |n| taints(n) == ["unschedulable:NoSchedule"]).await;
    world.cluster.merge(&path, json!({"spec": {"unschedulable": null}})).await.ok(200);
    world.until(&path, "uncordoned", |n| taints(n).is_empty()).await;

    world.cluster.post(NODES, json!({"metadata": {"name": "mute"}})).await.ok(201);
    world.live(70, &["a"]).await;
    let node = world.get(&format!("{NODES}/mute")).await;
    let ready = condition(&node, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NodeStatusNeverUpdated")));
    world.cluster.delete(format!("{NODES}/mute")).await.ok(200);
    world.live(10, &["a"]).await;
    let told = world.events().await;
    let want = "RemovingNode: Node mute event: Removing Node mute from Controller";
    assert!(told.iter().any(|event| event == want), "{told:#?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_custom_taint_evicts_pods_that_do_not_tolerate_it() {
    let mut world = World::new(417, CONTROLLERS).await;
    world.node("a", json!({})).await;
    world.pod("now", "a", "10.0.0.1").await;
    let later = json!({"tolerations": [
        {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]});
    world.pod_of("later", "a", "10.0.0.2", json!({}), later).await;
    let taint = json!({"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}});
    world.cluster.merge(format!("{NODES}/a"), taint).await.ok(200);
    let going = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    world.until(&format!("{PODS}/now"), "evicted", going).await;
    world.live(20, &["a"]).await;
    assert!(!going(&world.get(&format!("{PODS}/later")).await));
    // A controller that starts again counts anew, as upstream does.
    world.restart();
    world.live(20, &["a"]).await;
    assert!(!going(&world.get(&format!("{PODS}/later")).await));
    world.live(20, &["a"]).await;
    assert!(going(&world.get(&format!("{PODS}/later")).await));
    world.end().await;
}
