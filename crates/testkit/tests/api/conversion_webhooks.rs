//! Custom resources whose versions a webhook converts, from the request to the store and back. Messages are those of
//! kube-apiserver v1.36.4 with the same webhook.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Event, Gvr, WatchOptions};
use object::Obj;
use serde_json::{Value, json};
use store::{Commit, Guard, Op};
use testkit::{Reply as Response, TestCluster};
use tokio::sync::Semaphore;

use crate::conversion_hook::{Hook, Reply};
use crate::webhook_server::WebhookServer;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/servers.example.io";
const FAILED: &str = "conversion webhook for example.io/v1, Kind=Server failed: ";

fn version(name: &str, storage: bool) -> Value {
    let own = match name {
        "v1" => json!({"hostPort": {"type": "string"}}),
        _ => json!({"host": {"type": "string"}, "port": {"type": "string"}}),
    };
    let mut spec = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "color": {"type": "string"}}});
    spec["properties"].as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    let shown = if name == "v1" { ".spec.hostPort" } else { ".spec.host" };
    json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {
            "type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}}}}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas"}},
        "selectableFields": [{"jsonPath": shown}],
        "additionalPrinterColumns": [{"name": "Shown", "type": "string", "jsonPath": shown}]})
}

fn conversion(config: Value) -> Value {
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}})
}

fn crd(config: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "servers.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced",
            "names": {"plural": "servers", "singular": "server", "kind": "Server"},
            "versions": [version("v1", true), version("v2", false), version("v3", false)],
            "conversion": conversion(config)}})
}

fn all(version: &str) -> String {
    format!("/apis/example.io/{version}/namespaces/default/servers")
}

fn one(version: &str, name: &str) -> String {
    format!("{}/{name}", all(version))
}

fn server(version: &str, name: &str) -> Value {
    let spec = match version {
        "v1" => json!({"hostPort": "h:80", "replicas": 1}),
        _ => json!({"host": "h", "port": "80", "replicas": 1}),
    };
    json!({"apiVersion": format!("example.io/{version}"), "kind": "Server", "metadata": {"name": name}, "spec": spec})
}

async fn until(cluster: &TestCluster, path: &str, code: u16) -> Value {
    for _ in 0..5000 {
        let answer = cluster.get(path).await;
        if answer.status == code {
            return answer.json();
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    panic!("{path} never answers {code}");
}

/// A cluster with the definition and its webhook.
async fn cluster() -> (TestCluster, Hook) {
    let hook = Hook::start().await;
    let cluster = TestCluster::start().await;
    define(&cluster, crd(hook.config())).await;
    (cluster, hook)
}

async fn define(cluster: &TestCluster, crd: Value) {
    cluster.post(CRDS, crd).await.ok(201);
    until(cluster, &all("v1"), 200).await;
}

async fn redefine(cluster: &TestCluster, change: impl Fn(&mut Value)) {
    cluster.redefine(CRD, change).await;
}

#[track_caller]
fn message(answer: &Response, code: u16) -> String {
    assert_eq!(answer.status, code, "{}", answer.text());
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

/// The value under an object's key, as it is stored.
fn stored(cluster: &TestCluster, name: &str) -> Option<Value> {
    let catalog = cluster.catalog();
    let storage = catalog.find_storage("example.io", "servers")?;
    let obj = cluster.api().registry().table().get(storage.id, &storage.key("default", name))?;
    Some(serde_json::from_slice(&obj.stored_value()).unwrap())
}

#[tokio::test]
async fn every_verb_works_in_every_version() {
    let (cluster, _hook) = cluster().await;
    let made = cluster.post(all("v2"), server("v2", "a")).await.ok(201);
    assert_eq!(made["spec"], json!({"host": "h", "port": "80", "replicas": 1}));
    let kept = stored(&cluster, "a").unwrap();
    assert_eq!((&kept["apiVersion"], &kept["spec"]["hostPort"]), (&json!("example.io/v1"), &json!("h:80")));
    assert_eq!(kept["spec"].get("host"), None);

    for (version, shown) in [("v1", json!("h:80")), ("v2", json!("h")), ("v3", json!("h"))] {
        let got = cluster.get(one(version, "a")).await.ok(200);
        assert_eq!(got["apiVersion"], format!("example.io/{version}"));
        assert_eq!(got["metadata"], made["metadata"], "the metadata is the same in every version");
        let list = cluster.get(all(version)).await.ok(200);
        assert_eq!((&list["items"][0], &list["items"][1]), (&got, &Value::Null));
        let table =
            cluster.request("GET", all(version)).accept("application/json;as=Table;g=meta.k8s.io;v=v1");
        let table = table.send().await.ok(200);
        assert_eq!(table["rows"][0]["cells"], json!(["a", shown]), "{version}");
        let metadata = cluster
            .request("GET", all(version))
            .accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
        assert_eq!(metadata.send().await.ok(200)["items"][0]["metadata"], made["metadata"]);
    }

    let mut changed = cluster.get(one("v3", "a")).await.ok(200);
    changed["spec"]["port"] = json!("81");
    let put = cluster.put(one("v3", "a"), changed.clone()).await.ok(200);
    assert_eq!((&put["spec"]["port"], &put["metadata"]["generation"]), (&json!("81"), &json!(2)));
    assert_eq!(
        message(&cluster.put(one("v3", "a"), changed).await, 409),
        "Operation cannot be fulfilled on \
        servers.example.io \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let same = cluster.put(one("v3", "a"), put.clone()).await.ok(200);
    assert_eq!(same["metadata"]["resourceVersion"], put["metadata"]["resourceVersion"], "nothing changed");
    let patched = cluster.merge(one("v1", "a"), json!({"spec": {"hostPort": "i:82"}})).await.ok(200);
    assert_eq!(patched["spec"]["hostPort"], "i:82");
    let json_patch = json!([{"op": "replace", "path": "/spec/host", "value": "j"}]).to_string();
    let patched = cluster.request("PATCH", one("v2", "a")).typed("application/json-patch+json", json_patch);
    assert_eq!(patched.send().await.ok(200)["spec"], json!({"host": "j", "port": "82", "replicas": 1}));

    let status = json!({"status": {"phase": "Up", "replicas": 1}, "spec": {"host": "no"}});
    let status = cluster.merge(one("v2", "a/status"), status).await.ok(200);
    assert_eq!((&status["status"]["phase"], &status["spec"]["host"]), (&json!("Up"), &json!("j")));
    let scaled = cluster.merge(one("v3", "a/scale"), json!({"spec": {"replicas": 5}})).await.ok(200);
    assert_eq!(scaled["spec"]["replicas"], 5);
    assert_eq!(cluster.get(one("v2", "a/scale")).await.ok(200)["spec"]["replicas"], 5);
    let kept = stored(&cluster, "a").unwrap();
    assert_eq!(kept["spec"], json!({"hostPort": "j:82", "replicas": 5}));
    assert_eq!((&kept["status"]["phase"], &kept["metadata"]["generation"]), (&json!("Up"), &json!(5)));

    let dry = cluster.post(format!("{}?dryRun=All", all("v2")), server("v2", "dry")).await.ok(201);
    assert_eq!(dry["spec"]["host"], "h");
    let dry =
        cluster.merge(format!("{}?dryRun=All", one("v3", "a")), json!({"spec": {"host": "k"}})).await.ok(200);
    assert_eq!((&dry["apiVersion"], &dry["spec"]["host"]), (&json!("example.io/v3"), &json!("k")));
    assert_eq!((stored(&cluster, "dry"), stored(&cluster, "a")), (None, Some(kept)));

    let held = json!({"metadata": {"finalizers": ["example.io/hold"]}});
    cluster.merge(one("v2", "a"), held).await.ok(200);
    let marked = cluster.delete(one("v2", "a")).await.ok(200);
    assert_eq!((&marked["apiVersion"], &marked["spec"]["host"]), (&json!("example.io/v2"), &json!("j")));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    cluster.merge(one("v3", "a"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    assert_eq!(cluster.get(one("v1", "a")).await.status, 404);
    for name in ["b", "c"] {
        cluster.post(all("v1"), server("v1", name)).await.ok(201);
    }
    assert_eq!(cluster.delete(one("v2", "b")).await.ok(200)["status"], "Success");
    let deleted = cluster.delete(all("v3")).await.ok(200);
    assert_eq!(
        (&deleted["items"][0]["apiVersion"], &deleted["items"][0]["spec"]["host"]),
        (&json!("example.io/v3"), &json!("h"))
    );
    assert_eq!(stored(&cluster, "c"), None);
}

#[tokio::test]
async fn a_list_is_one_question_and_what_needs_none_asks_none() {
    let (cluster, hook) = cluster().await;
    for i in 0..20 {
        cluster.post(all("v1"), server("v1", &format!("s{i:02}"))).await.ok(201);
    }
    cluster.get(all("v1")).await.ok(200);
    cluster.get(one("v1", "s00")).await.ok(200);
    assert_eq!(hook.asked(), [], "the stored version");
    cluster.get(all("v2")).await.ok(200);
    let asked = hook.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].path.as_str(), asked[0].desired.as_str()), ("/convert", "example.io/v2"));
    let names: Vec<_> = asked[0].objects.iter().map(|o| o["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, (0..20).map(|i| format!("s{i:02}")).collect::<Vec<_>>());
    let page = cluster.get(format!("{}?limit=5", all("v2"))).await.ok(200);
    assert_eq!((hook.asked()[0].objects.len(), page["items"].as_array().unwrap().len()), (5, 5));
    // Any version will do: what was converted before.
    cluster.get(format!("{}?resourceVersion=0", all("v2"))).await.ok(200);
    cluster.get(format!("{}?resourceVersion=0", one("v2", "s00"))).await.ok(200);
    assert_eq!(hook.asked(), []);
    let empty = cluster.get("/apis/example.io/v2/namespaces/kube-system/servers").await.ok(200);
    assert_eq!((hook.asked(), &empty["items"]), (vec![], &json!([])));
}

#[tokio::test]
async fn a_webhook_that_was_repaired_is_believed() {
    let (cluster, hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    hook.answers(|mut review| {
        review["response"]["convertedObjects"][0]["spec"]["host"] = json!("wrong");
        Reply::Review(review)
    });
    assert_eq!(cluster.get(one("v2", "a")).await.ok(200)["spec"]["host"], "wrong");
    hook.converts();
    assert_eq!(cluster.get(one("v2", "a")).await.ok(200)["spec"]["host"], "h");
    let any = cluster.get(format!("{}?resourceVersion=0", one("v2", "a"))).await.ok(200);
    assert_eq!(any["spec"]["host"], "h");
}

#[tokio::test]
async fn watches_show_events_in_their_version() {
    let (cluster, hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "old")).await.ok(201);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watches = Vec::new();
    for version in ["v1", "v2", "v2", "v3"] {
        watches.push((version, cluster.watch(format!("{}?{query}", all(version))).await));
    }
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let path = format!("{}?watch=1&resourceVersion=0", all("v2"));
    let mut metadata = cluster.request("GET", path).accept(accept).stream().await;
    assert_eq!(metadata.next().await.unwrap()["object"]["metadata"]["name"], "old");
    for (version, watch) in &mut watches {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]),
            (&json!("ADDED"), &cluster.get(one(version, "old")).await.ok(200))
        );
        let end = watch.next().await.unwrap();
        assert_eq!(
            (&end["type"], &end["object"]["apiVersion"]),
            (&json!("BOOKMARK"), &json!(format!("example.io/{version}")))
        );
        assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    }
    hook.asked();

    let changes = [
        ("ADDED", cluster.post(all("v1"), server("v1", "new")).await.ok(201)),
        ("MODIFIED", cluster.merge(one("v1", "new"), json!({"spec": {"hostPort": "i:81"}})).await.ok(200)),
    ];
    cluster.delete(one("v1", "new")).await.ok(200);
    for (version, watch) in &mut watches {
        for (kind, change) in &changes {
            let event = watch.next().await.unwrap();
            assert_eq!(
                (event["type"].as_str().unwrap(), &event["object"]["apiVersion"]),
                (*kind, &json!(format!("example.io/{version}")))
            );
            assert_eq!(event["object"]["metadata"], change["metadata"]);
            let host = change["spec"]["hostPort"].as_str().unwrap().split(':').next().unwrap();
            let shown = if *version == "v1" { &change["spec"]["hostPort"] } else { &json!(host) };
            let field = if *version == "v1" { "hostPort" } else { "host" };
            assert_eq!(&event["object"]["spec"][field], shown);
        }
        let gone = watch.next().await.unwrap();
        assert_eq!((&gone["type"], &gone["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("new")));
        let field = if *version == "v1" { "hostPort" } else { "port" };
        assert!(gone["object"]["spec"][field].as_str().unwrap().ends_with("81"), "{gone}");
    }
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        let event = metadata.next().await.unwrap();
        assert_eq!(
            (event["type"].as_str(), &event["object"]["kind"]),
            (Some(kind), &json!("PartialObjectMetadata"))
        );
    }
    // Three watches of v2: each event was asked for once.
    let asked: usize =
        hook.asked().iter().filter(|q| q.desired.ends_with("v2")).map(|q| q.objects.len()).sum();
    assert_eq!(asked, 3);
}

/// Upstream selects from what it converted.
#[tokio::test]
async fn selectors_are_about_the_objects_of_their_version() {
    let (cluster, hook) = cluster().await;
    hook.answers(|mut review| {
        for object in review["response"]["convertedObjects"].as_array_mut().unwrap() {
            let host = object["spec"]["host"].clone();
            if !host.is_null() {
                object["metadata"]["labels"] = json!({"host": host});
            }
        }
        Reply::Review(review)
    });
    for i in 0..6 {
        let mut server = server("v1", &format!("s{i}"));
        server["spec"]["hostPort"] = json!(format!("{}:80", if i % 2 == 0 { "even" } else { "odd" }));
        cluster.post(all("v1"), server).await.ok(201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    for selector in
        ["fieldSelector=spec.host%3Deven", "labelSelector=host%3Deven", "labelSelector=host!%3Dodd"]
    {
        let list = cluster.get(format!("{}?{selector}", all("v2"))).await.ok(200);
        assert_eq!(names(&list), ["s0", "s2", "s4"], "{selector}");
        let first = cluster.get(format!("{}?{selector}&limit=2", all("v2"))).await.ok(200);
        let token = first["metadata"]["continue"].as_str().unwrap();
        let rest = cluster.get(format!("{}?{selector}&limit=2&continue={token}", all("v2"))).await.ok(200);
        assert_eq!((names(&first), names(&rest)), (vec!["s0".into(), "s2".into()], vec!["s4".into()]));
        assert_eq!(rest["metadata"].get("continue").and_then(Value::as_str).unwrap_or(""), "");
    }
    assert_eq!(names(&cluster.get(format!("{}?labelSelector=host", all("v1"))).await.ok(200)), [""; 0]);
    assert_eq!(
        message(&cluster.get(format!("{}?fieldSelector=spec.host%3Deven", all("v1"))).await, 400),
        "field label not supported: spec.host"
    );

    let mut watch =
        cluster.watch(format!("{}?watch=1&resourceVersion=0&fieldSelector=spec.host%3Dodd", all("v2"))).await;
    let mut from_now = cluster
        .watch(format!(
            "{}?watch=1&fieldSelector=spec.host%3Dodd&resourceVersion={}",
            all("v3"),
            cluster.get(all("v1")).await.version()
        ))
        .await;
    for name in ["s1", "s3", "s5"] {
        let event = watch.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
    cluster.merge(one("v1", "s2"), json!({"spec": {"hostPort": "odd:80"}})).await.ok(200);
    cluster.merge(one("v1", "s2"), json!({"spec": {"hostPort": "odd:81"}})).await.ok(200);
    cluster.merge(one("v1", "s4"), json!({"spec": {"hostPort": "even:81"}})).await.ok(200);
    let left = cluster.merge(one("v1", "s1"), json!({"spec": {"hostPort": "even:80"}})).await.ok(200);
    cluster.delete(one("v1", "s3")).await.ok(200);
    for watch in [&mut watch, &mut from_now] {
        for (kind, name, host, port) in [
            ("ADDED", "s2", "odd", "80"),
            ("MODIFIED", "s2", "odd", "81"),
            ("DELETED", "s1", "odd", "80"),
            ("DELETED", "s3", "odd", "80"),
        ] {
            let event = watch.next().await.unwrap();
            let object = &event["object"];
            assert_eq!(
                (event["type"].as_str(), object["metadata"]["name"].as_str()),
                (Some(kind), Some(name)),
                "{event}"
            );
            assert_eq!(
                (object["spec"]["host"].as_str(), object["spec"]["port"].as_str()),
                (Some(host), Some(port))
            );
            if name == "s1" {
                assert_eq!(object["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
            }
        }
    }
}

/// A page of a few among many is found page by page.
#[tokio::test]
async fn a_page_is_selected_from_many_objects() {
    let (cluster, hook) = cluster().await;
    for chunk in (0..1200).collect::<Vec<_>>().chunks(100) {
        let made = chunk.iter().map(|i| {
            let mut server = server("v1", &format!("s{i:04}"));
            let host = if i % 599 == 0 { "rare" } else { "h" };
            server["spec"]["hostPort"] = json!(format!("{host}:80"));
            cluster.post(all("v1"), server)
        });
        for made in futures_util::future::join_all(made).await {
            made.ok(201);
        }
    }
    hook.asked();
    let mut names = Vec::new();
    let mut token = String::new();
    loop {
        let path = format!("{}?fieldSelector=spec.host%3Drare&limit=2&continue={token}", all("v2"));
        let page = cluster.get(path).await.ok(200);
        let items = page["items"].as_array().unwrap();
        names.extend(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
        match page["metadata"]["continue"].as_str() {
            None | Some("") => break,
            Some(more) => token = more.to_owned(),
        }
    }
    assert_eq!(names, ["s0000", "s0599", "s1198"]);
    let asked: Vec<usize> = hook.asked().iter().map(|question| question.objects.len()).collect();
    assert_eq!(asked, [500, 500, 500, 100], "the second page begins behind the object found last");
}

/// Controllers of this process see the objects of the version they ask for.
#[tokio::test]
async fn clients_in_process_get_their_version() {
    const V2: Gvr = Gvr::new("example.io", "v2", "servers");
    let (cluster, mut hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    let client = cluster.local_clients().user("kubernetes-admin", &["system:masters"]);
    let spec = |obj: &Obj| serde_json::from_slice::<Value>(obj.body()).unwrap()["spec"].clone();
    let a = json!({"host": "h", "port": "80", "replicas": 1});
    assert_eq!(spec(&client.get(V2.at("default", "a")).await.unwrap()), a);
    let list = client.list(V2.everywhere(), Default::default()).await.unwrap();
    assert_eq!((list.items.len(), spec(&list.items[0])), (1, a.clone()));

    let options = |fields: &str| WatchOptions {
        initial_events: true,
        field_selector: fields.into(),
        ..Default::default()
    };
    let mut watch = client.watch(V2.everywhere(), options("")).await.unwrap();
    let mut selected = client.watch(V2.everywhere(), options("spec.host=i")).await.unwrap();
    let mut events = Vec::new();
    watch.pull(&mut events).await.unwrap();
    assert!(matches!(&events[..], [Event::Added(obj), Event::Bookmark { .. }] if spec(obj) == a));
    selected.pull(&mut Vec::new()).await.unwrap();
    cluster.merge(one("v1", "a"), json!({"spec": {"hostPort": "i:81"}})).await.ok(200);
    cluster.merge(one("v1", "a"), json!({"spec": {"hostPort": "j:81"}})).await.ok(200);
    cluster.delete(one("v1", "a")).await.ok(200);
    let shown = |events: &[Event]| -> Vec<String> {
        let shown = events.iter().map(|event| match event {
            Event::Added(obj) => format!("added {}", spec(obj)["host"]),
            Event::Modified(obj) => format!("modified {}", spec(obj)["host"]),
            Event::Deleted(obj) => format!("deleted {}", spec(obj)["host"]),
            Event::Bookmark { .. } => "bookmark".to_owned(),
        });
        shown.collect()
    };
    for (watch, expected) in [
        (&mut watch, vec!["modified \"i\"", "modified \"j\"", "deleted \"j\""]),
        (&mut selected, vec!["added \"i\"", "deleted \"i\""]),
    ] {
        let mut events = Vec::new();
        while events.len() < expected.len() {
            watch.pull(&mut events).await.unwrap();
        }
        assert_eq!(shown(&events), expected);
    }
    // A watch that cannot be served fails, and its informer lists again.
    hook.down().await;
    cluster.post(all("v1"), server("v1", "b")).await.ok(201);
    let failed = watch.pull(&mut Vec::new()).await.unwrap_err();
    assert_eq!((failed.code, failed.message.starts_with(FAILED)), (500, true));
}

#[tokio::test]
async fn the_storage_version_may_move() {
    let (cluster, hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "old")).await.ok(201);
    redefine(&cluster, |spec| {
        spec["versions"] = json!([version("v1", false), version("v2", true), version("v3", false)]);
    })
    .await;
    assert_eq!(cluster.get(CRD).await.ok(200)["status"]["storedVersions"], json!(["v1", "v2"]));
    hook.asked();
    // It is still stored in v1, and nobody is asked for that.
    let old = cluster.get(one("v1", "old")).await.ok(200);
    assert_eq!((&old["spec"]["hostPort"], hook.asked()), (&json!("h:80"), vec![]));
    let read = cluster.get(one("v2", "old")).await.ok(200);
    assert_eq!((&read["spec"]["host"], hook.asked().len()), (&json!("h"), 1));
    cluster.post(all("v1"), server("v1", "new")).await.ok(201);
    assert_eq!(stored(&cluster, "new").unwrap()["spec"]["host"], "h");
    hook.asked();
    let list = cluster.get(all("v1")).await.ok(200);
    assert_eq!(
        (&list["items"][0]["spec"]["hostPort"], &list["items"][1]["spec"]["hostPort"]),
        (&json!("h:80"), &json!("h:80"))
    );
    let asked = hook.asked();
    assert_eq!((asked.len(), asked[0].objects.len()), (1, 1), "only for what is stored in v2");
    // Written back unchanged it moves.
    let moved = cluster.put(one("v1", "old"), old.clone()).await.ok(200);
    assert_ne!(moved["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"]);
    assert_eq!(stored(&cluster, "old").unwrap()["apiVersion"], "example.io/v2");
    let again = cluster.put(one("v1", "old"), moved.clone()).await.ok(200);
    assert_eq!(again["metadata"]["resourceVersion"], moved["metadata"]["resourceVersion"]);
}

/// As upstream, which fills them in before it converts.
#[tokio::test]
async fn defaults_of_the_stored_version_show_in_every_version() {
    let (cluster, _hook) = cluster().await;
    redefine(&cluster, |spec| {
        let properties =
            &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        properties["color"] = json!({"type": "string", "default": "red"});
    })
    .await;
    let made = cluster.post(all("v2"), server("v2", "a")).await.ok(201);
    assert_eq!(made["spec"]["color"], "red");
    assert_eq!(stored(&cluster, "a").unwrap()["spec"].get("color"), None);
    for version in ["v1", "v2", "v3"] {
        assert_eq!(cluster.get(one(version, "a")).await.ok(200)["spec"]["color"], "red", "{version}");
    }
}

/// One bad answer: what is done to the review, and what the client is told.
type BadAnswer = (fn(&mut Value), &'static str);

fn object(review: &mut Value) -> &mut Value {
    &mut review["response"]["convertedObjects"][0]
}

#[tokio::test]
async fn bad_answers_are_refused_in_upstreams_words() {
    let (cluster, hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    let uid = cluster.get(one("v1", "a")).await.ok(200)["metadata"]["uid"].as_str().unwrap().to_owned();
    let returned = "conversion webhook for example.io/v1, Kind=Server returned ";
    let bad: &[BadAnswer] = &[
        (|r| r["response"]["convertedObjects"] = json!([]), "{returned}0 objects, expected 1"),
        (
            |r| {
                let twice = object(r).clone();
                r["response"]["convertedObjects"] = json!([twice, twice])
            },
            "{returned}2 objects, expected 1",
        ),
        (
            |r| r["response"]["result"] = json!({"status": "Failed", "message": "I do not like it"}),
            "{failed}I do not like it",
        ),
        (
            |r| r["response"]["result"] = json!({"status": "Failed"}),
            "{failed}response.result.status was 'Failed', not 'Success'",
        ),
        (|r| _ = r.as_object_mut().unwrap().remove("response"), "{failed}no response provided"),
        (
            |r| _ = r.as_object_mut().unwrap().remove("kind"),
            "{failed}expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=",
        ),
        (
            |r| object(r)["apiVersion"] = json!("example.io/v9"),
            "{returned}invalid object at index 0: invalid groupVersion (expected example.io/v2, received example.io/v9)",
        ),
        (
            |r| object(r)["kind"] = json!("Other"),
            "{returned}invalid object at index 0: invalid kind (expected Server, received Other)",
        ),
        (
            |r| object(r)["metadata"]["name"] = json!("other"),
            "{returned}invalid object: must have the same name: a != other",
        ),
        (
            |r| object(r)["metadata"]["namespace"] = json!("other"),
            "{returned}invalid object: must have the same namespace: default != other",
        ),
        (
            |r| object(r)["metadata"]["uid"] = json!("other"),
            "{returned}invalid object: must have the same UID: {uid} != other",
        ),
        (
            |r| _ = object(r).as_object_mut().unwrap().remove("metadata"),
            "{returned}invalid object: must have the same name: a != ",
        ),
        (
            |r| object(r)["metadata"]["labels"] = json!({"by": 5}),
            "{returned}invalid metadata: metadata.labels[by] must be a string, but is int64 in converted object",
        ),
        (
            |r| object(r)["metadata"]["labels"] = json!({"a": "b c"}),
            "{returned}invalid metadata: metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ];
    for (spoil, expected) in bad {
        let expected =
            expected.replace("{returned}", returned).replace("{failed}", FAILED).replace("{uid}", &uid);
        let spoil = *spoil;
        hook.answers(move |mut review| {
            spoil(&mut review);
            Reply::Review(review)
        });
        let answer = cluster.get(one("v2", "a")).await;
        assert_eq!(message(&answer, 500), expected);
        let status = answer.json();
        assert_eq!((status.get("reason"), status.get("details")), (None, None), "{status}");
        assert_eq!(message(&cluster.get(all("v2")).await, 500), expected, "a list");
    }
    hook.answers(|mut review| {
        review["response"]["uid"] = json!("other");
        Reply::Review(review)
    });
    let told = message(&cluster.get(one("v2", "a")).await, 500);
    assert!(
        told.starts_with(&format!("{FAILED}expected response.uid=\"")) && told.ends_with("\", got \"other\""),
        "{told}"
    );
    hook.answers(|_| Reply::Raw(500, "oops"));
    assert_eq!(
        message(&cluster.get(one("v2", "a")).await, 500),
        format!("{FAILED}an error on the server (\"unknown\") has prevented the request from succeeding")
    );
    hook.answers(|_| Reply::Raw(200, "garbage"));
    assert_eq!(
        message(&cluster.get(one("v2", "a")).await, 500),
        format!(
            "{FAILED}couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )
    );
    // Writes are refused too, and change nothing.
    hook.answers(|mut review| {
        review["response"]["result"] = json!({"status": "Failed", "message": "no"});
        Reply::Review(review)
    });
    let refused = "conversion webhook for example.io/v2, Kind=Server failed: no";
    assert_eq!(message(&cluster.post(all("v2"), server("v2", "b")).await, 500), refused);
    assert_eq!(message(&cluster.delete(one("v2", "a")).await, 500), format!("{FAILED}no"));
    assert_eq!(stored(&cluster, "b"), None);
    hook.converts();
    assert_eq!(cluster.get(one("v2", "a")).await.ok(200)["spec"]["host"], "h");
}

/// Of the metadata, labels and annotations are the webhook's to change, and nothing else.
#[tokio::test]
async fn metadata_stays_but_for_labels_and_annotations() {
    let (cluster, hook) = cluster().await;
    let made = cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    hook.answers(|mut review| {
        let object = object(&mut review);
        for (name, value) in [
            ("generation", json!(99)),
            ("finalizers", json!(["a.b/c"])),
            ("creationTimestamp", json!("2000-01-01T00:00:00Z")),
            ("resourceVersion", json!("1")),
            ("ownerReferences", json!([{"uid": "x"}])),
            ("labels", json!({"by": "hook"})),
            ("annotations", json!({"by": "hook"})),
        ] {
            object["metadata"][name] = value;
        }
        object["spec"]["unknown"] = json!(1);
        Reply::Review(review)
    });
    let got = cluster.get(one("v2", "a")).await.ok(200);
    let mut expected = made["metadata"].clone();
    expected["labels"] = json!({"by": "hook"});
    expected["annotations"] = json!({"by": "hook"});
    assert_eq!(got["metadata"], expected);
    assert_eq!(
        got["spec"],
        json!({"host": "h", "port": "80", "replicas": 1}),
        "what its schema does not have is dropped"
    );
    let metadata = cluster
        .request("GET", all("v2"))
        .accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    assert_eq!(metadata.send().await.ok(200)["items"][0]["metadata"], expected);
    assert_eq!(cluster.get(one("v1", "a")).await.ok(200), made);
    // What is written in that version is stored with them.
    cluster.merge(one("v2", "a"), json!({"spec": {"port": "81"}})).await.ok(200);
    let kept = stored(&cluster, "a").unwrap();
    assert_eq!(
        (&kept["metadata"]["labels"], &kept["metadata"]["generation"]),
        (&json!({"by": "hook"}), &json!(2))
    );
    assert_eq!(kept["metadata"].get("finalizers"), None);
}

#[tokio::test]
async fn a_webhook_is_found_by_its_service() {
    let hook = Hook::start().await;
    let cluster = TestCluster::start().await;
    let config = |port: Value| json!({"service": {"namespace": "default", "name": "hook", "path": "/by/service", "port": port}, "caBundle": hook.ca_bundle()});
    define(&cluster, crd(config(json!(8443)))).await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    let post =
        |port: u16| format!("{FAILED}Post \"https://hook.default.svc:{port}/by/service?timeout=30s\": ");
    let told = async |cluster: &TestCluster| message(&cluster.get(one("v2", "a")).await, 500);
    assert_eq!(told(&cluster).await, post(8443) + "service \"hook\" not found");
    let services = "/api/v1/namespaces/default/services";
    let ports = json!([{"name": "other", "port": 443}, {"name": "tls", "port": 8443, "targetPort": "https"}]);
    cluster.post(services, json!({"metadata": {"name": "hook"}, "spec": {"ports": ports}})).await.ok(201);
    assert_eq!(told(&cluster).await, post(8443) + "no endpoints available for service \"hook\"");
    // Written as another client of the store would: the API takes no loopback address.
    let slice = async |port_name: &str, ready: bool| {
        let catalog = cluster.catalog();
        let storage = catalog.find_storage("discovery.k8s.io", "endpointslices").unwrap();
        let key = storage.key("default", "hook-1");
        let value = json!({"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
            "metadata": {"name": "hook-1", "namespace": "default", "uid": "1", "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4", "ports": [{"name": port_name, "port": hook.port(), "protocol": "TCP"}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}]});
        let now = cluster.api().registry().table().get(storage.id, &key);
        let guard = now.map_or(Guard::Absent, |obj| Guard::At(obj.revision()));
        let ops = vec![(key.as_str().into(), Op::Put { value: value.to_string().into(), expires_at: None })];
        let commit = Commit { guards: vec![(key.as_str().into(), guard)], ops, removal: false };
        cluster.api().registry().engine().commit(commit).await.unwrap();
    };
    slice("other", true).await;
    assert_eq!(told(&cluster).await, post(8443) + "no endpoints available for service \"hook\"");
    slice("tls", false).await;
    assert_eq!(told(&cluster).await, post(8443) + "no endpoints available for service \"hook\"");
    slice("tls", true).await;
    assert_eq!(cluster.get(one("v2", "a")).await.ok(200)["spec"]["host"], "h");
    assert_eq!(hook.asked().last().unwrap().path, "/by/service");
    redefine(&cluster, |spec| spec["conversion"] = conversion(config(json!(9999)))).await;
    assert_eq!(told(&cluster).await, post(9999) + "no service port 9999 found for service \"hook\"");
}

#[tokio::test]
async fn whom_to_trust_is_the_bundle_alone() {
    let hook = Hook::start().await;
    let other = Hook::start().await;
    let cluster = TestCluster::start().await;
    define(&cluster, crd(json!({"url": hook.url()}))).await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    let unknown = format!(
        "{FAILED}Post \"{}?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
        hook.url()
    );
    assert_eq!(message(&cluster.get(one("v2", "a")).await, 500), unknown);
    redefine(&cluster, |spec| {
        spec["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!(other.ca_bundle())
    })
    .await;
    assert_eq!(message(&cluster.get(one("v2", "a")).await, 500), unknown);
    assert_eq!(hook.asked(), []);
    redefine(&cluster, |spec| {
        spec["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!(hook.ca_bundle())
    })
    .await;
    assert_eq!(cluster.get(one("v2", "a")).await.ok(200)["spec"]["host"], "h");
}

#[tokio::test]
async fn while_it_is_down_everything_else_goes_on_and_nothing_is_lost() {
    let (cluster, mut hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    let mut watch = cluster.watch(format!("{}?watch=1&resourceVersion=0", all("v2"))).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"]["host"], "h");
    hook.down().await;
    let why = format!(
        "Post \"{}?timeout=30s\": dial tcp 127.0.0.1:{}: connect: connection refused",
        hook.url(),
        hook.port()
    );
    let down = format!("{FAILED}{why}");
    assert_eq!(message(&cluster.get(one("v2", "a")).await, 500), down);
    assert_eq!(message(&cluster.get(all("v2")).await, 500), down);
    assert_eq!(message(&cluster.delete(one("v2", "a")).await, 500), down);
    assert_eq!(message(&cluster.delete(all("v2")).await, 500), down);
    assert_eq!(message(&cluster.get(one("v2", "a/scale")).await, 500), down);
    assert_eq!(message(&cluster.merge(one("v2", "a"), json!({"spec": {"port": "1"}})).await, 500), down);
    let sent = down.replacen("/v1,", "/v2,", 1);
    assert_eq!(message(&cluster.post(all("v2"), server("v2", "b")).await, 500), sent);
    assert_eq!(
        message(&cluster.post(format!("{}?dryRun=All", all("v2")), server("v2", "b")).await, 500),
        sent
    );
    assert_eq!(message(&cluster.get(one("v2", "none")).await, 404), "servers.example.io \"none\" not found");
    // The stored version, other kinds and discovery need no webhook.
    let changed = cluster.merge(one("v1", "a"), json!({"spec": {"hostPort": "i:81"}})).await.ok(200);
    cluster.post(all("v1"), server("v1", "c")).await.ok(201);
    cluster.delete(one("v1", "c")).await.ok(200);
    cluster.get("/apis/example.io/v2").await.ok(200);
    cluster.get("/api/v1/namespaces/default/configmaps").await.ok(200);
    cluster.post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "m"}})).await.ok(201);
    // A watch ends and says why; a new one, and a list of any version, are told to come again.
    let error = watch.next().await.unwrap();
    assert_eq!((&error["type"], error["object"]["message"].as_str()), (&json!("ERROR"), Some(down.as_str())));
    assert_eq!((&error["object"]["code"], watch.next().await), (&json!(500), None));
    let again = format!("storage is (re)initializing: failed to list example.io/v2, Kind=Server: {down}");
    for query in ["watch=1&resourceVersion=0", "resourceVersion=0"] {
        let answer = cluster.get(format!("{}?{query}", all("v2"))).await;
        assert_eq!(message(&answer, 429), again, "{query}");
        assert_eq!(
            (&answer.headers["retry-after"], &answer.json()["details"]["retryAfterSeconds"]),
            (&"1".parse().unwrap(), &json!(1))
        );
    }
    hook.up().await;
    let back = cluster.get(one("v2", "a")).await.ok(200);
    assert_eq!((&back["spec"]["host"], &back["metadata"]), (&json!("i"), &changed["metadata"]));
    let mut watch = cluster.watch(format!("{}?watch=1&resourceVersion=0", all("v2"))).await;
    assert_eq!(watch.next().await.unwrap()["object"], back);
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_is_given_up() {
    let (cluster, hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    cluster.get(one("v2", "a")).await.ok(200);
    hook.asked();
    hook.answers(|_| Reply::Never);
    let slow = cluster.get(one("v2", "a"));
    let others = async {
        hook.is_asked().await;
        cluster.get(one("v1", "a")).await.ok(200);
        // Only now: what waits for a socket is no reason to wait for the clock.
        tokio::time::pause();
    };
    let (slow, ()) = tokio::join!(slow, others);
    tokio::time::resume();
    assert_eq!(
        message(&slow, 500),
        format!(
            "{FAILED}Post \"{}?timeout=30s\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            hook.url()
        )
    );
}

/// The finalizer of the definition, and the controllers that delete, need no webhook: upstream's do where the stored version is
/// not the preferred one.
#[tokio::test]
async fn deletions_by_controllers_need_no_webhook() {
    let (cluster, mut hook) = cluster().await;
    let plane = cluster.control_plane();
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "doomed"}})).await.ok(201);
    let owner = cluster
        .post("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "owner"}}))
        .await
        .ok(201);
    let mut owned = server("v1", "owned");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    cluster.post(all("v1"), owned).await.ok(201);
    let mut held = server("v1", "held");
    held["metadata"]["finalizers"] = json!(["example.io/hold"]);
    for server in [held, server("v1", "free")] {
        cluster.post("/apis/example.io/v1/namespaces/doomed/servers", server).await.ok(201);
    }
    hook.down().await;
    hook.asked();
    cluster.delete("/api/v1/namespaces/default/configmaps/owner").await.ok(200);
    until(&cluster, &one("v1", "owned"), 404).await;
    cluster.delete("/api/v1/namespaces/doomed").await.ok(200);
    until(&cluster, "/apis/example.io/v1/namespaces/doomed/servers/free", 404).await;
    let held = "/apis/example.io/v1/namespaces/doomed/servers/held";
    cluster.merge(held, json!({"metadata": {"finalizers": null}})).await.ok(200);
    until(&cluster, "/api/v1/namespaces/doomed", 404).await;
    cluster.post(all("v1"), server("v1", "last")).await.ok(201);
    cluster.delete(CRD).await.ok(200);
    until(&cluster, CRD, 404).await;
    plane.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn quotas_count_objects_in_whatever_version_they_come() {
    let (cluster, _hook) = cluster().await;
    let plane = cluster.control_plane();
    let quota = "/api/v1/namespaces/default/resourcequotas";
    cluster
        .post(quota, json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/servers.example.io": "2"}}}))
        .await
        .ok(201);
    for (version, name) in [("v1", "a"), ("v2", "b")] {
        cluster.post(all(version), server(version, name)).await.ok(201);
    }
    let refused = message(&cluster.post(all("v3"), server("v3", "c")).await, 403);
    assert_eq!(
        refused,
        "servers.example.io \"c\" is forbidden: exceeded quota: q, requested: count/servers.example.io=1, used: count/servers.example.io=2, limited: count/servers.example.io=2"
    );
    cluster.delete(one("v3", "a")).await.ok(200);
    cluster
        .until("the quota has room again", async || {
            cluster.post(all("v3"), server("v3", "c")).await.status == 201
        })
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn an_older_review_version_is_spoken_where_it_is_the_first_known() {
    let hook = Hook::start().await;
    let cluster = TestCluster::start().await;
    let mut crd = crd(hook.config());
    crd["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(["v5", "v1beta1", "v1"]);
    define(&cluster, crd).await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    // v1beta1 names neither the answer's kind nor its uid.
    hook.answers(|mut review| {
        assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1beta1");
        review["response"]["uid"] = json!("");
        Reply::Review(review)
    });
    assert_eq!(cluster.get(one("v2", "a")).await.ok(200)["spec"]["host"], "h");
}

#[tokio::test]
async fn conversions_are_counted() {
    let (cluster, hook) = cluster().await;
    cluster.post(all("v1"), server("v1", "a")).await.ok(201);
    cluster.get(one("v2", "a")).await.ok(200);
    hook.answers(|_| Reply::Raw(500, ""));
    assert_eq!(cluster.get(one("v2", "a")).await.status, 500);
    let text = cluster.get("/metrics").await.text();
    for line in [
        r#"apiserver_conversion_webhook_request_total{failure_type="",result="success"} 1"#,
        r#"apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_call_failure",result="failure"} 1"#,
        r#"apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="servers.example.io",from_version="v1",succeeded="true",to_version="v2"} 1"#,
        r#"apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="servers.example.io",from_version="v1",succeeded="false",to_version="v2"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    cluster.delete(CRD).await.ok(200);
    until(&cluster, &all("v1"), 404).await;
    assert!(!cluster.get("/metrics").await.text().contains("servers.example.io\",from_version"));
}

#[tokio::test]
async fn an_admission_webhook_that_comes_during_an_update_does_not_undo_the_check_of_its_version() {
    let (cluster, hook) = cluster().await;
    let mut old = cluster.post(all("v2"), server("v2", "a")).await.ok(201);
    cluster.merge(one("v1", "a"), json!({"spec": {"color": "red"}})).await.ok(200);
    hook.asked();
    let answers = Arc::new(Semaphore::new(0));
    let waits = answers.clone();
    hook.answers(move |review| Reply::Later(waits.clone(), review));
    old["spec"]["replicas"] = json!(2);
    let configured = async {
        hook.is_asked().await;
        let validating = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let late = json!({
            "name": "late.example.io", "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Ignore",
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["UPDATE"], "apiGroups": ["example.io"], "apiVersions": ["*"], "resources": ["servers"]}],
        });
        cluster.post(validating, json!({"metadata": {"name": "late"}, "webhooks": [late]})).await.ok(201);
        answers.add_permits(100);
    };
    let (updated, ()) = tokio::join!(cluster.put(one("v2", "a"), old), configured);
    assert!(message(&updated, 409).contains("the object has been modified"), "{}", updated.text());
    let kept = stored(&cluster, "a").unwrap();
    assert_eq!((&kept["spec"]["color"], &kept["spec"]["replicas"]), (&json!("red"), &json!(1)));
}

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Answers admission; the path `/m` means a patch of v1.
fn admit(path: &str, review: &Value) -> Reply {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if path == "/m" {
        let patch = json!([{"op": "replace", "path": "/spec/hostPort", "value": "patched:81"}]);
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch.to_string()));
    }
    Reply::Review(
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
    )
}

fn servers_of(version: &str) -> Value {
    json!([{"operations": ["CREATE"], "apiGroups": ["example.io"], "apiVersions": [version], "resources": ["servers"]}])
}

fn admission_webhook(server: &WebhookServer, path: &str, version: &str) -> Value {
    let hook = json!({"name": "w.example.io", "clientConfig": server.config(path), "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore", "rules": servers_of(version)});
    json!({"metadata": {"name": "w"}, "webhooks": [hook]})
}

#[tokio::test]
async fn admission_webhooks_are_shown_objects_in_the_version_of_their_rule() {
    let (cluster, mut hook) = cluster().await;
    let admission = WebhookServer::start(admit).await;
    for (kind, path) in [("mutating", "/m"), ("validating", "/v")] {
        let webhook = admission_webhook(&admission, path, "v1");
        cluster.post(format!("{GROUP}/{kind}webhookconfigurations"), webhook).await.ok(201);
    }
    let made = cluster.post(all("v2"), server("v2", "a")).await.ok(201);
    assert_eq!((&made["apiVersion"], &made["spec"]["host"]), (&json!("example.io/v2"), &json!("patched")));
    let shown: Vec<(String, Value)> =
        admission.asked().into_iter().map(|(path, review)| (path, review["request"].clone())).collect();
    assert_eq!(shown.len(), 2);
    for ((path, request), (asked, host_port)) in shown.iter().zip([("/m", "h:80"), ("/v", "patched:81")]) {
        let object = &request["object"];
        assert_eq!(path, asked);
        assert_eq!(
            (&request["kind"]["version"], &request["requestKind"]["version"]),
            (&json!("v1"), &json!("v2"))
        );
        assert_eq!(
            (&object["apiVersion"], &object["spec"]["hostPort"]),
            (&json!("example.io/v1"), &json!(host_port))
        );
    }
    for kind in ["mutating", "validating"] {
        cluster.delete(format!("{GROUP}/{kind}webhookconfigurations/w")).await.ok(200);
    }
    // What is sent in the version it is stored in is converted for webhooks only. Their failure policy has no say.
    hook.down().await;
    let why = format!("dial tcp 127.0.0.1:{}: connect: connection refused", hook.port());
    let down = format!("{FAILED}Post \"{}?timeout=30s\": {why}", hook.url());
    for (kind, times) in [("mutating", 2), ("validating", 1)] {
        let path = format!("{GROUP}/{kind}webhookconfigurations");
        cluster.post(path.clone(), admission_webhook(&admission, "/v", "v2")).await.ok(201);
        let failed = cluster.post(all("v1"), server("v1", "b")).await;
        assert_eq!(message(&failed, 500), format!("{}{down}", "Internal error occurred: ".repeat(times)));
        cluster.delete(format!("{path}/w")).await.ok(200);
    }
    assert!(admission.asked().is_empty());
    cluster.post(all("v1"), server("v1", "b")).await.ok(201);
}

#[tokio::test]
async fn policies_whose_version_an_object_cannot_be_converted_to_fail_by_their_policy() {
    let (cluster, mut hook) = cluster().await;
    hook.down().await;
    let why = format!("dial tcp 127.0.0.1:{}: connect: connection refused", hook.port());
    let down = format!("{FAILED}Post \"{}?timeout=30s\": {why}", hook.url());
    let validations = json!({"validations": [{"expression": "object.spec.host == 'h'"}]});
    let expression = "Object{spec: Object.spec{color: 'red'}}";
    let mutations = json!({"reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]});
    let validating = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed to configure binding: failed to convert object version: ";
    let mutating = "policy \"p\" denied request: failed to configure policy: ";
    for (kind, mut spec, code, words) in
        [("validating", validations, 422, validating), ("mutating", mutations, 403, mutating)]
    {
        let path = format!("{GROUP}/{kind}admissionpolicies");
        spec["matchConstraints"] = json!({"resourceRules": servers_of("v2")});
        cluster.post(path.clone(), json!({"metadata": {"name": "p"}, "spec": spec})).await.ok(201);
        let mut binding = json!({"policyName": "p"});
        if kind == "validating" {
            binding["validationActions"] = json!(["Deny"]);
        }
        let bindings = format!("{GROUP}/{kind}admissionpolicybindings");
        cluster.post(bindings, json!({"metadata": {"name": "p"}, "spec": binding})).await.ok(201);
        let denied = cluster.post(all("v1"), server("v1", kind)).await;
        assert!(message(&denied, code).ends_with(&format!("{words}{down}")), "{}", denied.text());
        cluster.merge(format!("{path}/p"), json!({"spec": {"failurePolicy": "Ignore"}})).await.ok(200);
        cluster.post(all("v1"), server("v1", kind)).await.ok(201);
    }
}
