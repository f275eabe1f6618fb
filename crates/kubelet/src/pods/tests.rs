//! Starts of containers in a runtime whose answers come in an order of our choice.

mod create;
pub(super) mod fake;
mod garbage;
mod probed;
mod recover;
mod relist;
mod start;
mod stop;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use client::Client;
use cri::{Call, Error};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use node::container_runtime::Container;
use node::pod::Pod;
use object::Value;
use parking_lot::Mutex;
use runtime::{Key, Stopper};
use testkit::TestCluster;
use tokio::sync::{Notify, mpsc};

use super::cache::SandboxRef;
use super::{Changes, Facts, NodeEvents, Parts, PodTask, Pods};
use crate::config::Config;
use crate::hooks::Hooks;
use crate::images::{ImageOptions, Images};
use crate::objects::Objects;
use crate::volumes::Volumes;

type Events = mpsc::UnboundedReceiver<cri::ContainerEventResponse>;

/// The container ends while the first question about it is being answered: that says it runs, all later ones that it ended.
pub(super) struct Quick {
    ended: mpsc::UnboundedSender<cri::ContainerEventResponse>,
    events: Mutex<Option<Events>>,
    /// The event was taken, and the next one asked for.
    taken: Arc<Notify>,
    questions: AtomicUsize,
}

macro_rules! answered {
    ($($method:ident($request:ident) -> $answer:expr, $type:ty;)*) => {
        $(fn $method(&self, _: cri::$request) -> Call<'_, $type> {
            Box::pin(async { Ok($answer) })
        })*
    };
}

impl Quick {
    pub(super) fn new() -> Quick {
        let (ended, events) = mpsc::unbounded_channel();
        let (events, taken) = (Mutex::new(Some(events)), Arc::default());
        Quick { ended, events, taken, questions: AtomicUsize::new(0) }
    }
}

impl cri::PartialRuntime for Quick {
    answered! {
        list_pod_sandbox(ListPodSandboxRequest) -> Default::default(), cri::ListPodSandboxResponse;
        list_containers(ListContainersRequest) -> Default::default(), cri::ListContainersResponse;
        list_images(ListImagesRequest) -> Default::default(), cri::ListImagesResponse;
        create_container(CreateContainerRequest) -> cri::CreateContainerResponse { container_id: "c-1".to_owned() }, cri::CreateContainerResponse;
        run_pod_sandbox(RunPodSandboxRequest) -> cri::RunPodSandboxResponse { pod_sandbox_id: "s-1".to_owned() }, cri::RunPodSandboxResponse;
        pod_sandbox_status(PodSandboxStatusRequest) -> Default::default(), cri::PodSandboxStatusResponse;
        start_container(StartContainerRequest) -> cri::StartContainerResponse {}, cri::StartContainerResponse;
    }

    fn image_status(&self, _: cri::ImageStatusRequest) -> Call<'_, cri::ImageStatusResponse> {
        let image = Some(cri::Image { id: "sha256:1".to_owned(), ..Default::default() });
        Box::pin(async { Ok(cri::ImageStatusResponse { image, ..Default::default() }) })
    }

    fn container_status(&self, _: cri::ContainerStatusRequest) -> Call<'_, cri::ContainerStatusResponse> {
        let is_first = self.questions.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            let mut status =
                cri::ContainerStatus { id: "c-1".to_owned(), started_at: 1, ..Default::default() };
            if is_first {
                status.state = cri::ContainerState::Running as i32;
                let _ = self.ended.send(ended());
                self.taken.notified().await;
            } else {
                (status.state, status.exit_code) = (cri::ContainerState::Exited as i32, 3);
            }
            Ok(cri::ContainerStatusResponse { status: Some(status), ..Default::default() })
        })
    }

    fn container_events(
        &self,
        _: cri::GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<cri::ContainerEventResponse, Error>>> {
        let (events, taken) = (self.events.lock().take(), self.taken.clone());
        let stream = stream::unfold((events, taken, false), |(mut events, taken, had_one)| async move {
            if had_one {
                taken.notify_one();
            }
            let event = events.as_mut()?.recv().await?;
            Some((Ok(event), (events, taken, true)))
        });
        Box::pin(async { Ok(stream.boxed()) })
    }
}

fn ended() -> cri::ContainerEventResponse {
    let metadata = cri::PodSandboxMetadata { uid: UID.to_owned(), ..Default::default() };
    let sandbox =
        cri::PodSandboxStatus { id: "s-1".to_owned(), metadata: Some(metadata), ..Default::default() };
    cri::ContainerEventResponse {
        container_id: "c-1".to_owned(),
        pod_sandbox_status: Some(sandbox),
        ..Default::default()
    }
}

const UID: &str = "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d11";

/// A container that runs, and tells when it is to open its log anew.
#[derive(Default)]
struct Steady {
    reopened: Arc<Notify>,
}

impl cri::PartialRuntime for Steady {
    answered! {
        list_pod_sandbox(ListPodSandboxRequest) -> Default::default(), cri::ListPodSandboxResponse;
        list_containers(ListContainersRequest) -> Default::default(), cri::ListContainersResponse;
        list_images(ListImagesRequest) -> Default::default(), cri::ListImagesResponse;
        create_container(CreateContainerRequest) -> cri::CreateContainerResponse { container_id: "c-1".to_owned() }, cri::CreateContainerResponse;
        start_container(StartContainerRequest) -> cri::StartContainerResponse {}, cri::StartContainerResponse;
        pod_sandbox_status(PodSandboxStatusRequest) -> Default::default(), cri::PodSandboxStatusResponse;
    }

    fn image_status(&self, _: cri::ImageStatusRequest) -> Call<'_, cri::ImageStatusResponse> {
        let image = Some(cri::Image { id: "sha256:1".to_owned(), ..Default::default() });
        Box::pin(async { Ok(cri::ImageStatusResponse { image, ..Default::default() }) })
    }

    fn container_status(&self, _: cri::ContainerStatusRequest) -> Call<'_, cri::ContainerStatusResponse> {
        let state = cri::ContainerState::Running as i32;
        let status =
            cri::ContainerStatus { id: "c-1".to_owned(), started_at: 1, state, ..Default::default() };
        Box::pin(async { Ok(cri::ContainerStatusResponse { status: Some(status), ..Default::default() }) })
    }

    fn reopen_container_log(
        &self,
        _: cri::ReopenContainerLogRequest,
    ) -> Call<'_, cri::ReopenContainerLogResponse> {
        self.reopened.notify_one();
        Box::pin(async { Ok(cri::ReopenContainerLogResponse {}) })
    }
}

pub(super) async fn open(
    root: &std::path::Path,
    cluster: &TestCluster,
    client: Arc<dyn Client>,
    cri: Arc<dyn cri::Runtime>,
    changes: &Changes,
    change: impl FnOnce(&mut Config),
) -> (Pods, Stopper) {
    let silent = NodeEvents::new("n", |_, _, _, _, _| {});
    open_with((Facts::default(), silent), root, cluster, client, cri, changes, change).await
}

async fn open_with(
    (facts, events): (Facts, NodeEvents),
    root: &std::path::Path,
    cluster: &TestCluster,
    client: Arc<dyn Client>,
    cri: Arc<dyn cri::Runtime>,
    changes: &Changes,
    change: impl FnOnce(&mut Config),
) -> (Pods, Stopper) {
    let env = cluster.env().clone();
    let mut config = Config::new("n", root.to_owned());
    // Nothing of this machine is touched but the folder.
    (config.enforce_node_allocatable, config.cgroups_per_qos) = (Vec::new(), false);
    config.user_ranges_directory = root.join("user-ranges");
    change(&mut config);
    let config = Arc::new(config);
    let blocking: image::Blocking = Arc::new(|job| job());
    let (stopper, stop) = Stopper::new();
    let (objects, _) = Objects::start(&env, client.clone(), Arc::new(|_: &str| {}), stop);
    objects.services().synced().await;
    let options = ImageOptions { parallel: None, ..ImageOptions::default() };
    let images = Images::new(env.clone(), &config, cri.clone(), blocking.clone(), options).unwrap();
    let none = Arc::new(Value::map);
    let volumes = Volumes::new(env.clone(), config.clone(), client, objects.clone(), blocking, none);
    let runtime_state = crate::runtime_state::tests::ready(&env);
    let parts = Parts {
        hooks: Hooks::new(&env),
        env,
        config,
        cri,
        runtime_name: "test".to_owned(),
        objects,
        volumes: Arc::new(volumes),
        images: Arc::new(images),
        facts,
        host_ips: Arc::new(Vec::new),
        runtime_state,
        metrics: Arc::default(),
        events,
    };
    (Pods::open(parts, changes).await.unwrap(), stopper)
}

struct Case {
    pods: Pods,
    tree: Value,
    task: Arc<PodTask>,
    wakes: mpsc::UnboundedReceiver<()>,
    cluster: TestCluster,
    _stopper: Stopper,
}

impl Case {
    /// A pod with a sandbox and one container, which was not started.
    async fn new(root: &std::path::Path) -> Case {
        Case::with(root, Arc::new(Quick::new()), |_| ()).await
    }

    async fn with(
        root: &std::path::Path,
        cri: Arc<dyn cri::Runtime>,
        change: impl FnOnce(&mut Config),
    ) -> Case {
        let cluster = TestCluster::simulated(41).await;
        let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
        let (pods, _stopper) = open(root, &cluster, client, cri, &Changes::default(), change).await;
        let text = format!(
            "{{metadata: {{name: quick, namespace: d, uid: {UID}}}, spec: {{restartPolicy: Never, containers: [{{name: c, image: 'i:1'}}]}}}}"
        );
        let tree = runtime::parse(&text).unwrap();
        let (woken, wakes) = mpsc::unbounded_channel();
        pods.runtime().wake_by(Arc::new(move |_: &Key| {
            let _ = woken.send(());
        }));
        let task = pods.shared.ensure(Key::new("d", "quick"), UID);
        {
            let mut cache = task.cache.lock();
            cache.pod = Arc::new(tree.clone());
            let (id, ips) = ("s-1".to_owned(), Vec::new());
            cache.sandbox = Some(SandboxRef { id, attempt: 0, ready: true, ips });
        }
        Case { pods, tree, task, wakes, cluster, _stopper }
    }

    /// Looks whenever the agent is woken, until the container is as expected.
    async fn container(&mut self, is_expected: impl Fn(Option<&Container>) -> bool) -> Option<Container> {
        let looking = async {
            loop {
                let seen = self.pods.runtime().look(&Pod::read(&self.tree), 0).unwrap();
                let state = seen.containers[0].as_ref().map(|seen| seen.state.clone());
                if is_expected(state.as_ref()) {
                    return state;
                }
                self.wakes.recv().await.unwrap();
            }
        };
        let env = self.cluster.env().clone();
        let seen = env.timeout(std::time::Duration::from_secs(10), looking).await;
        seen.expect("the agent is woken when that changes")
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_while_its_start_is_looked_at_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(folder.path()).await;
    super::start::start(&case.pods.shared, &case.task, "c", 0).await;
    let seen = case.container(|state| matches!(state, Some(Container::Exited(_)))).await;
    assert!(matches!(seen, Some(Container::Exited(exit)) if exit.code == 3));
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_given_up_for_the_end_of_its_pod_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::new(folder.path()).await;
    case.task.stopping.send_replace(true);
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 0, 0);
    let look = |case: &Case| case.pods.runtime().look(&Pod::read(&case.tree), 0).unwrap();
    assert!(look(&case).containers[0].is_some(), "asked for, not yet looked at");
    assert_eq!(case.container(|state| state.is_none()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_not_begun_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new(folder.path()).await;
    let started = || {
        let mut out = String::new();
        case.pods.shared.parts.metrics.write(&mut out);
        let name = "kubelet_started_containers_total{container_type=\"container\"} ";
        out.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok())
    };
    case.task.cache.lock().sandbox.as_mut().unwrap().ready = false;
    super::start::start(&case.pods.shared, &case.task, "c", 0).await;
    assert_eq!(started(), None, "without a sandbox");
    case.task.cache.lock().sandbox.as_mut().unwrap().ready = true;
    super::start::start(&case.pods.shared, &case.task, "c", 0).await;
    assert_eq!(started(), Some(1));
    case.task.stopping.send_replace(true);
    super::start::start(&case.pods.shared, &case.task, "c", 1).await;
    assert_eq!(started(), Some(1), "the pod ends");
}

#[tokio::test(start_paused = true)]
async fn logs_are_looked_at_as_often_as_the_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Arc::new(Steady::default());
    let every = std::time::Duration::from_secs(3);
    let mut case = Case::with(folder.path(), runtime.clone(), |config| {
        (config.container_log_max_size, config.container_log_monitor_interval) = (1, every);
    })
    .await;
    super::start::start(&case.pods.shared, &case.task, "c", 0).await;
    case.container(|state| matches!(state, Some(Container::Running { .. }))).await;
    let log = case.pods.shared.log_path(&case.tree, "c", 0);
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "2026-01-01T00:00:00Z stdout F long\n").unwrap();
    let reopened = case.cluster.env().timeout(2 * every, runtime.reopened.notified()).await;
    assert!(reopened.is_ok(), "the next look is that soon");
}
