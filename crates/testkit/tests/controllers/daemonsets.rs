//! DaemonSets on simulated nodes, in virtual time.

use std::time::Duration;

use plane::{Plane, Settings};
use serde_json::{Value as Json, json};
use testkit::TestCluster;

use crate::batch_steps::{EVENTS, PODS, items, pass, plane, set_status, steady, until};

pub const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

pub fn set(name: &str, spec: Json) -> Json {
    let mut set = json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "one"}]}},
    }});
    for (name, value) in spec.as_object().expect("a spec is an object") {
        set["spec"][name] = value.clone();
    }
    set
}

async fn with_nodes(seed: u64, nodes: usize) -> (TestCluster, Plane) {
    let cluster = TestCluster::simulated(seed).await;
    let settings = Settings { nodes: Some(testkit::nodes(nodes)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    (cluster, plane)
}

/// A node without an agent.
async fn node(cluster: &TestCluster) {
    cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.ok(201);
    // Of one nobody has heard from yet.
    cluster.merge("/api/v1/nodes/n", json!({"spec": {"taints": null}})).await.ok(200);
}

/// The nodes of a set's pods that are not going, and the images they run, sorted.
async fn placed(cluster: &TestCluster, set: &str) -> Vec<(String, String)> {
    let pods = items(cluster, &format!("{PODS}?labelSelector=app%3D{set}")).await;
    let lives = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let mut placed: Vec<(String, String)> = lives
        .map(|pod| (text(&pod["spec"]["nodeName"]), text(&pod["spec"]["containers"][0]["image"])))
        .collect();
    placed.sort();
    placed
}

fn nodes_of(placed: &[(String, String)]) -> Vec<&str> {
    placed.iter().map(|(node, _)| node.as_str()).collect()
}

fn rolled_out(set: &Json, nodes: u64) -> bool {
    let status = &set["status"];
    let count = |name: &str| status[name].as_u64().unwrap_or(0);
    status["observedGeneration"] == set["metadata"]["generation"]
        && [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "updatedNumberScheduled",
            "numberReady",
            "numberAvailable",
        ]
        .iter()
        .all(|name| count(name) == nodes)
        && ["numberUnavailable", "numberMisscheduled"].iter().all(|name| count(name) == 0)
}

pub async fn wait_for(cluster: &TestCluster, name: &str, nodes: u64) -> Json {
    let set =
        until(cluster, &format!("{SETS}/{name}"), "a set that is rolled out", |set| rolled_out(set, nodes))
            .await;
    assert_eq!(placed(cluster, name).await.len() as u64, nodes);
    set
}

async fn events(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let told = items(cluster, EVENTS).await;
    let of_set = told.iter().filter(|e| e["involvedObject"]["kind"] == "DaemonSet" && e["reason"] == reason);
    of_set.map(|e| e["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_set_has_one_pod_on_every_node_bound_by_the_scheduler() {
    let (cluster, plane) = with_nodes(1901, 3).await;
    cluster.post(SETS, set("agent", json!({}))).await.ok(201);
    wait_for(&cluster, "agent", 3).await;
    assert_eq!(nodes_of(&placed(&cluster, "agent").await), ["sim-0", "sim-1", "sim-2"]);
    let pods = items(&cluster, PODS).await;
    let pod = &pods[0];
    let term = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let field = json!({"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]});
    assert_eq!(*term, json!([{"matchFields": [field]}]));
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["kind"], &owner["name"]),
        (&json!("apps/v1"), &json!("DaemonSet"), &json!("agent"))
    );
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    assert_eq!(pod["metadata"]["generateName"], "agent-");
    let revisions = items(&cluster, REVISIONS).await;
    assert_eq!(revisions.len(), 1);
    let revision = &revisions[0];
    let hash = revision["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap();
    assert_eq!(revision["metadata"]["name"], format!("agent-{hash}"));
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], hash);
    assert_eq!(revision["revision"], 1);
    assert_eq!(revision["data"]["spec"]["template"]["$patch"], "replace");
    assert_eq!(events(&cluster, "SuccessfulCreate").await.len(), 3);
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_follow_nodes_that_come_go_and_change() {
    let (cluster, plane) = with_nodes(1902, 3).await;
    pass(&cluster, 10).await;
    for node in ["sim-0", "sim-1"] {
        let ssd = json!({"metadata": {"labels": {"disk": "ssd"}}});
        cluster.merge(format!("/api/v1/nodes/{node}"), ssd).await.ok(200);
    }
    let mut agent = set("agent", json!({}));
    agent["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    cluster.post(SETS, agent).await.ok(201);
    cluster.post(SETS, set("all", json!({}))).await.ok(201);
    wait_for(&cluster, "agent", 2).await;
    wait_for(&cluster, "all", 3).await;
    // A label comes, a label goes.
    cluster.merge("/api/v1/nodes/sim-2", json!({"metadata": {"labels": {"disk": "ssd"}}})).await.ok(200);
    wait_for(&cluster, "agent", 3).await;
    cluster.merge("/api/v1/nodes/sim-0", json!({"metadata": {"labels": {"disk": null}}})).await.ok(200);
    wait_for(&cluster, "agent", 2).await;
    assert_eq!(nodes_of(&placed(&cluster, "agent").await), ["sim-1", "sim-2"]);
    // A taint nobody tolerates: what is there stays, and is misplaced; with NoExecute it goes.
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "x", "effect": effect}]}});
    cluster.merge("/api/v1/nodes/sim-1", taint("NoSchedule")).await.ok(200);
    let misplaced =
        |set: &Json| set["status"]["numberMisscheduled"] == 1 && set["status"]["desiredNumberScheduled"] == 2;
    until(&cluster, &format!("{SETS}/all"), "a misplaced pod", misplaced).await;
    assert_eq!(placed(&cluster, "all").await.len(), 3);
    cluster.merge("/api/v1/nodes/sim-1", taint("NoExecute")).await.ok(200);
    wait_for(&cluster, "all", 2).await;
    cluster.merge("/api/v1/nodes/sim-1", json!({"spec": {"taints": null}})).await.ok(200);
    wait_for(&cluster, "all", 3).await;
    // A cordoned node keeps and gets its daemons.
    cluster.merge("/api/v1/nodes/sim-0", json!({"spec": {"unschedulable": true}})).await.ok(200);
    pass(&cluster, 5).await;
    let pods = items(&cluster, &format!("{PODS}?labelSelector=app%3Dall")).await;
    let cordoned = pods.iter().find(|pod| pod["spec"]["nodeName"] == "sim-0").expect("a pod");
    cluster.delete(format!("{PODS}/{}", cordoned["metadata"]["name"].as_str().unwrap())).await.ok(200);
    pass(&cluster, 60).await;
    wait_for(&cluster, "all", 3).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_keeps_within_its_bounds_and_can_be_undone() {
    let (cluster, plane) = with_nodes(1903, 4).await;
    let strategy = |unavailable: Json, surge: Json| {
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}},
            "revisionHistoryLimit": 1})
    };
    for (name, unavailable, surge) in [("one", json!(1), json!(0)), ("extra", json!(0), json!("25%"))] {
        let mut set = set(name, strategy(unavailable, surge));
        // Long enough to be seen.
        set["spec"]["template"]["metadata"]["annotations"] = json!({"sim.setpoint.dev/ready-seconds": "2"});
        cluster.post(SETS, set).await.ok(201);
    }
    for name in ["one", "extra"] {
        wait_for(&cluster, name, 4).await;
        let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        for version in ["two", "three", "two"] {
            cluster.merge(format!("{SETS}/{name}"), image(version)).await.ok(200);
            let (mut least, mut most) = (4, 4);
            loop {
                let now = cluster.get(format!("{SETS}/{name}")).await.json();
                let pods = items(&cluster, &format!("{PODS}?labelSelector=app%3D{name}")).await;
                let ready = |pod: &&Json| {
                    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    pod["metadata"]["deletionTimestamp"].is_null()
                        && conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
                };
                least = least.min(pods.iter().filter(ready).count());
                let lives = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
                most = most.max(lives.count());
                if rolled_out(&now, 4) {
                    break;
                }
                cluster.env().sleep(Duration::from_millis(100)).await;
            }
            let bounds = if name == "one" { (3, 4) } else { (4, 5) };
            assert_eq!((least, most), bounds, "{name} {version}");
            let images = placed(&cluster, name).await;
            assert!(images.iter().all(|(_, image)| image == version), "{images:?}");
        }
        let revisions = items(&cluster, &format!("{REVISIONS}?labelSelector=app%3D{name}")).await;
        let mut numbers: Vec<i64> = revisions.iter().map(|r| r["revision"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [3, 4], "the first is forgotten, the second came back as the fourth");
    }
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn on_delete_waits_for_somebody_to_delete() {
    let (cluster, plane) = with_nodes(1904, 2).await;
    cluster.post(SETS, set("slow", json!({"updateStrategy": {"type": "OnDelete"}}))).await.ok(201);
    wait_for(&cluster, "slow", 2).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    cluster.merge(format!("{SETS}/slow"), image).await.ok(200);
    pass(&cluster, 120).await;
    let pods = items(&cluster, PODS).await;
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "one"));
    let now = cluster.get(format!("{SETS}/slow")).await.json();
    assert_eq!(now["status"]["updatedNumberScheduled"].as_u64().unwrap_or(0), 0);
    cluster.delete(format!("{PODS}/{}", pods[0]["metadata"]["name"].as_str().unwrap())).await.ok(200);
    let one =
        |set: &Json| set["status"]["updatedNumberScheduled"] == 1 && set["status"]["numberAvailable"] == 2;
    until(&cluster, &format!("{SETS}/slow"), "one new pod", one).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_less_and_less_often() {
    let (cluster, plane) = with_nodes(1905, 1).await;
    let mut weak = set("weak", json!({}));
    weak["spec"]["template"]["metadata"]["annotations"] = json!({"a": "b"});
    cluster.post(SETS, weak).await.ok(201);
    wait_for(&cluster, "weak", 1).await;
    let begun = cluster.env().now_seconds();
    let mut deaths = 0;
    let mut last = String::new();
    while cluster.env().now_seconds() - begun < 120 {
        let pods = items(&cluster, PODS).await;
        let lives = pods.iter().find(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["phase"] == "Running"
                && pod["metadata"]["name"] != last.as_str()
        });
        if let Some(pod) = lives {
            last = pod["metadata"]["name"].as_str().unwrap().to_owned();
            let failed = json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "no room"}});
            cluster.merge(format!("{PODS}/{last}/status"), failed).await.ok(200);
            deaths += 1;
        }
        cluster.env().sleep(Duration::from_millis(200)).await;
    }
    // 1 + 2 + 4 + ... seconds between them.
    assert!((4..=9).contains(&deaths), "{deaths} in two minutes");
    let told = events(&cluster, "FailedDaemonPod").await;
    assert!(
        told.iter().all(|e| e.starts_with("Found failed daemon pod default/weak-")
            && e.ends_with(" on node sim-0, will try to kill it")),
        "{told:?}"
    );
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn duplicates_go_orphans_are_adopted_and_strangers_left_alone() {
    let (cluster, plane) = with_nodes(1906, 2).await;
    let orphan = |name: &str, labels: Json| json!({"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": "sim-0", "containers": [{"name": "c", "image": "one"}]}});
    cluster.post(PODS, orphan("first", json!({"app": "agent"}))).await.ok(201);
    cluster.post(PODS, orphan("other", json!({"app": "else"}))).await.ok(201);
    pass(&cluster, 10).await;
    cluster.post(SETS, set("agent", json!({"updateStrategy": {"type": "OnDelete"}}))).await.ok(201);
    let two = |set: &Json| set["status"]["numberReady"] == 2;
    until(&cluster, &format!("{SETS}/agent"), "two pods", two).await;
    let first = cluster.get(format!("{PODS}/first")).await.ok(200);
    assert_eq!(first["metadata"]["ownerReferences"][0]["name"], "agent", "what was there is taken");
    // A second one on the node is younger, and goes.
    cluster.post(PODS, orphan("second", json!({"app": "agent"}))).await.ok(201);
    pass(&cluster, 60).await;
    assert_eq!(nodes_of(&placed(&cluster, "agent").await), ["sim-0", "sim-1"]);
    cluster.get(format!("{PODS}/second")).await.ok(404);
    // Relabelled, it is let go, and replaced.
    cluster.merge(format!("{PODS}/first"), json!({"metadata": {"labels": {"app": "mine"}}})).await.ok(200);
    pass(&cluster, 30).await;
    let first = cluster.get(format!("{PODS}/first")).await.ok(200);
    assert!(first["metadata"]["ownerReferences"].is_null(), "{first:#}");
    assert_eq!(nodes_of(&placed(&cluster, "agent").await), ["sim-0", "sim-1"]);
    let other = cluster.get(format!("{PODS}/other")).await.ok(200);
    assert!(other["metadata"]["ownerReferences"].is_null());
    // Deleted with its pods left, and made again, it takes them back.
    cluster.delete(format!("{SETS}/agent?propagationPolicy=Orphan")).await.ok(200);
    pass(&cluster, 10).await;
    let before: Vec<Json> = items(&cluster, &format!("{PODS}?labelSelector=app%3Dagent")).await;
    cluster.post(SETS, set("agent", json!({}))).await.ok(201);
    wait_for(&cluster, "agent", 2).await;
    let after = items(&cluster, &format!("{PODS}?labelSelector=app%3Dagent")).await;
    let uids = |pods: &[Json]| pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect::<Vec<_>>();
    assert_eq!(uids(&before), uids(&after));
    assert_eq!(items(&cluster, REVISIONS).await.len(), 1);
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn pods_count_as_available_after_min_ready_seconds() {
    let (cluster, plane) = with_nodes(1907, 1).await;
    cluster.post(SETS, set("late", json!({"minReadySeconds": 30}))).await.ok(201);
    let ready = |set: &Json| set["status"]["numberReady"] == 1;
    let now = until(&cluster, &format!("{SETS}/late"), "a ready pod", ready).await;
    assert_eq!(now["status"]["numberAvailable"].as_u64().unwrap_or(0), 0);
    let begun = cluster.env().now_seconds();
    until(&cluster, &format!("{SETS}/late"), "an available pod", |set| set["status"]["numberAvailable"] == 1)
        .await;
    assert!((28..=33).contains(&(cluster.env().now_seconds() - begun)));
    steady(&cluster).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn revisions_of_the_same_template_become_one() {
    let cluster = TestCluster::simulated(1908).await;
    let plane = plane(&cluster, &["daemonset-controller"]);
    node(&cluster).await;
    cluster.post(SETS, set("agent", json!({}))).await.ok(201);
    until(&cluster, REVISIONS, "a revision", |list| list["items"].as_array().is_some_and(|l| l.len() == 1))
        .await;
    let mut copy = items(&cluster, REVISIONS).await.remove(0);
    let metadata = json!({"name": "agent-copy", "labels": {"app": "agent", "controller-revision-hash": "copy"},
        "ownerReferences": copy["metadata"]["ownerReferences"]});
    copy["metadata"] = metadata;
    copy["revision"] = json!(7);
    cluster.post(REVISIONS, copy).await.ok(201);
    cluster.merge(format!("{SETS}/agent"), json!({"metadata": {"labels": {"x": "y"}}})).await.ok(200);
    pass(&cluster, 5).await;
    let left = items(&cluster, REVISIONS).await;
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!(left[0]["metadata"]["name"], "agent-copy");
    let pods = items(&cluster, PODS).await;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["metadata"]["labels"]["controller-revision-hash"], "copy");
    plane.stop().await;
    cluster.shutdown().await;
}

/// How many objects informers hand out when a pod of one set becomes ready, beside so many other sets.
async fn read_for_one_change(others: usize) -> u64 {
    let cluster = TestCluster::simulated(1909).await;
    let plane = plane(&cluster, &["daemonset-controller"]);
    node(&cluster).await;
    for n in 0..others {
        cluster.post(SETS, set(&format!("other{n}"), json!({}))).await.ok(201);
    }
    cluster.post(SETS, set("agent", json!({}))).await.ok(201);
    pass(&cluster, 10).await;
    let pods = items(&cluster, PODS).await;
    assert_eq!(pods.len(), others + 1);
    let pod = pods.iter().find(|pod| pod["metadata"]["labels"]["app"] == "agent").expect("its pod");
    let given = || plane.context.informers.given();
    let before = given();
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    set_status(&cluster, pod, ready).await;
    pass(&cluster, 2).await;
    let read = given() - before;
    plane.stop().await;
    cluster.shutdown().await;
    read
}

#[tokio::test(start_paused = true)]
async fn what_one_change_costs_does_not_grow_with_other_sets() {
    let (few, many) = (read_for_one_change(5).await, read_for_one_change(200).await);
    assert!(few > 0, "the change is looked at");
    assert_eq!(few, many);
}
