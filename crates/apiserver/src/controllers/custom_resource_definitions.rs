//! CustomResourceDefinitions: accepts their names, establishes and serves them, and deletes their objects with them.

mod finalizing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apiextensions::{api_approval, establishing, finalizer, naming};
use futures_util::stream::{FuturesUnordered, StreamExt};
use object::{Obj, Status, Value};
use table::EventKind;

use finalizing::Finalizing;

use crate::api::Api;
use crate::custom_resources::DEFINITIONS;
use crate::loopback::{LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;

/// A failed write, and a deletion, are looked at again after this.
const RETRY: Duration = Duration::from_secs(1);
/// Requests under a replaced definition are waited for so often.
const SETTLE: Duration = Duration::from_millis(50);
const RESYNC: Duration = Duration::from_secs(300);
/// So many CRDs are written at a time: each waits for its commit.
const AT_ONCE: usize = 64;

/// The newest state of a CRD.
struct Known {
    obj: Arc<Obj>,
    /// Without its schemas: what the names of others are held against.
    names: Value,
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
        Known { obj, names: crd }
    }

    fn accepted_names(&self) -> Option<&Value> {
        self.names.at(&["status", "acceptedNames"])
    }
}

/// CRDs of the same group that did not get their names.
fn refused_in_group_of(name: &str, known: &BTreeMap<String, Known>) -> Vec<String> {
    let group = name.split_once('.').map(|(_, group)| group);
    let of_group = |other: &str| other.split_once('.').map(|(_, group)| group) == group;
    let refused = known.iter().filter(|(other, crd)| of_group(other) && naming::is_refused(&crd.names));
    refused.map(|(other, _)| other.clone()).collect()
}

pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::new(&api);
    let mut watcher = TableWatcher::new(&api, &[DEFINITIONS]);
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    let mut pending: BTreeSet<String> = BTreeSet::new();
    let mut finalizing = Finalizing::new(api.clone());
    let (mut wait, mut lists) = (RESYNC, 0);
    while let Some(events) = watcher.next_events(Some(wait)).await {
        if std::mem::replace(&mut lists, watcher.lists()) != watcher.lists() {
            // All of them again: what is not among them was deleted meanwhile.
            pending.extend(std::mem::take(&mut known).into_keys());
        }
        for event in events {
            let name = event.obj.name().to_owned();
            let (before, now) = match event.kind {
                EventKind::Deleted => (known.remove(&name), None),
                _ => {
                    let now = Known::new(event.obj);
                    let names = now.accepted_names().cloned();
                    (known.insert(name.clone(), now), names)
                }
            };
            if before.as_ref().and_then(Known::accepted_names) != now.as_ref() {
                // Names that were taken may be free now.
                pending.extend(refused_in_group_of(&name, &known));
            }
            pending.insert(name);
        }
        let mut again = BTreeSet::new();
        let mut under_way = FuturesUnordered::new();
        for name in std::mem::take(&mut pending) {
            let crd = known.get(&name).and_then(|known| codec::json::parse(known.obj.body(), None).ok());
            api.custom_resources.sync(api.registry(), &name, crd.as_ref());
            let Some(crd) = crd else { continue };
            if finalizer::is_due(&crd) {
                finalizing.begin(&name);
                // The task ends by itself when the CRD is gone; looked at again, should it have ended too early.
                again.insert(name);
                continue;
            }
            let Some(status) = status(&crd, &known, api.registry().env().now_seconds() as i64) else {
                continue;
            };
            if let Some(known) = known.get_mut(&name) {
                // Those behind it in this round see which names it gets.
                known.names.make_map().set("status", status.clone());
            }
            if under_way.len() >= AT_ONCE {
                again.extend(under_way.next().await.flatten());
            }
            let client = &client;
            under_way.push(async move { (!revise(client, &crd, status).await).then_some(name) });
        }
        while let Some(unfinished) = under_way.next().await {
            again.extend(unfinished);
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
    finalizing.stop().await;
    api.conversion.shutdown().await;
}

/// Gives the CRD another status. False if it must be tried again.
async fn revise(client: &LoopbackClient<'_>, crd: &Value, status: Value) -> bool {
    match write_status(client, crd, status).await {
        Ok(()) => true,
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
    let status = apiextensions::non_structural::plan(&revised, now);
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

pub(super) async fn write_status(
    client: &LoopbackClient<'_>,
    crd: &Value,
    status: Value,
) -> Result<(), Status> {
    let mut crd = crd.clone();
    crd.make_map().set("status", status);
    client.update_status(DEFINITIONS, crd).await
}
