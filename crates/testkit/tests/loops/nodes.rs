//! Simulated nodes on a whole server: pods bound by hand live, end, crash and go as on a real node.

use std::sync::Arc;
use std::time::Duration;

use apiserver::LocalClients;
use node::simulated::{Settings, start};
use serde_json::{Value, json};
use testkit::{ControlPlane, TestCluster};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const EVENTS: &str = "/api/v1/namespaces/default/events";

struct World {
    cluster: TestCluster,
    plane: ControlPlane,
}

impl World {
    async fn new(seed: u64, count: usize) -> World {
        World::with(seed, Settings { count, zones: 2, ..Settings::default() }).await
    }

    async fn with(seed: u64, settings: Settings) -> World {
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

    async fn sleep(&self, millis: u64) {
        self.cluster.env().sleep(Duration::from_millis(millis)).await;
    }

    /// A pod of one container, bound to a node by hand.
    async fn run(&self, name: &str, node: &str, command: Value, change: impl FnOnce(&mut Value)) -> Value {
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

    async fn pod(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{PODS}/{name}"), what, wanted).await
    }

    async fn gone(&self, name: &str) {
        self.pod(name, "gone", |pod| pod["code"] == 404).await;
    }

    /// The revision of everything that is no lease: leases of nodes are renewed for ever.
    async fn newest(&self, path: &str) -> u64 {
        let list = self.cluster.get(path).await.ok(200);
        let of = |item: &Value| item["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        list["items"].as_array().expect("a list").iter().filter_map(of).max().unwrap_or(0)
    }

    async fn stop(self) {
        self.plane.stop().await;
        self.cluster.shutdown().await;
    }
}

fn begin(cluster: &TestCluster, settings: &Settings) -> ControlPlane {
    let mut plane = cluster.bare_control_plane(Arc::new(LocalClients::new(cluster.api().clone())));
    let context = plane.context.clone();
    let tasks = start(
        &context.env,
        &*context.clients,
        &context.informers,
        &context.board,
        settings,
        context.stop.clone(),
    );
    plane.own(tasks.expect("sound settings"));
    plane
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|c| c["type"] == kind).unwrap_or(Value::Null)
}

fn phase(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == wanted
}

fn status(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn annotate(pod: &mut Value, name: &str, value: &str) {
    pod["metadata"]["annotations"][format!("sim.setpoint.dev/{name}")] = json!(value);
}

#[tokio::test(start_paused = true)]
async fn nodes_register_with_what_a_kubelet_says_and_keep_a_lease() {
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

#[tokio::test(start_paused = true)]
async fn a_bound_pod_runs_becomes_ready_and_goes_gracefully() {
    let world = World::new(42, 2).await;
    world.run("web", "sim-1", Value::Null, |_| {}).await;
    let pod = world.pod("web", "running", phase("Running")).await;
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        assert_eq!(condition(&pod, kind)["status"], "True", "{kind}");
    }
    assert_eq!(pod["status"]["hostIP"], "172.16.0.2");
    assert_eq!(pod["status"]["podIP"], "10.0.1.2");
    assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.0.1.2"}]));
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    assert_eq!(pod["status"]["observedGeneration"], pod["metadata"]["generation"]);
    let container = status(&pod);
    assert_eq!(
        (&container["ready"], &container["started"], &container["restartCount"]),
        (&json!(true), &json!(true), &json!(0))
    );
    assert!(container["state"]["running"]["startedAt"].is_string());
    assert!(container["containerID"].as_str().unwrap().starts_with("simulated://"));

    // A pod nobody bound is nobody's.
    world
        .cluster
        .post(
            PODS,
            json!({"metadata": {"name": "free"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        )
        .await
        .ok(201);
    world.sleep(60_000).await;
    assert_eq!(world.cluster.get(format!("{PODS}/free")).await.json()["status"]["phase"], "Pending");

    let mut watch = world.cluster.watch(format!("{PODS}?watch=1&fieldSelector=metadata.name=web")).await;
    world.cluster.delete(format!("{PODS}/web")).await.ok(200);
    let mut seen = Vec::new();
    loop {
        let event = watch.next().await.expect("the pod goes");
        let object = &event["object"];
        let ended = status(object)["state"]["terminated"]["exitCode"].clone();
        seen.push((
            event["type"].as_str().unwrap().to_owned(),
            object["status"]["phase"].as_str().unwrap().to_owned(),
            ended,
        ));
        if event["type"] == "DELETED" {
            break;
        }
    }
    let said = |kind: &str, phase: &str, code: Value| (kind.to_owned(), phase.to_owned(), code);
    assert_eq!(
        seen,
        [
            said("ADDED", "Running", Value::Null),
            said("MODIFIED", "Running", Value::Null),
            said("MODIFIED", "Succeeded", json!(0)),
            // Without grace, for those who watch.
            said("MODIFIED", "Succeeded", json!(0)),
            said("DELETED", "Succeeded", json!(0)),
        ]
    );
    let events = world.cluster.get(EVENTS).await.ok(200);
    let told: Vec<&str> =
        events["items"].as_array().unwrap().iter().map(|e| e["reason"].as_str().unwrap()).collect();
    assert_eq!(told, ["Pulled", "Created", "Started", "Killing"]);
    let killing = &events["items"][3];
    assert_eq!(killing["message"], "Stopping container c");
    assert_eq!(killing["source"], json!({"component": "kubelet", "host": "sim-1"}));
    assert_eq!(killing["involvedObject"]["fieldPath"], "spec.containers{c}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_pod_is_seen_in_every_stage() {
    let world = World::new(43, 1).await;
    let slow = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({});
        annotate(pod, "start-seconds", "5");
        annotate(pod, "ready-seconds", "10");
        annotate(pod, "stop-seconds", "20");
    };
    world.run("slow", "sim-0", Value::Null, slow).await;
    let pod = world
        .pod("slow", "creating", |pod| status(pod)["state"]["waiting"]["reason"] == "ContainerCreating")
        .await;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "Ready")["message"], "containers with unready status: [c]");
    world.sleep(5_100).await;
    let pod = world.cluster.get(format!("{PODS}/slow")).await.ok(200);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(condition(&pod, "Ready")["status"], "False");
    world.sleep(10_000).await;
    let pod = world.cluster.get(format!("{PODS}/slow")).await.ok(200);
    assert_eq!(condition(&pod, "Ready")["status"], "True");

    world.cluster.delete(format!("{PODS}/slow")).await.ok(200);
    world.sleep(19_000).await;
    assert_eq!(world.cluster.get(format!("{PODS}/slow")).await.ok(200)["status"]["phase"], "Running");
    world.sleep(1_100).await;
    world.gone("slow").await;

    // Whoever does not go within the grace is killed.
    world
        .run("stubborn", "sim-0", Value::Null, |pod| {
            slow(pod);
            pod["metadata"]["finalizers"] = json!(["example.com/look"]);
        })
        .await;
    world.sleep(16_000).await;
    world.cluster.delete(format!("{PODS}/stubborn?gracePeriodSeconds=2")).await.ok(200);
    world.sleep(2_100).await;
    let pod =
        world.pod("stubborn", "killed", |pod| status(pod)["state"]["terminated"]["exitCode"] == 137).await;
    assert_eq!(pod["status"]["phase"], "Failed");
    world.cluster.merge(format!("{PODS}/stubborn"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    world.gone("stubborn").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn containers_end_as_their_command_says_and_restart_as_their_policy_says() {
    let world = World::new(44, 1).await;
    let policy = |policy: &'static str| move |pod: &mut Value| pod["spec"]["restartPolicy"] = json!(policy);
    world.run("well", "sim-0", json!(["sh", "-c", "sleep 3; exit 0"]), policy("Never")).await;
    world.run("ill", "sim-0", json!(["sh", "-c", "exit 3"]), policy("Never")).await;
    world.run("loop", "sim-0", json!(["false"]), policy("OnFailure")).await;
    world.run("again", "sim-0", json!(["sleep", "5"]), policy("Always")).await;
    world
        .run("noted", "sim-0", Value::Null, |pod| {
            policy("Never")(pod);
            pod["metadata"]["annotations"] = json!({});
            annotate(pod, "run-seconds", "2");
            annotate(pod, "exit-code", "7");
        })
        .await;

    let pod = world.pod("well", "running", phase("Running")).await;
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    let pod = world.pod("well", "over", phase("Succeeded")).await;
    assert_eq!(status(&pod)["state"]["terminated"]["reason"], "Completed");
    assert_eq!(condition(&pod, "Ready")["reason"], "PodCompleted");
    assert_eq!(condition(&pod, "Initialized")["reason"], "PodCompleted");
    assert_eq!(condition(&pod, "PodReadyToStartContainers")["status"], "False");
    let pod = world.pod("ill", "over", phase("Failed")).await;
    assert_eq!(status(&pod)["state"]["terminated"]["exitCode"], 3);
    assert_eq!(status(&pod)["state"]["terminated"]["reason"], "Error");
    assert_eq!(condition(&pod, "Ready")["reason"], "PodFailed");
    let pod = world.pod("noted", "over", phase("Failed")).await;
    assert_eq!(status(&pod)["state"]["terminated"]["exitCode"], 7);

    // Restarted at once, then after 10 s, 20 s, 40 s ...
    let in_loop = |count: u64| {
        move |pod: &Value| {
            status(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
                && status(pod)["restartCount"] == count
        }
    };
    let pod = world.pod("loop", "backing off", in_loop(1)).await;
    assert_eq!(pod["status"]["phase"], "Running");
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let message = format!("back-off 10s restarting failed container=c pod=loop_default({uid})");
    assert_eq!(status(&pod)["state"]["waiting"]["message"], message);
    assert_eq!(status(&pod)["lastState"]["terminated"]["exitCode"], 1);
    world.sleep(10_100).await;
    let pod = world.pod("loop", "backing off longer", in_loop(2)).await;
    assert!(status(&pod)["state"]["waiting"]["message"].as_str().unwrap().starts_with("back-off 20s "));
    world.sleep(20_100).await;
    world.pod("loop", "backing off longer", in_loop(3)).await;

    let pod = world.pod("again", "restarted", |pod| status(pod)["restartCount"].as_u64() >= Some(2)).await;
    assert_eq!(status(&pod)["lastState"]["terminated"]["reason"], "Completed");
    world.cluster.delete(format!("{PODS}/loop")).await.ok(200);
    world.gone("loop").await;
    world.cluster.delete(format!("{PODS}/well")).await.ok(200);
    world.gone("well").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_sidecars_stay() {
    let world = World::new(45, 1).await;
    world
        .run("staged", "sim-0", Value::Null, |pod| {
            pod["spec"]["initContainers"] = json!([
                {"name": "first", "image": "i", "command": ["sleep", "2"]},
                {"name": "beside", "image": "i", "restartPolicy": "Always"},
                {"name": "second", "image": "i", "command": ["sleep", "2"]},
            ]);
        })
        .await;
    let init = |pod: &Value, at: usize, state: &str| {
        pod["status"]["initContainerStatuses"][at]["state"][state].is_object()
    };
    let pod = world.pod("staged", "begun", |pod| init(pod, 0, "running")).await;
    assert!(init(&pod, 1, "waiting") && init(&pod, 2, "waiting"));
    assert_eq!(status(&pod)["state"]["waiting"]["reason"], "PodInitializing");
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(
        condition(&pod, "Initialized")["message"],
        "containers with incomplete status: [first beside second]"
    );
    let pod = world.pod("staged", "at its second", |pod| init(pod, 2, "running")).await;
    assert!(init(&pod, 0, "terminated") && init(&pod, 1, "running"));
    let pod = world.pod("staged", "running", phase("Running")).await;
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    assert_eq!(pod["status"]["initContainerStatuses"][0]["ready"], true);

    // A job's sidecar ends with it; an init container that fails for good fails the pod.
    world
        .run("job", "sim-0", json!(["sleep", "1"]), |pod| {
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["spec"]["initContainers"] =
                json!([{"name": "beside", "image": "i", "restartPolicy": "Always"}]);
        })
        .await;
    let pod = world.pod("job", "over", phase("Succeeded")).await;
    assert!(init(&pod, 0, "terminated"));
    world
        .run("broken", "sim-0", Value::Null, |pod| {
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["spec"]["initContainers"] = json!([{"name": "init", "image": "i", "command": ["false"]}]);
        })
        .await;
    world.pod("broken", "failed", phase("Failed")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_in_kubelets_words() {
    let world = World::with(46, Settings { cpu: "1".to_owned(), ..Settings::default() }).await;
    let asks = |cpu: &'static str| {
        move |pod: &mut Value| pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}})
    };
    world.run("first", "sim-0", Value::Null, asks("600m")).await;
    world.pod("first", "running", phase("Running")).await;
    world.run("second", "sim-0", Value::Null, asks("500m")).await;
    let pod = world.pod("second", "refused", phase("Failed")).await;
    assert_eq!(pod["status"]["reason"], "OutOfcpu");
    assert_eq!(
        pod["status"]["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000"
    );
    world
        .run("choosy", "sim-0", Value::Null, |pod| pod["spec"]["nodeSelector"] = json!({"disk": "ssd"}))
        .await;
    let pod = world.pod("choosy", "refused", phase("Failed")).await;
    assert_eq!(pod["status"]["reason"], "NodeAffinity");
    assert_eq!(
        pod["status"]["message"],
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
    // What has gone leaves its room.
    world.cluster.delete(format!("{PODS}/first")).await.ok(200);
    world.gone("first").await;
    world.run("third", "sim-0", Value::Null, asks("500m")).await;
    world.pod("third", "running", phase("Running")).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_says_nothing_and_catches_up_later() {
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
async fn a_restarted_process_takes_its_nodes_and_pods_up_again() {
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
async fn a_node_that_fails_its_containers_does_so_at_its_rate() {
    let world = World::new(51, 1).await;
    let often = json!({"metadata": {"annotations": {"sim.setpoint.dev/failure-probability": "0.5"}}});
    world.cluster.merge(format!("{NODES}/sim-0"), often).await.ok(200);
    world.sleep(100).await;
    for index in 0..60 {
        world
            .run(&format!("p-{index}"), "sim-0", Value::Null, |pod| {
                pod["spec"]["restartPolicy"] = json!("Never")
            })
            .await;
    }
    world.sleep(1000).await;
    let list = world.cluster.get(PODS).await.ok(200);
    let failed =
        list["items"].as_array().unwrap().iter().filter(|pod| pod["status"]["phase"] == "Failed").count();
    assert!((15..=45).contains(&failed), "{failed} of 60 failed");
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

#[tokio::test(start_paused = true)]
async fn a_container_whose_image_changes_is_restarted() {
    let world = World::new(57, 1).await;
    let sidecar = |pod: &mut Value| {
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["initContainers"] = json!([{"name": "s", "image": "proxy", "restartPolicy": "Always"}]);
    };
    world.run("web", "sim-0", Value::Null, sidecar).await;
    let before = world.pod("web", "running", phase("Running")).await;
    assert_eq!(status(&before)["restartCount"], 0);
    world.sleep(5_000).await;
    let change = json!({"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}});
    patch(&world, "web", &change).await;
    let after = world.pod("web", "restarted", |pod| status(pod)["restartCount"] == 1).await;
    let (old, new) = (status(&before), status(&after));
    assert_eq!((&new["image"], &new["imageID"]), (&json!("nginx:2"), &json!("simulated/nginx:2")));
    assert_ne!(new["containerID"], old["containerID"]);
    assert_eq!(new["lastState"]["terminated"]["containerID"], old["containerID"]);
    assert_eq!(new["lastState"]["terminated"]["startedAt"], old["state"]["running"]["startedAt"]);
    assert!(new["state"]["running"]["startedAt"].as_str() > old["state"]["running"]["startedAt"].as_str());
    // Whatever the restart policy says; and nothing else is touched.
    assert_eq!(after["status"]["initContainerStatuses"], before["status"]["initContainerStatuses"]);
    world.sleep(60_000).await;
    let later = world.cluster.get(format!("{PODS}/web")).await.ok(200);
    assert_eq!(later, after, "once is enough");
    let events = world.cluster.get(EVENTS).await.ok(200);
    let told = |event: &&Value| event["message"] == "Container c definition changed, will be restarted";
    assert_eq!(events["items"].as_array().unwrap().iter().filter(told).count(), 1);
    world.stop().await;
}

async fn patch(world: &World, name: &str, change: &Value) {
    let media = "application/strategic-merge-patch+json";
    let ask = world.cluster.request("PATCH", format!("{PODS}/{name}"));
    ask.typed(media, change.to_string().into_bytes()).send().await.ok(200);
}
