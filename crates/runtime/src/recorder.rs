//! Events: what a loop tells people about an object. Never waited for, never retried into the loop's way.

use std::sync::Arc;

use client::resources::EVENTS;
use client::{Client, Gvr};
use env::Env;
use object::{Map, Value, time};
use table::Obj;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::Stop;

/// More events than this wait for nobody: the rest is dropped.
const QUEUE: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub field_path: String,
}

impl ObjectRef {
    /// Kind and apiVersion are read from the object's own body.
    pub fn of(catalog: &catalog::Catalog, resource: Gvr, obj: &Obj) -> ObjectRef {
        let kind =
            catalog.find(resource.group, resource.version, resource.plural).map(|r| r.kind.to_string());
        let api_version = if resource.group.is_empty() {
            resource.version.to_owned()
        } else {
            format!("{}/{}", resource.group, resource.version)
        };
        ObjectRef {
            api_version,
            kind: kind.unwrap_or_default(),
            namespace: obj.namespace().to_owned(),
            name: obj.name().to_owned(),
            uid: obj.uid().to_owned(),
            resource_version: obj.revision().to_string(),
            field_path: String::new(),
        }
    }
}

/// Cheap to clone; all clones feed one task.
#[derive(Clone)]
pub struct Recorder {
    env: Env,
    client: Arc<dyn Client>,
    component: String,
    queue: mpsc::Sender<Record>,
}

struct Record {
    about: ObjectRef,
    severity: Severity,
    reason: String,
    message: String,
    at_nanos: u128,
}

impl Recorder {
    /// Events are created by `client` in the name of `component`.
    pub fn start(
        env: &Env,
        client: Arc<dyn Client>,
        component: &str,
        stop: Stop,
    ) -> (Recorder, JoinHandle<()>) {
        let (queue, records) = mpsc::channel(QUEUE);
        let recorder =
            Recorder { env: env.clone(), client: client.clone(), component: component.to_owned(), queue };
        let task = env.spawn("events", write(client, component.to_owned(), records, stop));
        (recorder, task)
    }

    /// Tells people something happened to an object of a resource.
    pub fn event(
        &self,
        resource: Gvr,
        obj: &Obj,
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.event_on(ObjectRef::of(self.client.catalog(), resource, obj), severity, reason, message);
    }

    pub fn event_on(&self, about: ObjectRef, severity: Severity, reason: &str, message: impl Into<String>) {
        let record = Record {
            about,
            severity,
            reason: reason.to_owned(),
            message: message.into(),
            at_nanos: self.env.now_nanos(),
        };
        if self.queue.try_send(record).is_err() {
            tracing::debug!(component = self.component, reason, "too many events, one was dropped");
        }
    }
}

async fn write(client: Arc<dyn Client>, component: String, mut records: mpsc::Receiver<Record>, stop: Stop) {
    loop {
        let record = tokio::select! {
            biased;
            () = stop.stopped() => return,
            record = records.recv() => record,
        };
        let Some(mut record) = record else { return };
        // Events about what has no namespace live in `default`.
        let about = record.about.namespace.clone();
        let namespace = if about.is_empty() { "default" } else { &about };
        // Two events may be of the same nanosecond, in virtual time above all: the next ones are tried, a few.
        for _ in 0..1000 {
            let event = event_object(&component, namespace, &record);
            match client.create(EVENTS.within(namespace), event).await {
                Err(status) if status.reason == "AlreadyExists" => record.at_nanos += 1,
                Err(status) => {
                    tracing::debug!(component, error = status.message, "an event could not be written");
                    break;
                }
                Ok(_) => break,
            }
        }
    }
}

fn event_object(component: &str, namespace: &str, record: &Record) -> Value {
    let about = &record.about;
    let at = time::format_seconds((record.at_nanos / 1_000_000_000) as i64);
    let mut involved = Map::default();
    for (name, value) in [
        ("kind", &about.kind),
        ("namespace", &about.namespace),
        ("name", &about.name),
        ("uid", &about.uid),
        ("apiVersion", &about.api_version),
        ("resourceVersion", &about.resource_version),
        ("fieldPath", &about.field_path),
    ] {
        if !value.is_empty() {
            involved.set(name, value.clone());
        }
    }
    let mut event = Value::map();
    let metadata = event.map_at(&["metadata"]);
    metadata.set("name", format!("{}.{:x}", about.name, record.at_nanos));
    metadata.set("namespace", namespace.to_owned());
    let root = event.make_map();
    root.set("involvedObject", Value::Map(involved));
    root.set("reason", record.reason.clone());
    root.set("message", record.message.clone());
    root.set("type", if record.severity == Severity::Normal { "Normal" } else { "Warning" });
    root.set("firstTimestamp", at.clone());
    root.set("lastTimestamp", at);
    root.set("count", Value::Int(1));
    root.set("reportingComponent", component.to_owned());
    root.set("reportingInstance", "");
    let mut source = Map::default();
    source.set("component", component.to_owned());
    event.make_map().set("source", Value::Map(source));
    event
}
