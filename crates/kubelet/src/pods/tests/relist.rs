//! What a list of the runtime's shows that nobody told of.

use std::time::Duration;

use node::container_runtime::Container;
use node::pod::Pod;

use super::fake::Case;
use crate::pods::recover;

const PLAIN: &str = "{containers: [{name: c, image: 'i:1'}]}";

fn state(case: &Case) -> Container {
    let seen = case.pods.runtime().look(&Pod::read(&case.tree), 0).unwrap();
    seen.container(0).unwrap().state.clone()
}

#[tokio::test(start_paused = true)]
async fn a_container_that_somebody_removed_has_ended() {
    let case = Case::running(PLAIN, |_| {}).await;
    case.runtime.runs.lock().clear();
    recover::all(&case.pods.shared).await.unwrap();
    assert!(
        matches!(state(&case), Container::Running { .. }),
        "a list may be older than what it does not show"
    );
    case.runtime.gone.lock().insert("c");
    recover::all(&case.pods.shared).await.unwrap();
    let Container::Exited(exit) = state(&case) else { panic!("it has not ended") };
    assert_eq!((&*exit.reason, &*exit.id), ("ContainerStatusUnknown", "test://c"));
    assert!(case.runtime.asked().is_empty(), "{:?}", case.runtime.asked());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_somebody_removed_is_made_anew() {
    let case = Case::running(PLAIN, |_| {}).await;
    recover::all(&case.pods.shared).await.unwrap();
    case.cluster.env().sleep(Duration::from_secs(9)).await;
    assert!(case.runtime.asked().is_empty(), "{:?}", case.runtime.asked());
    case.runtime.runs.lock().clear();
    case.runtime.gone.lock().extend(["s-1", "c"]);
    recover::all(&case.pods.shared).await.unwrap();
    case.cluster.env().sleep(Duration::from_millis(1)).await;
    let made = "9s sandbox \"\"".to_owned();
    assert!(case.runtime.asked().contains(&made), "{:?}", case.runtime.asked());
    assert!(case.events().iter().any(|event| event.starts_with("SandboxChanged: ")));
}
