//! The scheduler with claims, killed after its n-th write, or with conflicts, lost answers and a stale cache: no device is ever given
//! twice, and in the end as many pods have one as there are devices.

use std::time::Duration;

use env::Env;
use plane::Settings;
use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::faults::Plan;
use testkit::journal::Journal;

use crate::device_steps::never_given_twice;
use crate::faults::{chosen, misfortunes, outlive};
use crate::scheduling::add_node;
use crate::scheduling_devices::{
    CLAIMS, PODS, add_claim, add_class, add_slice, held, one, plain_devices, with_claim,
};

const NODES: usize = 2;
const DEVICES: usize = 2;

/// Five pods with claims for three of four devices, two of them sharing one, one with extended resources, and two too many.
async fn pods_come(cluster: &TestCluster) {
    add_class(cluster, "gpu", json!({"extendedResourceName": "example.com/gpu"})).await;
    for n in 0..NODES {
        add_node(cluster, &format!("n{n}"), json!({})).await;
        add_slice(cluster, &format!("n{n}"), plain_devices(DEVICES), json!({})).await;
    }
    for n in 0..5 {
        add_claim(cluster, &format!("c{n}"), one("gpu")).await;
    }
    let amounts = json!({"example.com/gpu": "1"});
    let extended = json!({"metadata": {"name": "extended"}, "spec": {"containers": [
        {"name": "c", "image": "web", "resources": {"requests": amounts, "limits": amounts}}]}});
    cluster.post(PODS, extended).await.ok(201);
    cluster.post(PODS, with_claim("shares", "c0")).await.ok(201);
    for n in 0..5 {
        cluster.post(PODS, with_claim(&format!("p{n}"), &format!("c{n}"))).await.ok(201);
    }
    cluster.env().sleep(Duration::from_secs(400)).await;
}

async fn run(faults: Plan) -> (bool, usize) {
    let journal = Journal::default();
    let cluster = TestCluster::with(Env::simulated(12), |config| journal.record(config)).await;
    let alone = Settings { choice: chosen(&["scheduler"]), ..Settings::default() };
    let outlived = outlive(&cluster, &alone, faults.clone(), pods_come(&cluster)).await;
    never_given_twice(&journal, &format!("{faults:?}"));
    let items =
        async |path: &str| cluster.get(path).await.json()["items"].as_array().cloned().expect("a list");
    let (pods, claims) = (items(PODS).await, items(CLAIMS).await);
    let devices: usize = claims.iter().map(|claim| held(claim).len()).sum();
    assert_eq!(devices, NODES * DEVICES, "{faults:?}: {claims:#?}");
    let reserved = |pod: &Value| {
        let by = |claim: &&Value| {
            let consumers = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
            consumers.iter().any(|consumer| consumer["uid"] == pod["metadata"]["uid"])
        };
        claims.iter().find(by).and_then(|claim| Some(held(claim).first()?.0.clone()))
    };
    let mut placed = 0;
    for pod in &pods {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        placed += 1;
        assert_eq!(reserved(pod).as_deref(), Some(node), "{faults:?}: {pod:#}");
    }
    assert!((4..=5).contains(&placed), "{faults:?}: {placed} pods have a node");
    outlived.victim.stop().await;
    cluster.shutdown().await;
    (outlived.died, outlived.clients.writes())
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_killed_or_misled_after_any_write_gives_each_device_once() {
    // What a lost answer was about is seen late: nobody else gets the device meanwhile.
    let both = Plan { lose_answer_every: Some(2), stale: Duration::from_secs(3), ..Plan::default() };
    for plan in misfortunes().into_iter().map(|(_, plan)| plan).chain([both]) {
        run(plan).await;
    }
    for n in 1.. {
        let (died, writes) = run(Plan { die_after: Some(n), ..Plan::default() }).await;
        if !died {
            assert!(writes < n && n > 12, "{writes} writes");
            break;
        }
    }
}
