use std::sync::Arc;
use std::time::Duration;

use cri::{Call, Code, Error};
use node::container_runtime::RESIZE_RETRY_MILLIS;
use parking_lot::Mutex;
use runtime::Key;
use testkit::TestCluster;

use super::super::cache::SandboxRef;
use super::super::{Changes, tests};
use super::*;
use crate::config::Config;
use crate::generate::cgroups::CpuShare;
use crate::generate::testing::{config, pod, resolv};

/// Answers every change of a sandbox with this.
struct Asked {
    answer: Option<Error>,
    asked: Mutex<Vec<cri::UpdatePodSandboxResourcesRequest>>,
}

impl cri::PartialRuntime for Asked {
    fn list_pod_sandbox(&self, _: cri::ListPodSandboxRequest) -> Call<'_, cri::ListPodSandboxResponse> {
        Box::pin(async { Ok(Default::default()) })
    }
    fn list_containers(&self, _: cri::ListContainersRequest) -> Call<'_, cri::ListContainersResponse> {
        Box::pin(async { Ok(Default::default()) })
    }
    fn list_images(&self, _: cri::ListImagesRequest) -> Call<'_, cri::ListImagesResponse> {
        Box::pin(async { Ok(Default::default()) })
    }
    fn update_pod_sandbox_resources(
        &self,
        request: cri::UpdatePodSandboxResourcesRequest,
    ) -> Call<'_, cri::UpdatePodSandboxResourcesResponse> {
        self.asked.lock().push(request);
        let answer = self.answer.clone();
        Box::pin(async move { answer.map_or(Ok(Default::default()), Err) })
    }
}

/// What a resize came to, and what the runtime was asked.
async fn resized(
    answer: Option<Error>,
) -> (Result<(), String>, bool, Vec<cri::UpdatePodSandboxResourcesRequest>) {
    let (cluster, folder) = (TestCluster::simulated(51).await, tempfile::tempdir().unwrap());
    let client = cluster.local_clients().user("system:node:n", &["system:nodes"]);
    let runtime = Arc::new(Asked { answer, asked: Mutex::default() });
    let changes = Changes::default();
    let opened = tests::open(folder.path(), &cluster, client, runtime.clone(), &changes, |_| ()).await;
    let (pods, _stopper) = opened;
    let uid = "2b1f0a34-5b0e-4bd5-8f2c-7f7a0a3c9d12";
    let text = format!(
        "{{metadata: {{name: web, namespace: d, uid: {uid}}}, spec: {{containers: [{{name: c, resources: {{limits: {{memory: 64Mi}}}}}}]}}}}"
    );
    let pod = Arc::new(runtime::parse(&text).unwrap());
    let task = pods.shared.ensure(Key::new("d", "web"), uid);
    {
        let mut cache = task.cache.lock();
        (cache.pod, cache.resize_group) = (pod.clone(), true);
        cache.set_sandbox(SandboxRef { id: "s-1".to_owned(), attempt: 0, ready: true, ips: Vec::new() });
    }
    let done = resize(&pods.shared, &task, &pod).await;
    let waits = task.cache.lock().resize_group;
    let asked = runtime.asked.lock().clone();
    (done, waits, asked)
}

/// The pod has no group here, so what the runtime took is taken back.
const NO_GROUP: &str = "failed to set the limits of the pod: ";

#[tokio::test(start_paused = true)]
async fn the_runtime_is_told_of_a_pods_resources_and_may_reject_them() {
    let (done, waits, asked) = resized(None).await;
    assert!(done.unwrap_err().starts_with(NO_GROUP) && waits);
    let told = asked.iter().map(|asked| asked.resources.as_ref().unwrap());
    let told: Vec<(i64, i64)> = told.map(|told| (told.memory_limit_in_bytes, told.cpu_shares)).collect();
    assert_eq!((&*asked[0].pod_sandbox_id, told), ("s-1", vec![(64 << 20, 2), (0, 2)]));
    let (done, waits, asked) = resized(Some(Error::new(Code::Internal, "no room"))).await;
    let rejected = Err("the runtime rejects the resize: no room".to_owned());
    assert_eq!((done, waits, asked.len()), (rejected, true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_cannot_be_told_is_no_reason_to_reject() {
    for (code, message) in [(Code::Unimplemented, "unknown method"), (Code::Unknown, "not implemented yet")] {
        let (done, ..) = resized(Some(Error::new(code, message))).await;
        assert!(done.unwrap_err().starts_with(NO_GROUP), "{message}");
    }
}

#[test]
fn the_runtime_is_told_of_all_that_a_pod_has() {
    let now = PodGroup {
        memory_usage: 0,
        memory_limit: Some(64 << 20),
        cpu_quota: None,
        cpu_period: Some(100_000),
        cpu_share: Some(CpuShare::Shares(512)),
    };
    let wanted = GroupResources {
        cpu_shares: Some(1024),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        memory: Some(128 << 20),
        ..GroupResources::default()
    };
    let told = |to: Option<&GroupResources>| {
        let told = linux_resources(to, &wanted, Some(&now));
        (told.cpu_shares, told.cpu_quota, told.cpu_period, told.memory_limit_in_bytes >> 20)
    };
    assert_eq!(told(Some(&raised(&wanted, Some(&now)))), (512, -1, 100_000, 128));
    assert_eq!(told(Some(&wanted)), (1024, 50_000, 100_000, 128));
    assert_eq!(told(None), (512, -1, 100_000, 64), "as it is");
    let pod = "{spec: {overhead: {cpu: 250m, memory: 28Mi}}}";
    let left = without_overhead(linux_resources(Some(&wanted), &wanted, None), &runtime::parse(pod).unwrap());
    let memory = left.memory_limit_in_bytes >> 20;
    assert_eq!((left.cpu_shares, left.cpu_quota, memory), (768, 25_000, 100));
}

#[tokio::test(start_paused = true)]
async fn a_resize_that_fails_waits_for_the_next_attempt_whatever_is_written_about_it() {
    let mut case = tests::fake::Case::running(
        "{containers: [{name: c, image: 'i:1', resources: {limits: {memory: 64Mi}}}]}",
        |runtime| *runtime.usage.lock() = Some(128 << 20),
    )
    .await;
    let more = cri::LinuxContainerResources { memory_limit_in_bytes: 256 << 20, ..Default::default() };
    case.task.cache.lock().slot("c").resources = Some(more);
    let mut tree = case.tree.clone();
    let env = case.cluster.env().clone();
    let end = env.monotonic() + Duration::from_secs(60);
    let (mut version, mut written) = (1, None);
    let looks =
        |case: &tests::fake::Case| case.runtime.asked().iter().filter(|a| a.ends_with("stats")).count();
    // As the agent, which writes down whatever is new, and looks again when it is woken or the pause is over.
    while env.monotonic() < end && looks(&case) < 100 {
        let seen = case.pods.runtime().look(&Pod::read(&tree), 0).unwrap();
        if seen.resize_error != written {
            (version, written) = (version + 1, seen.resize_error);
        }
        tree.map_at(&["metadata"]).set("resourceVersion", version.to_string());
        case.pods.runtime().update(&Pod::read(&tree), 0);
        let pause = Duration::from_millis(RESIZE_RETRY_MILLIS.unsigned_abs());
        let _ = env.timeout(pause, case.wakes.recv()).await;
    }
    assert_eq!(looks(&case), 6);
    let limit = tree.map_at(&["spec"]);
    limit.set(
        "containers",
        runtime::parse("[{name: c, image: 'i:1', resources: {limits: {memory: 65Mi}}}]").unwrap(),
    );
    case.pods.runtime().update(&Pod::read(&tree), 0);
    case.until(|case| looks(case) == 7).await;
}

const LATE: &str = "{containers: [{name: main, image: 'i:1', resources: {limits: {memory: 64Mi}}, \
    resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]}]}";

/// The pod asks for so much instead, and gets it.
fn give(case: &tests::fake::Case, memory: &str) -> Value {
    let text = LATE.replace("64Mi", memory);
    let mut tree = case.tree.clone();
    tree.make_map().set("spec", runtime::parse(&text).unwrap());
    tree.map_at(&["metadata"]).set("resourceVersion", memory);
    case.pods.runtime().update(&Pod::read(&tree), 0);
    tree
}

fn memory_of_main(case: &tests::fake::Case) -> i64 {
    let mut cache = case.task.cache.lock();
    cache.slot("main").resources.as_ref().map_or(0, |resources| resources.memory_limit_in_bytes >> 20)
}

fn needs_restart(case: &tests::fake::Case, tree: &Value) -> bool {
    let seen = case.pods.runtime().look(&Pod::read(tree), 0).unwrap();
    assert!(!seen.resizing);
    seen.container(0).unwrap().needs_restart
}

#[tokio::test(start_paused = true)]
async fn a_container_starts_with_what_was_given_while_the_run_before_ended() {
    let mut case = tests::fake::Case::running(LATE, |runtime| runtime.takes = [("main", 20)].into()).await;
    give(&case, "128Mi");
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 1, 0);
    let is_ending =
        |case: &tests::fake::Case| case.runtime.asked().iter().any(|asked| asked.contains("stop"));
    while !is_ending(&case) {
        tokio::task::yield_now().await;
    }
    // And taken back.
    let tree = give(&case, "64Mi");
    case.until(|case| case.runtime.asked().contains(&"20s start main-1".to_owned())).await;
    assert_eq!(memory_of_main(&case), 64);
    case.until(|case| !case.task.cache.lock().resizing).await;
    assert!(!needs_restart(&case, &tree));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_began_with_something_else_needs_a_restart() {
    let mut case = tests::fake::Case::running(LATE, |_| {}).await;
    case.pods.runtime().start(&Pod::read(&case.tree), 0, 1, 0);
    case.until(|case| !case.task.cache.lock().slot("main").starting).await;
    let tree = give(&case, "128Mi");
    case.until(|case| !case.task.cache.lock().resizing).await;
    assert!(needs_restart(&case, &tree));
    let tree = give(&case, "64Mi");
    case.until(|case| !case.task.cache.lock().resizing).await;
    assert!(!needs_restart(&case, &tree), "taken back");
    let tree = give(&case, "128Mi");
    case.pods.runtime().start(&Pod::read(&tree), 0, 2, 0);
    case.until(|case| case.runtime.asked().contains(&"0s start main-2".to_owned())).await;
    case.until(|case| !case.task.cache.lock().slot("main").starting).await;
    assert_eq!(memory_of_main(&case), 128);
    assert!(!needs_restart(&case, &tree));
}

#[test]
fn the_memory_request_of_a_container_that_may_swap_stays_while_it_runs() {
    let (limited, resolv) = (Config { swap_behavior: "LimitedSwap".to_owned(), ..config() }, resolv());
    let node = NodeView { swap_controller: true, cgroup_v2: true, ..NodeView::new(&limited, &resolv) };
    let of = |memory: &str, limit: &str, policy: &str| {
        let policy = format!(r#""resizePolicy":[{{"resourceName":"memory","restartPolicy":"{policy}"}}]"#);
        let resources = format!(r#"{{"requests":{{"memory":"{memory}"}},"limits":{{"memory":"{limit}"}}}}"#);
        pod(&format!(r#"{{"containers":[{{"name":"c",{policy},"resources":{resources}}},{{"name":"d"}}]}}"#))
    };
    let is_infeasible = |node: &NodeView<'_>, wanted: &Value, given: &Value| {
        infeasible(node, &Pod::read(wanted), &Pod::read(given)).is_some()
    };
    let given = of("1Gi", "4Gi", "NotRequired");
    assert!(is_infeasible(&node, &of("2Gi", "4Gi", "NotRequired"), &given));
    assert!(!is_infeasible(&node, &of("1Gi", "5Gi", "NotRequired"), &given), "its limit may change");
    assert!(!is_infeasible(&node, &of("1024Mi", "4Gi", "NotRequired"), &given));
    let by_restart = [of("2Gi", "4Gi", "RestartContainer"), of("1Gi", "4Gi", "RestartContainer")];
    assert!(!is_infeasible(&node, &by_restart[0], &by_restart[1]));
    assert!(!is_infeasible(&NodeView { cgroup_v2: false, ..node }, &of("2Gi", "4Gi", "NotRequired"), &given));
    // One that asks for all it may use does not swap: neither before nor after.
    let full = |memory: &str| of(memory, memory, "NotRequired");
    assert!(!is_infeasible(&node, &full("2Gi"), &full("1Gi")));
    assert!(is_infeasible(&node, &of("1Gi", "2Gi", "NotRequired"), &full("2Gi")));
}
