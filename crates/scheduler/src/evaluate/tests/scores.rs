//! Which of several nodes that fit is taken.

use crate::testing::{NOW, engine, next, node, node_of, pod, tree};
use crate::{Config, Engine};
use object::Value;

fn on(name: &str, node: &str, labels: &str, requests: &str) -> Value {
    pod(name, labels, requests, &format!(r#""nodeName":"{node}""#))
}

fn place(mut engine: Engine, placed: &[Value], waits: Value) -> String {
    placed.iter().for_each(|p| drop(engine.set_pod(p, NOW)));
    engine.set_pod(&waits, NOW);
    next(&mut engine).expect("a node fits")
}

pub(super) fn configured(plugin_config: &str) -> Config {
    let head = r#""apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration""#;
    Config::parse(&tree(&format!(r#"{{{head},"profiles":[{{{plugin_config}}}]}}"#))).unwrap()
}

pub(super) fn with(config: Config, nodes: &[Value]) -> Engine {
    let mut engine = Engine::new(config);
    nodes.iter().for_each(|node| engine.set_node(node, NOW));
    engine
}

#[test]
fn the_emptier_node_is_better_unless_packing_is_configured() {
    let nodes = [node("n1", "", ""), node("n2", "", "")];
    let placed = [on("x", "n1", "", r#""cpu":"2","memory":"4Gi""#)];
    let waits = || pod("a", "", r#""cpu":"1","memory":"2Gi""#, "");
    assert_eq!(place(engine(&nodes), &placed, waits()), "n2");
    let most = r#""pluginConfig":[{"name":"NodeResourcesFit","args":{"scoringStrategy":{"type":"MostAllocated",
        "resources":[{"name":"cpu"},{"name":"memory"}]}}}]"#;
    assert_eq!(place(with(configured(most), &nodes), &placed, waits()), "n1");
    let ratio = r#""pluginConfig":[{"name":"NodeResourcesFit","args":{"scoringStrategy":{
        "type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[
        {"utilization":0,"score":0},{"utilization":100,"score":10}]}}}}]"#;
    assert_eq!(place(with(configured(ratio), &nodes), &placed, waits()), "n1");
}

#[test]
fn pods_without_requests_still_fill_a_node() {
    let nodes = [node("n1", "", ""), node("n2", "", "")];
    assert_eq!(place(engine(&nodes), &[on("x", "n1", "", "")], pod("a", "", "", "")), "n2");
}

#[test]
fn a_node_whose_use_becomes_more_even_is_better() {
    // Both are half full for the sum of the two; n1 is full of memory, n2 of cpu.
    let nodes = [node("n1", "", ""), node("n2", "", "")];
    let placed =
        [on("x", "n1", "", r#""cpu":"1","memory":"6Gi""#), on("y", "n2", "", r#""cpu":"3","memory":"2Gi""#)];
    let only_balance = r#""plugins":{"score":{"disabled":[{"name":"*"}],
        "enabled":[{"name":"NodeResourcesBalancedAllocation"}]}}"#;
    let waits = pod("a", "", r#""cpu":"1","memory":"1Mi""#, "");
    assert_eq!(place(with(configured(only_balance), &nodes), &placed, waits), "n1");
}

#[test]
fn preferred_affinity_counts_by_weight_and_taints_against() {
    let nodes = [node("n1", r#""disk":"ssd""#, ""), node("n2", r#""gpu":"yes""#, "")];
    let prefers = r#""affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
        {"weight":10,"preference":{"matchExpressions":[{"key":"disk","operator":"Exists"}]}},
        {"weight":30,"preference":{"matchExpressions":[{"key":"gpu","operator":"Exists"}]}}]}}"#;
    assert_eq!(place(engine(&nodes), &[], pod("a", "", "", prefers)), "n2");
    let tainted =
        [node("n1", "", r#""taints":[{"key":"k","effect":"PreferNoSchedule"}]"#), node("n2", "", "")];
    let placed = [on("x", "n2", "", r#""cpu":"1","memory":"2Gi""#)];
    assert_eq!(place(engine(&tainted), &placed, pod("a", "", "", "")), "n2");
}

#[test]
fn a_node_that_has_the_image_is_better_when_others_have_it_too() {
    let image = |name: &str, size: i64| {
        let mut node = node(name, "", "");
        let images = format!(r#"[{{"names":["web:latest"],"sizeBytes":{size}}}]"#);
        node.map_at(&["status"]).set("images", tree(&images));
        node
    };
    let nodes = [node("n1", "", ""), image("n2", 2_000_000_000)];
    assert_eq!(place(engine(&nodes), &[], pod("a", "", "", "")), "n2");
}

#[test]
fn replicas_spread_over_nodes_and_zones_by_default() {
    let nodes = [
        node("a1", r#""topology.kubernetes.io/zone":"a""#, ""),
        node("a2", r#""topology.kubernetes.io/zone":"a""#, ""),
        node("b1", r#""topology.kubernetes.io/zone":"b""#, ""),
    ];
    let owned = |name: &str, node: &str| {
        let mut tree = on(name, node, r#""app":"web""#, "");
        let owner = r#"[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","controller":true}]"#;
        tree.map_at(&["metadata"]).set("ownerReferences", self::tree(owner));
        tree
    };
    let mut engine = engine(&nodes);
    let set = tree(r#"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}}}}"#);
    engine.set_owner(crate::pod::OwnerKind::ReplicaSet, "ns", "web", Some(&set));
    // Room alone would say b1 is the worst.
    let placed = [owned("x", "a1"), on("y", "b1", "", r#""cpu":"500m","memory":"1Gi""#)];
    assert_eq!(place(engine, &placed, owned("p", "")), "b1");
}

#[test]
fn pods_go_near_those_they_like_and_those_that_like_them() {
    let nodes = [node("a1", r#""zone":"a""#, ""), node("b1", r#""zone":"b""#, "")];
    let term = |kind: &str| {
        format!(
            r#""affinity":{{"{kind}":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":100,
            "podAffinityTerm":{{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"web"}}}}}}}}]}}}}"#
        )
    };
    let web = r#""app":"web""#;
    let placed = [on("x", "b1", web, r#""cpu":"1""#)];
    assert_eq!(place(engine(&nodes), &placed, pod("p", "", "", &term("podAffinity"))), "b1");
    assert_eq!(place(engine(&nodes), &placed, pod("p", "", "", &term("podAntiAffinity"))), "a1");
    let likes = pod("x", "", r#""cpu":"1""#, &format!(r#""nodeName":"b1",{}"#, term("podAffinity")));
    assert_eq!(place(engine(&nodes), &[likes], pod("p", web, "", "")), "b1");
}

#[test]
fn zones_are_taken_in_turn_when_all_else_is_equal() {
    let mut engine = engine(&[
        node_of("a1", r#""topology.kubernetes.io/zone":"a""#, "", r#""cpu":"4","memory":"8Gi","pods":"10""#),
        node_of("a2", r#""topology.kubernetes.io/zone":"a""#, "", r#""cpu":"4","memory":"8Gi","pods":"10""#),
        node_of("b1", r#""topology.kubernetes.io/zone":"b""#, "", r#""cpu":"4","memory":"8Gi","pods":"10""#),
    ]);
    engine.set_pod(&pod("a", "", "", ""), NOW);
    let _ = next(&mut engine);
    let names: Vec<&str> =
        engine.cluster().order().iter().map(|ix| engine.cluster().node_name(*ix).as_ref()).collect();
    assert_eq!(names, ["a1", "b1", "a2"]);
}
