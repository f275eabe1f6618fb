//! metrics.k8s.io as metrics-server serves it: lists, selectors, tables, discovery; and who may read it.

use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use env::Env;
use futures_util::future::BoxFuture;
use plane::{Plane, Settings};
use serde_json::{Value, json};
use store::MemoryEngine;
use table::Table;
use testkit::TestCluster;

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Two pods on one of two simulated nodes, a minute old.
async fn world(seed: u64) -> (TestCluster, Plane) {
    let env = Env::simulated(seed);
    let table = Table::new(Arc::new(Catalog::with_metrics()), env.clone());
    let engine = MemoryEngine::open(table.clone());
    let cluster = TestCluster::with(env, |config| (config.table, config.engine) = (table, engine)).await;
    let settings = Settings { nodes: Some(testkit::nodes(2)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    for (name, cpu) in [("a", "100m"), ("b", "250m")] {
        let requests = json!({"requests": {"cpu": cpu, "memory": "64Mi"}});
        let container = json!({"name": "app", "image": "i", "resources": requests});
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"nodeName": "sim-0", "containers": [container]}});
        let made =
            || async { cluster.post("/api/v1/namespaces/default/pods", pod.clone()).await.status == 201 };
        cluster.until("the pod can be made", made).await;
    }
    cluster.env().sleep(Duration::from_secs(60)).await;
    (cluster, plane)
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_and_nodes_show_what_they_use() {
    let (cluster, plane) = world(961).await;
    let pods = cluster.get(format!("{METRICS}/namespaces/default/pods")).await.ok(200);
    assert_eq!(
        (&pods["kind"], &pods["apiVersion"]),
        (&json!("PodMetricsList"), &json!("metrics.k8s.io/v1beta1"))
    );
    assert_eq!(names(&pods), ["a", "b"]);
    let one = &pods["items"][1];
    assert_eq!(one["containers"], json!([{"name": "app", "usage": {"cpu": "250m", "memory": "64Mi"}}]));
    assert_eq!((&one["window"], &one["metadata"]["labels"]), (&json!("15s"), &json!({"app": "b"})));
    assert!(one["timestamp"].is_string() && one["kind"].is_null());
    let one = cluster.get(format!("{METRICS}/namespaces/default/pods/a")).await.ok(200);
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("PodMetrics"), &json!("a")));
    let nodes = cluster.get(format!("{METRICS}/nodes")).await.ok(200);
    assert_eq!(names(&nodes), ["sim-0", "sim-1"]);
    assert_eq!(nodes["items"][0]["usage"], json!({"cpu": "350m", "memory": "128Mi"}));
    assert_eq!(nodes["items"][1]["usage"]["cpu"], "0");
    for node in nodes["items"].as_array().expect("a list") {
        let name = node["metadata"]["name"].as_str().expect("a name");
        let one = cluster.get(format!("{METRICS}/nodes/{name}")).await.ok(200);
        assert_eq!((&one["kind"], &one["usage"]), (&json!("NodeMetrics"), &node["usage"]));
    }

    // Selected by labels and names; across namespaces.
    for (query, found) in [
        ("?labelSelector=app%3Db", vec!["b"]),
        ("?fieldSelector=metadata.name%3Da", vec!["a"]),
        ("?fieldSelector=spec.nodeName%3Dsim-0", vec![]),
        ("?labelSelector=app%3Dc", vec![]),
    ] {
        let pods = cluster.get(format!("{METRICS}/pods{query}")).await.ok(200);
        assert_eq!(names(&pods), found, "{query}");
    }
    // What is not there, or does not run, has none.
    let absent = cluster.get(format!("{METRICS}/namespaces/default/pods/c")).await.ok(404);
    assert_eq!(absent["message"], "podmetrics.metrics.k8s.io \"default/c\" not found");
    let absent = cluster.get(format!("{METRICS}/nodes/sim-9")).await.ok(404);
    assert_eq!(absent["message"], "nodemetrics.metrics.k8s.io \"sim-9\" not found");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let absent =
        cluster.request("GET", format!("{METRICS}/nodes/sim-9")).header("accept", table).send().await;
    assert_eq!(absent.status, 404, "{}", absent.text());
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let shown =
        cluster.request("GET", format!("{METRICS}/nodes")).header("accept", metadata).send().await.ok(200);
    assert_eq!((&shown["kind"], shown["items"][0].get("usage")), (&json!("PartialObjectMetadataList"), None));
    // A silent node reports nothing.
    let silent = json!({"metadata": {"annotations": {"sim.setpoint.dev/silent": "true"}}});
    cluster.merge("/api/v1/nodes/sim-0", silent).await.ok(200);
    assert_eq!(names(&cluster.get(format!("{METRICS}/nodes")).await.ok(200)), ["sim-1"]);
    assert_eq!(names(&cluster.get(format!("{METRICS}/pods")).await.ok(200)), Vec::<&str>::new());
    plane.stop().await;
    cluster.shutdown().await;
}

/// A kubelet that answers until it is told not to: its pod uses a quarter of a core, the node half of one.
struct Kubelet {
    env: Env,
    asked: parking_lot::Mutex<Vec<String>>,
    away: std::sync::atomic::AtomicBool,
}

impl apiserver::NodeScraper for Kubelet {
    fn scrape<'a>(&'a self, node: &'a apiserver::NodeEndpoint) -> BoxFuture<'a, Result<String, String>> {
        self.asked.lock().push(node.node.clone());
        // Small enough to be exact.
        let now = (self.env.now_nanos() / 1_000_000 % 100_000_000) as f64 / 1000.0;
        let millis = self.env.now_nanos() / 1_000_000;
        let of_pod = r#"{container="app",namespace="default",pod="real"}"#;
        let text = format!(
            "node_cpu_usage_seconds_total {} {millis}\nnode_memory_working_set_bytes 1048576 {millis}\n\
             container_cpu_usage_seconds_total{of_pod} {} {millis}\n\
             container_memory_working_set_bytes{of_pod} 65536 {millis}\n\
             container_start_time_seconds{of_pod} 1.5e+09\n",
            now / 2.0,
            now / 4.0
        );
        let away = self.away.load(std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move { if away { Err("connection refused".to_owned()) } else { Ok(text) } })
    }
}

#[tokio::test(start_paused = true)]
async fn real_nodes_are_asked_what_they_use() {
    let (cluster, plane) = world(964).await;
    cluster.post("/api/v1/nodes", json!({"metadata": {"name": "real-0"}})).await.ok(201);
    let status = json!({"status": {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {"containerRuntimeVersion": "setpoint://1.0"},
    }});
    cluster.merge("/api/v1/nodes/real-0/status", status).await.ok(200);
    let container = json!({"name": "app", "image": "i"});
    let spec = json!({"nodeName": "real-0", "containers": [container]});
    let pod = json!({"metadata": {"name": "real"}, "spec": spec});
    cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
    let running = json!({"status": {"phase": "Running"}});
    cluster.merge("/api/v1/namespaces/default/pods/real/status", running).await.ok(200);

    let kubelet = Arc::new(Kubelet {
        env: cluster.env().clone(),
        asked: parking_lot::Mutex::default(),
        away: std::sync::atomic::AtomicBool::new(false),
    });
    let scraping = cluster.env().spawn("scrape", cluster.api().clone().scrape_nodes(kubelet.clone()));
    let one = || async { cluster.get(format!("{METRICS}/namespaces/default/pods/real")).await };
    cluster.until("it was asked twice", || async { one().await.status == 200 }).await;
    let pod = one().await.ok(200);
    assert_eq!(pod["containers"], json!([{"name": "app", "usage": {"cpu": "250m", "memory": "64Ki"}}]));
    assert_eq!(pod["window"], "15s");
    let node = cluster.get(format!("{METRICS}/nodes/real-0")).await.ok(200);
    assert_eq!(node["usage"], json!({"cpu": "500m", "memory": "1Mi"}));
    let nodes = cluster.get(format!("{METRICS}/nodes")).await.ok(200);
    assert_eq!(names(&nodes), ["real-0", "sim-0", "sim-1"], "simulated ones as before");
    assert!(kubelet.asked.lock().iter().all(|node| node == "real-0"));

    // One that does not answer has no metrics.
    kubelet.away.store(true, std::sync::atomic::Ordering::Relaxed);
    cluster.until("it is noticed", || async { one().await.status == 404 }).await;
    assert_eq!(names(&cluster.get(format!("{METRICS}/nodes")).await.ok(200)), ["sim-0", "sim-1"]);
    plane.stop().await;
    cluster.shutdown().await;
    scraping.await.expect("it ends with the server");
}

#[tokio::test(start_paused = true)]
async fn metrics_are_discovered_printed_and_described() {
    let (cluster, plane) = world(962).await;
    let found = cluster.get(METRICS).await.ok(200);
    let resources: Vec<(&str, &str, bool)> = found["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .map(|r| {
            (r["name"].as_str().unwrap_or(""), r["kind"].as_str().unwrap_or(""), r["namespaced"] == true)
        })
        .collect();
    assert_eq!(resources, [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)]);
    assert_eq!(found["resources"][0]["verbs"], json!(["get", "list"]));
    let groups = cluster.get("/apis").await.ok(200);
    let groups = groups["groups"].as_array().expect("groups");
    assert!(groups.iter().any(|group| group["name"] == "metrics.k8s.io"));
    let table = cluster.request("GET", format!("{METRICS}/pods")).accept(TABLE).send().await.ok(200);
    let columns: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|column| &column["name"])
        .collect();
    assert_eq!(columns, ["Name", "cpu", "memory", "Window"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "100m", "64Mi", "15s"]));
    let api = cluster.get("/openapi/v3/apis/metrics.k8s.io/v1beta1").await.ok(200);
    assert!(api["components"]["schemas"]["io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics"].is_object());
    for (method, status) in [("POST", 405), ("DELETE", 405)] {
        let ask = cluster.request(method, format!("{METRICS}/namespaces/default/pods")).json(&json!({}));
        assert_eq!(ask.send().await.status, status, "{method}");
    }
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_are_for_those_who_may_read_them() {
    let (cluster, plane) = world(963).await;
    let stranger = auth::UserInfo::new("jane", &["system:authenticated"]);
    let ask = cluster.request("GET", format!("{METRICS}/nodes")).by(stranger);
    assert_eq!(ask.send().await.status, 403);
    let clients = cluster.local_clients();
    let autoscaler = clients.controller("horizontal-pod-autoscaler");
    let pods = autoscaler
        .get_raw("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Da")
        .await;
    assert_eq!(
        pods.expect("its role says so").get("items").and_then(object::Value::as_list).map(<[_]>::len),
        Some(1)
    );
    let path = "/apis/metrics.k8s.io/v1beta1/nodes";
    assert_eq!(autoscaler.get_raw(path).await.expect_err("not nodes").code, 403);
    assert_eq!(
        autoscaler.get_raw("/apis/custom.metrics.k8s.io").await.expect_err("nobody serves it").code,
        404
    );
    plane.stop().await;
    cluster.shutdown().await;
}
