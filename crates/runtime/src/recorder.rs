//! Events: what a controller tells people about an object. Never waited for, never retried into the controller's way.

mod correlate;
mod lru;
mod series;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::EVENTS;
use client::{Client, Gvr, Patch, WriteOptions};
use env::Env;
use object::{Map, Obj, Status, Value, time};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use series::{NewEvent, SeriesRecorder};

use crate::Stop;
use correlate::{Correlator, Observed};

/// More events than this wait for nobody: the rest is dropped.
const QUEUE: usize = 1000;
/// A server that cannot be reached is tried so often; meanwhile the queue fills.
const TRIES: u32 = 12;
const BETWEEN_TRIES: Duration = Duration::from_secs(10);
/// Two components may speak of one object in the same nanosecond, in virtual time above all: so many names are tried.
const NAMES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
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
    /// Where events about it live: `default` if it has no namespace.
    fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// `catalog` knows the resource's kind; of one that is not there any more, the object does.
    pub fn of(catalog: &catalog::Catalog, resource: &Gvr, obj: &Obj) -> ObjectRef {
        let kind = resource.find(catalog).map(|r| r.kind.to_string());
        let kind = kind.or_else(|| crate::tree(obj).str_at(&["kind"]).map(str::to_owned));
        let api_version = if resource.group.is_empty() {
            resource.version.to_string()
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

    /// The reference as an event carries it; what is unknown is left out.
    pub fn to_value(&self) -> Value {
        let mut reference = Map::default();
        for (name, value) in [
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiVersion", &self.api_version),
            ("resourceVersion", &self.resource_version),
            ("fieldPath", &self.field_path),
        ] {
            if !value.is_empty() {
                reference.set(name, value.clone());
            }
        }
        Value::Map(reference)
    }
}

/// An event as it is written, whoever tells it.
pub struct EventBody<'a> {
    pub component: &'a str,
    /// Who reports it: the component, and nobody where similar events are combined.
    pub reporting: &'a str,
    /// The node that tells it; empty where that does not matter.
    pub host: &'a str,
    pub about: &'a ObjectRef,
    pub severity: Severity,
    pub reason: &'a str,
    pub message: &'a str,
    pub count: i64,
    pub first_nanos: u128,
    pub last_nanos: u128,
}

impl EventBody<'_> {
    pub fn to_value(&self, namespace: &str, name: &str) -> Value {
        let mut event = Value::map();
        let metadata = event.map_at(&["metadata"]);
        metadata.set("name", name);
        metadata.set("namespace", namespace);
        let mut source = Map::default();
        source.set("component", self.component);
        if !self.host.is_empty() {
            source.set("host", self.host);
        }
        let root = event.make_map();
        root.set("involvedObject", self.about.to_value());
        root.set("reason", self.reason);
        root.set("message", self.message);
        root.set("type", self.severity.as_str());
        root.set("firstTimestamp", seconds(self.first_nanos));
        root.set("lastTimestamp", seconds(self.last_nanos));
        root.set("count", Value::Int(self.count));
        root.set("reportingComponent", self.reporting);
        root.set("reportingInstance", self.host);
        root.set("source", source);
        event
    }
}

/// Cheap to clone; all clones feed one task.
#[derive(Clone)]
pub struct Recorder {
    env: Env,
    client: Arc<dyn Client>,
    component: String,
    queue: mpsc::Sender<Record>,
    times: Times,
}

/// When events were told. No two have the same time, for their names come from it.
#[derive(Clone, Default)]
struct Times {
    /// Guards the last one given.
    last_nanos: Arc<Mutex<u128>>,
}

impl Times {
    fn next(&self, env: &Env) -> u128 {
        let mut last = self.last_nanos.lock();
        *last = env.now_nanos().max(*last + 1);
        *last
    }
}

struct Record {
    about: ObjectRef,
    annotations: Vec<(String, String)>,
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
        Recorder::start_on(env, client, component, "", stop)
    }

    /// The same of a component that runs on a node.
    pub fn start_on(
        env: &Env,
        client: Arc<dyn Client>,
        component: &str,
        host: &str,
        stop: Stop,
    ) -> (Recorder, JoinHandle<()>) {
        let (queue, records) = mpsc::channel(QUEUE);
        let recorder = Recorder {
            env: env.clone(),
            client: client.clone(),
            component: component.to_owned(),
            queue,
            times: Times::default(),
        };
        let (env, host) = (env.clone(), host.to_owned());
        let writer =
            Writer { env, client, component: component.to_owned(), host, correlator: Correlator::default() };
        let task = recorder.env.spawn("events", write(writer, records, stop));
        (recorder, task)
    }

    /// Tells people something happened to an object of a resource.
    pub fn event(
        &self,
        resource: &Gvr,
        obj: &Obj,
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.event_on(ObjectRef::of(&self.client.catalog(), resource, obj), severity, reason, message);
    }

    pub fn event_on(&self, about: ObjectRef, severity: Severity, reason: &str, message: impl Into<String>) {
        self.annotated_event_on(about, Vec::new(), severity, reason, message);
    }

    /// With annotations for programs that read it.
    pub fn annotated_event_on(
        &self,
        about: ObjectRef,
        annotations: Vec<(String, String)>,
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) {
        let at_nanos = self.times.next(&self.env);
        let (reason_text, message) = (reason.to_owned(), message.into());
        let record = Record { about, annotations, severity, reason: reason_text, message, at_nanos };
        if self.queue.try_send(record).is_err() {
            tracing::debug!(component = self.component, reason, "too many events, dropping one");
        }
    }
}

async fn write(mut writer: Writer, mut records: mpsc::Receiver<Record>, stop: Stop) {
    let writing = async {
        while let Some(record) = records.recv().await {
            writer.write(record).await;
        }
    };
    tokio::select! {
        biased;
        () = stop.stopped() => {}
        () = writing => {}
    }
}

struct Writer {
    env: Env,
    client: Arc<dyn Client>,
    component: String,
    /// Empty: no node.
    host: String,
    correlator: Correlator,
}

impl Writer {
    async fn write(&mut self, record: Record) {
        let name = event_name(&self.env, &record.about.name, record.at_nanos);
        let Some(observed) = self.correlator.observe(&record, name, self.env.monotonic()) else { return };
        for tried in 1..=TRIES {
            let Err(status) = self.send(&record, &observed).await else { return };
            if !matches!(status.code, 429 | 502..=504) {
                // It would be refused again.
                tracing::debug!(self.component, error = status.message, "event rejected");
                return;
            }
            if tried < TRIES {
                // The first time by chance, so that not all controllers come back at once.
                let part = if tried == 1 { self.env.random_below(1000) as f64 / 1000.0 } else { 1.0 };
                self.env.sleep(BETWEEN_TRIES.mul_f64(part)).await;
            }
        }
        tracing::warn!(self.component, reason = record.reason, "failed to write event, giving up");
    }

    async fn send(&mut self, record: &Record, observed: &Observed) -> Result<(), Status> {
        let namespace = record.about.event_namespace();
        if observed.count > 1 {
            let patch = Patch::Strategic(more_of_it(record, observed));
            match self
                .client
                .patch(EVENTS.at(namespace, &observed.name), patch, WriteOptions::default())
                .await
            {
                // It has expired: this is the first again, with the count it had.
                Err(status) if status.code == 404 => {}
                other => return other.map(|_| ()),
            }
        }
        let mut name = observed.name.clone();
        for _ in 0..NAMES {
            let event = EventBody {
                component: &self.component,
                // client-go makes the combined event anew and leaves this out.
                reporting: if observed.combined { "" } else { &self.component },
                host: &self.host,
                about: &record.about,
                severity: record.severity,
                reason: &record.reason,
                message: &observed.message,
                count: observed.count as i64,
                first_nanos: observed.first_nanos,
                last_nanos: record.at_nanos,
            };
            let mut event = event.to_value(namespace, &name);
            for (key, value) in &record.annotations {
                event.map_at(&["metadata", "annotations"]).set(key.clone(), value.clone());
            }
            match self.client.create(EVENTS.within(namespace), event, WriteOptions::default()).await {
                Err(status) if status.reason == "AlreadyExists" => {
                    let later = 1 + u128::from(self.env.random_below(1 << 20));
                    name = event_name(&self.env, &record.about.name, record.at_nanos + later);
                }
                other => {
                    self.correlator.renamed(observed.key, &name);
                    return other.map(|_| ());
                }
            }
        }
        // The next one of its kind must not be counted on somebody else's event.
        self.correlator.forget(observed.key);
        Ok(())
    }
}

/// `<object>.<hex unix nanoseconds>`, unless the object's own name is too long for that.
fn event_name(env: &Env, object: &str, nanos: u128) -> String {
    let name = format!("{object}.{nanos:x}");
    if name.len() <= 253 { name } else { format!("{}.{nanos:x}", env.uuid()) }
}

fn more_of_it(record: &Record, observed: &Observed) -> Value {
    let mut patch = Map::default();
    patch.set("count", Value::Int(observed.count as i64));
    patch.set("lastTimestamp", seconds(record.at_nanos));
    patch.set("message", observed.message.clone());
    Value::Map(patch)
}

fn seconds(nanos: u128) -> String {
    time::format_seconds((nanos / 1_000_000_000) as i64)
}
