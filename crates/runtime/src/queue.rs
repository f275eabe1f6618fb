//! The work queue: keys that need work, each once, never two workers on one key, nothing lost.
//!
//! ```text
//! add ──> dirty? ──> waiting (by priority, then order) ──get──> processing ──done──> waiting again if it became dirty
//! add_after ──> delayed (the earlier time wins) ──when due──┘
//! ```
//! A key that fails waits longer each time; an event that comes meanwhile runs it at once, but a failure before the wait
//! was over does not make the next one longer.
//! Differs from client-go: there, events during the wait raise the exponent until a key waits for minutes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cause::{Cause, Causes};
use crate::metrics::{Histogram, QUEUE_BUCKETS};

/// Of the initial list and of resyncs: what changes goes first.
pub const LOW: i32 = -100;
pub const NORMAL: i32 = 0;
/// No wait is longer: clocks cannot count for ever.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How failures slow a key down: the larger of both waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of one key: doubled with every failure.
    pub first: Duration,
    pub most: Duration,
    /// Of all keys together: so many retries a second, and so many at once.
    pub per_second: f64,
    pub burst: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            first: Duration::from_millis(5),
            most: Duration::from_secs(1000),
            per_second: 10.0,
            burst: 100.0,
        }
    }
}

pub struct WorkQueue<K> {
    env: Env,
    limits: Limits,
    /// Guards everything below; held for a few instructions.
    state: Mutex<State<K>>,
    /// Something became ready, or the queue is shutting down.
    ready: Notify,
    /// A worker finished, for those who drain.
    idle: Notify,
}

struct State<K> {
    entries: BTreeMap<K, Entry>,
    waiting: BTreeMap<(i32, u64), K>,
    delayed: BTreeMap<(Instant, u64), K>,
    next: u64,
    /// Keys workers have, and since when.
    working: BTreeMap<K, Instant>,
    closed: bool,
    tokens: f64,
    refilled: Instant,
    counts: Counts,
    waited: Histogram,
    worked: Histogram,
}

/// What is known of a key. Gone when it is neither dirty, processing, delayed nor failing.
#[derive(Default)]
struct Entry {
    /// Its place among the waiting, as (minus priority, order).
    place: Option<(i32, u64)>,
    dirty: bool,
    processing: bool,
    priority: i32,
    since: Option<Instant>,
    delayed: Option<(Instant, u64)>,
    /// With what priority it comes back then.
    delayed_priority: i32,
    failures: u32,
    /// The wait for the retry is over then; failures before do not count, they are not the retry's.
    calm_until: Option<Instant>,
    causes: Causes,
}

/// For metrics and people.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub adds: u64,
    pub retries: u64,
    pub done: u64,
}

/// How long keys wait and are worked on.
#[derive(Clone, Debug)]
pub struct Times {
    pub waited: Histogram,
    pub worked: Histogram,
    /// Of keys being worked on now: in all, and the longest.
    pub unfinished: Duration,
    pub longest: Duration,
}

/// A key handed to a worker.
pub struct Taken<K> {
    pub key: K,
    pub priority: i32,
    pub causes: Causes,
    /// How often it failed so far.
    pub failures: u32,
    pub waited: Duration,
}

impl<K: Ord + Clone> WorkQueue<K> {
    pub fn new(env: Env, limits: Limits) -> WorkQueue<K> {
        let refilled = env.monotonic();
        WorkQueue {
            env,
            limits,
            state: Mutex::new(State {
                entries: BTreeMap::new(),
                waiting: BTreeMap::new(),
                delayed: BTreeMap::new(),
                next: 0,
                working: BTreeMap::new(),
                closed: false,
                tokens: limits.burst,
                refilled,
                counts: Counts::default(),
                waited: Histogram::new(QUEUE_BUCKETS),
                worked: Histogram::new(QUEUE_BUCKETS),
            }),
            ready: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// The key needs work.
    pub fn add(&self, key: K, priority: i32, cause: Option<Cause>) {
        let now = self.env.monotonic();
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.add(key, priority, cause, now);
        drop(state);
        self.ready.notify_one();
    }

    /// The key needs work, but not before `wait` has passed.
    pub fn add_after(&self, key: K, wait: Duration, cause: Option<Cause>) {
        self.add_after_with(key, wait, NORMAL, cause);
    }

    pub fn add_after_with(&self, key: K, wait: Duration, priority: i32, cause: Option<Cause>) {
        if wait.is_zero() {
            return self.add(key, priority, cause);
        }
        let due = self.env.monotonic() + wait.min(LONGEST);
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.delay(key, due, priority, cause);
        drop(state);
        // A worker must look at its alarm clock again.
        self.ready.notify_one();
    }

    /// The key failed: again, later each time, as urgent as before. Tells how much later.
    pub fn retry(&self, key: K) -> Duration {
        let now = self.env.monotonic();
        let mut state = self.state.lock();
        if state.closed {
            return Duration::ZERO;
        }
        state.counts.retries += 1;
        let entry = state.entries.entry(key.clone()).or_default();
        let priority = entry.priority;
        let due = match entry.calm_until.filter(|until| *until > now) {
            // An event ran it before its time: the retry stands as it was, and was paid for.
            Some(until) => until,
            None => {
                entry.failures += 1;
                let doublings = entry.failures.saturating_sub(1).min(62);
                let Limits { first, most, .. } = self.limits;
                let own = first.as_nanos().saturating_mul(1u128 << doublings).min(most.as_nanos());
                let own = Duration::from_nanos(u64::try_from(own).unwrap_or(u64::MAX));
                now + own.max(state.token(&self.limits, now))
            }
        };
        if let Some(entry) = state.entries.get_mut(&key) {
            entry.calm_until = Some(due);
        }
        state.delay(key, due, priority, None);
        drop(state);
        self.ready.notify_one();
        due - now
    }

    /// The key went well: its failures are forgotten.
    pub fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(key) {
            entry.failures = 0;
            entry.calm_until = None;
        }
        state.drop_if_idle(key);
    }

    pub fn failures(&self, key: &K) -> u32 {
        self.state.lock().entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// The next key to work on; `None`: the queue was shut down.
    pub async fn get(&self) -> Option<Taken<K>> {
        loop {
            let alarm = {
                let now = self.env.monotonic();
                let mut state = self.state.lock();
                state.wake_due(now);
                if let Some(taken) = state.take(now) {
                    // Somebody must take the rest, and mind the clock while this worker is busy.
                    let more = state.closed || !state.waiting.is_empty() || !state.delayed.is_empty();
                    drop(state);
                    if more {
                        self.ready.notify_one();
                    }
                    return Some(taken);
                }
                if state.closed {
                    drop(state);
                    // The other workers want to know too.
                    self.ready.notify_one();
                    return None;
                }
                state.delayed.keys().next().map(|(due, _)| *due - now)
            };
            match alarm {
                None => self.ready.notified().await,
                Some(wait) => tokio::select! {
                    biased;
                    () = self.ready.notified() => {}
                    () = self.env.sleep(wait) => {}
                },
            }
        }
    }

    /// The worker is finished with the key.
    pub fn done(&self, key: &K) {
        let now = self.env.monotonic();
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key).filter(|entry| entry.processing) else { return };
        entry.processing = false;
        let again = entry.dirty.then_some(entry.priority);
        if let Some(since) = state.working.remove(key) {
            state.worked.observe((now - since).as_secs_f64());
        }
        state.counts.done += 1;
        match again {
            Some(priority) => state.push(key.clone(), priority),
            None => state.drop_if_idle(key),
        }
        drop(state);
        if again.is_some() {
            self.ready.notify_one();
        }
        self.idle.notify_waiters();
    }

    /// No more keys are taken in; workers finish what waits.
    pub fn shut_down(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.delayed.clear();
        drop(state);
        self.ready.notify_one();
    }

    /// Shuts down and waits until nobody works on anything.
    pub async fn drain(&self) {
        self.shut_down();
        loop {
            let idle = self.idle.notified();
            if self.state.lock().working.is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// Keys that wait for a worker.
    pub fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Keys that wait for their time, and keys being worked on.
    pub fn others(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.delayed.len(), state.working.len())
    }
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }
    pub fn times(&self) -> Times {
        let now = self.env.monotonic();
        let state = self.state.lock();
        let under_way = || state.working.values().map(|since| now - *since);
        Times {
            waited: state.waited.clone(),
            worked: state.worked.clone(),
            unfinished: under_way().sum(),
            longest: under_way().max().unwrap_or_default(),
        }
    }
    /// Some of the keys that fail, with how often, for people.
    pub fn failing(&self, most: usize) -> VecDeque<(K, u32)> {
        let state = self.state.lock();
        let failing = state.entries.iter().filter(|(_, entry)| entry.failures > 0);
        failing.take(most).map(|(key, entry)| (key.clone(), entry.failures)).collect()
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K, priority: i32, cause: Option<Cause>, now: Instant) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.causes.note(cause);
        entry.since.get_or_insert(now);
        if entry.dirty {
            // A second reason may be more urgent.
            if priority > entry.priority {
                entry.priority = priority;
                if let Some(place) = entry.place.take() {
                    self.waiting.remove(&place);
                    self.push(key, priority);
                }
            }
            return;
        }
        entry.dirty = true;
        entry.priority = priority;
        self.counts.adds += 1;
        if !entry.processing {
            self.push(key, priority);
        }
    }

    fn push(&mut self, key: K, priority: i32) {
        let place = (-priority, self.next);
        self.next += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = Some(place);
        }
        self.waiting.insert(place, key);
    }

    fn delay(&mut self, key: K, due: Instant, priority: i32, cause: Option<Cause>) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.causes.note(cause);
        entry.delayed_priority =
            if entry.delayed.is_some() { entry.delayed_priority.max(priority) } else { priority };
        if let Some(earlier) = entry.delayed {
            if earlier.0 <= due {
                return;
            }
            self.delayed.remove(&earlier);
        }
        let at = (due, self.next);
        self.next += 1;
        entry.delayed = Some(at);
        self.delayed.insert(at, key);
    }

    fn wake_due(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            let mut priority = NORMAL;
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.delayed = None;
                priority = entry.delayed_priority;
            }
            self.add(key, priority, None, now);
        }
    }

    fn take(&mut self, now: Instant) -> Option<Taken<K>> {
        let (_, key) = self.waiting.pop_first()?;
        let entry = self.entries.entry(key.clone()).or_default();
        entry.place = None;
        entry.dirty = false;
        entry.processing = true;
        let waited = entry.since.take().map_or(Duration::ZERO, |since| now - since);
        let taken = Taken {
            key,
            priority: entry.priority,
            causes: std::mem::take(&mut entry.causes),
            failures: entry.failures,
            waited,
        };
        self.working.insert(taken.key.clone(), now);
        self.waited.observe(waited.as_secs_f64());
        Some(taken)
    }

    fn drop_if_idle(&mut self, key: &K) {
        let idle = self.entries.get(key).is_some_and(|entry| {
            !entry.dirty && !entry.processing && entry.delayed.is_none() && entry.failures == 0
        });
        if idle {
            self.entries.remove(key);
        }
    }

    /// How long all retries together must wait for this one.
    fn token(&mut self, limits: &Limits, now: Instant) -> Duration {
        let filled = (now - self.refilled).as_secs_f64() * limits.per_second;
        self.tokens = (self.tokens + filled).min(limits.burst);
        self.refilled = now;
        self.tokens -= 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64((-self.tokens / limits.per_second).min(3600.0))
    }
}

#[cfg(test)]
mod tests;
