//! Probes of pods that change, and of those that another process began with.

use std::time::Duration;

use node::container_runtime::Container;
use node::pod::Pod;
use object::Value;

use super::fake::Case;
use crate::pods::cache::RunState;

const PROBED: &str = "{containers: [{name: c, image: 'i:1', \
    readinessProbe: {periodSeconds: 600, exec: {command: [check]}}}]}";

fn probes(case: &Case) -> Vec<String> {
    case.runtime.asked().into_iter().filter(|asked| asked.contains("exec")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_not_ready_is_asked_when_its_pod_changes_and_not_when_its_status_does() {
    let mut case = Case::running(PROBED, |_| {}).await;
    let now = case.pods.shared.now();
    case.task.cache.lock().slot("c").run.as_mut().unwrap().state = RunState::Running { since: now };
    let mut tree = case.tree.clone();
    case.pods.runtime().recover(&Pod::read(&tree));
    case.until(|case| !case.events().is_empty()).await;
    assert_eq!(probes(&case), ["0s exec c"]);
    tree.map_at(&["metadata"]).set("resourceVersion", "2");
    tree.map_at(&["status"]).set("phase", "Running");
    case.pods.runtime().update(&Pod::read(&tree), 0);
    case.cluster.env().clone().sleep(Duration::from_secs(100)).await;
    assert_eq!(probes(&case).len(), 1, "it is the node itself that says so");
    tree.map_at(&["metadata"]).set("resourceVersion", "3");
    tree.map_at(&["metadata", "labels"]).set("ready", "now");
    case.pods.runtime().update(&Pod::read(&tree), 0);
    case.until(|case| probes(case).len() > 1).await;
    assert_eq!(probes(&case)[1], "100s exec c");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_is_as_ready_as_it_was() {
    let case = Case::running(PROBED, |_| {}).await;
    let mut tree = case.tree.clone();
    let status = "{startTime: '2026-01-01T00:00:00Z', phase: Running, \
        conditions: [{type: Ready, status: 'True'}], \
        containerStatuses: [{name: c, containerID: 'test://c', started: true, ready: true}]}";
    tree.make_map().set("status", runtime::parse(status).unwrap());
    tree.map_at(&["metadata"]).set("deletionTimestamp", "2026-01-01T00:00:00Z");
    tree.map_at(&["metadata"]).set("deletionGracePeriodSeconds", Value::Int(30));
    case.pods.runtime().recover(&Pod::read(&tree));
    let seen = case.pods.runtime().look(&Pod::read(&tree), 0).unwrap();
    let state = &seen.container(0).unwrap().state;
    assert!(matches!(state, Container::Running { started: true, ready: true, .. }), "{state:?}");
}

const HOOKED: &str = "{containers: [{name: c, image: 'i:1', lifecycle: {postStart: {sleep: {seconds: 20}}}, \
    livenessProbe: {periodSeconds: 1, failureThreshold: 1, exec: {command: [check]}}}]}";

const BEGUN: [&str; 2] = ["0s create c-0", "0s start c-0"];

/// A pod with a container that is being started, and has its hook.
async fn hooked() -> Case {
    let mut case = Case::set_up(HOOKED, |_| {}).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(|case| case.runtime.asked() == BEGUN).await;
    case
}

#[tokio::test(start_paused = true)]
async fn a_container_is_probed_once_its_hook_is_over() {
    let mut case = hooked().await;
    case.until(|case| case.runtime.asked().len() > 3).await;
    let asked = case.runtime.asked();
    assert_eq!(asked[2..], ["20s exec c-0", "20s stop c-0 within 30s"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_while_a_hook_runs_is_not_probed_for_life() {
    let mut case = hooked().await;
    case.pods.runtime().stop(&Pod::read(&case.tree), 40, 0);
    case.until(|case| !case.is_alive()).await;
    case.cluster.env().clone().sleep(Duration::from_secs(60)).await;
    assert_eq!(case.runtime.asked()[2..], ["0s stop c-0 within 40s"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_while_its_hook_runs_is_not_probed() {
    let mut case = hooked().await;
    case.runtime.end("c-0");
    case.pods.shared.refresh(&case.task, "c", "c-0").await;
    case.until(|case| !case.is_alive()).await;
    case.cluster.env().clone().sleep(Duration::from_secs(60)).await;
    assert_eq!(case.runtime.asked(), BEGUN);
}
