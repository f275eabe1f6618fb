//! A `KubeSchedulerConfiguration` with several profiles: each pod is placed by the one it names, and they place differently.

use std::time::Duration;

use scheduler::Config;
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::scheduling::{add_node, get_pod, pod, start_configured, until};

const PODS: &str = "/api/v1/namespaces/default/pods";

const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: heedless
  plugins: {score: {disabled: [{name: TaintToleration}]}}
- schedulerName: roomy
  plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 100}]}}
- schedulerName: packing
  plugins: {score: {disabled: [{name: TaintToleration}, {name: NodeResourcesBalancedAllocation}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]
- schedulerName: fearless
  plugins: {filter: {disabled: [{name: TaintToleration}]}}
";

/// A pod that only the profile of this name places.
fn of(profile: &str) -> Value {
    let mut pod = pod(profile, "100m");
    pod["spec"]["schedulerName"] = json!(profile);
    pod
}

#[tokio::test(start_paused = true)]
async fn each_profile_places_its_own_pods_by_its_own_plugins_and_weights() {
    let cluster = TestCluster::simulated(70).await;
    // Half full; empty but better left so; empty and closed.
    add_node(&cluster, "plain", json!({})).await;
    add_node(&cluster, "soft", json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})).await;
    add_node(&cluster, "closed", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})).await;
    let mut filler = pod("filler", "1");
    filler["spec"]["nodeName"] = json!("plain");
    cluster.post(PODS, filler).await.ok(201);

    let tree = codec::yaml::parse(CONFIG.as_bytes()).expect("it is YAML");
    let config = Config::parse(&tree).expect("it is a configuration");
    let running = start_configured(&cluster, &*cluster.local_clients(), config);

    // All at once, so that one scheduler has pods of every profile in its hands.
    let mut fearless = of("fearless");
    fearless["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "closed"});
    let mut fearful = fearless.clone();
    fearful["metadata"]["name"] = json!("fearful");
    fearful["spec"]["schedulerName"] = json!("default-scheduler");
    let others = ["default-scheduler", "heedless", "roomy", "packing", "nobodys"].map(of);
    for pod in others.into_iter().chain([fearless, fearful]) {
        cluster.post(PODS, pod).await.ok(201);
    }
    let expected = [
        // The taint counts more than the room.
        ("default-scheduler", "plain"),
        // The taint counts nothing, or less than the room.
        ("heedless", "soft"),
        ("roomy", "soft"),
        // Room counts against a node.
        ("packing", "plain"),
        // What other profiles must not.
        ("fearless", "closed"),
    ];
    let mut placed = Vec::new();
    for (name, _) in expected {
        let bound = until(&cluster, name, "got a node", |p| p["spec"]["nodeName"].is_string()).await;
        placed.push((name, bound["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()));
    }
    assert_eq!(placed, expected.map(|(name, node)| (name, node.to_owned())));

    // The same pod as `fearless`, but for its profile.
    let why = |p: &Value| p["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
    let waits = until(&cluster, "fearful", "said why", |p| !why(p).is_empty()).await;
    assert!(why(&waits).contains("1 node(s) had untolerated taint(s)"), "{waits:#}");

    // No scheduler has this name, and none writes an event about it.
    cluster.env().sleep(Duration::from_secs(60)).await;
    let nobodys = get_pod(&cluster, "nobodys").await;
    assert!(nobodys["spec"].get("nodeName").is_none() && nobodys["status"].get("conditions").is_none());

    // Once its own scheduler has placed it, it takes room from everyone's.
    let mut large = pod("large", "1500m");
    large["spec"]["schedulerName"] = json!("nobodys");
    cluster.post(PODS, large).await.ok(201);
    let target = json!({"kind": "Node", "name": "closed"});
    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "large"}, "target": target});
    cluster.post(format!("{PODS}/large/binding"), binding).await.ok(201);
    let mut late = pod("late", "500m");
    late["spec"]["schedulerName"] = json!("fearless");
    late["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "closed"});
    cluster.post(PODS, late).await.ok(201);
    let waits = until(&cluster, "late", "said why", |p| !why(p).is_empty()).await;
    assert!(why(&waits).contains("1 Insufficient cpu"), "{waits:#}");

    // Each profile speaks in its own name.
    let events = cluster.get("/api/v1/namespaces/default/events").await.json();
    let events = events["items"].as_array().cloned().unwrap_or_default();
    for (name, _) in expected {
        let told = events.iter().find(|e| e["reason"] == "Scheduled" && e["involvedObject"]["name"] == name);
        assert_eq!(told.expect("it is told")["reportingComponent"], name);
    }
    running.stop().await;
    cluster.shutdown().await;
}
