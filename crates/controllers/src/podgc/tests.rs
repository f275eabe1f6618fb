//! Rules of pod garbage, one by one.

use std::collections::BTreeMap;
use std::time::Duration;

use env::Env;
use kinds::pod::view::{Phase, PodView};
use object::Value;

use super::plan::{
    Node, Pod, Why, due_nodes, failed_patch, orphaned, out_of_service, terminated, unscheduled_terminating,
};

fn view(phase: Phase, created: i64) -> PodView {
    PodView { phase, created, ..PodView::default() }
}

fn pods<'a>(views: &'a [PodView], names: &'a [&'a str]) -> Vec<Pod<'a>> {
    views.iter().zip(names).map(|(view, name)| Pod { name, view }).collect()
}

#[test]
fn finished_pods_above_the_threshold_are_deleted_evicted_first_then_oldest() {
    let evicted = PodView { reason: "Evicted".into(), ..view(Phase::Failed, 9) };
    let views = [
        view(Phase::Succeeded, 3),
        view(Phase::Failed, 1),
        evicted,
        view(Phase::Running, 0),
        view(Phase::Failed, 1),
    ];
    let all = pods(&views, &["a", "z", "e", "r", "b"]);
    assert_eq!(terminated(&all, 4), Vec::<usize>::new());
    assert_eq!(terminated(&all, 3), [2]);
    assert_eq!(terminated(&all, 1), [2, 4, 1]);
}

#[test]
fn terminating_pods_on_an_out_of_service_node_are_deleted() {
    let on = |node: &str, deletion| PodView { node: node.into(), deletion, ..PodView::default() };
    let views = [on("lost", 5), on("lost", 0), on("tainted", 5), on("absent", 5), on("", 5)];
    let all = pods(&views, &["a", "b", "c", "d", "e"]);
    let node = |name: &str| match name {
        "lost" => Some(Node { ready: false, out_of_service: true }),
        "tainted" => Some(Node { ready: true, out_of_service: true }),
        _ => None,
    };
    assert_eq!(out_of_service(&all, &node), [0]);
    assert_eq!(unscheduled_terminating(&all), [4]);
    assert_eq!(orphaned(&all, &["absent".to_owned()].into()), [3]);
}

#[test]
fn an_orphaned_pod_gets_a_disruption_condition() {
    let pod = r#"{"metadata":{"uid":"u","generation":2},"status":{"phase":"Running"}}"#;
    let pod = codec::json::parse(pod.as_bytes(), None).unwrap();
    let patch = failed_patch(&pod, Why::Orphaned, 0);
    assert_eq!(patch.str_at(&["metadata", "uid"]), Some("u"));
    assert_eq!(patch.str_at(&["status", "phase"]), Some("Failed"));
    let condition = &patch.at(&["status", "conditions"]).and_then(Value::as_list).unwrap()[0];
    assert_eq!(condition.str_at(&["reason"]), Some("DeletionByPodGC"));
    assert_eq!(condition.str_at(&["message"]), Some("PodGC: node no longer exists"));
    assert!(failed_patch(&pod, Why::Unscheduled, 0).at(&["status", "conditions"]).is_none());
}

#[test]
fn a_node_is_missing_for_forty_seconds_before_it_is_gone() {
    let on = |node: &str| PodView { node: node.into(), ..PodView::default() };
    let views = [on("there"), on("lost"), on("")];
    let all = pods(&views, &["a", "b", "c"]);
    let (now, mut missed) = (Env::machine().monotonic(), BTreeMap::new());
    let at = |seconds| now + Duration::from_secs(seconds);
    let mut due =
        |back: bool, seconds| due_nodes(&all, &|name| name == "there" || back, &mut missed, at(seconds));
    assert!(due(false, 0).is_empty());
    assert!(due(false, 39).is_empty());
    assert!(due(true, 39).is_empty(), "it is back, and missed anew later");
    assert!(due(false, 40).is_empty());
    assert_eq!(due(false, 80), ["lost"]);
    assert!(due(false, 81).is_empty(), "told once");
}
