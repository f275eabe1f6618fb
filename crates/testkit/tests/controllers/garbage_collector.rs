//! The garbage collector on a whole server: background, foreground, orphan; missing owners; every kind.

use std::time::Duration;

use catalog::{Resource, Verbs};
use env::Env;
use serde_json::{Value, json};
use testkit::faults::{Faults, Plan};
use testkit::{ControlPlane, TestCluster};

use crate::kinds;

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server where one object of every kind can live beside the others, and nobody puts finalizers on them.
pub async fn cluster(seed: u64) -> TestCluster {
    let off = ["StorageObjectInUseProtection", "LimitRanger", "ResourceQuota"].map(str::to_owned).to_vec();
    TestCluster::with(Env::simulated(seed), |config| config.admission.disable = off).await
}

pub const COLLECTOR: &[&str] = &["garbage-collector-controller"];

pub fn collector(cluster: &TestCluster) -> ControlPlane {
    cluster.controllers(cluster.local_clients(), COLLECTOR)
}

/// Waits in virtual time until it holds.
pub async fn eventually<F: Future<Output = bool>>(cluster: &TestCluster, what: &str, holds: impl Fn() -> F) {
    for _ in 0..5_000 {
        if holds().await {
            return;
        }
        cluster.env().sleep(Duration::from_millis(20)).await;
    }
    panic!("never happened: {what}");
}

pub async fn is_there(cluster: &TestCluster, path: &str) -> bool {
    cluster.get(path).await.status == 200
}

pub async fn gone(cluster: &TestCluster, path: &str) {
    eventually(cluster, &format!("{path} is gone"), || async { !is_there(cluster, path).await }).await;
}

/// Time in which every controller could have done what it should not.
pub async fn a_while(cluster: &TestCluster) {
    cluster.env().sleep(Duration::from_secs(30)).await;
}

/// Nothing is written for ten minutes.
pub async fn steady(cluster: &TestCluster) {
    a_while(cluster).await;
    let table = cluster.api().registry().table();
    let before = table.revision();
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(table.revision(), before, "something is written while nothing changes");
}

pub async fn create(cluster: &TestCluster, collection: &str, body: Value) -> Value {
    let reply = cluster.post(collection, body).await;
    assert_eq!(reply.status, 201, "{collection}: {}", reply.text());
    reply.json()
}

pub async fn map(cluster: &TestCluster, name: &str, owners: Value) -> Value {
    create(cluster, MAPS, json!({"metadata": {"name": name, "ownerReferences": owners}})).await
}

pub fn reference(owner: &Value, blocking: bool) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocking})
}

pub async fn delete(cluster: &TestCluster, path: &str, policy: &str) {
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    let reply = cluster.request("DELETE", path).json(&body).send().await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.text());
}

pub fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

#[tokio::test(start_paused = true)]
async fn background_deletion_collects_objects_without_owners() {
    let cluster = cluster(1).await;
    let plane = collector(&cluster);
    let root = map(&cluster, "root", json!([])).await;
    let other = map(&cluster, "other", json!([])).await;
    let child = map(&cluster, "child", json!([reference(&root, true)])).await;
    map(&cluster, "grandchild", json!([reference(&child, false)])).await;
    map(&cluster, "shared", json!([reference(&root, true), reference(&other, true)])).await;
    a_while(&cluster).await;
    assert!(is_there(&cluster, &at("grandchild")).await, "nothing goes while its owners are there");

    delete(&cluster, &at("root"), "Background").await;
    assert!(!is_there(&cluster, &at("root")).await, "in background the owner goes at once");
    gone(&cluster, &at("child")).await;
    gone(&cluster, &at("grandchild")).await;
    eventually(&cluster, "the shared map lets go of the dangling owner", || async {
        let shared = cluster.get(at("shared")).await.json();
        shared["metadata"]["ownerReferences"] == json!([reference(&other, true)])
    })
    .await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let cluster = cluster(2).await;
    let plane = collector(&cluster);
    let root = map(&cluster, "root", json!([])).await;
    let child = map(&cluster, "child", json!([reference(&root, true)])).await;
    let held = json!({"metadata": {"name": "grandchild", "finalizers": ["example.com/hold"],
        "ownerReferences": [reference(&child, true)]}});
    create(&cluster, MAPS, held).await;
    let loose = json!({"metadata": {"name": "loose", "finalizers": ["example.com/hold"],
        "ownerReferences": [reference(&root, false)]}});
    create(&cluster, MAPS, loose).await;

    delete(&cluster, &at("root"), "Foreground").await;
    a_while(&cluster).await;
    for name in ["root", "child", "grandchild", "loose"] {
        let map = cluster.get(at(name)).await.json();
        assert!(map["metadata"]["deletionTimestamp"].is_string(), "{name} is being deleted");
    }
    let waiting = cluster.get(at("child")).await.json();
    assert_eq!(
        waiting["metadata"]["finalizers"],
        json!(["foregroundDeletion"]),
        "what has dependents waits too"
    );
    cluster.merge(at("grandchild"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    gone(&cluster, &at("root")).await;
    assert!(!is_there(&cluster, &at("child")).await, "the child went first");
    assert!(is_there(&cluster, &at("loose")).await, "a reference that does not block holds nobody");
    cluster.merge(at("loose"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    gone(&cluster, &at("loose")).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_dependent_is_waited_for_and_deleted() {
    let cluster = cluster(12).await;
    let plane = collector(&cluster);
    let root = map(&cluster, "root", json!([])).await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"],
        "ownerReferences": [reference(&root, true)]}});
    create(&cluster, MAPS, held).await;
    delete(&cluster, &at("root"), "Foreground").await;
    a_while(&cluster).await;
    map(&cluster, "late", json!([reference(&root, true)])).await;
    gone(&cluster, &at("late")).await;
    assert!(is_there(&cluster, &at("root")).await);
    cluster.merge(at("held"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    gone(&cluster, &at("root")).await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// A collector that learns what it asks for two seconds later.
fn slow_collector(cluster: &TestCluster) -> ControlPlane {
    let slow = Plan { slow_reads: Duration::from_secs(2), ..Plan::default() };
    cluster.controllers(Faults::new(cluster.env(), cluster.local_clients(), slow), COLLECTOR)
}

async fn held(cluster: &TestCluster, name: &str, owner: &Value) {
    let metadata = json!({"name": name, "finalizers": ["example.com/hold"], "ownerReferences": [reference(owner, true)]});
    create(cluster, MAPS, json!({"metadata": metadata})).await;
}

async fn release(cluster: &TestCluster, name: &str) {
    cluster.merge(at(name), json!({"metadata": {"finalizers": null}})).await.ok(200);
}

#[tokio::test(start_paused = true)]
async fn dependents_created_during_a_live_lookup_are_waited_for() {
    // One second: while it asks for the owner; three: while it asks again, to write.
    for seconds in [1, 3] {
        let cluster = cluster(30 + seconds).await;
        let plane = slow_collector(&cluster);
        let owner = map(&cluster, "owner", json!([])).await;
        a_while(&cluster).await;
        delete(&cluster, &at("owner"), "Foreground").await;
        cluster.env().sleep(Duration::from_secs(seconds)).await;
        held(&cluster, "late", &owner).await;
        a_while(&cluster).await;
        assert!(is_there(&cluster, &at("owner")).await, "{seconds}: it has a dependent that blocks it");
        release(&cluster, "late").await;
        gone(&cluster, &at("owner")).await;
        gone(&cluster, &at("late")).await;
        steady(&cluster).await;
        plane.stop().await;
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_dependent_created_during_a_live_lookup_is_deleted_first() {
    let cluster = cluster(35).await;
    let plane = slow_collector(&cluster);
    let owner = map(&cluster, "owner", json!([])).await;
    let child = map(&cluster, "child", json!([reference(&owner, true)])).await;
    a_while(&cluster).await;
    delete(&cluster, &at("owner"), "Foreground").await;
    cluster.env().sleep(Duration::from_secs(3)).await;
    held(&cluster, "grandchild", &child).await;
    a_while(&cluster).await;
    assert!(is_there(&cluster, &at("child")).await, "it goes in foreground, as its owner does");
    release(&cluster, "grandchild").await;
    gone(&cluster, &at("owner")).await;
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_created_while_others_are_orphaned_is_orphaned_too() {
    let cluster = cluster(36).await;
    let plane = slow_collector(&cluster);
    let owner = map(&cluster, "owner", json!([])).await;
    map(&cluster, "early", json!([reference(&owner, true)])).await;
    a_while(&cluster).await;
    delete(&cluster, &at("owner"), "Orphan").await;
    cluster.env().sleep(Duration::from_secs(1)).await;
    map(&cluster, "late", json!([reference(&owner, true)])).await;
    gone(&cluster, &at("owner")).await;
    a_while(&cluster).await;
    for name in ["early", "late"] {
        assert!(is_there(&cluster, &at(name)).await, "{name} was to live on");
    }
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_removes_one_of_two_owner_references() {
    let cluster = cluster(3).await;
    let plane = collector(&cluster);
    let root = map(&cluster, "root", json!([])).await;
    let other = map(&cluster, "other", json!([])).await;
    map(&cluster, "shared", json!([reference(&root, true), reference(&other, true)])).await;
    delete(&cluster, &at("root"), "Foreground").await;
    gone(&cluster, &at("root")).await;
    let shared = cluster.get(at("shared")).await.json();
    assert_eq!(shared["metadata"]["ownerReferences"], json!([reference(&other, true)]));
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_ownership_cycle_is_deleted_in_foreground() {
    let cluster = cluster(4).await;
    let plane = collector(&cluster);
    let a = map(&cluster, "a", json!([])).await;
    let b = map(&cluster, "b", json!([reference(&a, true)])).await;
    let c = map(&cluster, "c", json!([reference(&b, true)])).await;
    let closing = json!({"metadata": {"ownerReferences": [reference(&c, true)]}});
    cluster.merge(at("a"), closing).await.ok(200);
    delete(&cluster, &at("a"), "Foreground").await;
    for name in ["a", "b", "c"] {
        gone(&cluster, &at(name)).await;
    }
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_block_each_other_or_themselves_are_deleted() {
    let cluster = cluster(13).await;
    let a = map(&cluster, "a", json!([])).await;
    let b = map(&cluster, "b", json!([reference(&a, true)])).await;
    let own = map(&cluster, "own", json!([])).await;
    let owned = |owner: &Value| json!({"metadata": {"ownerReferences": [reference(owner, true)]}});
    cluster.merge(at("a"), owned(&b)).await.ok(200);
    cluster.merge(at("own"), owned(&own)).await.ok(200);
    for name in ["a", "b", "own"] {
        delete(&cluster, &at(name), "Foreground").await;
    }
    let plane = collector(&cluster);
    for name in ["a", "b", "own"] {
        gone(&cluster, &at(name)).await;
    }
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn orphaning_keeps_the_dependents() {
    let cluster = cluster(5).await;
    let plane = collector(&cluster);
    let root = map(&cluster, "root", json!([])).await;
    let other = map(&cluster, "other", json!([])).await;
    for n in 0..120 {
        map(&cluster, &format!("child-{n}"), json!([reference(&root, true)])).await;
    }
    map(&cluster, "shared", json!([reference(&root, true), reference(&other, false)])).await;
    delete(&cluster, &at("root"), "Orphan").await;
    gone(&cluster, &at("root")).await;
    a_while(&cluster).await;
    for n in 0..120 {
        let child = cluster.get(at(&format!("child-{n}"))).await.json();
        assert_eq!(child["metadata"]["ownerReferences"], Value::Null, "child-{n}");
    }
    let shared = cluster.get(at("shared")).await.json();
    assert_eq!(shared["metadata"]["ownerReferences"], json!([reference(&other, false)]));
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn missing_owners_keep_no_dependents() {
    let cluster = cluster(6).await;
    let plane = collector(&cluster);
    let owner = map(&cluster, "owner", json!([])).await;
    let mut never = reference(&owner, false);
    never["name"] = json!("never");
    never["uid"] = json!("4b8f7a2e-0000-4000-8000-000000000000");
    map(&cluster, "of-nobody", json!([never])).await;
    // The name is right, but it is another object now.
    let mut former = reference(&owner, false);
    former["uid"] = json!("not even a uuid");
    map(&cluster, "of-the-former", json!([former])).await;
    // The uid is right, but not the kind.
    let mut wrong = reference(&owner, false);
    wrong["kind"] = json!("Secret");
    map(&cluster, "of-the-wrong-kind", json!([wrong])).await;
    map(&cluster, "of-the-owner", json!([reference(&owner, false)])).await;
    for name in ["of-nobody", "of-the-former", "of-the-wrong-kind"] {
        gone(&cluster, &at(name)).await;
    }
    a_while(&cluster).await;
    assert!(is_there(&cluster, &at("of-the-owner")).await);
    assert!(is_there(&cluster, &at("owner")).await);
    // Nobody knows that kind: it may come.
    let unknown = json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u"}]);
    map(&cluster, "of-the-unknown", unknown).await;
    steady(&cluster).await;
    assert!(is_there(&cluster, &at("of-the-unknown")).await);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_owner_is_another_owner() {
    let cluster = cluster(7).await;
    let root = map(&cluster, "root", json!([])).await;
    map(&cluster, "old-child", json!([reference(&root, true)])).await;
    delete(&cluster, &at("root"), "Background").await;
    let again = map(&cluster, "root", json!([])).await;
    map(&cluster, "new-child", json!([reference(&again, true)])).await;
    // The collector comes late and sees only how things are now.
    let plane = collector(&cluster);
    gone(&cluster, &at("old-child")).await;
    a_while(&cluster).await;
    assert!(is_there(&cluster, &at("new-child")).await);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_ignored_with_an_event() {
    let cluster = cluster(8).await;
    let plane = collector(&cluster);
    create(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": "elsewhere"}})).await;
    let owner = map(&cluster, "owner", json!([])).await;
    let strays = "/api/v1/namespaces/elsewhere/configmaps";
    let stray = json!({"metadata": {"name": "stray", "ownerReferences": [reference(&owner, false)]}});
    create(&cluster, strays, stray).await;
    gone(&cluster, &format!("{strays}/stray")).await;
    assert!(is_there(&cluster, &at("owner")).await);
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    eventually(&cluster, "the event", || async {
        let events = cluster.get("/api/v1/namespaces/elsewhere/events").await.json();
        events["items"].as_array().is_some_and(|events| {
            events.iter().any(|e| {
                e["reason"] == "OwnerRefInvalidNamespace"
                    && e["type"] == "Warning"
                    && e["source"]["component"] == "garbage-collector-controller"
                    && e["message"]
                        == format!(
                            "ownerRef [v1/ConfigMap, namespace: elsewhere, name: owner, uid: {uid}] does not exist in namespace \"elsewhere\""
                        )
            })
        })
    })
    .await;
    // A cluster-scoped object cannot have an owner in a namespace; nothing is done about it.
    let role =
        json!({"metadata": {"name": "stray", "ownerReferences": [reference(&owner, false)]}, "rules": []});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    create(&cluster, roles, role).await;
    // But one without a namespace may own anything anywhere.
    let lord = create(&cluster, roles, json!({"metadata": {"name": "lord"}, "rules": []})).await;
    let vassal = json!({"metadata": {"name": "vassal", "ownerReferences": [reference(&lord, false)]}});
    create(&cluster, strays, vassal).await;
    steady(&cluster).await;
    assert!(is_there(&cluster, &format!("{roles}/stray")).await);
    assert!(is_there(&cluster, &format!("{strays}/vassal")).await);
    delete(&cluster, &format!("{roles}/lord"), "Background").await;
    gone(&cluster, &format!("{strays}/vassal")).await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// Every stored kind an object of which a test may make and lose.
fn collected_kinds(cluster: &TestCluster) -> Vec<std::sync::Arc<Resource>> {
    let wanted = |r: &&std::sync::Arc<Resource>| {
        r.storage.as_ref().is_some_and(|s| !s.no_gc)
            && r.verbs.contains(Verbs::CREATE | Verbs::DELETE | Verbs::LIST | Verbs::WATCH)
            // Namespaces go with a controller of their own, which is not running here.
            && r.kind != "Namespace"
    };
    let mut seen = std::collections::BTreeSet::new();
    let unseen = |r: &&std::sync::Arc<Resource>| seen.insert(r.storage.as_ref().map(|s| s.id));
    cluster.catalog().resources().iter().filter(wanted).filter(unseen).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn dependents_of_every_kind_are_collected_and_orphaned() {
    for (seed, policy) in [(20, "Background"), (21, "Foreground"), (22, "Orphan")] {
        let cluster = cluster(seed).await;
        let plane = collector(&cluster);
        create(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": kinds::NAMESPACE}})).await;
        cluster.settled().await;
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let owner = create(&cluster, roles, json!({"metadata": {"name": "owner"}, "rules": []})).await;
        let resources = collected_kinds(&cluster);
        assert!(resources.len() > 50, "only {}", resources.len());
        let mut paths = Vec::new();
        for resource in &resources {
            let name = kinds::name(resource, 1);
            let mut object = kinds::object(resource, &name);
            object["metadata"]["ownerReferences"] = json!([reference(&owner, true)]);
            create(&cluster, &kinds::collection(resource), object).await;
            paths.push(kinds::path(resource, &name));
        }
        a_while(&cluster).await;
        for path in &paths {
            assert!(is_there(&cluster, path).await, "{policy}: {path} before");
        }
        delete(&cluster, &format!("{roles}/owner"), policy).await;
        gone(&cluster, &format!("{roles}/owner")).await;
        for path in &paths {
            if policy == "Orphan" {
                let orphan = cluster.get(path).await.json();
                assert_eq!(orphan["metadata"]["deletionTimestamp"], Value::Null, "{path}");
                assert!(orphan["metadata"]["uid"].is_string(), "{path}: {orphan}");
                assert_eq!(orphan["metadata"]["ownerReferences"], Value::Null, "{path}");
            } else {
                gone(&cluster, path).await;
            }
        }
        steady(&cluster).await;
        plane.stop().await;
        cluster.shutdown().await;
    }
}
