//! A server that answers a patch with the version the object had before, as when the patch completes a deletion: the revision of
//! the response is then not enough for a controller.

use std::sync::Arc;
use std::time::Duration;

use client::{Answer, Client, Clients, Patch, Target, Watch, WatchOptions, WriteOptions};
use object::Obj;
use serde_json::json;
use testkit::TestCluster;
use testkit::faults::{Faults, Plan};
use testkit::forward::{Forward, Wrapping};

use plane::{Plane, Settings};

use crate::batch_steps::{PODS, items, set_status, steady, succeeded, until};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

struct OldAnswer {
    inner: Arc<dyn Client>,
    /// May read everything, and sees it late; pods are watched through it.
    late: Arc<dyn Client>,
}

impl Forward for OldAnswer {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        let pods = target.resource.plural == "pods";
        if pods { self.late.watch(target, options) } else { self.inner.watch(target, options) }
    }
    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            let before = self.late.get(target).await?;
            self.inner.patch(target, patch, options).await.map(|_| before)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_counts_each_pod_once_despite_a_stale_cache() {
    let cluster = TestCluster::simulated(41).await;
    let late = Plan { stale: Duration::from_secs(3), ..Plan::default() };
    let late = Faults::new(cluster.env(), cluster.local_clients(), late).user("admin", &["system:masters"]);
    let wrap = move |inner| OldAnswer { inner, late: late.clone() };
    let clients = Wrapping { inner: cluster.local_clients(), wrap };
    let plane = cluster.controllers(Arc::new(clients), &["job-controller"]);
    let template = json!({"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox"}],
    }});
    let spec = json!({"completions": 8, "parallelism": 8, "template": template});
    cluster.post(JOBS, json!({"metadata": {"name": "once"}, "spec": spec})).await.ok(201);
    let mut done = 0;
    while done < 8 {
        let pods = items(&cluster, PODS).await;
        let waits = pods.iter().find(|pod| pod["status"]["phase"] == "Pending");
        if let Some(pod) = waits {
            set_status(&cluster, pod, succeeded()).await;
            done += 1;
        }
        cluster.env().sleep(Duration::from_millis(700)).await;
        let counted = cluster.get(format!("{JOBS}/once")).await.json();
        let counted = counted["status"]["succeeded"].as_i64().unwrap_or(0);
        assert!(counted <= done, "{counted} are counted, {done} succeeded");
    }
    let ended = |job: &serde_json::Value| !job["status"]["completionTime"].is_null();
    let job = until(&cluster, &format!("{JOBS}/once"), "the end of the Job", ended).await;
    assert_eq!(job["status"]["succeeded"], 8, "{job:#}");
    assert_eq!(items(&cluster, PODS).await.len(), 8);
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// Pods are seen three seconds late, and the answers to patches are old: an update still takes one pod at a time.
#[tokio::test(start_paused = true)]
async fn a_stateful_set_replaces_one_pod_at_a_time_despite_a_stale_cache() {
    use crate::statefulsets::{SETS, WEB, set, settled};
    use crate::workloads::is_ready;

    let cluster = TestCluster::simulated(42).await;
    let choice = crate::faults::chosen(&["*", "-statefulset-controller"]);
    let settings = Settings { choice, nodes: Some(testkit::nodes(3)), ..Settings::default() };
    let others = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let late = Plan { stale: Duration::from_secs(3), ..Plan::default() };
    let late = Faults::new(cluster.env(), cluster.local_clients(), late).user("admin", &["system:masters"]);
    let wrap = move |inner| OldAnswer { inner, late: late.clone() };
    let clients = Wrapping { inner: cluster.local_clients(), wrap };
    let plane = cluster.controllers(Arc::new(clients), &["statefulset-controller"]);
    cluster.post(SETS, set(4, json!({"podManagementPolicy": "Parallel"}))).await.ok(201);
    cluster.env().sleep(Duration::from_secs(60)).await;
    settled(&cluster).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    cluster.merge(WEB, image).await.ok(200);
    let (mut worst, mut done) = (0, false);
    while !done {
        let pods = items(&cluster, PODS).await;
        let is_up =
            |pod: &&serde_json::Value| is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null();
        worst = worst.max(4 - pods.iter().filter(is_up).count());
        let web = cluster.get(WEB).await.json();
        done = web["status"]["currentRevision"] == web["status"]["updateRevision"]
            && web["status"]["observedGeneration"] == 2;
        cluster.env().sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(worst, 1, "so many were away at once");
    settled(&cluster).await;
    plane.stop().await;
    others.stop().await;
    cluster.shutdown().await;
}

/// The same of a DaemonSet: one pod on each node at any time, and one away at once while it is updated.
#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_one_pod_on_each_node_despite_a_stale_cache() {
    use crate::daemonsets::{SETS, set, wait_for};
    use crate::workloads::is_ready;

    let cluster = TestCluster::simulated(43).await;
    let choice = crate::faults::chosen(&["*", "-daemonset-controller"]);
    let settings = Settings { choice, nodes: Some(testkit::nodes(4)), ..Settings::default() };
    let others = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let late = Plan { stale: Duration::from_secs(3), ..Plan::default() };
    let late = Faults::new(cluster.env(), cluster.local_clients(), late).user("admin", &["system:masters"]);
    let wrap = move |inner| OldAnswer { inner, late: late.clone() };
    let clients = Wrapping { inner: cluster.local_clients(), wrap };
    let plane = cluster.controllers(Arc::new(clients), &["daemonset-controller"]);
    cluster.post(SETS, set("agent", json!({}))).await.ok(201);
    wait_for(&cluster, "agent", 4).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    cluster.merge(format!("{SETS}/agent"), image).await.ok(200);
    let (mut worst, mut done) = (0, false);
    while !done {
        let pods = items(&cluster, PODS).await;
        let stay = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let mut nodes: Vec<_> = stay.clone().map(|pod| &pod["spec"]["affinity"]).collect();
        let all = nodes.len();
        nodes.sort_by_key(|affinity| affinity.to_string());
        nodes.dedup();
        assert_eq!(nodes.len(), all, "two for one node");
        worst = worst.max(4 - stay.filter(|pod| is_ready(pod)).count());
        let agent = cluster.get(format!("{SETS}/agent")).await.json();
        done = agent["status"]["updatedNumberScheduled"] == 4
            && agent["status"]["numberReady"] == 4
            && agent["status"]["observedGeneration"] == 2;
        cluster.env().sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(worst, 1, "so many were away at once");
    wait_for(&cluster, "agent", 4).await;
    plane.stop().await;
    others.stop().await;
    cluster.shutdown().await;
}

/// The pod's status, which names its claim, is seen late, and the answer to its patch is old: there is one claim all the same.
#[tokio::test(start_paused = true)]
async fn a_pod_gets_one_claim_despite_a_stale_cache() {
    use crate::resource_claims::{CLAIMS, named, pod, template};

    let cluster = TestCluster::simulated(44).await;
    let late = Plan { stale: Duration::from_secs(3), ..Plan::default() };
    let late = Faults::new(cluster.env(), cluster.local_clients(), late).user("admin", &["system:masters"]);
    let wrap = move |inner| OldAnswer { inner, late: late.clone() };
    let clients = Wrapping { inner: cluster.local_clients(), wrap };
    let plane = cluster.controllers(Arc::new(clients), &["resourceclaim-controller"]);
    template(&cluster).await;
    cluster.post(PODS, pod("a")).await.ok(201);
    for step in 0..100 {
        assert!(items(&cluster, CLAIMS).await.len() <= 1);
        // Whatever wakes the controller.
        let label = json!({"metadata": {"labels": {"step": step.to_string()}}});
        cluster.merge(format!("{PODS}/a"), label).await.ok(200);
        cluster.env().sleep(Duration::from_millis(100)).await;
    }
    until(&cluster, &format!("{PODS}/a"), "the claim's name", |pod| named(pod).is_some()).await;
    assert_eq!(items(&cluster, CLAIMS).await.len(), 1);
    plane.stop().await;
    cluster.shutdown().await;
}

/// Sees pods late, and everything else at once.
struct LatePods {
    inner: Arc<dyn Client>,
    late: Arc<dyn Client>,
}

impl Forward for LatePods {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        let pods = target.resource.plural == "pods";
        if pods { self.late.watch(target, options) } else { self.inner.watch(target, options) }
    }
}

/// Pods are seen three seconds late, their quota at once: what was charged for them is never taken back.
#[tokio::test(start_paused = true)]
async fn a_quota_keeps_its_charges_despite_a_stale_cache() {
    const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";
    let cluster = TestCluster::with_accounts(env::Env::simulated(43), |_| {}).await;
    let late = Plan { stale: Duration::from_secs(3), ..Plan::default() };
    let late = Faults::new(cluster.env(), cluster.local_clients(), late).user("admin", &["system:masters"]);
    let wrap = move |inner| LatePods { inner, late: late.clone() };
    let clients = Wrapping { inner: cluster.local_clients(), wrap };
    let plane = cluster.controllers(Arc::new(clients), &["resourcequota-controller"]);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "20", "services": "5"}}});
    cluster.post("/api/v1/namespaces/default/resourcequotas", quota).await.ok(201);
    let used = async || {
        let used = cluster.get(QUOTA).await.ok(200)["status"]["used"]["pods"].clone();
        used.as_str().and_then(|used| used.parse::<usize>().ok())
    };
    for n in 0..9 {
        let pod = json!({"metadata": {"name": format!("p-{n}")}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        cluster.post(PODS, pod).await.ok(201);
        if n % 3 == 2 {
            cluster.delete(format!("{PODS}/p-{}?gracePeriodSeconds=0", n - 1)).await.ok(200);
        }
        for _ in 0..7 {
            let (there, used) = (items(&cluster, PODS).await.len(), used().await);
            assert!(used.is_none_or(|used| used >= there), "{used:?} of {there} are charged");
            cluster.env().sleep(Duration::from_millis(100)).await;
        }
    }
    until(&cluster, QUOTA, "the right usage", |quota| quota["status"]["used"]["pods"] == "6").await;
    plane.stop().await;
    cluster.shutdown().await;
}
