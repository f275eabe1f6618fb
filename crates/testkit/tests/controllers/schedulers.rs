//! A scheduler whose calls panic, and one that is not alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use client::{Answer, Client, Target, WriteOptions};
use object::Value;
use serde_json::{Value as Json, json};
use testkit::TestCluster;
use testkit::forward::{Forward, Verb, Wrapping};

use crate::scheduling::{Running, add_node, get_pod, pod, start_with, until};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The first calls that bind panic.
    Panics(usize),
    /// Just before the scheduler says that a pod has no node, somebody gives it one.
    BoundByAnother,
}

struct Troubled {
    inner: Arc<dyn Client>,
    other: Arc<dyn Client>,
    trouble: Trouble,
    met: Arc<AtomicUsize>,
}

impl Forward for Troubled {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        target: Target<'a>,
        call: Answer<'a, T>,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let says_why = target.resource.plural == "pods" && target.subresource == "status";
            match (self.trouble, verb) {
                (Trouble::BoundByAnother, Verb::Patch) if says_why && self.met.fetch_add(1, SeqCst) == 0 => {
                    let mut binding = Value::map();
                    binding.map_at(&["metadata"]).set("name", target.name.to_owned());
                    binding.map_at(&["target"]).set("kind", "Node");
                    binding.map_at(&["target"]).set("name", "n1");
                    let bound = self.other.act(target.sub("binding"), binding, WriteOptions::default()).await;
                    bound.expect("the other scheduler may bind");
                }
                (Trouble::Panics(times), Verb::Act) if self.met.fetch_add(1, SeqCst) < times => {
                    panic!("on purpose, in the middle of a binding");
                }
                _ => {}
            }
            call.await
        })
    }
}

/// A scheduler with that trouble; what it met with is counted.
fn start_troubled(cluster: &TestCluster, trouble: Trouble) -> (Running, Arc<AtomicUsize>) {
    let (inner, met) = (cluster.local_clients(), Arc::new(AtomicUsize::new(0)));
    let other = inner.user(scheduler::USER, &[]);
    let wrap = |inner| Troubled { inner, other: other.clone(), trouble, met: met.clone() };
    (start_with(cluster, &Wrapping { inner, wrap }), met)
}

fn scheduled(pod: &Json) -> &Json {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|c| c["type"] == "PodScheduled")).unwrap_or(&Json::Null)
}

#[tokio::test(start_paused = true)]
async fn a_panicking_binding_is_retried_and_its_resources_released() {
    let cluster = TestCluster::simulated(61).await;
    add_node(&cluster, "n1", json!({})).await;
    let (running, met) = start_troubled(&cluster, Trouble::Panics(2));
    // It fills the node: were it counted there for ever, it could never come again.
    cluster.post(PODS, pod("a", "2")).await.ok(201);
    let bound = |pod: &Json| pod["spec"]["nodeName"] == "n1" && scheduled(pod)["status"] == "True";
    until(&cluster, "a", "a bound pod", bound).await;
    assert_eq!(met.load(SeqCst), 3);
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_bound_by_another_scheduler_is_not_reported_unschedulable() {
    let cluster = TestCluster::simulated(62).await;
    add_node(&cluster, "n1", json!({})).await;
    let (running, met) = start_troubled(&cluster, Trouble::BoundByAnother);
    cluster.post(PODS, pod("a", "100")).await.ok(201);
    until(&cluster, "a", "a bound pod", |pod| pod["spec"]["nodeName"] == "n1").await;
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert!(met.load(SeqCst) >= 1);
    let bound = get_pod(&cluster, "a").await;
    assert_eq!(scheduled(&bound)["status"], "True", "{bound:#}");
    // Somebody else's writes to a pod that waits are no reason to say nothing.
    cluster.post(PODS, pod("b", "100")).await.ok(201);
    until(&cluster, "b", "why it waits", |pod| scheduled(pod)["reason"] == "Unschedulable").await;
    running.stop().await;
    cluster.shutdown().await;
}

/// Lines of a metric, without the values of those that measure time.
fn has(metrics: &str, line: &str) -> bool {
    metrics.lines().any(|l| l.starts_with(line))
}

#[tokio::test(start_paused = true)]
async fn debug_shows_pending_pods_reasons_and_decisions() {
    let cluster = TestCluster::simulated(63).await;
    add_node(&cluster, "n1", json!({})).await;
    let choice = plane::ControllerSelection::new(vec!["scheduler".to_owned()]).expect("a choice");
    let settings = plane::Settings { choice, trust: cluster.trust(), ..plane::Settings::default() };
    let plane = plane::Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let mut gated = pod("gated", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    for pod in [pod("small", "1"), pod("large", "100"), gated] {
        cluster.post(PODS, pod).await.ok(201);
    }
    until(&cluster, "small", "a bound pod", |pod| pod["spec"]["nodeName"] == "n1").await;
    until(&cluster, "large", "why it waits", |pod| scheduled(pod)["reason"] == "Unschedulable").await;
    cluster.env().sleep(Duration::from_secs(20)).await;

    let shown = codec::json::to_vec(&plane.controllers());
    let shown: Json = serde_json::from_slice(&shown).expect("JSON");
    let scheduler = &shown["scheduler"];
    let lengths = |name: &str| scheduler["queues"][name]["length"].as_i64();
    assert_eq!((lengths("active"), lengths("backoff")), (Some(0), Some(0)), "{scheduler:#}");
    assert_eq!((lengths("unschedulable"), lengths("gated")), (Some(1), Some(1)), "{scheduler:#}");
    let large = &scheduler["queues"]["unschedulable"]["first"][0];
    assert_eq!(large["pod"], "default/large");
    assert_eq!(large["rejectedBy"], json!(["NodeResourcesFit"]));
    assert!(large["said"].as_str().is_some_and(|said| said.contains("Insufficient cpu")), "{large:#}");
    assert_eq!(scheduler["queues"]["gated"]["first"][0]["gates"], json!(["example.com/wait"]));
    let recent = scheduler["recent"].as_array().expect("decisions");
    let of = |name: &str| recent.iter().find(|d| d["pod"] == format!("default/{name}")).expect("decided");
    let small = of("small");
    assert_eq!((&small["decided"], &small["result"]), (&json!("bind to n1"), &json!("bound")));
    assert_eq!((&small["cause"], &small["attempts"]), (&json!("UnschedulablePodAdd"), &json!(1)));
    assert_eq!(of("large")["result"], "said");

    // Room is made, and what made it is the cause.
    let bigger = json!({"status": {"allocatable": {"cpu": "200", "memory": "4Gi", "pods": "10"}}});
    cluster.merge("/api/v1/nodes/n1/status", bigger).await.ok(200);
    until(&cluster, "large", "a bound pod", |pod| pod["spec"]["nodeName"] == "n1").await;
    cluster.env().sleep(Duration::from_secs(1)).await;
    let shown = serde_json::from_slice::<Json>(&codec::json::to_vec(&plane.controllers())).expect("JSON");
    let last = &shown["scheduler"]["recent"][0];
    assert_eq!(
        (&last["pod"], &last["cause"]),
        (&json!("default/large"), &json!("NodeUpdateNodeAllocatable"))
    );

    let mut metrics = String::new();
    plane.metrics(&mut metrics);
    let profile = "profile=\"default-scheduler\"";
    for line in [
        "scheduler_pending_pods{queue=\"gated\"} 1",
        "scheduler_pending_pods{queue=\"unschedulable\"} 0",
        &format!("scheduler_schedule_attempts_total{{{profile},result=\"scheduled\"}} 2"),
        &format!("scheduler_schedule_attempts_total{{{profile},result=\"unschedulable\"}} 1"),
        &format!(
            "scheduler_scheduling_attempt_duration_seconds_bucket{{{profile},result=\"scheduled\",le=\"+Inf\"}} 2"
        ),
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"+Inf\"} 3",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"} 1",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"2\"} 1",
        "scheduler_pod_scheduling_attempts_count",
        "scheduler_queue_incoming_pods_total{event=\"UnschedulablePodAdd\",queue=\"active\"} 2",
        "scheduler_queue_incoming_pods_total{event=\"NodeUpdateNodeAllocatable\",queue=\"active\"} 1",
        "scheduler_queue_incoming_pods_total{event=\"ScheduleAttemptFailure\",queue=\"unschedulable\"} 1",
        "scheduler_preemption_attempts_total 0",
        "scheduler_cache_size{type=\"nodes\"} 1",
        "scheduler_cache_size{type=\"pods\"} 2",
    ] {
        assert!(has(&metrics, line), "{line} is not in:\n{metrics}");
    }
    plane.stop().await;
    cluster.shutdown().await;
}
