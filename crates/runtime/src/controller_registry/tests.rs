//! What people see of a controller.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use object::Value;

use crate::controller::tests::rig;
use crate::queue::{Limits, NORMAL};
use crate::testing::{map, state};
use crate::{Action, ControllerRegistry, Counters, Failure, Histograms, Key, WorkQueue};

#[tokio::test(start_paused = true)]
async fn metrics_have_client_gos_names_labels_and_buckets() {
    let rig = rig(
        vec![state(vec![map("a", 1), map("b", 1), map("c", 1)], 1)],
        |c| c.max_retries(Some(1)),
        |request| match request.key.name() {
            "a" => Ok(Action::AwaitChange),
            "b" => Ok(Action::Requeue(Duration::from_secs(3600))),
            _ => Err(Failure::Other("no".to_owned())),
        },
    );
    rig.run(60).await;
    let mut text = String::new();
    rig.controllers.render_metrics(&mut text);
    for wanted in [
        "# TYPE workqueue_depth gauge",
        "workqueue_depth{name=\"noting\"} 0",
        "workqueue_adds_total{name=\"noting\"} 4",
        "workqueue_retries_total{name=\"noting\"} 1",
        "# TYPE workqueue_queue_duration_seconds histogram",
        "workqueue_queue_duration_seconds_bucket{name=\"noting\",le=\"1e-08\"} 4",
        "workqueue_queue_duration_seconds_bucket{name=\"noting\",le=\"10\"} 4",
        "workqueue_queue_duration_seconds_bucket{name=\"noting\",le=\"+Inf\"} 4",
        "workqueue_work_duration_seconds_count{name=\"noting\"} 4",
        "workqueue_unfinished_work_seconds{name=\"noting\"} 0",
        "workqueue_longest_running_processor_seconds{name=\"noting\"} 0",
        "controller_runtime_reconcile_total{controller=\"noting\",result=\"success\"} 1",
        "controller_runtime_reconcile_total{controller=\"noting\",result=\"requeue_after\"} 1",
        "controller_runtime_reconcile_total{controller=\"noting\",result=\"error\"} 2",
        "controller_runtime_reconcile_errors_total{controller=\"noting\"} 2",
        "controller_runtime_reconcile_panics_total{controller=\"noting\"} 0",
        "controller_runtime_reconcile_time_seconds_bucket{controller=\"noting\",le=\"0.005\"} 4",
        "controller_runtime_reconcile_time_seconds_bucket{controller=\"noting\",le=\"60\"} 4",
        "controller_runtime_active_workers{controller=\"noting\"} 0",
        "controller_runtime_max_concurrent_reconciles{controller=\"noting\"} 1",
    ] {
        assert!(text.lines().any(|line| line == wanted), "no {wanted} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn debug_shows_causes_plans_and_results() {
    let rig = rig(vec![state(vec![map("a", 7)], 7)], |c| c, |_| Ok(Action::AwaitChange));
    rig.run(1).await;
    let shown = rig.controllers.to_value(&|revision| Some(format!("writer of {revision}")));
    let controller = &shown.get("controllers").unwrap().as_list().unwrap()[0];
    let request = &controller.get("recent").unwrap().as_list().unwrap()[0];
    let cause = &request.get("causes").unwrap().as_list().unwrap()[0];
    let told = (request.str_at(&["key"]), request.str_at(&["plan"]), request.str_at(&["result"]));
    assert_eq!(told, (Some("default/a"), Some("noted"), Some("done")));
    assert_eq!(cause.str_at(&["object"]), Some("default/a"));
    assert_eq!(cause.str_at(&["writer"]), Some("writer of 7"));
}

/// What people see of the only controller there is.
fn shown(controllers: &ControllerRegistry) -> Value {
    let all = controllers.to_value(&|_| None);
    all.get("controllers").unwrap().as_list().unwrap()[0].clone()
}

/// Of its queue: waiting, delayed, processing, retries.
fn queued(controller: &Value) -> [i64; 4] {
    ["waiting", "delayed", "processing", "retries"].map(|figure| number(controller, &["queue", figure]))
}

fn number(tree: &Value, path: &[&str]) -> i64 {
    match tree.at(path) {
        Some(Value::Int(number)) => *number,
        other => panic!("{path:?} is {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn debug_shows_workers_retries_and_failing_keys() {
    let rig = rig(
        vec![state(vec![map("bad", 1), map("good", 1)], 1)],
        |c| c.workers(3).max_retries(None),
        |request| match request.key.name() {
            "good" => Ok(Action::AwaitChange),
            _ => Err(Failure::Other("no".to_owned())),
        },
    );
    // It fails at 0, 5, 15, 35, 75, 155, 315 and 635 milliseconds: the wait doubles.
    rig.run(1).await;
    let controller = shown(&rig.controllers);
    assert_eq!(queued(&controller), [0, 1, 0, 8]);
    assert_eq!(number(&controller, &["workers"]), 3);
    assert_eq!((number(&controller, &["active"]), number(&controller, &["errors"])), (0, 8));
    let failing = controller.at(&["queue", "failing"]).unwrap().as_list().unwrap();
    assert_eq!(failing.len(), 1);
    assert_eq!((failing[0].str_at(&["key"]), number(&failing[0], &["failures"])), (Some("default/bad"), 8));
}

#[tokio::test(start_paused = true)]
async fn debug_shows_where_keys_are_in_the_queue() {
    let queue = Arc::new(WorkQueue::new(Env::simulated(1), Limits::default()));
    let controllers = ControllerRegistry::default();
    let entry = controllers.register("noting", 1, queue.clone());
    for name in ["a", "b", "c"] {
        queue.add(Key::new("default", name), NORMAL, None);
    }
    assert_eq!(queued(&shown(&controllers)), [3, 0, 0, 0]);

    let taken = queue.get().await.unwrap();
    entry.begun(&taken.key, &taken.causes);
    assert_eq!(queued(&shown(&controllers)), [2, 0, 1, 0]);
    assert_eq!(number(&shown(&controllers), &["active"]), 1);

    entry.ended(&taken.key, &Err(Failure::Other("no".to_owned())), Duration::ZERO);
    queue.retry(taken.key.clone());
    queue.done(&taken.key);
    assert_eq!(queued(&shown(&controllers)), [2, 1, 0, 1]);
    assert_eq!(number(&shown(&controllers), &["active"]), 0);
}

#[tokio::test(start_paused = true)]
async fn reconciles_that_did_something_are_kept_longer() {
    let controllers = ControllerRegistry::default();
    let queue = Arc::new(WorkQueue::new(Env::simulated(1), Limits::default()));
    let entry = controllers.register("busy", 1, queue);
    let (acts, idles) = (Key::new("ns", "acts"), Key::new("ns", "idles"));
    for number in 0..40 {
        let key = if number % 8 == 0 { &acts } else { &idles };
        entry.begun(key, &Default::default());
        entry.planned(
            key,
            if number % 8 == 0 { "create 1".to_owned() } else { "nothing: as it should be".to_owned() },
        );
        entry.ended(key, &Ok(Action::AwaitChange), Duration::ZERO);
    }
    let shown = controllers.to_value(&|_| None);
    let recent =
        shown.get("controllers").unwrap().as_list().unwrap()[0].get("recent").unwrap().as_list().unwrap();
    let plans: Vec<&str> = recent.iter().filter_map(|request| request.str_at(&["plan"])).collect();
    assert_eq!(plans.iter().filter(|plan| **plan == "create 1").count(), 5, "{plans:?}");
    assert!(plans[0].starts_with("nothing"), "newest first: {plans:?}");
}

#[test]
fn metrics_of_a_controller_s_own_follow_the_common_ones() {
    let controllers = ControllerRegistry::default();
    let counters = Arc::new(Counters::new("things_total", "Things"));
    let seconds = Arc::new(Histograms::new("things_seconds", "How long", &[1.0]));
    let (counts, times) = (counters.clone(), seconds.clone());
    controllers.add_metrics("other", |out| out.push_str("replaced\n"));
    let render = move |out: &mut String| {
        counts.render(out);
        times.render(out);
    };
    controllers.add_metrics("other", render);
    counters.add(&[("kind", "a \"b\" \\")], 2);
    counters.add(&[("kind", "c"), ("of", "d")], 1);
    seconds.observe(&[("kind", "c")], 0.5);
    let mut text = String::new();
    controllers.render_metrics(&mut text);
    let own = &text[text.find("# HELP things_total").unwrap()..];
    let lines: Vec<&str> = own.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            r#"things_total{kind="a \"b\" \\"} 2"#,
            r#"things_total{kind="c",of="d"} 1"#,
            r#"things_seconds_bucket{kind="c",le="1"} 1"#,
            r#"things_seconds_bucket{kind="c",le="+Inf"} 1"#,
            r#"things_seconds_sum{kind="c"} 0.5"#,
            r#"things_seconds_count{kind="c"} 1"#,
        ]
    );
    assert!(!text.contains("replaced"));
    // Names that users choose do not fill the memory.
    (0..5000).for_each(|n| counters.add(&[("kind", &n.to_string())], 1));
    let mut text = String::new();
    counters.render(&mut text);
    assert_eq!(text.lines().count(), 2 + 1000);
    counters.add(&[("kind", "c"), ("of", "d")], 1);
    assert_eq!(counters.get(&[("kind", "c"), ("of", "d")]), 2);
}
