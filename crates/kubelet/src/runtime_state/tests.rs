use std::sync::atomic::{AtomicU64, Ordering};

use cri::Call;
use runtime::Stopper;

use super::*;

/// What a runtime says of itself: each condition with its reason, which is empty where it is true.
pub fn status(runtime: &str, network: &str) -> cri::StatusResponse {
    let condition = |kind: &str, reason: &str| cri::RuntimeCondition {
        r#type: kind.to_owned(),
        status: reason.is_empty(),
        reason: reason.to_owned(),
        message: if reason.is_empty() { String::new() } else { "it says why".to_owned() },
    };
    let conditions = vec![condition("RuntimeReady", runtime), condition("NetworkReady", network)];
    cri::StatusResponse { status: Some(cri::RuntimeStatus { conditions }), ..Default::default() }
}

/// Without anything wrong.
pub fn ready(env: &Env) -> Arc<RuntimeState> {
    Arc::new(RuntimeState::new(env, &status("", "")))
}

#[tokio::test(start_paused = true)]
async fn conditions_of_the_runtime_are_told_in_kubelets_words() {
    let env = Env::simulated(1);
    let told = |answer| RuntimeState::new(&env, &answer).problems(None);
    assert_eq!(told(status("", "")), None);
    let no_network = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:it says why";
    assert_eq!(told(status("", "NetworkPluginNotReady")).as_deref(), Some(no_network));
    let unready = told(status("Broken", "")).unwrap();
    assert_eq!(
        unready,
        "[container runtime status check may not have completed yet, \
         container runtime not ready: RuntimeReady=false reason:Broken message:it says why]"
    );
    let silent = told(cri::StatusResponse::default()).unwrap();
    assert!(silent.ends_with("container runtime network not ready: <nil>]"), "{silent}");
    let both = RuntimeState::new(&env, &status("", "X")).problems(Some("node is shutting down".to_owned()));
    assert!(both.unwrap().ends_with("message:it says why, node is shutting down]"));
}

/// Answers until it is frozen: then nothing comes any more.
struct Freezing(watch::Sender<bool>);

impl cri::PartialRuntime for Freezing {
    fn status(&self, _: cri::StatusRequest) -> Call<'_, cri::StatusResponse> {
        let mut frozen = self.0.subscribe();
        Box::pin(async move {
            let _ = frozen.wait_for(|frozen| !*frozen).await;
            Ok(status("", ""))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_answer_for_half_a_minute_is_down() {
    let env = Env::simulated(2);
    let state = ready(&env);
    let runtime = Arc::new(Freezing(watch::Sender::new(false)));
    let (stopper, stop) = Stopper::new();
    let looks = Arc::new(AtomicU64::new(0));
    let counted = looks.clone();
    let look = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let following = env.spawn("follow", state.clone().follow(runtime.clone(), look, stop));
    env.sleep(Duration::from_secs(50)).await;
    assert_eq!((state.problems(None), looks.load(Ordering::Relaxed)), (None, 0));
    runtime.0.send_replace(true);
    env.sleep(Duration::from_secs(24)).await;
    assert_eq!(state.problems(None), None);
    env.sleep(Duration::from_secs(13)).await;
    assert_eq!(state.problems(None).as_deref(), Some(DOWN));
    assert!(state.is_down());
    assert!(looks.load(Ordering::Relaxed) > 0, "the node says so at once");
    runtime.0.send_replace(false);
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(state.problems(None), None);
    stopper.stop();
    following.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_lists_no_pods_is_down_after_half_a_minute() {
    let env = Env::simulated(3);
    let state = ready(&env);
    state.listed(false);
    env.sleep(Duration::from_secs(20)).await;
    state.answered(&status("", ""));
    state.listed(false);
    assert_eq!(state.problems(None), None);
    env.sleep(Duration::from_secs(10)).await;
    assert_eq!(state.problems(None).as_deref(), Some(DOWN));
    state.listed(true);
    assert_eq!(state.problems(None), None);
}
