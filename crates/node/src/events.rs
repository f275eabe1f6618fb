//! What nodes tell people about pods and themselves: one writer for all agents of a process, each event in its node's name.
//!
//! Events are worth little and cost a write each, so their number is bounded: a busy cluster loses some, never its pods.
//! (One [`runtime::Recorder`] has one identity and one host; five thousand of them would be five thousand tasks.)

use std::sync::Arc;

use client::resources::EVENTS;
use client::{Client, WriteOptions};
use env::Env;
use parking_lot::Mutex;
use runtime::{EventBody, ObjectRef, Severity, Stop};
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
    about: ObjectRef,
    severity: Severity,
    reason: String,
    message: String,
    /// The time, and a name no other event has.
    nanos: u128,
}

impl Events {
    pub fn start(env: &Env, stop: Stop) -> (Events, JoinHandle<()>) {
        let (queue, records) = mpsc::channel(QUEUE);
        let bucket = Mutex::new(Bucket { tokens: BURST, nanos: env.now_nanos() });
        (Events { env: env.clone(), queue, bucket }, env.spawn("node events", write(records, stop)))
    }

    pub fn tell(
        &self,
        client: &Arc<dyn Client>,
        host: &str,
        about: ObjectRef,
        severity: Severity,
        reason: &str,
        message: String,
    ) {
        let Some(nanos) = self.allowed() else { return };
        let record = Record {
            client: client.clone(),
            host: host.into(),
            about,
            severity,
            reason: reason.to_owned(),
            message,
            nanos,
        };
        if self.queue.try_send(record).is_err() {
            tracing::debug!(host, reason, "too many events, dropping one");
        }
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

async fn write(mut records: mpsc::Receiver<Record>, stop: Stop) {
    loop {
        let record = tokio::select! {
            biased;
            () = stop.stopped() => return,
            record = records.recv() => record,
        };
        let Some(record) = record else { return };
        let namespace = if record.about.namespace.is_empty() { "default" } else { &record.about.namespace };
        let event = EventBody {
            component: "kubelet",
            reporting: "kubelet",
            host: &record.host,
            about: &record.about,
            severity: record.severity,
            reason: &record.reason,
            message: &record.message,
            count: 1,
            first_nanos: record.nanos,
            last_nanos: record.nanos,
        };
        let event = event.to_value(namespace, &format!("{}.{:x}", record.about.name, record.nanos));
        if let Err(status) =
            record.client.create(EVENTS.within(namespace), event, WriteOptions::default()).await
        {
            tracing::debug!(host = &*record.host, error = status.message, "failed to write event");
        }
    }
}
