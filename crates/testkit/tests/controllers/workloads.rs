//! ReplicaSets and ReplicationControllers against a whole server, and all three controllers when things go wrong; pods become ready
//! by hand. What only Deployments do is in `deployments`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::faults::{Faults, Plan};
use testkit::{ControlPlane, TestCluster};

pub const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
const REPLICATION_CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const CONTROLLERS: &[&str] =
    &["deployment-controller", "replicaset-controller", "replicationcontroller-controller"];

pub fn start(cluster: &TestCluster) -> ControlPlane {
    cluster.controllers(cluster.local_clients(), CONTROLLERS)
}

fn start_with_faults(cluster: &TestCluster, plan: Plan) -> (ControlPlane, Arc<Faults>) {
    let clients = Faults::new(cluster.env(), cluster.local_clients(), plan);
    (cluster.controllers(clients.clone(), CONTROLLERS), clients)
}

pub fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
        }
    })
}

pub fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

pub async fn list(cluster: &TestCluster, path: &str) -> Vec<Value> {
    cluster.get(path).await.ok(200)["items"].as_array().expect("as it is served").clone()
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("as it is served")
}

pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

async fn make_ready(cluster: &TestCluster, pod: &str) {
    let now = object::time::format_seconds(cluster.env().now_seconds() as i64);
    let status = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": now}]}});
    // It may be gone by now.
    let reply = cluster.merge(format!("{PODS}/{pod}/status"), status).await;
    assert!([200, 404].contains(&reply.status), "{}", reply.text());
}

/// Every pod that is not ready becomes so.
pub async fn make_all_ready(cluster: &TestCluster) {
    for pod in list(cluster, PODS).await.iter().filter(|pod| !is_ready(pod)) {
        make_ready(cluster, name(pod)).await;
    }
}

/// Waits, in virtual time, until `holds` of the object at `path`.
#[track_caller]
pub fn until<'a>(
    cluster: &'a TestCluster,
    path: impl Into<String>,
    what: &'a str,
    holds: impl Fn(&Value) -> bool + 'a,
) -> impl Future<Output = Value> + 'a {
    let path = path.into();
    async move {
        let mut last = Value::Null;
        for _ in 0..3000 {
            last = cluster.get(&path).await.json();
            if holds(&last) {
                return last;
            }
            cluster.env().sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} never held of {path}: {last:#}");
    }
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|c| c["type"] == kind)).unwrap_or(&Value::Null)
}

fn is_complete(d: &Value) -> bool {
    let status = &d["status"];
    let wanted = d["spec"]["replicas"].as_i64();
    let count = |name: &str| Some(status[name].as_i64().unwrap_or(0));
    status["observedGeneration"] == d["metadata"]["generation"]
        && count("updatedReplicas") == wanted
        && count("replicas") == wanted
        && count("availableReplicas") == wanted
        && condition(d, "Progressing")["reason"] == "NewReplicaSetAvailable"
}

/// Runs a rollout to its end: whatever pod appears becomes ready.
pub async fn finish(cluster: &TestCluster) -> Value {
    for _ in 0..1000 {
        make_all_ready(cluster).await;
        cluster.env().sleep(Duration::from_millis(20)).await;
        let d = cluster.get(format!("{DEPLOYMENTS}/web")).await.json();
        if is_complete(&d) {
            return d;
        }
    }
    panic!("never complete: {:#}", cluster.get(format!("{DEPLOYMENTS}/web")).await.json());
}

/// Nothing is written while nothing changes.
pub async fn assert_steady(cluster: &TestCluster) {
    cluster.env().sleep(Duration::from_secs(5)).await;
    let before = cluster.api().registry().table().revision();
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(
        before,
        cluster.api().registry().table().revision(),
        "something was written in a steady state"
    );
}

pub async fn messages(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let events = list(cluster, "/api/v1/namespaces/default/events").await;
    let mut events: Vec<&Value> = events.iter().filter(|e| e["reason"] == reason).collect();
    events.sort_by_key(|e| name(e).to_owned());
    events.iter().map(|e| e["message"].as_str().expect("as it is served").to_owned()).collect()
}

pub async fn set_image(cluster: &TestCluster, image: &str) {
    let change = json!({"spec": {"template": template(image)}});
    cluster.merge(format!("{DEPLOYMENTS}/web"), change).await.ok(200);
}

/// Sizes by image.
pub async fn sizes(cluster: &TestCluster) -> BTreeMap<String, i64> {
    let sets = list(cluster, SETS).await;
    let image = |set: &Value| {
        set["spec"]["template"]["spec"]["containers"][0]["image"]
            .as_str()
            .expect("as it is served")
            .to_owned()
    };
    sets.iter().map(|set| (image(set), set["spec"]["replicas"].as_i64().expect("as it is served"))).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_are_available_only_after_min_ready_seconds() {
    let cluster = TestCluster::simulated(9).await;
    let plane = start(&cluster);
    let mut body = deployment(2, "a:1");
    body["spec"]["minReadySeconds"] = json!(30);
    cluster.post(DEPLOYMENTS, body).await.ok(201);
    let web = format!("{DEPLOYMENTS}/web");
    until(&cluster, &web, "pods", |d| d["status"]["replicas"] == 2).await;
    make_all_ready(&cluster).await;
    cluster.env().sleep(Duration::from_secs(28)).await;
    let d = cluster.get(&web).await.ok(200);
    assert_eq!(d["status"]["readyReplicas"], 2);
    assert!(d["status"]["availableReplicas"].is_null());
    cluster.env().sleep(Duration::from_secs(4)).await;
    assert_eq!(cluster.get(&web).await.ok(200)["status"]["availableReplicas"], 2);
    // A changed wait reaches the set.
    cluster.merge(&web, json!({"spec": {"minReadySeconds": 5}})).await.ok(200);
    cluster.env().sleep(Duration::from_secs(1)).await;
    assert_eq!(list(&cluster, SETS).await[0]["spec"]["minReadySeconds"], 5);
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_replaced_adopted_and_released() {
    let cluster = TestCluster::simulated(10).await;
    let plane = start(&cluster);
    // An orphan of the right labels is adopted rather than another made.
    let mut orphan = template("a:1");
    orphan["metadata"]["name"] = json!("orphan");
    cluster.post(PODS, orphan).await.ok(201);
    let set = json!({"metadata": {"name": "rs"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("a:1")}});
    cluster.post(SETS, set).await.ok(201);
    let rs = format!("{SETS}/rs");
    until(&cluster, &rs, "three pods", |rs| rs["status"]["replicas"] == 3).await;
    let orphan = cluster.get(format!("{PODS}/orphan")).await.ok(200);
    assert_eq!(orphan["metadata"]["ownerReferences"][0]["name"], "rs");
    assert_eq!(list(&cluster, PODS).await.len(), 3);
    // A pod that is deleted is replaced.
    cluster.delete(format!("{PODS}/orphan")).await.ok(200);
    cluster.env().sleep(Duration::from_secs(1)).await;
    assert_eq!(list(&cluster, PODS).await.len(), 3);
    // A pod that ended is replaced, and left to be looked at.
    let ended = name(&list(&cluster, PODS).await[0]).to_owned();
    cluster.merge(format!("{PODS}/{ended}/status"), json!({"status": {"phase": "Failed"}})).await.ok(200);
    cluster.env().sleep(Duration::from_secs(1)).await;
    assert_eq!(list(&cluster, PODS).await.len(), 4);
    cluster.delete(format!("{PODS}/{ended}")).await.ok(200);
    // A pod whose label changes is let go, and replaced.
    let gone = name(&list(&cluster, PODS).await[0]).to_owned();
    cluster.merge(format!("{PODS}/{gone}"), json!({"metadata": {"labels": {"app": "other"}}})).await.ok(200);
    cluster.env().sleep(Duration::from_secs(1)).await;
    let free = cluster.get(format!("{PODS}/{gone}")).await.ok(200);
    assert!(free["metadata"]["ownerReferences"].is_null(), "{free:#}");
    assert_eq!(list(&cluster, PODS).await.len(), 4);
    // Back again it is one too many: the surplus goes.
    cluster.merge(format!("{PODS}/{gone}"), json!({"metadata": {"labels": {"app": "web"}}})).await.ok(200);
    cluster.env().sleep(Duration::from_secs(1)).await;
    assert_eq!(list(&cluster, PODS).await.len(), 3);
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_causes_a_replica_failure_until_it_is_removed() {
    let cluster = TestCluster::simulated(13).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
    cluster.post(quotas, quota).await.ok(201);
    let plane = start(&cluster);
    cluster.post(DEPLOYMENTS, deployment(3, "a:1")).await.ok(201);
    let web = format!("{DEPLOYMENTS}/web");
    let failed = |d: &Value| condition(d, "ReplicaFailure")["status"] == "True";
    let d = until(&cluster, &web, "a failure", failed).await;
    assert_eq!(condition(&d, "ReplicaFailure")["reason"], "FailedCreate");
    let message = condition(&d, "ReplicaFailure")["message"].as_str().unwrap();
    assert!(message.contains("exceeded quota") || message.contains("status unknown for quota"), "{message}");
    assert!(!messages(&cluster, "FailedCreate").await.is_empty());
    cluster.delete(format!("{quotas}/few")).await.ok(200);
    for _ in 0..200 {
        make_all_ready(&cluster).await;
        cluster.env().sleep(Duration::from_secs(10)).await;
        if is_complete(&cluster.get(&web).await.json()) {
            break;
        }
    }
    let d = cluster.get(&web).await.ok(200);
    assert!(is_complete(&d), "{d:#}");
    assert!(condition(&d, "ReplicaFailure").is_null());
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_follows_the_same_rules() {
    let cluster = TestCluster::simulated(14).await;
    let plane = start(&cluster);
    let rc = json!({"metadata": {"name": "rc"}, "spec": {"replicas": 4, "selector": {"app": "web"}, "template": template("a:1")}});
    cluster.post(REPLICATION_CONTROLLERS, rc).await.ok(201);
    let rc = format!("{REPLICATION_CONTROLLERS}/rc");
    until(&cluster, &rc, "four pods", |rc| rc["status"]["replicas"] == 4).await;
    make_all_ready(&cluster).await;
    let ready = until(&cluster, &rc, "ready", |rc| rc["status"]["availableReplicas"] == 4).await;
    assert_eq!(
        ready["status"],
        json!({"replicas": 4, "fullyLabeledReplicas": 4, "readyReplicas": 4, "availableReplicas": 4, "observedGeneration": 1})
    );
    let pod = &list(&cluster, PODS).await[0];
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicationController");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["apiVersion"], "v1");
    cluster.merge(format!("{rc}/scale"), json!({"spec": {"replicas": 1}})).await.ok(200);
    until(&cluster, &rc, "one pod", |rc| rc["status"]["replicas"] == 1).await;
    assert!(messages(&cluster, "SuccessfulDelete").await[0].starts_with("Deleted pod: rc-"));
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// The controllers are killed after their n-th write, for every n, and started again: the end is the same.
#[tokio::test(start_paused = true)]
async fn killed_after_any_write_the_workloads_reach_the_same_state() {
    for most in 1..200 {
        let cluster = TestCluster::simulated(100 + most as u64).await;
        let plan = Plan { die_after: Some(most), ..Plan::default() };
        let (first, faults) = start_with_faults(&cluster, plan);
        let (mut first, mut second) = (Some(first), None);
        let mut body = deployment(4, "a:1");
        body["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
        cluster.post(DEPLOYMENTS, body).await.ok(201);
        for image in ["a:1", "a:2"] {
            set_image(&cluster, image).await;
            let mut complete = false;
            for _ in 0..2000 {
                if let Some(killed) = first.take_if(|_| faults.is_dead()) {
                    killed.kill();
                    second = Some(start(&cluster));
                }
                make_all_ready(&cluster).await;
                cluster.env().sleep(Duration::from_millis(20)).await;
                complete = is_complete(&cluster.get(format!("{DEPLOYMENTS}/web")).await.json());
                if complete {
                    break;
                }
            }
            assert!(complete, "killed after write {most}: {image} never complete");
        }
        cluster.env().sleep(Duration::from_secs(1)).await;
        let expected = [("a:1".into(), 0), ("a:2".into(), 4)];
        assert_eq!(sizes(&cluster).await, BTreeMap::from(expected), "killed after write {most}");
        assert_eq!(list(&cluster, PODS).await.len(), 4, "killed after write {most}");
        assert_eq!(list(&cluster, SETS).await.len(), 2, "killed after write {most}");
        first.into_iter().chain(second).for_each(ControlPlane::kill);
        cluster.shutdown().await;
        if !faults.is_dead() {
            assert!(most > 15, "only {most} writes for two rollouts?");
            return;
        }
    }
    panic!("two rollouts of four pods took more than 200 writes");
}

#[tokio::test(start_paused = true)]
async fn conflicts_only_delay_a_rollout() {
    let cluster = TestCluster::simulated(15).await;
    let plan = Plan { conflict_every: Some(3), ..Plan::default() };
    let (plane, faults) = start_with_faults(&cluster, plan);
    cluster.post(DEPLOYMENTS, deployment(4, "a:1")).await.ok(201);
    finish(&cluster).await;
    set_image(&cluster, "a:2").await;
    finish(&cluster).await;
    assert_eq!(sizes(&cluster).await, BTreeMap::from([("a:1".into(), 0), ("a:2".into(), 4)]));
    assert_eq!(list(&cluster, PODS).await.len(), 4);
    assert!(faults.met() > 0, "it never met with a conflict");
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn in_a_terminating_namespace_nothing_is_created_and_no_event_written() {
    let cluster = TestCluster::simulated(16).await;
    let plane = start(&cluster);
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "going"}})).await.ok(201);
    cluster.settled().await;
    let path = |path: &str| path.replace("/default/", "/going/");
    cluster.post(path(DEPLOYMENTS), deployment(0, "a:1")).await.ok(201);
    let one = |sets: &Value| sets["items"].as_array().is_some_and(|all| all.len() == 1);
    let sets = until(&cluster, path(SETS), "a set", one).await;
    let set = path(&format!("{SETS}/{}", name(&sets["items"][0])));
    cluster.delete("/api/v1/namespaces/going").await;
    cluster.merge(path(&format!("{DEPLOYMENTS}/web")), json!({"spec": {"replicas": 3}})).await.ok(200);
    let set = until(&cluster, set, "scaled", |set| {
        set["status"]["observedGeneration"] == set["metadata"]["generation"] && set["spec"]["replicas"] == 3
    })
    .await;
    assert!(condition(&set, "ReplicaFailure").is_null());
    // Nor is a new set made.
    let change = json!({"spec": {"template": template("a:2")}});
    cluster.merge(path(&format!("{DEPLOYMENTS}/web")), change).await.ok(200);
    assert_steady(&cluster).await;
    assert_eq!(list(&cluster, &path(PODS)).await.len(), 0);
    assert_eq!(list(&cluster, &path(SETS)).await.len(), 1);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_objects() {
    let mut worlds = Vec::new();
    for _ in 0..2 {
        let cluster = TestCluster::simulated(17).await;
        let plane = start(&cluster);
        cluster.post(DEPLOYMENTS, deployment(6, "a:1")).await.ok(201);
        finish(&cluster).await;
        set_image(&cluster, "a:2").await;
        finish(&cluster).await;
        let mut world = String::new();
        for path in [DEPLOYMENTS, SETS, PODS] {
            world.push_str(&cluster.get(path).await.text());
        }
        worlds.push(world);
        plane.stop().await;
        cluster.shutdown().await;
    }
    assert_eq!(worlds[0], worlds[1]);
}

/// On the machine's clock: says how fast pods come; asserts only that they do, and no more than wanted.
#[tokio::test]
async fn ten_deployments_of_five_hundred_make_five_thousand_pods() {
    let cluster = TestCluster::start().await;
    let plane = start(&cluster);
    let begun = cluster.env().monotonic();
    for n in 0..10 {
        let labels = json!({"app": format!("web-{n}")});
        let mut body = deployment(500, "a:1");
        body["metadata"]["name"] = json!(format!("web-{n}"));
        body["spec"]["selector"]["matchLabels"] = labels.clone();
        body["spec"]["template"]["metadata"]["labels"] = labels;
        cluster.post(DEPLOYMENTS, body).await.ok(201);
    }
    let done = |d: &Value| d["status"]["replicas"] == 500;
    let mut took = None;
    for _ in 0..6000 {
        cluster.env().sleep(Duration::from_millis(20)).await;
        let all = list(&cluster, DEPLOYMENTS).await;
        if all.iter().all(done) {
            took = Some(cluster.env().monotonic() - begun);
            break;
        }
    }
    let took = took.expect("5,000 pods within two minutes");
    println!("5,000 pods in {took:?}: {:.0} a second", 5000.0 / took.as_secs_f64());
    assert_eq!(list(&cluster, PODS).await.len(), 5000);
    assert_eq!(list(&cluster, SETS).await.len(), 10);
    plane.stop().await;
    cluster.shutdown().await;
}
