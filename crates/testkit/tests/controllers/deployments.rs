//! Deployments against a whole server: rollouts of both kinds, their limits and history, pauses, deadlines, adoption.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestCluster;

use crate::workloads::{
    DEPLOYMENTS, PODS, SETS, assert_steady, condition, deployment, finish, is_ready, list, messages, name,
    set_image, sizes, start, template, until,
};

#[tokio::test(start_paused = true)]
async fn a_deployment_creates_a_replica_set_and_pods_and_reports_status() {
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
async fn a_paused_rollout_continues_after_resume() {
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
async fn undo_reuses_the_old_replica_set_under_a_new_revision() {
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
async fn the_revision_history_is_limited() {
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
async fn a_rollout_without_progress_fails_at_its_deadline() {
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
async fn a_deployment_adopts_a_replica_set_of_its_template() {
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
async fn a_name_collision_changes_the_template_hash() {
    let cluster = TestCluster::simulated(12).await;
    // What the set will be called is known only to its controller: let it make one, then put another in its place.
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
