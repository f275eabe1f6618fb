//! The life of a Deployment, step by step over watch events, in virtual time: in process, and again over HTTP.

use std::sync::Arc;
use std::time::Duration;

use client::Clients;
use env::Env;
use plane::{ControllerSelection, Plane, Settings};
use serde_json::{Value, json};
use testkit::requests::Requests;
use testkit::{Stream, TestCluster};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(start_paused = true)]
async fn a_deployment_from_create_to_delete_in_process() {
    let cluster = TestCluster::simulated(11).await;
    let clients = cluster.local_clients();
    story(cluster, clients).await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_from_create_to_delete_over_http() {
    let cluster = TestCluster::simulated(11).await;
    let clients = Arc::new(cluster.http_clients());
    story(cluster, clients).await;
}

const AGENT: &str = "system:node:sim-0";
const REPLICA_SET_CONTROLLER: &str = "replicaset-controller";

async fn story(cluster: TestCluster, clients: Arc<dyn Clients>) {
    // Every write is noted under the name of who asks for it.
    let requests = Requests::new(&cluster, clients);
    let choice = |words: &[&str]| {
        ControllerSelection::new(words.iter().map(|word| (*word).to_owned()).collect())
            .expect("known controllers")
    };
    // The scheduler comes later: until then everybody can be seen to leave an unbound pod alone.
    let settings = Settings {
        nodes: Some(testkit::nodes(1)),
        choice: choice(&["*", "-scheduler"]),
        ..Settings::default()
    };
    let plane = Plane::start(cluster.env(), requests.clone(), &settings);
    // The node comes, and is found ready.
    cluster
        .until("the node is ready and untainted", || async {
            let node = cluster.get("/api/v1/nodes/sim-0").await.json();
            condition(&node, "Ready") == "True" && node["spec"].get("taints").is_none()
        })
        .await;

    let mut sets = cluster.watch(format!("{REPLICA_SETS}?watch=1&resourceVersion=0")).await;
    let mut pods = cluster.watch(format!("{PODS}?watch=1&resourceVersion=0")).await;

    // The Deployment is created, and the ReplicaSet by its controller.
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let web = cluster.post(DEPLOYMENTS, json!({"metadata": {"name": "web"}, "spec": spec})).await.ok(201);
    let set = event(&mut sets, "ADDED").await;
    assert_eq!(owner(&set), (json!("Deployment"), web["metadata"]["uid"].clone()));
    assert_eq!(set["spec"]["replicas"], 1);

    // The pod is created without a node.
    let pod = event(&mut pods, "ADDED").await;
    assert_eq!(owner(&pod), (json!("ReplicaSet"), set["metadata"]["uid"].clone()));
    assert_eq!(pod["spec"].get("nodeName"), None);
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["status"].get("startTime"), None, "a node started what is not its own");

    // The node agent ignores it: it writes nothing about pods, has no turn about this one and so nothing runs for it; nobody
    // else touches the pod either.
    let early = cluster.env().timeout(Duration::from_secs(60), pods.next()).await;
    assert!(early.is_err(), "somebody touched a pod without a node: {early:?}");
    let seen = requests.seen();
    for what in ["pods", "pods/status"] {
        assert_eq!(seen.count(AGENT, what), 0, "the agent wrote {what}: {:#?}", seen.writes);
    }
    let agents_turns = turns(&plane, "node-pods");
    assert!(agents_turns.is_empty(), "the agent worked on a pod that is not its own: {agents_turns:#?}");

    // The scheduler binds it.
    let alone = Settings { choice: choice(&["scheduler"]), ..Settings::default() };
    let scheduler = Plane::start(cluster.env(), requests.clone(), &alone);
    let bound = event(&mut pods, "MODIFIED").await;
    assert_eq!(bound["spec"]["nodeName"], "sim-0");
    assert_eq!(condition(&bound, "PodScheduled"), "True");
    assert_eq!(bound["status"]["phase"], "Pending");

    // The node starts it and reports.
    let running = until(&mut pods, |pod| condition(pod, "Ready") == "True").await;
    assert_eq!(running["metadata"]["uid"], pod["metadata"]["uid"]);
    assert_eq!(running["status"]["phase"], "Running");
    assert!(running["status"]["podIP"].is_string() && running["status"]["startTime"].is_string());
    assert!(requests.seen().count(AGENT, "pods/status") > 0, "somebody else reports for the agent");

    // The ReplicaSet counts it and has nothing to do.
    let set = until(&mut sets, |set| set["status"]["availableReplicas"] == 1).await;
    assert_eq!(set["metadata"]["generation"], 1);
    cluster
        .until("the deployment is available", || async {
            condition(&cluster.get(format!("{DEPLOYMENTS}/web")).await.json(), "Available") == "True"
        })
        .await;

    // From here on its turns plan nothing and write nothing, whatever asks for them.
    cluster.quiet(Duration::from_secs(60)).await;
    let before = requests.seen();
    let path = format!("{REPLICA_SETS}/{}", set["metadata"]["name"].as_str().expect("sets have names"));
    let asks = json!({"metadata": {"annotations": {"story": "look again"}}});
    cluster.merge(path, asks).await.ok(200);
    cluster.quiet(Duration::from_secs(60)).await;
    let last = turns(&plane, REPLICA_SET_CONTROLLER).first().cloned().expect("it had turns");
    assert_eq!(last["plan"], "nothing: 1 of 1 pods are active", "{last:#}");
    let cause = &last["causes"][0];
    assert_eq!((&cause["resource"], &cause["what"]), (&json!("replicasets"), &json!("updated")), "{last:#}");
    let after = requests.seen();
    assert_eq!(
        after.all_of(REPLICA_SET_CONTROLLER),
        before.all_of(REPLICA_SET_CONTROLLER),
        "it wrote though nothing was to do"
    );

    // The pod is deleted: it terminates, says so, goes, and is replaced.
    let name = pod["metadata"]["name"].as_str().expect("pods have names");
    cluster.delete(format!("{PODS}/{name}")).await.ok(200);
    let (mut terminating, mut terminated, mut gone, mut next) = (false, false, false, None);
    while !gone || next.is_none() {
        let (kind, seen) = any(&mut pods).await;
        if seen["metadata"]["uid"] != pod["metadata"]["uid"] {
            // Its successor may come as soon as it is going.
            assert!(terminating);
            next = Some(seen);
            continue;
        }
        terminating |= seen["metadata"]["deletionTimestamp"].is_string();
        terminated |= seen["status"]["containerStatuses"][0]["state"]["terminated"].is_object();
        gone |= kind == "DELETED";
    }
    assert!(terminating && terminated, "the pod went without a word");
    let next = next.expect("the loop ends with one");
    let uid = next["metadata"]["uid"].clone();
    if condition(&next, "Ready") != "True" {
        until(&mut pods, |pod| pod["metadata"]["uid"] == uid && condition(pod, "Ready") == "True").await;
    }

    // Then nothing: for ten minutes nothing is written but leases.
    cluster.quiet(Duration::from_secs(60)).await;
    let before = (cluster.versions(&["leases"]), tried(&requests));
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.versions(&["leases"]), before.0, "something was written though nothing changed");
    assert_eq!(tried(&requests), before.1, "somebody tried to write though nothing changed");
    let wrongs = requests.seen().wrongs;
    assert!(wrongs.is_empty(), "{wrongs:#?}");

    // And people can ask why.
    let shown = plane.controllers();
    let text = String::from_utf8(codec::json::to_vec(&shown)).expect("JSON is text");
    for part in ["\"replicaset-controller\"", "\"deployment-controller\"", "\"causes\"", "\"plan\""] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    scheduler.stop().await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// The last turns of a controller, newest first.
fn turns(plane: &Plane, name: &str) -> Vec<Value> {
    let shown: Value = serde_json::from_slice(&codec::json::to_vec(&plane.controllers())).expect("JSON");
    let all = shown["controllers"].as_array().expect("a list of controllers");
    let entry = all.iter().find(|entry| entry["name"] == *name).expect("it is shown");
    entry["recent"].as_array().cloned().unwrap_or_default()
}

/// All writes anybody asked for, landed or not, but for the leases nodes keep.
fn tried(requests: &Requests) -> usize {
    let seen = requests.seen();
    seen.writes.iter().filter(|((_, _, what), _)| what != "leases").map(|(_, count)| count).sum()
}

#[allow(clippy::disallowed_methods, reason = "the test's own patience, in whatever world it runs")]
async fn any(stream: &mut Stream) -> (String, Value) {
    let event = tokio::time::timeout(Duration::from_secs(300), stream.next()).await;
    let event = event.expect("nothing happened for five minutes").expect("the watch goes on");
    (event["type"].as_str().unwrap_or_default().to_owned(), event["object"].clone())
}

async fn event(stream: &mut Stream, kind: &str) -> Value {
    let (seen, object) = any(stream).await;
    assert_eq!(seen, kind, "{object}");
    object
}

async fn until(stream: &mut Stream, mut so: impl FnMut(&Value) -> bool) -> Value {
    loop {
        let (_, object) = any(stream).await;
        if so(&object) {
            return object;
        }
    }
}

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}

fn owner(object: &Value) -> (Value, Value) {
    let owner = &object["metadata"]["ownerReferences"][0];
    (owner["kind"].clone(), owner["uid"].clone())
}

#[tokio::test(start_paused = true)]
async fn stopped_work_does_not_count_as_success() {
    let cluster = TestCluster::simulated(12).await;
    let settings = Settings { nodes: Some(testkit::nodes(2)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let work = json!({"name": "c", "image": "busybox", "command": ["sleep", "600"]});
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [work]}}});
    cluster.post(jobs, json!({"metadata": {"name": "work"}, "spec": spec})).await.ok(201);
    let running = || async {
        let pods = cluster.get(PODS).await.json();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let fresh = pods.into_iter().find(|pod| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        });
        fresh.map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    cluster.until("the work has begun", || async { !running().await.is_empty() }).await;
    let first = running().await;
    cluster.delete(format!("{PODS}/{first}")).await.ok(200);
    cluster
        .until("the work has begun again", || async {
            let now = running().await;
            !now.is_empty() && now != first
        })
        .await;
    let job = cluster.get(format!("{jobs}/work")).await.json();
    assert!(job["status"].get("succeeded").is_none(), "{job}");
    cluster
        .until("the work is done", || async {
            cluster.get(format!("{jobs}/work")).await.json()["status"]["succeeded"] == 1
        })
        .await;
    plane.stop().await;
    cluster.shutdown().await;
}

/// Many worlds in one process: one that ended must not be held by what its controllers left in each other's hands.
#[tokio::test(start_paused = true)]
async fn a_stopped_cluster_is_freed() {
    let cluster = TestCluster::bare(Env::simulated(13), |_| {}).await;
    let settings = Settings { nodes: Some(testkit::nodes(2)), trust: cluster.trust(), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
    cluster.post(deployments, json!({"metadata": {"name": "web"}, "spec": spec})).await.ok(201);
    cluster
        .until("it is ready", || async {
            cluster.get(format!("{deployments}/web")).await.json()["status"]["readyReplicas"] == 2
        })
        .await;
    let api = Arc::downgrade(cluster.api());
    plane.stop().await;
    drop((plane, settings));
    cluster.shutdown().await;
    assert_eq!(api.strong_count(), 0, "somebody still holds the server");
}

/// A Job that wants thousands of pods makes them a few hundred at a time; others get their turn in between.
/// `SETPOINT_LONG=1`: fifty thousand.
#[tokio::test(start_paused = true)]
async fn a_huge_job_does_not_starve_a_deployment() {
    let wanted: u64 = if std::env::var_os("SETPOINT_LONG").is_some() { 50_000 } else { 3_000 };
    let cluster = TestCluster::simulated(14).await;
    // Each has room for 110: what the deployment waits for is its turn, not room.
    let settings = Settings { nodes: Some(testkit::nodes(wanted as usize / 100)), ..Settings::default() };
    let plane = Plane::start(cluster.env(), cluster.local_clients(), &settings);
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let work = json!({"name": "c", "image": "busybox", "command": ["sleep", "36000"]});
    let spec = json!({"restartPolicy": "Never", "containers": [work]});
    let huge = json!({"parallelism": wanted, "completions": wanted, "template": {"spec": spec}});
    cluster.post(jobs, json!({"metadata": {"name": "huge"}, "spec": huge})).await.ok(201);
    let active = || async {
        cluster.get(format!("{jobs}/huge")).await.json()["status"]["active"].as_u64().unwrap_or_default()
    };
    cluster.until("the job is under way", || async { active().await > 0 }).await;
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let small = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    let asked = cluster.env().monotonic();
    cluster.post(DEPLOYMENTS, json!({"metadata": {"name": "web"}, "spec": small})).await.ok(201);
    cluster
        .until("the deployment is ready", || async {
            cluster.get(format!("{DEPLOYMENTS}/web")).await.json()["status"]["readyReplicas"] == 3
        })
        .await;
    let took = cluster.env().monotonic().saturating_duration_since(asked);
    assert!(took < Duration::from_secs(60), "the deployment was ready after {took:?} of virtual time");
    let at_that_time = active().await;
    println!(
        "the deployment was ready after {took:?} of virtual time, with {at_that_time} of {wanted} pods of the job there"
    );
    assert!(
        at_that_time < wanted,
        "the deployment came last: {at_that_time} pods of the job were there before"
    );
    cluster.until("the job has all its pods", || async { active().await == wanted }).await;
    plane.stop().await;
    cluster.shutdown().await;
}
