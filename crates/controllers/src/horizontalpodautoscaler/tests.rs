//! The rules, one by one; numbers are those of upstream's own tests where it has some.

use std::collections::BTreeMap;

use object::Value;

use super::behavior::{Bounds, History, limit};
use super::metrics::{duration_millis, selector_text, show_selector};
use super::plan::{Parameters, Samples, Scale, Stage, World, stage};
use super::pods::Pod;
use super::replicas::{PodMetric, PodMetrics, Scene, Startup, Tolerances};
use super::spec::{Behavior, Policy, Rules, Select, Spec};
use super::status::Status;

const STARTUP: Startup = Startup { cpu_initialization_millis: 300_000, initial_readiness_millis: 30_000 };
/// Long after everything started.
const NOW: i64 = 10_000_000;
const TEN: Tolerances = Tolerances { down: 0.1, up: 0.1 };

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Is {
    Ready,
    Unready,
    Pending,
    Failed,
    Going,
}

fn pod(number: usize, is: Is, milli_cpu: i64) -> Pod {
    let phase = match is {
        Is::Pending => "Pending",
        Is::Failed => "Failed",
        _ => "Running",
    };
    let going = if is == Is::Going { r#","deletionTimestamp":"2020-01-01T00:00:00Z""# } else { "" };
    let ready = if matches!(is, Is::Ready | Is::Going) { "True" } else { "False" };
    Pod::read(json(&format!(
        r#"{{"metadata":{{"name":"p{number}"{going}}},
        "spec":{{"containers":[{{"name":"app","resources":{{"requests":{{"cpu":"{milli_cpu}m","memory":"100Mi"}}}}}}]}},
        "status":{{"phase":"{phase}","startTime":"1970-01-01T00:00:00Z",
            "conditions":[{{"type":"Ready","status":"{ready}","lastTransitionTime":"1970-01-01T00:00:01Z"}}]}}}}"#
    )))
}

fn pods(states: &[Is]) -> Vec<Pod> {
    states.iter().enumerate().map(|(number, is)| pod(number, *is, 1000)).collect()
}

/// Metrics of the first pods.
fn used(values: &[i64]) -> PodMetrics {
    let metric = |value| PodMetric { at_millis: NOW, window_millis: 60_000, value };
    values.iter().enumerate().map(|(number, value)| (format!("p{number}"), metric(*value))).collect()
}

fn scene<'a>(pods: &'a [Pod], current: i32) -> Scene<'a> {
    Scene { pods, current, tolerances: TEN, startup: STARTUP, now_millis: NOW }
}

#[test]
fn utilization_asks_for_replicas_in_proportion() {
    let three = pods(&[Is::Ready; 3]);
    let ask = |values: &[i64], percent| {
        let proposal = scene(&three, 3).utilization("cpu", None, used(values), percent).unwrap();
        (proposal.replicas, proposal.utilization, proposal.value)
    };
    assert_eq!(ask(&[300, 500, 700], 30), (5, 50, 500), "50 % of 30 %, for three pods");
    assert_eq!(ask(&[300, 500, 700], 50), (3, 50, 500));
    assert_eq!(ask(&[1000, 1020, 1010], 100), (3, 101, 1010), "within the tolerance");
    assert_eq!(ask(&[100, 100, 100], 50), (1, 10, 100));
    assert_eq!(ask(&[-500, -500, -500], 50), (-3, -50, -500), "negative: bounded later");
    assert_eq!(ask(&[i64::MAX, i64::MAX, i64::MAX], 1).0, i32::MAX, "too much: bounded later");
}

#[test]
fn pods_without_metrics_never_make_a_change_larger() {
    let ask = |states: &[Is], values: &[i64], percent| {
        let pods = pods(states);
        scene(&pods, states.len() as i32).utilization("cpu", None, used(values), percent).unwrap().replicas
    };
    use Is::{Failed, Going, Pending, Ready, Unready};
    // Up: those without count as idle.
    assert_eq!(ask(&[Ready, Ready, Ready, Ready], &[1000, 1000], 50), 4, "2 of 4 at 200 %: none more");
    assert_eq!(ask(&[Ready, Ready, Ready], &[1000, 1000], 30), 7);
    // Down: those without count as busy.
    assert_eq!(ask(&[Ready, Ready, Ready, Ready], &[100, 100, 100], 50), 3, "0.65 of 4");
    assert_eq!(ask(&[Ready, Ready], &[100], 100), 2, "would not shrink by itself");
    // Unready pods count as idle when the others are busy, and not at all otherwise.
    assert_eq!(
        ask(&[Ready, Ready, Pending], &[400, 500, 700], 30),
        3,
        "45 % of 30 %, but with an idle one 30 %"
    );
    assert_eq!(ask(&[Ready, Unready, Unready], &[400, 500, 700], 30), 3);
    assert_eq!(ask(&[Ready, Ready, Failed], &[500, 700], 50), 3, "failed ones do not count");
    assert_eq!(ask(&[Ready, Ready, Going], &[500, 700, 900], 50), 3, "nor do those that go");
}

#[test]
fn without_usable_metrics_it_says_why() {
    let refused = |states: &[Is], values: &[i64]| {
        let pods = pods(states);
        scene(&pods, 3).utilization("cpu", None, used(values), 50).unwrap_err()
    };
    assert_eq!(refused(&[], &[1]), "no pods returned by selector while calculating replica count");
    let unready = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(refused(&[Is::Pending, Is::Pending], &[1, 1]), unready);
    assert_eq!(refused(&[Is::Ready], &[]), unready);
    let two = pods(&[Is::Ready; 2]);
    let unknown: PodMetrics = [("other".to_owned(), PodMetric::default())].into();
    assert_eq!(
        scene(&two, 2).utilization("cpu", None, unknown, 50).unwrap_err(),
        "no metrics returned matched known pods"
    );
    let ask = |resource, container| scene(&two, 2).utilization(resource, container, used(&[1, 1]), 50);
    assert_eq!(
        ask("nvidia.com/gpu", None).unwrap_err(),
        "missing request for nvidia.com/gpu in container app of Pod p0"
    );
    assert_eq!(ask("cpu", Some("other")).unwrap_err(), "container other not found in Pod p0");
    assert!(ask("cpu", Some("app")).is_ok());
}

#[test]
fn cpu_of_a_pod_that_starts_counts_when_it_is_ready_for_a_window() {
    let early = |status: &str, changed: &str, metric_at: i64, now: i64| {
        let pod = Pod::read(json(&format!(
            r#"{{"metadata":{{"name":"p0"}},"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"1"}}}}}}]}},
            "status":{{"phase":"Running","startTime":"1970-01-01T00:00:00Z",
            "conditions":[{{"type":"Ready","status":"{status}","lastTransitionTime":"{changed}"}}]}}}}"#
        )));
        let metrics: PodMetrics =
            [("p0".to_owned(), PodMetric { at_millis: metric_at, window_millis: 60_000, value: 900 })].into();
        let pods = [pod];
        let scene = Scene { pods: &pods, current: 1, tolerances: TEN, startup: STARTUP, now_millis: now };
        scene.utilization("cpu", None, metrics, 50).is_ok()
    };
    assert!(!early("False", "1970-01-01T00:00:10Z", 90_000, 100_000));
    assert!(!early("True", "1970-01-01T00:00:40Z", 90_000, 100_000), "less than a window since it is ready");
    assert!(early("True", "1970-01-01T00:00:10Z", 90_000, 100_000));
    // Later: it counts unless it was never ready.
    assert!(!early("False", "1970-01-01T00:00:10Z", 400_000, 400_000));
    assert!(early("False", "1970-01-01T00:05:00Z", 400_000, 400_000), "it was ready once");
}

#[test]
fn averages_and_totals() {
    let four = pods(&[Is::Ready, Is::Ready, Is::Ready, Is::Unready]);
    let ask = |values: &[i64], target| scene(&four, 4).average("", used(values), target).unwrap();
    assert_eq!(ask(&[20_000, 10_000, 30_000, 20_000], 10_000).replicas, 8, "of no resource all count");
    assert_eq!(ask(&[20_000, 10_000, 30_000, 20_000], 20_000).replicas, 4);
    assert_eq!(ask(&[1000, 1000], 5000).replicas, 3, "the missing ones count as on target");
    let total = |value, target| scene(&four, 4).total(value, target).unwrap().replicas;
    assert_eq!(total(20_000, 10_000), 6, "of three ready ones");
    assert_eq!(total(10_500, 10_000), 4, "within the tolerance");
    assert_eq!(scene(&[], 0).total(20_000, 10_000).unwrap().replicas, 2, "from zero");
    assert!(scene(&[], 3).total(20_000, 10_000).unwrap_err().contains("unable to calculate ready pods"));
    let each = |value, target, pods| scene(&four, 4).per_pod(value, target, pods);
    assert_eq!((each(50_000, 10_000, 4).replicas, each(50_000, 10_000, 4).value), (5, 12_500));
    assert_eq!(each(40_000, 10_000, 4).replicas, 4);
    assert_eq!(each(0, 10_000, 0).value, 0, "no pods, no average");
}

#[test]
fn requests_of_the_whole_pod_come_first() {
    let read = |spec: &str| Pod::read(json(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#)));
    let sidecar = read(
        r#"{"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"100m"}}},
            {"name":"i","resources":{"requests":{"cpu":"5"}}}],
        "containers":[{"name":"c","resources":{"requests":{"cpu":"200m"}}}]}"#,
    );
    assert_eq!(sidecar.request("cpu", None), Ok(300), "sidecars run beside, init containers do not");
    assert_eq!(sidecar.request("cpu", Some("s")), Ok(100));
    let whole = read(
        r#"{"resources":{"requests":{"cpu":"1"}},"overhead":{"cpu":"50m","memory":"1"},
        "containers":[{"name":"c","resources":{"requests":{"memory":"10"}}}]}"#,
    );
    assert_eq!(whole.request("cpu", None), Ok(1050));
    assert_eq!(whole.request("memory", None), Ok(11_000), "what it does not say is its containers'");
    assert_eq!(
        whole.request("cpu", Some("c")).unwrap_err(),
        "missing request for cpu in container c of Pod p"
    );
}

fn rules(select: Select, policies: &[(bool, i32, i64)], window: Option<i64>) -> Rules {
    let policy = |&(is_percent, value, period_seconds)| Policy { is_percent, value, period_seconds };
    Rules { window_seconds: window, select, policies: policies.iter().map(policy).collect(), tolerance: None }
}

#[test]
fn without_a_behavior_a_target_at_most_doubles() {
    let at = |desired, current| {
        let limited = limit(desired, Bounds { current, min: 2, max: 100 });
        (limited.replicas, limited.reason)
    };
    assert_eq!(at(50, 10), (20, "ScaleUpLimit"));
    assert_eq!(at(50, 1), (4, "ScaleUpLimit"));
    assert_eq!(at(500, 60), (100, "TooManyReplicas"));
    assert_eq!(at(1, 10), (2, "TooFewReplicas"));
    assert_eq!(at(15, 10), (15, "DesiredWithinRange"));
    assert_eq!(at(-5, 10), (2, "TooFewReplicas"));
}

#[test]
fn a_target_shrinks_to_the_most_that_was_asked_for_lately() {
    let mut history = History::default();
    history.begin(10, 0);
    assert_eq!(history.stabilize(4, 300_000, 1000), 10);
    assert_eq!(history.stabilize(6, 300_000, 200_000), 10);
    assert_eq!(history.stabilize(3, 300_000, 300_001), 6, "the first is too old");
    assert_eq!(history.stabilize(9, 300_000, 300_002), 9, "up at once");
    assert_eq!(history.stabilize(1, 300_000, 900_000), 1);
}

#[test]
fn policies_bound_the_change_of_a_period() {
    let behavior = Behavior {
        up: rules(Select::Max, &[(false, 4, 60), (true, 100, 60)], Some(0)),
        down: rules(Select::Min, &[(false, 1, 60), (true, 50, 120)], Some(0)),
    };
    let mut history = History::default();
    let bounds = |current| Bounds { current, min: 1, max: 100 };
    let at = |history: &History, desired, current, now| {
        let limited = history.limit_by(desired, bounds(current), &behavior, now);
        (limited.replicas, limited.reason)
    };
    assert_eq!(at(&history, 50, 3, 0), (7, "ScaleUpLimit"), "4 more than 3 are more than twice 3");
    history.scaled(3, 7, Some(&behavior), 0);
    assert_eq!(at(&history, 50, 7, 30_000), (7, "ScaleUpLimit"), "the minute is used up");
    assert_eq!(at(&history, 50, 7, 60_001), (14, "ScaleUpLimit"));
    assert_eq!(at(&history, 200, 99, 60_001), (100, "TooManyReplicas"));
    assert_eq!(at(&history, 1, 7, 60_001), (6, "ScaleDownLimit"), "the smaller change of both policies");
    history.scaled(7, 6, Some(&behavior), 60_001);
    assert_eq!(at(&history, 1, 6, 90_000), (6, "ScaleDownLimit"));
    let disabled = Behavior { down: rules(Select::Disabled, &[], Some(0)), ..behavior.clone() };
    assert_eq!(history.limit_by(1, bounds(6), &disabled, 900_000).replicas, 6);
    let half = Behavior { down: rules(Select::Max, &[(true, 50, 60)], Some(0)), ..behavior };
    assert_eq!(history.limit_by(1, bounds(7), &half, 900_000).replicas, 3, "rounded down");
}

#[test]
fn windows_stabilise_both_ways() {
    let behavior = Behavior {
        up: rules(Select::Max, &[(true, 100, 15)], Some(60)),
        down: rules(Select::Max, &[(true, 100, 15)], None),
    };
    let mut history = History::default();
    history.begin(5, 0);
    let mut at = |desired, current, now| {
        let stable = history.stabilize_by(desired, current, &behavior, 300_000, now);
        (stable.replicas, stable.reason)
    };
    assert_eq!(at(9, 5, 30_000), (5, "ScaleUpStabilized"));
    assert_eq!(at(8, 5, 61_000), (8, "ScaleUpStabilized"), "the least of the last minute");
    assert_eq!(at(2, 8, 100_000), (8, "ScaleDownStabilized"));
    assert_eq!(at(2, 8, 370_000), (2, "ScaleDownStabilized"));
}

fn hpa(more: &str) -> Spec {
    Spec::read(&json(&format!(
        r#"{{"spec":{{"scaleTargetRef":{{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},"minReplicas":2,"maxReplicas":10{more}}}}}"#
    )))
}

const CPU: &str = r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}"#;
const QUEUE: &str = r#"{"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"30"}}}"#;

fn parameters() -> Parameters {
    Parameters { tolerance: 0.1, downscale_window_millis: 300_000, startup: STARTUP }
}

#[test]
fn bounds_come_before_metrics_and_zero_is_left_alone() {
    let spec = hpa("");
    assert_eq!(stage(&spec, 0), Stage::Disabled);
    assert!(matches!(stage(&spec, 1), Stage::Bound { to: 2, .. }));
    assert!(matches!(stage(&spec, 11), Stage::Bound { to: 10, .. }));
    assert_eq!(stage(&spec, 2), Stage::Measure);
    assert_eq!(Spec::read(&json(r#"{"spec":{"maxReplicas":3}}"#)).min, 1);
}

#[test]
fn the_most_any_metric_asks_for_counts_and_a_missing_one_keeps_it_from_shrinking() {
    let spec = hpa(&format!(r#","metrics":[{CPU},{QUEUE}]"#));
    let pods = pods(&[Is::Ready; 3]);
    let decide = |samples: Vec<Result<Samples, String>>| {
        let parameters = parameters();
        let world = World {
            spec: &spec,
            scale: Scale { spec: 3, status: 3 },
            pods: &pods,
            parameters: &parameters,
            now_millis: NOW,
            ticks_millis: 1_000_000,
        };
        let (mut history, mut status) = (History::default(), Status::default());
        let decision = world.decide(samples, &mut history, &mut status);
        (decision, status)
    };
    let cpu = |values: &[i64]| Ok(Samples::Pods(used(values)));
    let queue = |values: &[i64]| Ok(Samples::External(values.to_vec()));
    let no = || Err("no metrics returned from external metrics API".to_owned());

    let (both, status) = decide(vec![cpu(&[600, 600, 600]), queue(&[100_000, 80_000])]);
    assert_eq!((both.desired, both.error, both.notes.len()), (Some(6), None, 0));
    assert_eq!(both.reason, "external metric queue(nil) above target");
    assert_eq!(both.measured[0].at(&["resource", "current", "averageUtilization"]), Some(&Value::Int(60)));
    assert_eq!(both.measured[0].str_at(&["resource", "current", "averageValue"]), Some("600m"));
    assert_eq!(both.measured[1].str_at(&["external", "current", "averageValue"]), Some("60"));
    let said: BTreeMap<&str, (&str, &str)> = status
        .conditions
        .iter()
        .map(|condition| (&*condition.kind, (&*condition.status, &*condition.reason)))
        .collect();
    assert_eq!(said["ScalingActive"], ("True", "ValidMetricFound"));
    assert_eq!(said["AbleToScale"], ("True", "ReadyForNewScale"));
    assert_eq!(said["ScalingLimited"], ("False", "DesiredWithinRange"));

    let (grows, _) = decide(vec![cpu(&[900, 900, 900]), no()]);
    assert_eq!(grows.desired, Some(6));
    assert_eq!(grows.measured[1], json(r#"{"type":""}"#));
    assert_eq!(
        grows.error.as_deref(),
        Some(
            "invalid metrics (1 invalid out of 2), first error is: failed to get queue external metric value: failed to get queue external metric: no metrics returned from external metrics API"
        )
    );
    let (stays, status) = decide(vec![cpu(&[100, 100, 100]), no()]);
    assert_eq!(stays.desired, None);
    assert_eq!(stays.notes[0].reason, "FailedGetExternalMetric");
    assert_eq!(stays.notes[0].message, "no metrics returned from external metrics API");
    let active = status.conditions.iter().find(|condition| condition.kind == "ScalingActive").unwrap();
    assert_eq!((&*active.status, &*active.reason), ("False", "FailedGetExternalMetric"));
    assert_eq!(
        active.message,
        "the HPA was unable to compute the replica count: no metrics returned from external metrics API"
    );
    let (none, _) = decide(vec![Err("x".to_owned()), no()]);
    assert_eq!((none.desired, none.notes.len()), (None, 2));
}

#[test]
fn tolerances_can_be_an_autoscalers_own() {
    let behavior = r#""behavior":{"scaleUp":{"tolerance":"0.5","policies":[{"type":"Percent","value":100,"periodSeconds":15}]},
        "scaleDown":{"policies":[{"type":"Percent","value":100,"periodSeconds":15}]}}"#;
    let spec = hpa(&format!(r#","metrics":[{CPU}],{behavior}"#));
    assert_eq!(spec.behavior.as_ref().and_then(|b| b.up.tolerance), Some(0.5));
    let (pods, parameters) = (pods(&[Is::Ready; 3]), parameters());
    let decide = |values: &[i64]| {
        let world = World {
            spec: &spec,
            scale: Scale { spec: 3, status: 3 },
            pods: &pods,
            parameters: &parameters,
            now_millis: NOW,
            ticks_millis: 1_000_000,
        };
        let samples = vec![Ok(Samples::Pods(used(values)))];
        world.decide(samples, &mut History::default(), &mut Status::default()).desired
    };
    assert_eq!(decide(&[700, 700, 700]), Some(3), "140 % of the target");
    assert_eq!(decide(&[800, 800, 800]), Some(5));
    assert_eq!(decide(&[420, 420, 420]), Some(3), "84 %, but rounded up");
    assert_eq!(decide(&[300, 300, 300]), Some(2));
}

#[test]
fn selectors_and_durations_are_written_as_go_does() {
    let selector = json(
        r#"{"matchLabels":{"b":"x","a":"y"},"matchExpressions":[{"key":"c","operator":"In","values":["2","1"]},{"key":"d","operator":"DoesNotExist"}]}"#,
    );
    assert_eq!(selector_text(Some(&selector)), "a=y,b=x,c in (1,2),!d");
    assert_eq!(show_selector(None), "nil");
    let plain = json(r#"{"matchLabels":{"queue":"work"}}"#);
    assert_eq!(
        show_selector(Some(&plain)),
        "&LabelSelector{MatchLabels:map[string]string{queue: work,},MatchExpressions:[]LabelSelectorRequirement{},}"
    );
    for (text, millis) in
        [("15s", 15_000), ("1m0s", 60_000), ("10.05s", 10_050), ("1h2m3ms", 3_720_003), ("0s", 0)]
    {
        assert_eq!(duration_millis(text), Some(millis), "{text}");
    }
    for text in ["", "s", "5", "5x"] {
        assert_eq!(duration_millis(text), None, "{text:?}");
    }
}
