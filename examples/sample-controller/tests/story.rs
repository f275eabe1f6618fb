//! The sample controller's story, on a whole cluster: in process, over HTTP in virtual time, over a TLS socket.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::disallowed_names)]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use apiserver::LocalClient;
use client::Client;
use client_http::{Config, HttpClient};
use runtime::{ControllerRegistry, Stopper};
use serde_json::{Value, json};
use testkit::{Reply, TestCluster, admin};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.samplecontroller.k8s.io";
const FOOS: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos";
const FOO: &str = "/apis/samplecontroller.k8s.io/v1alpha1/namespaces/default/foos/foo";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Creates the CRD and waits until Foos are served.
async fn define(cluster: &TestCluster) {
    let crd = codec::yaml::parse(sample_controller::CRD.as_bytes()).unwrap();
    let crd: Value = serde_json::from_slice(&codec::json::to_vec(&crd)).unwrap();
    cluster.post(CRDS, crd).await.ok(201);
    until(cluster, FOOS, |foos| foos.status == 200).await;
}

fn foo_of(name: &str, spec: Value) -> Value {
    let (version, kind) = ("samplecontroller.k8s.io/v1alpha1", "Foo");
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Two replicas of `web`.
fn two() -> Value {
    foo_of("foo", json!({"deploymentName": "web", "replicas": 2}))
}

/// Asks until the answer is right; waits in the cluster's time.
async fn until(cluster: &TestCluster, path: &str, right: impl Fn(&Reply) -> bool) -> Value {
    for _ in 0..3000 {
        let reply = cluster.get(path).await;
        if right(&reply) {
            return reply.json();
        }
        cluster.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("never right: {}", cluster.get(path).await.text());
}

/// Reason and message of every event about the Foo.
async fn events(cluster: &TestCluster) -> Vec<(String, String)> {
    let list = cluster.get(EVENTS).await.ok(200);
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    let about = items.filter(|event| event["involvedObject"]["name"] == "foo");
    about.map(|event| (text(event, "reason"), text(event, "message"))).collect()
}

async fn saw(cluster: &TestCluster, reason: &str, message: &str) {
    let wanted = (reason.to_owned(), message.to_owned());
    for _ in 0..3000 {
        if events(cluster).await.contains(&wanted) {
            return;
        }
        cluster.env().sleep(Duration::from_millis(10)).await;
    }
    panic!("no event {wanted:?}: {:?}", events(cluster).await);
}

async fn story(cluster: &TestCluster, client: Arc<dyn Client>) {
    let (stopper, stop) = Stopper::new();
    let tasks =
        sample_controller::start(cluster.env(), client, &Arc::new(ControllerRegistry::default()), stop);

    // Somebody else's Deployment of that name is left alone, and people are told.
    let nginx = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 9,
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "c", "image": "other"}]},
            },
        },
    });
    cluster.post("/apis/apps/v1/namespaces/default/deployments", nginx).await.ok(201);
    // The controller was there first.
    define(cluster).await;
    let foo = cluster.post(FOOS, two()).await.ok(201);
    saw(cluster, "ErrResourceExists", "Resource \"web\" already exists and is not managed by Foo").await;
    assert_eq!(cluster.get(WEB).await.json()["spec"]["replicas"], 9);

    // Once that is gone the Foo has its own.
    cluster.delete(WEB).await.ok(200);
    let web = until(cluster, WEB, |web| web.json()["spec"]["replicas"] == 2).await;
    let owner = &web["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Foo"), &foo["metadata"]["uid"]));
    assert_eq!(owner["controller"], true);
    assert_eq!(web["spec"]["selector"]["matchLabels"], json!({"app": "nginx", "controller": "foo"}));
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:latest");
    saw(cluster, "Synced", "Foo synced successfully").await;
    let managers = web["metadata"]["managedFields"].as_array().unwrap();
    let is_ours = |entry: &Value| entry["manager"] == "sample-controller" && entry["operation"] == "Apply";
    assert!(managers.iter().any(is_ours), "what it applied is its own, by its name: {web}");

    // Changed by hand, changed by the Foo, deleted: it is what the Foo says.
    cluster.merge(WEB, json!({"spec": {"replicas": 7}})).await.ok(200);
    until(cluster, WEB, |web| web.json()["spec"]["replicas"] == 2).await;
    cluster.merge(FOO, json!({"spec": {"replicas": 3}})).await.ok(200);
    until(cluster, WEB, |web| web.json()["spec"]["replicas"] == 3).await;
    cluster.delete(WEB).await.ok(200);
    let again = until(cluster, WEB, |web| web.status == 200).await;
    assert_ne!(again["metadata"]["uid"], web["metadata"]["uid"]);

    // How many are available is noted.
    let available = |count: i64| move |foo: &Reply| foo.json()["status"]["availableReplicas"] == count;
    until(cluster, FOO, available(0)).await;
    let status = json!({"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}});
    cluster.merge(format!("{WEB}/status"), status).await.ok(200);
    until(cluster, FOO, available(3)).await;

    // A Foo that asks for nothing gets nothing; one that asks for too much is none.
    cluster.post(FOOS, foo_of("empty", json!({}))).await.ok(201);
    let many =
        cluster.post(FOOS, foo_of("many", json!({"deploymentName": "many", "replicas": 11}))).await.ok(422);
    let why = "spec.replicas in body should be less than or equal to 10";
    assert!(many["message"].as_str().unwrap().contains(why), "{many}");

    // The definition goes with its Foos, and comes again: so does the Deployment.
    cluster.delete(CRD).await.ok(200);
    until(cluster, CRD, |crd| crd.status == 404).await;
    cluster.delete(WEB).await.ok(200);
    define(cluster).await;
    let again = cluster.post(FOOS, two()).await.ok(201);
    let web = until(cluster, WEB, |web| web.status == 200).await;
    assert_eq!(
        web["metadata"]["ownerReferences"][0]["uid"], again["metadata"]["uid"],
        "of the Foo there is now"
    );

    stopper.stop();
    for task in tasks {
        task.await.unwrap();
    }
    let all = cluster.get("/apis/apps/v1/deployments").await.ok(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 1, "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_foo_holds_its_deployment_in_process() {
    let cluster = TestCluster::simulated(1).await;
    story(&cluster, Arc::new(LocalClient::new(cluster.api().clone(), admin(), "test"))).await;
    cluster.shutdown().await;
}

/// As a controller of the control plane itself: started, stopped and shown with the built-in ones.
#[tokio::test(start_paused = true)]
async fn a_foo_holds_its_deployment_beside_the_built_in_controllers() {
    let cluster = TestCluster::simulated(3).await;
    let sample: plane::StartController = Arc::new(|context| {
        let client = context.clients.user("kubernetes-admin", &["system:masters"]);
        sample_controller::start(&context.env, client, &context.controllers, context.stop.clone())
    });
    let settings =
        plane::Settings { more: vec![sample], nodes: Some(testkit::nodes(2)), ..Default::default() };
    let plane = plane::Plane::start(cluster.env(), cluster.local_clients(), &settings);
    define(&cluster).await;
    cluster.post(FOOS, two()).await.ok(201);
    until(&cluster, WEB, |reply| reply.json()["status"]["readyReplicas"] == 2).await;
    let shown = codec::json::to_vec(&plane.controllers());
    assert!(String::from_utf8_lossy(&shown).contains("sample-controller"), "it is shown with the others");
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_foo_holds_its_deployment_over_http() {
    for http2 in [true, false] {
        let cluster = TestCluster::simulated(1).await;
        story(&cluster, Arc::new(cluster.pipe(http2).client(&cluster))).await;
        cluster.shutdown().await;
    }
}

#[tokio::test]
async fn a_foo_holds_its_deployment_over_a_tls_socket() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.unwrap();
    let config = Config::from_kubeconfig_text(&served.kubeconfig).unwrap();
    let client = HttpClient::new(cluster.env().clone(), cluster.catalog().clone(), &config).unwrap();
    story(&cluster, Arc::new(client)).await;
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn while_nothing_changes_nothing_is_written() {
    let cluster = TestCluster::simulated(2).await;
    let (stopper, stop) = Stopper::new();
    define(&cluster).await;
    let client = Arc::new(cluster.pipe(true).client(&cluster));
    let tasks =
        sample_controller::start(cluster.env(), client, &Arc::new(ControllerRegistry::default()), stop);
    cluster.post(FOOS, two()).await.ok(201);
    until(&cluster, WEB, |web| web.status == 200).await;
    saw(&cluster, "Synced", "Foo synced successfully").await;
    cluster.env().sleep(Duration::from_secs(5)).await;
    let steady = cluster.api().registry().table().revision();
    cluster.env().sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.api().registry().table().revision(), steady);
    stopper.stop();
    for task in tasks {
        task.await.unwrap();
    }
    cluster.shutdown().await;
}

/// The program itself, as the README has it.
#[tokio::test]
async fn the_program_works_by_a_kubeconfig() {
    let mut cluster = TestCluster::start().await;
    let served = cluster.serve().await.unwrap();
    let kubeconfig = served.pki_directory().join("kubeconfig");
    std::fs::write(&kubeconfig, &served.kubeconfig).unwrap();
    let program = || Command::new(env!("CARGO_BIN_EXE_sample-controller"));
    let mut running =
        program().arg("--install-crd").env("KUBECONFIG", &kubeconfig).stderr(Stdio::null()).spawn().unwrap();
    until(&cluster, FOOS, |foos| foos.status == 200).await;
    cluster.post(FOOS, two()).await.ok(201);
    until(&cluster, WEB, |web| web.json()["spec"]["replicas"] == 2).await;
    running.kill().unwrap();
    running.wait().unwrap();
    cluster.shutdown().await;

    // Without a cluster it says so and ends.
    let gone = program().arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(!gone.status.success() && said.contains("the server cannot be reached"), "{said}");
    let odd = program().arg("--help").output().unwrap();
    assert!(
        String::from_utf8_lossy(&odd.stderr)
            .contains("usage: sample-controller [--kubeconfig PATH] [--install-crd]")
    );
}

#[test]
fn the_controller_takes_less_than_a_hundred_lines() {
    assert!(include_str!("../src/controller.rs").lines().count() < 100);
}
