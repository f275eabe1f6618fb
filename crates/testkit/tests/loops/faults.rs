//! For each controller and each n: it dies after its n-th write, comes back, and the end is the same. The same with conflicts,
//! lost answers, a stale cache and lost history.

use std::time::Duration;

use env::Env;
use plane::{Plane, Settings};
use serde_json::json;
use testkit::TestCluster;
use testkit::faults::{Faults, Plan};

const SEED: u64 = 5;

/// What people do to a cluster in an hour; the loops have their time in between.
async fn hour(cluster: &TestCluster) {
    let pause = |seconds| cluster.env().sleep(Duration::from_secs(seconds));
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "gone"}})).await.ok(201);
    cluster.settled().await;
    for account in ["stays", "leaves"] {
        let secret = json!({"metadata": {"name": account, "annotations": {"kubernetes.io/service-account.name": account}},
            "type": "kubernetes.io/service-account-token"});
        let robot = json!({"metadata": {"name": account}});
        cluster.post("/api/v1/namespaces/default/serviceaccounts", robot).await.ok(201);
        cluster.post("/api/v1/namespaces/default/secrets", secret).await.ok(201);
    }
    let labels = |app: &str| json!({"app": app});
    let template = |app: &str, image: &str| json!({"metadata": {"labels": labels(app)}, "spec": {"containers": [{"name": "c", "image": image}]}});
    let deployment = |app: &str, replicas: u32| json!({"metadata": {"name": app}, "spec": {"replicas": replicas, "selector": {"matchLabels": labels(app)}, "template": template(app, "one")}});
    let apps = |namespace: &str, plural: &str| format!("/apis/apps/v1/namespaces/{namespace}/{plural}");
    let core = |namespace: &str, plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");

    cluster.post(apps("default", "deployments"), deployment("web", 3)).await.ok(201);
    cluster.post(apps("gone", "deployments"), deployment("lost", 1)).await.ok(201);
    cluster.post(core("gone", "configmaps"), json!({"metadata": {"name": "a"}})).await.ok(201);
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": labels("web"), "ports": [{"port": 80}]}});
    cluster.post(core("default", "services"), service).await.ok(201);
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": labels("web")}}});
    cluster.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await.ok(201);
    let rc = json!({"metadata": {"name": "old"}, "spec": {"replicas": 2, "selector": labels("old"), "template": template("old", "one")}});
    cluster.post(core("default", "replicationcontrollers"), rc).await.ok(201);
    let job_pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "one", "command": ["sh", "-c", "exit 0"]}]}});
    let job = json!({"metadata": {"name": "once"}, "spec": {"completions": 2, "parallelism": 1, "template": job_pod.clone()}});
    cluster.post("/apis/batch/v1/namespaces/default/jobs", job).await.ok(201);
    let brief =
        json!({"metadata": {"name": "brief"}, "spec": {"ttlSecondsAfterFinished": 30, "template": job_pod}});
    cluster.post("/apis/batch/v1/namespaces/default/jobs", brief).await.ok(201);
    // Endpoints written by hand, of services that select nobody; and a pod on a node that never was.
    let by_hand = |ips: &[&str], port: u32| {
        let addresses: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        json!([{"addresses": addresses, "ports": [{"port": port}]}])
    };
    for name in ["db", "brief-db"] {
        let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        cluster.post(core("default", "services"), service).await.ok(201);
        let endpoints =
            json!({"metadata": {"name": name}, "subsets": by_hand(&["10.9.0.1", "10.9.0.2", "fd00::9"], 80)});
        cluster.post(core("default", "endpoints"), endpoints).await.ok(201);
    }
    let mut lost = template("lost", "one");
    lost["metadata"]["name"] = json!("lost-with-its-node");
    lost["spec"]["nodeName"] = json!("nowhere");
    cluster.post(core("default", "pods"), lost).await.ok(201);
    pause(90).await;

    let db = format!("{}/db", core("default", "endpoints"));
    cluster.merge(&db, json!({"subsets": by_hand(&["10.9.0.3", "10.9.0.4"], 81)})).await.ok(200);
    cluster.delete(format!("{}/brief-db", core("default", "services"))).await.ok(200);
    let image = json!({"spec": {"template": template("web", "two")}});
    cluster.merge(format!("{}/web", apps("default", "deployments")), image).await.ok(200);
    cluster
        .merge(format!("{}/old", core("default", "replicationcontrollers")), json!({"spec": {"replicas": 1}}))
        .await
        .ok(200);
    pause(90).await;

    let mirrored = |no: serde_json::Value| json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": no}}});
    cluster.merge(&db, mirrored(json!("true"))).await.ok(200);
    cluster.delete("/api/v1/namespaces/gone").await.ok(200);
    cluster.delete("/api/v1/namespaces/default/serviceaccounts/leaves").await.ok(200);
    cluster.delete("/api/v1/namespaces/default/serviceaccounts/default").await.ok(200);
    let spoiled = json!({"data": {"ca.crt": "x", "more": "y"}});
    cluster.merge("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", spoiled).await.ok(200);
    let orphan = format!("{}/old?propagationPolicy=Orphan", core("default", "replicationcontrollers"));
    cluster.delete(orphan).await.ok(200);
    cluster.delete("/apis/batch/v1/namespaces/default/jobs/once?propagationPolicy=Foreground").await.ok(200);
    pause(90).await;

    cluster.merge(&db, mirrored(json!(null))).await.ok(200);
    let pods = cluster.get(format!("{}?labelSelector=app%3Dweb", core("default", "pods"))).await.json();
    let victim = pods["items"][0]["metadata"]["name"].as_str().expect("web has pods").to_owned();
    cluster.delete(format!("{}/{victim}", core("default", "pods"))).await.ok(200);
    pause(90).await;

    // Orphans go: whether they stood on the node that falls silent is chance.
    cluster.delete(format!("{}?labelSelector=app%3Dold", core("default", "pods"))).await.ok(200);
    pause(60).await;

    // A node falls silent until its pods are replaced, and comes back; long enough for an eviction that began anew.
    let silent =
        |yes: serde_json::Value| json!({"metadata": {"annotations": {"sim.setpoint.dev/silent": yes}}});
    cluster.merge("/api/v1/nodes/sim-2", silent(json!("true"))).await.ok(200);
    pause(900).await;
    cluster.merge("/api/v1/nodes/sim-2", silent(json!(null))).await.ok(200);
    pause(120).await;
}

/// Nothing runs beside what the test starts.
async fn cluster() -> TestCluster {
    TestCluster::bare(Env::simulated(SEED), |config| config.cluster.root_ca = Some("PEM".to_owned())).await
}

/// The end, without any fault.
async fn reference() -> String {
    let cluster = cluster().await;
    let settings = Settings { nodes: Some(testkit::nodes(3)), trust: cluster.trust(), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    hour(&cluster).await;
    cluster.quiet(Duration::from_secs(120)).await;
    let state = cluster.state();
    assert!(!state.contains("gone/"), "the namespace is gone:\n{state}");
    assert!(!state.contains("lost-with-its-node"), "and the pod without a node:\n{state}");
    let mirrors = state.lines().filter(|line| line.starts_with("endpointslices default/db-"));
    assert_eq!(mirrors.count(), 1, "and there is one mirror:\n{state}");
    for there in [
        "secrets default/stays",
        "serviceaccounts default/default",
        "configmaps kube-public/kube-root-ca.crt",
    ] {
        assert!(state.contains(there), "{there} is not there:\n{state}");
    }
    assert!(!state.contains("default/leaves"), "a token went with its account:\n{state}");
    plane.stop().await;
    cluster.shutdown().await;
    state
}

/// The end when one loop meets with faults; `None` if it died and was started again: then also how it ended.
async fn with_faults(name: &str, faults: Plan) -> (bool, usize, String) {
    let cluster = cluster().await;
    let trust = cluster.trust();
    let others = Settings {
        choice: plane::Choice::new(vec!["*".to_owned(), format!("-{name}")]).expect("it is a row's name"),
        nodes: Some(testkit::nodes(3)),
        trust: trust.clone(),
        ..Settings::default()
    };
    let alone = Settings {
        choice: plane::Choice::new(vec![name.to_owned()]).expect("it is a row's name"),
        trust,
        ..Settings::default()
    };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &others);
    let clients = Faults::new(cluster.env(), cluster.local_clients(), faults);
    let mut victim = Plane::start(cluster.env(), clients.clone(), &alone);
    let mut died = false;
    {
        let mut life = std::pin::pin!(hour(&cluster));
        loop {
            tokio::select! {
                biased;
                () = clients.dead(), if !died => {
                    died = true;
                    victim.kill();
                    // Some time passes before anybody starts it again.
                    cluster.env().sleep(Duration::from_secs(5)).await;
                    victim = Plane::start(cluster.env(), cluster.local_clients(), &alone);
                }
                () = &mut life => break,
            }
        }
    }
    cluster.quiet(Duration::from_secs(120)).await;
    let state = cluster.state();
    victim.stop().await;
    plane.stop().await;
    cluster.shutdown().await;
    (died, clients.writes(), state)
}

/// Dies after its n-th write, for every n there is; in `make test` every third.
async fn survives(names: &[&str]) {
    let reference = reference().await;
    let step = if std::env::var_os("SETPOINT_LONG").is_some() { 1 } else { 3 };
    for name in names {
        for n in (1..).step_by(step) {
            let (died, writes, state) =
                with_faults(name, Plan { die_after: Some(n), ..Plan::default() }).await;
            assert_same(&reference, &state, &format!("{name} died after write {n}"));
            assert!(died || n > 1, "{name} writes nothing in this hour");
            if !died {
                assert!(writes < n);
                break;
            }
        }
    }
}

fn assert_same(expected: &str, state: &str, what: &str) {
    if expected == state {
        return;
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let (expected, state) = (lines(expected), lines(state));
    let missing: Vec<_> = expected.difference(&state).cloned().collect();
    let more: Vec<_> = state.difference(&expected).cloned().collect();
    panic!("{what}: the end is another.\nmissing:\n{}\ninstead:\n{}", missing.join("\n"), more.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn workload_loops_that_die_after_any_write_come_to_the_same_end() {
    survives(&[
        "deployment-controller",
        "replicaset-controller",
        "replicationcontroller-controller",
        "job-controller",
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_other_loops_that_die_after_any_write_come_to_the_same_end() {
    survives(&[
        "garbage-collector-controller",
        "namespace-controller",
        "disruption-controller",
        "endpoints-controller",
        "endpointslice-controller",
        "endpointslice-mirroring-controller",
        "node-lifecycle-controller",
        "pod-garbage-collector-controller",
        "taint-eviction-controller",
        "ttl-after-finished-controller",
        "root-ca-certificate-publisher-controller",
        "serviceaccount-controller",
        "serviceaccount-token-controller",
        "scheduler",
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_lost_answers_and_old_news_change_nothing_in_the_end() {
    let reference = reference().await;
    let plans = [
        ("conflicts", Plan { conflict_every: Some(2), ..Plan::default() }),
        ("lost answers", Plan { lose_answer_every: Some(3), ..Plan::default() }),
        ("a stale cache", Plan { stale: Duration::from_secs(3), ..Plan::default() }),
        ("lost history", Plan { lose_event_every: Some(5), ..Plan::default() }),
    ];
    for row in controllers::ROWS {
        for (what, plan) in &plans {
            let (_, _, state) = with_faults(row.name, plan.clone()).await;
            assert_same(&reference, &state, &format!("{} with {what}", row.name));
        }
    }
}
