//! CustomResourceDefinitions: accepts their names, establishes and serves them, and deletes their objects with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use admission::list_readable;
use apiextensions::finalizer::{self, Instances, Outcome};
use apiextensions::{api_approval, establishing, naming};
use client::Gvr;
use object::{Obj, Status, Value};
use table::{EventKind, Scope, Selection};

use crate::api::Api;
use crate::custom_resources::DEFINITIONS;
use crate::loopback::{LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;

/// A failed write, and a deletion that waits for finalizers of its objects, are looked at again after this.
const RETRY: Duration = Duration::from_secs(1);
/// Requests under a replaced definition are waited for so often.
const SETTLE: Duration = Duration::from_millis(50);
const RESYNC: Duration = Duration::from_secs(300);

/// The newest state of a CRD.
struct Known {
    obj: Arc<Obj>,
    /// Without its schemas: what the names of others are held against.
    names: Value,
    /// Another CRD has a name it asks for: whatever changes may have freed it.
    in_conflict: bool,
}

impl Known {
    fn new(obj: Arc<Obj>) -> Known {
        let mut crd = codec::json::parse(obj.body(), None).unwrap_or(Value::Null);
        if let Some(Value::Map(spec)) = crd.as_map_mut().and_then(|map| map.get_mut("spec")) {
            spec.remove("versions");
        }
        if let Some(map) = crd.as_map_mut() {
            map.remove("metadata");
        }
        let in_conflict = naming::is_in_conflict(&crd);
        Known { obj, names: crd, in_conflict }
    }
}

pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::new(&api);
    let mut watcher = TableWatcher::new(&api, &[DEFINITIONS]);
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut pending: BTreeSet<String> = BTreeSet::new();
    let mut wait = RESYNC;
    while let Some(events) = watcher.next_events(Some(wait)).await {
        for event in events {
            let name = event.obj.name().to_owned();
            match event.kind {
                EventKind::Deleted => _ = known.remove(&name),
                _ => _ = known.insert(name.clone(), Known::new(event.obj)),
            }
            pending.insert(name);
        }
        let in_conflict = known.iter().filter(|(_, known)| known.in_conflict);
        pending.extend(in_conflict.map(|(name, _)| name.clone()));
        let mut again = BTreeSet::new();
        for name in std::mem::take(&mut pending) {
            let crd = known.get(&name).and_then(|known| codec::json::parse(known.obj.body(), None).ok());
            api.custom_resources.sync(api.registry(), &name, crd.as_ref());
            if let Some(crd) = crd
                && !reconcile(&client, crd, &known).await
            {
                again.insert(name);
            }
        }
        pending = again;
        let used = api.custom_resources.settle(api.registry());
        wait = if used {
            SETTLE
        } else if pending.is_empty() {
            RESYNC
        } else {
            RETRY
        };
    }
    api.conversion.shutdown().await;
}

/// Brings the CRD's status to what it should be, and its deletion a step on. False if it must be tried again.
async fn reconcile(client: &LoopbackClient<'_>, crd: Value, known: &BTreeMap<String, Known>) -> bool {
    let now = client.api().registry().env().now_seconds() as i64;
    let done = match finalizer::is_due(&crd) {
        true => finalize(client, crd, now).await,
        false => match status(&crd, known, now) {
            Some(status) => write_status(client, &crd, status).await.map(|()| true),
            None => Ok(true),
        },
    };
    match done {
        Ok(done) => done,
        // Whoever changed it meanwhile has woken us again.
        Err(error) if lost_race(&error) => true,
        Err(error) => {
            tracing::warn!(error = error.message, "could not reconcile a CustomResourceDefinition");
            false
        }
    }
}

/// The status as names, schemas and approval decide it; `None`: it is so already.
fn status(crd: &Value, known: &BTreeMap<String, Known>, now: i64) -> Option<Value> {
    let mut revised = crd.clone();
    let mut changed = false;
    let mut take = |revised: &mut Value, status: Option<Value>| {
        if let Some(status) = status {
            revised.make_map().set("status", status);
            changed = true;
        }
    };
    let status = naming::plan(&revised, others(crd, known), now);
    take(&mut revised, status);
    let status = api_approval::plan(&revised, now);
    take(&mut revised, status);
    if establishing::is_due(&revised) {
        let status = establishing::plan(&revised, now);
        take(&mut revised, status);
    }
    if changed { revised.make_map().remove("status") } else { None }
}

/// The other CRDs of the same group.
fn others<'a>(crd: &Value, known: &'a BTreeMap<String, Known>) -> impl Iterator<Item = &'a Value> {
    let group = crd.str_at(&["spec", "group"]).unwrap_or_default().to_owned();
    let name = crd.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
    let of_group = move |other: &str| other != name && other.split_once('.').is_some_and(|(_, g)| g == group);
    known.iter().filter(move |(other, _)| of_group(other)).map(|(_, known)| &known.names)
}

/// Deletes the objects of a CRD that is deleted, and lets it go when none are left.
async fn finalize(client: &LoopbackClient<'_>, mut crd: Value, now: i64) -> Result<bool, Status> {
    if let Some(status) = finalizer::begin(&crd, now) {
        // The change wakes us again.
        return write_status(client, &crd, status).await.map(|()| true);
    }
    let outcome = match finalizer::instances(&crd) {
        Instances::Keep(outcome) => outcome,
        Instances::Delete => match delete_instances(client, &crd).await? {
            true => Outcome::Completed,
            false => return Ok(false),
        },
    };
    let end = finalizer::end(&crd, &outcome, now);
    if let Some(finalizers) = end.finalizers {
        crd.map_at(&["metadata"]).set("finalizers", Value::List(finalizers));
        client.update(DEFINITIONS, crd).await?;
    }
    Ok(true)
}

/// Whether none are left.
async fn delete_instances(client: &LoopbackClient<'_>, crd: &Value) -> Result<bool, Status> {
    let text = |path: &[&str]| crd.str_at(path).unwrap_or_default();
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let registry = client.api().registry();
    let catalog = registry.catalog();
    let Some(storage) = catalog.find_storage(group, plural) else { return Ok(true) };
    let everything = Selection::everything(Scope::All);
    let namespaces: BTreeSet<String> = list_readable(registry.table(), storage.id, &everything)?
        .items
        .iter()
        .map(|obj| obj.namespace().to_owned())
        .collect();
    let Some(served) = catalog.served_by(storage).next() else { return Ok(namespaces.is_empty()) };
    let resource =
        Gvr { group: served.group.clone(), version: served.version.clone(), plural: served.plural.clone() };
    for namespace in &namespaces {
        client.delete_all(&resource, namespace).await?;
    }
    Ok(list_readable(registry.table(), storage.id, &everything)?.items.is_empty())
}

async fn write_status(client: &LoopbackClient<'_>, crd: &Value, status: Value) -> Result<(), Status> {
    let mut crd = crd.clone();
    crd.make_map().set("status", status);
    client.update_status(DEFINITIONS, crd).await
}
