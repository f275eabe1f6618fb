//! What a list of the runtime's shows that nobody told of.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cri::Call;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use node::container_runtime::Container;
use parking_lot::Mutex;
use testkit::TestCluster;

use super::fake::Case;
use super::open;
use crate::pods::{Changes, recover};

const PLAIN: &str = "{containers: [{name: c, image: 'i:1'}]}";

#[tokio::test(start_paused = true)]
async fn a_container_that_somebody_removed_has_ended() {
    let case = Case::running(PLAIN, |_| {}).await;
    case.runtime.runs.lock().clear();
    recover::all(&case.pods.shared).await.unwrap();
    assert!(case.is_running(), "a list may be older than what it does not show");
    case.runtime.gone.lock().insert("c");
    recover::all(&case.pods.shared).await.unwrap();
    let Container::Exited(exit) = case.state().unwrap() else { panic!("it has not ended") };
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

/// Its stream begins when it is first asked for something, as that of a socket.
#[derive(Default)]
struct Lazy {
    asked: Arc<Mutex<Vec<&'static str>>>,
}

impl cri::PartialRuntime for Lazy {
    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        self.asked.lock().push("list");
        Box::pin(async { Ok(cri::ListPodSandboxResponse::default()) })
    }

    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        Box::pin(async { Ok(cri::ListContainersResponse::default()) })
    }

    fn list_images(&self, _: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        Box::pin(async { Ok(cri::ListImagesResponse::default()) })
    }

    fn container_events(
        &self,
        _: cri::GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<cri::ContainerEventResponse, cri::Error>>> {
        let asked = self.asked.clone();
        let begins = async move {
            asked.lock().push("follow");
            std::future::pending().await
        };
        Box::pin(async { Ok(stream::once(begins).boxed()) })
    }
}

#[tokio::test(start_paused = true)]
async fn the_runtime_is_followed_before_its_pods_are_listed_and_ever_after() {
    let (cluster, folder) = (TestCluster::simulated(46).await, tempfile::tempdir().unwrap());
    let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
    let (runtime, changes) = (Arc::new(Lazy::default()), Changes::default());
    let opened = open(folder.path(), &cluster, client, runtime.clone(), &changes, |config| {
        // It lists, too.
        config.garbage_period = Duration::from_secs(100_000);
    });
    let (_pods, _stopper) = opened.await;
    runtime.asked.lock().clear();
    cluster.env().sleep(Duration::from_secs(310)).await;
    assert_eq!(*runtime.asked.lock(), ["follow", "list", "list"]);
}

#[tokio::test(start_paused = true)]
async fn a_look_after_an_event_that_fails_is_made_once_more() {
    let mut case = Case::running(PLAIN, |_| {}).await;
    let env = case.cluster.env().clone();
    // It is being followed.
    env.sleep(Duration::from_secs(1)).await;
    case.runtime.unanswered.store(3, Ordering::Relaxed);
    case.runtime.end("c");
    let (ended, uid) = (env.monotonic(), case.task.uid.clone());
    case.runtime.tell(&uid, "c");
    case.until(|case| !case.is_alive()).await;
    assert!(env.monotonic().duration_since(ended) < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn what_happens_is_told_though_a_list_waits_for_an_answer() {
    let spec = "{containers: [{name: c, image: 'i:1'}, {name: slow, image: 'i:1'}]}";
    let mut case = Case::running(spec, |runtime| runtime.silent.lock().extend(["slow"])).await;
    // It is not listed, and so asked for.
    case.runtime.runs.lock().retain(|id| id != "slow");
    case.cluster.env().sleep(Duration::from_secs(301)).await;
    case.runtime.end("c");
    case.runtime.tell(&case.task.uid, "c");
    case.until(|case| !case.is_running()).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_without_a_status_hides_none_that_came_during_a_list() {
    let case = Case::new(PLAIN, |runtime| runtime.lists = tokio::sync::Semaphore::new(1)).await;
    let (id, uid) = ("s-7".to_owned(), "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d77".to_owned());
    let metadata = cri::PodSandboxMetadata { uid: uid.clone(), ..Default::default() };
    let (ready, not_ready) = (cri::PodSandboxState::Ready as i32, cri::PodSandboxState::NotReady as i32);
    let status = cri::PodSandboxStatus {
        id: id.clone(),
        metadata: Some(metadata.clone()),
        state: not_ready,
        ..Default::default()
    };
    for pod_sandbox_status in [Some(status), None] {
        let event = cri::ContainerEventResponse {
            container_id: id.clone(),
            pod_sandbox_status,
            ..Default::default()
        };
        case.runtime.events.send(event).unwrap();
    }
    case.cluster.env().sleep(Duration::from_secs(1)).await;
    let labels = [("io.kubernetes.pod.uid".to_owned(), uid.clone())].into();
    // As it was before that.
    let listed = cri::PodSandbox { id, labels, metadata: Some(metadata), state: ready, ..Default::default() };
    case.runtime.listed.lock().push(listed);
    case.runtime.lists.add_permits(9);
    case.cluster.env().sleep(Duration::from_secs(1)).await;
    let task = case.pods.shared.task(node::pod::short_uid(&uid)).unwrap();
    assert!(!task.sandbox().unwrap().ready);
}

#[tokio::test(start_paused = true)]
async fn a_run_before_the_one_that_is_probed_may_be_gone() {
    let case = Case::running(PLAIN, |_| {}).await;
    let (shared, task) = (&case.pods.shared, &case.task);
    case.runtime.gone.lock().insert("old");
    shared.watch_probes(task, &case.tree, "c", "c");
    assert!(shared.probes.results(&task.uid, "c").ready);
    shared.refresh(task, "c", "old").await;
    assert!(shared.probes.results(&task.uid, "c").ready && case.is_running());
}
