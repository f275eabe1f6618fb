//! Deployments, ReplicaSets and ReplicationControllers against a whole server; pods become ready by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::LocalClients;
use client::Clients;
use serde_json::{Value, json};
use testkit::{ControlPlane, TestCluster};

use crate::counting::Counting;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const LOOPS: &[&str] =
    &["deployment-controller", "replicaset-controller", "replicationcontroller-controller"];

fn start_with(cluster: &TestCluster, clients: Arc<dyn Clients>) -> ControlPlane {
    let mut plane = cluster.bare_control_plane(clients);
    let context = plane.context.clone();
    for row in controllers::ROWS.iter().filter(|row| LOOPS.contains(&row.name)) {
        plane.own((row.start)(&context));
    }
    plane
}

pub fn start(cluster: &TestCluster) -> ControlPlane {
    start_with(cluster, Arc::new(LocalClients::new(cluster.api().clone())))
}

fn deployment(replicas: i64, image: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
        }
    })
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

async fn list(cluster: &TestCluster, path: &str) -> Vec<Value> {
    cluster.get(path).await.ok(200)["items"].as_array().expect("as it is served").clone()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("as it is served")
}

fn is_ready(pod: &Value) -> bool {
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
fn until<'a>(
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

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
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
async fn finish(cluster: &TestCluster) -> Value {
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
async fn assert_steady(cluster: &TestCluster) {
    cluster.env().sleep(Duration::from_secs(5)).await;
    let before = cluster.api().registry().table().revision();
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(
        before,
        cluster.api().registry().table().revision(),
        "something was written in a steady state"
    );
}

async fn messages(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let events = list(cluster, "/api/v1/namespaces/default/events").await;
    let mut events: Vec<&Value> = events.iter().filter(|e| e["reason"] == reason).collect();
    events.sort_by_key(|e| name(e).to_owned());
    events.iter().map(|e| e["message"].as_str().expect("as it is served").to_owned()).collect()
}

async fn set_image(cluster: &TestCluster, image: &str) {
    let change = json!({"spec": {"template": template(image)}});
    cluster.merge(format!("{DEPLOYMENTS}/web"), change).await.ok(200);
}

/// Sizes by image.
async fn sizes(cluster: &TestCluster) -> BTreeMap<String, i64> {
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
async fn a_deployment_becomes_a_set_becomes_pods_and_its_status_tells() {
    let cluster = TestCluster::simulated(1).await;
    let plane = start(&cluster);
    let mut body = deployment(3, "a:1");
    body["metadata"]["annotations"] = json!({
        "kubernetes.io/change-cause": "first",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    });
    cluster.post(DEPLOYMENTS, body).await.ok(201);
    let d =
        until(&cluster, format!("{DEPLOYMENTS}/web"), "three pods", |d| d["status"]["replicas"] == 3).await;
    assert_eq!(d["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(d["status"]["unavailableReplicas"], 3);
    assert_eq!(d["status"]["updatedReplicas"], 3);
    assert_eq!(d["status"]["terminatingReplicas"], 0);
    assert_eq!(condition(&d, "Available")["reason"], "MinimumReplicasUnavailable");
    assert_eq!(condition(&d, "Progressing")["reason"], "ReplicaSetUpdated");

    let sets = list(&cluster, SETS).await;
    let [set] = sets.as_slice() else { panic!("{sets:#?}") };
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(name(set), format!("web-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], hash);
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], d["metadata"]["uid"]);
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
            "deployment.kubernetes.io/revision": "1",
            "kubernetes.io/change-cause": "first",
        })
    );
    for pod in list(&cluster, PODS).await {
        assert!(name(&pod).starts_with(&format!("web-{hash}-")));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "pod-template-hash": hash}));
    }
    let d = finish(&cluster).await;
    assert_eq!(condition(&d, "Available")["status"], "True");
    let message = format!("ReplicaSet \"web-{hash}\" has successfully progressed.");
    assert_eq!(condition(&d, "Progressing")["message"], message);
    assert_eq!(
        messages(&cluster, "ScalingReplicaSet").await,
        [format!("Scaled up replica set web-{hash} from 0 to 3")]
    );
    assert!(messages(&cluster, "SuccessfulCreate").await[0].starts_with("Created pod: web-"));
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_within_surge_and_unavailable_at_every_step() {
    let cluster = TestCluster::simulated(2).await;
    let plane = start(&cluster);
    let mut body = deployment(10, "a:1");
    body["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    cluster.post(DEPLOYMENTS, body).await.ok(201);
    finish(&cluster).await;

    let from = cluster.get(PODS).await.version();
    let mut sets = cluster.watch(format!("{SETS}?watch=1&resourceVersion={from}&timeoutSeconds=120")).await;
    let mut pods = cluster.watch(format!("{PODS}?watch=1&resourceVersion={from}&timeoutSeconds=120")).await;
    let mut sizes_now: BTreeMap<String, i64> =
        list(&cluster, SETS).await.iter().map(|s| (name(s).to_owned(), 10)).collect();
    let mut ready_now: BTreeMap<String, bool> =
        list(&cluster, PODS).await.iter().map(|pod| (name(pod).to_owned(), is_ready(pod))).collect();
    set_image(&cluster, "a:2").await;
    let d = finish(&cluster).await;
    assert_eq!(d["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(sizes(&cluster).await, BTreeMap::from([("a:1".into(), 0), ("a:2".into(), 10)]));

    // What watchers saw, step by step.
    let mut steps = 0;
    for event in sets.rest().await {
        let set = &event["object"];
        if set["kind"] != "ReplicaSet" {
            continue;
        }
        sizes_now.insert(name(set).to_owned(), set["spec"]["replicas"].as_i64().unwrap());
        let total: i64 = sizes_now.values().sum();
        assert!(total <= 13, "{total} replicas wanted: {sizes_now:?}");
        steps += 1;
    }
    assert!(steps > 6, "a rollout in {steps} events is no rollout");
    let mut deleted = 0;
    for event in pods.rest().await {
        let pod = &event["object"];
        if pod["kind"] != "Pod" {
            continue;
        }
        if event["type"] == "DELETED" {
            ready_now.remove(name(pod));
            deleted += 1;
        } else {
            ready_now.insert(name(pod).to_owned(), is_ready(pod));
        }
        let ready = ready_now.values().filter(|ready| **ready).count();
        assert!(ready >= 8, "only {ready} ready pods");
    }
    assert_eq!(deleted, 10, "each old pod went, and no new one");
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pause_holds_a_rollout_and_resume_lets_it_go() {
    let cluster = TestCluster::simulated(3).await;
    let plane = start(&cluster);
    cluster.post(DEPLOYMENTS, deployment(2, "a:1")).await.ok(201);
    finish(&cluster).await;
    let web = format!("{DEPLOYMENTS}/web");
    cluster.merge(&web, json!({"spec": {"paused": true}})).await.ok(200);
    let d = until(&cluster, &web, "paused", |d| condition(d, "Progressing")["reason"] == "DeploymentPaused")
        .await;
    assert_eq!(condition(&d, "Progressing")["status"], "Unknown");
    set_image(&cluster, "a:2").await;
    cluster.env().sleep(Duration::from_secs(30)).await;
    assert_eq!(sizes(&cluster).await, BTreeMap::from([("a:1".into(), 2)]));
    // It may be scaled all the same.
    cluster.merge(&web, json!({"spec": {"replicas": 4}})).await.ok(200);
    until(&cluster, &web, "scaled", |d| d["status"]["replicas"] == 4).await;
    assert_steady(&cluster).await;

    cluster.merge(&web, json!({"spec": {"paused": null}})).await.ok(200);
    finish(&cluster).await;
    assert_eq!(sizes(&cluster).await, BTreeMap::from([("a:1".into(), 0), ("a:2".into(), 4)]));
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn undo_reuses_the_old_set_under_a_new_number() {
    let cluster = TestCluster::simulated(4).await;
    let plane = start(&cluster);
    cluster.post(DEPLOYMENTS, deployment(2, "a:1")).await.ok(201);
    finish(&cluster).await;
    set_image(&cluster, "a:2").await;
    finish(&cluster).await;
    // What `kubectl rollout undo` sends: the old template.
    set_image(&cluster, "a:1").await;
    let d = finish(&cluster).await;
    assert_eq!(d["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    let sets = list(&cluster, SETS).await;
    assert_eq!(sets.len(), 2, "no third set for a template that is there");
    let old = sets.iter().find(|set| set["spec"]["replicas"] == 2).unwrap();
    assert_eq!(old["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    assert_eq!(old["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    // The annotation of old clients.
    let back = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "2"}}});
    cluster.merge(format!("{DEPLOYMENTS}/web"), back).await.ok(200);
    let d = until(&cluster, format!("{DEPLOYMENTS}/web"), "rolled back", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] == "a:2"
    })
    .await;
    assert!(d["metadata"]["annotations"]["deprecated.deployment.rollback.to"].is_null());
    finish(&cluster).await;
    assert_eq!(
        messages(&cluster, "DeploymentRollback").await,
        ["Rolled back deployment \"web\" to revision 2"]
    );
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_history_is_cut_at_its_limit() {
    let cluster = TestCluster::simulated(5).await;
    let plane = start(&cluster);
    let mut body = deployment(1, "a:1");
    body["spec"]["revisionHistoryLimit"] = json!(2);
    cluster.post(DEPLOYMENTS, body).await.ok(201);
    finish(&cluster).await;
    for image in ["a:2", "a:3", "a:4", "a:5"] {
        set_image(&cluster, image).await;
        finish(&cluster).await;
    }
    cluster.env().sleep(Duration::from_secs(1)).await;
    let expected = [("a:3".into(), 0), ("a:4".into(), 0), ("a:5".into(), 1)];
    assert_eq!(sizes(&cluster).await, BTreeMap::from(expected));
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn scaling_up_and_down_follows_the_deployment() {
    let cluster = TestCluster::simulated(6).await;
    let plane = start(&cluster);
    cluster.post(DEPLOYMENTS, deployment(2, "a:1")).await.ok(201);
    finish(&cluster).await;
    for replicas in [6, 1, 0, 3] {
        let scale = json!({"spec": {"replicas": replicas}});
        cluster.merge(format!("{DEPLOYMENTS}/web/scale"), scale).await.ok(200);
        finish(&cluster).await;
        assert_eq!(list(&cluster, PODS).await.len(), replicas);
        let set = &list(&cluster, SETS).await[0];
        let desired = &set["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"];
        assert_eq!(*desired, if replicas == 0 { "0".to_owned() } else { replicas.to_string() });
    }
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_for_the_last_old_pod() {
    let cluster = TestCluster::simulated(7).await;
    let plane = start(&cluster);
    let mut body = deployment(2, "a:1");
    body["spec"]["strategy"] = json!({"type": "Recreate"});
    // A finalizer keeps old pods about, as a slow node would.
    body["spec"]["template"]["metadata"]["finalizers"] = json!(["example.com/slow"]);
    cluster.post(DEPLOYMENTS, body).await.ok(201);
    finish(&cluster).await;
    let old: Vec<Value> = list(&cluster, PODS).await;
    set_image(&cluster, "a:2").await;
    cluster.env().sleep(Duration::from_secs(30)).await;
    assert_eq!(sizes(&cluster).await, BTreeMap::from([("a:1".into(), 0)]), "old pods are still there");
    for pod in &old {
        cluster
            .merge(format!("{PODS}/{}", name(pod)), json!({"metadata": {"finalizers": null}}))
            .await
            .ok(200);
    }
    until(&cluster, SETS, "a new set", |sets| sets["items"].as_array().unwrap().len() == 2).await;
    finish(&cluster).await;
    assert_eq!(sizes(&cluster).await, BTreeMap::from([("a:1".into(), 0), ("a:2".into(), 2)]));
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_without_progress_is_found_stuck_at_its_deadline() {
    let cluster = TestCluster::simulated(8).await;
    let plane = start(&cluster);
    let mut body = deployment(2, "a:1");
    body["spec"]["progressDeadlineSeconds"] = json!(60);
    cluster.post(DEPLOYMENTS, body).await.ok(201);
    let web = format!("{DEPLOYMENTS}/web");
    cluster.env().sleep(Duration::from_secs(55)).await;
    let d = cluster.get(&web).await.ok(200);
    assert_eq!(condition(&d, "Progressing")["status"], "True");
    cluster.env().sleep(Duration::from_secs(10)).await;
    let d = cluster.get(&web).await.ok(200);
    assert_eq!(condition(&d, "Progressing")["status"], "False");
    assert_eq!(condition(&d, "Progressing")["reason"], "ProgressDeadlineExceeded");
    let message = condition(&d, "Progressing")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("ReplicaSet \"web-") && message.ends_with("\" has timed out progressing."));
    assert_steady(&cluster).await;
    // It is not given up: progress later is progress.
    finish(&cluster).await;
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_count_as_available_only_after_their_time() {
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
async fn pods_are_replaced_adopted_and_let_go() {
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
async fn a_deployment_adopts_a_set_of_its_own_template() {
    let cluster = TestCluster::simulated(11).await;
    let plane = start(&cluster);
    let set = json!({"metadata": {"name": "before", "labels": {"app": "web"}}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("a:1")}});
    cluster.post(SETS, set).await.ok(201);
    cluster.post(DEPLOYMENTS, deployment(2, "a:1")).await.ok(201);
    let d = finish(&cluster).await;
    let sets = list(&cluster, SETS).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["uid"], d["metadata"]["uid"]);
    assert_eq!(sets[0]["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_makes_another_hash() {
    let cluster = TestCluster::simulated(12).await;
    // What the set will be called is known only to its loop: let it make one, then put another in its place.
    let plane = start(&cluster);
    cluster.post(DEPLOYMENTS, deployment(0, "a:1")).await.ok(201);
    until(&cluster, SETS, "a set", |sets| sets["items"].as_array().is_some_and(|all| all.len() == 1)).await;
    plane.stop().await;
    let taken = name(&list(&cluster, SETS).await[0]).to_owned();
    cluster.delete(format!("{SETS}/{taken}?propagationPolicy=Background")).await.ok(200);
    let other = json!({"metadata": {"name": taken}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"app": "else"}},
        "template": {"metadata": {"labels": {"app": "else"}}, "spec": {"containers": [{"name": "c", "image": "b"}]}}}});
    cluster.post(SETS, other).await.ok(201);
    let plane = start(&cluster);
    let web = format!("{DEPLOYMENTS}/web");
    until(&cluster, &web, "a collision", |d| d["status"]["collisionCount"] == 1).await;
    until(&cluster, SETS, "a set", |sets| sets["items"].as_array().is_some_and(|all| all.len() == 2)).await;
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_makes_a_replica_failure_and_its_end_mends_it() {
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
async fn a_replication_controller_is_kept_by_the_same_rules() {
    let cluster = TestCluster::simulated(14).await;
    let plane = start(&cluster);
    let rc = json!({"metadata": {"name": "rc"}, "spec": {"replicas": 4, "selector": {"app": "web"}, "template": template("a:1")}});
    cluster.post(CONTROLLERS, rc).await.ok(201);
    let rc = format!("{CONTROLLERS}/rc");
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

/// The loops are killed after their n-th write, for every n, and started again: the end is the same.
#[tokio::test(start_paused = true)]
async fn killed_after_any_write_the_end_is_the_same() {
    for most in 1..200 {
        let cluster = TestCluster::simulated(100 + most as u64).await;
        let counting = Counting::new(Arc::new(LocalClients::new(cluster.api().clone())), most);
        let mut plane = Some(start_with(&cluster, counting.clone()));
        let mut body = deployment(4, "a:1");
        body["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
        cluster.post(DEPLOYMENTS, body).await.ok(201);
        for image in ["a:1", "a:2"] {
            set_image(&cluster, image).await;
            let mut complete = false;
            for _ in 0..2000 {
                if counting.is_spent()
                    && let Some(killed) = plane.take_if(|_| counting.once())
                {
                    killed.kill();
                    plane = Some(start(&cluster));
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
        let spent = counting.is_spent();
        if let Some(plane) = plane {
            plane.kill();
        }
        cluster.shutdown().await;
        if !spent {
            assert!(most > 15, "only {most} writes for two rollouts?");
            return;
        }
    }
    panic!("two rollouts of four pods took more than 200 writes");
}

#[tokio::test(start_paused = true)]
async fn conflicts_only_delay_a_rollout() {
    let cluster = TestCluster::simulated(15).await;
    let plane =
        start_with(&cluster, Counting::conflicting(Arc::new(LocalClients::new(cluster.api().clone()))));
    cluster.post(DEPLOYMENTS, deployment(4, "a:1")).await.ok(201);
    finish(&cluster).await;
    set_image(&cluster, "a:2").await;
    finish(&cluster).await;
    assert_eq!(sizes(&cluster).await, BTreeMap::from([("a:1".into(), 0), ("a:2".into(), 4)]));
    assert_eq!(list(&cluster, PODS).await.len(), 4);
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn in_a_namespace_that_is_going_nothing_is_made_and_nothing_complained_of() {
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
