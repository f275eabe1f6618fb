use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use codec::json;
use kinds::pod::view::{Phase, PodView};
use object::Value;

use super::plan::{Change, change, count, next_available, pod_from_template};
use super::rank::{compare, to_delete};
use super::set::{Set, without_hash};
use super::status::{Counted, REPLICA_FAILURE, SetStatus};
use crate::claim::tests::stored;
use crate::pods::Pod;

const NOW: i64 = 1_767_225_600;
const NOW_NANOS: i128 = NOW as i128 * 1_000_000_000;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), None).expect("JSON")
}

fn pod(name: &str, labels: &str, view: PodView) -> Pod {
    let metadata = format!(r#"{{"name":"{name}","namespace":"d","uid":"uid-{name}","labels":{labels}}}"#);
    Pod { obj: Arc::new(stored("", "pods", &metadata, "")), view: Arc::new(view) }
}

fn running(node: &str, ready_for: i64) -> PodView {
    PodView {
        phase: Phase::Running,
        node: node.into(),
        ready: true,
        ready_since: NOW - ready_for,
        created: NOW - ready_for - 1,
        ..PodView::default()
    }
}

#[test]
fn the_difference_is_made_up_in_bursts() {
    assert_eq!(change(3, 3), Change::Nothing);
    assert_eq!(change(0, 3), Change::Create(3));
    assert_eq!(change(5, 3), Change::Delete(2));
    assert_eq!(change(0, 2000), Change::Create(500));
    assert_eq!(change(2000, 0), Change::Delete(500));
    assert_eq!(change(2, -1), Change::Delete(2));
}

#[test]
fn each_rule_of_the_ranking_decides_before_the_next() {
    let base = || running("n", 1000);
    let first_before_second = [
        ("unbound", PodView { node: "".into(), ..base() }, base()),
        ("pending", PodView { phase: Phase::Pending, ..base() }, base()),
        ("unknown", PodView { phase: Phase::Unknown, ..base() }, base()),
        (
            "pending before unknown",
            PodView { phase: Phase::Pending, ..base() },
            PodView { phase: Phase::Unknown, ..base() },
        ),
        ("not ready", PodView { ready: false, ..base() }, base()),
        ("cheap", PodView { deletion_cost: -1, ..base() }, base()),
        ("ready for less time", running("n", 10), running("n", 100_000)),
        ("ready since nobody knows", PodView { ready_since: 0, ..base() }, base()),
        ("restarted", PodView { max_restarts: 2, ..base() }, PodView { max_restarts: 1, ..base() }),
        ("its sidecar restarted", PodView { max_sidecar_restarts: 1, ..base() }, base()),
        ("newer", PodView { created: NOW - 5, ..base() }, base()),
        // An earlier rule beats all later ones.
        ("unbound though dear", PodView { node: "".into(), deletion_cost: 9, ..base() }, base()),
        ("cheap though old", PodView { deletion_cost: -1, created: 1, ready_since: 1, ..base() }, base()),
    ];
    for (what, first, second) in first_before_second {
        assert_eq!(compare(&first, &second, 0, 0, NOW_NANOS), Ordering::Less, "{what}");
        assert_eq!(compare(&second, &first, 0, 0, NOW_NANOS), Ordering::Greater, "{what}");
    }
    assert_eq!(compare(&base(), &base(), 2, 1, NOW_NANOS), Ordering::Less, "doubled up");
    let costs = PodView { deletion_cost: 1, ..base() };
    assert_eq!(compare(&costs, &base(), 2, 1, NOW_NANOS), Ordering::Greater, "cost before doubling");
}

#[test]
fn ages_of_one_magnitude_are_equal() {
    assert_eq!(compare(&running("n", 1000), &running("n", 1001), 0, 0, NOW_NANOS), Ordering::Equal);
    assert_eq!(compare(&running("n", 1000), &running("n", 4000), 0, 0, NOW_NANOS), Ordering::Less);
}

#[test]
fn nodes_with_many_pods_of_one_owner_lose_one_first() {
    let of_set: Vec<Pod> = [("a", "n1"), ("b", "n2"), ("c", "n3")]
        .iter()
        .map(|(name, node)| pod(name, "{}", running(node, 1000)))
        .collect();
    let mut related = of_set.clone();
    related.push(pod("other", "{}", running("n2", 1000)));
    // A pod that is over crowds nobody.
    let over = PodView { phase: Phase::Failed, ..running("n3", 1000) };
    related.extend([pod("x", "{}", over.clone()), pod("y", "{}", over)]);
    let first = to_delete(of_set, &related, 1, NOW_NANOS);
    assert_eq!(first.iter().map(|pod| pod.obj.name()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn the_order_does_not_depend_on_the_input_order() {
    let all: Vec<Pod> = (0..50)
        .map(|i| pod(&format!("p{i}"), "{}", running(["n1", "n2", ""][i % 3], 10 + (i as i64 * 37) % 500)))
        .collect();
    let names = |pods: Vec<Pod>| {
        let chosen = to_delete(pods, &all, 20, NOW_NANOS);
        chosen.iter().map(|pod| pod.obj.name().to_owned()).collect::<Vec<_>>()
    };
    let reversed: Vec<Pod> = all.iter().rev().cloned().collect();
    assert_eq!(names(all.clone()), names(reversed));
}

fn set(min_ready: i64) -> Set {
    Set::read(&tree(&format!(
        r#"{{"metadata":{{"name":"rs","generation":2}},"spec":{{"replicas":3,"minReadySeconds":{min_ready},
        "selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b","c":"d"}}}},"spec":{{}}}}}}}}"#
    )))
}

#[test]
fn pods_are_counted_by_labels_readiness_and_time() {
    let pods = [
        pod("full", r#"{"a":"b","c":"d"}"#, running("n", 100)),
        pod("part", r#"{"a":"b"}"#, running("n", 10)),
        pod("not", r#"{"a":"b"}"#, PodView { ready: false, ..running("n", 100) }),
    ];
    let counted = count(&set(30), &pods, Some(1), NOW);
    let expected = Counted { active: 3, fully_labeled: 1, ready: 2, available: 1, terminating: Some(1) };
    assert_eq!(counted, expected);
    assert_eq!(count(&set(0), &pods, None, NOW).available, 2);
}

#[test]
fn the_next_reconcile_is_when_a_pod_becomes_available() {
    let pods = [
        pod("a", "{}", running("n", 10)),
        pod("b", "{}", running("n", 25)),
        pod("c", "{}", running("n", 100)),
    ];
    let look = |set: &Set| next_available(set, &count(set, &pods, None, NOW), &pods, NOW_NANOS);
    assert_eq!(look(&set(30)), Some(Duration::from_secs(5)));
    assert_eq!(look(&set(0)), None);
    assert_eq!(look(&set(5)), None, "all are available");
    let unknown = [pod("a", "{}", PodView { ready_since: 0, ..running("n", 10) })];
    let counted = count(&set(30), &unknown, None, NOW);
    let wait = next_available(&set(30), &counted, &unknown, NOW_NANOS);
    assert_eq!(wait, Some(Duration::from_secs(30)), "a whole wait where the time is not known");
}

#[test]
fn a_failure_condition_keeps_its_first_message() {
    let counted = Counted { active: 1, ..Counted::default() };
    let failed = SetStatus::default().after(counted, 2, Some("no room"), 3, NOW);
    let [condition] = failed.conditions.as_slice() else { panic!("{failed:?}") };
    assert_eq!((condition.kind.as_str(), condition.reason.as_str()), (REPLICA_FAILURE, "FailedCreate"));
    assert_eq!((condition.message.as_str(), condition.changed.as_str()), ("no room", "2026-01-01T00:00:00Z"));
    let again = failed.after(counted, 2, Some("other words"), 3, NOW + 60);
    assert_eq!(again, failed);
    assert!(again.after(counted, 2, None, 3, NOW).conditions.is_empty());
    let too_many = SetStatus::default().after(counted, 2, Some("no"), 0, NOW);
    assert_eq!(too_many.conditions[0].reason, "FailedDelete");
}

#[test]
fn a_status_survives_a_round_trip() {
    let status = SetStatus {
        replicas: 3,
        fully_labeled: 2,
        ready: 1,
        available: 0,
        terminating: Some(0),
        observed_generation: 4,
        conditions: SetStatus::default().after(Counted::default(), 1, Some("x"), 1, NOW).conditions,
    };
    let value = status.to_value();
    assert_eq!(SetStatus::read(Some(&value)), status);
    assert!(value.get("availableReplicas").is_none(), "nothing is left out as upstream leaves it out");
    assert_eq!(value.get("terminatingReplicas"), Some(&Value::Int(0)));
}

#[test]
fn selectors_of_both_kinds_are_read_and_an_empty_one_selects_nothing() {
    let selects = |selector: &str, label: &'static str| {
        let set = Set::read(&tree(&format!(r#"{{"spec":{{"selector":{selector}}}}}"#)));
        set.selector.is_ok_and(|selector| selector.matches(&|name| (name == "app").then_some(label)))
    };
    assert!(selects(r#"{"app":"web"}"#, "web"));
    assert!(!selects(r#"{"app":"web"}"#, "db"));
    assert!(selects(r#"{"matchLabels":{"app":"web"}}"#, "web"));
    let either = r#"{"matchExpressions":[{"key":"app","operator":"In","values":["web","db"]}]}"#;
    assert!(selects(either, "db"));
    assert!(!selects("{}", "web"));
    // A label may be called like a field of the other form.
    assert!(!selects(r#"{"matchLabels":"x"}"#, "web"));
}

#[test]
fn a_pod_has_its_template_and_its_owner() {
    let set = stored("apps", "replicasets", r#"{"name":"web-x","namespace":"d","uid":"u"}"#, "");
    let body = tree(
        r#"{"spec":{"template":{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["f/g"],"name":"ignored"},
        "spec":{"containers":[]}}}}"#,
    );
    let controller = runtime::owners::controller_ref("apps/v1", "ReplicaSet", &set);
    let pod = pod_from_template(&set, &body, controller);
    let expected = tree(
        r#"{"metadata":{"generateName":"web-x-","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["f/g"],
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-x","uid":"u","controller":true,
        "blockOwnerDeletion":true}]},"spec":{"containers":[]}}"#,
    );
    assert_eq!(pod, expected);
}

#[test]
fn templates_are_compared_without_their_hash() {
    let plain = tree(r#"{"metadata":{"labels":{"a":"b"}},"spec":{}}"#);
    let hashed = tree(r#"{"metadata":{"labels":{"a":"b","pod-template-hash":"x"}},"spec":{}}"#);
    assert_eq!(without_hash(Some(&hashed)), plain);
    let only = tree(r#"{"metadata":{"labels":{"pod-template-hash":"x"}},"spec":{}}"#);
    assert_eq!(without_hash(Some(&only)), tree(r#"{"metadata":{},"spec":{}}"#));
}
