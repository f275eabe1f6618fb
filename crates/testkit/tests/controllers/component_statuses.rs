//! `componentstatuses` show the actual health of components: run here, led by another process, disabled, failed.

use std::sync::Arc;

use apiserver::ControllerStatus;
use env::Env;
use plane::{Candidate, ControllerSelection, Plane, Settings};
use serde_json::{Value as Json, json};
use testkit::{Reply, TestCluster};

const STATUSES: &str = "/api/v1/componentstatuses";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

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

async fn with_plane(cluster: &TestCluster, settings: &Settings) -> Arc<Plane> {
    let plane = Arc::new(Plane::start(cluster.env(), cluster.local_clients(), settings));
    cluster.api().set_controller_status(Arc::new(Shown(plane.clone())));
    pass(cluster, 5).await;
    plane
}

async fn pass(cluster: &TestCluster, seconds: u64) {
    cluster.env().sleep(std::time::Duration::from_secs(seconds)).await;
}

fn only(words: &[&str]) -> Settings {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    Settings { choice: ControllerSelection::new(words).expect("known controllers"), ..Settings::default() }
}

async fn table(cluster: &TestCluster) -> Vec<Json> {
    let shown = cluster.request("GET", STATUSES).accept(TABLE).send().await.ok(200);
    shown["rows"].as_array().expect("rows").iter().map(|row| row["cells"].clone()).collect()
}

fn lease(holder: &str, renewed: &str) -> Json {
    json!({"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": holder,
        "leaseDurationSeconds": 15, "renewTime": renewed, "acquireTime": renewed}})
}

#[tokio::test(start_paused = true)]
async fn running_components_are_healthy_and_have_upstreams_form() {
    let cluster = TestCluster::bare(Env::simulated(1), |_| {}).await;
    let plane = with_plane(&cluster, &Settings::default()).await;
    let healthy = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    let names = ["controller-manager", "etcd-0", "scheduler"];
    let items = names.map(|name| json!({"metadata": {"name": name}, "conditions": healthy}));
    let list = cluster.get(STATUSES).await;
    let wanted = json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items});
    assert_eq!(list.ok(200), wanted);
    assert_eq!(list.warnings(), ["299 - \"v1 ComponentStatus is deprecated in v1.19+\""]);
    let one = cluster.get(format!("{STATUSES}/scheduler")).await.ok(200);
    let scheduler = json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "scheduler"},
        "conditions": healthy});
    assert_eq!(one, scheduler);
    assert_eq!(table(&cluster).await, names.map(|name| json!([name, "Healthy", "ok", ""])));
    // After an hour of work none of their tasks has ended either.
    pass(&cluster, 3600).await;
    assert_eq!(table(&cluster).await, names.map(|name| json!([name, "Healthy", "ok", ""])));
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn forms_and_selectors_are_those_of_other_resources() {
    let cluster = TestCluster::bare(Env::simulated(2), |_| {}).await;
    let plane = with_plane(&cluster, &Settings::default()).await;
    let names = |reply: Reply| -> Vec<Json> {
        reply.ok(200)["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|i| i["metadata"]["name"].clone())
            .collect()
    };
    for (query, found) in [
        ("fieldSelector=metadata.name%3Dscheduler", &["scheduler"][..]),
        ("fieldSelector=metadata.name!%3Dscheduler", &["controller-manager", "etcd-0"]),
        ("fieldSelector=metadata.namespace%3Dx", &[]),
        ("labelSelector=a%3Db", &[]),
        ("labelSelector=!a", &["controller-manager", "etcd-0", "scheduler"]),
        ("limit=1", &["controller-manager", "etcd-0", "scheduler"]),
    ] {
        assert_eq!(names(cluster.get(format!("{STATUSES}?{query}")).await), *found, "{query}");
    }
    for (query, message) in [
        (
            "fieldSelector=spec.x%3D1",
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("labelSelector=%3D", "found '=', expected: !, identifier, or 'end of string'"),
    ] {
        let refused = cluster.get(format!("{STATUSES}?{query}")).await.ok(400);
        assert!(refused["message"].as_str().is_some_and(|m| m.contains(message)), "{refused}");
    }
    let unknown = cluster.get(format!("{STATUSES}/etcd-1")).await;
    assert_eq!(unknown.ok(404)["message"], "componentstatus \"etcd-1\" not found");
    assert_eq!(unknown.json()["details"], json!({"name": "etcd-1", "kind": "componentstatus"}));
    assert_eq!(unknown.warnings(), ["299 - \"v1 ComponentStatus is deprecated in v1.19+\""]);

    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = cluster.request("GET", STATUSES).accept(metadata).send().await.ok(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][1]["metadata"], json!({"name": "etcd-0"}));
    let shown =
        cluster.request("GET", format!("{STATUSES}/etcd-0?includeObject=Object")).accept(TABLE).send().await;
    let shown = shown.ok(200);
    assert_eq!(shown["metadata"], json!({}));
    assert_eq!(shown["rows"][0]["object"]["kind"], "ComponentStatus");
    let columns: Vec<&Json> =
        shown["columnDefinitions"].as_array().expect("columns").iter().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "Status", "Message", "Error"]);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn disabled_components_are_unhealthy_and_say_why() {
    let cluster = TestCluster::bare(Env::simulated(3), |_| {}).await;
    let off = "it is not run by this server, and there is no lease";
    let rows = table(&cluster).await;
    assert_eq!(rows[0][1], "Unhealthy");
    assert!(rows[0][2].as_str().is_some_and(|m| m.starts_with(off)), "{rows:?}");
    assert_eq!(rows[1], json!(["etcd-0", "Healthy", "ok", ""]));
    assert_eq!(rows[2][1], "Unhealthy");

    let plane = with_plane(&cluster, &only(&["-*", "scheduler"])).await;
    let rows = table(&cluster).await;
    assert_eq!(rows[0], json!(["controller-manager", "Unhealthy", "all its controllers are disabled", ""]));
    assert_eq!(rows[2], json!(["scheduler", "Healthy", "ok", ""]));
    plane.stop().await;

    let plane = with_plane(&cluster, &only(&["*", "-scheduler"])).await;
    let rows = table(&cluster).await;
    assert_eq!(rows[0][1], "Healthy");
    assert_eq!(rows[2][1], "Unhealthy");
    let one = cluster.get(format!("{STATUSES}/scheduler")).await.ok(200);
    assert_eq!(one["conditions"][0]["status"], "False");
    assert_eq!(one["conditions"][0].get("error"), None);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_component_led_by_another_process_is_as_healthy_as_its_lease() {
    let cluster = TestCluster::bare(Env::simulated(4), |_| {}).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let now = || object::time::format_micros(cluster.env().now_seconds() as i64, 0);
    cluster.post(leases, lease("other", &now())).await.ok(201);
    assert_eq!(table(&cluster).await[2], json!(["scheduler", "Healthy", "ok", ""]));
    pass(&cluster, 20).await;
    let row = table(&cluster).await.remove(2);
    assert_eq!(row[1], "Unhealthy");
    assert!(row[2].as_str().is_some_and(|m| m.contains("ran out: \"other\" renewed it last")), "{row}");
    let released = json!({"spec": {"holderIdentity": null}}).to_string();
    let ask = cluster.request("PATCH", format!("{leases}/kube-scheduler"));
    ask.typed("application/merge-patch+json", released).send().await.ok(200);
    assert_eq!(table(&cluster).await[2][2], "nobody holds the lease kube-system/kube-scheduler");
    cluster.delete(format!("{leases}/kube-scheduler")).await.ok(200);

    // Elected, and later not any more: first its own tasks tell, then the lease.
    let candidate = Some(Candidate { identity: "us".to_owned() });
    let plane = with_plane(&cluster, &Settings { candidate, ..Settings::default() }).await;
    pass(&cluster, 10).await;
    assert!(table(&cluster).await.iter().all(|row| row[1] == "Healthy"));
    plane.stop().await;
    assert_eq!(table(&cluster).await[2][1], "Unhealthy");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn failed_controllers_and_a_stopped_store_are_unhealthy() {
    let mut engine = None;
    let cluster = TestCluster::bare(Env::simulated(5), |config| engine = Some(config.engine.clone())).await;
    let falls: plane::StartController =
        Arc::new(|context| vec![context.env.spawn("falls", async { panic!("a controller that panics") })]);
    let plane = with_plane(&cluster, &Settings { more: vec![falls], ..Settings::default() }).await;
    let row = table(&cluster).await.remove(0);
    assert_eq!(row[1], "Unhealthy");
    assert!(row[2].as_str().is_some_and(|m| m.starts_with("1 of its ")), "{row}");
    plane.stop().await;

    engine.expect("it was handed out").close().await;
    let row = table(&cluster).await.remove(1);
    assert_eq!((&row[0], &row[1], &row[2]), (&json!("etcd-0"), &json!("Unhealthy"), &json!("")));
    assert_ne!(row[3], "", "it says why");
}
