//! The claims of StatefulSets: made before the pods that use them, kept or deleted as the set says.

use std::time::Duration;

use plane::Plane;
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::statefulsets::{SETS, WEB, names, set, stop};
use crate::workloads::{PODS, list, messages, name, until};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// With volumes for all claims, and for those that come after them: a volume that was used is not used again.
async fn start(seed: u64) -> (TestCluster, Plane) {
    let (cluster, plane) = crate::statefulsets::start(seed).await;
    for at in 0..8 {
        let volume = json!({"metadata": {"name": format!("volume-{at}")}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
        cluster.post("/api/v1/persistentvolumes", volume).await.ok(201);
    }
    (cluster, plane)
}

fn with_claims(replicas: u32, templates: &[&str], policy: Value) -> Value {
    let claim = |name: &&str| {
        json!({"metadata": {"name": name, "labels": {"of": name}}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let templates: Vec<Value> = templates.iter().map(claim).collect();
    set(replicas, json!({"volumeClaimTemplates": templates, "persistentVolumeClaimRetentionPolicy": policy}))
}

fn ready(replicas: i64) -> impl Fn(&Value) -> bool {
    move |set: &Value| {
        let status = &set["status"];
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        count("readyReplicas") == replicas && count("replicas") == replicas
    }
}

fn owners(object: &Value) -> Vec<(String, String)> {
    let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let text = |owner: &Value, field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    owners.iter().map(|owner| (text(owner, "kind"), text(owner, "name"))).collect()
}

#[tokio::test(start_paused = true)]
async fn each_pod_has_claims_of_its_own_that_outlive_it() {
    let (cluster, plane) = start(321).await;
    cluster.post(SETS, with_claims(2, &["data", "log"], json!({}))).await.ok(201);
    until(&cluster, WEB, "two pods", ready(2)).await;
    let claims = list(&cluster, CLAIMS).await;
    let made: Vec<&str> = claims.iter().map(name).collect();
    assert_eq!(made, ["data-web-0", "data-web-1", "log-web-0", "log-web-1"]);
    assert_eq!(claims[0]["metadata"]["labels"], json!({"of": "data", "app": "web"}));
    assert!(claims.iter().all(|claim| owners(claim).is_empty()), "{claims:#?}");
    let pod = cluster.get(format!("{PODS}/web-1")).await.ok(200);
    let volume = |at: usize| {
        (
            &pod["spec"]["volumes"][at]["name"],
            &pod["spec"]["volumes"][at]["persistentVolumeClaim"]["claimName"],
        )
    };
    assert_eq!(volume(0), (&json!("data"), &json!("data-web-1")));
    assert_eq!(volume(1), (&json!("log"), &json!("log-web-1")));
    let created = messages(&cluster, "SuccessfulCreate").await;
    let expected = [
        "Create Claim data-web-0 Pod web-0 in StatefulSet web success",
        "Create Claim log-web-0 Pod web-0 in StatefulSet web success",
        "Create Pod web-0 in StatefulSet web successful",
    ];
    assert_eq!(created[..3], expected);

    cluster.merge(WEB, json!({"spec": {"replicas": 0}})).await.ok(200);
    until(&cluster, WEB, "no pods", ready(0)).await;
    assert_eq!(names(&cluster, CLAIMS).await.len(), 4, "claims are kept");
    let before: Vec<Value> =
        list(&cluster, CLAIMS).await.iter().map(|c| c["metadata"]["uid"].clone()).collect();
    cluster.merge(WEB, json!({"spec": {"replicas": 2}})).await.ok(200);
    until(&cluster, WEB, "two pods again", ready(2)).await;
    let after: Vec<Value> =
        list(&cluster, CLAIMS).await.iter().map(|c| c["metadata"]["uid"].clone()).collect();
    assert_eq!(before, after, "and used again");
    stop(cluster, plane).await;
}

/// Whoever uses it is waited for by others: here the test lets a claim go when it is deleted.
async fn let_go(cluster: &TestCluster) {
    for claim in list(cluster, CLAIMS).await {
        if claim["metadata"]["deletionTimestamp"].is_string() {
            let free = json!({"metadata": {"finalizers": null}});
            cluster.merge(format!("{CLAIMS}/{}", name(&claim)), free).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_pods_that_are_scaled_away() {
    let (cluster, plane) = start(322).await;
    cluster.post(SETS, with_claims(3, &["data"], json!({"whenScaled": "Delete"}))).await.ok(201);
    until(&cluster, WEB, "three pods", ready(3)).await;
    assert!(list(&cluster, CLAIMS).await.iter().all(|claim| owners(claim).is_empty()));
    let old = cluster.get(format!("{CLAIMS}/data-web-2")).await.ok(200)["metadata"]["uid"].clone();
    cluster.merge(WEB, json!({"spec": {"replicas": 1}})).await.ok(200);
    until(&cluster, WEB, "one pod", ready(1)).await;
    cluster.env().sleep(Duration::from_secs(10)).await;
    let_go(&cluster).await;
    assert_eq!(names(&cluster, CLAIMS).await, ["data-web-0"]);
    cluster.merge(WEB, json!({"spec": {"replicas": 3}})).await.ok(200);
    until(&cluster, WEB, "three pods", ready(3)).await;
    assert_ne!(cluster.get(format!("{CLAIMS}/data-web-2")).await.ok(200)["metadata"]["uid"], old);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_claim_of_its_predecessor_to_go_and_is_woken_then() {
    let (cluster, plane) = start(323).await;
    cluster.post(SETS, with_claims(2, &["data"], json!({"whenScaled": "Delete"}))).await.ok(201);
    until(&cluster, WEB, "two pods", ready(2)).await;
    // Somebody keeps it for a while.
    let keep = json!({"metadata": {"finalizers": ["test/keep"]}});
    cluster.merge(format!("{CLAIMS}/data-web-1"), keep).await.ok(200);
    cluster.merge(WEB, json!({"spec": {"replicas": 1}})).await.ok(200);
    until(&cluster, WEB, "one pod", ready(1)).await;
    let old = cluster.get(format!("{CLAIMS}/data-web-1")).await.json();
    assert_eq!(owners(&old), [("Pod".to_owned(), "web-1".to_owned())]);
    cluster.merge(WEB, json!({"spec": {"replicas": 2}})).await.ok(200);
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert_eq!(names(&cluster, PODS).await, ["web-0"]);
    let_go(&cluster).await;
    until(&cluster, WEB, "two pods again", ready(2)).await;
    let new = cluster.get(format!("{CLAIMS}/data-web-1")).await.ok(200);
    assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
    stop(cluster, plane).await;
}

/// Claims without owners too: the policy keeps them, somebody deleted one by hand.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_gone_wakes_the_set_that_cannot_make_its_pod() {
    let (cluster, plane) = start(326).await;
    cluster.post(SETS, with_claims(1, &["data"], json!({}))).await.ok(201);
    until(&cluster, WEB, "a pod", ready(1)).await;
    let keep = json!({"metadata": {"finalizers": ["test/keep"]}});
    cluster.merge(format!("{CLAIMS}/data-web-0"), keep).await.ok(200);
    cluster.delete(format!("{CLAIMS}/data-web-0")).await.ok(200);
    cluster.delete(format!("{PODS}/web-0")).await.ok(200);
    // Long enough for the attempts to be minutes apart.
    cluster.env().sleep(Duration::from_secs(700)).await;
    assert!(names(&cluster, PODS).await.is_empty());
    let refused = messages(&cluster, "FailedCreate").await;
    let expected = "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted";
    assert!(refused.contains(&expected.to_owned()), "{refused:?}");
    let_go(&cluster).await;
    cluster.env().sleep(Duration::from_secs(10)).await;
    assert_eq!(names(&cluster, PODS).await, ["web-0"]);
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_set_or_stay_as_the_policy_changes() {
    let (cluster, plane) = start(324).await;
    cluster.post(SETS, with_claims(2, &["data"], json!({"whenDeleted": "Delete"}))).await.ok(201);
    until(&cluster, WEB, "two pods", ready(2)).await;
    let of_set = ("StatefulSet".to_owned(), "web".to_owned());
    let owned = async |by: &[(String, String)]| {
        cluster.env().sleep(Duration::from_secs(5)).await;
        for claim in list(&cluster, CLAIMS).await {
            assert_eq!(owners(&claim), by, "{claim:#}");
        }
    };
    owned(std::slice::from_ref(&of_set)).await;
    let policy =
        |what: &str| json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": what}}});
    cluster.merge(WEB, policy("Retain")).await.ok(200);
    owned(&[]).await;
    let updated = messages(&cluster, "SuccessfulUpdate").await;
    assert!(updated.contains(&"Update Pod web-0 in StatefulSet web successful".to_owned()), "{updated:?}");
    cluster.merge(WEB, policy("Delete")).await.ok(200);
    owned(&[of_set]).await;
    cluster.delete(WEB).await.ok(200);
    cluster.env().sleep(Duration::from_secs(60)).await;
    let_go(&cluster).await;
    assert!(names(&cluster, CLAIMS).await.is_empty());
    stop(cluster, plane).await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_another_controller_are_left_to_it() {
    let (cluster, plane) = start(325).await;
    let other = json!({"metadata": {"name": "other"}});
    let other = cluster.post("/api/v1/namespaces/default/configmaps", other).await.ok(201);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["metadata"]["uid"], "controller": true});
    let claim = json!({"metadata": {"name": "data-web-0", "ownerReferences": [owner]}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}});
    cluster.post(CLAIMS, claim).await.ok(201);
    cluster.post(SETS, with_claims(1, &["data"], json!({"whenDeleted": "Delete"}))).await.ok(201);
    until(&cluster, WEB, "a pod", ready(1)).await;
    let claim = cluster.get(format!("{CLAIMS}/data-web-0")).await.ok(200);
    assert_eq!(owners(&claim), [("ConfigMap".to_owned(), "other".to_owned())]);
    let told = messages(&cluster, "ConflictingController").await;
    assert_eq!(
        told,
        [
            "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
        ]
    );
    stop(cluster, plane).await;
}
