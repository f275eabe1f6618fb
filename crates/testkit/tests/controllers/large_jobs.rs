//! A Job of a million completions; one of some thousand without `SETPOINT_LONG=1`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use client::resources::PODS as POD;
use client::{Patch, WriteOptions};
use object::{Obj, Value};
use parking_lot::Mutex;
use runtime::InformerEvent;
use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{PODS, items};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

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
    if std::env::var_os("SETPOINT_LONG").is_some() { (1_000_000, 1_000) } else { (8_000, 300) }
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
