//! Which pods must go for one that is more important.

use crate::testing::{NOW, engine, node, pod, rng, tree};
use crate::{Engine, Failure, ScheduleResult};
use object::Value;

fn on(name: &str, node: &str, priority: i32, cpu: &str) -> Value {
    let spec = format!(r#""nodeName":"{node}","priority":{priority}"#);
    let mut tree = pod(name, &format!(r#""name":"{name}""#), &format!(r#""cpu":"{cpu}""#), &spec);
    tree.map_at(&["status"]).set("startTime", "2026-01-01T00:00:00Z");
    tree
}

fn started(mut pod: Value, at: &str) -> Value {
    pod.map_at(&["status"]).set("startTime", at);
    pod
}

fn fail(engine: &mut Engine, waits: Value) -> Failure {
    engine.set_pod(&waits, NOW);
    match engine.next(NOW, &mut rng(1)) {
        Some(ScheduleResult::Failed(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

fn victims(failure: &Failure) -> Vec<&str> {
    failure.victims.iter().map(|v| v.name.as_ref()).collect()
}

#[test]
fn only_as_many_victims_as_needed_of_the_lowest_priority() {
    let mut engine = engine(&[node("n1", "", "")]);
    for p in [on("a", "n1", 1, "1"), on("b", "n1", 5, "1"), on("c", "n1", 1, "1"), on("d", "n1", 100, "1")] {
        engine.set_pod(&p, NOW);
    }
    let failure = fail(&mut engine, pod("p", "", r#""cpu":"2""#, r#""priority":50"#));
    assert_eq!(victims(&failure).len(), 2);
    assert!(!victims(&failure).contains(&"b") && !victims(&failure).contains(&"d"));
    assert_eq!(failure.nominated_node.as_deref(), Some("n1"));
    assert_eq!(failure.message, "0/1 nodes are available: 1 Insufficient cpu.");
    // The room is promised: a less important pod that would fit does not get it.
    engine.remove_pod("a", NOW);
    engine.remove_pod("c", NOW);
    engine.set_pod(&pod("q", "", r#""cpu":"1""#, ""), NOW);
    let mut placed = Vec::new();
    while let Some(step) = engine.next(NOW, &mut rng(1)) {
        if let ScheduleResult::Bind { queued, .. } = step {
            placed.push(queued.pod.name.to_string());
        }
    }
    assert_eq!(placed, ["p"]);
}

#[test]
fn no_preemption_for_pods_of_equal_priority_or_policy_never() {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&on("a", "n1", 1, "4"), NOW);
    let never =
        fail(&mut engine, pod("p", "", r#""cpu":"2""#, r#""priority":50,"preemptionPolicy":"Never""#));
    assert!(never.victims.is_empty());
    let words = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(never.message, words);
    let equal = fail(&mut engine, pod("q", "", r#""cpu":"2""#, r#""priority":1"#));
    assert_eq!(
        equal.message,
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
         1 No preemption victims found for incoming pod."
    );
    assert_eq!(equal.nominated_node.as_deref(), Some(""));
}

#[test]
fn the_node_is_chosen_in_upstreams_order() {
    let nodes = [node("n1", "", ""), node("n2", "", "")];
    let choose = |first: &[Value], second: &[Value], budget: Option<&str>| {
        let mut engine = engine(&nodes);
        first.iter().chain(second).for_each(|p| drop(engine.set_pod(p, NOW)));
        if let Some(name) = budget {
            let json =
                r#"{"spec":{"selector":{"matchLabels":{"name":"NAME"}}},"status":{"disruptionsAllowed":0}}"#;
            engine.set_budget("ns", "b", Some(&tree(&json.replace("NAME", name))));
        }
        let failure = fail(&mut engine, pod("p", "", r#""cpu":"4""#, r#""priority":1000"#));
        failure.nominated_node.expect("there is room to be made").to_string()
    };
    // A budget that would be overdrawn counts more than anything.
    assert_eq!(choose(&[on("a", "n1", 1, "4")], &[on("b", "n2", 9, "4")], Some("a")), "n2");
    // Then the most important victim, the sum of priorities, the number, and who started last.
    assert_eq!(choose(&[on("a", "n1", 5, "4")], &[on("b", "n2", 1, "2"), on("c", "n2", 1, "2")], None), "n2");
    let two = [on("b", "n2", 5, "2"), on("c", "n2", 1, "2")];
    assert_eq!(choose(&[on("a", "n1", 5, "4")], &two, None), "n1");
    let young = started(on("b", "n2", 5, "4"), "2026-02-01T00:00:00Z");
    assert_eq!(choose(&[on("a", "n1", 5, "4")], &[young], None), "n2");
}

#[test]
fn victims_within_their_disruption_budget_go_first() {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&on("a", "n1", 1, "2"), NOW);
    engine.set_pod(&on("b", "n1", 1, "2"), NOW);
    let json = r#"{"spec":{"selector":{"matchLabels":{"name":"a"}}},"status":{"disruptionsAllowed":0}}"#;
    engine.set_budget("ns", "b", Some(&tree(json)));
    assert_eq!(victims(&fail(&mut engine, pod("p", "", r#""cpu":"2""#, r#""priority":9"#))), ["b"]);
}

#[test]
fn pods_that_keep_others_out_by_anti_affinity_can_be_victims() {
    let mut engine = engine(&[node("n1", r#""zone":"a""#, "")]);
    engine.set_pod(&on("a", "n1", 1, "1"), NOW);
    engine.set_pod(&on("b", "n1", 1, "1"), NOW);
    let anti = r#""priority":9,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
        {"topologyKey":"zone","labelSelector":{"matchLabels":{"name":"a"}}}]}}"#;
    assert_eq!(victims(&fail(&mut engine, pod("p", "", "", anti))), ["a"]);
}

#[test]
fn while_victims_terminate_no_others_are_chosen() {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&on("a", "n1", 1, "4"), NOW);
    let waits = pod("p", "", r#""cpu":"2""#, r#""priority":9"#);
    assert_eq!(victims(&fail(&mut engine, waits.clone())), ["a"]);
    let mut going = on("a", "n1", 1, "4");
    going.map_at(&["metadata"]).set("deletionTimestamp", "2026-01-01T00:00:00Z");
    let conditions = r#"[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}]"#;
    going.map_at(&["status"]).set("conditions", tree(conditions));
    engine.set_pod(&going, NOW);
    let mut promised = waits;
    promised.map_at(&["status"]).set("nominatedNodeName", "n1");
    engine.set_pod(&promised, NOW);
    engine.activate("p");
    let Some(ScheduleResult::Failed(again)) = engine.next(NOW, &mut rng(1)) else { panic!("it still waits") };
    assert!(again.victims.is_empty() && again.nominated_node.is_none());
    assert!(
        again.message.ends_with("preemption: not eligible due to a terminating pod on the nominated node.")
    );
    engine.remove_pod("a", NOW);
    assert!(matches!(engine.next(NOW, &mut rng(1)), Some(ScheduleResult::Bind { .. })));
}
