//! The garbage collector killed, misled or late, over random histories: exactly the right objects are left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::garbage_collector::{
    COLLECTOR, MAPS, a_while, at, cluster, collector, delete, gone, map, reference, steady,
};
use crate::interrupted::Interrupted;

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_the_collector_reaches_the_same_state() {
    // All three ways at once: 3 owners, each with children, one of them with grandchildren.
    for writes in 1..14 {
        let cluster = cluster(100 + writes as u64).await;
        let clients = Interrupted::after(&cluster, writes);
        let plane = cluster.controllers(Arc::new(clients.clone()), COLLECTOR);
        let mut owners = Vec::new();
        for policy in ["Background", "Foreground", "Orphan"] {
            let name = policy.to_lowercase();
            let owner = map(&cluster, &name, json!([])).await;
            for n in 0..3 {
                let child = map(&cluster, &format!("{name}-{n}"), json!([reference(&owner, true)])).await;
                map(&cluster, &format!("{name}-{n}-x"), json!([reference(&child, true)])).await;
            }
            owners.push((policy, name));
        }
        for (policy, name) in &owners {
            delete(&cluster, &at(name), policy).await;
        }
        a_while(&cluster).await;
        assert!(clients.is_dead(), "{writes}: the collector has more to write than that");
        plane.kill();
        let plane = collector(&cluster);
        for (_, name) in &owners {
            gone(&cluster, &at(name)).await;
        }
        steady(&cluster).await;
        let list = cluster.get(MAPS).await.json();
        let left: Vec<&str> =
            list["items"].as_array().unwrap().iter().filter_map(|m| m["metadata"]["name"].as_str()).collect();
        let wanted = [
            "kube-root-ca.crt",
            "orphan-0",
            "orphan-0-x",
            "orphan-1",
            "orphan-1-x",
            "orphan-2",
            "orphan-2-x",
        ];
        let left: Vec<&str> = left.into_iter().filter(|name| *name != "kube-root-ca.crt").collect();
        assert_eq!(left, &wanted[1..], "after {writes} writes");
        plane.stop().await;
        cluster.shutdown().await;
    }
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Every object there is, by uid.
async fn everything(cluster: &TestCluster) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for collection in [MAPS, SECRETS] {
        let list = cluster.get(collection).await.json();
        for object in list["items"].as_array().cloned().unwrap_or_default() {
            all.insert(object["metadata"]["uid"].as_str().unwrap_or("").to_owned(), object);
        }
    }
    all
}

/// What must hold when the collector has nothing left to do.
fn check_settled(objects: &BTreeMap<String, Value>, told: &str) {
    for object in objects.values() {
        let (metadata, none) = (&object["metadata"], Vec::new());
        let name = &metadata["name"];
        let owners = metadata["ownerReferences"].as_array().unwrap_or(&none);
        let lives = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| objects.contains_key(uid));
        assert!(
            owners.is_empty() || owners.iter().any(lives),
            "{told}: {name} lost all its owners: {object}"
        );
        assert!(metadata["deletionTimestamp"].is_null(), "{told}: {name} never went: {object}");
    }
}

/// Objects of two kinds, seen by two informers, come and go; the collector is killed now and then.
async fn any_history(seed: u64, clients: impl Fn(&TestCluster) -> Interrupted) {
    let cluster = cluster(1000 + seed).await;
    let env = Env::simulated(seed);
    let below = |n: usize| env.random_below(n as u64) as usize;
    let start = || cluster.controllers(Arc::new(clients(&cluster)), COLLECTOR);
    let mut plane = Some(start());
    // With its path, which may come again with another uid.
    let (mut made, mut touched) = (Vec::<(String, Value)>::new(), BTreeSet::<String>::new());
    for step in 0..60 {
        match below(10) {
            // A new object; owners may be gone already.
            0..=4 => {
                let owners: BTreeMap<usize, bool> =
                    (0..below(3).min(made.len())).map(|_| (below(made.len()), below(2) == 0)).collect();
                let owners: Vec<Value> = owners.iter().map(|(n, b)| reference(&made[*n].1, *b)).collect();
                let (collection, name) = ([MAPS, SECRETS][below(2)], format!("m{}", below(20)));
                let body = json!({"metadata": {"name": name, "ownerReferences": owners}});
                let reply = cluster.post(collection, body).await;
                if reply.status == 201 {
                    made.push((format!("{collection}/{name}"), reply.json()));
                }
            }
            5 | 6 if !made.is_empty() => {
                let path = &made[below(made.len())].0;
                let policy = ["Background", "Foreground", "Orphan"][below(3)];
                let body = json!({"propagationPolicy": policy});
                let reply = cluster.request("DELETE", path).json(&body).send().await;
                assert!(matches!(reply.status, 200 | 404), "{}", reply.text());
                touched.insert(path.clone());
            }
            7 if !made.is_empty() => {
                let path = &made[below(made.len())].0;
                let owner = reference(&made[below(made.len())].1, below(2) == 0);
                let reply = cluster.merge(path, json!({"metadata": {"ownerReferences": [owner]}})).await;
                assert!(matches!(reply.status, 200 | 404), "{}", reply.text());
                touched.insert(path.clone());
            }
            8 if step % 3 == 0 => {
                if let Some(plane) = plane.take() {
                    plane.kill();
                }
                plane = Some(start());
            }
            _ => cluster.env().sleep(Duration::from_millis(below(50) as u64)).await,
        }
    }
    cluster.env().sleep(Duration::from_secs(300)).await;
    steady(&cluster).await;
    let left = everything(&cluster).await;
    check_settled(&left, &format!("seed {seed}"));
    // Who had no owner, was given none and was never deleted is there.
    for (path, object) in made.iter().filter(|(_, object)| object["metadata"]["ownerReferences"].is_null()) {
        let uid = object["metadata"]["uid"].as_str().unwrap_or("");
        assert!(touched.contains(path) || left.contains_key(uid), "seed {seed}: {path} was collected");
    }
    if let Some(plane) = plane {
        plane.stop().await;
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn any_history_ends_with_nothing_left_to_collect() {
    for seed in 0..30 {
        any_history(seed, Interrupted::never).await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_history_with_late_events_ends_the_same() {
    for seed in 100..130 {
        any_history(seed, |cluster| Interrupted::never(cluster).late(400)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_history_with_conflicts_ends_the_same() {
    for seed in 200..230 {
        any_history(seed, |cluster| Interrupted::never(cluster).meddling().late(100)).await;
    }
}
