//! StatefulSets on simulated nodes: order, identity, updates of every strategy, history, adoption, what goes wrong.

use std::time::Duration;

use plane::{Plane, Settings};
use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::requests::Requests;

use crate::workloads::{PODS, assert_steady, is_ready, list, messages, name, until};

pub const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
pub const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
pub const WEB: &str = "/apis/apps/v1/namespaces/default/statefulsets/web";

pub async fn start(seed: u64) -> (TestCluster, Plane) {
    let cluster = TestCluster::simulated(seed).await;
    let settings = Settings { nodes: Some(testkit::nodes(3)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    (cluster, plane)
}

pub async fn stop(cluster: TestCluster, plane: Plane) {
    plane.stop().await;
    cluster.shutdown().await;
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

pub fn set(replicas: u32, more: Value) -> Value {
    let mut spec = json!({"replicas": replicas, "serviceName": "svc", "selector": {"matchLabels": {"app": "web"}},
        "template": template("one")});
    for (field, value) in more.as_object().expect("fields of a spec") {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "web"}, "spec": spec})
}

/// All pods are there, ready, and of the set's last revision.
pub async fn settled(cluster: &TestCluster) -> Value {
    let done = |set: &Value| {
        let (status, wanted) = (&set["status"], &set["spec"]["replicas"]);
        status["observedGeneration"] == set["metadata"]["generation"]
            && status["replicas"] == *wanted
            && status["updateRevision"] == status["currentRevision"]
            && ["readyReplicas", "updatedReplicas", "currentReplicas", "availableReplicas"]
                .iter()
                .all(|field| status[field].as_i64().unwrap_or(0) == wanted.as_i64().unwrap_or(-1))
    };
    until(cluster, WEB, "a settled set", done).await
}

pub async fn names(cluster: &TestCluster, path: &str) -> Vec<String> {
    list(cluster, path).await.iter().map(|object| name(object).to_owned()).collect()
}

async fn pod(cluster: &TestCluster, name: &str) -> Value {
    cluster.get(format!("{PODS}/{name}")).await.ok(200)
}

fn revision(pod: &Value) -> &str {
    pod["metadata"]["labels"]["controller-revision-hash"].as_str().expect("a revision")
}

fn image(object: &Value) -> &str {
    object["spec"]["containers"][0]["image"].as_str().expect("an image")
}

async fn images(cluster: &TestCluster) -> Vec<String> {
    list(cluster, PODS).await.iter().map(|pod| image(pod).to_owned()).collect()
}

async fn set_image(cluster: &TestCluster, image: &str) {
    cluster.merge(WEB, json!({"spec": {"template": template(image)}})).await.ok(200);
}

/// What happened to pods since `from`: `+web-0` made, `-web-0` asked to go.
async fn history(cluster: &TestCluster, from: &str) -> Vec<String> {
    let mut watch = cluster.watch(format!("{PODS}?watch=1&resourceVersion={from}&timeoutSeconds=1")).await;
    let (mut said, mut going) = (Vec::new(), std::collections::BTreeSet::new());
    for event in watch.rest().await {
        let object = &event["object"];
        let Some(uid) = object["metadata"]["uid"].as_str().map(str::to_owned) else { continue };
        if event["type"] == "ADDED" {
            said.push(format!("+{}", name(object)));
        } else if object["metadata"]["deletionTimestamp"].is_string() && going.insert(uid) {
            said.push(format!("-{}", name(object)));
        }
    }
    said
}

#[tokio::test(start_paused = true)]
async fn pods_are_made_in_order_with_names_of_their_own() {
    let (cluster, plane) = start(301).await;
    let mut body = set(3, json!({}));
    body["metadata"]["annotations"] = json!({"note": "first"});
    cluster.post(SETS, body).await.ok(201);
    let mut seen = 0;
    while seen < 3 {
        let pods = list(&cluster, PODS).await;
        seen = pods.iter().filter(|pod| is_ready(pod)).count();
        assert!(pods.len() <= seen + 1, "the next before this one is ready");
        cluster.env().sleep(Duration::from_millis(5)).await;
    }
    let web = settled(&cluster).await;
    let revisions = list(&cluster, REVISIONS).await;
    let [first] = revisions.as_slice() else { panic!("{revisions:#?}") };
    let hash = first["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str().expect("a hash");
    assert_eq!(name(first), format!("web-{hash}"));
    assert_eq!(first["revision"], 1);
    assert_eq!(first["metadata"]["annotations"], json!({"note": "first"}));
    assert_eq!(first["metadata"]["labels"]["app"], "web");
    assert_eq!(first["metadata"]["ownerReferences"][0]["uid"], web["metadata"]["uid"]);
    assert_eq!(first["data"]["spec"]["template"]["$patch"], "replace");
    assert_eq!(
        web["status"],
        json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
            "currentRevision": name(first), "updateRevision": name(first), "collisionCount": 0, "availableReplicas": 3})
    );
    for (ordinal, pod) in list(&cluster, PODS).await.iter().enumerate() {
        let own = format!("web-{ordinal}");
        assert_eq!(name(pod), own);
        assert_eq!(pod["metadata"]["generateName"], "web-");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "web", "apps.kubernetes.io/pod-index": ordinal.to_string(),
                "controller-revision-hash": name(first), "statefulset.kubernetes.io/pod-name": own})
        );
        assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!(own), &json!("svc")));
    }
    let created: Vec<String> =
        (0..3).map(|n| format!("Create Pod web-{n} in StatefulSet web successful")).collect();
    assert_eq!(messages(&cluster, "SuccessfulCreate").await, created);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn scaling_goes_up_and_down_in_order_or_all_at_once() {
    for (policy, down) in
        [("OrderedReady", ["-web-4", "-web-3", "-web-2"]), ("Parallel", ["-web-4", "-web-3", "-web-2"])]
    {
        let (cluster, plane) = start(302).await;
        cluster.post(SETS, set(5, json!({"podManagementPolicy": policy}))).await.ok(201);
        settled(&cluster).await;
        let from = cluster.get(PODS).await.version();
        cluster.merge(format!("{WEB}/scale"), json!({"spec": {"replicas": 2}})).await.ok(200);
        settled(&cluster).await;
        assert_eq!(history(&cluster, &from).await, down, "{policy}");
        assert_eq!(names(&cluster, PODS).await, ["web-0", "web-1"]);
        stop(cluster, plane).await;
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_pods_do_not_wait_for_each_other() {
    let (cluster, plane) = start(303).await;
    let mut body = set(4, json!({"podManagementPolicy": "Parallel"}));
    body["spec"]["template"]["metadata"]["annotations"] = json!({"sim.setpoint.dev/ready-seconds": "3600"});
    cluster.post(SETS, body).await.ok(201);
    until(&cluster, WEB, "four pods, none ready", |set| set["status"]["replicas"] == 4).await;
    assert!(list(&cluster, PODS).await.iter().all(|pod| !is_ready(pod)));
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_down_to_its_partition_and_back_to_an_earlier_revision() {
    let (cluster, plane) = start(304).await;
    let strategy =
        |partition: u32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
    cluster.post(SETS, set(3, json!({"updateStrategy": strategy(2)}))).await.ok(201);
    let first = settled(&cluster).await["status"]["currentRevision"].clone();
    let from = cluster.get(PODS).await.version();
    set_image(&cluster, "two").await;
    let updated = |wanted: i64| {
        move |set: &Value| set["status"]["updatedReplicas"] == wanted && set["status"]["readyReplicas"] == 3
    };
    let web = until(&cluster, WEB, "one updated pod", updated(1)).await;
    assert_eq!(images(&cluster).await, ["one", "one", "two"]);
    assert_eq!(web["status"]["currentRevision"], first);
    assert_eq!(web["status"]["currentReplicas"], 2);
    // A pod below the partition comes back as it was.
    cluster.delete(format!("{PODS}/web-0")).await.ok(200);
    cluster.env().sleep(Duration::from_secs(60)).await;
    until(&cluster, WEB, "three ready", updated(1)).await;
    assert_eq!(images(&cluster).await, ["one", "one", "two"]);

    cluster.merge(WEB, json!({"spec": {"updateStrategy": strategy(0)}})).await.ok(200);
    let web = settled(&cluster).await;
    assert_eq!(images(&cluster).await, ["two", "two", "two"]);
    let second = web["status"]["currentRevision"].clone();
    assert_ne!(first, second);
    let went: Vec<String> =
        history(&cluster, &from).await.into_iter().filter(|h| h.starts_with('-')).collect();
    assert_eq!(went, ["-web-2", "-web-0", "-web-1", "-web-0"]);

    set_image(&cluster, "one").await;
    let web = settled(&cluster).await;
    assert_eq!(web["status"]["currentRevision"], first, "the revision of old is used again");
    let numbers: Vec<(String, i64)> = list(&cluster, REVISIONS)
        .await
        .iter()
        .map(|r| (name(r).to_owned(), r["revision"].as_i64().expect("a number")))
        .collect();
    let number = |of: &Value| numbers.iter().find(|(name, _)| *of == **name).map(|(_, number)| *number);
    assert_eq!((numbers.len(), number(&first), number(&second)), (2, Some(3), Some(2)));
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_up_to_its_limit() {
    let (cluster, plane) = start(305).await;
    cluster.post(SETS, set(1, json!({"revisionHistoryLimit": 2}))).await.ok(201);
    settled(&cluster).await;
    for image in ["two", "three", "four", "five"] {
        set_image(&cluster, image).await;
        settled(&cluster).await;
    }
    cluster.env().sleep(Duration::from_secs(5)).await;
    let mut kept: Vec<(i64, String)> = list(&cluster, REVISIONS)
        .await
        .iter()
        .map(|r| {
            (r["revision"].as_i64().expect("a number"), image(&r["data"]["spec"]["template"]).to_owned())
        })
        .collect();
    kept.sort();
    assert_eq!(kept, [(3, "three".to_owned()), (4, "four".to_owned()), (5, "five".to_owned())]);
    assert_steady_but_leases(&cluster).await;
    stop(cluster, plane).await;
}

/// The set itself, its pods and its history do not change.
async fn assert_steady_but_leases(cluster: &TestCluster) {
    let versions = async || {
        let mut all = Vec::new();
        for path in [SETS, PODS, REVISIONS] {
            let objects = list(cluster, path).await;
            all.extend(objects.iter().map(|object| object["metadata"]["resourceVersion"].clone()));
        }
        all
    };
    let before = versions().await;
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(before, versions().await, "something was written in a steady state");
}

#[tokio::test(start_paused = true)]
async fn on_delete_a_pod_is_updated_when_somebody_deletes_it() {
    let (cluster, plane) = start(306).await;
    cluster.post(SETS, set(2, json!({"updateStrategy": {"type": "OnDelete"}}))).await.ok(201);
    let first = settled(&cluster).await["status"]["currentRevision"].clone();
    set_image(&cluster, "two").await;
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert_eq!(images(&cluster).await, ["one", "one"]);
    cluster.delete(format!("{PODS}/web-0")).await.ok(200);
    let one = |set: &Value| set["status"]["updatedReplicas"] == 1 && set["status"]["readyReplicas"] == 2;
    let web = until(&cluster, WEB, "one updated pod", one).await;
    assert_eq!(images(&cluster).await, ["two", "one"]);
    assert_eq!(web["status"]["currentRevision"], first);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_update_stays_stuck_until_its_pod_is_deleted() {
    let (cluster, plane) = start(307).await;
    cluster.post(SETS, set(3, json!({}))).await.ok(201);
    settled(&cluster).await;
    let mut broken = template("broken");
    broken["metadata"]["annotations"] = json!({"sim.setpoint.dev/ready-seconds": "100000"});
    cluster.merge(WEB, json!({"spec": {"template": broken}})).await.ok(200);
    let stuck = |set: &Value| set["status"]["updatedReplicas"] == 1 && set["status"]["readyReplicas"] == 2;
    until(&cluster, WEB, "an update that does not come on", stuck).await;
    let good =
        json!({"spec": {"template": {"metadata": {"annotations": null}, "spec": template("good")["spec"]}}});
    cluster.merge(WEB, good).await.ok(200);
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(
        images(&cluster).await,
        ["one", "one", "broken"],
        "in order it waits for the broken one, as upstream does"
    );
    cluster.delete(format!("{PODS}/web-2")).await.ok(200);
    settled(&cluster).await;
    assert_eq!(images(&cluster).await, ["good", "good", "good"]);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_failed_or_succeeded_are_replaced() {
    let (cluster, plane) = start(308).await;
    cluster.post(SETS, set(2, json!({}))).await.ok(201);
    settled(&cluster).await;
    for phase in ["Failed", "Succeeded"] {
        let old = pod(&cluster, "web-0").await;
        cluster.merge(format!("{PODS}/web-0/status"), json!({"status": {"phase": phase}})).await.ok(200);
        let uid = old["metadata"]["uid"].clone();
        let another = |pod: &Value| {
            pod["metadata"]["uid"].is_string() && pod["metadata"]["uid"] != uid && is_ready(pod)
        };
        until(&cluster, format!("{PODS}/web-0"), "another web-0", another).await;
    }
    settled(&cluster).await;
    let deleted = messages(&cluster, "SuccessfulDelete").await;
    assert!(deleted.contains(&"Delete Pod web-0 in StatefulSet web successful".to_owned()), "{deleted:?}");
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_pod_waits_until_the_last_was_ready_for_long_enough() {
    let (cluster, plane) = start(309).await;
    cluster.post(SETS, set(2, json!({"minReadySeconds": 100}))).await.ok(201);
    let waits = |set: &Value| set["status"]["readyReplicas"] == 1 && set["status"]["availableReplicas"] == 0;
    until(&cluster, WEB, "a pod that is ready and not available", waits).await;
    cluster.env().sleep(Duration::from_secs(80)).await;
    assert_eq!(names(&cluster, PODS).await, ["web-0"]);
    cluster.env().sleep(Duration::from_secs(30)).await;
    assert_eq!(names(&cluster, PODS).await, ["web-0", "web-1"]);
    cluster.env().sleep(Duration::from_secs(120)).await;
    settled(&cluster).await;
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn ordinals_move_with_their_start() {
    let (cluster, plane) = start(310).await;
    cluster.post(SETS, set(2, json!({"ordinals": {"start": 3}}))).await.ok(201);
    settled(&cluster).await;
    assert_eq!(names(&cluster, PODS).await, ["web-3", "web-4"]);
    cluster.merge(WEB, json!({"spec": {"ordinals": {"start": 2}}})).await.ok(200);
    until(&cluster, format!("{PODS}/web-2"), "the new first", is_ready).await;
    settled(&cluster).await;
    assert_eq!(names(&cluster, PODS).await, ["web-2", "web-3"]);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_what_no_longer_matches_is_released() {
    let (cluster, plane) = start(311).await;
    cluster.post(SETS, set(2, json!({}))).await.ok(201);
    settled(&cluster).await;
    let before: Vec<Value> =
        list(&cluster, PODS).await.iter().map(|p| p["metadata"]["uid"].clone()).collect();
    cluster.delete(format!("{WEB}?propagationPolicy=Orphan")).await.ok(200);
    until(&cluster, WEB, "the end of the set", |set| set["code"] == 404).await;
    for object in list(&cluster, PODS).await.iter().chain(&list(&cluster, REVISIONS).await) {
        assert!(object["metadata"]["ownerReferences"].is_null(), "{object:#}");
    }
    cluster.post(SETS, set(2, json!({}))).await.ok(201);
    let web = settled(&cluster).await;
    let after: Vec<Value> = list(&cluster, PODS).await.iter().map(|p| p["metadata"]["uid"].clone()).collect();
    assert_eq!(before, after, "the same pods");
    for object in list(&cluster, PODS).await.iter().chain(&list(&cluster, REVISIONS).await) {
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], web["metadata"]["uid"], "{object:#}");
    }
    assert_eq!(list(&cluster, REVISIONS).await.len(), 1);

    cluster.merge(format!("{PODS}/web-1"), json!({"metadata": {"labels": {"app": "other"}}})).await.ok(200);
    let released = |pod: &Value| pod["metadata"]["ownerReferences"].is_null();
    until(&cluster, format!("{PODS}/web-1"), "a pod of nobody", released).await;
    // Its name is taken: the set cannot make another, says nothing of it, and goes on when it can.
    until(&cluster, WEB, "one pod less", |set| set["status"]["replicas"] == 1).await;
    cluster.delete(format!("{PODS}/web-1")).await.ok(200);
    cluster.env().sleep(Duration::from_secs(1200)).await;
    settled(&cluster).await;
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_of_a_revision_is_a_collision() {
    let (cluster, plane) = start(312).await;
    cluster.post(SETS, set(1, json!({}))).await.ok(201);
    let first = settled(&cluster).await["status"]["currentRevision"].as_str().expect("a name").to_owned();
    cluster.delete(WEB).await.ok(200);
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert!(names(&cluster, REVISIONS).await.is_empty());
    let taken = json!({"metadata": {"name": first}, "revision": 1, "data": {"other": true}});
    cluster.post(REVISIONS, taken).await.ok(201);
    cluster.post(SETS, set(1, json!({}))).await.ok(201);
    let web = settled(&cluster).await;
    assert_eq!(web["status"]["collisionCount"], 1);
    assert_ne!(web["status"]["currentRevision"], first);
    assert_eq!(revision(&pod(&cluster, "web-0").await), web["status"]["currentRevision"]);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn a_revision_in_other_bytes_that_means_the_same_replaces_no_pod() {
    let (cluster, plane) = start(313).await;
    cluster.post(SETS, set(1, json!({}))).await.ok(201);
    settled(&cluster).await;
    let uid = pod(&cluster, "web-0").await["metadata"]["uid"].clone();
    let mut earlier = list(&cluster, REVISIONS).await.remove(0);
    cluster.delete(format!("{WEB}?propagationPolicy=Orphan")).await.ok(200);
    until(&cluster, WEB, "the end of the set", |set| set["code"] == 404).await;
    // As a version before defaults and omitted nulls wrote it.
    let path = format!("{REVISIONS}/{}", name(&earlier));
    cluster.delete(path).await.ok(200);
    let labels = earlier["metadata"]["labels"].clone();
    earlier["metadata"] = json!({"name": name(&earlier), "labels": labels});
    earlier["data"]["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    let spec = &mut earlier["data"]["spec"]["template"]["spec"];
    spec.as_object_mut().expect("a spec").remove("dnsPolicy").expect("a default");
    cluster.post(REVISIONS, earlier).await.ok(201);
    cluster.post(SETS, set(1, json!({}))).await.ok(201);
    settled(&cluster).await;
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert_eq!(list(&cluster, REVISIONS).await.len(), 1);
    assert_eq!(pod(&cluster, "web-0").await["metadata"]["uid"], uid);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_made_is_told_and_tried_again() {
    let cluster = TestCluster::simulated(314).await;
    let plane = cluster.controllers(cluster.local_clients(), &["statefulset-controller"]);
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    cluster.post("/api/v1/namespaces/default/resourcequotas", quota).await.ok(201);
    cluster
        .merge(
            "/api/v1/namespaces/default/resourcequotas/none/status",
            json!({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}),
        )
        .await
        .ok(200);
    cluster.post(SETS, set(1, json!({}))).await.ok(201);
    cluster.env().sleep(Duration::from_secs(30)).await;
    let failed = messages(&cluster, "FailedCreate").await;
    let expected =
        "Create Pod web-0 in StatefulSet web failed error: pods \"web-0\" is forbidden: exceeded quota: none";
    assert!(failed.iter().any(|message| message.starts_with(expected)), "{failed:?}");
    cluster.delete("/api/v1/namespaces/default/resourcequotas/none").await.ok(200);
    cluster.env().sleep(Duration::from_secs(1000)).await;
    assert_eq!(names(&cluster, PODS).await, ["web-0"]);
    assert_steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// What one change of one pod makes the controllers read, with that many other sets and pods around.
async fn read_for_one_change(others: usize) -> u64 {
    let cluster = TestCluster::simulated(315).await;
    let requests = Requests::new(&cluster, cluster.local_clients());
    let plane = cluster.controllers(requests, &["statefulset-controller"]);
    for at in 0..others {
        let mut other = set(0, json!({"selector": {"matchLabels": {"app": "other"}}}));
        other["metadata"]["name"] = json!(format!("other-{at}"));
        other["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
        cluster.post(SETS, other).await.ok(201);
        let mut pod = template("one");
        pod["metadata"]["name"] = json!(format!("pod-{at}"));
        pod["metadata"]["labels"] = json!({"app": "nobody"});
        cluster.post(PODS, pod).await.ok(201);
    }
    cluster.post(SETS, set(3, json!({"podManagementPolicy": "Parallel"}))).await.ok(201);
    cluster.env().sleep(Duration::from_secs(30)).await;
    use client::resources::{
        CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS as PODS_GVR, STATEFUL_SETS,
    };
    let informers = &plane.context.informers;
    let given = || {
        let all = [&STATEFUL_SETS, &PODS_GVR, &PERSISTENT_VOLUME_CLAIMS, &CONTROLLER_REVISIONS];
        all.iter().map(|resource| informers.of(resource).store().given()).sum::<u64>()
    };
    let before = given();
    cluster.merge(format!("{PODS}/web-1/status"), json!({"status": {"phase": "Running"}})).await.ok(200);
    cluster.env().sleep(Duration::from_secs(10)).await;
    let read = given() - before;
    plane.stop().await;
    cluster.shutdown().await;
    read
}

#[tokio::test(start_paused = true)]
async fn what_one_change_costs_does_not_grow_with_other_objects() {
    let (few, many) = (read_for_one_change(10).await, read_for_one_change(400).await);
    assert!(few > 0, "the change is looked at");
    assert_eq!(few, many);
}
