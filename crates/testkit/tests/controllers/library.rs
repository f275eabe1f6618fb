//! The `runtime` library against a real server: claims, finalizers, events, retries.

use std::sync::Arc;
use std::time::Duration;

use client::resources::CONFIG_MAPS;
use client::{Client, Patch, WriteOptions};
use object::{Map, Obj, Value};
use runtime::finalizers::{self, Finalized};
use runtime::owners::{self, Claimant};
use runtime::{Failure, Recorder, Severity, Stopper, retry, tree};
use serde_json::json;
use testkit::TestCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";

fn client(cluster: &TestCluster) -> Arc<dyn Client> {
    cluster.local_clients().user("kubernetes-admin", &["system:masters"])
}

async fn made(cluster: &TestCluster, client: &Arc<dyn Client>, name: &str) -> Arc<Obj> {
    cluster.post(MAPS, json!({"metadata": {"name": name}})).await.ok(201);
    read(client, name).await
}

async fn read(client: &Arc<dyn Client>, name: &str) -> Arc<Obj> {
    client.get(CONFIG_MAPS.at("default", name)).await.expect("the map was made")
}

fn names(objects: &[Arc<Obj>]) -> Vec<&str> {
    objects.iter().map(|obj| obj.name()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_owner_adopts_and_releases_by_uid_not_by_name() {
    let cluster = TestCluster::simulated(1).await;
    let client = client(&cluster);
    let owner = made(&cluster, &client, "owner").await;
    let candidates = [made(&cluster, &client, "a").await, made(&cluster, &client, "b").await];
    let claimant = Claimant {
        resource: &CONFIG_MAPS,
        api_version: "v1",
        kind: "ConfigMap",
        owner: &owner,
        finalizer: Some("example.com/tracking"),
    };
    // b is not the b that was seen.
    cluster.delete(&format!("{MAPS}/b")).await.ok(200);
    made(&cluster, &client, "b").await;
    let ours = owners::claim(&*client, &claimant, &CONFIG_MAPS, candidates, |_| true).await.unwrap();
    assert_eq!(names(&ours), ["a"]);
    let a = cluster.get(&format!("{MAPS}/a")).await.json();
    let reference = &a["metadata"]["ownerReferences"][0];
    assert_eq!(reference["uid"], owner.uid());
    assert_eq!((&reference["controller"], &reference["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    assert_eq!(a["metadata"]["finalizers"], json!(["example.com/tracking"]));
    let b = cluster.get(&format!("{MAPS}/b")).await.json();
    assert!(b["metadata"]["ownerReferences"].is_null());

    // Once it no longer matches it is let go; other owners and finalizers stay.
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "other"});
    let both = json!({"metadata": {"ownerReferences": [reference, other], "finalizers": ["example.com/tracking", "example.com/else"]}});
    cluster.merge(&format!("{MAPS}/a"), both).await.ok(200);
    let a = read(&client, "a").await;
    let ours = owners::claim(&*client, &claimant, &CONFIG_MAPS, [a.clone()], |_| false).await.unwrap();
    assert!(ours.is_empty());
    let after = cluster.get(&format!("{MAPS}/a")).await.json();
    assert_eq!(after["metadata"]["ownerReferences"], json!([other]));
    assert_eq!(after["metadata"]["finalizers"], json!(["example.com/else"]));
    // What is gone, or another now, was released by somebody.
    cluster.merge(&format!("{MAPS}/a"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    cluster.delete(&format!("{MAPS}/a")).await.ok(200);
    owners::claim(&*client, &claimant, &CONFIG_MAPS, [a.clone()], |_| false).await.unwrap();
    made(&cluster, &client, "a").await;
    owners::claim(&*client, &claimant, &CONFIG_MAPS, [a], |_| false).await.unwrap();
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_keeps_an_object_until_its_cleanup_succeeds() {
    let cluster = TestCluster::simulated(2).await;
    let client = client(&cluster);
    let a = made(&cluster, &client, "a").await;
    let cleaned = || async { Ok(()) };
    let live = finalizers::finalize(&*client, &CONFIG_MAPS, &a, "example.com/ours", cleaned).await.unwrap();
    assert!(matches!(live, Finalized::Live(obj) if finalizers::has(&obj, "example.com/ours")));
    let stale = finalizers::add(&*client, &CONFIG_MAPS, &a, "example.com/more").await;
    assert_eq!(stale.err().map(|s| s.code), Some(409), "it changed since it was read");
    cluster.delete(&format!("{MAPS}/a")).await.ok(200);
    let going = read(&client, "a").await;
    assert!(going.deleting());
    let failing = || async { Err(Failure::Other("not yet".into())) };
    let failed = finalizers::finalize(&*client, &CONFIG_MAPS, &going, "example.com/ours", failing).await;
    assert!(failed.is_err());
    assert_eq!(read(&client, "a").await.revision(), going.revision());
    let gone =
        finalizers::finalize(&*client, &CONFIG_MAPS, &going, "example.com/ours", cleaned).await.unwrap();
    assert!(matches!(gone, Finalized::Gone));
    assert_eq!(client.get(CONFIG_MAPS.at("default", "a")).await.err().map(|s| s.code), Some(404));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_counted_and_similar_ones_are_combined() {
    let cluster = TestCluster::simulated(3).await;
    let client = client(&cluster);
    let (stopper, stop) = Stopper::new();
    let (recorder, task) = Recorder::start(cluster.env(), client.clone(), "library-test", stop);
    let a = made(&cluster, &client, "a").await;
    for _ in 0..3 {
        recorder.event(&CONFIG_MAPS, &a, Severity::Warning, "Same", "again");
    }
    for n in 1..=12 {
        recorder.event(&CONFIG_MAPS, &a, Severity::Normal, "Similar", format!("number {n}"));
    }
    cluster.env().sleep(Duration::from_secs(1)).await;
    let events = cluster.get(EVENTS).await.json();
    let events = events["items"].as_array().unwrap();
    let of = |reason: &str| events.iter().filter(|e| e["reason"] == reason).collect::<Vec<_>>();
    let same = of("Same");
    assert_eq!(same.len(), 1);
    assert_eq!((&same[0]["count"], &same[0]["message"]), (&json!(3), &json!("again")));
    let similar = of("Similar");
    assert_eq!(similar.len(), 10, "nine, and one for the rest");
    let combined: Vec<_> = similar.iter().filter(|e| e["count"] == 3).collect();
    assert_eq!(combined[0]["message"], "(combined from similar events): number 12");
    stopper.stop();
    task.await.unwrap();
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_retried_with_a_fresh_read() {
    let cluster = TestCluster::simulated(4).await;
    let client = client(&cluster);
    made(&cluster, &client, "a").await;
    let mut tries = 0;
    let written = retry::on_conflict(cluster.env(), retry::FEW_WRITERS, || {
        tries += 1;
        let (client, another) = (client.clone(), tries <= 2);
        async move {
            let read = read(&client, "a").await;
            let mut changed = tree(&read);
            changed.map_at(&["data"]).set("mine", "yes");
            if another {
                // Somebody else is quicker.
                let mut patch = Value::map();
                let mut data = Map::default();
                data.set("theirs", format!("{}", read.revision()));
                patch.make_map().set("data", Value::Map(data));
                client.patch(CONFIG_MAPS.of(&read), Patch::Merge(patch), WriteOptions::default()).await?;
            }
            client.update(CONFIG_MAPS.of(&read), changed, WriteOptions::default()).await
        }
    })
    .await
    .unwrap();
    assert_eq!(tries, 3);
    let data = tree(&written);
    assert_eq!(data.str_at(&["data", "mine"]), Some("yes"));
    assert!(data.str_at(&["data", "theirs"]).is_some(), "nothing of theirs was lost");
    cluster.shutdown().await;
}
