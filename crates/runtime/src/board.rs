//! What every controller of a process is doing: behind `/debug/controllers`, and the metrics people know.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use object::{Map, Value};
use parking_lot::Mutex;

use crate::Key;
use crate::cause::Causes;
use crate::controller::{Failure, Next};
use crate::queue::WorkQueue;

/// All controllers that were started.
#[derive(Default)]
pub struct Board {
    /// Guards the list; grows at start only.
    entries: Mutex<Vec<Arc<Entry>>>,
}

/// One controller.
pub struct Entry {
    name: &'static str,
    workers: usize,
    queue: Arc<WorkQueue<Key>>,
    /// Guards what is shown; touched at the beginning and end of a turn.
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    active: usize,
    turns: u64,
    errors: u64,
    requeued: u64,
    seconds: f64,
    recent: VecDeque<Past>,
}

/// A turn that was begun.
struct Past {
    key: Key,
    causes: Causes,
    plan: String,
    result: String,
}

/// So many turns are remembered for each controller.
const REMEMBERED: usize = 16;

impl Board {
    pub(crate) fn register(
        &self,
        name: &'static str,
        workers: usize,
        queue: Arc<WorkQueue<Key>>,
    ) -> Arc<Entry> {
        let entry = Arc::new(Entry { name, workers, queue, shown: Mutex::default() });
        self.entries.lock().push(entry.clone());
        entry
    }

    /// Queues, workers, retries, last causes and last plans. `writer` tells who wrote a revision.
    pub fn to_value(&self, writer: &dyn Fn(store::Revision) -> Option<String>) -> Value {
        let entries = self.entries.lock().clone();
        let mut all = Map::default();
        all.set("controllers", Value::List(entries.iter().map(|entry| entry.to_value(writer)).collect()));
        Value::Map(all)
    }
}

impl Entry {
    pub(crate) fn begun(&self, key: &Key, causes: &Causes, _waited: Duration) {
        let mut shown = self.shown.lock();
        shown.active += 1;
        shown.turns += 1;
        if shown.recent.len() == REMEMBERED {
            shown.recent.pop_front();
        }
        let past =
            Past { key: key.clone(), causes: causes.clone(), plan: String::new(), result: "working".into() };
        shown.recent.push_back(past);
    }

    pub(crate) fn planned(&self, key: &Key, plan: String) {
        let mut shown = self.shown.lock();
        if let Some(past) = shown.recent.iter_mut().rev().find(|past| past.key == *key) {
            past.plan = plan;
        }
    }

    pub(crate) fn ended(&self, key: &Key, result: &Result<Next, Failure>, worked: Duration) {
        let mut shown = self.shown.lock();
        shown.active -= 1;
        shown.seconds += worked.as_secs_f64();
        let text = match result {
            Ok(Next::Done) => "done".to_owned(),
            Ok(Next::After(wait)) => {
                shown.requeued += 1;
                format!("done, again after {wait:?}")
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

    fn to_value(&self, writer: &dyn Fn(store::Revision) -> Option<String>) -> Value {
        let shown = self.shown.lock();
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
                shown.set("resource", cause.resource.plural.to_owned());
                shown.set("object", cause.object.as_str().to_owned());
                shown.set("revision", Value::Int(cause.revision.0 as i64));
                shown.set("what", cause.what.to_owned());
                if let Some(writer) = writer(cause.revision) {
                    shown.set("writer", writer);
                }
                Value::Map(shown)
            });
            let mut turn = Map::default();
            turn.set("key", past.key.as_str().to_owned());
            turn.set("causes", Value::List(causes.collect()));
            turn.set("moreCauses", count(past.causes.dropped()));
            turn.set("plan", past.plan.clone());
            turn.set("result", past.result.clone());
            Value::Map(turn)
        });
        let mut entry = Map::default();
        entry.set("name", self.name.to_owned());
        entry.set("workers", count(self.workers));
        entry.set("active", count(shown.active));
        entry.set("turns", Value::Int(shown.turns as i64));
        entry.set("errors", Value::Int(shown.errors as i64));
        entry.set("requeued", Value::Int(shown.requeued as i64));
        entry.set("seconds", Value::Float(shown.seconds));
        entry.set("queue", Value::Map(queue));
        entry.set("recent", Value::List(recent.collect()));
        Value::Map(entry)
    }
}
