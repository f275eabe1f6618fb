//! Answers in protobuf: the same objects as in JSON, for every kind and every verb.

use catalog::{Catalog, Resource};
use codec::protobuf;
use object::normalise::{Strict, normalise};
use serde_json::{Value, json};
use testkit::{Reply, Stream, TestCluster};

use crate::kinds::{NAMESPACE, collection, name, object, path};
use crate::sweep::{for_every_resource, has_a_controller, reconciled};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What client-go sends when it is told to speak protobuf.
const CLIENT_GO: &str = "application/vnd.kubernetes.protobuf,application/json";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A body as the JSON of the same object.
fn decoded(catalog: &Catalog, body: &[u8]) -> Result<Value, String> {
    let sealed = protobuf::open(body).map_err(|e| e.to_string())?;
    let (group, version) = sealed.api_version.split_once('/').unwrap_or(("", sealed.api_version));
    let version = if version.is_empty() { "v1" } else { version };
    let ty = catalog
        .find_type(group, version, sealed.kind)
        .ok_or_else(|| format!("no type {group}/{version} {}", sealed.kind))?;
    let find = |_: &str, _: &str| Some(ty);
    let mut value = protobuf::decode(catalog.schema(), body, &find, Some(ty)).map_err(|e| e.to_string())?;
    normalise(catalog.schema(), ty, &mut value, &mut Strict::off()).map_err(|e| e.to_string())?;
    serde_json::from_slice(&codec::json::to_vec(&value)).map_err(|e| e.to_string())
}

fn body_of(catalog: &Catalog, reply: &Reply) -> Result<Value, String> {
    if reply.content_type() != PROTOBUF {
        return Err(format!("content type {}: {}", reply.content_type(), reply.text()));
    }
    decoded(catalog, &reply.bytes)
}

/// A frame's event: its type and its object, which is a protobuf body inside bytes and so taken out by hand.
fn event(catalog: &Catalog, frame: &[u8]) -> Result<(String, Value), String> {
    let (kind, rest) = member(frame, 1)?;
    let (extension, rest) = member(rest, 2)?;
    let (object, inner_rest) = member(extension, 1)?;
    if !rest.is_empty() || !inner_rest.is_empty() {
        return Err("something stands behind the event".into());
    }
    Ok((String::from_utf8_lossy(kind).into_owned(), decoded(catalog, object)?))
}

/// The length-prefixed field that must come next, and what stands behind it.
fn member(bytes: &[u8], number: u8) -> Result<(&[u8], &[u8]), String> {
    let rest = bytes.strip_prefix(&[number << 3 | 2]).ok_or_else(|| format!("no field {number}"))?;
    let (mut length, mut shift, mut used) = (0usize, 0, 0);
    for byte in rest {
        length |= usize::from(byte & 0x7f) << shift;
        (shift, used) = (shift + 7, used + 1);
        if byte & 0x80 == 0 {
            break;
        }
    }
    rest.get(used..).and_then(|r| r.split_at_checked(length)).ok_or_else(|| "truncated".into())
}

async fn events(catalog: &Catalog, stream: &mut Stream) -> Result<Vec<(String, Value)>, String> {
    let mut all = Vec::new();
    while let Some(frame) = stream.next_frame().await {
        all.push(event(catalog, &frame)?);
    }
    Ok(all)
}

fn equal(what: &str, got: &Value, want: &Value) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}\n    got  {got}\n    want {want}")) }
}

fn without_items_types(mut list: Value) -> Value {
    for item in list["items"].as_array_mut().into_iter().flatten() {
        if let Some(map) = item.as_object_mut() {
            map.remove("kind");
            map.remove("apiVersion");
        }
    }
    list
}

#[tokio::test(start_paused = true)]
async fn every_resource_is_the_same_in_protobuf_and_in_json() {
    for_every_resource(|cluster, resource| async move {
        let (resource, catalog) = (&*resource, cluster.catalog());
        let here = path(resource, &name(resource, 21));
        let ask = |method: &str, path: String| cluster.request(method, path).accept(CLIENT_GO);
        let version = cluster.get(collection(resource)).await.version();
        let watched = format!("{}?watch=1&resourceVersion={version}&timeoutSeconds=1", collection(resource));
        let mut binary = ask("GET", watched.clone()).stream().await;
        if binary.headers["content-type"] != "application/vnd.kubernetes.protobuf;stream=watch" {
            return Err(format!("content type of a watch: {:?}", binary.headers));
        }
        let mut lines = cluster.watch(watched).await;

        let body = object(resource, &name(resource, 21));
        let made = ask("POST", collection(resource)).json(&body).send().await;
        let mut made_value = body_of(&catalog, &made)?;
        if has_a_controller(resource) {
            reconciled(&cluster, resource).await;
            made_value = cluster.get(here.clone()).await.json();
        }
        equal("create", &made_value, &cluster.get(here.clone()).await.json())?;
        equal("code of a create", &json!(made.status), &json!(201))?;
        let got = ask("GET", here.clone()).send().await;
        equal("get", &body_of(&catalog, &got)?, &made_value)?;

        // What was read is written back as it is: nothing changes.
        let back = ask("PUT", here.clone()).typed(PROTOBUF, got.bytes.clone()).send().await;
        equal("update with what was read", &body_of(&catalog, &back)?, &made_value)?;
        let patch = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d\u{e9}"}}}).to_string();
        let patched = ask("PATCH", here.clone()).typed("application/merge-patch+json", patch).send().await;
        equal("patch", &body_of(&catalog, &patched)?, &cluster.get(here.clone()).await.json())?;

        let listed = body_of(&catalog, &ask("GET", collection(resource)).send().await)?;
        let as_json = cluster.get(collection(resource)).await.json();
        equal("list", &without_items_types(listed), &without_items_types(as_json))?;
        metadata(&cluster, &catalog, resource, &here).await?;

        let deleted = ask("DELETE", format!("{here}?propagationPolicy=Background&dryRun=All")).send().await;
        body_of(&catalog, &deleted)?;
        let deleted =
            cluster.delete(format!("{here}?propagationPolicy=Background&gracePeriodSeconds=0")).await;
        equal("code of a delete", &json!(deleted.status), &json!(200))?;
        reconciled(&cluster, resource).await;
        let gone = ask("GET", path(resource, "no-such")).send().await;
        let want = cluster.get(path(resource, "no-such")).await;
        equal("a refusal", &body_of(&catalog, &gone)?, &want.json())?;
        equal("code of a refusal", &json!(gone.status), &json!(404))?;

        let told: Vec<Value> = lines.rest().await;
        let seen = events(&catalog, &mut binary).await?;
        equal("how many events", &json!(seen.len()), &json!(told.len()))?;
        for ((kind, object), want) in seen.iter().zip(&told) {
            equal("type of an event", &json!(kind), &want["type"])?;
            equal("object of an event", object, &want["object"])?;
        }
        Ok(())
    })
    .await;
}

async fn metadata(
    cluster: &TestCluster,
    catalog: &Catalog,
    resource: &Resource,
    here: &str,
) -> Result<(), String> {
    let view = |path: String, media: &str, kind: &str| {
        cluster.request("GET", path).accept(&format!("{media};as={kind};g=meta.k8s.io;v=v1")).send()
    };
    let one = view(here.to_owned(), PROTOBUF, "PartialObjectMetadata").await;
    let want = view(here.to_owned(), "application/json", "PartialObjectMetadata").await.json();
    equal("metadata", &body_of(catalog, &one)?, &want)?;
    let list = view(collection(resource), PROTOBUF, "PartialObjectMetadataList").await;
    let mut want = view(collection(resource), "application/json", "PartialObjectMetadataList").await.json();
    // The items of a protobuf list have no place for their type.
    for item in want["items"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        item.remove("kind");
        item.remove("apiVersion");
    }
    equal("list of metadata", &body_of(catalog, &list)?, &want)
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_never_stored_come_in_protobuf_too() {
    let cluster = TestCluster::simulated(31).await;
    let catalog = cluster.catalog().clone();
    let post = |path: &str, body: Value| cluster.request("POST", path).accept(CLIENT_GO).json(&body).send();
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let answer = body_of(&catalog, &post(review, body).await).unwrap();
    assert_eq!(answer["status"]["allowed"], json!(true), "{answer}");
    let who = post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
    let who = body_of(&catalog, &who).unwrap();
    assert_eq!(who["status"]["userInfo"]["username"], json!("kubernetes-admin"));
    let statuses = cluster.request("GET", "/api/v1/componentstatuses").accept(CLIENT_GO).send().await;
    assert_eq!(body_of(&catalog, &statuses).unwrap()["kind"], json!("ComponentStatusList"));

    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    cluster
        .post(
            deployments,
            json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        )
        .await
        .ok(201);
    let path = format!("{deployments}/web/scale");
    let scale = cluster.request("GET", path.clone()).accept(CLIENT_GO).send().await;
    assert_eq!(body_of(&catalog, &scale).unwrap(), cluster.get(path.clone()).await.json());
    // A scale in protobuf is taken, too.
    let back = cluster.request("PUT", path).accept(CLIENT_GO).typed(PROTOBUF, scale.bytes).send().await;
    assert_eq!(back.status, 200, "{}", back.text());
}

#[tokio::test(start_paused = true)]
async fn discovery_comes_in_protobuf() {
    let cluster = TestCluster::simulated(32).await;
    let catalog = cluster.catalog().clone();
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"] {
        let reply = cluster.request("GET", path).accept(CLIENT_GO).send().await;
        let got = body_of(&catalog, &reply).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut want = cluster.get(path).await.json();
        if want.get("apiVersion").is_none() {
            // Only JSON can leave it out: the decoder fills in what the envelope says.
            assert_eq!(protobuf::open(&reply.bytes).unwrap().api_version, "");
            want["apiVersion"] = got["apiVersion"].clone();
            want.as_object_mut().unwrap().retain(|_, v| !v.is_null());
        }
        assert_eq!(got["kind"], want["kind"], "{path}");
        for list in ["groups", "resources", "versions"] {
            let count = |v: &Value| v[list].as_array().map(Vec::len);
            assert_eq!(count(&got), count(&want), "{path}: {list}");
        }
    }
    let accept = "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let reply = cluster.request("GET", "/apis").accept(accept).send().await;
    assert_eq!(reply.content_type(), accept);
    let document = decoded(&catalog, &reply.bytes).unwrap();
    assert!(document["items"].as_array().unwrap().len() > 10, "{document}");
    // The root is no API object.
    let root = cluster.request("GET", "/").accept(CLIENT_GO).send().await;
    assert_eq!((root.status, root.content_type()), (200, "application/json"));
}

#[tokio::test(start_paused = true)]
async fn the_first_acceptable_type_wins() {
    let cluster = TestCluster::simulated(33).await;
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let one = format!("{MAPS}/a");
    let table = "as=Table;g=meta.k8s.io;v=v1";
    let cases: Vec<(String, u16, &str)> = vec![
        ("application/vnd.kubernetes.protobuf,application/json".into(), 200, PROTOBUF),
        ("application/json,application/vnd.kubernetes.protobuf".into(), 200, "application/json"),
        ("application/json;q=0.5,application/vnd.kubernetes.protobuf".into(), 200, PROTOBUF),
        ("application/vnd.kubernetes.protobuf;q=0.1,application/yaml;q=0.2".into(), 200, "application/yaml"),
        ("*/*".into(), 200, "application/json"),
        ("*/*,application/vnd.kubernetes.protobuf".into(), 200, PROTOBUF),
        ("application/*".into(), 406, "application/json"),
        ("application/*,text/html,*/*;q=0.1".into(), 200, "application/json"),
        ("application/vnd.kubernetes.protobuf;type=watch".into(), 200, PROTOBUF),
        ("application/vnd.kubernetes.protobuf;stream=watch".into(), 200, PROTOBUF),
        ("application/vnd.kubernetes.protobuf;stream=other".into(), 406, "application/json"),
        ("text/html, image/gif".into(), 406, "application/json"),
        // No Table in protobuf: the next entry is tried.
        (format!("application/vnd.kubernetes.protobuf;{table}"), 406, "application/json"),
        (format!("{PROTOBUF};{table},application/json;{table},application/json"), 200, "application/json"),
        ("application/json;pretty=1".into(), 200, "application/json"),
    ];
    for (accept, status, media) in cases {
        let reply = cluster.request("GET", one.clone()).accept(&accept).send().await;
        assert_eq!((reply.status, reply.content_type()), (status, media), "{accept}: {}", reply.text());
    }
    let table = cluster.request("GET", one.clone()).accept(&format!("{PROTOBUF};{table}")).send().await;
    assert_eq!(
        table.json()["message"],
        json!(
            "only the following media types are accepted: application/json, application/yaml, \
               application/vnd.kubernetes.protobuf"
        )
    );
    let yaml = cluster.request("GET", format!("{MAPS}?watch=1")).accept("application/yaml").send().await;
    assert_eq!(yaml.status, 406);
    // The refusal itself has a YAML form.
    assert_eq!(yaml.content_type(), "application/yaml");
    let types = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let text = yaml.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(types), "{text}");
}

#[tokio::test(start_paused = true)]
async fn long_lists_are_whole_in_protobuf_and_compressed_when_asked() {
    let cluster = TestCluster::simulated(34).await;
    let catalog = cluster.catalog().clone();
    for n in 0..300 {
        let body = json!({"metadata": {"name": format!("m{n:03}")}, "data": {"text": "x".repeat(n * 17)}});
        cluster.post(MAPS, body).await.ok(201);
    }
    let want = cluster.get(MAPS).await.json();
    for _ in 0..2 {
        let list = cluster.request("GET", MAPS).accept(CLIENT_GO).send().await;
        assert_eq!(without_items_types(body_of(&catalog, &list).unwrap()), want);
    }
    let packed =
        cluster.request("GET", MAPS).accept(CLIENT_GO).header("Accept-Encoding", "gzip").send().await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    let page = cluster.request("GET", format!("{MAPS}?limit=7")).accept(CLIENT_GO).send().await;
    let page = body_of(&catalog, &page).unwrap();
    assert_eq!(page["items"].as_array().unwrap().len(), 7);
    let token = page["metadata"]["continue"].as_str().unwrap();
    assert_eq!(page["metadata"]["remainingItemCount"], json!(293));
    let rest = cluster.request("GET", format!("{MAPS}?continue={token}")).accept(CLIENT_GO).send().await;
    assert_eq!(body_of(&catalog, &rest).unwrap()["items"].as_array().unwrap().len(), 293);
    let none = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let none = cluster.request("GET", none).accept(CLIENT_GO).send().await;
    assert_eq!(body_of(&catalog, &none).unwrap()["kind"], json!("ConfigMapList"));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_initial_events_and_errors_are_frames_too() {
    let cluster = TestCluster::simulated(35).await;
    let catalog = cluster.catalog().clone();
    cluster.post(MAPS, json!({"metadata": {"name": "a"}})).await.ok(201);
    let path = format!(
        "{MAPS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=90"
    );
    let mut binary = cluster.request("GET", path.clone()).accept(CLIENT_GO).stream().await;
    let mut lines = cluster.watch(path).await;
    // Side by side: who comes late misses bookmarks.
    let (seen, told) = tokio::join!(events(&catalog, &mut binary), lines.rest());
    let seen = seen.unwrap();
    assert_eq!(seen.len(), told.len());
    assert!(seen.iter().any(|(kind, _)| kind == "BOOKMARK"));
    for ((kind, object), want) in seen.iter().zip(&told) {
        assert_eq!(json!(kind), want["type"]);
        assert_eq!(object["metadata"], want["object"]["metadata"]);
    }
    // A version below the history.
    let table = cluster.api().registry().table().clone();
    let now = table.revision();
    table.compact(now);
    let path = format!("{MAPS}?watch=1&resourceVersion={}&timeoutSeconds=5", now.0 - 1);
    let mut expired = cluster.request("GET", path).accept(CLIENT_GO).stream().await;
    let seen = events(&catalog, &mut expired).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].0.as_str(), &seen[0].1["code"]), ("ERROR", &json!(410)), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn unauthenticated_refusals_come_in_protobuf() {
    let cluster = TestCluster::simulated(36).await;
    let catalog = cluster.catalog().clone();
    let nobody = cluster.request("GET", MAPS).unproven().accept(CLIENT_GO).send().await;
    assert_eq!(nobody.status, 403);
    let status = body_of(&catalog, &nobody).unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("Forbidden")));
    let token = cluster.request("GET", MAPS).unproven().header("Authorization", "Bearer x").accept(CLIENT_GO);
    let token = token.send().await;
    assert_eq!(token.status, 401);
    assert_eq!(body_of(&catalog, &token).unwrap()["reason"], json!("Unauthorized"));
    // Causes survive.
    let body = json!({"metadata": {"name": "Not A Name"}});
    let invalid = cluster.request("POST", MAPS).accept(CLIENT_GO).json(&body).send().await;
    let want = cluster.post(MAPS, body).await.json();
    assert_eq!(body_of(&catalog, &invalid).unwrap(), want);
}

/// A length-prefixed field of a small number and size.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).ok().filter(|length| *length < 0x80).unwrap();
    [&[number << 3 | 2, length], content].concat()
}

/// Whether a body has that entry of `managedFields`, in kube-apiserver's bytes: everything but the time, in the order of the
/// numbers, and the fields as JSON in a message of their own.
fn has_manager(body: &[u8], manager: &str, operation: &str, fields: &str) -> bool {
    let who = [field(1, manager.as_bytes()), field(2, operation.as_bytes()), field(3, b"v1")].concat();
    let what = [field(6, b"FieldsV1"), field(7, &field(1, fields.as_bytes()))].concat();
    let find = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).position(|window| window == part);
    let Some(at) = find(body, &who) else { return false };
    // A time of whole seconds: its message has one number of five bytes.
    let rest = &body[at + who.len()..];
    rest.starts_with(&[4 << 3 | 2, 8, 1 << 3]) && rest[10..].starts_with(&what)
}

#[tokio::test]
async fn managers_are_bytes_of_json_and_survive_every_write() {
    let cluster = TestCluster::start().await;
    let here = format!("{MAPS}/a");
    let ask = |method: &str, path: String| cluster.request(method, path).accept(PROTOBUF);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "annotations": {"l": "old"}}, "data": {"k": "1", "j": "2"}});
    let made = ask("POST", format!("{MAPS}?fieldManager=maker")).json(&map).send().await;
    let annotations = r#""f:metadata":{"f:annotations":{".":{},"f:l":{}}}"#;
    let makers = format!(r#"{{"f:data":{{".":{{}},"f:j":{{}},"f:k":{{}}}},{annotations}}}"#);
    assert!(has_manager(&made.bytes, "maker", "Update", &makers), "{}", made.text());

    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"m": "3"}});
    let applied = ask("PATCH", format!("{here}?fieldManager=applier"));
    let applied = applied.typed("application/apply-patch+yaml", config.to_string()).send().await;
    let appliers = r#"{"f:data":{"f:m":{}}}"#;
    assert!(has_manager(&applied.bytes, "applier", "Apply", appliers), "{}", applied.text());
    let view = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let view = cluster.request("GET", &here).accept(&view).send().await;
    assert!(has_manager(&view.bytes, "maker", "Update", &makers), "{}", view.text());
    assert!(has_manager(&view.bytes, "applier", "Apply", appliers), "{}", view.text());

    // The body of a client that changes one value of as many bytes: the others stay as they are.
    let value = |text: &str| [field(1, b"l"), field(2, text.as_bytes())].concat();
    let at = applied.bytes.windows(8).position(|window| window == value("old")).unwrap();
    let mut body = applied.bytes.to_vec();
    body[at..at + 8].copy_from_slice(&value("new"));
    let put = ask("PUT", format!("{here}?fieldManager=writer")).typed(PROTOBUF, body).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    let writers = r#"{"f:metadata":{"f:annotations":{"f:l":{}}}}"#;
    let makers = r#"{"f:data":{".":{},"f:j":{},"f:k":{}},"f:metadata":{"f:annotations":{}}}"#;
    assert!(has_manager(&put.bytes, "writer", "Update", writers), "{}", put.text());
    assert!(has_manager(&put.bytes, "maker", "Update", makers), "{}", put.text());
    assert!(has_manager(&put.bytes, "applier", "Apply", appliers), "{}", put.text());

    // A table has the objects in JSON, with or without all of them.
    for include in ["Object", "Metadata"] {
        let table = cluster.request("GET", format!("{here}?includeObject={include}"));
        let table = table.accept("application/json;as=Table;g=meta.k8s.io;v=v1").send().await.ok(200);
        let entries = &table["rows"][0]["object"]["metadata"]["managedFields"];
        assert_eq!(*entries, cluster.get(&here).await.ok(200)["metadata"]["managedFields"], "{include}");
    }
}
