//! The scheduler with a whole server: pods are bound or say why not, are woken, and preempt.

use std::sync::Arc;
use std::time::Duration;

use client::Clients;
use runtime::{Informers, Stopper};
use scheduler::{Config, Metrics, Scheduler};
use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::faults::{Faults, Plan};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

/// A scheduler of its own, with its own identity and informers.
pub struct Running {
    scheduler: Scheduler,
    informers: Arc<Informers>,
    stopper: Stopper,
}

fn start(cluster: &TestCluster) -> Running {
    start_with(cluster, &*cluster.local_clients())
}

pub fn start_with(cluster: &TestCluster, clients: &dyn Clients) -> Running {
    start_configured(cluster, clients, Config::default())
}

pub fn start_configured(cluster: &TestCluster, clients: &dyn Clients, config: Config) -> Running {
    let (stopper, stop) = Stopper::new();
    let client = clients.user(scheduler::USER, &[]);
    let informers = Informers::new(cluster.env().clone(), client.clone(), stop.clone());
    let scheduler = scheduler::start(cluster.env(), client, &informers, config, stop);
    Running { scheduler, informers, stopper }
}

impl Running {
    pub fn metrics(&self) -> &Metrics {
        &self.scheduler.metrics
    }

    /// In the middle of whatever it does.
    fn kill(self) {
        self.scheduler.tasks.into_iter().chain(self.informers.take_tasks()).for_each(|task| task.abort());
    }

    pub async fn stop(self) {
        self.stopper.stop();
        for task in self.scheduler.tasks.into_iter().chain(self.informers.take_tasks()) {
            task.await.expect("a task of the scheduler panicked");
        }
    }
}

pub async fn add_node(cluster: &TestCluster, name: &str, spec: Value) {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec.clone(),
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"},
                   "capacity": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
    });
    cluster.post(NODES, node).await.ok(201);
    // Admission takes every new node for not ready; no controller here finds out that it is.
    let taints = spec.get("taints").cloned().unwrap_or(Value::Null);
    cluster.merge(format!("{NODES}/{name}"), json!({"spec": {"taints": taints}})).await.ok(200);
}

pub fn pod(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}]}})
}

pub async fn get_pod(cluster: &TestCluster, name: &str) -> Value {
    cluster.get(format!("{PODS}/{name}")).await.json()
}

/// Waits until the pod is as wanted, in virtual time.
pub async fn until(cluster: &TestCluster, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..20_000 {
        let pod = get_pod(cluster, name).await;
        if wanted(&pod) {
            return pod;
        }
        cluster.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} never {what}: {}", get_pod(cluster, name).await);
}

fn on(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or("")
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|c| c["type"] == kind)).unwrap_or(&Value::Null)
}

async fn events(cluster: &TestCluster, reason: &str) -> Vec<Value> {
    cluster.env().sleep(Duration::from_millis(100)).await;
    let events = cluster.get("/api/v1/namespaces/default/events").await.json();
    let all = events["items"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|e| e["reason"] == reason).collect()
}

async fn messages(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let events = events(cluster, reason).await;
    events.iter().map(|e| e["message"].as_str().unwrap_or("").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_with_an_event() {
    let cluster = TestCluster::simulated(1).await;
    add_node(&cluster, "n1", json!({})).await;
    let running = start(&cluster);
    cluster.post(PODS, pod("a", "1")).await.ok(201);
    let bound = until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    assert_eq!(condition(&bound, "PodScheduled")["status"], "True");
    assert_eq!(messages(&cluster, "Scheduled").await, ["Successfully assigned default/a to n1"]);
    // Read as a core event, written as one of events.k8s.io.
    let event = &events(&cluster, "Scheduled").await[0];
    for (member, wanted) in [
        ("action", json!("Binding")),
        ("reportingComponent", json!("default-scheduler")),
        ("reportingInstance", json!("default-scheduler-simulated")),
        ("source", json!({})),
        ("firstTimestamp", json!(null)),
        ("lastTimestamp", json!(null)),
        ("count", json!(null)),
        ("series", json!(null)),
    ] {
        assert_eq!(event[member], wanted, "{member} of {event}");
    }
    assert!(event["eventTime"].is_string());
    assert!(event["involvedObject"]["resourceVersion"].is_string());
    assert_eq!(running.scheduler.metrics.attempts("scheduled"), 1);
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_says_why_and_is_bound_once_it_fits() {
    let cluster = TestCluster::simulated(2).await;
    let running = start(&cluster);
    cluster.post(PODS, pod("a", "1")).await.ok(201);
    let why = |p: &Value| condition(p, "PodScheduled")["message"].as_str().unwrap_or("").to_owned();
    let waits = until(&cluster, "a", "said why", |p| !why(p).is_empty()).await;
    assert_eq!(why(&waits), "no nodes available to schedule pods");
    assert_eq!(condition(&waits, "PodScheduled")["reason"], "Unschedulable");

    add_node(&cluster, "n1", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})).await;
    let tainted = "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/1 nodes are available: \
                   1 Preemption is not helpful for scheduling.";
    until(&cluster, "a", "saw the taint", |p| why(p) == tainted).await;
    assert!(messages(&cluster, "FailedScheduling").await.contains(&tainted.to_owned()));

    cluster.merge(format!("{NODES}/n1"), json!({"spec": {"taints": null}})).await.ok(200);
    until(&cluster, "a", "got the node", |p| on(p) == "n1").await;

    // A cordoned node is no place until it is opened again.
    cluster.merge(format!("{NODES}/n1"), json!({"spec": {"unschedulable": true}})).await.ok(200);
    cluster.post(PODS, pod("b", "1")).await.ok(201);
    until(&cluster, "b", "said why", |p| why(p).contains("node(s) were unschedulable")).await;
    cluster
        .merge(format!("{NODES}/n1"), json!({"spec": {"unschedulable": null, "taints": null}}))
        .await
        .ok(200);
    until(&cluster, "b", "got the node", |p| on(p) == "n1").await;
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_of_a_pod_are_an_event_series() {
    let cluster = TestCluster::simulated(21).await;
    add_node(&cluster, "n1", json!({})).await;
    let running = start(&cluster);
    cluster.post(PODS, pod("big", "3")).await.ok(201);
    until(&cluster, "big", "said why", |p| condition(p, "PodScheduled")["status"] == "False").await;
    // Looked at again every five minutes; the condition was written after the first event, so the second is of another
    // version of the pod, and the third makes a series.
    cluster.env().sleep(Duration::from_secs(17 * 60)).await;
    let told = events(&cluster, "FailedScheduling").await;
    let counts: Vec<&Value> = told.iter().map(|e| &e["series"]["count"]).collect();
    assert_eq!(counts, [&json!(null), &json!(2)], "{told:#?}");
    assert!(told.iter().all(|e| e["action"] == "Scheduling"));
    // While the series goes on it is written every half hour, and nothing else is.
    let before = cluster.api().registry().table().revision().0;
    cluster.env().sleep(Duration::from_secs(40 * 60)).await;
    assert_eq!(cluster.api().registry().table().revision().0 - before, 1);

    cluster
        .merge(format!("{NODES}/n1/status"), json!({"status": {"allocatable": {"cpu": "4"}}}))
        .await
        .ok(200);
    let bound = until(&cluster, "big", "got a node", |p| on(p) == "n1").await;
    let scheduled = condition(&bound, "PodScheduled");
    assert_eq!(scheduled["status"], "True");
    for member in ["observedGeneration", "reason", "message"] {
        assert!(scheduled.get(member).is_none(), "{scheduled}");
    }
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn scheduling_gates_hold_a_pod_until_they_are_removed() {
    let cluster = TestCluster::simulated(3).await;
    add_node(&cluster, "n1", json!({})).await;
    let running = start(&cluster);
    let mut gated = pod("a", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.post(PODS, gated).await.ok(201);
    cluster.env().sleep(Duration::from_secs(60)).await;
    let waits = get_pod(&cluster, "a").await;
    assert_eq!(on(&waits), "");
    assert_eq!(condition(&waits, "PodScheduled")["reason"], "SchedulingGated");
    cluster.merge(format!("{PODS}/a"), json!({"spec": {"schedulingGates": null}})).await.ok(200);
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_higher_priority_preempts_and_waits_for_the_room() {
    let cluster = TestCluster::simulated(4).await;
    add_node(&cluster, "n1", json!({})).await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    cluster.post(classes, json!({"metadata": {"name": "high"}, "value": 1000})).await.ok(201);
    let running = start(&cluster);
    cluster.post(PODS, pod("low", "2")).await.ok(201);
    until(&cluster, "low", "got a node", |p| on(p) == "n1").await;

    let mut high = pod("high", "1500m");
    high["spec"]["priorityClassName"] = json!("high");
    cluster.post(PODS, high).await.ok(201);
    until(&cluster, "high", "was promised the node", |p| p["status"]["nominatedNodeName"] == "n1").await;
    let victim =
        until(&cluster, "low", "was deleted", |p| !p["metadata"]["deletionTimestamp"].is_null()).await;
    let disrupted = condition(&victim, "DisruptionTarget");
    assert_eq!(disrupted["reason"], "PreemptionByScheduler");
    assert_eq!(disrupted["message"], "default-scheduler: preempting to accommodate a higher priority pod");
    assert_eq!(disrupted["observedGeneration"], 1);
    assert_eq!(victim["status"]["conditions"].as_array().unwrap().last(), Some(disrupted));
    let told = &events(&cluster, "Preempted").await[0];
    assert_eq!((&told["action"], &told["related"]["name"]), (&json!("Preempting"), &json!("high")));
    assert_eq!(told["involvedObject"]["name"], "low");
    let uid = get_pod(&cluster, "high").await["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(messages(&cluster, "Preempted").await, [format!("Preempted by pod {uid} on node n1")]);

    // The room is not given to somebody less important meanwhile.
    cluster.post(PODS, pod("small", "1")).await.ok(201);
    let now = json!({"gracePeriodSeconds": 0});
    cluster.request("DELETE", format!("{PODS}/low")).json(&now).send().await.ok(200);
    until(&cluster, "high", "got the node", |p| on(p) == "n1").await;
    assert_eq!(on(&get_pod(&cluster, "small").await), "");
    running.stop().await;
    cluster.shutdown().await;
}

/// Twelve pods of half a cpu on four nodes of two; a scheduler with these faults, then one without.
async fn twelve_pods(seed: u64, plan: Plan, kill: bool) {
    let cluster = TestCluster::simulated(seed).await;
    for n in 0..4 {
        add_node(&cluster, &format!("n{n}"), json!({})).await;
    }
    let clients = cluster.local_clients();
    let faults = Faults::new(cluster.env(), clients, plan.clone());
    let faulty = start_with(&cluster, &*faults);
    for n in 0..12 {
        cluster.post(PODS, pod(&format!("p{n}"), "500m")).await.ok(201);
    }
    let mut last = None;
    if kill {
        cluster.env().sleep(Duration::from_secs(30)).await;
        faulty.kill();
        last = Some(start(&cluster));
    } else {
        last.replace(faulty);
    }
    let mut on_node = std::collections::BTreeMap::new();
    for n in 0..12 {
        let bound = until(&cluster, &format!("p{n}"), "got a node", |p| !on(p).is_empty()).await;
        *on_node.entry(on(&bound).to_owned()).or_insert(0) += 1;
    }
    assert!(on_node.values().all(|pods| *pods <= 4), "{plan:?}: {on_node:?}");
    last.expect("one runs").stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_lost_answers_and_late_events_place_the_same_pods() {
    let plans = [
        Plan { conflict_every: Some(3), ..Plan::default() },
        Plan { lose_answer_every: Some(4), ..Plan::default() },
        Plan { stale: Duration::from_millis(50), ..Plan::default() },
        Plan { lose_event_every: Some(7), ..Plan::default() },
        Plan { conflict_every: Some(2), stale: Duration::from_millis(20), ..Plan::default() },
    ];
    for (n, plan) in plans.into_iter().enumerate() {
        twelve_pods(20 + n as u64, plan, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_places_the_same_pods_on_the_same_nodes() {
    let mut placed = Vec::new();
    for _ in 0..2 {
        let cluster = TestCluster::simulated(60).await;
        for n in 0..6 {
            add_node(&cluster, &format!("n{n}"), json!({})).await;
        }
        let running = start(&cluster);
        for n in 0..20 {
            cluster.post(PODS, pod(&format!("p{n}"), "100m")).await.ok(201);
        }
        let mut nodes = Vec::new();
        for n in 0..20 {
            let bound = until(&cluster, &format!("p{n}"), "got a node", |p| !on(p).is_empty()).await;
            nodes.push(on(&bound).to_owned());
        }
        placed.push(nodes);
        running.stop().await;
        cluster.shutdown().await;
    }
    assert_eq!(placed[0], placed[1]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_binding_is_reported_and_retried() {
    let cluster = TestCluster::simulated(61).await;
    add_node(&cluster, "n1", json!({})).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let role = cluster.get(format!("{roles}/clusterroles/system:kube-scheduler")).await.json();
    let mut fewer = role["rules"].clone();
    fewer
        .as_array_mut()
        .unwrap()
        .retain(|r| !r["resources"].as_array().unwrap().contains(&json!("pods/binding")));
    let path = format!("{roles}/clusterroles/system:kube-scheduler");
    cluster.merge(&path, json!({"rules": fewer})).await.ok(200);
    let running = start(&cluster);
    cluster.post(PODS, pod("a", "1")).await.ok(201);
    let told =
        until(&cluster, "a", "said why", |p| condition(p, "PodScheduled")["reason"] == "SchedulerError");
    let message = condition(&told.await, "PodScheduled")["message"].as_str().unwrap().to_owned();
    assert!(
        message.starts_with("running Bind plugin \"DefaultBinder\": pods \"a\" is forbidden"),
        "{message}"
    );
    cluster.merge(&path, json!({"rules": role["rules"]})).await.ok(200);
    until(&cluster, "a", "got a node", |p| on(p) == "n1").await;
    running.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_the_next_scheduler_continues() {
    for last_write in [1, 2, 3, 7, 11] {
        twelve_pods(40, Plan { die_after: Some(last_write), ..Plan::default() }, true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_scheduler_continues_where_another_stopped() {
    let cluster = TestCluster::simulated(6).await;
    add_node(&cluster, "n1", json!({})).await;
    let first = start(&cluster);
    for n in 0..3 {
        cluster.post(PODS, pod(&format!("p{n}"), "1")).await.ok(201);
    }
    cluster.env().sleep(Duration::from_secs(5)).await;
    first.stop().await;
    let second = start(&cluster);
    cluster.env().sleep(Duration::from_secs(5)).await;
    let pods = cluster.get(PODS).await.json();
    let bound = pods["items"].as_array().unwrap().iter().filter(|p| on(p) == "n1").count();
    assert_eq!(bound, 2, "two cpus are two pods");
    let writes = |c: &TestCluster| c.api().registry().table().revision();
    // The third is looked at again after five minutes, and its event becomes a series.
    cluster.env().sleep(Duration::from_secs(400)).await;
    let before = writes(&cluster);
    cluster.env().sleep(Duration::from_secs(900)).await;
    assert_eq!(writes(&cluster), before, "nothing changes, nothing is written");
    second.stop().await;
    cluster.shutdown().await;
}
