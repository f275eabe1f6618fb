//! One change must not cost more the more objects there are: what controllers are given by their caches for it is counted.

use std::time::Duration;

use apiserver::ApiConfig;
use controllers::{MaskSizes, NodeIpam, Settings};
use env::Env;
use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::requests::Requests;

use crate::device_taints::{self, SLICES};
use crate::read_cases::{CASES, Case, Cost, Step};
use crate::workloads::PODS;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// Few and many; `SETPOINT_LONG=1`: as many as a large namespace has.
fn sizes() -> (usize, usize) {
    if std::env::var_os("SETPOINT_LONG").is_some() { (100, 10_000) } else { (10, 400) }
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always"})
}

fn workload(name: &str, replicas: usize, app: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}},
        "template": {"metadata": {"labels": {"app": app}}, "spec": pod_spec()}}})
}

/// What the controllers are given while `change` takes its course.
async fn given(
    cluster: &TestCluster,
    controllers: &[&str],
    prepare: impl AsyncFnOnce(),
    change: impl AsyncFnOnce(),
) -> u64 {
    let requests = Requests::new(cluster, cluster.local_clients());
    let plane = cluster.controllers(requests, controllers);
    prepare().await;
    cluster.env().sleep(Duration::from_secs(60)).await;
    let before = plane.context.informers.given();
    change().await;
    cluster.env().sleep(Duration::from_secs(30)).await;
    let given = plane.context.informers.given() - before;
    plane.stop().await;
    given
}

async fn done(cluster: &TestCluster, step: Step) {
    let answer = match step {
        Step::Post(path, body) => cluster.post(path, body).await,
        Step::Merge(path, patch) => cluster.merge(path, patch).await,
        Step::Delete(path) => cluster.delete(path).await,
    };
    assert!(answer.status < 300, "{}", answer.json());
}

/// What a controller is given for one change among so many objects, beyond what it is given in as much time without any.
async fn given_for(case: &Case, many: usize) -> i64 {
    let with_ca = |config: &mut ApiConfig| config.cluster.root_ca = Some("PEM".to_owned());
    let cluster = TestCluster::with(Env::simulated(403), with_ca).await;
    for step in (case.once)().into_iter().chain((0..many).flat_map(case.each)) {
        done(&cluster, step).await;
    }
    let ipam = NodeIpam::new("10.0.0.0/8,fd00:10::/48", MaskSizes::default(), Vec::new()).expect("it fits");
    let settings = Settings { node_ipam: Some(ipam), ..Settings::default() };
    let plane = cluster.controllers_with(&[case.controller], settings);
    // All that is done every few seconds is done as often in each of these minutes.
    let minute = || cluster.env().sleep(Duration::from_secs(60));
    let given = || i64::try_from(plane.context.informers.given()).expect("not that many");
    // Nodes nobody speaks for are given up meanwhile.
    for _ in 0..8 {
        minute().await;
    }
    let before = given();
    minute().await;
    let without = given() - before;
    done(&cluster, (case.change)()).await;
    minute().await;
    let cost = given() - before - 2 * without;
    plane.stop().await;
    cluster.shutdown().await;
    cost
}

#[tokio::test(start_paused = true)]
async fn one_change_costs_every_controller_the_same_among_few_and_among_many() {
    let (few, many) = sizes();
    let only = std::env::var("SETPOINT_ONLY").unwrap_or_default();
    let mut wrong = Vec::new();
    for (at, case) in CASES.iter().enumerate().filter(|(_, case)| case.controller.contains(&only)) {
        let (few, many) = (given_for(case, case.least + few).await, given_for(case, case.least + many).await);
        let (is_right, why) = match case.cost {
            Cost::Same => (many <= few && few > 0, "no more"),
            // A reason that holds no more must go.
            Cost::Grows(why) => (few < many, why),
            Cost::Nothing(why) => ((few, many) == (0, 0), why),
        };
        let found = format!("{} (case {at}): {few} among few, {many} among many; {why}", case.controller);
        println!("{found}");
        wrong.extend((!is_right).then_some(found));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_controller_has_a_case_that_counts_what_it_is_given() {
    let without: Vec<&str> = controllers::CONTROLLERS
        .iter()
        .map(|row| row.name)
        .filter(|name| CASES.iter().all(|case| case.controller != *name))
        .collect();
    assert!(without.is_empty(), "no case for {without:?}");
}

/// One pod of a set becomes ready.
async fn for_one_pod_of_a_set(pods: usize, more: Value) -> u64 {
    let cluster = TestCluster::simulated(401).await;
    let prepare = async || {
        let mut set = workload("web", pods, "web");
        for (field, value) in more.as_object().expect("fields of a spec") {
            set["spec"][field] = value.clone();
        }
        cluster.post(SETS, set).await.ok(201);
    };
    let change = async || {
        let all = cluster.get(PODS).await.ok(200);
        assert_eq!(all["items"].as_array().map(Vec::len), Some(pods));
        let name = all["items"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        cluster.merge(format!("{PODS}/{name}/status"), json!({"status": status})).await.ok(200);
    };
    let given = given(&cluster, &["replicaset-controller"], prepare, change).await;
    assert_eq!(cluster.get(format!("{SETS}/web")).await.ok(200)["status"]["readyReplicas"], 1);
    cluster.shutdown().await;
    given
}

#[tokio::test(start_paused = true)]
async fn a_set_does_not_go_through_its_pods_for_each_of_them() {
    let (few, many) = sizes();
    for more in [json!({}), json!({"minReadySeconds": 5})] {
        let few = for_one_pod_of_a_set(few, more.clone()).await;
        assert!(few > 0, "the change is looked at");
        assert_eq!(few, for_one_pod_of_a_set(many, more).await);
    }
}

/// A pod that nobody controls gets a label, in a namespace with many that would select others.
async fn for_one_orphan(others: usize) -> u64 {
    let cluster = TestCluster::simulated(402).await;
    let prepare = async || {
        for at in 0..others {
            let (name, app) = (format!("o-{at}"), format!("other-{at}"));
            cluster.post(SETS, workload(&name, 0, &app)).await.ok(201);
            cluster.post(DEPLOYMENTS, workload(&name, 0, &app)).await.ok(201);
            let service = json!({"metadata": {"name": name}, "spec": {"selector": {"app": app}, "ports": [{"port": 80}]}});
            cluster.post(SERVICES, service).await.ok(201);
            let mut job = json!({"metadata": {"name": name}, "spec": {"parallelism": 0, "template": {"spec": pod_spec()}}});
            job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
            cluster.post(JOBS, job).await.ok(201);
            let budget = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}});
            cluster.post(BUDGETS, budget).await.ok(201);
        }
        cluster.post(PODS, json!({"metadata": {"name": "orphan"}, "spec": pod_spec()})).await.ok(201);
    };
    let change = async || {
        let label = json!({"metadata": {"labels": {"app": "none"}}});
        cluster.merge(format!("{PODS}/orphan"), label).await.ok(200);
    };
    let controllers = [
        "deployment-controller",
        "disruption-controller",
        "endpoints-controller",
        "endpointslice-controller",
        "job-controller",
        "replicaset-controller",
    ];
    let given = given(&cluster, &controllers, prepare, change).await;
    cluster.shutdown().await;
    given
}

#[tokio::test(start_paused = true)]
async fn who_would_want_an_orphan_is_found_without_asking_all() {
    let (few, many) = sizes();
    assert_eq!(for_one_orphan(few).await, for_one_orphan(many).await);
}

/// One pod of many that a quota counts goes.
async fn for_one_pod_of_a_quota(pods: usize) -> u64 {
    // Round numbers are written in another form: 10k.
    let pods = pods + 2;
    let cluster = TestCluster::bare(env::Env::simulated(403), |_| {}).await;
    let accounts = cluster.controllers(cluster.local_clients(), &controllers::ACCOUNTS);
    cluster.settled().await;
    let prepare = async || {
        for at in 0..pods {
            let pod = json!({"metadata": {"name": format!("p-{at}")}, "spec": pod_spec()});
            cluster.post(PODS, pod).await.ok(201);
        }
        let hard = json!({"pods": "20000", "configmaps": "9"});
        cluster.post(QUOTAS, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await.ok(201);
    };
    let used = async || cluster.get(format!("{QUOTAS}/q")).await.ok(200)["status"]["used"]["pods"].clone();
    let change = async || {
        assert_eq!(used().await, pods.to_string());
        cluster.delete(format!("{PODS}/p-0?gracePeriodSeconds=0")).await.ok(200);
    };
    let given = given(&cluster, &["resourcequota-controller"], prepare, change).await;
    assert_eq!(used().await, (pods - 1).to_string());
    accounts.stop().await;
    cluster.shutdown().await;
    given
}

#[tokio::test(start_paused = true)]
async fn a_quota_does_not_count_all_pods_for_one_that_goes() {
    let (few, many) = sizes();
    let few = for_one_pod_of_a_quota(few).await;
    assert!(few > 0, "the change is looked at");
    assert_eq!(few, for_one_pod_of_a_quota(many).await);
}

/// One pod of a Job changes, which has that many running; with `ended`, as many others are over.
async fn for_one_pod_of_a_job(pods: usize, ended: bool, mode: &str, status: Value) -> u64 {
    let cluster = TestCluster::simulated(403).await;
    let names = async || {
        let all = cluster.get(format!("{PODS}?fieldSelector=status.phase%3DPending")).await.ok(200);
        let all = all["items"].as_array().expect("a list").clone();
        all.iter().map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    let set = async |name: &str, status: &Value| {
        cluster.merge(format!("{PODS}/{name}/status"), json!({"status": status})).await.ok(200);
    };
    let pass = async || cluster.env().sleep(Duration::from_secs(60)).await;
    let prepare = async || {
        let mut job = json!({"metadata": {"name": "work"}, "spec": {"parallelism": pods, "completions": 3 * pods,
            "completionMode": mode, "template": {"spec": pod_spec()}}});
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        cluster.post(JOBS, job).await.ok(201);
        if ended {
            pass().await;
            for name in names().await {
                set(&name, &json!({"phase": "Succeeded"})).await;
            }
            pass().await;
        }
    };
    let change = async || {
        let names = names().await;
        assert_eq!(names.len(), pods);
        set(&names[0], &status).await;
    };
    let given = given(&cluster, &["job-controller"], prepare, change).await;
    let job = cluster.get(format!("{JOBS}/work")).await.ok(200);
    assert_eq!(job["status"]["active"], pods);
    let seen =
        job["status"]["ready"] == 1 || job["status"]["succeeded"].as_u64().unwrap_or(0) % pods as u64 == 1;
    assert!(seen, "{job:#}");
    cluster.shutdown().await;
    given
}

#[tokio::test(start_paused = true)]
async fn a_job_does_not_go_through_its_pods_for_each_of_them() {
    let (few, many) = sizes();
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    for (ended, mode, status) in [
        (false, "NonIndexed", ready.clone()),
        (false, "Indexed", ready),
        (true, "NonIndexed", json!({"phase": "Succeeded"})),
        (true, "Indexed", json!({"phase": "Succeeded"})),
    ] {
        let few = for_one_pod_of_a_job(few, ended, mode, status.clone()).await;
        assert!(few > 0, "the change is looked at");
        assert_eq!(
            few,
            for_one_pod_of_a_job(many, ended, mode, status).await,
            "{mode}, others ended: {ended}"
        );
    }
}

/// A device gets a taint; the other devices of its slice are used by many.
async fn for_one_taint(others: usize) -> u64 {
    let cluster = TestCluster::simulated(421).await;
    let prepare = async || {
        cluster.post(SLICES, device_taints::slice("s", 1, &json!([]))).await.ok(201);
        for at in 0..others {
            device_taints::pod_with_device(&cluster, &format!("o-{at}"), "gpu-1", json!([])).await;
        }
        device_taints::pod_with_device(&cluster, "broken", "gpu-0", json!([])).await;
    };
    let change = async || {
        let taints = json!([{"key": "broken", "effect": "NoExecute"}]);
        cluster.put(format!("{SLICES}/s"), device_taints::slice("s", 1, &taints)).await.ok(200);
    };
    let given = given(&cluster, &["device-taint-eviction-controller"], prepare, change).await;
    let pod = cluster.get(format!("{PODS}/broken")).await.ok(200);
    assert!(pod["metadata"].get("deletionTimestamp").is_some(), "it is evicted");
    cluster.shutdown().await;
    given
}

#[tokio::test(start_paused = true)]
async fn a_tainted_device_costs_what_uses_it() {
    let (few, many) = sizes();
    let few = for_one_taint(few).await;
    assert!(few > 0, "the change is looked at");
    assert_eq!(few, for_one_taint(many).await);
}
