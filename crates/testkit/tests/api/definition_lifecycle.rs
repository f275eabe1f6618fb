//! What goes wrong with definitions of custom resources: deleted under load, recreated, changed while they are used, without a
//! served version, with names that are taken, a thousand of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use catalog::Catalog;
use env::Env;
use object::{FieldValidation, WriteOptions};
use registry::RequestContext;
use serde_json::{Value, json};
use store::{DiskEngine, DiskOptions};
use table::Table;
use testkit::{TestCluster, admin};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobs.load.io";
const PATH: &str = "/apis/load.io/v1/namespaces/default/jobs";

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}}})
}

fn crd() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.load.io"},
        "spec": {"group": "load.io", "scope": "Namespaced",
            "names": {"plural": "jobs", "singular": "job", "kind": "Job"},
            "versions": [version("v1", true)]}})
}

fn job(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "load.io/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
}

async fn until(cluster: &TestCluster, path: &str, code: u16) -> Value {
    for _ in 0..20_000 {
        let answer = cluster.get(path).await;
        if answer.status == code {
            return answer.json();
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    panic!("{path} never answers {code}: {}", cluster.get(path).await.text());
}

async fn defined() -> TestCluster {
    let cluster = TestCluster::start().await;
    cluster.post(CRDS, crd()).await.ok(201);
    until(&cluster, PATH, 200).await;
    cluster
}

async fn redefine(cluster: &TestCluster, change: impl Fn(&mut Value)) {
    cluster.redefine(CRD, change).await;
}

fn condition<'a>(crd: &'a Value, kind: &str) -> &'a Value {
    let conditions = crd["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|c| c["type"] == kind)).unwrap_or(&Value::Null)
}

/// Writers create objects all the while: each is created and deleted with the definition, or refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_definition_deleted_under_load_leaves_no_object() {
    let cluster = Arc::new(defined().await);
    let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for round in 0..4 {
        let mut writers = Vec::new();
        for writer in 0..4 {
            let (cluster, stop, made) = (cluster.clone(), stop.clone(), made.clone());
            writers.push(cluster.env().clone().spawn("writer", async move {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let answer =
                        cluster.post(PATH, job(&format!("r{round}-w{writer}-{number}"), json!({}))).await;
                    match answer.status {
                        201 => _ = made.fetch_add(1, Ordering::Relaxed),
                        403 => {
                            assert!(answer.text().contains(
                                "create not allowed while custom resource definition is terminating"
                            ))
                        }
                        404 | 503 => {}
                        other => panic!("{other}: {}", answer.text()),
                    }
                    tokio::task::yield_now().await;
                }
            }));
        }
        let before = made.load(Ordering::Relaxed);
        while made.load(Ordering::Relaxed) < before + 200 {
            cluster.env().sleep(Duration::from_millis(1)).await;
        }
        cluster.delete(CRD).await.ok(200);
        until(&cluster, CRD, 404).await;
        // Nothing that was stored under it shows up under the next of its name.
        let mut next = crd();
        next["spec"]["versions"][0]["name"] = json!(if round % 2 == 0 { "v2" } else { "v1" });
        stop.store(round % 2 == 0, Ordering::Relaxed);
        if round % 2 == 0 {
            for writer in writers.drain(..) {
                writer.await.unwrap();
            }
            cluster.post(CRDS, next).await.ok(201);
            let list = until(&cluster, &PATH.replace("/v1/", "/v2/"), 200).await;
            assert_eq!(list["items"], json!([]), "round {round}");
            cluster.delete(CRD).await.ok(200);
            until(&cluster, CRD, 404).await;
            cluster.post(CRDS, crd()).await.ok(201);
            until(&cluster, PATH, 200).await;
            stop.store(false, Ordering::Relaxed);
        } else {
            // Recreated at once, with the writers still at it: only what is created from now on is there.
            let made = cluster.post(CRDS, next).await.ok(201);
            let list = until(&cluster, PATH, 200).await;
            let since = made["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
            for item in list["items"].as_array().unwrap() {
                let version = item["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
                assert!(version > since, "{item}");
            }
            stop.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.await.unwrap();
            }
            stop.store(false, Ordering::Relaxed);
        }
    }
}

/// A request that began under a definition that is gone by now, as it is on a server that has not seen the deletion.
#[tokio::test]
async fn a_create_under_a_definition_that_is_gone_is_refused() {
    let cluster = defined().await;
    let (catalog, user) = (cluster.catalog(), admin());
    let resource = catalog.find("load.io", "v1", "jobs").unwrap().clone();
    let registry = cluster.api().registry();
    let late = async |name: &str| {
        let request = RequestContext {
            user: &user,
            user_agent: "",
            verb: catalog::Verbs::CREATE,
            catalog: &catalog,
            resource: &resource,
            subresource: None,
            namespace: "default",
            name: "",
            options: WriteOptions { field_validation: FieldValidation::Ignore, ..WriteOptions::default() },
            deadline: cluster.env().monotonic() + Duration::from_secs(60),
            fence: None,
            trace: None,
            seats: None,
        };
        let body = codec::json::parse(job(name, json!({})).to_string().as_bytes(), None).unwrap();
        let copy = body.clone();
        let made = registry.create(&request, body, &|| Ok(copy.clone())).await;
        made.map(|_| ()).map_err(|status| (status.code, status.message))
    };
    assert_eq!(late("before").await, Ok(()));
    let held = json!({"metadata": {"finalizers": ["load.io/hold"]}});
    cluster.merge(format!("{PATH}/before"), held).await.ok(200);
    cluster.delete(CRD).await.ok(200);
    let (code, why) = late("during").await.unwrap_err();
    assert_eq!(code, 403);
    assert_eq!(
        why,
        "jobs.load.io \"during\" is forbidden: create not allowed while custom resource definition is terminating"
    );
    cluster.merge(format!("{PATH}/before"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    until(&cluster, CRD, 404).await;
    let (code, why) = late("after").await.unwrap_err();
    assert_eq!(code, 503, "{why}");
    cluster.post(CRDS, crd()).await.ok(201);
    assert_eq!(until(&cluster, PATH, 200).await["items"], json!([]));
    assert_eq!(late("under-another").await.unwrap_err().0, 503);
}

#[tokio::test]
async fn watches_of_a_definition_that_goes_see_its_objects_go_and_end() {
    let cluster = defined().await;
    cluster.post(PATH, job("a", json!({"size": 1}))).await.ok(201);
    let mut watch = cluster.watch(format!("{PATH}?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    let mut held = job("held", json!({}));
    held["metadata"]["finalizers"] = json!(["load.io/hold"]);
    let mut others =
        cluster.watch(format!("{PATH}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dheld")).await;
    cluster.post(PATH, held).await.ok(201);
    assert_eq!(others.next().await.unwrap()["type"], "ADDED");
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    cluster.delete(CRD).await.ok(200);
    until(&cluster, &format!("{PATH}/a"), 404).await;
    // While it waits for the last one, discovery leaves out what is no longer possible.
    let resources = cluster.get("/apis/load.io/v1").await.ok(200);
    assert_eq!(
        resources["resources"][0]["verbs"],
        json!(["delete", "deletecollection", "get", "list", "watch"])
    );
    cluster.merge(format!("{PATH}/held"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    until(&cluster, CRD, 404).await;
    let mut next = crd();
    next["spec"]["scope"] = json!("Cluster");
    next["spec"]["versions"] = json!([version("v1", false), version("v2", true)]);
    cluster.post(CRDS, next).await.ok(201);
    let list = until(&cluster, "/apis/load.io/v1/jobs", 200).await;
    assert_eq!(list["items"], json!([]));
    cluster.post("/apis/load.io/v1/jobs", job("b", json!({}))).await.ok(201);
    // The old watch: its last events, then 410, so that its client lists again. Never an object of the new definition.
    let rest = watch.rest().await;
    let shown: Vec<_> =
        rest.iter().map(|event| (&event["type"], &event["object"]["metadata"]["name"])).collect();
    let (a, held) = (json!("a"), json!("held"));
    let [deleted, modified] = [json!("DELETED"), json!("MODIFIED")];
    assert_eq!(
        shown,
        [(&deleted, &a), (&modified, &held), (&deleted, &held), (&json!("ERROR"), &Value::Null)]
    );
    assert_eq!(rest[3]["object"]["code"], 410);
}

#[tokio::test]
async fn without_a_served_version_it_still_takes_its_objects_along() {
    let cluster = defined().await;
    cluster.post(PATH, job("a", json!({"size": 1}))).await.ok(201);
    redefine(&cluster, |spec| spec["versions"][0]["served"] = json!(false)).await;
    assert_eq!(cluster.get(PATH).await.status, 404);
    cluster.delete(CRD).await.ok(200);
    until(&cluster, CRD, 404).await;
    cluster.post(CRDS, crd()).await.ok(201);
    assert_eq!(until(&cluster, PATH, 200).await["items"], json!([]));
}

/// Deleting one definition takes long; that holds up no other.
#[tokio::test]
async fn a_deletion_that_waits_holds_up_no_other() {
    let cluster = defined().await;
    let mut held = job("held", json!({}));
    held["metadata"]["finalizers"] = json!(["load.io/hold"]);
    cluster.post(PATH, held).await.ok(201);
    cluster.delete(CRD).await.ok(200);
    let mut other = crd();
    other["metadata"]["name"] = json!("others.load.io");
    other["spec"]["names"] = json!({"plural": "others", "singular": "other", "kind": "Other"});
    cluster.post(CRDS, other).await.ok(201);
    until(&cluster, &PATH.replace("jobs", "others"), 200).await;
    cluster.delete(format!("{CRDS}/others.load.io")).await.ok(200);
    until(&cluster, &format!("{CRDS}/others.load.io"), 404).await;
    let waiting = cluster.get(CRD).await.ok(200);
    assert_eq!(condition(&waiting, "Terminating")["reason"], "InstanceDeletionInProgress");
    cluster.merge(format!("{PATH}/held"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    until(&cluster, CRD, 404).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_do_not_go_are_told_in_the_status() {
    let cluster = TestCluster::simulated(16).await;
    cluster.post(CRDS, crd()).await.ok(201);
    until(&cluster, PATH, 200).await;
    let mut held = job("held", json!({}));
    held["metadata"]["finalizers"] = json!(["load.io/hold"]);
    cluster.post(PATH, held).await.ok(201);
    cluster.delete(CRD).await.ok(200);
    cluster.env().sleep(Duration::from_secs(70)).await;
    let told = cluster.get(CRD).await.ok(200);
    let terminating = condition(&told, "Terminating");
    assert_eq!(
        (&terminating["status"], &terminating["reason"]),
        (&json!("True"), &json!("InstanceDeletionCheck"))
    );
    assert_eq!(
        terminating["message"],
        "could not confirm zero CustomResources remaining: context deadline exceeded"
    );
    cluster.merge(format!("{PATH}/held"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    until(&cluster, CRD, 404).await;
}

#[tokio::test]
async fn names_that_become_free_are_given_to_who_waits_for_them() {
    let cluster = defined().await;
    let mut other = crd();
    other["metadata"]["name"] = json!("tasks.load.io");
    other["spec"]["names"] =
        json!({"plural": "tasks", "singular": "task", "kind": "Job", "listKind": "TaskList"});
    cluster.post(CRDS, other).await.ok(201);
    let path = format!("{CRDS}/tasks.load.io");
    let waits = async || {
        let crd = cluster.get(&*path).await.ok(200);
        condition(&crd, "NamesAccepted")["status"] == "False"
    };
    cluster.until("the names are refused", waits).await;
    let refused = cluster.get(&*path).await.ok(200);
    assert_eq!(condition(&refused, "NamesAccepted")["message"], "\"Job\" is already in use");
    assert_eq!(cluster.get(PATH.replace("jobs", "tasks")).await.status, 404);
    cluster.delete(CRD).await.ok(200);
    until(&cluster, &PATH.replace("jobs", "tasks"), 200).await;
}

#[tokio::test]
async fn an_object_that_no_longer_fits_is_read_and_may_stay_as_it_is() {
    let cluster = defined().await;
    let made = cluster.post(PATH, job("a", json!({"size": 5, "color": "red"}))).await.ok(201);
    redefine(&cluster, |spec| {
        let properties =
            &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        properties["size"] = json!({"type": "integer", "maximum": 3});
        properties["color"] = json!({"type": "string", "enum": ["blue", "green"]});
    })
    .await;
    let here = format!("{PATH}/a");
    assert_eq!(cluster.get(&*here).await.ok(200)["spec"], made["spec"]);
    assert_eq!(cluster.get(PATH).await.ok(200)["items"][0]["spec"], made["spec"]);
    // What is not changed need not fit: the rest may be, and the status.
    let status = cluster.merge(format!("{here}/status"), json!({"status": {"phase": "Up"}})).await.ok(200);
    assert_eq!(status["status"]["phase"], "Up");
    cluster.merge(&*here, json!({"metadata": {"labels": {"a": "b"}}})).await.ok(200);
    let better = cluster.merge(&*here, json!({"spec": {"size": 2}})).await.ok(200);
    assert_eq!(better["spec"], json!({"size": 2, "color": "red"}));
    let worse = cluster.merge(&*here, json!({"spec": {"size": 4}})).await;
    assert_eq!(worse.status, 422, "{}", worse.text());
    assert!(worse.text().contains("spec.size in body should be less than or equal to 3"), "{}", worse.text());
    let new = cluster.post(PATH, job("b", json!({"color": "red"}))).await;
    assert!(
        new.text().contains("Unsupported value: \\\"red\\\": supported values: \\\"blue\\\", \\\"green\\\""),
        "{}",
        new.text()
    );
    cluster.delete(&*here).await.ok(200);
}

/// After a change of the schema, what is stored before is not trusted; what is written under it is, once the last request of the
/// definition before has ended.
#[tokio::test]
async fn a_changed_schema_ends_watches_and_is_trusted_again() {
    let cluster = defined().await;
    cluster.post(PATH, job("a", json!({"size": 5}))).await.ok(201);
    let mut watch = cluster.watch(format!("{PATH}?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    for round in 0..3 {
        redefine(&cluster, |spec| {
            let properties =
                &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
            properties["color"] = json!({"type": "string", "default": format!("color-{round}")});
        })
        .await;
        let end = watch.next().await.unwrap();
        assert_eq!((&end["type"], &end["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(watch.next().await, None);
        watch = cluster.watch(format!("{PATH}?watch=1&resourceVersion=0")).await;
        assert_eq!(
            watch.next().await.unwrap()["object"]["spec"],
            json!({"size": 5, "color": format!("color-{round}")})
        );
        for before in 0..round {
            assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], format!("b{before}"));
        }
        let trusts = async || {
            let catalog = cluster.catalog();
            let storage = catalog.find_storage("load.io", "jobs").unwrap();
            let now = cluster.api().registry().table().revision().0;
            storage.verified.contains(now + 1)
        };
        cluster.until("writes under the new schema are trusted", trusts).await;
        let made = cluster.post(PATH, job(&format!("b{round}"), json!({"size": 1}))).await.ok(201);
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &made));
    }
}

#[tokio::test]
async fn a_restart_serves_a_thousand_definitions_at_once() {
    const COUNT: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let env = Env::machine();
        let table = Table::new(Arc::new(Catalog::builtin()), env.clone());
        let engine = DiskEngine::open(folder.path(), table.clone(), DiskOptions::default()).unwrap();
        TestCluster::with(env, |config| (config.table, config.engine) = (table, engine)).await
    };
    let cluster = start().await;
    let many = |number: usize| {
        let mut crd = crd();
        let plural = format!("t{number}s");
        crd["metadata"]["name"] = json!(format!("{plural}.many{}.io", number % 10));
        crd["spec"]["group"] = json!(format!("many{}.io", number % 10));
        crd["spec"]["names"] =
            json!({"plural": plural, "singular": format!("t{number}"), "kind": format!("T{number}")});
        crd
    };
    let path = |number: usize| format!("/apis/many{}.io/v1/namespaces/default/t{number}s", number % 10);
    for chunk in (0..COUNT).collect::<Vec<_>>().chunks(50) {
        let made = chunk.iter().map(|number| cluster.post(CRDS, many(*number)));
        for made in futures_util::future::join_all(made).await {
            made.ok(201);
        }
    }
    until(&cluster, &path(COUNT - 1), 200).await;
    let body =
        json!({"apiVersion": "many7.io/v1", "kind": "T7", "metadata": {"name": "a"}, "spec": {"size": 1}});
    let made = cluster.post(path(7), body).await.ok(201);
    cluster.shutdown().await;

    let cluster = start().await;
    // At once: nobody waits for a controller to define them again.
    for number in 0..COUNT {
        let list = cluster.get(path(number)).await;
        assert_eq!(list.status, 200, "{number}: {}", list.text());
    }
    assert_eq!(cluster.get(format!("{}/a", path(7))).await.ok(200), made);
    let groups = cluster.get("/apis").await.ok(200);
    let many = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|g| g["name"].as_str().unwrap().starts_with("many"));
    assert_eq!(many.count(), 10);
    cluster.shutdown().await;
}
