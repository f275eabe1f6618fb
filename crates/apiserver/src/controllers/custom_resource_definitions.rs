//! CustomResourceDefinitions: accepts their names, establishes and serves them, and deletes their objects with them.

mod finalizing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiextensions::{api_approval, establishing, finalizer, naming};
use client::resources::CUSTOM_RESOURCE_DEFINITIONS;
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use runtime::{
    Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest, Trigger,
    WorkQueue,
};

use finalizing::Finalizing;

use super::Context;
use crate::api::Api;
use crate::custom_resources::DEFINITIONS;
use crate::loopback::{LoopbackClient, lost_race};

/// A deletion is looked at again after this.
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

/// All CRDs there are, by name.
#[derive(Default)]
struct Definitions(BTreeMap<String, Known>);

impl Definitions {
    /// Takes note of a change; tells which CRDs have to be looked at.
    fn observe(&mut self, event: &InformerEvent<'_>) -> Vec<Key> {
        let name = event.obj().name();
        let mut keys = vec![Key::new("", name)];
        let (before, now) = match event {
            InformerEvent::Updated { sync: true, .. } => return keys,
            InformerEvent::Deleted { .. } => (self.0.remove(name), None),
            _ => {
                let now = Known::new(event.obj().clone());
                let names = now.accepted_names().cloned();
                (self.0.insert(name.to_owned(), now), names)
            }
        };
        if before.as_ref().and_then(Known::accepted_names) != now.as_ref() {
            // Names that were taken may be free now.
            keys.extend(self.refused_in_group_of(name));
        }
        keys
    }

    /// CRDs of the same group that did not get their names.
    fn refused_in_group_of(&self, name: &str) -> impl Iterator<Item = Key> {
        let group = name.split_once('.').map(|(_, group)| group);
        let of_group = move |other: &str| other.split_once('.').map(|(_, group)| group) == group;
        let all = self.0.iter();
        let refused = all.filter(move |(other, crd)| of_group(other) && naming::is_refused(&crd.names));
        refused.map(|(other, _)| Key::new("", other))
    }

    /// The status a CRD should have, if it has another; those that are decided later see which names it gets.
    fn decide(&mut self, name: &str, crd: &Value, now: i64) -> Option<Value> {
        let status = status(crd, &self.0, now)?;
        if let Some(known) = self.0.get_mut(name) {
            known.names.make_map().set("status", status.clone());
        }
        Some(status)
    }
}

/// The key of replaced definitions; the others are names of CRDs.
fn replaced() -> Key {
    Key::new("replaced", "definitions")
}

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let definitions = context.informers.of(&CUSTOM_RESOURCE_DEFINITIONS);
    let known: Arc<Mutex<Definitions>> = Arc::default();
    let told = known.clone();
    let controller = context
        .controller("custom-resource-definitions")
        .workers(AT_ONCE)
        .trigger(Trigger::LevelWithResync { period: RESYNC })
        .watches(&definitions, move |event| told.lock().observe(event));
    let api = context.api.clone();
    let finalizing = Arc::new(Mutex::new(Some(Finalizing::new(api.clone()))));
    let (queue, stop) = (controller.queue(), context.stop.clone());
    let ending = finalizing.clone();
    let env = api.registry().env().clone();
    let mut tasks = context.start(controller, Defining { api: api.clone(), known, queue, finalizing });
    tasks.push(env.spawn("custom-resource-definitions", async move {
        stop.stopped().await;
        let finalizing = ending.lock().take();
        if let Some(finalizing) = finalizing {
            finalizing.stop().await;
        }
        api.conversion.shutdown().await;
    }));
    tasks
}

struct Defining {
    api: Arc<Api>,
    /// Guards which CRDs there are and which names they have; never held while waiting.
    known: Arc<Mutex<Definitions>>,
    queue: Arc<WorkQueue<Key>>,
    /// Guards the tasks that delete objects; taken at the end.
    finalizing: Arc<Mutex<Option<Finalizing>>>,
}

impl Reconcile for Defining {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let registry = self.api.registry();
            if *request.key == replaced() {
                let used = self.api.custom_resources.settle(registry);
                return Ok(if used { Action::Requeue(SETTLE) } else { Action::AwaitChange });
            }
            let name = request.key.name();
            let obj = self.known.lock().0.get(name).map(|known| known.obj.clone());
            let revision = obj.as_ref().map(|obj| obj.revision());
            let crd = obj.and_then(|obj| codec::json::parse(obj.body(), None).ok());
            self.api.custom_resources.sync(registry, name, crd.as_ref());
            if self.api.custom_resources.settle(registry) {
                self.queue.add_after(replaced(), SETTLE, None);
            }
            let Some(crd) = crd else {
                self.api.custom_resources.done(name, revision);
                return Ok(Action::AwaitChange);
            };
            if finalizer::is_due(&crd) {
                self.api.custom_resources.done(name, revision);
                if let Some(finalizing) = &mut *self.finalizing.lock() {
                    finalizing.begin(name);
                }
                // The task ends by itself when the CRD is gone; looked at again, should it have ended too early.
                return Ok(Action::Requeue(RETRY));
            }
            let decided = self.known.lock().decide(name, &crd, registry.env().now_seconds() as i64);
            let Some(status) = decided else {
                self.api.custom_resources.done(name, revision);
                return Ok(Action::AwaitChange);
            };
            // It is done once that is written, and has woken us.
            match write_status(&LoopbackClient::new(&self.api), &crd, status).await {
                // Whoever changed it meanwhile has woken us again.
                Err(error) if !lost_race(&error) => Err(error.into()),
                _ => Ok(Action::AwaitChange),
            }
        })
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
