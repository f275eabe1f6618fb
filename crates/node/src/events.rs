//! What nodes tell people about pods and themselves: one writer for all agents of a process, each event in its node's name.
//!
//! Events are worth little and cost a write each, so their number is bounded: a busy cluster loses some, never its pods.
//! (One [`runtime::Recorder`] has one identity and one host; five thousand of them would be five thousand tasks.)

use std::sync::Arc;

use client::resources::EVENTS;
use client::{Client, WriteOptions};
use env::Env;
use parking_lot::Mutex;
use runtime::{EventBody, ObjectRef, Recorder, Severity, Stop};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// More than this wait for nobody: the rest is dropped.
const QUEUE: usize = 1000;
/// Some two hundred pods at once, then twenty a second, tell their whole story.
const BURST: f64 = 600.0;
const PER_SECOND: f64 = 60.0;

pub struct Events {
    env: Env,
    queue: mpsc::Sender<Record>,
    /// Guards the allowance and the last name given; held for a few instructions.
    bucket: Mutex<Bucket>,
}

struct Bucket {
    tokens: f64,
    nanos: u128,
}

struct Record {
    client: Arc<dyn Client>,
    host: Box<str>,
    event: ObjectEvent,
    /// The time, and a name no other event has.
    nanos: u128,
}

impl Events {
    pub fn start(env: &Env, stop: Stop) -> (Events, JoinHandle<()>) {
        let (queue, records) = mpsc::channel(QUEUE);
        let bucket = Mutex::new(Bucket { tokens: BURST, nanos: env.now_nanos() });
        (Events { env: env.clone(), queue, bucket }, env.spawn("node events", write(records, stop)))
    }

    fn allowed(&self) -> Option<u128> {
        let now = self.env.now_nanos();
        let mut bucket = self.bucket.lock();
        let passed = now.saturating_sub(bucket.nanos) as f64 / 1e9;
        bucket.tokens = (bucket.tokens + passed * PER_SECOND).min(BURST);
        // Names are made of the time; no two events have the same.
        bucket.nanos = now.max(bucket.nanos + 1);
        if bucket.tokens < 1.0 {
            return None;
        }
        bucket.tokens -= 1.0;
        Some(bucket.nanos)
    }
}

/// Something that happened to an object.
pub struct ObjectEvent {
    pub about: ObjectRef,
    pub severity: Severity,
    pub reason: String,
    pub message: String,
}

/// Whom an agent tells what happened, in the name of its node (`host`).
pub trait EventSink: Send + Sync {
    fn tell(&self, client: &Arc<dyn Client>, host: &str, event: ObjectEvent);
}

/// A node with a client of its own: what happens again is counted on one event, as kubelet does.
impl EventSink for Recorder {
    fn tell(&self, _: &Arc<dyn Client>, _: &str, event: ObjectEvent) {
        let ObjectEvent { about, severity, reason, message } = event;
        self.event_on(about, severity, &reason, message);
    }
}

impl EventSink for Events {
    fn tell(&self, client: &Arc<dyn Client>, host: &str, event: ObjectEvent) {
        let Some(nanos) = self.allowed() else { return };
        let record = Record { client: client.clone(), host: host.into(), event, nanos };
        if let Err(error) = self.queue.try_send(record) {
            let reason = &error.into_inner().event.reason;
            tracing::debug!(host, reason, "too many events, dropping one");
        }
    }
}

async fn write(mut records: mpsc::Receiver<Record>, stop: Stop) {
    loop {
        let record = tokio::select! {
            biased;
            () = stop.stopped() => return,
            record = records.recv() => record,
        };
        let Some(Record { client, host, event, nanos }) = record else { return };
        let namespace = if event.about.namespace.is_empty() { "default" } else { &event.about.namespace };
        let body = EventBody {
            component: "kubelet",
            reporting: "kubelet",
            host: &host,
            about: &event.about,
            severity: event.severity,
            reason: &event.reason,
            message: &event.message,
            count: 1,
            first_nanos: nanos,
            last_nanos: nanos,
        };
        let body = body.to_value(namespace, &format!("{}.{nanos:x}", event.about.name));
        if let Err(status) = client.create(EVENTS.within(namespace), body, WriteOptions::default()).await {
            tracing::debug!(host = &*host, error = status.message, "failed to write event");
        }
    }
}
