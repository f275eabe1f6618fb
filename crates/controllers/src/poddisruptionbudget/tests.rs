//! Rules of disruption budgets, one by one.

use crate::testing::random;
use object::Value;

use runtime::owners::Owner;

use super::members::{Members, Seen};
use super::plan::{Budget, Plan, fail_safe};

const NOW: i64 = 1_000_000_000;

fn value(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn members(pods: &[(&str, Seen)]) -> Members {
    let mut members = Members::default();
    pods.iter().for_each(|(name, pod)| members.set(name, Some(pod.clone())));
    members
}

fn plan(spec: &str, status: &str, pods: &[(&str, Seen)], expected: i64) -> Plan {
    let text = format!(r#"{{"metadata":{{"generation":3}},"spec":{{{spec}}},"status":{{{status}}}}}"#);
    Budget::read(&value(&text)).plan(&members(pods), expected, NOW)
}

fn ready(name: &str) -> (&str, Seen) {
    (name, Seen { deleting: false, ready: true, controller: None })
}

#[test]
fn amounts_are_numbers_or_percentages_rounded_up() {
    let desired = |spec: &str, expected: i64| plan(spec, "", &[], expected).desired;
    assert_eq!(desired(r#""minAvailable":2"#, 5), 2);
    assert_eq!(desired(r#""minAvailable":"30%""#, 5), 2);
    assert_eq!(desired(r#""minAvailable":"100%""#, 5), 5);
    assert_eq!(desired(r#""maxUnavailable":2"#, 5), 3);
    assert_eq!(desired(r#""maxUnavailable":9"#, 5), 0);
    assert_eq!(desired(r#""maxUnavailable":"30%""#, 10), 7);
    assert_eq!(desired(r#""maxUnavailable":"1%""#, 10), 9);
}

#[test]
fn only_ready_pods_that_are_not_deleted_are_healthy() {
    let pods = [
        ready("a"),
        ready("b"),
        ("c", Seen { deleting: false, ready: false, controller: None }),
        ("d", Seen { deleting: true, ready: true, controller: None }),
    ];
    let plan = plan(r#""minAvailable":1"#, "", &pods, 4);
    assert_eq!((plan.current, plan.desired, plan.allowed), (2, 1, 1));
}

#[test]
fn a_budget_without_pods_allows_nothing() {
    assert_eq!(plan(r#""minAvailable":0"#, "", &[], 0).allowed, 0);
    assert_eq!(plan("", "", &[ready("a")], 1).allowed, 0);
}

#[test]
fn an_evicted_pod_is_not_healthy_until_two_minutes_have_passed() {
    // 60 and 200 seconds ago.
    let status = r#""disruptedPods":{"a":"2001-09-09T01:45:40Z","b":"2001-09-09T01:43:20Z","gone":"2001-09-09T01:45:40Z"}"#;
    let plan = plan(r#""minAvailable":1"#, status, &[ready("a"), ready("b"), ready("c")], 3);
    assert_eq!(plan.current, 2);
    assert_eq!(plan.disrupted.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(plan.not_deleted, ["b"]);
    assert_eq!(plan.recheck_in, Some(61));
}

#[test]
fn the_status_is_written_once() {
    let mut budget = value(r#"{"metadata":{"generation":3},"spec":{"minAvailable":1},"status":{}}"#);
    let read = Budget::read(&budget);
    let plan = read.plan(&members(&[ready("a"), ready("b")]), 2, NOW);
    assert!(!read.is_told(&plan));
    read.tell(&plan, &mut budget, NOW);
    assert!(Budget::read(&budget).is_told(&plan));
    assert_eq!(budget.at(&["status", "observedGeneration"]), Some(&Value::Int(3)));
    let condition = kinds::conditions::find(&budget, "DisruptionAllowed").unwrap();
    assert_eq!(
        (condition.str_at(&["status"]), condition.str_at(&["reason"])),
        (Some("True"), Some("SufficientPods"))
    );
    let fewer = read.plan(&members(&[ready("a")]), 2, NOW);
    Budget::read(&budget).tell(&fewer, &mut budget, NOW);
    let condition = kinds::conditions::find(&budget, "DisruptionAllowed").unwrap();
    assert_eq!(condition.str_at(&["reason"]), Some("InsufficientPods"));
}

#[test]
fn after_a_failure_nothing_is_allowed() {
    let mut budget = value(r#"{"metadata":{"generation":3},"status":{"disruptionsAllowed":4}}"#);
    fail_safe(&mut budget, "found no controllers for pod \"a\"", NOW);
    assert_eq!(budget.at(&["status", "disruptionsAllowed"]), Some(&Value::Int(0)));
    let condition = kinds::conditions::find(&budget, "DisruptionAllowed").unwrap();
    assert_eq!(condition.str_at(&["reason"]), Some("SyncFailed"));
    assert_eq!(condition.str_at(&["message"]), Some("found no controllers for pod \"a\""));
}

#[test]
fn a_selector_is_printed_as_go_prints_it() {
    let text = r#"{"spec":{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["x","y"]}]}}}"#;
    let printed = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{\
                   LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}";
    assert_eq!(Budget::read(&value(text)).selector_text, printed);
}

#[test]
fn pods_counted_one_change_at_a_time_are_the_same_as_all_counted_at_once() {
    for seed in 0..50 {
        let mut random = random(seed);
        let (mut known, mut truth) = (Members::default(), std::collections::BTreeMap::new());
        for _ in 0..200 {
            let name = format!("p{}", random(20));
            let uid = format!("u{}", random(4));
            let (api_version, kind) = ("apps/v1".to_owned(), "ReplicaSet".to_owned());
            let owner = Owner {
                api_version,
                kind,
                name: uid.clone(),
                uid,
                controller: true,
                block_owner_deletion: true,
            };
            let seen = Seen {
                deleting: random(4) == 0,
                ready: random(2) == 0,
                controller: (random(3) > 0).then(|| std::sync::Arc::new(owner)),
            };
            let pod = (random(4) > 0).then_some(seen);
            known.set(&name, pod.clone());
            match pod {
                Some(pod) => drop(truth.insert(name, pod)),
                None => drop(truth.remove(&name)),
            }
            let all: Vec<(&str, Seen)> =
                truth.iter().map(|(name, pod)| (name.as_str(), pod.clone())).collect();
            assert_eq!(known, members(&all), "seed {seed}");
            let healthy = truth.values().filter(|pod| pod.ready && !pod.deleting).count();
            assert_eq!(known.healthy(), healthy as i64, "seed {seed}");
        }
    }
}
