//! What every controller of a process is doing: behind `/debug/controllers`, and the metrics people know.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use object::{Map, Value};
use parking_lot::Mutex;

use crate::Key;
use crate::cause::Causes;
use crate::controller::{Action, Failure};
use crate::metrics::{self, Histogram, RECONCILE_BUCKETS};
use crate::queue::{Counts, Times, WorkQueue};

/// All controllers that were started.
#[derive(Default)]
pub struct ControllerRegistry {
    /// Guards the list; grows at start only.
    entries: Mutex<Vec<Arc<Entry>>>,
    /// Guards the metrics of controllers' own, by controller; grows at start only.
    own: Mutex<BTreeMap<&'static str, Render>>,
}

/// Writes metrics.
type Render = Arc<dyn Fn(&mut String) + Send + Sync>;

/// One controller.
pub struct Entry {
    name: &'static str,
    workers: usize,
    queue: Arc<WorkQueue<Key>>,
    /// Guards how long reconciles took.
    seconds: Mutex<Histogram>,
    /// Guards what is shown; touched at the beginning and end of a reconcile.
    stats: Mutex<Stats>,
}

#[derive(Default)]
struct Stats {
    active: usize,
    reconciles: u64,
    succeeded: u64,
    errors: u64,
    panics: u64,
    requeued: u64,
    recent: VecDeque<Past>,
}

/// A reconcile that was begun.
struct Past {
    key: Key,
    causes: Causes,
    plan: String,
    result: String,
}

/// So many reconciles are remembered for each controller.
const REMEMBERED: usize = 16;
/// Of them, so many that found nothing to do; more would soon be all there is to see.
const REMEMBERED_IDLE: usize = 4;

impl Past {
    /// Ended well, and there was nothing to change. Plans are for people: those that change nothing say so.
    fn is_idle(&self) -> bool {
        self.result.starts_with("done") && (self.plan.is_empty() || self.plan.contains("nothing"))
    }
}

impl ControllerRegistry {
    pub(crate) fn register(
        &self,
        name: &'static str,
        workers: usize,
        queue: Arc<WorkQueue<Key>>,
    ) -> Arc<Entry> {
        let seconds = Mutex::new(Histogram::new(RECONCILE_BUCKETS));
        let entry = Arc::new(Entry { name, workers, queue, seconds, stats: Mutex::default() });
        let mut entries = self.entries.lock();
        // After another election a controller takes the place of the one that stopped.
        match entries.iter_mut().find(|there| there.name == name) {
            Some(there) => *there = entry.clone(),
            None => entries.push(entry.clone()),
        }
        drop(entries);
        entry
    }

    /// Adds metrics of a controller's own; those it had before another election are gone.
    pub fn add_metrics(
        &self,
        controller: &'static str,
        render: impl Fn(&mut String) + Send + Sync + 'static,
    ) {
        self.own.lock().insert(controller, Arc::new(render));
    }

    /// Queues, workers, retries, last causes and last plans. `writer` tells who wrote a revision.
    pub fn to_value(&self, writer: &dyn Fn(object::Revision) -> Option<String>) -> Value {
        let entries = self.entries.lock().clone();
        let mut all = Map::default();
        all.set("controllers", Value::List(entries.iter().map(|entry| entry.to_value(writer)).collect()));
        Value::Map(all)
    }

    /// Queues and reconciles, under the names of client-go and controller-runtime.
    pub fn render_metrics(&self, out: &mut String) {
        let entries = self.entries.lock().clone();
        let all: Vec<Measured<'_>> = entries.iter().map(|entry| entry.measure()).collect();
        type Sample = fn(&Measured<'_>) -> f64;
        let queues: [(&str, &str, &str, Sample); 5] = [
            ("workqueue_depth", "gauge", "Keys that wait for a worker", |m| m.depth as f64),
            ("workqueue_adds_total", "counter", "Keys that were queued", |m| m.counts.adds as f64),
            ("workqueue_retries_total", "counter", "Keys that were queued again after a failure", |m| {
                m.counts.retries as f64
            }),
            (
                "workqueue_unfinished_work_seconds",
                "gauge",
                "Seconds spent so far on keys that workers have; large values mean stuck workers",
                |m| m.times.unfinished.as_secs_f64(),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "gauge",
                "Seconds the worker that is longest at it has spent on its key",
                |m| m.times.longest.as_secs_f64(),
            ),
        ];
        for (name, kind, help, value) in queues {
            metrics::head(name, kind, help, out);
            for m in &all {
                metrics::sample(name, &format!("name=\"{}\"", m.name), value(m), out);
            }
        }
        type Of = fn(&Measured<'_>) -> Histogram;
        let histograms: [(&str, &str, &str, Of); 3] = [
            ("workqueue_queue_duration_seconds", "name", "Seconds a key waits for a worker", |m| {
                m.times.waited.clone()
            }),
            ("workqueue_work_duration_seconds", "name", "Seconds a worker has a key", |m| {
                m.times.worked.clone()
            }),
            ("controller_runtime_reconcile_time_seconds", "controller", "Seconds a reconcile takes", |m| {
                m.seconds.clone()
            }),
        ];
        for (name, label, help, value) in histograms {
            metrics::head(name, "histogram", help, out);
            for m in &all {
                value(m).render(name, &format!("{label}=\"{}\"", m.name), out);
            }
        }
        let gauges_and_counters: [(&str, &str, &str, Sample); 4] = [
            ("controller_runtime_reconcile_errors_total", "counter", "Reconciles that failed", |m| {
                m.errors as f64
            }),
            ("controller_runtime_reconcile_panics_total", "counter", "Reconciles that panicked", |m| {
                m.panics as f64
            }),
            ("controller_runtime_active_workers", "gauge", "Workers that have a key", |m| m.active as f64),
            ("controller_runtime_max_concurrent_reconciles", "gauge", "Workers there are", |m| {
                m.workers as f64
            }),
        ];
        for (name, kind, help, value) in gauges_and_counters {
            metrics::head(name, kind, help, out);
            for m in &all {
                metrics::sample(name, &format!("controller=\"{}\"", m.name), value(m), out);
            }
        }
        let name = "controller_runtime_reconcile_total";
        metrics::head(name, "counter", "Reconciles by result", out);
        for m in &all {
            let results = [
                ("error", m.errors),
                ("requeue_after", m.requeued),
                ("requeue", 0),
                ("success", m.succeeded),
            ];
            for (result, count) in results {
                let labels = format!("controller=\"{}\",result=\"{result}\"", m.name);
                metrics::sample(name, &labels, count as f64, out);
            }
        }
        let own: Vec<Render> = self.own.lock().values().cloned().collect();
        own.iter().for_each(|render| render(out));
    }
}

/// The figures of one controller, of one moment.
struct Measured<'a> {
    name: &'a str,
    workers: usize,
    depth: usize,
    counts: Counts,
    times: Times,
    seconds: Histogram,
    active: usize,
    succeeded: u64,
    errors: u64,
    panics: u64,
    requeued: u64,
}

impl Entry {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn measure(&self) -> Measured<'_> {
        let seconds = self.seconds.lock().clone();
        let Stats { active, succeeded, errors, panics, requeued, .. } = *self.stats.lock();
        Measured {
            name: self.name,
            workers: self.workers,
            depth: self.queue.len(),
            counts: self.queue.counts(),
            times: self.queue.times(),
            seconds,
            active,
            succeeded,
            errors,
            panics,
            requeued,
        }
    }

    pub(crate) fn panicked(&self) {
        self.stats.lock().panics += 1;
    }

    pub(crate) fn begun(&self, key: &Key, causes: &Causes) {
        let mut shown = self.stats.lock();
        shown.active += 1;
        shown.reconciles += 1;
        if shown.recent.len() == REMEMBERED {
            let idle = shown.recent.iter().filter(|past| past.is_idle()).count();
            let first_idle = shown.recent.iter().position(Past::is_idle).filter(|_| idle > REMEMBERED_IDLE);
            shown.recent.remove(first_idle.unwrap_or(0));
        }
        let past =
            Past { key: key.clone(), causes: causes.clone(), plan: String::new(), result: "working".into() };
        shown.recent.push_back(past);
    }

    pub(crate) fn planned(&self, key: &Key, plan: String) {
        let mut shown = self.stats.lock();
        if let Some(past) = shown.recent.iter_mut().rev().find(|past| past.key == *key) {
            past.plan = plan;
        }
    }

    pub(crate) fn ended(&self, key: &Key, result: &Result<Action, Failure>, worked: Duration) {
        self.seconds.lock().observe(worked.as_secs_f64());
        let mut shown = self.stats.lock();
        shown.active -= 1;
        let text = match result {
            Ok(Action::AwaitChange) => {
                shown.succeeded += 1;
                "done".to_owned()
            }
            Ok(Action::Requeue(wait)) => {
                shown.requeued += 1;
                format!("done, again after {:?}", Duration::from_millis(wait.as_millis() as u64))
            }
            Err(failure) => {
                shown.errors += 1;
                format!("failed: {failure}")
            }
        };
        if let Some(past) = shown.recent.iter_mut().rev().find(|past| past.key == *key) {
            past.result = text;
        }
    }

    fn to_value(&self, writer: &dyn Fn(object::Revision) -> Option<String>) -> Value {
        let shown = self.stats.lock();
        let counts = self.queue.counts();
        let (delayed, processing) = self.queue.others();
        let count = |n: usize| Value::Int(n as i64);
        let mut queue = Map::default();
        queue.set("waiting", count(self.queue.len()));
        queue.set("delayed", count(delayed));
        queue.set("processing", count(processing));
        queue.set("adds", Value::Int(counts.adds as i64));
        queue.set("retries", Value::Int(counts.retries as i64));
        let failing = self.queue.failing(REMEMBERED).into_iter().map(|(key, times)| {
            let mut failing = Map::default();
            failing.set("key", key.as_str().to_owned());
            failing.set("failures", Value::Int(i64::from(times)));
            Value::Map(failing)
        });
        queue.set("failing", Value::List(failing.collect()));
        let recent = shown.recent.iter().rev().map(|past| {
            let causes = past.causes.kept().iter().map(|cause| {
                let mut shown = Map::default();
                shown.set("resource", &*cause.resource.plural);
                shown.set("object", cause.object.as_str().to_owned());
                shown.set("revision", Value::Int(cause.revision.0 as i64));
                shown.set("what", cause.what.to_owned());
                if let Some(writer) = writer(cause.revision) {
                    shown.set("writer", writer);
                }
                Value::Map(shown)
            });
            let mut request = Map::default();
            request.set("key", past.key.as_str().to_owned());
            request.set("causes", Value::List(causes.collect()));
            request.set("moreCauses", count(past.causes.dropped()));
            request.set("plan", past.plan.clone());
            request.set("result", past.result.clone());
            request.set("idle", Value::Bool(past.is_idle()));
            Value::Map(request)
        });
        let mut entry = Map::default();
        entry.set("name", self.name.to_owned());
        entry.set("workers", count(self.workers));
        entry.set("active", count(shown.active));
        entry.set("reconciles", Value::Int(shown.reconciles as i64));
        entry.set("errors", Value::Int(shown.errors as i64));
        entry.set("requeued", Value::Int(shown.requeued as i64));
        entry.set("seconds", Value::Float(self.seconds.lock().sum()));
        entry.set("queue", Value::Map(queue));
        entry.set("recent", Value::List(recent.collect()));
        Value::Map(entry)
    }
}

#[cfg(test)]
mod tests;
