//! What people see of a controller.

use std::time::Duration;

use crate::controller::tests::rig;
use crate::testing::{map, state};
use crate::{Failure, Next};

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_labels_and_buckets_people_know() {
    let rig = rig(
        vec![state(vec![map("a", 1), map("b", 1), map("c", 1)], 1)],
        |c| c.max_retries(Some(1)),
        |turn| match turn.key.name() {
            "a" => Ok(Next::Done),
            "b" => Ok(Next::After(Duration::from_secs(3600))),
            _ => Err(Failure::Other("no".to_owned())),
        },
    );
    rig.run(60).await;
    let mut text = String::new();
    rig.board.render_metrics(&mut text);
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
async fn the_board_shows_causes_plans_and_results() {
    let rig = rig(vec![state(vec![map("a", 7)], 7)], |c| c, |_| Ok(Next::Done));
    rig.run(1).await;
    let shown = rig.board.to_value(&|revision| Some(format!("writer of {revision}")));
    let controller = &shown.get("controllers").unwrap().as_list().unwrap()[0];
    let turn = &controller.get("recent").unwrap().as_list().unwrap()[0];
    let cause = &turn.get("causes").unwrap().as_list().unwrap()[0];
    let told = (turn.str_at(&["key"]), turn.str_at(&["plan"]), turn.str_at(&["result"]));
    assert_eq!(told, (Some("default/a"), Some("noted"), Some("done")));
    assert_eq!(cause.str_at(&["object"]), Some("default/a"));
    assert_eq!(cause.str_at(&["writer"]), Some("writer of 7"));
}
