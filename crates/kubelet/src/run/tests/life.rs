//! What a node says of itself while its runtime and its machine change.

use std::sync::atomic::{AtomicBool, Ordering};

use client::{DeleteOptions, Patch, WriteOptions};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use node::agent::Observer;
use parking_lot::Mutex;

use super::*;
use crate::runtime_state::tests::status;

/// A runtime in which everything goes well, but for its network.
#[derive(Default)]
struct Steady {
    no_network: AtomicBool,
    containers: Mutex<BTreeMap<String, cri::ContainerConfig>>,
    /// Of pods that it does not run.
    sandboxes: Mutex<Vec<cri::PodSandbox>>,
}

macro_rules! answered {
    ($($method:ident($request:ident) -> $type:ident $answer:expr;)*) => {
        $(fn $method(&self, _: cri::$request) -> Call<'_, cri::$type> {
            Box::pin(async { Ok($answer) })
        })*
    };
}

impl cri::PartialRuntime for Steady {
    answered! {
        version(VersionRequest) -> VersionResponse Default::default();
        runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse Default::default();
        list_images(ListImagesRequest) -> ListImagesResponse Default::default();
        list_containers(ListContainersRequest) -> ListContainersResponse Default::default();
        run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse
            cri::RunPodSandboxResponse { pod_sandbox_id: "s-1".to_owned() };
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse Default::default();
        pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse Default::default();
        start_container(StartContainerRequest) -> StartContainerResponse Default::default();
        image_status(ImageStatusRequest) -> ImageStatusResponse cri::ImageStatusResponse {
            image: Some(cri::Image { id: "sha256:1".to_owned(), ..Default::default() }),
            ..Default::default()
        };
    }

    fn status(&self, _: cri::StatusRequest) -> Call<'_, cri::StatusResponse> {
        let network = if self.no_network.load(Ordering::Relaxed) { "NetworkPluginNotReady" } else { "" };
        Box::pin(async move { Ok(status("", network)) })
    }

    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        Box::pin(async { Ok(cri::ListPodSandboxResponse { items: self.sandboxes.lock().clone() }) })
    }

    fn remove_pod_sandbox(
        &self,
        request: cri::RemovePodSandboxRequest,
    ) -> Call<'_, cri::RemovePodSandboxResponse> {
        self.sandboxes.lock().retain(|sandbox| sandbox.id != request.pod_sandbox_id);
        Box::pin(async { Ok(cri::RemovePodSandboxResponse::default()) })
    }

    fn create_container(
        &self,
        request: cri::CreateContainerRequest,
    ) -> Call<'_, cri::CreateContainerResponse> {
        let container_id = "c-1".to_owned();
        self.containers.lock().insert(container_id.clone(), request.config.unwrap_or_default());
        Box::pin(async { Ok(cri::CreateContainerResponse { container_id }) })
    }

    fn container_status(
        &self,
        request: cri::ContainerStatusRequest,
    ) -> Call<'_, cri::ContainerStatusResponse> {
        let id = request.container_id;
        let config = self.containers.lock().get(&id).cloned().unwrap_or_default();
        let status = cri::ContainerStatus {
            id,
            state: cri::ContainerState::Running as i32,
            started_at: 1,
            annotations: config.annotations,
            labels: config.labels,
            ..Default::default()
        };
        Box::pin(async { Ok(cri::ContainerStatusResponse { status: Some(status), ..Default::default() }) })
    }

    fn container_events(
        &self,
        _: cri::GetEventsRequest,
    ) -> Call<'_, BoxStream<'static, Result<cri::ContainerEventResponse, cri::Error>>> {
        Box::pin(async { Ok(stream::pending().boxed()) })
    }
}

struct World {
    cluster: TestCluster,
    runtime: Arc<Steady>,
    admin: Arc<dyn Client>,
    kubelet: Kubelet,
    stopper: Stopper,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(seed: u64, runtime: Steady) -> World {
        let (cluster, folder) = (TestCluster::simulated(seed).await, tempfile::tempdir().unwrap());
        let runtime = Arc::new(runtime);
        let (kubelet, stopper) = start_on(&cluster, folder.path(), "", runtime.clone()).await.unwrap();
        let admin = cluster.local_clients().user("admin", &["system:masters"]);
        World { cluster, runtime, admin, kubelet, stopper, _folder: folder }
    }

    async fn sleep(&self, seconds: u64) {
        self.cluster.env().sleep(Duration::from_secs(seconds)).await;
    }

    /// Status, reason and message of the condition.
    async fn ready(&self) -> [String; 3] {
        let node = runtime::tree(&self.admin.get(NODES.at("", "n")).await.unwrap());
        let all = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
        let ready = all.iter().find(|condition| condition.str_at(&["type"]) == Some("Ready")).unwrap();
        ["status", "reason", "message"].map(|field| ready.str_at(&[field]).unwrap().to_owned())
    }

    /// Reasons of what is told of the node.
    async fn story(&self) -> Vec<String> {
        let events = self.admin.list(EVENTS.everywhere(), ListOptions::default()).await.unwrap();
        let mut events: Vec<Value> = events.items.iter().map(|event| runtime::tree(event)).collect();
        events.retain(|event| event.str_at(&["involvedObject", "kind"]) == Some("Node"));
        let mut told: Vec<String> =
            events.iter().filter_map(|event| event.str_at(&["reason"]).map(str::to_owned)).collect();
        // This machine's own.
        told.retain(|reason| {
            !["CgroupV1", "CheckLimitsForResolvConf", "MissingClusterDNS"].contains(&&**reason)
        });
        told.sort();
        told
    }

    async fn run(&self, spec: &str) -> Value {
        self.run_container("", spec).await
    }

    async fn run_container(&self, container: &str, spec: &str) -> Value {
        let pod = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: default}}, spec: {{nodeName: 'n', \
             automountServiceAccountToken: false, containers: [{{name: c, image: 'i:1', {container}}}], {spec}}}}}"
        );
        let pod = runtime::parse(&pod).unwrap();
        self.admin.create(PODS.within("default"), pod, WriteOptions::default()).await.unwrap();
        for _ in 0..100 {
            let pod = self.pod().await;
            if pod.str_at(&["status", "phase"]) == Some("Running") {
                return pod;
            }
            self.cluster.env().sleep(Duration::from_millis(200)).await;
        }
        panic!("it does not run: {:?}", self.pod().await.get("status"));
    }

    async fn pod(&self) -> Value {
        runtime::tree(&self.admin.get(PODS.at("default", "p")).await.unwrap())
    }

    async fn stop(self) {
        self.stopper.stop();
        self.kubelet.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_tells_its_story_and_why_it_is_not_ready_from_its_first_word_on() {
    let world = World::new(61, Steady { no_network: true.into(), ..Steady::default() }).await;
    world.sleep(1).await;
    let why = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:it says why";
    assert_eq!(world.ready().await, ["False", "KubeletNotReady", why]);
    world.runtime.no_network.store(false, Ordering::Relaxed);
    world.sleep(7).await;
    assert_eq!(world.ready().await, ["True", "KubeletReady", "kubelet is posting ready status"]);
    let begun =
        ["NodeHasNoDiskPressure", "NodeHasSufficientMemory", "NodeHasSufficientPID", "NodeReady", "Starting"];
    assert_eq!(world.story().await, begun);
    for unschedulable in [true, false] {
        let mut patch = Value::map();
        patch.map_at(&["spec"]).set("unschedulable", unschedulable);
        world.admin.patch(NODES.at("", "n"), Patch::Merge(patch), WriteOptions::default()).await.unwrap();
        world.sleep(2).await;
    }
    let mut all: Vec<&str> = begun.into_iter().chain(["NodeNotSchedulable", "NodeSchedulable"]).collect();
    all.sort_unstable();
    assert_eq!(world.story().await, all);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_changes_is_told_of_the_node_and_its_pods() {
    let world = World::new(62, Steady::default()).await;
    let before = world.run("hostNetwork: true").await;
    let of = |pod: &Value, field: &str| pod.str_at(&["status", field]).map(str::to_owned);
    assert_eq!(
        (of(&before, "hostIP"), of(&before, "podIP")),
        (Some("127.0.0.1".into()), Some("127.0.0.1".into()))
    );
    assert!(world.kubelet.machine.set_addresses(vec!["192.0.2.9".parse().unwrap()]));
    world.kubelet.pods.look_at_all();
    world.sleep(2).await;
    let after = world.pod().await;
    assert_eq!(
        (of(&after, "hostIP"), of(&after, "podIP")),
        (Some("192.0.2.9".into()), Some("192.0.2.9".into()))
    );
    let node = runtime::tree(&world.admin.get(NODES.at("", "n")).await.unwrap());
    let addresses = format!("{:?}", node.at(&["status", "addresses"]));
    assert!(addresses.contains("192.0.2.9"), "{addresses}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_container_in_the_machines_network_is_probed_where_the_machine_is_by_then() {
    let world = World::new(66, Steady::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = format!("readinessProbe: {{periodSeconds: 1, tcpSocket: {{port: {port}}}}}");
    world.run_container(&probe, "hostNetwork: true").await;
    let is_ready = async || {
        let pod = world.pod().await;
        let containers = pod.at(&["status", "containerStatuses"]).and_then(Value::as_list).unwrap();
        containers[0].at(&["ready"]).and_then(Value::as_bool).unwrap()
    };
    world.sleep(2).await;
    assert!(!is_ready().await, "nobody listens at the address it has");
    world.kubelet.machine.set_addresses(vec!["127.0.0.2".parse().unwrap()]);
    world.sleep(3).await;
    assert!(is_ready().await);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_with_a_pod_writes_nothing_but_its_lease() {
    let world = World::new(63, Steady::default()).await;
    world.run("").await;
    world.sleep(60).await;
    let look = async || {
        let leases = world.admin.list(LEASES.everywhere(), ListOptions::default()).await.unwrap();
        let renewed = leases.items.iter().find(|lease| lease.name() == "n").unwrap().revision();
        (leases.revision, renewed)
    };
    let (first, mut lease) = look().await;
    let (mut last, mut renewals) = (first, 0);
    for _ in 0..600 {
        world.sleep(1).await;
        let (revision, renewed) = look().await;
        (renewals, last) = (renewals + u64::from(renewed != lease), revision);
        lease = renewed;
    }
    assert!((58..=62).contains(&renewals), "{renewals} renewals in ten minutes");
    assert_eq!(last.0 - first.0, renewals, "each write is a revision, and each was the lease");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_nodes_metrics_are_those_dashboards_ask_for() {
    let world = World::new(64, Steady::default()).await;
    world.run("").await;
    let (measured, metrics) = (&world.kubelet.view.measured, &world.kubelet.view.metrics);
    let mut out = String::new();
    measured.write(&mut out);
    metrics.write(&mut out);
    for line in [
        "kubelet_started_pods_total 1\n",
        "kubelet_started_pods_errors_total 0\n",
        "kubelet_started_containers_total{container_type=\"container\"} 1\n",
        "kubelet_pod_start_duration_seconds_count 1\n",
        "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 1\n",
        "kubelet_runtime_operations_duration_seconds_count{operation_type=\"create_container\"} 1\n",
    ] {
        assert!(out.contains(line), "{line} in {out}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_log_is_looked_up_by_what_the_node_knows_and_the_api_does_not() {
    let world = World::new(65, Steady::default()).await;
    world.run("").await;
    let view: &dyn server::Node = &*world.kubelet.view;
    let phase = || view.find("default", "p").unwrap().str_at(&["status", "phase"]).map(str::to_owned);
    assert_eq!(phase().as_deref(), Some("Running"));
    let pod = world.pod().await;
    let decided = runtime::parse("{phase: Failed}").unwrap();
    world.kubelet.view.statuses.decided(&Pod::read(&pod), &decided);
    assert_eq!(phase().as_deref(), Some("Failed"), "the watch is behind");
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
    world.admin.delete(PODS.at("default", "p"), options).await.unwrap();
    world.sleep(5).await;
    assert!(view.find("default", "p").is_none());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_appears_without_a_pod_is_removed() {
    let world = World::new(66, Steady::default()).await;
    world.sleep(10).await;
    let uid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8".to_owned();
    let labels = [("io.kubernetes.pod.uid".to_owned(), uid.clone())].into();
    let (name, namespace) = ("late".to_owned(), "default".to_owned());
    let metadata = Some(cri::PodSandboxMetadata { name, namespace, uid, attempt: 0 });
    let late = cri::PodSandbox { id: "s-9".to_owned(), metadata, labels, ..Default::default() };
    // A call that was given up came to its end when its pod was gone.
    world.runtime.sandboxes.lock().push(late);
    world.sleep(310).await;
    assert_eq!(*world.runtime.sandboxes.lock(), [], "at the next list");
    world.stop().await;
}
