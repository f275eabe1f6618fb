//! A cluster whose nodes and pods the test plays itself, with some controllers.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{ControlPlane, TestCluster};

pub const NODES: &str = "/api/v1/nodes";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

pub struct World {
    pub cluster: TestCluster,
    plane: Option<ControlPlane>,
    controllers: &'static [&'static str],
}

impl World {
    /// With the controllers of these names.
    pub async fn new(seed: u64, controllers: &'static [&'static str]) -> World {
        println!("seed {seed}");
        let mut world = World { cluster: TestCluster::simulated(seed).await, plane: None, controllers };
        world.start();
        world
    }

    pub fn start(&mut self) {
        self.plane = Some(self.cluster.controllers(self.cluster.local_clients(), self.controllers));
    }

    /// The controllers die where they stand, and others begin.
    pub fn restart(&mut self) {
        self.plane.take().expect("running").kill();
        self.start();
    }

    pub async fn end(mut self) {
        self.plane.take().expect("running").stop().await;
        self.cluster.shutdown().await;
    }

    pub async fn pass(&self, seconds: u64) {
        self.cluster.env().sleep(Duration::from_secs(seconds)).await;
    }

    fn now_micros(&self) -> String {
        let nanos = self.cluster.env().now_nanos();
        object::time::format_micros((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32)
    }
    pub fn now(&self) -> String {
        object::time::format_seconds(self.cluster.env().now_seconds() as i64)
    }

    /// A node with a lease, ready.
    pub async fn node(&self, name: &str, labels: Value) {
        self.cluster.post(NODES, json!({"metadata": {"name": name, "labels": labels}})).await.ok(201);
        self.node_condition(name, "Ready", "True").await;
        let lease = json!({"metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": self.now_micros()}});
        self.cluster.post(LEASES, lease).await.ok(201);
    }

    pub async fn node_condition(&self, name: &str, kind: &str, status: &str) {
        let now = self.now();
        let condition = json!({"type": kind, "status": status, "reason": "Test", "message": "as told",
            "lastHeartbeatTime": now, "lastTransitionTime": now});
        let body = json!({"status": {"conditions": [condition]}}).to_string();
        let path = format!("{NODES}/{name}/status");
        let ask = self.cluster.request("PATCH", path).typed("application/strategic-merge-patch+json", body);
        ask.send().await.ok(200);
    }

    /// Time passes, and these nodes renew their leases all along.
    pub async fn live(&self, seconds: u64, nodes: &[&str]) {
        let mut left = seconds;
        loop {
            for name in nodes {
                let body = json!({"spec": {"renewTime": self.now_micros()}});
                self.cluster.merge(format!("{LEASES}/{name}"), body).await.ok(200);
            }
            if left == 0 {
                return;
            }
            let step = left.min(10);
            self.pass(step).await;
            left -= step;
        }
    }

    /// A pod on a node, running and ready at an address.
    pub async fn pod(&self, name: &str, node: &str, ip: &str) {
        self.pod_of(name, node, ip, json!({"app": "web"}), json!({})).await;
    }

    pub async fn pod_of(&self, name: &str, node: &str, ip: &str, labels: Value, spec: Value) {
        let mut pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node,
            "containers": [{"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 8080}]}]}});
        for (field, value) in spec.as_object().expect("an object") {
            pod["spec"][field] = value.clone();
        }
        self.cluster.post(PODS, pod).await.ok(201);
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": self.now()}]}});
        self.cluster.merge(format!("{PODS}/{name}/status"), status).await.ok(200);
    }

    pub async fn ready(&self, pod: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let status = json!({"status": {"conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": self.now()}]}});
        self.cluster.merge(format!("{PODS}/{pod}/status"), status).await.ok(200);
    }

    /// Waits (in virtual time) until the object at `path` is as wanted.
    pub async fn until(&self, path: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..2000 {
            last = self.cluster.get(path).await.json();
            if holds(&last) {
                return last;
            }
            self.cluster.env().sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {what}\n{last:#}");
    }

    pub async fn get(&self, path: &str) -> Value {
        self.cluster.get(path).await.json()
    }

    pub fn revision(&self) -> u64 {
        self.cluster.api().registry().table().revision().0
    }

    /// Events as "reason: message", in the order they came.
    pub async fn events(&self) -> Vec<String> {
        let list = self.get("/api/v1/events").await;
        let text = |event: &Value| {
            format!("{}: {}", event["reason"].as_str().unwrap(), event["message"].as_str().unwrap())
        };
        list["items"].as_array().unwrap().iter().map(text).collect()
    }
}
