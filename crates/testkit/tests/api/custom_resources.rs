//! CustomResourceDefinitions and their objects: served as built-in resources are, from the moment the definition is established.

use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use env::Env;
use serde_json::{Value, json};
use store::{DiskEngine, DiskOptions};
use table::Table;
use testkit::TestCluster;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.io";
const PATH: &str = "/apis/example.io/v1/namespaces/default/widgets";

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "color": {"type": "string", "default": "red"},
            "size": {"type": "integer", "minimum": 1},
            "replicas": {"type": "integer"},
            "note": {"type": "string", "nullable": true},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer", "default": 1}}}}}},
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}}}}})
}

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema()},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]})
}

fn crd(versions: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": versions}})
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Waits until a path answers with that code.
async fn until(cluster: &TestCluster, path: &str, code: u16) -> Value {
    for _ in 0..2000 {
        let answer = cluster.get(path).await;
        if answer.status == code {
            return answer.json();
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    panic!("{path} never answers {code}");
}

async fn defined(versions: Value) -> TestCluster {
    let cluster = TestCluster::start().await;
    let made = cluster.post(CRDS, crd(versions)).await.ok(201);
    assert_eq!(made["status"]["storedVersions"].as_array().map(Vec::len), Some(1), "{made}");
    until(&cluster, PATH, 200).await;
    cluster
}

fn condition<'a>(crd: &'a Value, kind: &str) -> &'a str {
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|c| c["type"] == kind);
    found.map_or("absent", |c| c["status"].as_str().unwrap())
}

#[tokio::test]
async fn a_definition_is_established_and_listed_in_discovery() {
    let cluster = defined(json!([version("v1", true)])).await;
    let crd = cluster.get(CRD).await.ok(200);
    assert_eq!((condition(&crd, "NamesAccepted"), condition(&crd, "Established")), ("True", "True"));
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "WidgetList");
    let group = cluster.get("/apis/example.io").await.ok(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = cluster.get("/apis/example.io/v1").await.ok(200);
    let names: Vec<_> =
        resources["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let cluster = defined(json!([version("v1", true)])).await;
    let made = cluster
        .post(
            PATH,
            widget(
                "a",
                json!({"size": 3, "unknown": 1, "port": "http", "note": null, "free": {"x": [1]},
            "parts": [{"name": "p"}]}),
            ),
        )
        .await
        .ok(201);
    let spec = json!({"color": "red", "size": 3, "port": "http", "note": null, "free": {"x": [1]},
        "parts": [{"name": "p", "count": 1}]});
    assert_eq!((&made["spec"], &made["metadata"]["generation"]), (&spec, &json!(1)));

    let refused = |name: &'static str, spec: Value| {
        let cluster = &cluster;
        async move {
            let answer = cluster.post(PATH, widget(name, spec)).await;
            assert_eq!(answer.status, 422, "{}", answer.text());
            answer.json()["message"].as_str().unwrap().to_owned()
        }
    };
    assert_eq!(
        refused("b", json!({"size": 0})).await,
        "Widget.example.io \"b\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    assert_eq!(
        refused("b", json!({"color": 1})).await,
        "Widget.example.io \"b\" is invalid: spec.color: Invalid value: \"integer\": spec.color in body must be of type string: \"integer\""
    );
    let twice = refused("b", json!({"parts": [{"name": "p"}, {"name": "p"}]})).await;
    assert!(twice.contains("spec.parts[1]: Duplicate value: {\"name\":\"p\"}"), "{twice}");
    let strict = cluster.post(format!("{PATH}?fieldValidation=Strict"), widget("b", json!({"sz": 1}))).await;
    assert_eq!(strict.status, 400);
    assert!(strict.text().contains("unknown field \\\"spec.sz\\\""), "{}", strict.text());
    let kindless = cluster.post(PATH, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(kindless.status, 400);
    assert!(kindless.text().contains("Object 'Kind' is missing in"), "{}", kindless.text());
}

#[tokio::test]
async fn status_and_scale_are_written_apart() {
    let cluster = defined(json!([version("v1", true)])).await;
    let made = widget("a", json!({"replicas": 2}));
    cluster.post(PATH, made).await.ok(201);
    let status =
        json!({"status": {"phase": "Up", "replicas": 2, "selector": "a=b"}, "spec": {"replicas": 9}});
    let written = cluster.merge(format!("{PATH}/a/status"), status).await.ok(200);
    assert_eq!((&written["spec"]["replicas"], &written["metadata"]["generation"]), (&json!(2), &json!(1)));
    let spec = json!({"status": {"phase": "Down"}, "spec": {"size": 4}});
    let written = cluster.merge(format!("{PATH}/a"), spec).await.ok(200);
    assert_eq!((&written["status"]["phase"], &written["metadata"]["generation"]), (&json!("Up"), &json!(2)));
    let scale = cluster.get(format!("{PATH}/a/scale")).await.ok(200);
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 2, "selector": "a=b"}))
    );
    let scaled = cluster.merge(format!("{PATH}/a/scale"), json!({"spec": {"replicas": 5}})).await.ok(200);
    assert_eq!(scaled["spec"]["replicas"], 5);
    assert_eq!(cluster.get(format!("{PATH}/a")).await.ok(200)["spec"]["replicas"], 5);
}

#[tokio::test]
async fn lists_watches_and_tables_are_those_of_any_resource() {
    let cluster = defined(json!([version("v1", true)])).await;
    let mut watch = cluster.watch(format!("{PATH}?watch=1&resourceVersion=0&timeoutSeconds=60")).await;
    for (name, color) in [("a", "blue"), ("b", "green"), ("c", "blue")] {
        cluster.post(PATH, widget(name, json!({"color": color}))).await.ok(201);
        let event = watch.next().await.expect("an event");
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
    let blue = cluster.get(format!("{PATH}?fieldSelector=spec.color%3Dblue")).await.ok(200);
    assert_eq!(
        (blue["kind"].as_str(), blue["items"].as_array().map(Vec::len)),
        (Some("WidgetList"), Some(2))
    );
    assert_eq!(blue["items"][0]["kind"], "Widget");
    let page = cluster.get(format!("{PATH}?limit=2")).await.ok(200);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let unknown = cluster.get(format!("{PATH}?fieldSelector=spec.size%3D1")).await;
    assert_eq!(
        (unknown.status, unknown.json()["message"].as_str()),
        (400, Some("field label not supported: spec.size"))
    );
}

#[tokio::test]
async fn versions_share_their_objects_and_the_storage_version_may_move() {
    let cluster = defined(json!([version("v1", true), version("v2", false)])).await;
    let second = PATH.replace("/v1/", "/v2/");
    let made = cluster.post(PATH, widget("a", json!({"size": 2}))).await.ok(201);
    let served = cluster.get(format!("{second}/a")).await.ok(200);
    assert_eq!(
        (&served["apiVersion"], &served["metadata"]["uid"]),
        (&json!("example.io/v2"), &made["metadata"]["uid"])
    );

    // The other version becomes the stored one, with a field less and another default.
    let mut changed = cluster.get(CRD).await.ok(200);
    let mut v2 = version("v2", true);
    // As upstream: the same selectable fields in all versions need the same schema.
    v2.as_object_mut().unwrap().remove("selectableFields");
    let properties =
        v2["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].as_object_mut().unwrap();
    properties.remove("size");
    properties.insert("mode".to_owned(), json!({"type": "string", "default": "auto"}));
    changed["spec"]["versions"] = json!([version("v1", false), v2]);
    let put = cluster.put(CRD, changed).await.ok(200);
    assert_eq!(put["status"]["storedVersions"], json!(["v1", "v2"]));
    for _ in 0..2000 {
        let spec = cluster.get(format!("{second}/a")).await.ok(200)["spec"].clone();
        // Upstream fills in the defaults of the version an object is stored in, and prunes by the one it is read in.
        if spec == json!({"color": "red"}) {
            break;
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(cluster.get(format!("{second}/a")).await.ok(200)["spec"], json!({"color": "red"}));
    assert_eq!(cluster.get(format!("{PATH}/a")).await.ok(200)["spec"], json!({"color": "red", "size": 2}));
    // Writing it back unchanged moves it to the new storage version.
    let before = cluster.get(format!("{second}/a")).await.ok(200);
    let after = cluster.put(format!("{second}/a"), before.clone()).await.ok(200);
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(
        cluster.get(format!("{second}/a")).await.ok(200)["spec"],
        json!({"color": "red", "mode": "auto"})
    );
    let again = cluster.put(format!("{second}/a"), after.clone()).await.ok(200);
    assert_eq!(again["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_with_it() {
    let cluster = defined(json!([version("v1", true)])).await;
    cluster.post(PATH, widget("a", json!({}))).await.ok(201);
    let held = json!({"apiVersion": "example.io/v1", "kind": "Widget",
        "metadata": {"name": "held", "finalizers": ["example.io/hold"]}});
    cluster.post(PATH, held).await.ok(201);
    let deleted = cluster.delete(CRD).await.ok(200);
    assert_eq!(condition(&deleted, "Terminating"), "True", "{deleted}");
    until(&cluster, &format!("{PATH}/a"), 404).await;
    let refused = cluster.post(PATH, widget("late", json!({}))).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(cluster.get(CRD).await.status, 200, "it waits for the last object");
    cluster.merge(format!("{PATH}/held"), json!({"metadata": {"finalizers": []}})).await.ok(200);
    until(&cluster, CRD, 404).await;
    until(&cluster, PATH, 404).await;
    // Again, with another scope: nothing of the first is left.
    let mut other = crd(json!([version("v1", true)]));
    other["spec"]["scope"] = json!("Cluster");
    cluster.post(CRDS, other).await.ok(201);
    let list = until(&cluster, "/apis/example.io/v1/widgets", 200).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn a_deleted_definition_that_others_hold_says_that_its_objects_are_gone() {
    let cluster = defined(json!([version("v1", true)])).await;
    let hold = json!({"metadata": {"finalizers": ["customresourcecleanup.apiextensions.k8s.io", "example.io/hold"]}});
    cluster.merge(CRD, hold).await.ok(200);
    cluster.delete(CRD).await.ok(200);
    let mut crd = cluster.get(CRD).await.ok(200);
    while condition(&crd, "Terminating") == "True" {
        cluster.env().sleep(Duration::from_millis(1)).await;
        crd = cluster.get(CRD).await.ok(200);
    }
    assert_eq!(crd["metadata"]["finalizers"], json!(["example.io/hold"]));
    let said = crd["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Terminating");
    assert_eq!(said.unwrap()["message"], "removed all instances");
    cluster.merge(CRD, json!({"metadata": {"finalizers": null}})).await.ok(200);
    until(&cluster, CRD, 404).await;
}

#[tokio::test]
async fn a_definition_with_names_in_conflict_is_not_served() {
    let cluster = defined(json!([version("v1", true)])).await;
    let mut other = crd(json!([version("v1", true)]));
    other["metadata"]["name"] = json!("gadgets.example.io");
    other["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget", "shortNames": ["wd"]});
    cluster.post(CRDS, other).await.ok(201);
    let path = format!("{CRDS}/gadgets.example.io");
    for _ in 0..2000 {
        let crd = cluster.get(&*path).await.ok(200);
        if crd["status"]["conditions"].as_array().is_some_and(|c| !c.is_empty()) {
            break;
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    let crd = cluster.get(&*path).await.ok(200);
    assert_eq!(
        (condition(&crd, "NamesAccepted"), condition(&crd, "Established")),
        ("False", "False"),
        "{crd}"
    );
    assert_eq!(cluster.get(PATH.replace("widgets", "gadgets")).await.status, 404);
    // Whoever has the names gives them up.
    cluster.delete(CRD).await.ok(200);
    until(&cluster, &PATH.replace("widgets", "gadgets"), 200).await;
    let crd = cluster.get(&*path).await.ok(200);
    assert_eq!((condition(&crd, "NamesAccepted"), condition(&crd, "Established")), ("True", "True"), "{crd}");
}

#[tokio::test]
async fn of_definitions_made_at_once_one_gets_the_names() {
    let cluster = TestCluster::start().await;
    for number in 0..20 {
        let mut crd = crd(json!([version("v1", true)]));
        crd["metadata"]["name"] = json!(format!("widgets{number}.example.io"));
        crd["spec"]["names"] = json!({"plural": format!("widgets{number}"), "kind": "Widget"});
        cluster.post(CRDS, crd).await.ok(201);
    }
    let mut accepted = 0;
    for number in 0..20 {
        let path = format!("{CRDS}/widgets{number}.example.io");
        let mut crd = cluster.get(&*path).await.ok(200);
        while crd["status"]["conditions"].as_array().is_none_or(|c| c.is_empty()) {
            cluster.env().sleep(Duration::from_millis(1)).await;
            crd = cluster.get(&*path).await.ok(200);
        }
        accepted += usize::from(condition(&crd, "NamesAccepted") == "True");
    }
    assert_eq!(accepted, 1);
}

#[tokio::test]
async fn a_name_in_conflict_is_accepted_when_the_other_definition_goes() {
    let cluster = defined(json!([version("v1", true)])).await;
    let mut gadgets = crd(json!([version("v1", true)]));
    gadgets["metadata"]["name"] = json!("gadgets.example.io");
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget", "shortNames": ["wd"]});
    cluster.post(CRDS, gadgets).await.ok(201);
    let path = "/apis/example.io/v1/namespaces/default/gadgets";
    assert_eq!(cluster.get(path).await.status, 404);
    cluster.delete(CRD).await.ok(200);
    until(&cluster, path, 200).await;
}

#[tokio::test]
async fn what_is_stored_has_the_defaults_of_its_version() {
    let schema = |spec: Value| {
        json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "default": {"phase": "Pending"}, "properties": {"phase": {"type": "string"}}}}}})
    };
    let versions = json!([
        {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": schema(json!({"a": {"type": "string"}, "n": {"type": "integer", "default": 1}}))},
        {"name": "v2", "served": true, "storage": false, "subresources": {"status": {}},
            "schema": schema(json!({"a": {"type": "string"}, "old": {"type": "string", "default": "o"}}))}]);
    let cluster = defined(versions).await;
    let mut one = widget("one", json!({"a": "x"}));
    one["status"] = json!({"phase": "Dropped"});
    let made = cluster.post(PATH, one).await.ok(201);
    assert_eq!(made["status"], json!({"phase": "Pending"}));
    let mut two = widget("two", json!({"a": "x", "old": "y"}));
    two["apiVersion"] = json!("example.io/v2");
    let other = PATH.replace("/v1/", "/v2/");
    // What the stored version has no field for is lost at once, in a dry run too.
    let mut named = two.clone();
    named["metadata"]["resourceVersion"] = json!("5");
    let shown = cluster.post(&format!("{other}?dryRun=All"), named).await.ok(201);
    assert_eq!(shown["spec"], json!({"a": "x"}));
    let made = cluster.post(&other, two).await.ok(201);
    assert_eq!(made["spec"], json!({"a": "x"}));
    let read = cluster.get(&format!("{PATH}/two")).await.ok(200);
    assert_eq!(read["spec"], json!({"a": "x", "n": 1}));
}

#[tokio::test]
async fn paths_and_bodies_are_refused_in_upstreams_words() {
    let cluster = defined(json!([version("v1", true)])).await;
    cluster.post(PATH, widget("a", json!({}))).await.ok(201);
    let one = format!("{PATH}/a");
    let said =
        |answer: testkit::Reply| (answer.status, answer.json()["message"].as_str().unwrap_or("").to_owned());
    // The path's name is not looked at.
    assert_eq!(cluster.post(&one, widget("b", json!({}))).await.status, 201);
    let (code, message) = said(cluster.post(&format!("{one}/status"), widget("a", json!({}))).await);
    assert_eq!(
        (code, &*message),
        (405, "create is not supported on resources of kind \"widgets.example.io\"")
    );
    let (code, message) = said(cluster.put(PATH, widget("a", json!({}))).await);
    assert_eq!((code, &*message), (400, "name must be provided"));
    for kind in ["application/strategic-merge-patch+json", "application/nonsense"] {
        for path in [&one, &format!("{one}/scale")] {
            let answer = cluster.request("PATCH", path).typed(kind, "{}").send().await;
            let (code, message) = said(answer);
            assert!(
                code == 415 && message.ends_with("merge-patch+json, application/apply-patch+yaml"),
                "{message}"
            );
        }
    }
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": "x"}});
    let (code, message) = said(cluster.put(&format!("{one}/scale"), scale).await);
    assert!(code == 400 && message.starts_with("no kind is registered for the type v1.Scale"), "{message}");
    assert!(cluster.get("/apis/example.io/v9").await.content_type().starts_with("text/plain"));
    let mut nameless = widget("c", json!({}));
    nameless["apiVersion"] = Value::Null;
    let (code, message) = said(cluster.post(PATH, nameless).await);
    assert!(code == 400 && message.contains(".apiVersion accessor error"), "{message}");
    let merge =
        cluster.request("PATCH", &one).typed("application/merge-patch+json", r#"{"kind":null}"#).send().await;
    let (code, message) = said(merge);
    assert!(code == 422 && message.contains("Object 'Kind' is missing in '{\"apiVersion\""), "{message}");
}

#[tokio::test]
async fn definitions_and_objects_are_there_at_once_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let env = Env::machine();
        let table = Table::new(Arc::new(Catalog::builtin()), env.clone());
        let engine = DiskEngine::open(folder.path(), table.clone(), DiskOptions::default()).unwrap();
        TestCluster::with(env, |config| (config.table, config.engine) = (table, engine)).await
    };
    let cluster = start().await;
    cluster.post(CRDS, crd(json!([version("v1", true)]))).await.ok(201);
    until(&cluster, PATH, 200).await;
    let made = cluster.post(PATH, widget("a", json!({"size": 7}))).await.ok(201);
    cluster.shutdown().await;

    let cluster = start().await;
    let found = cluster.get(format!("{PATH}/a")).await.ok(200);
    assert_eq!(found, made);
    cluster.merge(format!("{PATH}/a"), json!({"spec": {"size": 8}})).await.ok(200);
    cluster.shutdown().await;
}

/// A definition of its own for each number.
fn numbered(group: &str, number: usize) -> Value {
    let mut crd = crd(json!([version("v1", true)]));
    crd["metadata"]["name"] = format!("things{number}.{group}").into();
    crd["spec"]["group"] = group.into();
    crd["spec"]["names"] = json!({"plural": format!("things{number}"), "kind": format!("Thing{number}")});
    crd
}

/// Discovery lists it, its group version is registered, and an object of it can be created: at once.
async fn is_served(cluster: &TestCluster, group: &str, version: &str, number: usize) {
    let plural = format!("things{number}");
    let listed = cluster.get(format!("/apis/{group}/{version}")).await.ok(200);
    let names = listed["resources"].as_array().unwrap().iter();
    assert!(names.map(|resource| &resource["name"]).any(|name| *name == plural), "{number}: {listed}");
    let groups = cluster.get("/apis").await.ok(200);
    let groups = groups["groups"].as_array().unwrap().iter();
    assert!(groups.map(|served| &served["name"]).any(|name| *name == group), "{group}");
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let groups = cluster.request("GET", "/apis").accept(aggregated).send().await.ok(200);
    let mut groups = groups["items"].as_array().unwrap().iter();
    let found = groups.find(|served| served["metadata"]["name"] == group).unwrap();
    assert!(found.to_string().contains(&format!("\"{plural}\"")), "{number}: {found}");
    cluster.get(format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}")).await.ok(200);
    let object = json!({"apiVersion": format!("{group}/{version}"), "kind": format!("Thing{number}"),
        "metadata": {"name": format!("at-once-{version}")}});
    cluster.post(format!("/apis/{group}/{version}/namespaces/default/{plural}"), object).await.ok(201);
}

#[tokio::test(start_paused = true)]
async fn what_a_definition_defines_is_there_when_its_write_is_answered() {
    // The clock stands still while anybody works: an answer that waited as long as it may would not do so for want of a core.
    let cluster = TestCluster::simulated(72).await;
    for number in 0..100 {
        // Of each group there are two.
        let group = format!("group{}.example.io", number / 2);
        let name = format!("things{number}.{group}");
        let body = numbered(&group, number);
        let path = format!("{CRDS}/{name}");
        let written = match number % 3 {
            0 | 1 => cluster.post(CRDS, body).await.ok(201),
            _ => {
                let apply = cluster.request("PATCH", format!("{path}?fieldManager=me"));
                apply.typed("application/apply-patch+yaml", body.to_string()).send().await.ok(201)
            }
        };
        assert!(written["status"]["conditions"].is_null(), "it is answered as it was committed: {written}");
        is_served(&cluster, &group, "v1", number).await;
        if number % 10 == 0 {
            let mut current = cluster.get(&path).await.ok(200);
            current["spec"]["versions"].as_array_mut().unwrap().push(version("v2", false));
            cluster.put(&path, current).await.ok(200);
            is_served(&cluster, &group, "v2", number).await;
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_define_nothing_are_answered_without_waiting_for_it() {
    let cluster = TestCluster::simulated(71).await;
    let took = |begun: tokio::time::Instant| cluster.env().monotonic() - begun;
    let soon = Duration::from_millis(100);
    let begun = cluster.env().monotonic();
    cluster.post(format!("{CRDS}?dryRun=All"), numbered("example.io", 1)).await.ok(201);
    assert!(took(begun) < soon);
    cluster.post(CRDS, numbered("example.io", 1)).await.ok(201);
    // Its kind is another's: it is decided on, and not served.
    let mut refused = numbered("example.io", 2);
    refused["spec"]["names"]["kind"] = "Thing1".into();
    cluster.post(CRDS, refused).await.ok(201);
    assert!(took(begun) < soon);
    let path = format!("{CRDS}/things2.example.io");
    assert_eq!(condition(&cluster.get(&path).await.json(), "NamesAccepted"), "False");
    cluster.delete(path).await.ok(200);
    assert!(took(begun) < soon);
    cluster.shutdown().await;
}
