//! Properties of every stored resource of the catalogue.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Resource, Verbs};
use env::Env;
use serde_json::{Value, json};
use testkit::{Stream, TestCluster};

use crate::kinds::{NAMESPACE, collection, name, names_are_given, object, path, status};

/// Every stored resource, each with a cluster of its own; all failures are reported.
pub async fn for_every_resource<F, Fut>(fact: F)
where
    F: Fn(Arc<TestCluster>, Arc<Resource>) -> Fut,
    Fut: Future<Output = Result<(), String>>,
{
    // Nobody here takes the protection of volumes away again.
    let off = vec!["StorageObjectInUseProtection".to_owned()];
    let cluster = TestCluster::with(Env::simulated(3), |config| config.admission.disable = off).await;
    let cluster = Arc::new(cluster);
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": NAMESPACE}})).await.ok(201);
    cluster.settled().await;
    let catalog = cluster.catalog().clone();
    let mut failures = Vec::new();
    let mut seen = 0;
    for resource in catalog.resources().iter().filter(|r| r.storage.is_some()) {
        seen += 1;
        if let Err(why) = fact(cluster.clone(), resource.clone()).await {
            failures.push(format!("{} {}: {why}", resource.api_version(), resource.plural));
        }
    }
    assert!(seen > 50, "the catalogue has only {seen} stored resources");
    assert!(failures.is_empty(), "{} of {seen}:\n{}", failures.len(), failures.join("\n"));
}

/// A controller of the server writes its status and deletes it: what follows a write is to be waited for.
pub fn has_a_controller(resource: &Resource) -> bool {
    resource.kind == "CustomResourceDefinition"
}

/// Waits until that controller has done what there is to do.
pub async fn reconciled(cluster: &TestCluster, resource: &Resource) {
    if has_a_controller(resource) {
        cluster.quiet(Duration::from_millis(5)).await;
    }
}

async fn created(cluster: &TestCluster, resource: &Resource, n: usize) -> Result<Value, String> {
    let reply = cluster.post(collection(resource), object(resource, &name(resource, n))).await;
    check!(reply.status == 201, "create: {}", reply.text());
    if !has_a_controller(resource) {
        return Ok(reply.json());
    }
    reconciled(cluster, resource).await;
    Ok(cluster.get(path(resource, &name(resource, n))).await.json())
}

/// Removes an object whatever holds it.
async fn remove(cluster: &TestCluster, resource: &Resource, n: usize) -> Result<(), String> {
    let path = path(resource, &name(resource, n));
    // Some kinds orphan what they own unless told otherwise, which needs a controller.
    let reply = cluster.delete(format!("{path}?propagationPolicy=Background")).await;
    check!(reply.status == 200, "delete: {}", reply.text());
    if resource.kind == "Namespace" {
        finalize(cluster, &path).await?;
    }
    reconciled(cluster, resource).await;
    let gone = cluster.get(path).await;
    check!(gone.status == 404, "still there after delete: {}", gone.text());
    Ok(())
}

/// The last step of a namespace's deletion, which a controller does.
async fn finalize(cluster: &TestCluster, path: &str) -> Result<(), String> {
    let mut namespace = cluster.get(path).await.json();
    namespace["spec"]["finalizers"] = json!([]);
    let reply = cluster.put(format!("{path}/finalize"), namespace).await;
    check!(reply.status == 200, "finalize: {}", reply.text());
    let reply = cluster.delete(path).await;
    check!(reply.status == 200 || reply.status == 404, "delete after finalize: {}", reply.text());
    Ok(())
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or("")
}

/// A watch on the collection from the present version on.
async fn watch_from_now(cluster: &TestCluster, resource: &Resource) -> Stream {
    let version = cluster.get(collection(resource)).await.version();
    cluster
        .watch(format!("{}?watch=1&resourceVersion={version}&timeoutSeconds=1", collection(resource)))
        .await
}

fn kinds_of(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["type"].as_str().unwrap_or("")).collect()
}

#[tokio::test(start_paused = true)]
async fn every_resource_is_created_read_listed_watched_and_deleted() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let mut watch = watch_from_now(&cluster, resource).await;
        let made = created(&cluster, resource, 1).await?;
        same!(made["kind"], json!(resource.kind.as_str()), "kind");
        same!(made["apiVersion"], json!(resource.api_version()), "apiVersion");
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            check!(made["metadata"][field].is_string(), "metadata.{field} is missing in {made}");
        }
        let here = path(resource, &name(resource, 1));
        same!(cluster.get(here.clone()).await.json(), made, "get after create");
        let list = cluster.get(collection(resource)).await.json();
        same!(list["kind"], json!(resource.list_kind.as_str()), "kind of the list");
        let mut in_list = list["items"].as_array().cloned().unwrap_or_default();
        in_list.retain(|o| o["metadata"]["uid"] == made["metadata"]["uid"]);
        check!(in_list.len() == 1, "listed {} times", in_list.len());
        in_list[0]["kind"] = made["kind"].clone();
        in_list[0]["apiVersion"] = made["apiVersion"].clone();
        same!(in_list[0], made, "item of the list");
        if resource.namespaced {
            let plain = collection(resource).replace(&format!("/namespaces/{NAMESPACE}"), "");
            let all = cluster
                .get(format!("{plain}?fieldSelector=metadata.name%3D{}", name(resource, 1)))
                .await
                .json();
            same!(all["items"].as_array().map(Vec::len), Some(1), "list over all namespaces");
        }
        let again = cluster.post(collection(resource), object(resource, &name(resource, 1))).await;
        same!(again.status, 409, "create again: {}", again.text());
        same!(again.json()["reason"], json!("AlreadyExists"), "create again");
        remove(&cluster, resource, 1).await?;
        let events = watch.rest().await;
        let kinds = kinds_of(&events);
        // These go in steps that are seen.
        let reconciled = has_a_controller(resource);
        let slow = matches!(resource.kind.as_str(), "Namespace" | "Pod") || reconciled;
        check!(kinds.first() == Some(&"ADDED") && kinds.last() == Some(&"DELETED"), "events {kinds:?}");
        check!(slow || kinds.len() == 2, "events {kinds:?}");
        if reconciled {
            same!(events[0]["object"]["metadata"]["uid"], made["metadata"]["uid"], "uid in the ADDED event");
        } else {
            same!(events[0]["object"], made, "object of the ADDED event");
        }
        let last = &events[events.len() - 1]["object"];
        check!(version(last) != version(&made), "a DELETED event carries the version of the deletion");
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn updates_are_optimistic_everywhere() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let storage = resource.storage.as_ref().expect("only stored ones come here");
        let here = path(resource, &name(resource, 2));
        let absent = cluster.put(format!("{here}?dryRun=All"), object(resource, &name(resource, 2))).await;
        same!(
            absent.status,
            if storage.create_on_update { 201 } else { 404 },
            "PUT of an absent object: {}",
            absent.text()
        );

        let first = created(&cluster, resource, 2).await?;
        let mut labelled = first.clone();
        labelled["metadata"]["labels"] = json!({"round": "one"});
        let second = cluster.put(here.clone(), labelled.clone()).await;
        same!(second.status, 200, "update: {}", second.text());
        check!(second.version() != version(&first), "an update moves the version");
        same!(second.json()["metadata"]["uid"], first["metadata"]["uid"], "uid");

        labelled["metadata"]["labels"] = json!({"round": "two"});
        let stale = cluster.put(here.clone(), labelled.clone()).await;
        same!(stale.status, 409, "update with a stale version: {}", stale.text());
        same!(stale.json()["reason"], json!("Conflict"), "reason of a stale update");

        labelled["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        let unconditional = cluster.put(here.clone(), labelled).await;
        let wanted = if storage.unconditional_update { 200 } else { 422 };
        same!(unconditional.status, wanted, "update without a version: {}", unconditional.text());

        let before = cluster.get(here.clone()).await;
        let nothing = cluster.put(here.clone(), before.json()).await;
        same!(nothing.status, 200, "no-op update: {}", nothing.text());
        same!(nothing.json(), before.json(), "a no-op update changes nothing");

        let mut other_uid = before.json();
        other_uid["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
        same!(cluster.put(here.clone(), other_uid).await.status, 409, "update of another uid");
        remove(&cluster, resource, 2).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_patch_type_works_everywhere() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let mut before = created(&cluster, resource, 3).await?;
        let here = path(resource, &name(resource, 3));
        let patches = [
            ("merge", "application/merge-patch+json", json!({"metadata": {"labels": {"merge": "1"}}})),
            (
                "strategic",
                "application/strategic-merge-patch+json",
                json!({"metadata": {"labels": {"strategic": "1"}}}),
            ),
            (
                "json",
                "application/json-patch+json",
                json!([{"op": "add", "path": "/metadata/labels/json", "value": "1"}]),
            ),
        ];
        for (label, media, patch) in patches {
            let ask = || cluster.request("PATCH", here.clone()).typed(media, patch.to_string());
            let reply = ask().send().await;
            same!(reply.status, 200, "{media}: {}", reply.text());
            let after = reply.json();
            check!(version(&after) != version(&before), "{media} moved no version");
            let mut wanted = before.clone();
            wanted["metadata"]["labels"][label] = json!("1");
            for field in ["resourceVersion", "generation", "managedFields"] {
                match after["metadata"][field].clone() {
                    Value::Null => drop(wanted["metadata"].as_object_mut().expect("metadata").remove(field)),
                    value => wanted["metadata"][field] = value,
                }
            }
            same!(after, wanted, "{media} changed something else");
            let again = ask().send().await;
            same!(again.json(), after, "{media} again is a no-op");
            before = after;
        }
        let missing = cluster.merge(path(resource, &name(resource, 4)), json!({})).await;
        same!(missing.status, 404, "patch of an absent object");
        remove(&cluster, resource, 3).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn dry_runs_store_nothing_anywhere() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let revision = || cluster.api().registry().table().revision();
        let here = path(resource, &name(resource, 5));
        let at = revision();
        let reply = cluster
            .post(format!("{}?dryRun=All", collection(resource)), object(resource, &name(resource, 5)))
            .await;
        same!(reply.status, 201, "create: {}", reply.text());
        check!(reply.json()["metadata"]["uid"].is_string(), "a dry create shows the complete object");
        same!(cluster.get(here.clone()).await.status, 404, "get after a dry create");
        same!(revision(), at, "a dry create moved the revision");

        let made = created(&cluster, resource, 5).await?;
        let at = revision();
        let mut changed = made.clone();
        changed["metadata"]["labels"] = json!({"dry": "run"});
        let reply = cluster.put(format!("{here}?dryRun=All"), changed).await;
        same!(reply.status, 200, "update: {}", reply.text());
        same!(reply.json()["metadata"]["labels"]["dry"], json!("run"), "a dry update shows the result");
        let reply = cluster
            .merge(format!("{here}?dryRun=All"), json!({"metadata": {"labels": {"dry": "run"}}}))
            .await;
        same!(reply.status, 200, "patch: {}", reply.text());
        let reply = cluster.delete(format!("{here}?dryRun=All")).await;
        same!(reply.status, 200, "delete: {}", reply.text());
        same!(cluster.get(here.clone()).await.json(), made, "the object after dry writes");
        same!(revision(), at, "dry writes moved the revision");
        remove(&cluster, resource, 5).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn names_are_generated_where_they_may_be() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        if names_are_given(resource) {
            return Ok(());
        }
        let mut body = object(resource, "unused");
        body["metadata"] = json!({"generateName": "made-", "labels": {"generated": "yes"}});
        let mut names = Vec::new();
        for _ in 0..2 {
            let reply = cluster.post(collection(resource), body.clone()).await;
            same!(reply.status, 201, "create: {}", reply.text());
            let made = reply.json();
            let name = made["metadata"]["name"].as_str().unwrap_or("").to_owned();
            check!(name.starts_with("made-") && name.len() == 10, "generated name {name:?}");
            same!(made["metadata"]["generateName"], json!("made-"), "generateName");
            names.push(name);
        }
        check!(names[0] != names[1], "the same name twice");
        for name in names {
            cluster.delete(format!("{}?propagationPolicy=Background", path(resource, &name))).await;
            if resource.kind == "Namespace" {
                finalize(&cluster, &path(resource, &name)).await?;
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let Some(sub) = resource.subresource("status") else { return Ok(()) };
        if !sub.verbs.contains(Verbs::UPDATE) {
            return Ok(());
        }
        let here = path(resource, &name(resource, 6));
        let made = created(&cluster, resource, 6).await?;
        let wanted = status(resource);

        // Through the object, the status stays.
        let mut body = made.clone();
        body["status"] = wanted.clone();
        let reply = cluster.put(here.clone(), body.clone()).await;
        same!(reply.status, 200, "update: {}", reply.text());
        if resource.kind != "Node" {
            same!(reply.json()["status"], made["status"], "an update of the object changed its status");
        }

        // Through the subresource, only the status changes.
        let mut body = cluster.get(here.clone()).await.json();
        let before = body.clone();
        body["status"] = wanted.clone();
        if body["spec"].is_object() {
            body["spec"] = json!({});
        }
        let reply = cluster.put(format!("{here}/status"), body).await;
        same!(reply.status, 200, "update of the status: {}", reply.text());
        let after = reply.json();
        same!(after["spec"], before["spec"], "an update of the status changed the spec");
        same!(
            after["metadata"]["generation"],
            before["metadata"]["generation"],
            "the generation moved with the status"
        );
        for (field, value) in wanted.as_object().expect("a map") {
            let got = &after["status"][field];
            // Conditions get dates; what was sent must still be there.
            if field == "conditions" {
                same!(got[0]["type"], value[0]["type"], "status.conditions");
            } else if field != "allocation" && field != "acceptedNames" {
                same!(*got, *value, "status.{field}");
            }
        }
        reconciled(&cluster, resource).await;
        if !has_a_controller(resource) {
            same!(cluster.get(format!("{here}/status")).await.json(), after, "get of the status");
        }
        let reply = cluster.merge(format!("{here}/status"), json!({"status": {"conditions": null}})).await;
        same!(reply.status, 200, "patch of the status: {}", reply.text());
        let stale = cluster.put(format!("{here}/status"), before).await;
        same!(stale.status, 409, "stale update of the status: {}", stale.text());
        remove(&cluster, resource, 6).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_every_object() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let mut watch = watch_from_now(&cluster, resource).await;
        let here = path(resource, &name(resource, 7));
        let mut body = object(resource, &name(resource, 7));
        body["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let reply = cluster.post(collection(resource), body).await;
        same!(reply.status, 201, "create: {}", reply.text());

        let reply = cluster.delete(format!("{here}?propagationPolicy=Background")).await;
        same!(reply.status, 200, "delete: {}", reply.text());
        let held = reply.json();
        check!(held["metadata"]["deletionTimestamp"].is_string(), "no deletionTimestamp in {held}");
        same!(held["kind"], json!(resource.kind.as_str()), "what a held delete answers");
        reconciled(&cluster, resource).await;
        let got = cluster.get(here.clone()).await.json();
        if has_a_controller(resource) {
            same!(got["metadata"]["finalizers"], json!(["example.com/hold"]), "held by ours alone");
        } else {
            same!(got, held, "get while held");
        }
        let again = cluster.delete(format!("{here}?propagationPolicy=Background")).await;
        same!(again.status, 200, "delete again: {}", again.text());
        same!(
            again.json()["metadata"]["deletionTimestamp"],
            held["metadata"]["deletionTimestamp"],
            "deleted again"
        );

        let more = cluster
            .merge(
                here.clone(),
                json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
            )
            .await;
        same!(more.status, 422, "a new finalizer on a deleted object: {}", more.text());

        if resource.kind == "Namespace" {
            finalize(&cluster, &here).await?;
        }
        let freed = cluster.merge(here.clone(), json!({"metadata": {"finalizers": null}})).await;
        same!(freed.status, 200, "patch: {}", freed.text());
        same!(cluster.get(here).await.status, 404, "get after the last finalizer went");
        let events = watch.rest().await;
        let kinds = kinds_of(&events);
        if resource.kind != "Namespace" && !has_a_controller(resource) {
            same!(kinds, ["ADDED", "MODIFIED", "DELETED"], "events");
        }
        check!(kinds.last() == Some(&"DELETED"), "events {kinds:?}");
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted_by_selector() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        if !resource.verbs.contains(Verbs::DELETE_COLLECTION) {
            let reply = cluster.delete(format!("{}?labelSelector=no%3Dsuch", collection(resource))).await;
            same!(reply.status, 405, "deletecollection: {}", reply.text());
            return Ok(());
        }
        for (n, label) in [(8, "gone"), (9, "gone"), (10, "kept")] {
            let mut body = object(resource, &name(resource, n));
            body["metadata"]["labels"] = json!({"sweep": label});
            let reply = cluster.post(collection(resource), body).await;
            same!(reply.status, 201, "create: {}", reply.text());
        }
        let reply = cluster
            .delete(format!(
                "{}?labelSelector=sweep%3Dgone&propagationPolicy=Background",
                collection(resource)
            ))
            .await;
        same!(reply.status, 200, "deletecollection: {}", reply.text());
        let answer = reply.json();
        same!(answer["kind"], json!(resource.list_kind.as_str()), "kind of the answer");
        same!(answer["items"].as_array().map(Vec::len), Some(2), "items of the answer");
        reconciled(&cluster, resource).await;
        let left = cluster.get(format!("{}?labelSelector=sweep", collection(resource))).await.json();
        let names: Vec<_> =
            left["items"].as_array().into_iter().flatten().map(|o| o["metadata"]["name"].clone()).collect();
        same!(names, [json!(name(resource, 10))], "what is left");
        remove(&cluster, resource, 10).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn every_object_has_its_views() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let made = created(&cluster, resource, 11).await?;
        let here = path(resource, &name(resource, 11));
        let named = format!("{}?fieldSelector=metadata.name%3D{}", collection(resource), name(resource, 11));
        let view = |of: &str, kind: &str| {
            cluster
                .request("GET", of)
                .accept(&format!("application/json;as={kind};g=meta.k8s.io;v=v1"))
                .send()
        };

        for of in [&here, &named] {
            let table = view(of, "Table").await;
            same!(table.status, 200, "table: {}", table.text());
            let table = table.json();
            same!(table["kind"], json!("Table"), "kind of a table");
            let columns = table["columnDefinitions"].as_array().cloned().unwrap_or_default();
            // The first column of nearly every kind; events are read by time and carry theirs last.
            let at = columns.iter().position(|c| c["name"] == "Name").unwrap_or(columns.len());
            same!(columns.get(at).map(|c| &c["format"]), Some(&json!("name")), "format of the name's column");
            same!(table["rows"].as_array().map(Vec::len), Some(1), "rows");
            let (row, columns) = (&table["rows"][0], Some(columns.len()));
            same!(row["cells"][at], json!(name(resource, 11)), "cell of the name");
            // Upstream shows the age of addresses without a column for it.
            let columns = columns.map(|n| n + usize::from(resource.plural == "ipaddresses"));
            same!(row["cells"].as_array().map(Vec::len), columns, "cells");
            same!(row["object"]["kind"], json!("PartialObjectMetadata"), "object of a row");
        }
        let one = view(&here, "PartialObjectMetadata").await.json();
        same!(one["kind"], json!("PartialObjectMetadata"), "kind of the metadata");
        let mut metadata = made["metadata"].clone();
        if resource.plural == "daemonsets" {
            // The annotation is a field of upstream's internal form: only the object itself shows it.
            metadata.as_object_mut().expect("a map").remove("annotations");
        }
        same!(one["metadata"], metadata, "metadata");
        let list = view(&named, "PartialObjectMetadataList").await.json();
        same!(list["kind"], json!("PartialObjectMetadataList"), "kind of the metadata's list");
        same!(list["items"][0]["metadata"], metadata, "metadata in a list");

        // YAML out, and in again.
        let yaml = cluster.request("GET", here.clone()).accept("application/yaml").send().await;
        same!((yaml.status, yaml.content_type()), (200, "application/yaml"), "YAML");
        check!(!yaml.text().starts_with('{'), "YAML that is JSON");
        let back =
            cluster.request("PUT", here.clone()).typed("application/yaml", yaml.bytes.clone()).send().await;
        same!(back.status, 200, "PUT of its own YAML: {}", back.text());
        same!(back.json(), made, "the object after PUT of its own YAML");

        let pretty = cluster.get(format!("{here}?pretty=true")).await;
        check!(pretty.text().contains("\n  \"metadata\": {"), "pretty: {}", pretty.text());
        same!(pretty.json(), made, "pretty");
        remove(&cluster, resource, 11).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_reported_everywhere() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let mut body = object(resource, &name(resource, 12));
        body["nope"] = json!(1);
        let ask = |how: &str| {
            cluster.post(format!("{}?dryRun=All&fieldValidation={how}", collection(resource)), body.clone())
        };
        let strict = ask("Strict").await;
        same!(strict.status, 400, "Strict: {}", strict.text());
        check!(
            strict.text().contains("strict decoding error: unknown field \\\"nope\\\""),
            "Strict: {}",
            strict.text()
        );
        let warned = ask("Warn").await;
        same!(warned.status, 201, "Warn: {}", warned.text());
        check!(
            warned.warnings().contains(&"299 - \"unknown field \\\"nope\\\"\"".to_owned()),
            "Warn: {:?}",
            warned.warnings()
        );
        let ignored = ask("Ignore").await;
        same!(ignored.status, 201, "Ignore: {}", ignored.text());
        check!(!ignored.warnings().iter().any(|w| w.contains("nope")), "Ignore: {:?}", ignored.warnings());
        check!(ignored.json().get("nope").is_none(), "an unknown field was kept");
        Ok(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn delete_keeps_its_preconditions_everywhere() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let made = created(&cluster, resource, 13).await?;
        let here = path(resource, &name(resource, 13));
        let delete = |preconditions: Value| {
            let options = json!({"preconditions": preconditions, "propagationPolicy": "Background"});
            cluster.request("DELETE", here.clone()).json(&options).send()
        };
        for wrong in [json!({"uid": "00000000-0000-0000-0000-000000000000"}), json!({"resourceVersion": "1"})]
        {
            let reply = delete(wrong.clone()).await;
            same!(reply.status, 409, "{wrong}: {}", reply.text());
        }
        same!(cluster.get(here.clone()).await.json(), made, "the object after refused deletes");
        let right =
            json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
        let reply = delete(right).await;
        same!(reply.status, 200, "delete with the right preconditions: {}", reply.text());
        if resource.kind == "Namespace" {
            finalize(&cluster, &here).await?;
        }
        reconciled(&cluster, resource).await;
        same!(cluster.get(here).await.status, 404, "get after delete");
        Ok(())
    })
    .await;
}

/// Autoscaling clients write one number of many kinds through one small object.
#[tokio::test(start_paused = true)]
async fn scales_are_read_and_written() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        if resource.subresource("scale").is_none() {
            return Ok(());
        }
        created(&cluster, resource, 14).await?;
        let here = path(resource, &name(resource, 14));
        let scale = cluster.get(format!("{here}/scale")).await;
        same!(scale.status, 200, "get: {}", scale.text());
        let mut scale = scale.json();
        same!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)), "scale");
        scale["spec"]["replicas"] = json!(4);
        let reply = cluster.put(format!("{here}/scale"), scale.clone()).await;
        same!(reply.status, 200, "update: {}", reply.text());
        same!(
            cluster.get(here.clone()).await.json()["spec"]["replicas"],
            json!(4),
            "replicas after an update"
        );
        same!(cluster.put(format!("{here}/scale"), scale).await.status, 409, "stale update");
        let reply = cluster.merge(format!("{here}/scale"), json!({"spec": {"replicas": 2}})).await;
        same!(reply.json()["spec"]["replicas"], json!(2), "replicas after a patch");
        remove(&cluster, resource, 14).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn refused_writes_leave_nothing_behind_anywhere() {
    for_every_resource(|cluster, resource| async move {
        let resource = &*resource;
        let registry = cluster.api().registry();
        let broken = [json!({"bad label!": "x"}), json!({"a": "b c"}), json!("text"), json!(7)];
        let before = registry.table().revision();
        for labels in &broken {
            let mut wrong = object(resource, &name(resource, 8));
            wrong["metadata"]["labels"] = labels.clone();
            let reply = cluster.post(collection(resource), wrong).await;
            check!((400..500).contains(&reply.status), "create with {labels}: {}", reply.text());
        }
        let cut =
            cluster.request("POST", collection(resource)).typed("application/json", "{\"metadata\":").send();
        same!(cut.await.status, 400, "half a body");
        same!(registry.table().revision(), before, "a refused create wrote something");
        let gone = cluster.get(path(resource, &name(resource, 8))).await;
        same!(gone.status, 404, "and something is there");

        if !resource.verbs.contains(Verbs::UPDATE) {
            return Ok(());
        }
        let made = created(&cluster, resource, 9).await?;
        cluster.settled().await;
        let at = path(resource, &name(resource, 9));
        let (stood, before) = (cluster.get(at.clone()).await.bytes, registry.table().revision());
        for labels in &broken {
            let mut wrong = made.clone();
            wrong["metadata"]["labels"] = labels.clone();
            wrong["metadata"].as_object_mut().map(|m| m.remove("resourceVersion"));
            let reply = cluster.put(at.clone(), wrong).await;
            check!((400..500).contains(&reply.status), "update with {labels}: {}", reply.text());
            let reply = cluster.merge(at.clone(), json!({"metadata": {"labels": labels}})).await;
            check!((400..500).contains(&reply.status), "patch with {labels}: {}", reply.text());
        }
        same!(registry.table().revision(), before, "a refused change wrote something");
        same!(cluster.get(at).await.bytes, stood, "and changed it");
        remove(&cluster, resource, 9).await
    })
    .await;
}
