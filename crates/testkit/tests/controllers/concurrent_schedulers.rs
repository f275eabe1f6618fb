//! Two independent schedulers that compete for the same pods and full nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Answer, Client, Target};
use env::Env;
use parking_lot::Mutex;
use serde_json::Value;
use testkit::TestCluster;
use testkit::faults::{Faults, Plan};
use testkit::forward::{Forward, Verb, Wrapping};

use crate::scheduler_faults::{half_cpu_set, nodes_ready, start_without_scheduler};
use crate::scheduling::start_with;

const PODS: &str = "/api/v1/namespaces/default/pods";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

const NODES: usize = 4;
/// Of half a cpu each, on a node of two.
const PODS_A_NODE: usize = 4;

/// What came of the bindings both tried.
#[derive(Default)]
struct Bindings {
    /// By pod.
    done: BTreeMap<String, usize>,
    conflicts: u64,
}

/// Bindings take their time on the way, now more, now less: now this one wins, now the other.
struct Counting {
    env: Env,
    inner: Arc<dyn Client>,
    bindings: Arc<Mutex<Bindings>>,
}

impl Forward for Counting {
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
            let binds = verb == Verb::Act && target.subresource == "binding";
            if binds {
                self.env.sleep(Duration::from_millis(self.env.random_below(40))).await;
            }
            let answer = call.await;
            if binds {
                let mut bindings = self.bindings.lock();
                match &answer {
                    Ok(_) => *bindings.done.entry(target.name.to_owned()).or_default() += 1,
                    Err(status) => bindings.conflicts += u64::from(status.code == 409),
                }
            }
            answer
        })
    }
}

async fn pods(cluster: &TestCluster) -> Vec<Value> {
    cluster.get(PODS).await.json()["items"].as_array().cloned().unwrap_or_default()
}

/// Nodes that hold more than they can, of pods that have not ended.
fn overfull(pods: &[Value]) -> Vec<String> {
    let mut on_node = BTreeMap::<&str, usize>::new();
    for pod in pods.iter().filter(|pod| pod["status"]["phase"] != "Failed") {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            *on_node.entry(node).or_default() += 1;
        }
    }
    on_node.into_iter().filter(|(_, pods)| *pods > PODS_A_NODE).map(|(node, _)| node.to_owned()).collect()
}

/// The binding lets only one of them have a pod; that both gave away the same room is found by the node, which refuses what
/// came last, so that it is made and placed again.
#[tokio::test(start_paused = true)]
async fn several_schedulers_bind_each_pod_once_and_never_overfill_for_long() {
    let (mut conflicts, mut overfilled) = (0, 0);
    for seed in 5..13 {
        println!("seed {seed}");
        let seen = full_house(seed).await;
        conflicts += seen.conflicts;
        overfilled += u64::from(seen.overfilled);
    }
    println!("{conflicts} conflicts, nodes overfull in {overfilled} of 8 worlds");
    assert!(conflicts > 0, "the test is too easy: they never wanted the same pod");
    assert!(overfilled > 0, "the test is too easy: no node was ever overfull");
}

struct Seen {
    conflicts: u64,
    overfilled: bool,
}

/// Two schedulers and as many pods as there is room for.
async fn full_house(seed: u64) -> Seen {
    let cluster = TestCluster::simulated(seed).await;
    let plane = start_without_scheduler(&cluster, NODES);
    nodes_ready(&cluster, NODES).await;

    // Each sees what the other did only when it has long decided.
    let bindings = Arc::new(Mutex::new(Bindings::default()));
    let wrap = {
        let (env, bindings) = (cluster.env().clone(), bindings.clone());
        move |inner| Counting { env: env.clone(), inner, bindings: bindings.clone() }
    };
    let counting = Arc::new(Wrapping { inner: cluster.local_clients(), wrap });
    let late = Plan { stale: Duration::from_millis(50), ..Plan::default() };
    let schedulers =
        [(); 2].map(|()| start_with(&cluster, &*Faults::new(cluster.env(), counting.clone(), late.clone())));

    // Exactly as many as there is room for: one too many anywhere is one too few elsewhere.
    let replicas = NODES * PODS_A_NODE;
    cluster.post(REPLICA_SETS, half_cpu_set("web", replicas)).await.ok(201);

    let step = Duration::from_millis(10);
    let (mut node_of, mut overfull_for, mut overfilled) = (BTreeMap::new(), Duration::ZERO, false);
    let mut ready = false;
    for _ in 0..60_000 {
        let pods = pods(&cluster).await;
        for pod in &pods {
            let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let first = node_of.entry(name).or_insert_with(|| node.to_owned());
            assert_eq!(first, node, "a pod moved");
        }
        let now = overfull(&pods);
        overfull_for = if now.is_empty() { Duration::ZERO } else { overfull_for + step };
        overfilled |= !now.is_empty() || pods.iter().any(|pod| pod["status"]["reason"] == "OutOfcpu");
        assert!(overfull_for < Duration::from_secs(5), "{now:?} are overfull and stay so");
        let set = cluster.get(format!("{REPLICA_SETS}/web")).await.json();
        ready = set["status"]["readyReplicas"] == replicas && now.is_empty();
        if ready {
            break;
        }
        cluster.env().sleep(step).await;
    }
    assert!(ready, "some never found room");
    let conflicts = {
        let bindings = bindings.lock();
        assert!(bindings.done.values().all(|times| *times == 1), "{:?}", bindings.done);
        assert_eq!(bindings.done.len(), node_of.len(), "every pod with a node was bound by one of them");
        let refused: u64 = schedulers.iter().map(|running| bind_errors(&running.metrics().render())).sum();
        assert_eq!(refused, bindings.conflicts, "every refusal is counted");
        refused
    };
    for running in schedulers {
        running.stop().await;
    }
    plane.stop().await;
    cluster.shutdown().await;
    Seen { conflicts, overfilled }
}

fn bind_errors(metrics: &str) -> u64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix("scheduler_bind_errors_total "));
    value.and_then(|value| value.parse().ok()).expect("it is counted")
}
