//! What the scheduler is doing, for people: who waits where and why, and what was decided last.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use env::Env;
use object::{Map, Value};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::pod::Pod;
use crate::queue::{Lengths, Waiter};

/// So many decisions are remembered.
const REMEMBERED: usize = 16;
/// So many pods of each queue are shown.
const FIRST: usize = 10;
const UNDER_WAY: &str = "under way";

/// Can be asked at any time, from anywhere.
pub struct Debugger {
    /// Guards the scheduler's state; its task holds it for single steps, whoever asks for a few pods' length.
    /// Gone when it no longer leads.
    engine: Weak<Mutex<Engine>>,
    /// Guards the last decisions; touched when one is made and when it was carried out.
    recent: Mutex<VecDeque<Decision>>,
    env: Env,
    /// The engine's times count from here.
    start: Instant,
}

/// What was decided about a pod.
struct Decision {
    pod: Arc<Pod>,
    attempts: u32,
    cause: &'static str,
    decided: String,
    result: String,
}

impl Debugger {
    pub(crate) fn new(engine: Weak<Mutex<Engine>>, env: &Env, start: Instant) -> Debugger {
        Debugger { engine, recent: Mutex::default(), env: env.clone(), start }
    }

    pub(crate) fn decided(&self, pod: &Arc<Pod>, attempts: u32, cause: &'static str, decided: String) {
        let mut recent = self.recent.lock();
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        let result = UNDER_WAY.to_owned();
        recent.push_back(Decision { pod: pod.clone(), attempts, cause, decided, result });
    }

    /// What came of the last decision about a pod, if it is still remembered; what is told first stays.
    pub(crate) fn ended(&self, uid: &str, result: impl FnOnce() -> String) {
        let mut recent = self.recent.lock();
        let mut decisions = recent.iter_mut().rev();
        if let Some(decision) = decisions.find(|decision| *decision.pod.uid == *uid)
            && decision.result == UNDER_WAY
        {
            decision.result = result();
        }
    }

    /// Queues and decisions, for `/debug/controllers`.
    pub fn to_value(&self) -> Value {
        let Some(engine) = self.engine.upgrade() else { return Value::map() };
        let (lengths, waiters, placed) = {
            let engine = engine.lock();
            (engine.lengths(), engine.queue().first(FIRST), engine.cluster().pods())
        };
        let Lengths { active, backoff, unschedulable, gated } = lengths;
        let now = self.env.monotonic().saturating_duration_since(self.start);
        let mut queues = Map::default();
        for (name, length, first) in [
            ("active", active, &waiters.active),
            ("backoff", backoff, &waiters.backoff),
            ("unschedulable", unschedulable, &waiters.unschedulable),
            ("gated", gated, &waiters.gated),
        ] {
            let mut queue = Map::default();
            queue.set("length", Value::Int(length as i64));
            queue.set("first", Value::List(first.iter().map(|first| waiter(first, now)).collect()));
            queues.set(name, Value::Map(queue));
        }
        let recent = self.recent.lock();
        let recent = recent.iter().rev().map(|decision| {
            let mut shown = Map::default();
            shown.set("pod", decision.pod.key());
            shown.set("attempts", Value::Int(i64::from(decision.attempts)));
            shown.set("cause", decision.cause);
            shown.set("decided", decision.decided.clone());
            shown.set("result", decision.result.clone());
            Value::Map(shown)
        });
        let mut all = Map::default();
        all.set("queues", Value::Map(queues));
        all.set("placedPods", Value::Int(placed as i64));
        all.set("recent", Value::List(recent.collect()));
        Value::Map(all)
    }
}

fn waiter(waiter: &Waiter, now: Duration) -> Value {
    let Waiter { pod, attempts, cause, rejected_by, until } = waiter;
    let strings = |all: Vec<String>| Value::List(all.into_iter().map(Value::Str).collect());
    let mut shown = Map::default();
    shown.set("pod", pod.key());
    shown.set("priority", Value::Int(i64::from(pod.priority)));
    shown.set("attempts", Value::Int(i64::from(*attempts)));
    shown.set("cause", *cause);
    let plugins: Vec<String> = rejected_by.iter().map(|plugin| plugin.name().to_owned()).collect();
    if !plugins.is_empty() {
        shown.set("rejectedBy", strings(plugins));
    }
    if !pod.gates.is_empty() {
        shown.set("gates", strings(pod.gates.clone()));
    }
    if let Some(said) = pod.scheduled.as_ref().filter(|said| said.status == "False") {
        shown.set("said", said.message.clone());
    }
    if let Some(until) = until {
        shown.set("backoffSeconds", Value::Float(until.saturating_sub(now).as_secs_f64()));
    }
    Value::Map(shown)
}
