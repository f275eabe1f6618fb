//! Resource quotas: charged with the object, freed when it goes, never exceeded.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::kinds::{NAMESPACE, collection, name, object, path};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn quota(name: &str, hard: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"hard": hard}})
}

/// Waits for the controller; the answer is the quota's status.
async fn until(cluster: &TestCluster, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..2_000 {
        let quota = cluster.get(path).await.ok(200);
        if wanted(&quota["status"]) {
            return quota["status"].clone();
        }
        cluster.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("it stays {}", cluster.get(path).await.text());
}

async fn remove_at_once(cluster: &TestCluster, path: &str) {
    let reply = cluster.delete(format!("{path}?gracePeriodSeconds=0")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[tokio::test(start_paused = true)]
async fn a_new_quota_reports_its_usage() {
    let cluster = TestCluster::simulated(50).await;
    cluster.post(PODS, pod("before")).await.ok(201);
    cluster.post(QUOTAS, quota("q", json!({"pods": "5", "services": "2"}))).await.ok(201);
    let path = format!("{QUOTAS}/q");
    let status = until(&cluster, &path, |status| status["used"]["pods"] == "1").await;
    // The service is the cluster's own, `kubernetes`.
    assert_eq!(
        status,
        json!({"hard": {"pods": "5", "services": "2"}, "used": {"pods": "1", "services": "1"}})
    );
    // The spec changes, the status follows.
    cluster
        .merge(&path, json!({"spec": {"hard": {"pods": "7", "services": null, "secrets": "3"}}}))
        .await
        .ok(200);
    let status = until(&cluster, &path, |status| status["hard"]["pods"] == "7").await;
    assert_eq!(status, json!({"hard": {"pods": "7", "secrets": "3"}, "used": {"pods": "1", "secrets": "0"}}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_from_the_moment_it_exists() {
    let cluster = TestCluster::simulated(51).await;
    cluster.post(QUOTAS, quota("q", json!({"pods": "1"}))).await.ok(201);
    // No pause: nobody has counted yet.
    cluster.post(PODS, pod("a")).await.ok(201);
    let refused = cluster.post(PODS, pod("b")).await.ok(403);
    assert_eq!(
        refused["message"],
        "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
    assert_eq!(refused["reason"], "Forbidden");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_objects_free_their_quota() {
    let cluster = TestCluster::simulated(52).await;
    let path = format!("{QUOTAS}/q");
    cluster.post(QUOTAS, quota("q", json!({"pods": "2", "count/pods": "3"}))).await.ok(201);
    until(&cluster, &path, |status| status["used"]["pods"] == "0").await;
    cluster.post(PODS, pod("a")).await.ok(201);
    cluster.post(PODS, pod("b")).await.ok(201);
    assert_eq!(cluster.get(&path).await.ok(200)["status"]["used"], json!({"count/pods": "2", "pods": "2"}));
    cluster.post(PODS, pod("c")).await.ok(403);
    remove_at_once(&cluster, &format!("{PODS}/a")).await;
    until(&cluster, &path, |status| status["used"]["pods"] == "1").await;
    cluster.post(PODS, pod("c")).await.ok(201);
    // One that has ended is only stored.
    cluster.merge(format!("{PODS}/b/status"), json!({"status": {"phase": "Succeeded"}})).await.ok(200);
    let status = until(&cluster, &path, |status| status["used"]["pods"] == "1").await;
    assert_eq!(status["used"], json!({"count/pods": "2", "pods": "1"}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dry_runs_and_refused_objects_charge_nothing() {
    let cluster = TestCluster::simulated(53).await;
    let path = format!("{QUOTAS}/q");
    cluster.post(QUOTAS, quota("q", json!({"pods": "1"}))).await.ok(201);
    until(&cluster, &path, |status| status["used"]["pods"] == "0").await;
    let version = cluster.get(&path).await.version();
    cluster.post(format!("{PODS}?dryRun=All"), pod("a")).await.ok(201);
    cluster.post(PODS, json!({"metadata": {"name": "bad"}, "spec": {"containers": []}})).await.ok(422);
    assert_eq!(cluster.get(&path).await.version(), version);
    cluster.post(PODS, pod("a")).await.ok(201);
    cluster.post(PODS, pod("a")).await.ok(403);
    cluster.post(format!("{PODS}?dryRun=All"), pod("b")).await.ok(403);
    assert_eq!(cluster.get(&path).await.ok(200)["status"]["used"]["pods"], "1");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn compute_quotas_require_resources_of_every_container() {
    let cluster = TestCluster::simulated(54).await;
    cluster
        .post(QUOTAS, quota("compute", json!({"requests.cpu": "1", "limits.memory": "1Gi"})))
        .await
        .ok(201);
    let refused = cluster.post(PODS, pod("a")).await.ok(403);
    assert_eq!(
        refused["message"],
        "pods \"a\" is forbidden: failed quota: compute: must specify limits.memory for: c; requests.cpu for: c"
    );
    let mut said = pod("b");
    said["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "600m"}, "limits": {"memory": "256Mi"}});
    cluster.post(PODS, said.clone()).await.ok(201);
    said["metadata"]["name"] = json!("c");
    let refused = cluster.post(PODS, said).await.ok(403);
    assert_eq!(
        refused["message"],
        "pods \"c\" is forbidden: exceeded quota: compute, requested: requests.cpu=600m, used: requests.cpu=600m, \
         limited: requests.cpu=1"
    );
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_with_scopes_counts_only_what_they_choose() {
    let cluster = TestCluster::simulated(55).await;
    let mut best_effort = quota("lazy", json!({"pods": "1"}));
    best_effort["spec"]["scopes"] = json!(["BestEffort"]);
    let mut important = quota("important", json!({"pods": "1"}));
    important["spec"]["scopeSelector"] = json!({"matchExpressions": [
        {"scopeName": "Terminating", "operator": "Exists"}]});
    cluster.post(QUOTAS, best_effort).await.ok(201);
    cluster.post(QUOTAS, important).await.ok(201);
    let mut busy = pod("busy");
    busy["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    cluster.post(PODS, busy.clone()).await.ok(201);
    cluster.post(PODS, pod("lazy")).await.ok(201);
    cluster.post(PODS, pod("lazy-2")).await.ok(403);
    busy["metadata"]["name"] = json!("busy-2");
    cluster.post(PODS, busy.clone()).await.ok(201);
    // A deadline moves a pod into the other quota.
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
    cluster.merge(format!("{PODS}/busy"), deadline.clone()).await.ok(200);
    let refused = cluster.merge(format!("{PODS}/busy-2"), deadline).await.ok(403);
    let told = refused["message"].as_str().unwrap();
    assert!(
        told.contains("exceeded quota: important, requested: pods=1, used: pods=1, limited: pods=1"),
        "{told}"
    );
    let status = until(&cluster, &format!("{QUOTAS}/lazy"), |status| status["used"]["pods"] == "1").await;
    assert_eq!(status["hard"], json!({"pods": "1"}));
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_must_fit_into_every_quota() {
    let cluster = TestCluster::simulated(56).await;
    cluster.post(QUOTAS, quota("a-wide", json!({"configmaps": "10"}))).await.ok(201);
    cluster.post(QUOTAS, quota("b-narrow", json!({"count/configmaps": "1"}))).await.ok(201);
    let maps = "/api/v1/namespaces/default/configmaps";
    cluster.post(maps, json!({"metadata": {"generateName": "m-"}})).await.ok(201);
    let used = cluster.get(format!("{QUOTAS}/a-wide")).await.ok(200)["status"]["used"].clone();
    let refused = cluster.post(maps, json!({"metadata": {"name": "two"}})).await.ok(403);
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("exceeded quota: b-narrow, requested: count/configmaps=1"), "{told}");
    assert_eq!(cluster.get(format!("{QUOTAS}/a-wide")).await.ok(200)["status"]["used"], used);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn services_that_change_their_type_are_charged() {
    let cluster = TestCluster::simulated(57).await;
    cluster.post(QUOTAS, quota("q", json!({"services.nodeports": "1", "services": "5"}))).await.ok(201);
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    cluster.post(services, service("a")).await.ok(201);
    cluster.post(services, service("b")).await.ok(201);
    let node_port = json!({"spec": {"type": "NodePort"}});
    cluster.merge(format!("{services}/a"), node_port.clone()).await.ok(200);
    let refused = cluster.merge(format!("{services}/b"), node_port).await.ok(403);
    let told = refused["message"].as_str().unwrap();
    assert!(told.contains("requested: services.nodeports=1, used: services.nodeports=1"), "{told}");
    let inside = json!({"spec": {"type": "ClusterIP", "externalTrafficPolicy": null}});
    cluster.merge(format!("{services}/a"), inside).await.ok(200);
    until(&cluster, &format!("{QUOTAS}/q"), |status| status["used"]["services.nodeports"] == "0").await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_creates_at_once_never_exceed_a_quota() {
    let cluster = Arc::new(TestCluster::start().await);
    cluster.post(QUOTAS, quota("q", json!({"pods": "10"}))).await.ok(201);
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let cluster = cluster.clone();
            cluster
                .env()
                .clone()
                .spawn("creator", async move { cluster.post(PODS, pod(&format!("p-{number}"))).await.status })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        match task.await.unwrap() {
            201 => created += 1,
            403 => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!(created, 10);
    assert_eq!(cluster.get(PODS).await.ok(200)["items"].as_array().unwrap().len(), 10);
    assert_eq!(cluster.get(format!("{QUOTAS}/q")).await.ok(200)["status"]["used"]["pods"], "10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_and_deletes_at_once_end_with_the_right_count() {
    let cluster = Arc::new(TestCluster::start().await);
    cluster.post(QUOTAS, quota("q", json!({"pods": "12"}))).await.ok(201);
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let cluster = cluster.clone();
            cluster.env().clone().spawn("churn", async move {
                for round in 0..20 {
                    let name = format!("p-{number}-{round}");
                    let made = cluster.post(PODS, pod(&name)).await.status;
                    assert!(made == 201 || made == 403, "{made}");
                    let pods = cluster.get(PODS).await.ok(200)["items"].as_array().unwrap().len();
                    assert!(pods <= 12, "{pods} pods");
                    if made == 201 && round % 5 != 0 {
                        remove_at_once(&cluster, &format!("{PODS}/{name}")).await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let left = cluster.get(PODS).await.ok(200)["items"].as_array().unwrap().len().to_string();
    until(&cluster, &format!("{QUOTAS}/q"), |status| status["used"]["pods"] == left.as_str()).await;
}

#[tokio::test(start_paused = true)]
async fn every_namespaced_kind_can_be_counted() {
    // No controller takes its finalizers off again.
    let off = vec!["StorageObjectInUseProtection".to_owned()];
    let cluster = TestCluster::with(Env::simulated(58), |config| config.admission.disable = off).await;
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await.ok(201);
    let quotas = format!("/api/v1/namespaces/{NAMESPACE}/resourcequotas");
    let catalog = cluster.catalog().clone();
    let mut seen = 0;
    for storage in catalog.storages().iter().filter(|s| s.namespaced && s.plural != "events") {
        let found = catalog.find(&storage.group, &storage.version, &storage.plural);
        let Some(resource) = found.filter(|r| r.verbs.contains(catalog::Verbs::CREATE)) else { continue };
        seen += 1;
        let count = format!("count/{}", resource.qualified());
        // The quota itself counts where quotas are counted, and every namespace has an account.
        let one_there = matches!(resource.plural.as_str(), "resourcequotas" | "serviceaccounts");
        let room = if one_there { "2" } else { "1" };
        cluster.post(&quotas, quota("q", json!({count.clone(): room}))).await.ok(201);
        cluster.post(collection(resource), object(resource, &name(resource, 1))).await.ok(201);
        let refused = cluster.post(collection(resource), object(resource, &name(resource, 2))).await.ok(403);
        let told = refused["message"].as_str().unwrap();
        assert!(told.contains(&format!("exceeded quota: q, requested: {count}=1")), "{told}");
        let gone = format!(
            "{}?propagationPolicy=Background&gracePeriodSeconds=0",
            path(resource, &name(resource, 1))
        );
        cluster.delete(gone).await.ok(200);
        let left = if one_there { "1" } else { "0" };
        until(&cluster, &format!("{quotas}/q"), |status| status["used"][&count] == left).await;
        cluster.delete(format!("{quotas}/q")).await.ok(200);
    }
    assert!(seen > 25, "only {seen} kinds");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_charged_by_class_and_by_the_extended_resource_it_stands_for() {
    let cluster = TestCluster::simulated(431).await;
    let (classes, claims) = (
        "/apis/resource.k8s.io/v1/deviceclasses",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    );
    let gpu = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    cluster.post(classes, gpu).await.ok(201);
    cluster.post(classes, json!({"metadata": {"name": "nic"}, "spec": {}})).await.ok(201);
    let hard = json!({"count/resourceclaims.resource.k8s.io": "9", "gpu.deviceclass.resource.k8s.io/devices": "8",
        "nic.deviceclass.resource.k8s.io/devices": "8", "requests.example.com/gpu": "4",
        "requests.deviceclass.resource.kubernetes.io/gpu": "8",
        "requests.deviceclass.resource.kubernetes.io/nic": "1"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    cluster.post("/api/v1/namespaces/default/resourcequotas", quota).await.ok(201);
    let claim = |name: &str, class: &str, count: u32| {
        let request = json!({"name": "r", "exactly": {"deviceClassName": class, "count": count}});
        json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    };
    cluster.post(claims, claim("a", "gpu", 3)).await.ok(201);
    // No pod can ask for it: only its devices are counted.
    cluster.post(claims, claim("b", "nic", 3)).await.ok(201);
    let refused = cluster.post(claims, claim("c", "gpu", 2)).await.ok(403);
    let why = refused["message"].as_str().expect("a message");
    assert!(why.contains("exceeded quota: q, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=3, limited: requests.example.com/gpu=4"), "{why}");
    // A pod that asks for the resource is charged itself; the claim made for it is not charged again.
    let resources = json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}});
    let pod = cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
    let mut own = claim("d", "gpu", 1);
    own["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    own["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p",
        "uid": pod["metadata"]["uid"], "controller": true}]);
    cluster.post(claims, own).await.ok(201);
    let used = &cluster.get("/api/v1/namespaces/default/resourcequotas/q").await.ok(200)["status"]["used"];
    let amounts = |names: &[&str]| names.iter().map(|name| used[*name].clone()).collect::<Vec<_>>();
    assert_eq!(
        amounts(&[
            "requests.example.com/gpu",
            "gpu.deviceclass.resource.k8s.io/devices",
            "requests.deviceclass.resource.kubernetes.io/nic",
            "count/resourceclaims.resource.k8s.io"
        ]),
        [json!("4"), json!("4"), json!("0"), json!("3")],
        "{used:#}"
    );
    cluster.shutdown().await;
}
