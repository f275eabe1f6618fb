//! Simulated nodes on a whole server: they register, renew their leases, become unreachable, come back.

use std::sync::Arc;
use std::time::Duration;

use client::{Answer, Client, Clients, Target, WriteOptions};
use node::simulated::{Settings, start};
use object::{About, Obj, Status};
use serde_json::{Value, json};
use testkit::forward::{Forward, Wrapping};
use testkit::{ControlPlane, TestCluster};

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
pub const EVENTS: &str = "/api/v1/namespaces/default/events";

pub struct World {
    pub cluster: TestCluster,
    plane: ControlPlane,
}

impl World {
    pub async fn new(seed: u64, count: usize) -> World {
        World::with(seed, Settings { count, zones: 2, ..Settings::default() }).await
    }

    pub async fn with(seed: u64, settings: Settings) -> World {
        let cluster = TestCluster::simulated(seed).await;
        let plane = begin(&cluster, &settings);
        let world = World { cluster, plane };
        for index in 0..settings.count {
            let ready = |node: &Value| condition(node, "Ready")["status"] == "True";
            world.until(&format!("{NODES}/sim-{index}"), "registered", ready).await;
        }
        world
    }

    /// Waits, in virtual time, until the object is as wanted.
    async fn until(&self, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..2000 {
            last = self.cluster.get(path).await.json();
            if wanted(&last) {
                return last;
            }
            self.sleep(10).await;
        }
        panic!("{path} never was {what}: {last:#}");
    }

    pub async fn sleep(&self, millis: u64) {
        self.cluster.env().sleep(Duration::from_millis(millis)).await;
    }

    /// A pod of one container, bound to a node by hand.
    pub async fn run(
        &self,
        name: &str,
        node: &str,
        command: Value,
        change: impl FnOnce(&mut Value),
    ) -> Value {
        let mut pod =
            json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        if !command.is_null() {
            pod["spec"]["containers"][0]["command"] = command;
        }
        change(&mut pod);
        self.cluster.post(PODS, pod).await.ok(201);
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        self.cluster.post(format!("{PODS}/{name}/binding"), binding).await.ok(201);
        self.cluster.get(format!("{PODS}/{name}")).await.ok(200)
    }

    pub async fn pod(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{PODS}/{name}"), what, wanted).await
    }

    pub async fn gone(&self, name: &str) {
        self.pod(name, "gone", |pod| pod["code"] == 404).await;
    }

    /// The revision of everything that is no lease: leases of nodes are renewed for ever.
    async fn newest(&self, path: &str) -> u64 {
        let list = self.cluster.get(path).await.ok(200);
        let of = |item: &Value| item["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        list["items"].as_array().expect("a list").iter().filter_map(of).max().unwrap_or(0)
    }

    pub async fn stop(self) {
        self.plane.stop().await;
        self.cluster.shutdown().await;
    }
}

fn begin(cluster: &TestCluster, settings: &Settings) -> ControlPlane {
    begin_with(cluster, cluster.local_clients(), settings)
}

fn begin_with(cluster: &TestCluster, clients: Arc<dyn Clients>, settings: &Settings) -> ControlPlane {
    let mut plane = cluster.bare_control_plane(clients);
    let context = plane.context.clone();
    let tasks = start(
        &context.env,
        &*context.clients,
        &context.informers,
        &context.controllers,
        settings,
        context.stop.clone(),
    );
    plane.own(tasks.expect("sound settings"));
    plane
}

pub fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["type"] == kind).unwrap_or(Value::Null)
}

pub fn phase(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == wanted
}

pub fn status(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

pub fn annotate(pod: &mut Value, name: &str, value: &str) {
    pod["metadata"]["annotations"][format!("sim.setpoint.dev/{name}")] = json!(value);
}

#[tokio::test(start_paused = true)]
async fn nodes_register_like_a_kubelet_and_renew_their_lease() {
    let world = World::new(41, 3).await;
    let node = world.cluster.get(format!("{NODES}/sim-1")).await.ok(200);
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "sim-1");
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "zone-1");
    assert_eq!(
        node["status"]["capacity"],
        json!({"cpu": "32", "ephemeral-storage": "500Gi", "memory": "256Gi", "pods": "110"})
    );
    assert_eq!(node["status"]["addresses"][0], json!({"type": "InternalIP", "address": "172.16.0.2"}));
    let ready = condition(&node, "Ready");
    assert_eq!(
        (&ready["reason"], &ready["message"]),
        (&json!("KubeletReady"), &json!("kubelet is posting ready status"))
    );
    assert_eq!(condition(&node, "DiskPressure")["reason"], "KubeletHasNoDiskPressure");

    let lease =
        world.until(&format!("{LEASES}/sim-1"), "made", |lease| lease["spec"]["renewTime"].is_string()).await;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["spec"]["holderIdentity"], "sim-1");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    let first = lease["spec"]["renewTime"].clone();
    world.sleep(10_100).await;
    let renewed = world.cluster.get(format!("{LEASES}/sim-1")).await.ok(200);
    assert!(renewed["spec"]["renewTime"].as_str() > first.as_str());
    world.stop().await;
}

/// Nodes that may not create Nodes.
struct NoCreation(Arc<dyn Client>);

impl Forward for NoCreation {
    fn inner(&self) -> &dyn Client {
        &*self.0
    }
    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: object::Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        if &*target.resource.plural != "nodes" {
            return self.inner().create(target, body, options);
        }
        let about = About { group: "", resource: "nodes" };
        Box::pin(async move { Err(Status::forbidden(about, "", "others make them")) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_create_its_object_waits_for_it() {
    let cluster = TestCluster::simulated(42).await;
    let make = async |name: &str| cluster.post(NODES, json!({"metadata": {"name": name}})).await.ok(201);
    make("sim-0").await;
    let clients = Wrapping { inner: cluster.local_clients(), wrap: NoCreation };
    let settings = Settings { count: 2, ..Settings::default() };
    let plane = begin_with(&cluster, Arc::new(clients), &settings);
    let ready = async |name: &str| {
        let path = format!("{NODES}/{name}");
        for _ in 0..2000 {
            if condition(&cluster.get(&path).await.json(), "Ready")["status"] == "True" {
                return;
            }
            cluster.env().sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} does not register");
    };
    ready("sim-0").await;
    assert_eq!(cluster.get(format!("{NODES}/sim-1")).await.status, 404);
    make("sim-1").await;
    ready("sim-1").await;
    World { cluster, plane }.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_node_writes_nothing_and_catches_up_later() {
    let world = World::new(47, 2).await;
    world
        .run("ending", "sim-0", json!(["sleep", "100"]), |pod| pod["spec"]["restartPolicy"] = json!("Never"))
        .await;
    world.pod("ending", "running", phase("Running")).await;
    let silence = |value: Value| json!({"metadata": {"annotations": {"sim.setpoint.dev/silent": value}}});
    world.cluster.merge(format!("{NODES}/sim-0"), silence(json!("true"))).await.ok(200);
    world.sleep(1000).await;
    let lease = world.cluster.get(format!("{LEASES}/sim-0")).await.ok(200);
    world.run("unseen", "sim-0", Value::Null, |_| {}).await;
    world.sleep(400_000).await;
    assert_eq!(world.cluster.get(format!("{LEASES}/sim-0")).await.ok(200)["spec"], lease["spec"]);
    assert_eq!(world.cluster.get(format!("{PODS}/ending")).await.ok(200)["status"]["phase"], "Running");
    assert_eq!(world.cluster.get(format!("{PODS}/unseen")).await.ok(200)["status"]["phase"], "Pending");
    // As the node lifecycle controller would have it by now.
    let mut node = world.cluster.get(format!("{NODES}/sim-0")).await.ok(200);
    for condition in node["status"]["conditions"].as_array_mut().unwrap() {
        condition["status"] = json!("Unknown");
        condition["reason"] = json!("NodeStatusUnknown");
    }
    world.cluster.put(format!("{NODES}/sim-0/status"), node).await.ok(200);
    world.sleep(30_000).await;
    assert_eq!(
        condition(&world.cluster.get(format!("{NODES}/sim-0")).await.json(), "Ready")["status"],
        "Unknown"
    );

    world.cluster.merge(format!("{NODES}/sim-0"), silence(Value::Null)).await.ok(200);
    world.pod("unseen", "running", phase("Running")).await;
    world.pod("ending", "over", phase("Succeeded")).await;
    world
        .until(&format!("{NODES}/sim-0"), "ready", |node| condition(node, "Ready")["status"] == "True")
        .await;
    let renewed = world.until(&format!("{LEASES}/sim-0"), "renewed", |l| l["spec"] != lease["spec"]).await;
    assert_eq!(renewed["spec"]["holderIdentity"], "sim-0");

    // Not ready is said, not kept silent.
    let why = json!({"metadata": {"annotations": {"sim.setpoint.dev/not-ready": "the disk is on fire"}}});
    world.cluster.merge(format!("{NODES}/sim-1"), why).await.ok(200);
    let node = world
        .until(&format!("{NODES}/sim-1"), "not ready", |node| condition(node, "Ready")["status"] == "False")
        .await;
    assert_eq!(condition(&node, "Ready")["reason"], "KubeletNotReady");
    assert_eq!(condition(&node, "Ready")["message"], "the disk is on fire");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_resumes_its_nodes_and_pods() {
    let World { cluster, plane } = World::new(48, 2).await;
    let world = World { cluster, plane };
    world.run("stays", "sim-0", Value::Null, |_| {}).await;
    world
        .run("ends", "sim-0", json!(["sleep", "60"]), |pod| pod["spec"]["restartPolicy"] = json!("Never"))
        .await;
    world.pod("ends", "running", phase("Running")).await;
    let before = world.pod("stays", "running", phase("Running")).await;
    world.plane.kill();
    let cluster = world.cluster;
    cluster.env().sleep(Duration::from_secs(20)).await;
    let plane = begin(&cluster, &Settings { count: 2, zones: 2, ..Settings::default() });
    let world = World { cluster, plane };
    world.run("new", "sim-0", Value::Null, |_| {}).await;
    let pod = world.pod("new", "running", phase("Running")).await;
    assert_eq!(pod["status"]["podIP"], "10.0.0.4");
    world.sleep(40_000).await;
    let pod = world.pod("ends", "over", phase("Succeeded")).await;
    assert_eq!(status(&pod)["state"]["terminated"]["exitCode"], 0);
    let after = world.cluster.get(format!("{PODS}/stays")).await.ok(200);
    assert_eq!(before, after, "a restart writes nothing about a pod that goes on");
    // A node whose object is deleted is quiet; its pods are others' business.
    world.cluster.delete(format!("{NODES}/sim-1")).await.ok(200);
    world.cluster.delete(format!("{LEASES}/sim-1")).await.ok(200);
    world.sleep(60_000).await;
    assert_eq!(world.cluster.get(format!("{NODES}/sim-1")).await.status, 404);
    assert_eq!(world.cluster.get(format!("{LEASES}/sim-1")).await.status, 404);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ten_quiet_minutes_write_only_leases() {
    let world = World::new(49, 5).await;
    for index in 0..10 {
        world.run(&format!("p-{index}"), &format!("sim-{}", index % 5), Value::Null, |_| {}).await;
    }
    for index in 0..10 {
        world.pod(&format!("p-{index}"), "running", phase("Running")).await;
    }
    world.sleep(1000).await;
    let (pods, events) = (world.newest(PODS).await, world.newest(EVENTS).await);
    let table = world.cluster.api().registry().table();
    let before = table.revision().0;
    let nodes = world.newest(NODES).await;
    world.sleep(600_000).await;
    let now = (world.newest(PODS).await, world.newest(EVENTS).await, world.newest(NODES).await);
    assert_eq!(now, (pods, events, nodes));
    let writes = world.cluster.api().registry().table().revision().0 - before;
    // Five nodes: 60 leases each.
    assert!((5 * 59..=5 * 61).contains(&writes), "{writes} writes");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn leases_of_many_nodes_are_spread_over_their_ten_seconds() {
    let world = World::new(50, 200).await;
    world.sleep(20_000).await;
    let revision = || world.cluster.api().registry().table().revision().0;
    let mut busiest = 0;
    let begin = revision();
    for _ in 0..20 {
        let before = revision();
        world.sleep(1000).await;
        busiest = busiest.max(revision() - before);
    }
    // Each node twice; some statuses may be among them.
    assert!((400..=440).contains(&(revision() - begin)), "{} writes", revision() - begin);
    assert!(busiest <= 40, "{busiest} writes in one second, 20 on average");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_cluster() {
    async fn told(seed: u64) -> Vec<String> {
        let world = World::new(seed, 20).await;
        let flaky = json!({"metadata": {"annotations": {"sim.setpoint.dev/failure-probability": "0.3"}}});
        world.cluster.merge(format!("{NODES}/sim-3"), flaky).await.ok(200);
        for index in 0..40 {
            world
                .run(&format!("p-{index}"), &format!("sim-{}", index % 5), json!(["sleep", "7"]), |_| {})
                .await;
        }
        world.sleep(120_000).await;
        let mut all = Vec::new();
        for path in [PODS, NODES, LEASES, EVENTS] {
            all.push(world.cluster.get(path).await.text());
        }
        world.stop().await;
        all
    }
    let (first, second) = (told(52).await, told(52).await);
    assert!(first == second, "two runs of one seed differ");
}
