//! Server-side apply through both clients: objects, their status and scale, custom resources, conflicts; and a controller that
//! writes nothing else.

use std::sync::Arc;
use std::time::Duration;

use apiserver::LocalClient;
use client::resources::{CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS};
use client::{Client, Gvr, ListOptions, Obj, Target, WriteOptions};
use futures_util::future::BoxFuture;
use object::Value;
use runtime::{
    Action, Controller, ControllerRegistry, Failure, Informer, Informers, Key, Reconcile, ReconcileRequest,
    Stopper, owners, tree,
};
use serde_json::json;
use testkit::{TestCluster, admin};

static GEARS: Gvr = Gvr::new("example.io", "v1", "gears");

fn value(value: serde_json::Value) -> Value {
    codec::json::parse(value.to_string().as_bytes(), None).expect("it is JSON")
}

fn read(obj: &Obj) -> serde_json::Value {
    serde_json::from_slice(obj.body()).expect("it is JSON")
}

/// `manager operation subresource`, sorted.
fn managers(obj: &Obj) -> Vec<String> {
    let text = |entry: &serde_json::Value, name: &str| entry[name].as_str().unwrap_or("-").to_owned();
    let entries = read(obj)["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let names = ["manager", "operation", "subresource"];
    let mut out: Vec<String> = entries.iter().map(|e| names.map(|name| text(e, name)).join(" ")).collect();
    out.sort();
    out
}

fn by(field_manager: &'static str) -> WriteOptions<'static> {
    WriteOptions { field_manager, ..WriteOptions::default() }
}

fn forced(field_manager: &'static str) -> WriteOptions<'static> {
    WriteOptions { force: true, ..by(field_manager) }
}

/// No type and no name: they follow from where it goes.
fn web(replicas: u32) -> Value {
    value(json!({"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))
}

async fn built_in(client: &dyn Client) {
    let target = DEPLOYMENTS.at("default", "web");
    let made = client.apply(target, web(1), WriteOptions::default()).await.expect("created");
    assert_eq!(
        (made.name(), managers(&made)),
        ("web", vec!["test Apply -".to_owned()]),
        "the client's own manager"
    );
    let same = client.apply(target, web(1), WriteOptions::default()).await.expect("applied");
    assert_eq!(same.revision(), made.revision(), "nothing changed, nothing was written");

    let refused = client.apply(target, web(2), by("other")).await.err().expect("a conflict");
    assert_eq!((refused.code, refused.reason), (409, "Conflict"));
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"test\": .spec.replicas");
    let taken = client.apply(target, web(2), forced("other")).await.expect("taken over");
    assert_eq!(read(&taken)["spec"]["replicas"], 2);

    let scale = target.sub("scale");
    let three = || value(json!({"spec": {"replicas": 3}}));
    let refused = client.apply(scale, three(), by("scaler")).await.err().expect("a conflict");
    assert!(refused.message.contains("conflict with \"other\""), "{}", refused.message);
    let pretended = WriteOptions { dry_run: true, ..forced("scaler") };
    let scaled = client.apply(scale, three(), pretended).await.expect("a dry run");
    assert_eq!(read(&scaled)["spec"]["replicas"], 3);
    assert_eq!(read(&client.get(target).await.expect("it is there"))["spec"]["replicas"], 2);
    let scaled = client.apply(scale, three(), forced("scaler")).await.expect("scaled");
    assert_eq!((&read(&scaled)["kind"], &read(&scaled)["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let shown = client.get(scale).await.expect("a scale");
    assert_eq!((shown.revision(), shown.body()), (scaled.revision(), scaled.body()));
    let mut four = tree(&shown);
    four.map_at(&["spec"]).set("replicas", 4);
    let scaled = client.update(scale, four, by("hand")).await.expect("scaled");
    assert_eq!(read(&scaled)["spec"]["replicas"], 4);

    let status = value(json!({"status": {"replicas": 4}}));
    let now = client.apply(target.sub("status"), status, by("node")).await.expect("a status");
    assert_eq!((&read(&now)["status"]["replicas"], &read(&now)["spec"]["replicas"]), (&json!(4), &json!(4)));
    assert_eq!(managers(&now), ["hand Update scale", "node Apply status", "other Apply -", "test Apply -"]);

    let nowhere = client.apply(DEPLOYMENTS.at("default", "no").sub("status"), Value::map(), by("node")).await;
    assert_eq!(nowhere.err().map(|status| status.code), Some(404), "a status creates nothing");
}

async fn custom(cluster: &TestCluster, client: &dyn Client) {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({"spec": {"group": "example.io", "scope": "Namespaced",
        "names": {"plural": "gears", "singular": "gear", "kind": "Gear"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"status": any, "spec": {"type": "object",
                "properties": {"count": {"type": "integer"}, "name": {"type": "string"}}}}}}}]}});
    let definition = CUSTOM_RESOURCE_DEFINITIONS.at("", "gears.example.io");
    client.apply(definition, value(crd), WriteOptions::default()).await.expect("defined");
    until(cluster, "gears are served", async || {
        client.list(GEARS.everywhere(), ListOptions::default()).await.is_ok()
    })
    .await;
    let gear = GEARS.at("default", "g");
    let config = |spec: serde_json::Value| value(json!({"spec": spec}));
    client.apply(gear, config(json!({"count": 1, "name": "a"})), by("one")).await.expect("created");
    let count = config(json!({"replicas": 2}));
    let refused = client.apply(gear.sub("scale"), count.clone(), by("two")).await.err().expect("a conflict");
    assert!(refused.message.contains("conflict with \"one\""), "{}", refused.message);
    let scaled = client.apply(gear.sub("scale"), count, forced("two")).await.expect("scaled");
    assert_eq!(read(&scaled)["spec"]["replicas"], 2);
    let status = value(json!({"status": {"count": 2}}));
    client.apply(gear.sub("status"), status, by("three")).await.expect("a status");
    let less = client.apply(gear, config(json!({})), by("one")).await.expect("gives up its fields");
    assert_eq!(read(&less)["spec"], json!({"count": 2}), "another owns the count");
    assert_eq!(read(&less)["status"], json!({"count": 2}));
    assert_eq!(managers(&less), ["one Apply -", "three Apply status", "two Apply scale"]);
}

#[tokio::test(start_paused = true)]
async fn both_clients_apply_objects_status_and_scale() {
    let cluster = TestCluster::simulated(1).await;
    let local = LocalClient::new(cluster.api().clone(), admin(), "test");
    built_in(&local).await;
    custom(&cluster, &local).await;
    cluster.shutdown().await;
    for http2 in [true, false] {
        let cluster = TestCluster::simulated(1).await;
        let client = cluster.pipe(http2).client(&cluster).with_field_manager("test");
        built_in(&client).await;
        custom(&cluster, &client).await;
        drop(client);
        cluster.shutdown().await;
    }
}

/// A controller that says what it wants, without looking first: every ConfigMap with the label `mirror` has a copy of that name.
struct Mirror {
    maps: Arc<Informer>,
    client: Arc<dyn Client>,
}

impl Reconcile for Mirror {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(source) = self.maps.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let Some(name) = source.label("mirror") else { return Ok(Action::AwaitChange) };
            let mut copy = Value::map();
            let owner = owners::controller_ref("v1", "ConfigMap", &source);
            copy.map_at(&["metadata"]).set("ownerReferences", vec![owner]);
            copy.make_map().set("data", tree(&source).get("data").cloned().unwrap_or_else(Value::map));
            let target: Target<'_> = CONFIG_MAPS.at(source.namespace(), name);
            self.client.apply(target, copy, request.apply_options()).await?;
            Ok(Action::AwaitChange)
        })
    }
}

/// Asks until it is so; waits in the cluster's time.
async fn until(cluster: &TestCluster, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..5000 {
        if is_so().await {
            return;
        }
        cluster.env().sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

/// Drift is put right, what others add stays, what the source gives up goes, and when all is said nothing is written any more.
async fn mirrors(cluster: &TestCluster, client: Arc<dyn Client>) {
    let (stopper, stop) = Stopper::new();
    let informers = Informers::new(cluster.env().clone(), client.clone(), stop.clone());
    let maps = informers.of(&CONFIG_MAPS);
    let mirror = Arc::new(Mirror { maps: maps.clone(), client: client.clone() });
    let mut tasks = Controller::new(cluster.env(), "mirror")
        .owns_keys_of(&maps)
        .watches(&maps, |event| {
            let owner = owners::controller_of(event.obj());
            owner.map(|owner| Key::new(event.obj().namespace(), &owner.name)).into_iter().collect()
        })
        .start(&Arc::new(ControllerRegistry::default()), mirror, stop);
    tasks.extend(informers.take_tasks());

    let maps = "/api/v1/namespaces/default/configmaps";
    let source = json!({"metadata": {"name": "a", "labels": {"mirror": "b"}}, "data": {"k": "1", "l": "1"}});
    cluster.post(maps, source).await.ok(201);
    let copy = format!("{maps}/b");
    let is = async |data: serde_json::Value| cluster.get(&*copy).await.json()["data"] == data;
    until(cluster, "a copy", async || is(json!({"k": "1", "l": "1"})).await).await;
    cluster.merge(&*copy, json!({"data": {"k": "by hand", "own": "2"}})).await.ok(200);
    until(cluster, "drift is put right", async || is(json!({"k": "1", "l": "1", "own": "2"})).await).await;
    cluster.merge(format!("{maps}/a"), json!({"data": {"l": null}})).await.ok(200);
    until(cluster, "what is given up goes", async || is(json!({"k": "1", "own": "2"})).await).await;
    let settled = cluster.get(&*copy).await.ok(200);
    let who: Vec<_> = settled["metadata"]["managedFields"].as_array().expect("managers").clone();
    assert!(who.iter().any(|e| e["manager"] == "mirror" && e["operation"] == "Apply"), "{settled}");
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.get(&*copy).await.ok(200), settled, "it is level: nothing more is written");
    stopper.stop();
    for task in tasks {
        task.await.expect("no task panics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_applies_what_it_wants() {
    let cluster = TestCluster::simulated(2).await;
    mirrors(&cluster, Arc::new(LocalClient::new(cluster.api().clone(), admin(), "test"))).await;
    cluster.shutdown().await;
    let cluster = TestCluster::simulated(2).await;
    mirrors(&cluster, Arc::new(cluster.pipe(true).client(&cluster))).await;
    cluster.shutdown().await;
}
