use super::*;
use crate::pod::Templates;
use crate::testing::{NOW, engine, next, node, node_of, pod, rng};
use crate::{Engine, ScheduleResult};

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn queue() -> (Queue, Templates, Cluster) {
    (Queue::new(Arc::new(Config::default())), Templates::default(), Cluster::default())
}

fn queued(templates: &mut Templates, name: &str, priority: i32) -> Arc<Pod> {
    Arc::new(templates.parse(&pod(name, "", "", &format!(r#""priority":{priority}"#))))
}

#[test]
fn the_queue_is_ordered_by_priority_then_arrival() {
    let (mut queue, mut templates, cluster) = queue();
    for (at, name, priority) in [(1, "a", 0), (2, "b", 5), (3, "c", 5), (4, "d", 0)] {
        queue.set(queued(&mut templates, name, priority), &cluster, seconds(at));
    }
    let order: Vec<String> = std::iter::from_fn(|| queue.pop(&Cluster::default(), seconds(5)))
        .map(|q| q.pod.name.to_string())
        .collect();
    assert_eq!(order, ["b", "c", "a", "d"]);
}

#[test]
fn after_an_error_the_wait_doubles_to_ten_seconds() {
    let (mut queue, mut templates, cluster) = queue();
    queue.set(queued(&mut templates, "a", 0), &cluster, seconds(0));
    let mut now = seconds(0);
    for wait in [1, 2, 4, 8, 10, 10] {
        let popped = queue.pop(&Cluster::default(), now).expect("may be tried");
        queue.put_back(popped, Plugins::EMPTY, &Cluster::default(), now);
        assert!(queue.pop(&Cluster::default(), now + seconds(wait)).is_none());
        now += seconds(wait + 1);
        assert_eq!(queue.next_wake(), Some(now));
    }
}

/// Also where nothing else waits, which else ends a wait early.
#[test]
fn an_unschedulable_pod_whose_help_failed_waits_like_after_an_error() {
    let (mut queue, mut templates, cluster) = queue();
    queue.set(queued(&mut templates, "a", 0), &cluster, seconds(0));
    let mut now = seconds(0);
    for wait in [1, 2, 4, 8, 10, 10] {
        let popped = queue.pop(&cluster, now).expect("may be tried");
        // It is being tried, or waits already.
        queue.retry("a", &cluster, now);
        queue.put_back(popped, [Plugin::DynamicResources].into_iter().collect(), &cluster, now);
        queue.retry("a", &cluster, now);
        queue.retry("a", &cluster, now + seconds(1));
        assert!(queue.pop(&cluster, now + seconds(wait)).is_none());
        now += seconds(wait + 1);
        assert_eq!(queue.next_wake(), Some(now));
    }
}

#[test]
fn a_pod_an_event_may_help_skips_backoff_when_the_queue_is_empty() {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&pod("a", "", r#""cpu":"5""#, ""), NOW);
    assert!(next(&mut engine).is_err());
    assert_eq!(engine.lengths(), Lengths { unschedulable: 1, ..Lengths::default() });
    engine.set_node(&node("small", "", ""), NOW);
    assert_eq!(engine.lengths().unschedulable, 1, "it fits there no better");
    engine.set_node(&node_of("large", "", "", r#""cpu":"8","memory":"8Gi","pods":"10""#), NOW);
    assert_eq!(engine.lengths(), Lengths { backoff: 1, ..Lengths::default() });
    assert_eq!(next(&mut engine), Ok("large".to_owned()));
}

#[test]
fn a_rejected_pod_is_tried_again_after_five_minutes_without_events() {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&pod("a", "", r#""cpu":"5""#, ""), NOW);
    assert!(next(&mut engine).is_err());
    assert!(engine.next(NOW + seconds(299), &mut rng(1)).is_none());
    assert!(matches!(engine.next(NOW + seconds(340), &mut rng(1)), Some(ScheduleResult::Failed(_))));
}

#[test]
fn pods_of_an_unschedulable_class_fail_alike_until_something_changes() {
    let mut engine = engine(&[node("n1", "", "")]);
    for name in ["a", "b"] {
        engine.set_pod(&pod(name, "", r#""cpu":"3""#, ""), NOW);
        engine.set_pod(&pod(&format!("{name}2"), "", r#""cpu":"5""#, ""), NOW);
    }
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
    let [first, second, third] = [0; 3].map(|_| next(&mut engine).unwrap_err());
    assert!(first.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{first}");
    assert!(second.starts_with("0/1 nodes are available: 1 Insufficient cpu."), "{second}");
    assert_eq!(first, third);
    assert_eq!(engine.lengths().unschedulable, 3);
    engine.remove_pod("a", NOW);
    let mut placed = 0;
    while engine.lengths().backoff + engine.lengths().active > 0 {
        placed += usize::from(next(&mut engine).is_ok());
    }
    assert_eq!(placed, 1);
}

#[test]
fn a_gated_pod_waits_until_its_gates_are_removed() {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&pod("a", "", "", r#""schedulingGates":[{"name":"example.com/wait"}]"#), NOW);
    assert_eq!(engine.lengths(), Lengths { gated: 1, ..Lengths::default() });
    assert!(engine.next(NOW, &mut rng(1)).is_none());
    engine.set_pod(&pod("a", "", "", ""), NOW);
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
}

/// A pod rejected on one node, and whether an event moves it.
fn moved_by(waits: object::Value, before: &[object::Value], event: impl Fn(&mut Engine)) -> bool {
    let mut engine = engine(before);
    engine.set_pod(&waits, NOW);
    assert!(next(&mut engine).is_err(), "it has no place at first");
    event(&mut engine);
    engine.lengths().unschedulable == 0
}

#[test]
fn each_plugin_is_asked_about_the_events_that_may_help_its_pods() {
    let plain = || pod("a", "", "", "");
    let tainted = r#""taints":[{"key":"k","effect":"NoSchedule"}]"#;
    let nodes = [node("n1", "", tainted)];
    assert!(moved_by(plain(), &nodes, |e| e.set_node(&node("n1", "", ""), NOW)));
    assert!(!moved_by(plain(), &nodes, |e| e.set_node(&node("n1", r#""x":"y""#, tainted), NOW)));
    let tolerant = pod("a", "", "", r#""tolerations":[{"operator":"Exists"}]"#);
    assert!(moved_by(plain(), &nodes, |e| drop(e.set_pod(&tolerant, NOW))));
    let noted = || {
        let mut tree = plain();
        tree.map_at(&["metadata", "annotations"]).set("x", "y");
        tree
    };
    assert!(!moved_by(plain(), &nodes, |e| drop(e.set_pod(&noted(), NOW))));

    let cordoned = [node("n1", "", r#""unschedulable":true"#)];
    assert!(moved_by(plain(), &cordoned, |e| e.set_node(&node("n1", "", ""), NOW)));

    let selects = || pod("a", "", "", r#""nodeSelector":{"disk":"ssd"}"#);
    let bare = [node("n1", "", "")];
    assert!(moved_by(selects(), &bare, |e| e.set_node(&node("n1", r#""disk":"ssd""#, ""), NOW)));
    assert!(!moved_by(selects(), &bare, |e| e.set_node(&node("n1", r#""disk":"hdd""#, ""), NOW)));
    assert!(!moved_by(selects(), &bare, |e| e.set_node(&node("n2", "", ""), NOW)));
}

#[test]
fn a_deleted_pod_wakes_those_it_kept_out() {
    let on_node =
        |name: &str, labels: &str, requests: &str| pod(name, labels, requests, r#""nodeName":"n1""#);
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&on_node("big", "", r#""cpu":"4""#), NOW);
    engine.set_pod(&on_node("web", r#""app":"web""#, ""), NOW);
    engine.set_pod(&pod("a", "", r#""cpu":"1""#, ""), NOW);
    let anti = r#""affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
        {"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"web"}}}]}}"#;
    engine.set_pod(&pod("b", "", "", anti), NOW);
    assert!(next(&mut engine).is_err() && next(&mut engine).is_err());
    assert_eq!(engine.lengths().unschedulable, 2);
    engine.remove_pod("big", NOW);
    assert_eq!(engine.lengths().unschedulable, 1, "only the one that needed room");
    engine.remove_pod("web", NOW);
    assert_eq!(engine.lengths().unschedulable, 0);
}
