//! Horizontal pod autoscaling from end to end: a Deployment on simulated nodes that report what its pods use.

use std::time::Duration;

use env::Env;
use plane::{Plane, Settings};
use serde_json::{Value, json};
use testkit::TestCluster;

const HPAS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

struct World {
    cluster: TestCluster,
    plane: Plane,
}

impl World {
    async fn new(seed: u64) -> World {
        println!("seed {seed}");
        let cluster = TestCluster::with(Env::simulated(seed), |_| {}).await;
        let settings =
            Settings { nodes: Some(testkit::nodes(2)), trust: cluster.trust(), ..Settings::default() };
        let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
        let there = || async {
            cluster.get("/api/v1/nodes").await.json()["items"]
                .as_array()
                .is_some_and(|nodes| nodes.len() == 2)
        };
        cluster.until("both nodes are there", there).await;
        World { cluster, plane }
    }

    async fn deploy(&self, name: &str, replicas: u32) {
        let labels = json!({"app": name});
        let container = json!({"name": "app", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let web = json!({"metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}});
        self.cluster.post(DEPLOYMENTS, web).await.ok(201);
    }

    async fn autoscale(&self, name: &str, spec: Value) {
        let mut spec = spec;
        spec["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
        self.cluster.post(HPAS, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
    }

    /// What every pod uses of its requested CPU, on all nodes.
    async fn load(&self, percent: Value) {
        for node in 0..2 {
            let annotations = json!({"metadata": {"annotations": {"sim.setpoint.dev/cpu-usage": percent}}});
            self.cluster.merge(format!("/api/v1/nodes/sim-{node}"), annotations).await.ok(200);
        }
    }

    async fn replicas(&self, name: &str) -> i64 {
        self.cluster.get(format!("{DEPLOYMENTS}/{name}")).await.json()["spec"]["replicas"]
            .as_i64()
            .unwrap_or(-1)
    }

    async fn until_replicas(&self, name: &str, wanted: i64) {
        let so = || async { self.replicas(name).await == wanted };
        self.cluster.until(&format!("{name} has {wanted} replicas"), so).await;
    }

    async fn pass(&self, seconds: u64) {
        self.cluster.env().sleep(Duration::from_secs(seconds)).await;
    }

    async fn status(&self, name: &str) -> Value {
        self.cluster.get(format!("{HPAS}/{name}")).await.json()["status"].clone()
    }

    /// A condition as `status reason`.
    async fn condition(&self, name: &str, kind: &str) -> String {
        let status = self.status(name).await;
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
        format!("{} {}", found["status"].as_str().unwrap_or("-"), found["reason"].as_str().unwrap_or("-"))
    }

    async fn events(&self, reason: &str) -> Vec<String> {
        let all = self.cluster.get("/api/v1/namespaces/default/events").await.json();
        let all = all["items"].as_array().cloned().unwrap_or_default();
        let ours = all.iter().filter(|event| event["reason"] == reason);
        ours.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect()
    }

    async fn end(self) {
        self.plane.stop().await;
        self.cluster.shutdown().await;
    }
}

fn cpu(percent: u32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

#[tokio::test(start_paused = true)]
async fn a_deployment_follows_the_load_up_at_once_and_down_after_five_minutes() {
    let world = World::new(951).await;
    world.deploy("web", 2).await;
    world.autoscale("web", json!({"minReplicas": 2, "maxReplicas": 10, "metrics": [cpu(50)]})).await;
    world.load(json!("100%")).await;
    world.until_replicas("web", 4).await;
    world.until_replicas("web", 8).await;
    world.until_replicas("web", 10).await;
    world.pass(60).await;
    let status = world.status("web").await;
    assert_eq!(status["currentReplicas"], 10, "{status:#}");
    assert_eq!(status["desiredReplicas"], 10);
    let current = &status["currentMetrics"][0]["resource"]["current"];
    assert_eq!(*current, json!({"averageUtilization": 100, "averageValue": "100m"}));
    assert_eq!(world.condition("web", "AbleToScale").await, "True ReadyForNewScale");
    assert_eq!(world.condition("web", "ScalingActive").await, "True ValidMetricFound");
    assert_eq!(world.condition("web", "ScalingLimited").await, "True TooManyReplicas");
    assert!(status["lastScaleTime"].is_string());
    let told = world.events("SuccessfulRescale").await;
    let reason = "reason: cpu resource utilization (percentage of request) above target";
    assert!(told.contains(&format!("New size: 4; {reason}")), "{told:?}");

    // Idle: nothing for five minutes, then down to what the load needs.
    world.load(json!("10%")).await;
    world.pass(240).await;
    assert_eq!(world.replicas("web").await, 10);
    assert_eq!(world.condition("web", "AbleToScale").await, "True ScaleDownStabilized");
    world.until_replicas("web", 2).await;
    assert!(
        world
            .events("SuccessfulRescale")
            .await
            .contains(&"New size: 2; reason: All metrics below target".to_owned())
    );
    // One would do, but two are the least.
    world.pass(400).await;
    assert_eq!(world.condition("web", "ScalingLimited").await, "True TooFewReplicas");
    // It rests: nothing is written while nothing changes.
    let version = world.cluster.get(format!("{HPAS}/web")).await.version();
    world.pass(600).await;
    assert_eq!(world.cluster.get(format!("{HPAS}/web")).await.version(), version);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn behavior_sets_the_pace_both_ways() {
    let world = World::new(952).await;
    world.deploy("web", 2).await;
    let policy = |value: u32| json!([{"type": "Pods", "value": value, "periodSeconds": 60}]);
    let behavior = json!({"scaleUp": {"policies": policy(1), "stabilizationWindowSeconds": 0},
        "scaleDown": {"policies": policy(2), "stabilizationWindowSeconds": 0}});
    world
        .autoscale(
            "web",
            json!({"minReplicas": 1, "maxReplicas": 6, "behavior": behavior, "metrics": [cpu(50)]}),
        )
        .await;
    world.load(json!("200%")).await;
    world.until_replicas("web", 3).await;
    assert_eq!(world.condition("web", "ScalingLimited").await, "True ScaleUpLimit");
    world.pass(50).await;
    assert_eq!(world.replicas("web").await, 3, "one a minute");
    world.until_replicas("web", 6).await;
    // What was added within the minute would count.
    world.pass(70).await;
    world.load(json!("1%")).await;
    world.until_replicas("web", 4).await;
    assert_eq!(world.condition("web", "ScalingLimited").await, "True ScaleDownLimit");
    world.until_replicas("web", 1).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_measured_is_said_and_changes_nothing() {
    let world = World::new(953).await;
    world.deploy("web", 3).await;
    let queue = json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "1k"}}});
    world
        .autoscale("web", json!({"minReplicas": 1, "maxReplicas": 9, "metrics": [queue, pods, cpu(50)]}))
        .await;
    world.load(json!("none")).await;
    world.pass(60).await;
    assert_eq!(world.replicas("web").await, 3);
    assert_eq!(world.condition("web", "ScalingActive").await, "False FailedGetExternalMetric");
    let status = world.status("web").await;
    assert_eq!(status["currentReplicas"], 3);
    assert_eq!(status["currentMetrics"], json!([{"type": ""}, {"type": ""}, {"type": ""}]));
    let no_external = "unable to get external metric default/queue/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get queue.external.metrics.k8s.io)";
    assert!(world.events("FailedGetExternalMetric").await.contains(&no_external.to_owned()));
    let no_custom = "unable to get metric rps: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";
    assert!(world.events("FailedGetPodsMetric").await.contains(&no_custom.to_owned()));
    let unready =
        "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)";
    let told = world.events("FailedGetResourceMetric").await;
    assert!(told.iter().any(|message| message == unready), "{told:?}");
    let told = world.events("FailedComputeMetricsReplicas").await;
    assert!(told.iter().any(|message| message.starts_with("invalid metrics (3 invalid out of 3), first error is: failed to get queue external metric value: failed to get queue external metric: unable to get external metric")), "{told:?}");
    // With one of them it may grow, and not shrink.
    world.load(json!("10%")).await;
    world.pass(400).await;
    assert_eq!(world.replicas("web").await, 3);
    world.load(json!("100%")).await;
    world.until_replicas("web", 9).await;
    // A negative metric bounds it below.
    world.cluster.merge(format!("{HPAS}/web"), json!({"spec": {"metrics": [cpu(50)]}})).await.ok(200);
    world.load(json!("-500m")).await;
    world.until_replicas("web", 1).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn targets_that_are_not_there_or_shared_or_at_zero_are_left_alone() {
    let world = World::new(954).await;
    world.deploy("web", 2).await;
    world.load(json!("100%")).await;
    world.autoscale("absent", json!({"maxReplicas": 5, "metrics": [cpu(50)]})).await;
    world.pass(20).await;
    assert_eq!(world.condition("absent", "AbleToScale").await, "False FailedGetScale");
    assert!(
        world.events("FailedGetScale").await.contains(&"deployments.apps \"absent\" not found".to_owned())
    );
    let odd = json!({"metadata": {"name": "odd"}, "spec": {"maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "example.io/v1", "kind": "Thing", "name": "x"}}});
    world.cluster.post(HPAS, odd).await.ok(201);
    world.pass(20).await;
    assert!(
        world
            .events("FailedGetScale")
            .await
            .contains(&"no matches for kind \"Thing\" in group \"example.io\"".to_owned())
    );

    for name in ["one", "two"] {
        let spec = json!({"maxReplicas": 5, "metrics": [cpu(50)], "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
        world.cluster.post(HPAS, json!({"metadata": {"name": name}, "spec": spec})).await.ok(201);
    }
    world.pass(60).await;
    let told = world.events("AmbiguousSelector").await;
    let message = "pods by selector app=web are controlled by multiple HPAs: [default/one default/two]";
    assert!(told.iter().any(|said| said == message), "{told:?}");
    let before = world.replicas("web").await;
    world.pass(60).await;
    assert_eq!(world.replicas("web").await, before);
    // One of them goes: the other scales again.
    world.cluster.delete(format!("{HPAS}/one")).await.ok(200);
    world.until_replicas("web", 5).await;

    world.cluster.merge(format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 0}})).await.ok(200);
    world.pass(60).await;
    assert_eq!(world.replicas("web").await, 0);
    assert_eq!(world.condition("two", "ScalingActive").await, "False ScalingDisabled");
    // A user's number outside the bounds is brought back at once, without metrics.
    world.cluster.merge(format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 9}})).await.ok(200);
    world.until_replicas("web", 5).await;
    let told = world.events("SuccessfulRescale").await;
    let above = "New size: 5; reason: Current number of replicas above Spec.MaxReplicas";
    assert!(told.iter().any(|said| said == above), "{told:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_version_one_and_one_of_a_container_work_too() {
    let world = World::new(955).await;
    for name in ["old", "part"] {
        world.deploy(name, 1).await;
    }
    let old = json!({"metadata": {"name": "old"}, "spec": {"maxReplicas": 4, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "old"}}});
    world.cluster.post(HPAS.replace("/v2/", "/v1/"), old).await.ok(201);
    let memory = json!({"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app",
        "target": {"type": "AverageValue", "averageValue": "16Mi"}}});
    world.autoscale("part", json!({"maxReplicas": 3, "metrics": [memory]})).await;
    world.load(json!("100%")).await;
    world.until_replicas("old", 4).await;
    world.until_replicas("part", 3).await;
    world.pass(60).await;
    let current = world.status("part").await["currentMetrics"][0]["containerResource"].clone();
    assert_eq!(current, json!({"container": "app", "name": "memory", "current": {"averageValue": "64Mi"}}));
    // Pods of a silent node say nothing: they count as busy when the others are idle.
    assert_eq!(world.cluster.get(PODS).await.json()["items"].as_array().map(Vec::len), Some(7));
    world.end().await;
}
