//! A runtime that notes what it is asked for, and pods in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cri::{Call, Error};
use env::Env;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use node::container_runtime::Container;
use node::pod::Pod;
use object::Value;
use parking_lot::Mutex;
use runtime::{Key, Stopper};
use testkit::TestCluster;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::open_with;
use crate::config::Config;
use crate::generate::labels::container_hash;
use crate::pods::cache::{Run, RunState, SandboxRef};
use crate::pods::{Changes, Facts, NodeEvents, PodTask, Pods};

/// Its containers are named by their ids.
pub struct Fake {
    env: Env,
    began: Instant,
    asked: Mutex<Vec<String>>,
    ended: Mutex<BTreeSet<String>>,
    /// Whatever it was asked about: that ends with its sandbox.
    seen: Mutex<BTreeSet<String>>,
    /// How many seconds containers take to end after their signal, by name; the others end at once.
    pub takes: BTreeMap<&'static str, u64>,
    /// So often it fails to stop a container.
    pub unstoppable: AtomicU32,
    /// So often it fails to stop a sandbox.
    pub unstoppable_sandboxes: AtomicU32,
    /// A permit for each sandbox that may be made.
    pub sandboxes: Semaphore,
    /// Containers that are listed, by id.
    pub runs: Mutex<Vec<String>>,
    /// Containers that ended, as they are listed.
    pub dead: Mutex<Vec<cri::Container>>,
    /// What somebody else removed, by id.
    pub gone: Mutex<BTreeSet<&'static str>>,
    /// Sandboxes it knows of.
    pub listed: Mutex<Vec<cri::PodSandbox>>,
    /// The next call to make a sandbox fails, and leaves one in this state all the same.
    pub leaves: Mutex<Option<cri::PodSandboxState>>,
    /// Addresses of sandboxes, the last one first, as they are asked for; `None`: it cannot say. Then it says nothing of them.
    pub addresses: Mutex<Vec<Option<String>>>,
    /// What its containers use of memory, if it can say; each time a little more.
    pub usage: Mutex<Option<u64>>,
    /// So often it cannot say how a container is.
    pub unanswered: AtomicU32,
    /// So often it cannot list containers.
    pub unlisted: AtomicU32,
    /// So often it fails to start a container, which is made all the same.
    pub unstarted: AtomicU32,
    /// So often it fails to remove a container.
    pub unremoved: AtomicU32,
    /// What was made and does not run yet, by id.
    pub made: Mutex<BTreeSet<String>>,
    /// Of these it can never tell how they are, by id.
    pub unknown: Mutex<BTreeSet<&'static str>>,
    /// Of these it says nothing, however long that is waited for, by id.
    pub silent: Mutex<BTreeSet<&'static str>>,
    /// A permit for each list of sandboxes that it gives.
    pub lists: Semaphore,
    /// What it tells by itself.
    pub events: mpsc::UnboundedSender<cri::ContainerEventResponse>,
    told: Mutex<Option<mpsc::UnboundedReceiver<cri::ContainerEventResponse>>>,
}

impl Fake {
    pub fn new(env: &Env) -> Fake {
        let (events, told) = mpsc::unbounded_channel();
        Fake {
            env: env.clone(),
            began: env.monotonic(),
            asked: Mutex::default(),
            ended: Mutex::default(),
            seen: Mutex::default(),
            takes: BTreeMap::new(),
            unstoppable: AtomicU32::new(0),
            unstoppable_sandboxes: AtomicU32::new(0),
            sandboxes: Semaphore::new(Semaphore::MAX_PERMITS),
            runs: Mutex::default(),
            dead: Mutex::default(),
            gone: Mutex::default(),
            listed: Mutex::default(),
            leaves: Mutex::default(),
            addresses: Mutex::default(),
            usage: Mutex::default(),
            unanswered: AtomicU32::new(0),
            unlisted: AtomicU32::new(0),
            unstarted: AtomicU32::new(0),
            unremoved: AtomicU32::new(0),
            made: Mutex::default(),
            unknown: Mutex::default(),
            silent: Mutex::default(),
            lists: Semaphore::new(Semaphore::MAX_PERMITS),
            events,
            told: Mutex::new(Some(told)),
        }
    }

    fn note(&self, what: String) {
        self.asked.lock().push(format!("{}s {what}", self.began.elapsed().as_secs()));
    }

    fn find(&self, id: &str) -> Result<(), Error> {
        if self.gone.lock().contains(id) { Err(Error::new(cri::Code::NotFound, "not found")) } else { Ok(()) }
    }

    /// A container ends by itself.
    pub fn end(&self, id: &str) {
        self.ended.lock().insert(id.to_owned());
    }

    /// Tells of a container of a pod that something happened.
    pub fn tell(&self, uid: &str, id: &str) {
        let metadata = cri::PodSandboxMetadata { uid: uid.to_owned(), ..Default::default() };
        let sandbox =
            cri::PodSandboxStatus { id: "s-1".to_owned(), metadata: Some(metadata), ..Default::default() };
        let (container_id, pod_sandbox_status) = (id.to_owned(), Some(sandbox));
        let event = cri::ContainerEventResponse { container_id, pod_sandbox_status, ..Default::default() };
        self.events.send(event).unwrap();
    }

    /// What it was asked for, after how many seconds.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

/// One of the calls that are to fail.
fn fails(left: &AtomicU32) -> Result<(), Error> {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    if taken.is_ok() { Err(Error::new(cri::Code::Unavailable, "busy")) } else { Ok(()) }
}

impl cri::PartialRuntime for Fake {
    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        Box::pin(async {
            self.lists.acquire().await.expect("it is not closed").forget();
            Ok(cri::ListPodSandboxResponse { items: self.listed.lock().clone() })
        })
    }

    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        let listed = |id: &String| cri::Container { id: id.clone(), ..Default::default() };
        let containers = self.runs.lock().iter().map(listed).chain(self.dead.lock().clone()).collect();
        let listed = fails(&self.unlisted).map(|()| cri::ListContainersResponse { containers });
        Box::pin(async { listed })
    }

    fn run_pod_sandbox(&self, request: cri::RunPodSandboxRequest) -> Call<'_, cri::RunPodSandboxResponse> {
        Box::pin(async move {
            let permit = self.sandboxes.acquire().await.expect("it is not closed");
            permit.forget();
            self.note(format!("sandbox {:?}", request.runtime_handler));
            if let Some(state) = self.leaves.lock().take() {
                let id = "s-0".to_owned();
                let metadata = request.config.and_then(|config| config.metadata);
                let state = state as i32;
                let left = cri::PodSandbox { id, metadata, state, ..Default::default() };
                self.listed.lock().push(left);
                return Err(Error::new(cri::Code::DeadlineExceeded, "context deadline exceeded"));
            }
            Ok(cri::RunPodSandboxResponse { pod_sandbox_id: "s-1".to_owned() })
        })
    }

    fn pod_sandbox_status(
        &self,
        request: cri::PodSandboxStatusRequest,
    ) -> Call<'_, cri::PodSandboxStatusResponse> {
        Box::pin(async move {
            self.find(&request.pod_sandbox_id)?;
            let status = match self.addresses.lock().pop() {
                Some(None) => return Err(Error::new(cri::Code::Unavailable, "busy")),
                Some(Some(ip)) => {
                    let network = Some(cri::PodSandboxNetworkStatus { ip, ..Default::default() });
                    Some(cri::PodSandboxStatus { network, ..Default::default() })
                }
                None => None,
            };
            Ok(cri::PodSandboxStatusResponse { status, ..Default::default() })
        })
    }

    fn list_images(&self, _: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        Box::pin(async { Ok(cri::ListImagesResponse::default()) })
    }

    fn exec_sync(&self, request: cri::ExecSyncRequest) -> Call<'_, cri::ExecSyncResponse> {
        self.note(format!("exec {}", request.container_id));
        Box::pin(async { Ok(cri::ExecSyncResponse { exit_code: 1, ..Default::default() }) })
    }

    fn stop_pod_sandbox(&self, request: cri::StopPodSandboxRequest) -> Call<'_, cri::StopPodSandboxResponse> {
        self.note(format!("stop sandbox {}", request.pod_sandbox_id));
        let stopped = fails(&self.unstoppable_sandboxes);
        if stopped.is_ok() {
            self.ended.lock().append(&mut self.seen.lock());
        }
        Box::pin(async { stopped.map(|()| cri::StopPodSandboxResponse {}) })
    }

    fn image_status(&self, _: cri::ImageStatusRequest) -> Call<'_, cri::ImageStatusResponse> {
        let image = Some(cri::Image { id: "sha256:1".to_owned(), ..Default::default() });
        Box::pin(async { Ok(cri::ImageStatusResponse { image, ..Default::default() }) })
    }

    fn create_container(
        &self,
        request: cri::CreateContainerRequest,
    ) -> Call<'_, cri::CreateContainerResponse> {
        let metadata = request.config.and_then(|config| config.metadata).unwrap_or_default();
        let container_id = format!("{}-{}", metadata.name, metadata.attempt);
        self.note(format!("create {container_id}"));
        Box::pin(async { Ok(cri::CreateContainerResponse { container_id }) })
    }

    fn start_container(&self, request: cri::StartContainerRequest) -> Call<'_, cri::StartContainerResponse> {
        self.note(format!("start {}", request.container_id));
        let started = fails(&self.unstarted);
        if started.is_err() {
            self.made.lock().insert(request.container_id);
        }
        Box::pin(async { started.map(|()| cri::StartContainerResponse {}) })
    }

    fn remove_container(
        &self,
        request: cri::RemoveContainerRequest,
    ) -> Call<'_, cri::RemoveContainerResponse> {
        // What has ended is removed now and then.
        if self.made.lock().contains(&request.container_id) {
            self.note(format!("remove {}", request.container_id));
        }
        let removed = fails(&self.unremoved);
        Box::pin(async { removed.map(|()| cri::RemoveContainerResponse {}) })
    }

    fn stop_container(&self, request: cri::StopContainerRequest) -> Call<'_, cri::StopContainerResponse> {
        Box::pin(async move {
            let (id, timeout) = (request.container_id, request.timeout.unsigned_abs());
            self.note(format!("stop {id} within {timeout}s"));
            fails(&self.unstoppable)?;
            let takes = self.takes.get(&*id).copied().unwrap_or(0);
            self.env.sleep(Duration::from_secs(takes.min(timeout))).await;
            self.ended.lock().insert(id);
            Ok(cri::StopContainerResponse {})
        })
    }

    fn list_container_stats(
        &self,
        _: cri::ListContainerStatsRequest,
    ) -> Call<'_, cri::ListContainerStatsResponse> {
        self.note("stats".to_owned());
        let mut usage = self.usage.lock();
        *usage = usage.map(|bytes| bytes + 1);
        let usage_bytes = usage.map(|value| cri::UInt64Value { value });
        let memory = Some(cri::MemoryUsage { usage_bytes, ..Default::default() });
        let attributes = Some(cri::ContainerAttributes { id: "c".to_owned(), ..Default::default() });
        let stats = vec![cri::ContainerStats { attributes, memory, ..Default::default() }];
        Box::pin(async { Ok(cri::ListContainerStatsResponse { stats }) })
    }

    fn container_status(
        &self,
        request: cri::ContainerStatusRequest,
    ) -> Call<'_, cri::ContainerStatusResponse> {
        Box::pin(async move {
            let id = request.container_id;
            fails(&self.unanswered)?;
            if self.silent.lock().contains(&*id) {
                std::future::pending::<()>().await;
            }
            self.find(&id)?;
            self.seen.lock().insert(id.clone());
            let state = match () {
                () if self.unknown.lock().contains(&*id) => cri::ContainerState::Unknown,
                () if self.ended.lock().contains(&id) => cri::ContainerState::Exited,
                () if self.made.lock().contains(&id) => cri::ContainerState::Created,
                () => cri::ContainerState::Running,
            };
            let attempt = id.rsplit_once('-').map_or("0", |(_, attempt)| attempt).to_owned();
            let annotations = [("io.kubernetes.container.restartCount".to_owned(), attempt)].into();
            let state = state as i32;
            let status = cri::ContainerStatus { id, state, started_at: 1, annotations, ..Default::default() };
            Ok(cri::ContainerStatusResponse { status: Some(status), ..Default::default() })
        })
    }

    fn container_events(
        &self,
        _: cri::GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<cri::ContainerEventResponse, Error>>> {
        let told = self.told.lock().take();
        let stream = stream::unfold(told, |mut told| async move {
            let event = match &mut told {
                Some(told) => told.recv().await?,
                None => std::future::pending().await,
            };
            Some((Ok(event), told))
        });
        Box::pin(async { Ok(stream.boxed()) })
    }
}

pub struct Case {
    pub pods: Pods,
    pub runtime: Arc<Fake>,
    pub tree: Value,
    pub task: Arc<PodTask>,
    pub changes: Changes,
    pub wakes: mpsc::UnboundedReceiver<()>,
    pub cluster: TestCluster,
    /// The reasons and messages of what people are told of the node.
    pub of_node: Arc<Mutex<Vec<String>>>,
    _stopper: Stopper,
    _directory: tempfile::TempDir,
}

const UID: &str = "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d12";

impl Case {
    pub async fn new(spec: &str, change: impl FnOnce(&mut Fake)) -> Case {
        Case::configured(spec, change, |_| ()).await
    }

    pub async fn configured(
        spec: &str,
        change: impl FnOnce(&mut Fake),
        configure: impl FnOnce(&mut Config),
    ) -> Case {
        let cluster = TestCluster::simulated(43).await;
        let mut runtime = Fake::new(cluster.env());
        change(&mut runtime);
        let (runtime, changes) = (Arc::new(runtime), Changes::default());
        let directory = tempfile::tempdir().unwrap();
        let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
        let of_node = Arc::new(Mutex::new(Vec::new()));
        let told = of_node.clone();
        let events = NodeEvents::new("n", move |_, _, _, reason, message| {
            told.lock().push(format!("{reason}: {message}"));
        });
        let with = (Facts::default(), events);
        let (pods, stopper) =
            open_with(with, directory.path(), &cluster, client, runtime.clone(), &changes, configure).await;
        let tree =
            runtime::parse(&format!("{{metadata: {{name: web, namespace: d, uid: {UID}}}, spec: {spec}}}"));
        let tree = tree.unwrap();
        let (woken, wakes) = mpsc::unbounded_channel();
        pods.runtime().wake_by(Arc::new(move |_: &Key| {
            let _ = woken.send(());
        }));
        let task = pods.shared.ensure(Key::new("d", "web"), UID);
        task.cache.lock().pod = Arc::new(tree.clone());
        let (_stopper, _directory) = (stopper, directory);
        Case { pods, runtime, tree, task, changes, wakes, cluster, of_node, _stopper, _directory }
    }

    /// With a sandbox in which nothing was started.
    pub async fn set_up(spec: &str, change: impl FnOnce(&mut Fake)) -> Case {
        let case = Case::new(spec, change).await;
        let (id, ips) = ("s-1".to_owned(), Vec::new());
        case.task.cache.lock().set_sandbox(SandboxRef { id, attempt: 0, ready: true, ips });
        case
    }

    /// With a sandbox in which all containers run.
    pub async fn running(spec: &str, change: impl FnOnce(&mut Fake)) -> Case {
        let case = Case::set_up(spec, change).await;
        {
            let mut cache = case.task.cache.lock();
            for container in Pod::read(&case.tree).containers {
                case.runtime.runs.lock().push(container.name.to_owned());
                cache.slot(container.name).run = Some(Run {
                    id: container.name.to_owned(),
                    hash: container_hash(container.spec),
                    image_id: String::new(),
                    image: String::new(),
                    user: None,
                    attempt: 0,
                    state: RunState::Running { since: 0 },
                });
            }
        }
        case
    }

    /// Waits for the agent to be woken until it sees that.
    pub async fn until(&mut self, seen: impl Fn(&Case) -> bool) {
        let env = self.cluster.env().clone();
        let waiting = async {
            while !seen(self) {
                self.wakes.recv().await.unwrap();
            }
        };
        env.timeout(Duration::from_secs(600), waiting).await.expect("the agent is woken when that changes");
    }

    /// How its first container is.
    pub fn state(&self) -> Option<Container> {
        let seen = self.pods.runtime().look(&Pod::read(&self.tree), 0).unwrap();
        seen.container(0).map(|container| container.state.clone())
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state(), Some(Container::Running { .. }))
    }

    /// The reasons and messages of what people are told of the pod.
    pub fn events(&self) -> Vec<String> {
        let events = self.pods.runtime().take_events(self.task.uid());
        events.into_iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
    }

    pub fn is_alive(&self) -> bool {
        // One that was removed is gone.
        self.pods.runtime().look(&Pod::read(&self.tree), 0).is_some_and(|seen| seen.is_alive())
    }
}
