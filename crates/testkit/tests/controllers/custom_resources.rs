//! Controllers over resources nobody knew when they were compiled: in process and over HTTP they see the same.

use std::sync::Arc;
use std::time::Duration;

use apiserver::LocalClient;
use catalog::Name;
use client::resources::CUSTOM_RESOURCE_DEFINITIONS;
use client::{Client, Event, Gvr, ListOptions, Patch, Watch, WatchOptions, WriteOptions};
use futures_util::future::BoxFuture;
use object::Value;
use parking_lot::Mutex;
use runtime::{
    Action, Controller, ControllerRegistry, Failure, Informers, Reconcile, ReconcileRequest, Stopper, tree,
};
use serde_json::json;
use testkit::{TestCluster, admin};

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gears.example.io";
const V1: Gvr = Gvr::new("example.io", "v1", "gears");
const V2: Gvr = Gvr::new("example.io", "v2", "gears");

/// Served as v1 and v2, stored as the one named; a default of `teeth` where one is given.
fn definition(stored: &str, scope: &str, teeth: Option<i64>) -> serde_json::Value {
    let version = |name: &str| {
        let mut count = json!({"type": "integer"});
        if let Some(teeth) = teeth {
            count["default"] = json!(teeth);
        }
        let spec = json!({"type": "object", "default": {}, "properties": {"teeth": count, "name": {"type": "string"}}});
        json!({"name": name, "served": true, "storage": name == stored, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": spec, "status": {"type": "object", "properties": {"seen": {"type": "boolean"}}}}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.io"},
        "spec": {"group": "example.io", "scope": scope, "versions": [version("v1"), version("v2")],
            "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "categories": ["counted"]}}})
}

fn value(value: serde_json::Value) -> Value {
    codec::json::parse(value.to_string().as_bytes(), None).expect("it is JSON")
}

fn gear(name: &str) -> Value {
    value(json!({"metadata": {"name": name}, "spec": {"name": name}}))
}

/// Tries until it is so; waits in the cluster's time.
async fn eventually(cluster: &TestCluster, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..5000 {
        if is_so().await {
            return;
        }
        cluster.env().sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

async fn define(cluster: &TestCluster, client: &dyn Client, crd: serde_json::Value) {
    let options = WriteOptions::default();
    client.create(CUSTOM_RESOURCE_DEFINITIONS.everywhere(), value(crd), options).await.expect("created");
    eventually(cluster, "gears are served", async || {
        client.list(V1.everywhere(), ListOptions::default()).await.is_ok()
    })
    .await;
}

fn clients(cluster: &TestCluster) -> [Arc<dyn Client>; 2] {
    let local = LocalClient::new(cluster.api().clone(), admin(), "test");
    [Arc::new(local), Arc::new(cluster.pipe(true).client(cluster))]
}

/// apiVersion and spec of an object.
fn shown(obj: &object::Obj) -> (String, String) {
    let tree = tree(obj);
    let spec = tree.get("spec").cloned().unwrap_or(Value::Null);
    let spec = String::from_utf8(codec::json::to_vec(&spec)).expect("JSON is text");
    (tree.str_at(&["apiVersion"]).unwrap_or_default().to_owned(), spec)
}

async fn next(watch: &mut dyn Watch) -> Vec<Event> {
    let mut events = Vec::new();
    assert!(watch.pull(&mut events).await.expect("no refusal"), "it goes on");
    events
}

/// Of the first event that is about an object.
async fn next_object(watch: &mut dyn Watch) -> (String, String) {
    loop {
        for event in next(watch).await {
            if let Event::Added(obj) | Event::Modified(obj) | Event::Deleted(obj) = event {
                return shown(&obj);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn objects_come_in_the_version_that_was_asked_for() {
    for over_http in [false, true] {
        let cluster = TestCluster::simulated(1).await;
        let client = clients(&cluster)[usize::from(over_http)].clone();
        define(&cluster, &*client, definition("v1", "Namespaced", None)).await;
        let options = WriteOptions::default();
        let plain = |version: &str| (format!("example.io/{version}"), r#"{"name":"a"}"#.to_owned());

        let made = client.create(V2.within("default"), gear("a"), options).await.unwrap();
        assert_eq!(shown(&made), plain("v2"), "the answer of a write");
        for (resource, version) in [(&V1, "v1"), (&V2, "v2")] {
            assert_eq!(shown(&client.get(resource.of(&made)).await.unwrap()), plain(version));
            let list = client.list(resource.everywhere(), ListOptions::default()).await.unwrap();
            assert_eq!(list.items.iter().map(|obj| shown(obj)).collect::<Vec<_>>(), [plain(version)]);
            let state = WatchOptions { initial_events: true, ..WatchOptions::default() };
            let mut watch = client.watch(resource.everywhere(), state).await.unwrap();
            assert_eq!(next_object(&mut *watch).await, plain(version), "the state");
            let label = Patch::Merge(value(json!({"metadata": {"labels": {"seen": version}}})));
            let patched = client.patch(resource.of(&made), label, options).await.unwrap();
            assert_eq!(shown(&patched), plain(version));
            assert_eq!(next_object(&mut *watch).await, plain(version), "a change");
            let other = client.create(resource.within("default"), gear("b"), options).await.unwrap();
            client.delete(resource.of(&other), Default::default()).await.unwrap();
            let deleted = async {
                loop {
                    for event in next(&mut *watch).await {
                        if let Event::Deleted(obj) = event {
                            return shown(&obj).0;
                        }
                    }
                }
            };
            assert_eq!(deleted.await, plain(version).0, "a deletion");
        }
        cluster.shutdown().await;
    }
}

/// Or two controllers that agree would keep each other busy for ever.
#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_none_in_any_version() {
    let cluster = TestCluster::simulated(8).await;
    for client in clients(&cluster) {
        if client.get(CUSTOM_RESOURCE_DEFINITIONS.at("", "gears.example.io")).await.is_err() {
            define(&cluster, &*client, definition("v1", "Namespaced", None)).await;
            client.create(V1.within("default"), gear("a"), WriteOptions::default()).await.unwrap();
        }
        for resource in [&V1, &V2] {
            let (target, options) = (resource.at("default", "a"), WriteOptions::default());
            let seen = || Patch::Merge(value(json!({"status": {"seen": true}})));
            client.patch(target.sub("status"), seen(), options).await.unwrap();
            let label = || Patch::Merge(value(json!({"metadata": {"labels": {"b": "1", "a": "2"}}})));
            let first = client.patch(target, label(), options).await.unwrap();
            for again in [
                client.patch(target.sub("status"), seen(), options).await.unwrap(),
                client.patch(target, label(), options).await.unwrap(),
                client.update(target, tree(&first), options).await.unwrap(),
            ] {
                assert_eq!(again.revision(), first.revision(), "{}", resource.version);
            }
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_stored_under_an_older_definition_comes_as_the_new_one_has_it() {
    let cluster = TestCluster::simulated(2).await;
    let [local, http] = clients(&cluster);
    define(&cluster, &*local, definition("v1", "Namespaced", None)).await;
    let made = local.create(V1.within("default"), gear("a"), WriteOptions::default()).await.unwrap();
    // Now with a default, and stored in the other version.
    let spec = definition("v2", "Namespaced", Some(12))["spec"].clone();
    cluster.merge(CRD, json!({"spec": spec})).await.ok(200);
    eventually(&cluster, "the default is served", async || {
        shown(&local.get(V1.of(&made)).await.unwrap()).1.contains("teeth")
    })
    .await;
    for client in [&local, &http] {
        for (resource, version) in [(&V1, "example.io/v1"), (&V2, "example.io/v2")] {
            let wanted = (version.to_owned(), r#"{"name":"a","teeth":12}"#.to_owned());
            let got = client.get(resource.of(&made)).await.unwrap();
            assert_eq!(shown(&got), wanted);
            assert_eq!((got.revision(), got.uid(), got.path()), (made.revision(), made.uid(), made.path()));
            let list = client.list(resource.everywhere(), ListOptions::default()).await.unwrap();
            assert_eq!(shown(&list.items[0]), wanted);
            let state = WatchOptions { initial_events: true, ..WatchOptions::default() };
            let mut watch = client.watch(resource.everywhere(), state).await.unwrap();
            assert_eq!(next_object(&mut *watch).await, wanted);
        }
    }
    // What was read can be written back as it is.
    let body = tree(&local.get(V1.of(&made)).await.unwrap());
    let written = local.update(V1.of(&made), body, WriteOptions::default()).await.unwrap();
    assert_eq!(shown(&written).1, r#"{"name":"a","teeth":12}"#);
    cluster.shutdown().await;
}

/// Built-in objects are the table's own, not copies.
#[tokio::test(start_paused = true)]
async fn objects_that_are_served_as_they_are_stored_are_shared() {
    let cluster = TestCluster::simulated(3).await;
    let [local, _] = clients(&cluster);
    define(&cluster, &*local, definition("v1", "Namespaced", None)).await;
    let made = local.create(V1.within("default"), gear("a"), WriteOptions::default()).await.unwrap();
    for (resource, namespace, name) in
        [(&V1, "default", made.name()), (&client::resources::NAMESPACES, "", "default")]
    {
        let catalog = cluster.catalog();
        let storage = catalog.find_storage(&resource.group, &resource.plural).unwrap();
        let held = cluster.api().registry().table().get(storage.id, &storage.key(namespace, name)).unwrap();
        assert!(Arc::ptr_eq(&held, &local.get(resource.at(namespace, name)).await.unwrap()), "{resource:?}");
    }
    cluster.shutdown().await;
}

/// Marks every object it sees.
struct Marker {
    resource: Gvr,
    client: Arc<dyn Client>,
    marked: Mutex<Vec<String>>,
}

impl Reconcile for Marker {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let target = self.resource.at(request.key.namespace(), request.key.name()).sub("status");
            let seen = Patch::Merge(value(json!({"status": {"seen": true}})));
            match self.client.patch(target, seen, WriteOptions::default()).await {
                Ok(obj) => self.marked.lock().push(obj.uid().to_owned()),
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status.into()),
            }
            Ok(Action::AwaitChange)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_waits_for_its_resource_and_finds_it_again_after_it_was_gone() {
    for over_http in [false, true] {
        let cluster = TestCluster::simulated(4).await;
        let [local, _] = clients(&cluster);
        let client = clients(&cluster)[usize::from(over_http)].clone();
        let (stopper, stop) = Stopper::new();
        let informers = Informers::new(cluster.env().clone(), client.clone(), stop.clone());
        let gears = informers.of(&V2);
        let marker = Arc::new(Marker { resource: V2.clone(), client, marked: Mutex::default() });
        let mut tasks = Controller::new(cluster.env(), "marker").owns_keys_of(&gears).start(
            &Arc::new(ControllerRegistry::default()),
            marker.clone(),
            stop,
        );
        tasks.extend(informers.take_tasks());
        cluster.env().sleep(Duration::from_secs(120)).await;
        assert!(!gears.has_synced(), "there is nothing to see yet");

        for (scope, namespace) in [("Namespaced", "default"), ("Cluster", ""), ("Namespaced", "default")] {
            define(&cluster, &*local, definition("v1", scope, None)).await;
            let begun = cluster.env().monotonic();
            let made = local.create(V1.within(namespace), gear("a"), WriteOptions::default()).await.unwrap();
            eventually(&cluster, "the object is marked", async || {
                marker.marked.lock().contains(&made.uid().to_owned())
            })
            .await;
            assert!(cluster.env().monotonic() - begun < Duration::from_secs(15), "it looks often enough");
            assert_eq!(
                gears.store().get(namespace, "a").map(|obj| shown(&obj).0).as_deref(),
                Some("example.io/v2")
            );
            cluster.delete(CRD).await.ok(200);
            eventually(&cluster, "the definition is gone", async || cluster.get(CRD).await.status == 404)
                .await;
            eventually(&cluster, "the store is empty", async || gears.store().list().is_empty()).await;
        }
        stopper.stop();
        for task in tasks {
            task.await.unwrap();
        }
        cluster.shutdown().await;
    }
}

/// Over any resource, with nothing known of its fields.
#[tokio::test(start_paused = true)]
async fn an_informer_of_metadata_holds_nothing_else() {
    for over_http in [false, true] {
        let cluster = TestCluster::simulated(6).await;
        let [local, _] = clients(&cluster);
        let client = clients(&cluster)[usize::from(over_http)].clone();
        let (stopper, stop) = Stopper::new();
        let informers = Informers::new(cluster.env().clone(), client.clone(), stop);
        // It was there before its resource.
        let gears = informers.metadata_of(&V2);
        define(&cluster, &*local, definition("v1", "Namespaced", None)).await;
        let made = local.create(V1.within("default"), gear("a"), WriteOptions::default()).await.unwrap();
        let metadata = |revision: object::Revision, extra: &str| {
            let (seconds, uid) =
                (tree(&made).str_at(&["metadata", "creationTimestamp"]).unwrap().to_owned(), made.uid());
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {
                "name": "a", "namespace": "default", "uid": uid, "resourceVersion": revision.to_string(),
                "generation": 1, "creationTimestamp": seconds, "labels": {"seen": extra}}})
        };
        let same = |obj: &object::Obj, wanted: &serde_json::Value| {
            let mut found: serde_json::Value = serde_json::from_slice(obj.body()).unwrap();
            found["metadata"].as_object_mut().unwrap().remove("managedFields");
            assert_eq!(found, *wanted, "over HTTP: {over_http}");
        };
        let label = Patch::Merge(value(json!({"metadata": {"labels": {"seen": "once"}}})));
        let patched = client.patch(V2.of(&made).metadata(), label, WriteOptions::default()).await.unwrap();
        let wanted = metadata(patched.revision(), "once");
        same(&patched, &wanted);
        let held = || gears.store().get("default", "a");
        eventually(&cluster, "the change is seen", async || {
            held().is_some_and(|obj| obj.revision() == patched.revision())
        })
        .await;
        let held = held().unwrap();
        same(&held, &wanted);
        assert_eq!(held.label("seen"), Some("once"));
        same(&client.get(V1.of(&made).metadata()).await.unwrap(), &wanted);
        let list = client.list(V1.everywhere().metadata(), ListOptions::default()).await.unwrap();
        same(&list.items[0], &wanted);
        // Written back it would be a gear without a spec: it is none.
        let refused = client.update(V2.of(&made), tree(&held), WriteOptions::default()).await.err().unwrap();
        assert_eq!(refused.code, 400, "{}", refused.message);
        // Built-in resources are served the same way.
        let namespaces = informers.metadata_of(&client::resources::NAMESPACES);
        namespaces.synced().await;
        let found: serde_json::Value =
            serde_json::from_slice(namespaces.store().get("", "default").unwrap().body()).unwrap();
        assert_eq!(found["kind"], "PartialObjectMetadata");
        assert!(found.get("spec").is_none(), "{found}");

        cluster.delete(CRD).await.ok(200);
        eventually(&cluster, "the gear goes", async || gears.store().list().is_empty()).await;
        stopper.stop();
        cluster.shutdown().await;
    }
}

/// A watch of objects tells of the end of each before it ends with the definition.
#[tokio::test(start_paused = true)]
async fn a_watch_tells_that_objects_go_with_their_definition() {
    for over_http in [false, true] {
        let cluster = TestCluster::simulated(7).await;
        let [local, _] = clients(&cluster);
        let client = clients(&cluster)[usize::from(over_http)].clone();
        define(&cluster, &*local, definition("v1", "Namespaced", None)).await;
        let options = WriteOptions::default();
        let mut names: Vec<String> = (0..40).map(|n| format!("gear-{n:02}")).collect();
        for name in &names {
            local.create(V1.within("default"), gear(name), options).await.unwrap();
        }
        let state = WatchOptions { initial_events: true, ..WatchOptions::default() };
        let mut watch = client.watch(V2.everywhere(), state).await.unwrap();
        next_object(&mut *watch).await;
        cluster.delete(CRD).await.ok(200);
        let mut events = Vec::new();
        let end = loop {
            match watch.pull(&mut events).await {
                Ok(true) => {}
                end => break end.map(|_| ()).map_err(|status| status.code),
            }
        };
        assert_eq!(end, Err(410), "a state of the resource does not exist any more");
        let mut gone: Vec<String> = events
            .iter()
            .filter_map(|event| match event {
                Event::Deleted(obj) => Some(obj.name().to_owned()),
                _ => None,
            })
            .collect();
        gone.sort();
        names.sort();
        assert_eq!(gone, names, "over HTTP: {over_http}");
        cluster.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_made_of_what_discovery_says() {
    for over_http in [false, true] {
        let cluster = TestCluster::simulated(5).await;
        let [local, _] = clients(&cluster);
        let client = clients(&cluster)[usize::from(over_http)].clone();
        define(&cluster, &*local, definition("v1", "Namespaced", None)).await;
        local.create(V1.within("default"), gear("a"), WriteOptions::default()).await.unwrap();
        let counted = |catalog: &catalog::Catalog| -> Vec<Gvr> {
            let is_counted = |category: &Name| **category == *"counted";
            let all = catalog.resources().iter().filter(|r| r.categories.iter().any(is_counted));
            all.map(|resource| Gvr::from(&**resource)).collect()
        };
        let found = counted(&client.discover().await.unwrap());
        assert_eq!(found, [V2.clone(), V1.clone()], "over HTTP: {over_http}");
        assert_eq!(counted(&client.catalog()), found, "it is remembered");
        let resource = found[0].find(&client.catalog()).cloned().unwrap();
        assert_eq!((&*resource.kind, resource.namespaced), ("Gear", true));
        assert!(resource.subresource("status").is_some());

        let (stopper, stop) = Stopper::new();
        let informers = Informers::new(cluster.env().clone(), client.clone(), stop);
        let gears = informers.of(&found[0]);
        gears.synced().await;
        assert_eq!(gears.store().list().len(), 1);
        stopper.stop();

        cluster.delete(CRD).await.ok(200);
        eventually(&cluster, "it is not served any more", async || {
            counted(&client.discover().await.unwrap()).is_empty()
        })
        .await;
        cluster.shutdown().await;
    }
}
