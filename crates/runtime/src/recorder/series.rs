//! Events as events.k8s.io has them: the first of its kind is created, those after it are a series on it.
//!
//! ```text
//! the first ── created     the second ── patched: series of 2     the next ── only counted
//! every 30 minutes ── the series' count is written          6 minutes of silence ── once more, then it is forgotten
//! ```

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::EVENTS_V1;
use client::{Client, Patch, WriteOptions};
use env::Env;
use object::{Map, Status, Value, time};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::correlate::hash;
use super::lru::Lru;
use super::{BETWEEN_TRIES, NAMES, ObjectRef, QUEUE, Severity, TRIES, Times, event_name};
use crate::Stop;

/// So many events may become series; the ones not told longest are forgotten.
const REMEMBERED: usize = 4096;
const FINISH: Duration = Duration::from_secs(6 * 60);
const REFRESH: Duration = Duration::from_secs(30 * 60);

/// Something to tell.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub about: ObjectRef,
    /// Who else had to do with it.
    pub related: Option<ObjectRef>,
    pub severity: Severity,
    pub reason: &'static str,
    /// What was done, or tried.
    pub action: &'static str,
    pub note: String,
}

/// Cheap to clone; all clones feed one task.
#[derive(Clone)]
pub struct SeriesRecorder {
    env: Env,
    queue: mpsc::Sender<Record>,
    times: Times,
}

#[derive(Clone)]
struct Record {
    told: NewEvent,
    at_nanos: u128,
}

impl SeriesRecorder {
    /// Events are created by `client` in the name of `component` on this machine.
    pub fn start(
        env: &Env,
        client: Arc<dyn Client>,
        component: &str,
        stop: Stop,
    ) -> (SeriesRecorder, JoinHandle<()>) {
        let (queue, records) = mpsc::channel(QUEUE);
        let writer = Writer {
            env: env.clone(),
            client,
            component: component.to_owned(),
            instance: format!("{component}-{}", env.hostname()),
            known: Lru::new(REMEMBERED),
        };
        let task = env.spawn("event-series", writer.run(records, stop));
        (SeriesRecorder { env: env.clone(), queue, times: Times::default() }, task)
    }

    pub fn tell(&self, told: NewEvent) {
        let at_nanos = self.times.next(&self.env);
        let reason = told.reason;
        if self.queue.try_send(Record { told, at_nanos }).is_err() {
            tracing::debug!(reason, "too many events, dropping one");
        }
    }
}

struct Writer {
    env: Env,
    client: Arc<dyn Client>,
    component: String,
    instance: String,
    /// By a hash of all that makes two events the same.
    known: Lru<Known>,
}

/// An event that was told.
#[derive(Clone)]
struct Known {
    name: String,
    first: Record,
    series: Option<Series>,
}

#[derive(Clone, Copy)]
struct Series {
    count: i64,
    last_nanos: u128,
}

impl Writer {
    async fn run(mut self, mut records: mpsc::Receiver<Record>, stop: Stop) {
        let start = self.env.monotonic();
        let (mut finish, mut refresh) = (start + FINISH, start + REFRESH);
        let working = async {
            loop {
                tokio::select! {
                    biased;
                    () = self.env.sleep_until(refresh) => {
                        refresh += REFRESH;
                        self.refresh().await;
                    }
                    () = self.env.sleep_until(finish) => {
                        finish += FINISH;
                        self.finish().await;
                    }
                    record = records.recv() => match record {
                        Some(record) => self.take(record).await,
                        None => return,
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = working => {}
        }
    }

    async fn take(&mut self, record: Record) {
        let key = key(&record.told);
        let mut fresh = false;
        let known = self.known.entry(key, || {
            fresh = true;
            let name = event_name(&self.env, &record.told.about.name, record.at_nanos);
            Known { name, first: record.clone(), series: None }
        });
        if !fresh {
            let last_nanos = record.at_nanos;
            if let Some(series) = &mut known.series {
                *series = Series { count: series.count + 1, last_nanos };
                return;
            }
            known.series = Some(Series { count: 2, last_nanos });
        }
        let event = known.clone();
        for tried in 1..=TRIES {
            if self.send(key, &event).await {
                return;
            }
            if tried < TRIES {
                // Never all at once: up to a quarter longer by chance.
                let more = self.env.random_below(250) as f64 / 1000.0;
                self.env.sleep(BETWEEN_TRIES.mul_f64(1.0 + more)).await;
            }
        }
        tracing::warn!(self.component, reason = record.told.reason, "failed to write event, giving up");
    }

    /// So that events of series that go on do not expire.
    async fn refresh(&mut self) {
        for key in self.known.keys() {
            let Some(event) = self.known.get(key).filter(|known| known.series.is_some()).cloned() else {
                continue;
            };
            self.send(key, &event).await;
        }
    }

    /// Forgets what was not told for a while; of a series the last count is written.
    async fn finish(&mut self) {
        let silent_since = self.env.now_nanos().saturating_sub(FINISH.as_nanos());
        for key in self.known.keys() {
            let Some(known) = self.known.get(key) else { continue };
            let last = known.series.map_or(known.first.at_nanos, |series| series.last_nanos);
            if last >= silent_since {
                continue;
            }
            let event = known.clone();
            if event.series.is_none() || self.send(key, &event).await {
                self.known.remove(key);
            }
        }
    }

    /// `false`: try again.
    async fn send(&mut self, key: u128, event: &Known) -> bool {
        let Err(status) = self.write(key, event).await else { return true };
        // What was forgotten by the server is made again; that it is there by now is a reason to patch it.
        let crossed = event.series.is_some() && status.reason == "AlreadyExists";
        if crossed || matches!(status.code, 429 | 502..=504) {
            return false;
        }
        tracing::debug!(self.component, error = status.message, "event rejected");
        true
    }

    async fn write(&mut self, key: u128, event: &Known) -> Result<(), Status> {
        let about = &event.first.told.about;
        let namespace = about.event_namespace();
        if let Some(series) = event.series {
            let mut patch = Map::default();
            patch.set("series", series.to_value());
            let patch = Patch::Strategic(Value::Map(patch));
            match self
                .client
                .patch(EVENTS_V1.at(namespace, &event.name), patch, WriteOptions::default())
                .await
            {
                Err(status) if status.code == 404 => {}
                other => return other.map(|_| ()),
            }
            let body = self.body(event, namespace, &event.name);
            return self
                .client
                .create(EVENTS_V1.within(namespace), body, WriteOptions::default())
                .await
                .map(|_| ());
        }
        let mut name = event.name.clone();
        for _ in 0..NAMES {
            let body = self.body(event, namespace, &name);
            match self.client.create(EVENTS_V1.within(namespace), body, WriteOptions::default()).await {
                Err(status) if status.reason == "AlreadyExists" => {
                    let later = 1 + u128::from(self.env.random_below(1 << 20));
                    name = event_name(&self.env, &about.name, event.first.at_nanos + later);
                }
                other => {
                    if name != event.name {
                        self.known.entry(key, || event.clone()).name = name;
                    }
                    return other.map(|_| ());
                }
            }
        }
        // The next one of its kind must not be a series on somebody else's event.
        self.known.remove(key);
        Ok(())
    }

    fn body(&self, event: &Known, namespace: &str, name: &str) -> Value {
        let told = &event.first.told;
        let mut body = Value::map();
        let metadata = body.map_at(&["metadata"]);
        metadata.set("name", name);
        metadata.set("namespace", namespace);
        let root = body.make_map();
        root.set("eventTime", micros(event.first.at_nanos));
        if let Some(series) = event.series {
            root.set("series", series.to_value());
        }
        root.set("reportingController", self.component.clone());
        root.set("reportingInstance", self.instance.clone());
        root.set("action", told.action);
        root.set("reason", told.reason);
        root.set("regarding", told.about.to_value());
        if let Some(related) = &told.related {
            root.set("related", related.to_value());
        }
        root.set("note", told.note.clone());
        root.set("type", told.severity.as_str());
        body
    }
}

impl Series {
    fn to_value(self) -> Value {
        let mut series = Map::default();
        series.set("count", self.count);
        series.set("lastObservedTime", micros(self.last_nanos));
        Value::Map(series)
    }
}

/// Two events with the same are one and the same again, whatever their notes say.
fn key(told: &NewEvent) -> u128 {
    let reference = |of: &ObjectRef| {
        let ObjectRef { api_version, kind, namespace, name, uid, resource_version, field_path } = of.clone();
        (api_version, kind, namespace, name, uid, resource_version, field_path)
    };
    let related = told.related.as_ref().map(reference);
    hash(&(told.severity == Severity::Normal, told.action, told.reason, reference(&told.about), related))
}

fn micros(nanos: u128) -> String {
    time::format_micros((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32)
}
