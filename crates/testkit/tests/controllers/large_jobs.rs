//! A Job of a million completions, and ten thousand CronJobs at midnight; smaller ones without `SETPOINT_LONG=1`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use client::resources::{JOBS as JOB, PODS as POD};
use client::{Patch, WriteOptions};
use object::{Obj, Value};
use parking_lot::Mutex;
use plane::{Plane, Settings};
use runtime::InformerEvent;
use serde_json::{Value as Json, json};
use testkit::TestCluster;
use tokio::sync::Notify;

use crate::batch_steps::{PODS, items};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn is_long() -> bool {
    std::env::var_os("SETPOINT_LONG").is_some()
}

/// Pods that were not there before; the test is their node.
#[derive(Default)]
struct Arrivals {
    pods: Mutex<Vec<Arc<Obj>>>,
    all: AtomicUsize,
    there: AtomicUsize,
    most: AtomicUsize,
}

impl Arrivals {
    fn hear(&self, event: &InformerEvent<'_>) {
        match event {
            InformerEvent::Added { obj, .. } => {
                self.pods.lock().push((*obj).clone());
                self.all.fetch_add(1, SeqCst);
                let there = self.there.fetch_add(1, SeqCst) + 1;
                self.most.fetch_max(there, SeqCst);
            }
            InformerEvent::Deleted { .. } => {
                self.there.fetch_sub(1, SeqCst);
            }
            InformerEvent::Updated { .. } => {}
        }
    }
}

fn succeeded() -> Value {
    let mut patch = Value::map();
    patch.map_at(&["status"]).set("phase", "Succeeded");
    patch
}

/// Runs a Job to its end and returns it. No pod is made for nothing, pods that are over do not pile up, and the Job stays small.
async fn run_to_the_end(completions: usize, parallelism: usize, mode: &str) -> Json {
    let cluster = TestCluster::simulated(451).await;
    // Pod GC runs every 20 seconds.
    let kept = parallelism;
    let settings =
        controllers::Settings { terminated_pod_gc_threshold: kept, ..controllers::Settings::default() };
    let plane = cluster.controllers_with(&["job-controller", "pod-garbage-collector-controller"], settings);
    let arrivals = Arc::new(Arrivals::default());
    let hears = arrivals.clone();
    let _registration =
        plane.context.informers.of(&POD).add_handler(None, Box::new(move |event| hears.hear(event)));
    let node = cluster.local_clients().user("admin", &["system:masters"]);
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let spec = json!({"completions": completions, "parallelism": parallelism, "completionMode": mode,
        "template": {"spec": pod}});
    cluster.post(JOBS, json!({"metadata": {"name": "large"}, "spec": spec})).await.ok(201);
    let path = format!("{JOBS}/large");
    let (mut seconds, mut largest) = (0, 0);
    let done = loop {
        let pods = std::mem::take(&mut *arrivals.pods.lock());
        for pod in pods {
            let target = POD.of(&pod).sub("status");
            let result = node.patch(target, Patch::Merge(succeeded()), WriteOptions::default()).await;
            result.unwrap_or_else(|status| panic!("{}: {}", pod.name(), status.message));
        }
        cluster.env().sleep(Duration::from_millis(250)).await;
        seconds += 1;
        let job = cluster.get(&path).await.json();
        largest = largest.max(job.to_string().len());
        if !job["status"]["completionTime"].is_null() {
            break job;
        }
        assert!(seconds < 40 * (completions / parallelism + 100), "it does not end: {job:#}");
    };
    println!(
        "{mode}: {completions} completions, {} virtual seconds, at most {} pods at once, a Job of at most {largest} bytes",
        seconds / 4,
        arrivals.most.load(SeqCst)
    );
    assert_eq!(arrivals.all.load(SeqCst), completions, "one pod for each completion");
    // In the 20 seconds between two runs of pod GC, 500 a second can end.
    let most = kept + parallelism + 21 * 500;
    assert!(arrivals.most.load(SeqCst) <= most, "{} pods at once", arrivals.most.load(SeqCst));
    assert!(largest < 64 << 10, "a Job of {largest} bytes");
    for pod in items(&cluster, PODS).await {
        assert!(pod["metadata"]["finalizers"].is_null(), "{pod:#}");
    }
    plane.stop().await;
    cluster.shutdown().await;
    done
}

/// How many completions, and how many at once.
fn size() -> (usize, usize) {
    if is_long() { (1_000_000, 1_000) } else { (8_000, 300) }
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_million_completions_ends() {
    let (completions, parallelism) = size();
    let done = run_to_the_end(completions, parallelism, "NonIndexed").await;
    assert_eq!(done["status"]["succeeded"], completions);
    assert_eq!(done["status"]["uncountedTerminatedPods"], json!({}));
    assert!(done["status"]["failed"].is_null() && done["status"]["active"].is_null(), "{done:#}");
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_of_a_million_completions_ends() {
    let (completions, parallelism) = size();
    let done = run_to_the_end(completions, parallelism, "Indexed").await;
    assert_eq!(done["status"]["succeeded"], completions);
    assert_eq!(done["status"]["completedIndexes"], format!("0-{}", completions - 1));
    assert!(done["status"]["failed"].is_null() && done["status"]["active"].is_null(), "{done:#}");
}

/// A minute before midnight of virtual time, which begins at one.
const BEFORE_MIDNIGHT: i64 = 24 * 3600 - 60;

/// The Deployment is created as soon as the first of them has its Job: its pods come in between those of the others, not after them.
#[tokio::test(start_paused = true)]
async fn cron_jobs_at_midnight_do_not_starve_a_deployment() {
    let count = if is_long() { 10_000 } else { 300 };
    let cluster = TestCluster::simulated(452).await;
    cluster.env().set_clock(BEFORE_MIDNIGHT);
    // Each has room for 110: what the deployment waits for is its turn, not room.
    let settings = Settings { nodes: Some(testkit::nodes(count / 100 + 1)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let looks = cluster.bare_control_plane(cluster.local_clients());
    // In their order: is it one of the Deployment's?
    let pods = Arc::new(Mutex::new(Vec::<bool>::new()));
    let heard = pods.clone();
    let hear = move |event: &InformerEvent<'_>| {
        if let InformerEvent::Added { obj, .. } = event {
            heard.lock().push(obj.label("app") == Some("web"));
        }
    };
    let _registration = looks.context.informers.of(&POD).add_handler(None, Box::new(hear));
    let begun = Arc::new(Notify::new());
    let first = begun.clone();
    let hear = move |event: &InformerEvent<'_>| {
        if let InformerEvent::Added { .. } = event {
            first.notify_one();
        }
    };
    let _jobs = looks.context.informers.of(&JOB).add_handler(None, Box::new(hear));
    let work = json!({"name": "c", "image": "busybox", "command": ["sleep", "300"]});
    let pod = json!({"restartPolicy": "Never", "containers": [work]});
    for at in 0..count {
        let spec = json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}});
        let cron = json!({"metadata": {"name": format!("cron-{at}")}, "spec": spec});
        cluster.post(CRON_JOBS, cron).await.ok(201);
    }
    begun.notified().await;
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    let asked = cluster.env().monotonic();
    cluster.post(DEPLOYMENTS, json!({"metadata": {"name": "web"}, "spec": spec})).await.ok(201);
    cluster
        .until("the deployment is ready", || async {
            cluster.get(format!("{DEPLOYMENTS}/web")).await.json()["status"]["readyReplicas"] == 3
        })
        .await;
    let took = cluster.env().monotonic().saturating_duration_since(asked);
    assert!(took < Duration::from_secs(60), "the deployment was ready after {took:?} of virtual time");
    // All of them run, each once.
    cluster
        .until("every CronJob has its Job", || async {
            let jobs = items(&cluster, JOBS).await;
            jobs.len() == count && jobs.iter().all(|job| job["status"]["active"] == 1)
        })
        .await;
    let jobs = items(&cluster, JOBS).await;
    let owners: BTreeSet<String> =
        jobs.iter().map(|job| job["metadata"]["ownerReferences"][0]["name"].to_string()).collect();
    assert_eq!(owners.len(), count);
    let pods = pods.lock().clone();
    assert_eq!(pods.len(), count + 3);
    let last = pods.iter().rposition(|is_of_deployment| *is_of_deployment).expect("its pods are there");
    println!(
        "the deployment's last pod was number {} of {}, ready after {took:?} of virtual time",
        last + 1,
        pods.len()
    );
    assert!(last < count / 2, "the deployment's last pod was number {} of {}", last + 1, pods.len());
    looks.stop().await;
    plane.stop().await;
    cluster.shutdown().await;
}
