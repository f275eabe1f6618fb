//! The interface for the server: classify a request, acquire a seat, release it.

use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::Hasher;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use env::Env;
use http::HeaderValue;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::config::{Config, Schema};
use crate::demand::Demand;
use crate::estimate::WorkEstimate;
use crate::families::{self, FlowStats};
use crate::level::{Clock, Level};
use crate::matching::RequestDigest;
use crate::queue_set::{About, Arrival, Flow, RequestId, Started};
use crate::spec::{CATCH_ALL, Distinguisher, FlowSchema, PriorityLevel};
use crate::{Nanos, SECOND};

/// Interval of lending and borrowing.
const REBALANCE: Nanos = 10 * SECOND;
/// A response of which the client reads nothing for this long releases its seats.
const STALLED: Nanos = SECOND;
/// How often that is checked while responses are being sent.
const LOOK: Nanos = SECOND / 4;

/// The server's limits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Seats of all levels.
    pub seats: u32,
    /// Bytes of request bodies in progress.
    pub bytes: u64,
}

impl Default for Limits {
    /// kube-apiserver's 400 read-only and 200 mutating requests; 512 MiB of bodies.
    fn default() -> Limits {
        Limits { seats: 600, bytes: 512 << 20 }
    }
}

pub struct FlowControl {
    clock: Clock,
    limits: Limits,
    /// Secret, so that no client can choose a flow that shares the queues of another.
    seed: u64,
    /// Guards the configuration; replaced as a whole when objects change.
    config: RwLock<Arc<Config>>,
    /// Held while the configuration is replaced or rebalanced: one at a time.
    changing: Mutex<()>,
    /// Bits of the fair fraction of the last allocation.
    fair_fraction: AtomicU64,
    /// When [`FlowControl::run`] wakes up next.
    next_look: AtomicU64,
    look: Notify,
}

/// A request with its flow schema and level.
pub struct Classified(Arc<Schema>);

/// No seat is free and the queues are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Retry-After, in seconds.
    pub retry_after_seconds: u32,
}

/// The seats of an executing request, released on drop.
pub struct Seat {
    level: Arc<Level>,
    id: RequestId,
    /// Notified when the seats are released later than this is dropped.
    control: Option<Arc<FlowControl>>,
}

/// A queued request; cancelled on drop.
pub struct Ticket {
    waiting: Option<(Arc<Level>, RequestId)>,
    control: Arc<FlowControl>,
}

/// The limits of a level, for `/metrics`.
pub struct LevelFigures {
    pub name: String,
    pub nominal: u32,
    pub lower: u32,
    pub upper: u32,
    pub current: u32,
    pub reading: f64,
    pub demand: Demand,
    pub target: f64,
}

impl FlowControl {
    /// Until it is configured there are only the two mandatory levels.
    pub fn new(env: &Env, limits: Limits) -> Arc<FlowControl> {
        let control = FlowControl {
            clock: Clock::new(env.clone()),
            limits,
            seed: env.random(),
            config: RwLock::new(Arc::new(Config::empty())),
            changing: Mutex::new(()),
            fair_fraction: AtomicU64::new(0),
            next_look: AtomicU64::new(Nanos::MAX),
            look: Notify::new(),
        };
        control.configure(Vec::new(), Vec::new());
        Arc::new(control)
    }

    /// Replaces all objects. Executing and queued requests continue.
    pub fn configure(&self, schemas: Vec<FlowSchema>, levels: Vec<PriorityLevel>) {
        let _changing = self.changing.lock();
        let next = Arc::new(self.config().next(&self.clock, schemas, levels));
        *self.config.write() = next.clone();
        self.divided(next.divide(self.limits.seats, self.limits.bytes));
    }

    pub fn classify(&self, request: &RequestDigest<'_>) -> Classified {
        let config = self.config.read();
        let mut schemas = config.schemas.iter();
        let schema = schemas.find(|schema| schema.spec.matches(request));
        // The catch-all FlowSchema matches by the groups of authenticated and anonymous users; users in neither group fall back to it.
        let schema = schema.or_else(|| config.schemas.iter().find(|s| s.spec.name == CATCH_ALL));
        Classified(schema.expect("catch-all is always there").clone())
    }

    /// Seats at once, or a ticket to wait in a queue.
    pub fn start(
        self: &Arc<FlowControl>,
        classified: &Classified,
        request: &RequestDigest<'_>,
        about: About,
        estimate: WorkEstimate,
        patient: bool,
    ) -> Result<Result<Seat, Ticket>, Rejected> {
        // The level may have been removed while the body was read.
        let again = classified.0.level.removed.load(Ordering::Acquire).then(|| self.classify(request));
        let classified = again.as_ref().unwrap_or(classified);
        let schema = &classified.0;
        schema.stats.estimated(estimate.max_seats());
        let flow_hash = self.hash(&schema.spec.name, schema.spec.flow(request));
        let flow = match schema.spec.distinguisher {
            None => Flow::All,
            Some(Distinguisher::ByUser) => Flow::User,
            Some(Distinguisher::ByNamespace) => Flow::Namespace(Box::from(schema.spec.flow(request))),
        };
        let about = About { flow, ..about };
        let arrival = Arrival { about, stats: schema.stats.clone(), estimate, flow_hash, patient };
        let (started, release) = schema.level.start(arrival);
        self.wake_by(release);
        match started {
            Started::Executing(id) => {
                // Only seats that linger or are sending need to be woken up for.
                let control = (estimate.additional_nanos > 0).then(|| self.clone());
                Ok(Ok(Seat { level: schema.level.clone(), id, control }))
            }
            Started::Waiting(id) => {
                Ok(Err(Ticket { waiting: Some((schema.level.clone(), id)), control: self.clone() }))
            }
            Started::Rejected(_) => Err(classified.rejected()),
        }
    }

    /// Waits for a seat at most `wait`; without it, indefinitely.
    pub async fn seat(
        self: &Arc<FlowControl>,
        classified: &Classified,
        request: &RequestDigest<'_>,
        about: About,
        estimate: WorkEstimate,
        wait: Option<Duration>,
    ) -> Result<Seat, Rejected> {
        let mut ticket = match self.start(classified, request, about, estimate, wait.is_none())? {
            Ok(seat) => return Ok(seat),
            Err(ticket) => ticket,
        };
        let Some(wait) = wait else { return Ok(ticket.await) };
        match self.clock.env().timeout(wait, &mut ticket).await {
            Ok(seat) => Ok(seat),
            Err(_) => {
                ticket.cancel(true);
                Err(classified.rejected())
            }
        }
    }

    /// Runs forever: rebalances, and releases the seats of stalled responses and of writes
    /// whose watch events were delivered.
    pub async fn run(&self) {
        let mut rebalance = self.clock.now() + REBALANCE;
        loop {
            let next = self.release_due().map_or(rebalance, |next| next.min(rebalance));
            tokio::select! {
                biased;
                () = self.look.notified() => {}
                () = self.clock.env().sleep_until(self.clock.at(next)) => {}
            }
            let now = self.clock.now();
            if now >= rebalance {
                rebalance = now + REBALANCE;
                self.rebalance();
            }
        }
    }

    fn rebalance(&self) {
        let _changing = self.changing.lock();
        let config = self.config();
        self.divided(config.rebalance());
        let unwanted = |level: &&Arc<Level>| {
            let state = level.lock();
            state.quiescing && state.set.is_idle()
        };
        if config.levels.values().any(|level| unwanted(&level)) {
            let kept = config.levels.iter().filter(|(_, level)| !unwanted(level));
            let levels = kept.map(|(name, level)| (name.clone(), level.clone())).collect();
            let next = Arc::new(Config { schemas: config.schemas.clone(), levels });
            for level in config.levels.values().filter(|level| !next.levels.contains_key(&level.name)) {
                level.removed.store(true, Ordering::Release);
            }
            *self.config.write() = next.clone();
            self.divided(next.divide(self.limits.seats, self.limits.bytes));
        }
    }

    /// Releases what is due; returns when to check again before the next rebalancing.
    fn release_due(&self) -> Option<Nanos> {
        self.next_look.store(Nanos::MAX, Ordering::Release);
        let now = self.clock.now();
        let mut next: Option<Nanos> = None;
        for level in self.config().levels.values() {
            let (sending, release) = level.change(|state, now| {
                let sending = state.set.release_stalled(now.saturating_sub(STALLED), now);
                (sending, state.set.next_release())
            });
            let look = sending.then_some(now + LOOK);
            next = [next, look, release].into_iter().flatten().min();
        }
        // A concurrent request for an earlier wake-up has notified.
        self.next_look.fetch_min(next.unwrap_or(Nanos::MAX), Ordering::AcqRel);
        next
    }

    /// Wakes [`FlowControl::run`] earlier if needed.
    fn wake_by(&self, at: Option<Nanos>) {
        if let Some(at) = at
            && at < self.next_look.fetch_min(at, Ordering::AcqRel)
        {
            self.look.notify_one();
        }
    }

    fn divided(&self, fraction: f64) {
        self.fair_fraction.store(fraction.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.read().clone()
    }

    fn hash(&self, schema: &str, flow: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(schema.as_bytes());
        hasher.write_u8(0xff);
        hasher.write(flow.as_bytes());
        hasher.finish()
    }

    /// Appends `apiserver_flowcontrol_*`.
    pub fn write_metrics(&self, out: &mut String) {
        let config = self.config();
        let flows: Vec<&FlowStats> = config.schemas.iter().map(|schema| &*schema.stats).collect();
        let figures = |level: &Arc<Level>| {
            let state = level.lock();
            LevelFigures {
                name: level.name.clone(),
                nominal: state.limits.nominal,
                lower: state.limits.lower,
                upper: state.limits.upper,
                current: state.limits.current,
                reading: state.set.reading(),
                demand: state.demand,
                target: state.target,
            }
        };
        let levels: Vec<LevelFigures> = config.levels.values().map(figures).collect();
        let fraction = f64::from_bits(self.fair_fraction.load(Ordering::Relaxed));
        families::write(out, &flows, &levels, fraction);
    }
}

impl Classified {
    pub fn schema_name(&self) -> &str {
        &self.0.spec.name
    }
    pub fn level_name(&self) -> &str {
        &self.0.level.name
    }
    /// UIDs of the FlowSchema and of the PriorityLevelConfiguration, for `X-Kubernetes-PF-*`; empty without an object.
    pub fn uids(&self) -> &[HeaderValue; 2] {
        &self.0.uids
    }
    /// The most seats one request may be estimated to take.
    pub fn max_seats(&self) -> u32 {
        self.0.level.max_seats.load(Ordering::Relaxed)
    }
    /// Records how many watches a write notifies.
    pub fn observe_watch_count(&self, watches: usize) {
        self.0.stats.observe_watch_count(watches);
    }

    /// Counts a rejection.
    fn rejected(&self) -> Rejected {
        Rejected { retry_after_seconds: self.0.level.rejected() }
    }
}

impl Seat {
    /// The request is executed, and its response is being sent: called with each chunk.
    pub fn sending(&mut self, control: &Arc<FlowControl>) {
        let first = self.level.sending(self.id);
        control.wake_by(first.map(|now| now + LOOK));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let release = self.level.finish(self.id);
        if let Some(control) = &self.control {
            control.wake_by(release);
        }
    }
}

impl Ticket {
    fn cancel(&mut self, timed_out: bool) {
        if let Some((level, id)) = self.waiting.take() {
            level.cancel(id, timed_out);
        }
    }
}

impl Future for Ticket {
    type Output = Seat;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Seat> {
        let Some((level, id)) = &self.waiting else { return Poll::Pending };
        match level.poll(*id, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let (level, id) = (level.clone(), *id);
                self.waiting = None;
                Poll::Ready(Seat { level, id, control: Some(self.control.clone()) })
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.cancel(false);
    }
}

impl std::fmt::Debug for Classified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.schema_name(), self.level_name())
    }
}

#[cfg(test)]
mod tests;
