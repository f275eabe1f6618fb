//! One priority level: its queues, its limits, and its seats.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::task::{Context, Poll};
use std::time::Duration;

use env::Env;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::Nanos;
use crate::demand::{Demand, Integrator};
use crate::queue_set::{Arrival, QueueSet, RequestId, Started};
use crate::retry_after::RetryAfter;
use crate::spec::{PriorityLevel, Response};

/// A request may take at most this fraction of a level's seats.
const MAX_SEATS_PERCENT: f64 = 0.15;

/// The clock of flow control.
#[derive(Clone)]
pub struct Clock {
    env: Env,
    born: Instant,
}

impl Clock {
    pub fn new(env: Env) -> Clock {
        Clock { born: env.monotonic(), env }
    }
    pub fn now(&self) -> Nanos {
        (self.env.monotonic() - self.born).as_nanos() as Nanos
    }
    pub fn at(&self, nanos: Nanos) -> Instant {
        self.born + Duration::from_nanos(nanos)
    }
    pub fn env(&self) -> &Env {
        &self.env
    }
}

pub struct Level {
    pub name: String,
    /// Removed from the configuration: nothing new may start here.
    pub removed: AtomicBool,
    /// The most seats one request may be estimated to take.
    pub max_seats: AtomicU32,
    clock: Clock,
    /// Guards the queues and their counters; held for some hundred instructions.
    state: Mutex<State>,
}

pub struct State {
    pub set: QueueSet,
    /// The current spec, or the last one before its object was deleted.
    pub spec: PriorityLevel,
    /// Its object was deleted; the level goes with its last request.
    pub quiescing: bool,
    pub limits: SeatLimits,
    pub demand: Demand,
    integrator: Integrator,
    pub retry_after: RetryAfter,
    /// The target of the last allocation.
    pub target: f64,
}

/// The seat limits of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatLimits {
    /// By its shares.
    pub nominal: u32,
    /// Without what it may lend.
    pub lower: u32,
    /// With what it may borrow.
    pub upper: u32,
    /// After lending and borrowing.
    pub current: u32,
    /// Bytes of bodies per seat.
    pub bytes_per_seat: u64,
}

impl Level {
    pub fn new(spec: PriorityLevel, clock: Clock) -> Arc<Level> {
        let now = clock.now();
        let state = State {
            set: QueueSet::new(now),
            quiescing: false,
            limits: SeatLimits::default(),
            demand: Demand::default(),
            integrator: Integrator::new(now),
            retry_after: RetryAfter::default(),
            target: 0.0,
            spec,
        };
        Arc::new(Level {
            name: state.spec.name.clone(),
            removed: AtomicBool::new(false),
            max_seats: AtomicU32::new(1),
            clock,
            state: Mutex::new(state),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Also returns when lingering seats are released, if a request now waits for them.
    pub fn start(&self, arrival: Arrival) -> (Started, Option<Nanos>) {
        self.change(|state, now| {
            let started = state.set.start(arrival, now);
            (started, state.set.next_release())
        })
    }

    pub fn poll(&self, id: RequestId, cx: &Context<'_>) -> Poll<()> {
        if self.state.lock().set.poll(id, cx.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }

    pub fn cancel(&self, id: RequestId, timed_out: bool) {
        self.change(|state, now| state.set.cancel(id, timed_out, now));
    }

    /// Returns when lingering seats are released, if a request waits for them.
    pub fn finish(&self, id: RequestId) -> Option<Nanos> {
        self.change(|state, now| {
            state.set.finish(id, now);
            state.set.next_release()
        })
    }

    /// Returns the time if this is the first response being sent in the level.
    pub fn sending(&self, id: RequestId) -> Option<Nanos> {
        let now = self.clock.now();
        self.state.lock().set.sending(id, now).then_some(now)
    }

    /// Counts a rejection; returns Retry-After in seconds.
    pub fn rejected(&self) -> u32 {
        let second = self.clock.now() / crate::SECOND;
        let mut state = self.state.lock();
        state.retry_after.refused(second);
        state.retry_after.seconds() as u32
    }

    /// Changes the queues, then wakes dispatched requests without holding the lock.
    pub fn change<T>(&self, change: impl FnOnce(&mut State, Nanos) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let outcome = change(&mut state, now);
        let demand = f64::from(state.set.demand());
        state.integrator.set(demand, now);
        let woken = state.set.take_woken();
        drop(state);
        woken.into_iter().for_each(std::task::Waker::wake);
        outcome
    }
}

impl State {
    /// Starts a new period of demand.
    pub fn observe_demand(&mut self, now: Nanos) {
        let seen = self.integrator.take(now);
        self.demand.update(seen);
    }

    /// Sets the limits from the nominal seats; returns the most seats one request may be estimated to take.
    pub fn set_limits(&mut self, nominal: u32, server_seats: u32, server_bytes: u64) -> u32 {
        let percent = |percent: u32| (f64::from(nominal) * f64::from(percent) / 100.0).round() as u32;
        let lendable = percent(self.spec.lendable_percent);
        let borrowable = self.spec.borrowing_limit_percent.map_or(server_seats, percent);
        let first = self.limits == SeatLimits::default();
        self.limits.nominal = nominal;
        self.limits.lower = nominal - lendable.min(nominal);
        self.limits.upper = nominal.saturating_add(borrowable);
        self.limits.bytes_per_seat = server_bytes / u64::from(server_seats.max(1));
        if first {
            self.limits.current = nominal - lendable.min(nominal) / 2;
        }
        match self.spec.response {
            Response::Queue { hand_size, .. } => {
                let part = (f64::from(nominal) * MAX_SEATS_PERCENT).ceil() as u32;
                part.min(nominal / hand_size).max(1)
            }
            // No limit of its own.
            Response::Exempt | Response::Reject => u32::MAX,
        }
    }

    pub fn apply_limits(&mut self, now: Nanos) {
        let seats = self.limits.current.max(self.limits.nominal);
        let bytes = u64::from(seats).saturating_mul(self.limits.bytes_per_seat);
        self.set.configure(self.spec.response, self.limits.current, bytes, now);
    }
}
