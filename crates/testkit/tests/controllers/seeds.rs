//! Whole clusters under a seed: nodes fall silent, pods die and are evicted, devices break, specs change, workloads and namespaces come and
//! go, controllers are killed; in the end everything is as declared, kind by kind. The same seed gives the same log: every change, byte for byte,
//! within one process and in another.

use std::process::Command;
use std::time::Duration;

use env::Env;
use plane::{Plane, Settings};
use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::journal::{Journal, assert_same};

use crate::converged::{Item, Kind, converged};
use crate::device_steps::{self, Uses};
use crate::volume_steps;

const OUT: &str = "SETPOINT_SEED_LOG";
const NODES: u64 = 4;
const STEPS: usize = 40;
/// Of every node: more than all pods need, so that what is broken keeps nobody waiting in the end.
const DEVICES: &str = r#"[{"name": "plain", "count": 20}, {"name": "attached", "count": 20, "bindingConditions": ["Attached"],
    "bindingFailureConditions": ["Broken"]}]"#;
/// What people say of a node, and do not say any more in the end.
const TROUBLES: [&str; 5] = ["silent", "devices", "device-taints", "binding-failure", "binding-seconds"];

#[tokio::test(start_paused = true)]
async fn any_seed_converges() {
    let runs = if std::env::var_os("SETPOINT_LONG").is_some() { 200 } else { 6 };
    for seed in 100..100 + runs {
        println!("seed {seed}");
        run(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_log_here_and_in_another_process() {
    let (one, two) = (run(7).await, run(7).await);
    for part in [
        " ADDED ",
        " MODIFIED ",
        " DELETED ",
        "/registry/jobs/",
        "/registry/leases/",
        "/registry/events/",
        "/registry/resourceclaims/",
    ] {
        assert!(one.contains(part), "the log lacks {part}");
    }
    assert_same(&one, &two, "the same process");
    let directory = tempfile::tempdir().expect("a folder");
    let file = directory.path().join("log");
    let run = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "seeds::scenario"])
        .env(OUT, &file)
        .output()
        .expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    let other = String::from_utf8(std::fs::read(file).expect("a log")).expect("logs are text");
    assert_same(&one, &other, "another process");
}

#[tokio::test(start_paused = true)]
#[ignore = "the run itself, which the test above makes in a process of its own"]
async fn scenario() {
    let Some(out) = std::env::var_os(OUT) else { return };
    std::fs::write(out, run(7).await).expect("the log can be written");
}

/// What people do, drawn; and what must be so in the end.
struct People<'a> {
    cluster: &'a TestCluster,
    /// Its own stream of chance: what the test does must not depend on how often the cluster draws.
    dice: Env,
    namespaces: Vec<String>,
    gone: Vec<String>,
    declared: Vec<Item>,
}

/// One history; what was written, in order.
async fn run(seed: u64) -> String {
    let journal = Journal::default();
    let cluster = TestCluster::with(Env::simulated(seed), |config| journal.record(config)).await;
    let nodes = node::simulated::Settings { devices: DEVICES.to_owned(), ..testkit::nodes(NODES as usize) };
    let settings = Settings { nodes: Some(nodes), ..Settings::default() };
    let only_nodes = Settings {
        choice: plane::ControllerSelection::new(vec!["-*".to_owned()]).expect("nobody"),
        ..settings.clone()
    };
    let no_nodes = Settings { nodes: None, ..settings };
    let nodes = Plane::start(cluster.env(), cluster.local_clients(), &only_nodes);
    let mut plane = Plane::start(cluster.env(), cluster.local_clients(), &no_nodes);
    let mut people = People {
        cluster: &cluster,
        dice: Env::simulated(seed ^ 0x5eed),
        namespaces: vec!["default".to_owned()],
        gone: Vec::new(),
        declared: Vec::new(),
    };
    device_steps::add_class(&cluster).await;
    for step in 0..STEPS {
        cluster.env().sleep(Duration::from_millis(people.dice.random_below(15_000))).await;
        if people.dice.random_below(8) > 0 {
            people.act(step).await;
            continue;
        }
        // The whole controller manager and scheduler, in the middle of whatever they do.
        plane.kill();
        cluster.env().sleep(Duration::from_millis(people.dice.random_below(3_000))).await;
        plane = Plane::start(cluster.env(), cluster.local_clients(), &no_nodes);
    }
    for node in 0..NODES {
        for trouble in TROUBLES {
            people.say(node, trouble, Value::Null).await;
        }
    }
    for item in people.declared.iter().filter(|item| item.kind == Kind::CronJob) {
        cluster.merge(item.path(), json!({"spec": {"suspend": true}})).await.ok(200);
    }
    cluster.quiet(Duration::from_secs(700)).await;
    let name = format!("seed {seed}");
    device_steps::never_given_twice(&journal, &name);
    converged(&cluster, &people.declared, &people.gone, &name).await;
    plane.stop().await;
    nodes.stop().await;
    cluster.shutdown().await;
    journal.text()
}

impl People<'_> {
    async fn act(&mut self, step: usize) {
        match self.dice.random_below(27) {
            0 | 1 => self.create(Kind::Deployment, step).await,
            2 => self.create(Kind::ReplicaSet, step).await,
            3 => self.create(Kind::ReplicationController, step).await,
            4 => self.create(Kind::Job, step).await,
            5 => self.expose(step).await,
            6 | 7 => self.scale().await,
            8 => self.roll(step).await,
            9 | 10 => self.kill_pod().await,
            11 | 12 => self.silence().await,
            13 => {
                let name = format!("ns-{step}");
                self.cluster.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.ok(201);
                self.cluster.settled().await;
                self.namespaces.push(name);
            }
            14 if self.namespaces.len() > 1 => {
                let at = 1 + self.draw(self.namespaces.len() - 1);
                let name = self.namespaces.remove(at);
                self.cluster.delete(format!("/api/v1/namespaces/{name}")).await.ok(200);
                self.declared.retain(|item| item.namespace != name);
                self.gone.push(name);
            }
            15 | 16 => self.create(Kind::StatefulSet, step).await,
            17 => self.create(Kind::DaemonSet, step).await,
            18 => self.create(Kind::CronJob, step).await,
            19 => self.claim(step).await,
            20 => self.autoscale().await,
            21 | 22 => self.taint().await,
            23 => self.attach().await,
            24 => self.unplug().await,
            _ => self.delete().await,
        }
    }

    /// A workload gets another number of replicas, and keeps it until its autoscaler goes.
    async fn autoscale(&mut self) {
        let Some(at) = self.pick(|kind| kind == Kind::Deployment) else { return };
        let target = self.declared[at].clone();
        // None at all means that it is not to be scaled.
        if target.count == 0 || self.autoscaler_of(&target).is_some() {
            return;
        }
        let count = 1 + self.dice.random_below(5);
        let item = Item { kind: Kind::Autoscaler, count, devices: Uses::Nothing, ..target };
        let mut body = item.body();
        body["spec"]["scaleTargetRef"] =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": item.name});
        self.cluster.post(item.collection(), body).await.ok(201);
        self.declared[at].count = item.count;
        self.declared.push(item);
    }

    fn autoscaler_of(&self, target: &Item) -> Option<usize> {
        let of = |item: &Item| (item.namespace.clone(), item.name.clone());
        let is = |item: &Item| item.kind == Kind::Autoscaler && of(item) == of(target);
        self.declared.iter().position(is)
    }

    /// A claim, and the one volume it can have: which goes with it. Either may come first.
    async fn claim(&mut self, step: usize) {
        let mut volume = volume_steps::volume(&format!("app-{step}"), &format!("app-{step}"));
        volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
        if self.draw(2) == 0 {
            self.cluster.post(volume_steps::VOLUMES, volume).await.ok(201);
            return self.create(Kind::Claim, step).await;
        }
        self.create(Kind::Claim, step).await;
        self.cluster.env().sleep(Duration::from_millis(self.dice.random_below(3_000))).await;
        self.cluster.post(volume_steps::VOLUMES, volume).await.ok(201);
    }

    fn draw(&self, below: usize) -> usize {
        self.dice.random_below(below as u64) as usize
    }

    /// One of those that have the kind, if there is any.
    fn pick(&self, wanted: fn(Kind) -> bool) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.declared.len()).filter(|&at| wanted(self.declared[at].kind)).collect();
        (!fitting.is_empty()).then(|| fitting[self.draw(fitting.len())])
    }

    async fn create(&mut self, kind: Kind, step: usize) {
        let namespace = self.namespaces[self.draw(self.namespaces.len())].clone();
        let count = if kind == Kind::Job { 1 + self.dice.random_below(4) } else { self.dice.random_below(6) };
        let devices = match self.draw(6) {
            _ if !kind.has_pods() => Uses::Nothing,
            0 => Uses::Template,
            // Its device is on one node.
            1 if kind != Kind::DaemonSet => Uses::Shared,
            2 => Uses::Extended,
            _ => Uses::Nothing,
        };
        let item = Item { kind, namespace, name: format!("app-{step}"), count, devices };
        let mut bodies = vec![(item.collection(), item.body())];
        // Either may come first.
        bodies.extend(devices.beside(&item.namespace, &item.name));
        if self.draw(2) == 0 {
            bodies.reverse();
        }
        for (collection, body) in bodies {
            self.cluster.post(collection, body).await.ok(201);
            self.cluster.env().sleep(Duration::from_millis(self.dice.random_below(1_000))).await;
        }
        self.declared.push(item);
    }

    /// A service and a budget for somebody's pods.
    async fn expose(&mut self, step: usize) {
        let Some(at) = self.pick(Kind::has_replicas) else { return };
        let Item { namespace, name: app, .. } = &self.declared[at];
        let (namespace, app, name) = (namespace.clone(), app.clone(), format!("for-{step}"));
        for kind in [Kind::Service, Kind::Budget] {
            let item = Item {
                kind,
                namespace: namespace.clone(),
                name: name.clone(),
                count: 1,
                devices: Uses::Nothing,
            };
            let mut body = item.body();
            match kind {
                Kind::Service => body["spec"]["selector"] = json!({"app": app}),
                _ => body["spec"]["selector"] = json!({"matchLabels": {"app": app}}),
            }
            self.cluster.post(item.collection(), body).await.ok(201);
            self.declared.push(item);
        }
    }

    async fn scale(&mut self) {
        let Some(at) = self.pick(Kind::has_replicas) else { return };
        // An autoscaler has the last word, but where there are to be none.
        let scaled = self.autoscaler_of(&self.declared[at]).is_some();
        let count = self.dice.random_below(6).max(u64::from(scaled));
        let item = &mut self.declared[at];
        if !scaled {
            item.count = count;
        }
        self.cluster.merge(item.path(), json!({"spec": {"replicas": count}})).await.ok(200);
    }

    async fn roll(&mut self, step: usize) {
        let Some(at) =
            self.pick(|kind| matches!(kind, Kind::Deployment | Kind::StatefulSet | Kind::DaemonSet))
        else {
            return;
        };
        let spec = self.declared[at].pod_spec(&format!("v{step}"));
        let image = json!({"spec": {"template": {"spec": spec}}});
        self.cluster.merge(self.declared[at].path(), image).await.ok(200);
    }

    /// Deleted, or evicted as far as its budget lets it.
    async fn kill_pod(&mut self) {
        let pods = self.cluster.get("/api/v1/pods").await.json();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        if pods.is_empty() {
            return;
        }
        let metadata = &pods[self.draw(pods.len())]["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        if self.draw(2) == 0 {
            self.cluster.delete(path).await;
        } else {
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": namespace}});
            self.cluster.post(format!("{path}/eviction"), eviction).await;
        }
    }

    async fn silence(&mut self) {
        let node = self.dice.random_below(NODES);
        let silent = if self.draw(2) == 0 { json!("true") } else { Value::Null };
        self.say(node, "silent", silent).await;
    }

    async fn say(&self, node: u64, what: &str, value: Value) {
        let annotations = json!({format!("sim.setpoint.dev/{what}"): value});
        let path = format!("/api/v1/nodes/sim-{node}");
        self.cluster.merge(path, json!({"metadata": {"annotations": annotations}})).await.ok(200);
    }

    /// Pods that use broken devices go; those that would are tried elsewhere.
    async fn taint(&mut self) {
        let node = self.dice.random_below(NODES);
        let taints = [
            Value::Null,
            json!("*:worn:NoSchedule"),
            json!("plain-0:broken:NoExecute,attached-0:broken=yes:NoExecute"),
            json!("*:broken:NoExecute"),
        ];
        self.say(node, "device-taints", taints[self.draw(taints.len())].clone()).await;
    }

    /// How long devices take to be attached, and whether they are.
    async fn attach(&mut self) {
        let node = self.dice.random_below(NODES);
        let seconds = [Value::Null, json!("5"), json!("60"), json!("never")];
        self.say(node, "binding-seconds", seconds[self.draw(seconds.len())].clone()).await;
        let fails = if self.draw(3) == 0 { json!("true") } else { Value::Null };
        self.say(node, "binding-failure", fails).await;
    }

    /// A node has other devices for a while: those in use are missing.
    async fn unplug(&mut self) {
        let node = self.dice.random_below(NODES);
        let devices = [Value::Null, json!("0"), json!("3"), json!(r#"[{"name": "plain", "count": 1}]"#)];
        self.say(node, "devices", devices[self.draw(devices.len())].clone()).await;
    }

    async fn delete(&mut self) {
        let Some(at) = self.pick(|_| true) else { return };
        let item = self.declared.remove(at);
        // What an autoscaler last made of its target cannot be known: they go together, and it first.
        let belongs = |other: &Item| {
            let pair = [item.kind, other.kind].contains(&Kind::Autoscaler);
            pair && other.namespace == item.namespace && other.name == item.name
        };
        let other = self.declared.iter().position(belongs).map(|at| self.declared.remove(at));
        let mut going: Vec<Item> = [Some(item), other].into_iter().flatten().collect();
        going.sort_by_key(|item| item.kind != Kind::Autoscaler);
        for item in going {
            let how = ["Background", "Foreground"][self.draw(2)];
            self.cluster.delete(format!("{}?propagationPolicy={how}", item.path())).await.ok(200);
            // A claim goes when its pods are gone.
            if let Some((collection, _)) = item.devices.beside(&item.namespace, &item.name) {
                self.cluster.delete(format!("{collection}/{}", item.name)).await.ok(200);
            }
        }
    }
}
