//! The end of pods: in which order, and how long containers have.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use node::container_runtime::Evicted;
use node::pod::Pod;

use super::fake::{Case, Fake};
use crate::pods::{news, start, stop};
use crate::probes::{Kill, Kind, Outcome};

const SIDECARS: &str = "{initContainers: [\
    {name: first, image: 'i:1', restartPolicy: Always, lifecycle: {preStop: {sleep: {seconds: 4}}}},\
    {name: second, image: 'i:1', restartPolicy: Always, lifecycle: {preStop: {sleep: {seconds: 3}}}}],\
  containers: [{name: main, image: 'i:1'}]}";

async fn stopped(spec: &str, grace_seconds: i64, change: impl FnOnce(&mut Fake)) -> Vec<String> {
    let mut case = Case::running(spec, change).await;
    case.pods.runtime().stop(&Pod::read(&case.tree), grace_seconds, 0);
    case.until(|case| !case.is_alive()).await;
    case.runtime.asked()
}

#[tokio::test(start_paused = true)]
async fn hooks_run_at_once_and_sidecars_end_after_the_others_from_last_to_first() {
    let asked = stopped(SIDECARS, 30, |runtime| runtime.takes = [("main", 5), ("second", 2)].into()).await;
    assert_eq!(asked, ["0s stop main within 30s", "5s stop second within 25s", "7s stop first within 23s"]);
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_has_two_seconds_when_the_others_used_up_the_grace() {
    let asked = stopped(SIDECARS, 6, |runtime| runtime.takes = [("main", 60)].into()).await;
    assert_eq!(asked[0], "0s stop main within 6s");
    assert_eq!(asked.len(), 3);
    for asked in &asked[1..] {
        assert!(asked.starts_with("6s stop") && asked.ends_with("within 2s"), "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_has_two_seconds_however_short_the_grace() {
    let plain = "{containers: [{name: main, image: 'i:1'}]}";
    for grace_seconds in [0, 1, 2] {
        assert_eq!(
            stopped(plain, grace_seconds, |_| {}).await,
            ["0s stop main within 2s"],
            "{grace_seconds}"
        );
    }
    assert_eq!(stopped(plain, 3, |_| {}).await, ["0s stop main within 3s"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_killed_has_two_seconds_and_no_hook() {
    let mut case = Case::running(SIDECARS, |_| {}).await;
    let is_first = |container: &node::pod::Container<'_>| container.name == "first";
    let pod = Pod::read(&case.tree);
    let first = pod.containers.iter().position(is_first).unwrap();
    case.pods.runtime().kill(&pod, first, 0);
    drop(pod);
    case.until(|case| !case.runtime.asked().is_empty()).await;
    assert_eq!(case.runtime.asked(), ["0s stop first within 2s"]);
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_hurries_what_still_runs() {
    let mut case = Case::running(SIDECARS, |runtime| runtime.takes = [("main", 60)].into()).await;
    let tree = case.tree.clone();
    case.pods.runtime().stop(&Pod::read(&tree), 30, 0);
    case.pods.runtime().stop(&Pod::read(&tree), 3, 0);
    case.until(|case| !case.is_alive()).await;
    let asked = case.runtime.asked();
    assert!(asked.contains(&"0s stop main within 3s".to_owned()), "{asked:?}");
    assert!(asked.iter().all(|asked| asked.starts_with("0s") || asked.starts_with("3s")), "{asked:?}");
}

const HOOKED: &str = "{terminationGracePeriodSeconds: 20, containers: \
    [{name: main, image: 'i:1', lifecycle: {preStop: {sleep: {seconds: 4}}}}]}";

#[tokio::test(start_paused = true)]
async fn a_pod_that_vanishes_has_the_time_of_its_spec_and_its_hooks() {
    let case = Case::running(HOOKED, |runtime| runtime.takes = [("main", 60)].into()).await;
    let mut gone = case;
    let uid = gone.task.uid();
    gone.pods.runtime().remove(uid);
    gone.until(|case| !case.runtime.asked().is_empty()).await;
    assert_eq!(gone.runtime.asked()[0], "4s stop main within 16s");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_vanishes_while_it_ends_has_what_is_left_of_its_time() {
    let mut case = Case::running(HOOKED, |runtime| runtime.takes = [("main", 60)].into()).await;
    let (tree, uid) = (case.tree.clone(), case.task.uid());
    case.pods.runtime().stop(&Pod::read(&tree), 10, 0);
    case.pods.runtime().remove(uid);
    case.until(|case| case.runtime.asked().len() > 1).await;
    assert_eq!(case.runtime.asked(), ["4s stop main within 6s", "10s stop sandbox s-1"]);
}

/// Its hook takes 20 of 30 seconds; after two and a half, something else is asked for. All that the runtime is asked for then.
async fn while_its_hook_runs(ask: impl FnOnce(&Case)) -> Vec<String> {
    let spec = "{containers: [{name: main, image: 'i:1', lifecycle: {preStop: {sleep: {seconds: 20}}}}]}";
    let mut case = Case::running(spec, |_| {}).await;
    case.pods.runtime().stop(&Pod::read(&case.tree), 30, 0);
    case.cluster.env().clone().sleep(Duration::from_millis(2500)).await;
    ask(&case);
    case.until(|case| !case.is_alive()).await;
    case.runtime.asked()
}

#[tokio::test(start_paused = true)]
async fn a_container_has_no_signal_while_its_hook_runs_and_there_is_time() {
    let removed = while_its_hook_runs(|case| case.pods.runtime().remove(case.task.uid())).await;
    assert_eq!(removed[0], "20s stop main within 10s");
    let less = |seconds: i64| move |case: &Case| case.pods.runtime().stop(&Pod::read(&case.tree), seconds, 0);
    assert_eq!(while_its_hook_runs(less(25)).await, ["20s stop main within 8s"]);
    assert_eq!(while_its_hook_runs(less(5)).await, ["7s stop main within 2s"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_vanishes_after_the_signal_of_its_container_sends_no_other() {
    let mut case = Case::running(HOOKED, |runtime| runtime.takes = [("main", 60)].into()).await;
    case.pods.runtime().stop(&Pod::read(&case.tree), 10, 0);
    case.cluster.env().clone().sleep(Duration::from_millis(5500)).await;
    case.pods.runtime().remove(case.task.uid());
    case.until(|case| case.runtime.asked().len() > 1).await;
    assert_eq!(case.runtime.asked(), ["4s stop main within 6s", "10s stop sandbox s-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_told_of_ends_at_once() {
    let mut case = Case::running(HOOKED, |runtime| runtime.takes = [("main", 60)].into()).await;
    case.task.cache.lock().pod = std::sync::Arc::new(object::Value::Null);
    let uid = case.task.uid();
    case.pods.runtime().remove(uid);
    case.until(|case| !case.runtime.asked().is_empty()).await;
    assert_eq!(case.runtime.asked()[0], "0s stop main within 2s");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_stops_the_sandbox_that_a_failed_call_left() {
    let leaves = |runtime: &mut Fake| *runtime.leaves.lock() = Some(cri::PodSandboxState::Ready);
    let mut case = Case::new(PLAIN, leaves).await;
    case.task.create();
    case.until(|case| !case.events().is_empty()).await;
    case.runtime.unstoppable_sandboxes.store(1, Ordering::Relaxed);
    let uid = case.task.uid();
    assert!(!case.pods.runtime().release(uid));
    case.until(|case| case.pods.runtime().release(uid)).await;
    assert_eq!(case.runtime.asked(), ["0s sandbox \"\"", "0s stop sandbox s-0", "0s stop sandbox s-0"]);
}

const PLAIN: &str = "{containers: [{name: main, image: 'i:1'}]}";

/// The container failed its probe.
fn fail_probe(case: &Case, grace_seconds: i64) {
    let kill = Kill {
        container_id: "main".to_owned(),
        probe: Kind::Liveness,
        message: "Container main failed liveness probe, will be restarted".to_owned(),
        grace_seconds: Some(grace_seconds),
    };
    let outcomes = news::of_probes(&Arc::downgrade(&case.pods.shared));
    outcomes(Outcome::Kill { uid: case.task.uid.clone(), container: "main".to_owned(), kill });
}

fn failures(case: &Case) -> usize {
    case.events().iter().filter(|event| event.starts_with("FailedKillPod: error killing pod: ")).count()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_runtime_fails_to_stop_is_tried_again_with_what_is_left_of_its_grace() {
    let spec = "{initContainers: [{name: side, image: 'i:1', restartPolicy: Always}], \
                 containers: [{name: main, image: 'i:1'}]}";
    let mut case = Case::running(spec, |runtime| runtime.unstoppable = 4.into()).await;
    case.pods.runtime().stop(&Pod::read(&case.tree), 30, 0);
    case.until(|case| !case.is_alive()).await;
    let asked = ["0s stop main within 30s"; 3].into_iter();
    let asked: Vec<_> = asked.chain(["1s stop main within 29s", "3s stop main within 27s"]).collect();
    assert_eq!(case.runtime.asked(), [asked, vec!["3s stop side within 27s"]].concat());
    assert_eq!(failures(&case), 4);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_stopped_within_its_grace_ends_with_its_sandbox() {
    let mut case = Case::running(PLAIN, |runtime| runtime.unstoppable = u32::MAX.into()).await;
    case.pods.runtime().stop(&Pod::read(&case.tree), 2, 0);
    case.until(|case| !case.is_alive()).await;
    let asked = case.runtime.asked();
    assert_eq!(asked[asked.len() - 2..], ["3s stop main within 2s", "3s stop sandbox s-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_failed_its_probe_is_ended_however_often_that_fails() {
    let mut case = Case::running(PLAIN, |runtime| runtime.unstoppable = 2.into()).await;
    fail_probe(&case, 5);
    case.until(|case| !case.is_alive()).await;
    assert_eq!(case.runtime.asked(), ["0s stop main within 5s"; 3]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_beside_a_run_that_has_not_ended() {
    let case = Case::running(PLAIN, |runtime| runtime.unstoppable = 2.into()).await;
    case.task.cache.lock().slot("main").begin_start();
    start::start(&case.pods.shared, &case.task, "main", 1).await;
    let stop = "0s stop main within 30s";
    assert_eq!(case.runtime.asked(), [stop, stop, stop, "0s create main-1", "0s start main-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_is_not_told_so_again_when_its_pod_does() {
    let spec = |hook: &str| {
        format!("{{containers: [{{name: main, image: 'i:1', lifecycle: {{preStop: {hook}}}}}]}}")
    };
    let exec = spec("{exec: {command: [bye]}}");
    let told = ["0s exec main", "0s stop main within 20s"];
    // The pod has more time than the container, then less.
    for (grace_seconds, asked) in
        [(30, told.to_vec()), (5, [&told[..], &["0s stop main within 5s"]].concat())]
    {
        let mut case = Case::running(&exec, |runtime| runtime.takes = [("main", 10)].into()).await;
        fail_probe(&case, 20);
        case.cluster.env().sleep(Duration::from_millis(1)).await;
        case.pods.runtime().stop(&Pod::read(&case.tree), grace_seconds, 0);
        case.until(|case| !case.is_alive()).await;
        assert_eq!(case.runtime.asked(), asked, "{grace_seconds}");
    }
    // Its hook takes longer than there is.
    let mut case = Case::running(&spec("{sleep: {seconds: 9}}"), |_| {}).await;
    fail_probe(&case, 20);
    case.cluster.env().sleep(Duration::from_millis(1)).await;
    case.pods.runtime().stop(&Pod::read(&case.tree), 3, 0);
    case.until(|case| !case.is_alive()).await;
    assert_eq!(case.runtime.asked(), ["3s stop main within 2s"]);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_by_itself_is_not_waited_for_until_the_next_attempt() {
    let case = Case::running(PLAIN, |runtime| runtime.unstoppable = u32::MAX.into()).await;
    let (env, shared) = (case.cluster.env().clone(), &case.pods.shared);
    let began = env.monotonic();
    let ends = async {
        env.sleep(Duration::from_secs(7)).await;
        case.runtime.end("main");
        shared.refresh(&case.task, "main", "main").await;
    };
    tokio::join!(stop::container(shared, &case.task, &case.tree, "main", "main", 30), ends);
    assert_eq!(env.monotonic().duration_since(began), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_goes_down_takes_no_pods() {
    let case = Case::new(PLAIN, |_| {}).await;
    let refusal = || {
        let refused = case.pods.runtime().refuses(&Pod::read(&case.tree))?;
        Some((refused.reason, refused.message))
    };
    assert_eq!(refusal(), None);
    case.pods.begin_shutdown();
    let (reason, message) = refusal().expect("it is refused");
    assert_eq!((&*reason, &*message), ("NodeShutdown", "Pod was rejected as the node is shutting down."));
    assert_eq!(*case.of_node.lock(), ["Shutdown: Shutdown manager detected shutdown event"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_node_ends_and_that_does_not_end_in_time_is_told() {
    for (grace_seconds, evicted, after) in [(30, true, Some(45)), (1, true, Some(10)), (1, false, None)] {
        let never = |runtime: &mut Fake| {
            (runtime.unstoppable, runtime.unstoppable_sandboxes) = (u32::MAX.into(), u32::MAX.into());
        };
        let case = Case::running(PLAIN, never).await;
        if evicted {
            let evicted = Evicted {
                reason: "Evicted".into(),
                message: "it says why".to_owned(),
                grace_seconds,
                disruption: None,
            };
            assert!(case.pods.evict(&case.task.uid, evicted));
        }
        case.pods.runtime().stop(&Pod::read(&case.tree), grace_seconds, 0);
        let is_told =
            |case: &Case| case.events().iter().any(|told| told.starts_with("ExceededGracePeriod: "));
        let mut told = None;
        // A little after the full second: what is due then has happened.
        case.cluster.env().sleep(Duration::from_millis(1)).await;
        for second in 0..60 {
            told = told.or(is_told(&case).then_some(second));
            case.cluster.env().sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(told, after);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_runtime_ended_has_ended_though_it_cannot_tell_how() {
    let is_unknown = |runtime: &mut Fake| runtime.unknown.lock().extend(["main"]);
    let mut case = Case::running(PLAIN, is_unknown).await;
    case.pods.shared.refresh(&case.task, "main", "main").await;
    let state = |case: &Case| case.pods.runtime().look(&Pod::read(&case.tree), 0).unwrap();
    let unknown = node::container_runtime::Container::Interrupted { may_run: true };
    assert_eq!(state(&case).container(0).unwrap().state, unknown);
    case.pods.runtime().stop(&Pod::read(&case.tree), 30, 0);
    case.until(|case| !case.is_alive()).await;
    assert_eq!(case.runtime.asked(), ["0s stop main within 30s"]);
}
