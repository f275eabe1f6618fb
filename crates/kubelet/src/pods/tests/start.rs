//! Starts that the runtime answers late, or not at all.

use std::sync::atomic::Ordering;
use std::time::Duration;

use node::container_runtime::Container;
use node::pod::Pod;

use super::fake::{Case, Fake};
use crate::pods::start;

const PROBED: &str = "{containers: [{name: c, image: 'i:1', \
    readinessProbe: {periodSeconds: 600, exec: {command: [check]}}}]}";

/// A pod whose container was asked for, in a runtime of our choice.
async fn started(change: impl FnOnce(&mut Fake)) -> Case {
    let case = Case::set_up(PROBED, change).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case
}

const STARTED: [&str; 2] = ["0s create c-0", "0s start c-0"];

fn is_probed(case: &Case) -> bool {
    case.runtime.asked().iter().any(|asked| asked.ends_with("exec c-0"))
}

#[tokio::test(start_paused = true)]
async fn what_was_started_is_probed_once_the_runtime_says_that_it_runs_and_holds_nothing_up() {
    let mut case = started(|runtime| runtime.unanswered = 3.into()).await;
    case.until(|case| !case.task.cache.lock().slot("c").starting).await;
    assert_eq!(case.runtime.asked(), STARTED);
    assert_eq!(case.state(), Some(Container::Created));
    case.until(Case::is_running).await;
    case.until(is_probed).await;
    assert_eq!(case.runtime.asked().len(), 3, "{:?}", case.runtime.asked());
}

#[tokio::test(start_paused = true)]
async fn what_was_started_ends_with_its_pod_though_the_runtime_never_said_how_it_is() {
    let mut case = started(|runtime| runtime.unanswered = u32::MAX.into()).await;
    case.cluster.env().sleep(Duration::from_secs(1)).await;
    assert!(case.is_alive());
    case.pods.runtime().stop(&Pod::read(&case.tree), 9, 0);
    case.cluster.env().sleep(Duration::from_secs(9)).await;
    assert!(case.is_alive(), "nobody knows that it has ended");
    case.until(|case| !case.is_alive()).await;
    let asked = case.runtime.asked();
    assert_eq!(asked[..3], ["0s create c-0", "0s start c-0", "1s stop c-0 within 9s"]);
    let (last, stops) = asked[3..].split_last().unwrap();
    assert!(stops.iter().all(|asked| asked.contains("stop c-0")), "{asked:?}");
    assert!(last.ends_with("stop sandbox s-1"), "{asked:?}");
}

fn is_failed(case: &Case) -> bool {
    matches!(case.state(), Some(Container::Failed(_)))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_beside_what_the_runtime_cannot_tell_of() {
    let fails = |times: u32| {
        move |runtime: &mut Fake| (runtime.unanswered, runtime.unstarted) = (times.into(), 1.into())
    };
    // It is asked once more first: it was made, and never started.
    let mut case = started(fails(1)).await;
    case.until(is_failed).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(Case::is_running).await;
    let again = ["0s remove c-0", "0s create c-1", "0s start c-1"];
    assert_eq!(case.runtime.asked()[..5], [&STARTED[..], &again].concat());
    // It runs by then.
    let mut case = started(fails(1)).await;
    case.until(is_failed).await;
    case.runtime.made.lock().clear();
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(|case| case.is_running() && is_probed(case)).await;
    assert_eq!(case.runtime.asked().len(), 3, "{:?}", case.runtime.asked());
    // The runtime still cannot say.
    let mut case = started(fails(3)).await;
    case.until(is_failed).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(Case::is_running).await;
    let mut asked = case.runtime.asked();
    // Once or twice.
    asked.dedup();
    let again = ["0s stop c-0 within 30s", "0s create c-1", "0s start c-1"];
    assert_eq!(asked[..5], [&STARTED[..], &again].concat());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_beside_what_the_runtime_may_still_start() {
    let mut case = started(|runtime| (runtime.unstarted, runtime.unremoved) = (1.into(), 1.into())).await;
    case.until(is_failed).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(|case| is_failed(case) && case.runtime.asked().len() > 2).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(Case::is_running).await;
    let again = ["0s remove c-0", "0s remove c-0", "0s create c-1", "0s start c-1"];
    assert_eq!(case.runtime.asked()[..6], [&STARTED[..], &again].concat());
}

#[tokio::test(start_paused = true)]
async fn what_began_late_is_neither_doubled_nor_ended() {
    let fails = |times: u32| {
        move |runtime: &mut Fake| (runtime.unanswered, runtime.unstarted) = (times.into(), 1.into())
    };
    // While the next one waits for something.
    let mut case = started(fails(0)).await;
    case.until(is_failed).await;
    let guard = case.task.uninterrupted.clone().lock_owned().await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.cluster.env().sleep(Duration::from_secs(1)).await;
    case.runtime.made.lock().clear();
    drop(guard);
    case.until(|case| case.is_running() && is_probed(case)).await;
    assert_eq!(case.runtime.asked().len(), 3, "{:?}", case.runtime.asked());
    // Before the next one comes to its turn.
    let mut case = started(fails(1)).await;
    case.until(is_failed).await;
    case.task.cache.lock().slot("c").begin_start();
    case.runtime.made.lock().clear();
    case.pods.shared.refresh(&case.task, "c", "c-0").await;
    start::start(&case.pods.shared, &case.task, "c", 0).await;
    assert!(case.is_running(), "{:?}", case.state());
    case.until(is_probed).await;
    assert_eq!(case.runtime.asked().len(), 3, "{:?}", case.runtime.asked());
}

#[tokio::test(start_paused = true)]
async fn what_never_ran_has_no_end() {
    let mut case = started(|runtime| runtime.unstarted = 1.into()).await;
    case.until(is_failed).await;
    case.runtime.gone.lock().insert("c-0");
    case.pods.shared.refresh(&case.task, "c", "c-0").await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(Case::is_running).await;
    let seen = case.pods.runtime().look(&Pod::read(&case.tree), 0).unwrap();
    let seen = seen.container(0).unwrap();
    assert_eq!((&*seen.id, &seen.last), ("test://c-1", &None));
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_waits_though_nobody_knows_whether_it_runs_and_that_ends_before_its_pod() {
    let cannot_tell = |runtime: &mut Fake| {
        runtime.unknown.lock().insert("c-0");
    };
    let never_says = |runtime: &mut Fake| runtime.unanswered = u32::MAX.into();
    let both: [fn(&mut Fake); 2] = [cannot_tell, never_says];
    for is_so in both {
        let case = started(|runtime| {
            runtime.unstarted = 1.into();
            is_so(runtime);
        });
        let mut case = case.await;
        case.until(is_failed).await;
        case.cluster.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(case.runtime.asked(), STARTED);
        assert!(!case.pods.runtime().release(case.task.uid()));
        case.until(|case| case.pods.runtime().release(case.task.uid())).await;
        let asked = case.runtime.asked();
        assert_eq!(asked[2], "1s stop c-0 within 30s");
        assert!(asked.last().unwrap().ends_with("stop sandbox s-1"), "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_run_is_asked_about_by_one() {
    let case = Case::set_up(PROBED, |runtime| runtime.unanswered = 100.into()).await;
    for id in ["c-0", "c-1", "c-0", "c-1"] {
        case.pods.shared.ask_again(&case.task, "c", id);
    }
    case.cluster.env().sleep(Duration::from_millis(250)).await;
    assert_eq!(case.runtime.unanswered.load(Ordering::Relaxed), 98);
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_start_seemed_to_fail_is_shown_as_it_is() {
    for ends in [false, true] {
        let mut case = started(|runtime| runtime.unstarted = 1.into()).await;
        case.until(is_failed).await;
        case.runtime.made.lock().clear();
        if ends {
            case.runtime.end("c-0");
        }
        case.pods.shared.refresh(&case.task, "c", "c-0").await;
        if ends {
            assert!(matches!(case.state(), Some(Container::Exited(_))), "{:?}", case.state());
            assert!(!is_probed(&case));
        } else {
            assert!(case.is_running(), "{:?}", case.state());
            case.until(is_probed).await;
        }
        assert_eq!(case.runtime.asked()[..2], STARTED);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_in_a_pod_that_was_stopped_meanwhile() {
    let case = Case::set_up(PROBED, |_| {}).await;
    let env = case.cluster.env().clone();
    let guard = case.task.uninterrupted.clone().lock_owned().await;
    let stopped = async {
        env.sleep(Duration::from_secs(1)).await;
        case.pods.runtime().stop(&Pod::read(&case.tree), 30, 0);
        drop(guard);
    };
    tokio::join!(start::start(&case.pods.shared, &case.task, "c", 0), stopped);
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(case.runtime.asked(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pull_secret_that_is_missing_is_told_and_the_container_starts_all_the_same() {
    let spec = "{imagePullSecrets: [{name: gone}, {name: lost}], containers: [{name: c, image: 'i:1'}]}";
    let mut case = Case::set_up(spec, |_| {}).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    case.until(Case::is_running).await;
    let told = "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (gone, lost); \
                attempting to pull the image may not succeed.";
    assert!(case.events().contains(&told.to_owned()));
}
