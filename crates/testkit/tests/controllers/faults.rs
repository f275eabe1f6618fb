//! For each controller and each n: it dies after its n-th write, comes back, and the end is the same. The same with conflicts,
//! lost answers, a stale cache, lost history, connections that break, and changes its handlers never hear of.
//!
//! What can be lost, and what makes up for it:
//!
//! ```text
//! server ── watch ──> store of the informer ── notice ──> handler ──> queue ──> turn
//!          A                                    B
//! ```
//! A: a watch is cut, or its history is gone (410). The reflector resumes, or lists again; objects deleted meanwhile are
//!    reported as deleted. A server that silently drops an event breaks the guarantee all of this depends on: the store is
//!    wrong then, and a resync, which repeats the store, cannot correct it.
//! B: the store is right, but a handler missed an event. A resync delivers everything in the store again, and a reconcile looks
//!    at the state. Only deletions cannot be repeated: a controller notices a lost deletion if its key still exists (a
//!    ReplicaSet whose pod was deleted), not if the object of the key itself was deleted.
//!    The scheduler has no resync, neither here nor upstream, so it is not among the controllers of these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::Env;
use plane::{Plane, Settings};
use runtime::{InformerEvent, Informers, Loss};
use serde_json::json;
use testkit::faults::{Faults, Plan};
use testkit::{ControlPlane, TestCluster};

use crate::{api_steps, device_taints, volume_steps};

const SEED: u64 = 5;

/// What people do to a cluster in an hour; the controllers have their time in between.
pub async fn hour(cluster: &TestCluster) {
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
    // Their expressions are checked against the types they are about; nobody is bound by them.
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]});
    for number in 0..6 {
        let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "object.spec.replica > 1"}]});
        let policy = json!({"metadata": {"name": format!("policy-{number}")}, "spec": spec});
        cluster.post(policies, policy).await.ok(201);
    }
    let labels = |app: &str| json!({"app": app});
    let template = |app: &str, image: &str| json!({"metadata": {"labels": labels(app)}, "spec": {"containers": [{"name": "c", "image": image}]}});
    let deployment = |app: &str, replicas: u32| json!({"metadata": {"name": app}, "spec": {"replicas": replicas, "selector": {"matchLabels": labels(app)}, "template": template(app, "one")}});
    let apps = |namespace: &str, plural: &str| format!("/apis/apps/v1/namespaces/{namespace}/{plural}");
    let core = |namespace: &str, plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");

    // Its autoscaler brings it to three.
    cluster.post(apps("default", "deployments"), deployment("web", 2)).await.ok(201);
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({"metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 4, "metrics": [memory]}});
    cluster
        .post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", autoscaler)
        .await
        .ok(201);
    // A token that is good for long, and one that has expired.
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "text"}});
    cluster.post(core("kube-public", "configmaps"), info).await.ok(201);
    for (id, ends) in [("goodie", "2999-01-01T00:00:00Z"), ("old123", "2020-01-01T00:00:00Z")] {
        let data = json!({"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", "expiration": ends});
        let secret = json!({"metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token", "stringData": data});
        cluster.post(core("kube-system", "secrets"), secret).await.ok(201);
    }
    cluster.post(apps("gone", "deployments"), deployment("lost", 1)).await.ok(201);
    cluster.post(core("gone", "configmaps"), json!({"metadata": {"name": "a"}})).await.ok(201);
    for ordinal in 0..3 {
        let claim = json!({"namespace": "default", "name": format!("data-ordered-{ordinal}")});
        let volume = json!({"metadata": {"name": format!("ordered-{ordinal}")}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "claimRef": claim}});
        cluster.post("/api/v1/persistentvolumes", volume).await.ok(201);
    }
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}}}});
    let ordered = json!({"metadata": {"name": "ordered"}, "spec": {"replicas": 3, "selector": {"matchLabels": labels("ordered")},
        "template": template("ordered", "one"), "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}});
    cluster.post(apps("default", "statefulsets"), ordered).await.ok(201);
    let parallel = json!({"metadata": {"name": "lost"}, "spec": {"replicas": 2, "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels("sts")}, "template": template("sts", "one")}});
    cluster.post(apps("gone", "statefulsets"), parallel).await.ok(201);
    // On two of three nodes, then on all; the silent one keeps its pod.
    let not_on = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "NotIn", "values": ["sim-1"]}]}]}}});
    let agent = |image: &str, affinity: serde_json::Value| {
        let mut template = template("agent", image);
        template["spec"]["affinity"] = affinity;
        json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": labels("agent")}, "template": template,
            "revisionHistoryLimit": 0}})
    };
    cluster.post(apps("default", "daemonsets"), agent("one", not_on)).await.ok(201);
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": labels("web"), "ports": [{"port": 80}]}});
    cluster.post(core("default", "services"), service).await.ok(201);
    // Each of its endpoints is said to be for its own zone.
    let near = json!({"metadata": {"name": "near"}, "spec": {"selector": labels("web"), "ports": [{"port": 81}],
        "trafficDistribution": "PreferSameZone"}});
    cluster.post(core("default", "services"), near).await.ok(201);
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": labels("web")}}});
    cluster.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await.ok(201);
    // Claims are made for it.
    let request = json!({"name": "one", "exactly": {"deviceClassName": "gpu.example.com"}});
    let claims =
        json!({"metadata": {"name": "gpus"}, "spec": {"spec": {"devices": {"requests": [request]}}}});
    cluster.post("/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", claims).await.ok(201);
    let entry = |name: &str| json!({"name": name, "resourceClaimTemplateName": "gpus"});
    let device = json!({"metadata": {"name": "device"}, "spec": {"resourceClaims": [entry("a"), entry("b")],
        "containers": [{"name": "c", "image": "one"}]}});
    cluster.post(core("default", "pods"), device).await.ok(201);
    let rc = json!({"metadata": {"name": "old"}, "spec": {"replicas": 2, "selector": labels("old"), "template": template("old", "one")}});
    cluster.post(core("default", "replicationcontrollers"), rc).await.ok(201);
    let job_pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "one", "command": ["sh", "-c", "exit 0"]}]}});
    let job = json!({"metadata": {"name": "once"}, "spec": {"completions": 2, "parallelism": 1, "template": job_pod.clone()}});
    cluster.post("/apis/batch/v1/namespaces/default/jobs", job).await.ok(201);
    let brief = json!({"metadata": {"name": "brief"}, "spec": {"ttlSecondsAfterFinished": 30, "template": job_pod.clone()}});
    cluster.post("/apis/batch/v1/namespaces/default/jobs", brief).await.ok(201);
    // One that comes round a few times, and leaves nothing.
    let tick = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {
        "ttlSecondsAfterFinished": 100, "template": job_pod.clone()}}}});
    cluster.post("/apis/batch/v1/namespaces/default/cronjobs", tick).await.ok(201);
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
    volume_steps::begin(cluster).await;
    api_steps::begin(cluster).await;
    device_taints::begin(cluster).await;
    pause(90).await;

    api_steps::middle(cluster).await;
    // Enough changes for those who watch tokens alone to miss some.
    for n in 0..6 {
        let note = json!({"metadata": {"annotations": {"note": format!("{n}")}}});
        cluster
            .merge(format!("{}/bootstrap-token-goodie", core("kube-system", "secrets")), note)
            .await
            .ok(200);
        pause(1).await;
    }
    for node in 0..3 {
        let used = json!({"metadata": {"annotations": {"sim.setpoint.dev/memory-usage": "100Mi"}}});
        cluster.merge(format!("/api/v1/nodes/sim-{node}"), used).await.ok(200);
    }
    for number in 0..6 {
        let spec = json!({"validations": [{"expression": "object.spec.replicas > 1"}]});
        cluster.merge(format!("{policies}/policy-{number}"), json!({"spec": spec})).await.ok(200);
    }
    let db = format!("{}/db", core("default", "endpoints"));
    cluster.merge(&db, json!({"subsets": by_hand(&["10.9.0.3", "10.9.0.4"], 81)})).await.ok(200);
    cluster.delete(format!("{}/brief-db", core("default", "services"))).await.ok(200);
    let image = json!({"spec": {"template": template("web", "two")}});
    cluster.merge(format!("{}/web", apps("default", "deployments")), image).await.ok(200);
    let everywhere = agent("two", json!(null));
    cluster.merge(format!("{}/agent", apps("default", "daemonsets")), everywhere).await.ok(200);
    let image = json!({"spec": {"template": template("ordered", "two")}});
    cluster.merge(format!("{}/ordered", apps("default", "statefulsets")), image).await.ok(200);
    cluster
        .merge(format!("{}/old", core("default", "replicationcontrollers")), json!({"spec": {"replicas": 1}}))
        .await
        .ok(200);
    pause(90).await;

    let mirrored = |no: serde_json::Value| json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": no}}});
    cluster.delete("/api/v1/namespaces/default/pods/device").await.ok(200);
    cluster.merge(&db, mirrored(json!("true"))).await.ok(200);
    volume_steps::end(cluster).await;
    api_steps::end(cluster).await;
    device_taints::end(cluster).await;
    cluster.delete("/api/v1/namespaces/gone").await.ok(200);
    cluster.delete("/api/v1/namespaces/default/serviceaccounts/leaves").await.ok(200);
    cluster.delete("/api/v1/namespaces/default/serviceaccounts/default").await.ok(200);
    let spoiled = json!({"data": {"ca.crt": "x", "more": "y"}});
    cluster.merge("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", spoiled).await.ok(200);
    let fewer = json!({"spec": {"replicas": 2}});
    cluster.merge(format!("{}/ordered", apps("default", "statefulsets")), fewer).await.ok(200);
    let orphan = format!("{}/old?propagationPolicy=Orphan", core("default", "replicationcontrollers"));
    cluster.delete(orphan).await.ok(200);
    cluster.delete("/apis/batch/v1/namespaces/default/jobs/once?propagationPolicy=Foreground").await.ok(200);
    pause(90).await;

    // Half a minute after its last Job.
    let tick = "/apis/batch/v1/namespaces/default/cronjobs/tick";
    cluster.merge(tick, json!({"spec": {"suspend": true}})).await.ok(200);
    cluster.merge(&db, mirrored(json!(null))).await.ok(200);
    let pods = cluster.get(format!("{}?labelSelector=app%3Dweb", core("default", "pods"))).await.json();
    // Where a controller is kept from making any there are none.
    if let Some(victim) = pods["items"][0]["metadata"]["name"].as_str() {
        cluster.delete(format!("{}/{victim}", core("default", "pods"))).await.ok(200);
    }
    pause(90).await;

    // Orphans go: whether they stood on the node that falls silent is chance.
    cluster.delete(format!("{}?labelSelector=app%3Dold", core("default", "pods"))).await.ok(200);
    // Whoever missed that their pod went cannot be told again.
    cluster.delete("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims").await.ok(200);
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
pub async fn cluster() -> TestCluster {
    TestCluster::bare(Env::simulated(SEED), |config| config.cluster.root_ca = Some("PEM".to_owned())).await
}

/// Each in a zone of its own.
pub fn nodes() -> Option<node::simulated::Settings> {
    Some(node::simulated::Settings { zones: 3, ..testkit::nodes(3) })
}

/// Everybody, also those that are off by default.
fn all(without: &[&str]) -> plane::ControllerSelection {
    let off: Vec<String> = without.iter().map(|name| format!("-{name}")).collect();
    let words = off.iter().map(String::as_str).chain(["*"]).chain(controllers::OFF_BY_DEFAULT);
    chosen(&words.collect::<Vec<_>>())
}

/// Nodes get pod CIDRs.
pub fn parameters() -> Arc<plane::ControllerSettings> {
    let ipam = controllers::NodeIpam::new("10.244.0.0/16", controllers::MaskSizes::default(), Vec::new());
    Arc::new(plane::ControllerSettings { node_ipam: ipam.ok(), ..plane::ControllerSettings::default() })
}

/// The end, without any fault.
async fn reference() -> String {
    let cluster = cluster().await;
    let settings = Settings {
        choice: all(&[]),
        nodes: nodes(),
        trust: cluster.trust(),
        controllers: parameters(),
        ..Settings::default()
    };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    hour(&cluster).await;
    cluster.quiet(Duration::from_secs(120)).await;
    let state = cluster.state();
    check(&state);
    plane.stop().await;
    cluster.shutdown().await;
    state
}

/// What the hour has to come to; all others are compared with this one.
fn check(state: &str) {
    assert!(!state.contains("gone/"), "the namespace is gone:\n{state}");
    assert!(!state.contains("lost-with-its-node"), "and the pod without a node:\n{state}");
    let mirrors = state.lines().filter(|line| line.starts_with("endpointslices default/db-"));
    assert_eq!(mirrors.count(), 1, "and there is one mirror:\n{state}");
    assert!(!state.contains("pods default/holder"), "and the one with a broken device:\n{state}");
    assert!(!state.contains("bootstrap-token-old123"), "the token expired:\n{state}");
    assert!(state.contains("jws-kubeconfig-goodie"), "cluster-info is signed:\n{state}");
    assert_eq!(state.matches("\"podCIDRs\":\"*\"").count(), 3, "every node has pod CIDRs:\n{state}");
    for there in [
        "secrets default/stays",
        "serviceaccounts default/default",
        "configmaps kube-public/kube-root-ca.crt",
    ] {
        assert!(state.contains(there), "{there} is not there:\n{state}");
    }
    assert!(!state.contains("default/leaves"), "a token went with its account:\n{state}");
    let tick = state.lines().find(|line| line.starts_with("cronjobs default/tick"));
    assert!(
        tick.is_some_and(|tick| tick.contains("\"lastSuccessfulTime\"") && !tick.contains("\"active\"")),
        "{tick:?}"
    );
    assert!(!state.contains("jobs default/tick-"), "and its Jobs are gone:\n{state}");
    let hints = state.lines().find(|line| line.starts_with("endpointslices default/near-"));
    assert_eq!(hints.map(|line| line.matches("\"forZones\"").count()), Some(3), "hints:\n{state}");
    // Whoever observes generations has observed the last one, and every pod has a node.
    assert!(!state.contains("\"observedGeneration\":\"old\""), "something is behind:\n{state}");
    let pods: Vec<&str> = state.lines().filter(|line| line.starts_with("pods default/")).collect();
    volume_steps::check(state);
    api_steps::check(state);
    assert_eq!(pods.len(), 8, "{pods:#?}");
    assert!(pods.iter().all(|pod| pod.contains("\"nodeName\":\"*\"")), "{pods:#?}");
}

/// All simulated nodes together: no row, but they are killed and misled like a controller.
const AGENTS: &str = "node agents";

/// Writes nothing but events, which may be lost.
const TELLS: &str = "persistentvolume-expander-controller";

/// Look once a day or once an hour, and would do nothing in this hour: they have tests of their own.
const SELDOM: [&str; 2] =
    ["certificatesigningrequest-cleaner-controller", "legacy-serviceaccount-token-cleaner-controller"];

fn rows() -> impl Iterator<Item = &'static str> {
    controllers::CONTROLLERS
        .iter()
        .map(|row| row.name)
        .filter(|name| *name != TELLS && !SELDOM.contains(name) && is_asked_for(name))
}

/// `SETPOINT_FAULTS=a,b` restricts a run to these.
fn is_asked_for(name: &str) -> bool {
    std::env::var("SETPOINT_FAULTS").is_ok_and(|names| names.split(',').any(|asked| asked == name))
        || std::env::var_os("SETPOINT_FAULTS").is_none()
}

/// Whoever can meet with faults.
fn everybody() -> impl Iterator<Item = &'static str> {
    rows().chain(["scheduler", AGENTS].into_iter().filter(|name| is_asked_for(name)))
}

pub fn chosen(words: &[&str]) -> plane::ControllerSelection {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    plane::ControllerSelection::new(words).expect("these are names of rows")
}

/// Everybody but the one that meets with faults.
fn all_but(name: &str, cluster: &TestCluster) -> Plane {
    let (choice, nodes) = match name {
        AGENTS => (all(&[]), None),
        _ => (all(&[name]), nodes()),
    };
    let settings =
        Settings { choice, nodes, trust: cluster.trust(), controllers: parameters(), ..Settings::default() };
    Plane::start(cluster.env(), cluster.local_clients(), &settings)
}

/// What came of a run in which one controller met with faults.
struct Ended {
    /// It died, and was started again.
    died: bool,
    /// So many writes it tried.
    writes: usize,
    /// So often something else went wrong.
    met: usize,
    state: String,
}

/// What goes wrong without anybody's death.
pub fn misfortunes() -> [(&'static str, Plan); 5] {
    [
        ("conflicts", Plan { conflict_every: Some(2), ..Plan::default() }),
        ("lost answers", Plan { lose_answer_every: Some(3), ..Plan::default() }),
        ("a stale cache", Plan { stale: Duration::from_secs(3), ..Plan::default() }),
        ("lost history", Plan { lose_event_every: Some(5), ..Plan::default() }),
        ("cut connections", Plan { cut_every: Some(3), ..Plan::default() }),
    ]
}

async fn with_faults(name: &str, faults: Plan) -> Ended {
    let cluster = cluster().await;
    let (choice, nodes) = match name {
        AGENTS => (chosen(&["-*"]), nodes()),
        _ => (chosen(&[name]), None),
    };
    let alone =
        Settings { choice, nodes, trust: cluster.trust(), controllers: parameters(), ..Settings::default() };
    let plane = all_but(name, &cluster);
    let outlived = Box::pin(outlive(&cluster, &alone, faults, hour(&cluster))).await;
    cluster.quiet(Duration::from_secs(120)).await;
    let state = cluster.state();
    outlived.victim.stop().await;
    plane.stop().await;
    cluster.shutdown().await;
    Ended { died: outlived.died, writes: outlived.clients.writes(), met: outlived.clients.met(), state }
}

/// Whoever met with faults while others lived.
pub struct Outlived {
    /// As it is now: if it died it was started again.
    pub victim: Plane,
    pub died: bool,
    pub clients: Arc<Faults>,
}

/// Runs `alone` with faults until `life` is over. When it dies it is started again, without faults.
pub async fn outlive(
    cluster: &TestCluster,
    alone: &Settings,
    faults: Plan,
    life: impl Future<Output = ()>,
) -> Outlived {
    let clients = Faults::new(cluster.env(), cluster.local_clients(), faults);
    let mut victim = Plane::start(cluster.env(), clients.clone(), alone);
    let mut died = false;
    let mut life = std::pin::pin!(life);
    loop {
        tokio::select! {
            biased;
            () = clients.dead(), if !died => {
                died = true;
                victim.kill();
                // Some time passes before anybody starts it again.
                cluster.env().sleep(Duration::from_secs(5)).await;
                victim = Plane::start(cluster.env(), cluster.local_clients(), alone);
            }
            () = &mut life => return Outlived { victim, died, clients },
        }
    }
}

/// Half a minute to a minute instead of half a day to a day.
const SOONER: u32 = 1440;

/// Which changes are not told to the handlers of a controller.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// One in three, from this one on.
    Third(usize),
    /// All but deletions: a controller learns of what is there from resyncs alone.
    AllThatStays,
}

/// The end when a controller is not told of some changes, and how many these were. Its handlers resync `sooner` than twice a day by that
/// factor.
async fn with_lost_notices(name: &str, which: Lost, sooner: u32) -> (usize, String) {
    let cluster = cluster().await;
    let plane = all_but(name, &cluster);
    let mut victim: ControlPlane = cluster.bare_control_plane(cluster.local_clients());
    let (changes, losses) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let counted = losses.clone();
    let lost = move |event: &InformerEvent<'_>| {
        let lost = match which {
            Lost::Third(first) => changes.fetch_add(1, Ordering::Relaxed) % 3 == first,
            Lost::AllThatStays => !matches!(event, InformerEvent::Deleted { .. }),
        };
        counted.fetch_add(usize::from(lost), Ordering::Relaxed);
        lost
    };
    let context = &mut victim.context;
    context.settings = parameters();
    let reader = context.clients.user("system:kube-controller-manager", &[]);
    let loss = Loss { lost: Box::new(lost), sooner };
    context.informers = Informers::losing(context.env.clone(), reader, context.stop.clone(), loss);
    let tasks = controllers::start(context, &|row| row == name);
    victim.own(tasks);
    hour(&cluster).await;
    // What is expected and never seen is expected for five minutes.
    cluster.quiet(Duration::from_secs(400)).await;
    let state = cluster.state();
    victim.stop().await;
    plane.stop().await;
    cluster.shutdown().await;
    (losses.load(Ordering::Relaxed), state)
}

/// So often at most one controller dies in `make test`; in `make test-long` after each of its writes.
const DEATHS: usize = 3;

/// Dies after its n-th write, for every n there is, or for some of them, the first and the last among them.
async fn survives(names: &[&str]) {
    let reference = reference().await;
    for name in names {
        let unharmed = dies_after(name, usize::MAX, &reference).await;
        assert!(!unharmed.died && unharmed.writes > 0, "{name} writes nothing in this hour");
        let deaths = if is_long() { unharmed.writes } else { unharmed.writes.min(DEATHS) };
        for death in 0..deaths {
            let n = 1 + death * (unharmed.writes - 1) / (deaths - 1).max(1);
            assert!(dies_after(name, n, &reference).await.died, "{name} has no write {n} any more");
        }
    }
}

async fn dies_after(name: &str, n: usize, reference: &str) -> Ended {
    // Boxed, as below: a whole cluster's future, twice in one frame, is more than a test's stack.
    let ended = Box::pin(with_faults(name, Plan { die_after: Some(n), ..Plan::default() })).await;
    assert_same(reference, &ended.state, &format!("{name} died after write {n}"));
    ended
}

/// `make test-long`.
fn is_long() -> bool {
    std::env::var_os("SETPOINT_LONG").is_some()
}

pub fn assert_same(expected: &str, state: &str, what: &str) {
    if expected == state {
        return;
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let (expected, state) = (lines(expected), lines(state));
    let missing: Vec<_> = expected.difference(&state).cloned().collect();
    let more: Vec<_> = state.difference(&expected).cloned().collect();
    panic!("{what}: the end is another.\nmissing:\n{}\ninstead:\n{}", missing.join("\n"), more.join("\n"));
}

/// Half of all writes are theirs: a test of their own, beside the others.
const WORKLOADS: [&str; 7] = [
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "job-controller",
    "statefulset-controller",
];

#[tokio::test(start_paused = true)]
async fn workload_controllers_killed_after_any_write_reach_the_same_state() {
    survives(&WORKLOADS).await;
}

#[tokio::test(start_paused = true)]
async fn other_controllers_killed_after_any_write_reach_the_same_state() {
    let apart = |name: &&str| *name == AGENTS || WORKLOADS.contains(name);
    let others: Vec<&str> = everybody().filter(|name| !apart(name)).collect();
    survives(&others).await;
}

#[tokio::test(start_paused = true)]
async fn node_agents_killed_after_any_write_reach_the_same_state() {
    survives(&[AGENTS]).await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_lost_answers_and_stale_caches_reach_the_same_state() {
    let reference = reference().await;
    for (at, name) in everybody().enumerate() {
        // In `make test` each controller meets two of them, another two than the one before it.
        let met_here = |misfortune: usize| is_long() || (misfortune + 5 - at % 5) % 5 < 2;
        for (_, (what, plan)) in misfortunes().into_iter().enumerate().filter(|(which, _)| met_here(*which)) {
            let Ended { met, state, .. } = Box::pin(with_faults(name, plan)).await;
            assert_same(&reference, &state, &format!("{name} with {what}"));
            assert!(met > 0, "{name} never met with {what}: the test cannot fail");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_makes_up_for_lost_events() {
    let reference = reference().await;
    for (at, name) in rows().enumerate() {
        let losses = [Lost::Third(0), Lost::Third(1), Lost::Third(2), Lost::AllThatStays];
        // One of them in `make test`.
        let chosen = if is_long() { &losses[..] } else { &losses[at % 4..=at % 4] };
        for which in chosen.iter().copied() {
            let (lost, state) = Box::pin(with_lost_notices(name, which, SOONER)).await;
            assert!(lost > 0, "{name} is told of nothing in this hour");
            assert_same(&reference, &state, &format!("{name} with {which:?} lost"));
        }
    }
    // It is the resync that did it: without one in time these end elsewhere.
    for name in [
        "deployment-controller",
        "job-controller",
        "garbage-collector-controller",
        "serviceaccount-token-controller",
    ] {
        let (_, state) = Box::pin(with_lost_notices(name, Lost::AllThatStays, 1)).await;
        assert!(state != reference, "{name} needs no resync: the test cannot fail");
    }
}
