//! What a process finds that comes after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cri::Call;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use node::container_runtime::Container;
use node::pod::{Pod, short_uid};
use object::Value;
use parking_lot::Mutex;
use runtime::Stopper;
use testkit::TestCluster;

use super::open;
use crate::pods::{Changes, PodTask, Pods};

const UID: &str = "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d13";

/// A pod whose container ended, and was made anew; `started` by the time somebody looks at it.
#[derive(Default)]
struct Interrupted {
    started: bool,
    removed: Mutex<Vec<String>>,
    /// So often it cannot list its pods.
    unlisted: AtomicU32,
    /// So often it cannot tell the address of a sandbox.
    unaddressed: AtomicU32,
    created: Mutex<Vec<cri::ContainerConfig>>,
    /// So often it cannot tell how a container is.
    unanswered: AtomicU32,
    /// How the latest run is listed; `Created` otherwise.
    listed: Option<cri::ContainerState>,
    /// And it has ended by now.
    ended: bool,
}

const ADDRESS: &str = "127.0.0.1";

/// Whether this is one of the first calls, which fail.
fn fails(left: &AtomicU32) -> Result<(), cri::Error> {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    if taken.is_ok() { Err(cri::Error::new(cri::Code::Unavailable, "busy")) } else { Ok(()) }
}

fn metadata() -> std::collections::BTreeMap<String, String> {
    let both = [("io.kubernetes.pod.uid", UID), ("io.kubernetes.container.name", "c")];
    both.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn restarts(attempt: &str) -> std::collections::BTreeMap<String, String> {
    [("io.kubernetes.container.restartCount".to_owned(), attempt.to_owned())].into()
}

impl cri::PartialRuntime for Interrupted {
    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        let of_pod = cri::PodSandboxMetadata {
            name: "web".to_owned(),
            namespace: "d".to_owned(),
            ..Default::default()
        };
        let sandbox = cri::PodSandbox {
            id: "s-1".to_owned(),
            metadata: Some(of_pod),
            labels: metadata(),
            ..Default::default()
        };
        let listed = fails(&self.unlisted).map(|()| cri::ListPodSandboxResponse { items: vec![sandbox] });
        Box::pin(async { listed })
    }

    fn pod_sandbox_status(&self, _: cri::PodSandboxStatusRequest) -> Call<'_, cri::PodSandboxStatusResponse> {
        let network = cri::PodSandboxNetworkStatus { ip: ADDRESS.to_owned(), ..Default::default() };
        let status = cri::PodSandboxStatus { network: Some(network), ..Default::default() };
        let answer = cri::PodSandboxStatusResponse { status: Some(status), ..Default::default() };
        let told = fails(&self.unaddressed).map(|()| answer);
        Box::pin(async { told })
    }

    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        let latest = self.listed.unwrap_or(cri::ContainerState::Created);
        let states = [("first", cri::ContainerState::Exited), ("second", latest)];
        let container = |(id, state): (&str, cri::ContainerState)| cri::Container {
            id: id.to_owned(),
            pod_sandbox_id: "s-1".to_owned(),
            labels: metadata(),
            annotations: restarts(if id == "first" { "0" } else { "1" }),
            created_at: 5_000_000_000,
            state: state as i32,
            ..Default::default()
        };
        Box::pin(async move { Ok(cri::ListContainersResponse { containers: states.map(container).into() }) })
    }

    fn container_status(
        &self,
        request: cri::ContainerStatusRequest,
    ) -> Call<'_, cri::ContainerStatusResponse> {
        let (state, attempt) = match (&*request.container_id, self.started) {
            ("first", _) => (cri::ContainerState::Exited, "0"),
            (_, false) => (cri::ContainerState::Created, "1"),
            (_, true) if self.ended => (cri::ContainerState::Exited, "1"),
            (_, true) => (cri::ContainerState::Running, "1"),
        };
        let status = cri::ContainerStatus {
            id: request.container_id,
            state: state as i32,
            started_at: 1,
            annotations: restarts(attempt),
            ..Default::default()
        };
        let answer = cri::ContainerStatusResponse { status: Some(status), ..Default::default() };
        let told = fails(&self.unanswered).map(|()| answer);
        Box::pin(async { told })
    }

    fn list_images(&self, _: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        Box::pin(async { Ok(cri::ListImagesResponse::default()) })
    }

    fn image_status(&self, _: cri::ImageStatusRequest) -> Call<'_, cri::ImageStatusResponse> {
        let image = Some(cri::Image { id: "sha256:1".to_owned(), ..Default::default() });
        Box::pin(async { Ok(cri::ImageStatusResponse { image, ..Default::default() }) })
    }

    fn create_container(
        &self,
        request: cri::CreateContainerRequest,
    ) -> Call<'_, cri::CreateContainerResponse> {
        self.created.lock().extend(request.config);
        Box::pin(async { Ok(cri::CreateContainerResponse { container_id: "third".to_owned() }) })
    }

    fn start_container(&self, _: cri::StartContainerRequest) -> Call<'_, cri::StartContainerResponse> {
        Box::pin(async { Ok(cri::StartContainerResponse {}) })
    }

    fn container_events(
        &self,
        _: cri::GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<cri::ContainerEventResponse, cri::Error>>> {
        Box::pin(async { Ok(stream::pending().boxed()) })
    }

    fn remove_container(
        &self,
        request: cri::RemoveContainerRequest,
    ) -> Call<'_, cri::RemoveContainerResponse> {
        self.removed.lock().push(request.container_id);
        Box::pin(async { Ok(cri::RemoveContainerResponse {}) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_was_made_and_never_started_is_no_restart() {
    for started in [false, true] {
        let cluster = TestCluster::simulated(44).await;
        let runtime = Arc::new(Interrupted { started, ..Interrupted::default() });
        let directory = tempfile::tempdir().unwrap();
        let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
        let changes = Changes::default();
        let opened = open(directory.path(), &cluster, client, runtime.clone(), &changes, |_| ());
        let (pods, _stopper) = opened.await;
        let removed: &[&str] = if started { &[] } else { &["second"] };
        assert_eq!(*runtime.removed.lock(), removed);
        let tree = runtime::parse(&format!(
            "{{metadata: {{name: web, namespace: d, uid: {UID}}}, spec: {{containers: [{{name: c}}]}}}}"
        ));
        let tree = tree.unwrap();
        let seen = pods.runtime().look(&Pod::read(&tree), 0).unwrap();
        let container = seen.container(0).unwrap();
        assert_eq!(container.attempt, u32::from(started), "{:?}", container.state);
        assert_eq!(matches!(container.state, Container::Running { .. }), started);
        assert!(pods.runtime().list().iter().any(|held| held.uid == short_uid(UID)));
    }
}

/// What a process finds of a runtime that runs the container.
struct Found {
    pods: Pods,
    runtime: Arc<Interrupted>,
    cluster: TestCluster,
    _directory: tempfile::TempDir,
    _stopper: Stopper,
}

impl Found {
    async fn new(runtime: Interrupted) -> Found {
        let cluster = TestCluster::simulated(45).await;
        let runtime = Arc::new(Interrupted { started: true, ..runtime });
        let directory = tempfile::tempdir().unwrap();
        let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
        let changes = Changes::default();
        let opened = open(directory.path(), &cluster, client, runtime.clone(), &changes, |_| ()).await;
        let (pods, _stopper) = opened;
        Found { pods, runtime, cluster, _directory: directory, _stopper }
    }

    /// Tells it of the pod, as the agent does.
    fn recover(&self, spec: &str) -> Value {
        let text = format!("{{metadata: {{name: web, namespace: d, uid: {UID}}}, spec: {spec}}}");
        let tree = runtime::parse(&text).unwrap();
        self.pods.runtime().recover(&Pod::read(&tree));
        tree
    }

    fn task(&self) -> Arc<PodTask> {
        self.pods.shared.task(short_uid(UID)).unwrap()
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        let env = self.cluster.env();
        let waiting = async {
            while !is_so() {
                env.sleep(Duration::from_millis(100)).await;
            }
        };
        env.timeout(Duration::from_secs(60), waiting).await.expect("it comes to that");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_runtime_cannot_tell_at_first_is_asked_for_again_and_holds_nothing_up() {
    let found = Found::new(Interrupted { unaddressed: 2.into(), ..Interrupted::default() }).await;
    // A pod whose address is not known is known all the same.
    assert_eq!(found.pods.runtime().list().len(), 1);
    let task = found.task();
    assert_eq!(task.sandbox().unwrap().ips, [""; 0]);
    let events = found.pods.runtime().take_events(task.uid());
    let told: Vec<&str> = events.iter().map(|event| &*event.reason).collect();
    assert_eq!(told, ["FailedSync"]);
    found.runtime.unlisted.store(2, Ordering::Relaxed);
    found.until(|| task.sandbox().unwrap().ips == [ADDRESS]).await;
    found.until(|| found.runtime.unlisted.load(Ordering::Relaxed) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_the_runtime_cannot_tell_of_at_first_is_not_forgotten() {
    use cri::ContainerState::{Exited, Running};
    for (listed, ended) in [(Running, false), (Running, true), (Exited, true)] {
        let (unanswered, listed) = (AtomicU32::new(u32::MAX), Some(listed));
        let found = Found::new(Interrupted { unanswered, listed, ended, ..Interrupted::default() }).await;
        let tree = found.recover("{restartPolicy: Never, containers: [{name: c}]}");
        let state = || {
            let seen = found.pods.runtime().look(&Pod::read(&tree), 0).unwrap();
            let container = seen.container(0).expect("it is known");
            (container.id.clone(), container.state.clone())
        };
        let (id, seen) = state();
        let is_as_listed = match listed {
            Some(Running) => matches!(seen, Container::Running { since: 5000, .. }),
            // How it ended is not known.
            _ => seen == Container::Created,
        };
        assert!(is_as_listed && id == "test://second", "{id} {seen:?}");
        found.runtime.unanswered.store(0, Ordering::Relaxed);
        let is_told = |seen: &Container| match ended {
            true => matches!(seen, Container::Exited(_)),
            false => matches!(seen, Container::Running { since: 0, .. }),
        };
        found.until(|| is_told(&state().1)).await;
        assert!(found.runtime.created.lock().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_is_probed_where_its_pod_is_found_later() {
    let found = Found::new(Interrupted { unaddressed: 3.into(), ..Interrupted::default() }).await;
    let listener = tokio::net::TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = format!("{{periodSeconds: 1, tcpSocket: {{port: {port}}}}}");
    found.recover(&format!("{{containers: [{{name: c, readinessProbe: {probe}}}]}}"));
    let is_ready = || found.pods.shared.probes.results(UID, "c").ready;
    found.cluster.env().sleep(Duration::from_secs(2)).await;
    assert!(!is_ready(), "nobody knows where it is");
    found.until(is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_is_not_started_before_the_address_of_its_pod_is_known() {
    let found = Found::new(Interrupted { unaddressed: 3.into(), ..Interrupted::default() }).await;
    let env = "[{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]";
    let tree =
        found.recover(&format!("{{containers: [{{name: c}}, {{name: d, image: 'i:1', env: {env}}}]}}"));
    found.pods.runtime().start(&Pod::read(&tree), 1, 0, 0);
    found.until(|| !found.runtime.created.lock().is_empty()).await;
    let created = found.runtime.created.lock();
    let value = |name: &str| created[0].envs.iter().find(|of| of.key == name).map(|of| of.value.clone());
    assert_eq!(value("IP"), Some(ADDRESS.into()));
    let hosts = created[0].mounts.iter().any(|mount| mount.container_path == "/etc/hosts");
    assert!(hosts, "{:?}", created[0].mounts);
}
