//! The end of pods: in which order, and how long containers have.

use node::pod::Pod;

use super::fake::{Case, Fake};

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
    assert_eq!(case.runtime.asked()[..2], ["0s stop main within 10s", "4s stop main within 6s"]);
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
