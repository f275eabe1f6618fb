//! `/debug/controllers` is right: the cause and plan of each reconcile, and the identity of each controller.

use std::sync::Arc;

use apiserver::ControllerStatus;
use client::{Client, Clients};
use controllers::{MaskSizes, NodeIpam, Trust};
use env::Env;
use parking_lot::Mutex;
use plane::{Plane, Settings};
use serde_json::{Value as Json, json};
use store::Revision;
use testkit::TestCluster;

use crate::batch_steps::{PODS, pass, plane, set_status, until};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const ADMIN: &str = "kubernetes-admin";
const MANAGER: &str = "system:kube-controller-manager";

fn web() -> Json {
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    json!({"metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}})
}

fn as_json(shown: &object::Value) -> Json {
    serde_json::from_slice(&codec::json::to_vec(shown)).expect("what is shown is JSON")
}

/// The remembered turns of a controller.
fn turns(shown: &Json, name: &str) -> Vec<Json> {
    let all = shown["controllers"].as_array().expect("a list of controllers");
    let entry = all.iter().find(|entry| entry["name"] == name);
    let entry = entry.unwrap_or_else(|| panic!("{name} is not shown: {shown:#}"));
    entry["recent"].as_array().expect("a list of turns").clone()
}

/// Who wrote what caused turns of a controller, by the resource and what happened to it.
fn writers(shown: &Json, name: &str, resource: &str, what: &str) -> Vec<String> {
    let turns = turns(shown, name);
    let causes = turns.iter().flat_map(|request| request["causes"].as_array().cloned().unwrap_or_default());
    let wanted = causes.filter(|cause| cause["resource"] == resource && cause["what"] == what);
    let mut writers: Vec<String> =
        wanted.map(|cause| cause["writer"].as_str().unwrap_or("nobody").to_owned()).collect();
    writers.sort();
    writers.dedup();
    writers
}

#[tokio::test(start_paused = true)]
async fn the_cause_of_a_reconcile_names_its_writer() {
    let cluster = TestCluster::simulated(61).await;
    let settings = Settings { nodes: Some(testkit::nodes(1)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    cluster.post(DEPLOYMENTS, web()).await.ok(201);
    until(&cluster, &format!("{DEPLOYMENTS}/web"), "a ready pod", |d| d["status"]["readyReplicas"] == 1)
        .await;

    let shown = as_json(&plane.controllers());
    let account = |name: &str| format!("system:serviceaccount:kube-system:{name}");
    assert_eq!(writers(&shown, "deployment-controller", "deployments", "added"), [ADMIN], "{shown:#}");
    let by_deployment = account("deployment-controller");
    assert_eq!(
        writers(&shown, "replicaset-controller", "replicasets", "added"),
        [by_deployment],
        "{shown:#}"
    );
    let by_set = account("replicaset-controller");
    assert_eq!(writers(&shown, "replicaset-controller", "pods", "added"), [by_set], "{shown:#}");
    let changed = writers(&shown, "replicaset-controller", "pods", "updated");
    assert_eq!(changed, [scheduler::USER, "system:node:sim-0"], "{shown:#}");
    plane.stop().await;
    cluster.shutdown().await;
}

/// What goes at once is first seen as going: that write, too, is somebody's.
#[tokio::test(start_paused = true)]
async fn both_writes_of_a_deletion_have_a_writer() {
    let cluster = TestCluster::simulated(62).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let made = cluster.post(PODS, pod).await.ok(201);
    let from = made["metadata"]["resourceVersion"].as_str().expect("a version");
    let mut pods = cluster.watch(format!("{PODS}?watch=1&resourceVersion={from}")).await;
    cluster.delete(format!("{PODS}/p?gracePeriodSeconds=0")).await.ok(200);
    for kind in ["MODIFIED", "DELETED"] {
        let event = pods.next().await.expect("the watch goes on");
        assert_eq!(event["type"], kind, "{event:#}");
        let version = event["object"]["metadata"]["resourceVersion"].as_str().expect("a version");
        let revision = Revision(version.parse().expect("a version is a number"));
        let writer = cluster.api().registry().writer(revision);
        assert_eq!(writer.as_deref(), Some(ADMIN), "who wrote {kind}?");
    }
    cluster.shutdown().await;
}

fn all_have_plans(shown: &Json, names: &[&str]) {
    for name in names {
        let turns = turns(shown, name);
        assert!(!turns.is_empty(), "{name} had no turn: {shown:#}");
        for request in turns {
            assert!(request["plan"].as_str().is_some_and(|plan| !plan.is_empty()), "{name}: {request:#}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reconciles_of_nodes_and_their_pods_show_their_plan() {
    let cluster = TestCluster::simulated(63).await;
    let settings = Settings { nodes: Some(testkit::nodes(2)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    cluster.post(DEPLOYMENTS, web()).await.ok(201);
    until(&cluster, &format!("{DEPLOYMENTS}/web"), "a ready pod", |d| d["status"]["readyReplicas"] == 1)
        .await;
    let shown = as_json(&plane.controllers());
    let controllers =
        ["node-lifecycle-controller", "node-lifecycle-controller-health", "node-pods", "node-status"];
    all_have_plans(&shown, &controllers);
    let plans =
        |name| turns(&shown, name).iter().map(|request| request["plan"].to_string()).collect::<Vec<_>>();
    assert!(plans("node-pods").iter().any(|plan| plan.contains("report Running")), "{shown:#}");
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pod_gc_and_disruption_controller_show_their_plan() {
    let cluster = TestCluster::simulated(64).await;
    let pod = json!({"metadata": {"name": "a"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "nginx"}]}});
    let pod = cluster.post(PODS, pod).await.ok(201);
    let at = object::time::format_seconds(cluster.env().now_seconds() as i64);
    let disrupted = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": at});
    let conditions = json!([{"type": "Ready", "status": "True"}, disrupted]);
    set_status(&cluster, &pod, json!({"phase": "Running", "conditions": conditions})).await;
    cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await.ok(201);

    let controllers =
        ["pod-garbage-collector-controller", "node-lifecycle-controller", "disruption-controller"];
    let plane = plane(&cluster, &controllers);
    let shown = || as_json(&plane.context.controllers.to_value(&|_| None));
    pass(&cluster, 10).await;
    let first = turns(&shown(), "pod-garbage-collector-controller");
    assert_eq!(first.len(), 1, "one turn in twenty seconds: {first:#?}");
    assert_eq!(first[0]["plan"], "keep all 1 pods");
    pass(&cluster, 120).await;
    all_have_plans(&shown(), &["disruption-stale-pods", "node-lifecycle-controller-pods"]);

    cluster.delete("/api/v1/nodes/n1").await.ok(200);
    until(&cluster, PODS, "no pods", |list| list["items"].as_array().is_some_and(Vec::is_empty)).await;
    let last = &turns(&shown(), "pod-garbage-collector-controller")[0];
    assert_eq!(last["plan"], "delete 1 Orphaned", "{last:#}");
    plane.stop().await;
    cluster.shutdown().await;
}

/// Notes as whom somebody wants to act.
struct Noting {
    clients: Arc<dyn Clients>,
    /// Guards the names asked for.
    asked: Mutex<Vec<String>>,
}

impl Clients for Noting {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        self.asked.lock().push(format!("system:serviceaccount:kube-system:{name}"));
        self.clients.controller(name)
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.asked.lock().push(name.to_owned());
        self.clients.user(name, groups)
    }
}

/// A controller's name for flags; the service account it has in kube-controller-manager, "" for that program's own user; the
/// names it is shown under.
type Known = (&'static str, &'static str, &'static [&'static str]);

/// Runs where pod CIDRs are allocated.
const NODE_IPAM: &str = "node-ipam-controller";

const KNOWN: &[Known] = &[
    ("bootstrap-signer-controller", "bootstrap-signer", &["bootstrap-signer"]),
    (
        "certificatesigningrequest-approving-controller",
        "certificate-controller",
        &["certificatesigningrequest-approving-controller"],
    ),
    (
        "certificatesigningrequest-cleaner-controller",
        "certificate-controller",
        &["certificatesigningrequest-cleaner-controller"],
    ),
    (
        "certificatesigningrequest-signing-controller",
        "certificate-controller",
        &["certificatesigningrequest-signing-controller"],
    ),
    (
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation-controller",
        &["clusterrole-aggregation-controller"],
    ),
    ("cronjob-controller", "cronjob-controller", &["cronjob"]),
    ("daemonset-controller", "daemon-set-controller", &["daemonset"]),
    ("deployment-controller", "deployment-controller", &["deployment-controller"]),
    (
        "device-taint-eviction-controller",
        "device-taint-eviction-controller",
        &["device-taint-eviction-controller"],
    ),
    ("endpoints-controller", "endpoint-controller", &["endpoints-controller"]),
    ("endpointslice-controller", "endpointslice-controller", &["endpointslice-controller"]),
    (
        "endpointslice-mirroring-controller",
        "endpointslicemirroring-controller",
        &["endpointslice-mirroring-controller"],
    ),
    ("ephemeral-volume-controller", "ephemeral-volume-controller", &["ephemeral-volume-controller"]),
    (
        "garbage-collector-controller",
        "generic-garbage-collector",
        &["garbage_collector_attempt_to_delete", "garbage_collector_attempt_to_orphan"],
    ),
    (
        "horizontal-pod-autoscaler-controller",
        "horizontal-pod-autoscaler",
        &["horizontal-pod-autoscaler-controller"],
    ),
    ("job-controller", "job-controller", &["job", "job-orphan-pods"]),
    (
        "kubelet-serving-approver-controller",
        "kubelet-serving-approver",
        &["kubelet-serving-approver-controller"],
    ),
    (
        "local-volume-provisioner-controller",
        "persistent-volume-binder",
        &["local-volume-provisioner-controller"],
    ),
    (
        "legacy-serviceaccount-token-cleaner-controller",
        "legacy-service-account-token-cleaner",
        &["legacy-serviceaccount-token-cleaner-controller"],
    ),
    ("namespace-controller", "namespace-controller", &["namespace"]),
    (NODE_IPAM, "node-controller", &[NODE_IPAM]),
    (
        "node-lifecycle-controller",
        "node-controller",
        &["node-lifecycle-controller", "node-lifecycle-controller-health", "node-lifecycle-controller-pods"],
    ),
    ("disruption-controller", "disruption-controller", &["disruption", "disruption-stale-pods"]),
    (
        "persistentvolume-binder-controller",
        "persistent-volume-binder",
        &["persistentvolume-binder-controller", "persistentvolume-binder-volumes"],
    ),
    ("persistentvolume-expander-controller", "expand-controller", &["persistentvolume-expander-controller"]),
    (
        "persistentvolumeclaim-protection-controller",
        "pvc-protection-controller",
        &["persistentvolumeclaim-protection-controller"],
    ),
    (
        "persistentvolume-protection-controller",
        "pv-protection-controller",
        &["persistentvolume-protection-controller"],
    ),
    ("pod-garbage-collector-controller", "pod-garbage-collector", &["pod-garbage-collector-controller"]),
    ("replicaset-controller", "replicaset-controller", &["replicaset-controller"]),
    ("replicationcontroller-controller", "replication-controller", &["replicationcontroller-controller"]),
    ("resourceclaim-controller", "resource-claim-controller", &["resource_claim", "resource_claim_cleanup"]),
    ("resourcequota-controller", "resourcequota-controller", &["resourcequota-controller"]),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", &["root-ca-cert-publisher"]),
    ("serviceaccount-controller", "service-account-controller", &["serviceaccount"]),
    ("service-cidr-controller", "service-cidrs-controller", &["service-cidr-controller"]),
    ("statefulset-controller", "statefulset-controller", &["statefulset"]),
    ("token-cleaner-controller", "token-cleaner", &["token-cleaner"]),
    ("serviceaccount-token-controller", "", &["serviceaccount-token"]),
    ("taint-eviction-controller", "node-controller", &["taint-eviction-controller"]),
    ("ttl-controller", "ttl-controller", &["ttl-controller"]),
    ("ttl-after-finished-controller", "ttl-after-finished-controller", &["ttl-after-finished"]),
    (
        "volumeattributesclass-protection-controller",
        "volumeattributesclass-protection-controller",
        &["volumeattributesclass-protection-controller"],
    ),
    (
        "validatingadmissionpolicy-status-controller",
        "validatingadmissionpolicy-status-controller",
        &["validatingadmissionpolicy-status-controller"],
    ),
];

/// Under which names controllers are shown, sorted.
fn names(shown: &Json) -> Vec<String> {
    let all = shown["controllers"].as_array().expect("a list of controllers");
    let names = all.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The root certificate is only published where there is one.
fn trust(cluster: &TestCluster) -> Trust {
    Trust { root_ca: Some("a certificate".into()), ..cluster.trust() }
}

struct Shown(Arc<Plane>);

impl ControllerStatus for Shown {
    fn controllers(&self) -> object::Value {
        self.0.controllers()
    }
    fn metrics(&self, out: &mut String) {
        self.0.metrics(out);
    }
    fn leads(&self, lease: &str) -> Option<Result<(), String>> {
        self.0.leads(lease)
    }
}

#[tokio::test(start_paused = true)]
async fn debug_controllers_of_a_whole_cluster_shows_every_controller_and_the_scheduler() {
    let cluster = TestCluster::bare(Env::simulated(66), |_| {}).await;
    let settings = Settings {
        nodes: Some(testkit::nodes(1)),
        trust: trust(&cluster),
        registry: Some(cluster.api().controller_registry()),
        ..Settings::default()
    };
    let plane = Arc::new(Plane::start(cluster.env(), cluster.local_clients(), &settings));
    cluster.api().set_controller_status(Arc::new(Shown(plane.clone())));
    until(&cluster, "/debug/controllers", "a scheduler", |shown| shown["scheduler"].is_object()).await;
    let of_a_plane = |shown: &Json| names(shown).iter().any(|name| name == "job");
    until(&cluster, "/debug/controllers", "the controllers", of_a_plane).await;
    let shown = cluster.get("/debug/controllers").await.ok(200);
    let mut wanted = vec!["node-device-claims", "node-devices", "node-pods", "node-status"];
    // The API server's own.
    wanted.extend(["cluster-authentication-trust", "custom-resource-definitions", "flow-control"]);
    wanted.extend(["flow-schemas", "legacy-token-tracking", "service-ip-repair"]);
    wanted.extend([
        "apiservice-availability",
        "apiservice-discovery",
        "apiservice-openapi-v2",
        "apiservice-openapi-v3",
        "autoregister",
    ]);
    let runs = |name: &str| name != NODE_IPAM && !controllers::OFF_BY_DEFAULT.contains(&name);
    for row in controllers::CONTROLLERS.iter().filter(|row| runs(row.name)) {
        let known = KNOWN.iter().find(|(name, ..)| *name == row.name);
        let (.., shown_as) = known.unwrap_or_else(|| panic!("{} is not in the table", row.name));
        wanted.extend(shown_as.iter());
    }
    wanted.sort();
    assert_eq!(names(&shown), wanted);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn every_controller_acts_with_upstreams_identity_only() {
    let cluster = TestCluster::simulated(65).await;
    let rows: Vec<&str> = controllers::CONTROLLERS.iter().map(|row| row.name).collect();
    let known: Vec<&str> = KNOWN.iter().map(|(row, ..)| *row).collect();
    assert_eq!(rows, known, "a controller without an identity in the table");
    for (row, (name, account, shown_as)) in controllers::CONTROLLERS.iter().zip(KNOWN) {
        let noting = Arc::new(Noting { clients: cluster.local_clients(), asked: Mutex::default() });
        let mut plane = cluster.bare_control_plane(noting.clone());
        plane.context.trust = trust(&cluster);
        let ipam = NodeIpam::new("10.244.0.0/16", MaskSizes::default(), Vec::new()).expect("it fits");
        plane.context.settings =
            Arc::new(controllers::Settings { node_ipam: Some(ipam), ..controllers::Settings::default() });
        // The informers read as the manager; whatever is asked for from now on is the controller's own.
        assert_eq!(std::mem::take(&mut *noting.asked.lock()), [MANAGER]);
        let tasks = (row.start)(&plane.context);
        plane.own(tasks);
        assert_eq!(names(&as_json(&plane.context.controllers.to_value(&|_| None))), *shown_as, "{name}");
        let user = format!("system:serviceaccount:kube-system:{account}");
        let wanted = if account.is_empty() { MANAGER } else { &*user };
        assert_eq!(*noting.asked.lock(), [wanted], "{name}");
        // These have roles in the namespaces they look at.
        if !account.is_empty() && !controllers::OFF_BY_DEFAULT.contains(name) {
            let path =
                format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:controller:{account}");
            let binding = cluster.get(path).await.ok(200);
            let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}]);
            assert_eq!(binding["subjects"], subject, "{name} has no role of its own");
        }
        plane.stop().await;
    }
    cluster.shutdown().await;
}
