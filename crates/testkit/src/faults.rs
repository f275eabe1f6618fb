//! Faults between a controller and the API: a wrapper around any client, the same for every controller.
//!
//! ```text
//! controller ── Faulty ── client          writes: the n-th is the last one the controller ever makes (its answer never comes)
//!                                           one in n, the first among them, is refused as a conflict, or done and
//!                                           answered "timeout"
//!                                   watches: everything is seen late; every n-th event is lost, and 410 comes after it;
//!                                            every n-th batch of events is lost with its connection
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use client::{Answer, Client, Clients, Event, Target, Watch, WatchOptions};
use env::Env;
use object::{About, Obj, Status};
use tokio::sync::watch;

use crate::forward::{Forward, Forwarding, Verb};

/// The faults to inject; none by default.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// After this many writes, not counting Leases, the controller is dead: the write happens, but neither its response nor any other arrives.
    pub die_after: Option<usize>,
    /// One write in n, and the first, is rejected with a conflict without being carried out.
    pub conflict_every: Option<usize>,
    /// One write in n, and the first, is carried out, but reported as a timeout.
    pub lose_answer_every: Option<usize>,
    /// Every event is delayed by this much.
    pub stale: Duration,
    /// Every read returns state that is this old.
    pub slow_reads: Duration,
    /// Every n-th event is lost; the watch ends with 410 some events later.
    pub lose_event_every: Option<usize>,
    /// Every n-th time events arrive, the connection breaks instead; it can be reopened.
    pub cut_every: Option<usize>,
}

/// Creates clients that share one plan, and counts their writes.
pub struct Faults {
    plan: Plan,
    env: Env,
    inner: Arc<dyn Clients>,
    counted: Arc<Counted>,
}

struct Counted {
    writes: AtomicUsize,
    /// Writes that may be rejected, or whose responses may be lost.
    exposed: AtomicUsize,
    /// Injected faults, deaths aside.
    met: AtomicUsize,
    events: AtomicUsize,
    pulls: AtomicUsize,
    dead: watch::Sender<bool>,
}

impl Counted {
    fn meet(&self) {
        self.met.fetch_add(1, Ordering::AcqRel);
    }
}

impl Faults {
    pub fn new(env: &Env, inner: Arc<dyn Clients>, plan: Plan) -> Arc<Faults> {
        let counted = Counted {
            writes: AtomicUsize::new(0),
            exposed: AtomicUsize::new(0),
            met: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
            pulls: AtomicUsize::new(0),
            dead: watch::Sender::new(false),
        };
        Arc::new(Faults { plan, env: env.clone(), inner, counted: Arc::new(counted) })
    }

    /// The number of attempted writes, not counting Leases.
    pub fn writes(&self) -> usize {
        self.counted.writes.load(Ordering::Acquire)
    }
    /// The number of faults: rejections, lost responses, late or lost events, broken connections.
    pub fn met(&self) -> usize {
        self.counted.met.load(Ordering::Acquire)
    }
    /// Resolves after the last write of [`Plan::die_after`].
    pub async fn dead(&self) {
        let _ = self.counted.dead.subscribe().wait_for(|dead| *dead).await;
    }
    pub fn is_dead(&self) -> bool {
        *self.counted.dead.borrow()
    }

    fn wrap(&self, inner: Arc<dyn Client>) -> Arc<dyn Client> {
        let (plan, env, counted) = (self.plan.clone(), self.env.clone(), self.counted.clone());
        Arc::new(Forwarding(Faulty { plan, env, inner, counted }))
    }
}

impl Clients for Faults {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        self.wrap(self.inner.controller(name))
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.wrap(self.inner.user(name, groups))
    }
}

struct Faulty {
    plan: Plan,
    env: Env,
    inner: Arc<dyn Client>,
    counted: Arc<Counted>,
}

impl Faulty {
    /// Applies the faults to a write.
    async fn written<T>(&self, verb: Verb, target: Target<'_>, call: Answer<'_, T>) -> Result<T, Status> {
        // Events are informational: a controller need not survive their loss.
        if target.resource.plural == "events" {
            return call.await;
        }
        // Lease renewals are rejected and lost like other writes, but do not count for a death: a node makes hundreds.
        let is_sign = target.resource.plural == "leases";
        let number = if is_sign { 0 } else { self.counted.writes.fetch_add(1, Ordering::AcqRel) + 1 };
        let is_dead = *self.counted.dead.borrow();
        if is_dead || self.plan.die_after.is_some_and(|last| number > last) {
            return std::future::pending().await;
        }
        // A collection has no resourceVersion to conflict with, and a namespace has dozens of them.
        let exposed = verb != Verb::DeleteCollection;
        let at = exposed.then(|| self.counted.exposed.fetch_add(1, Ordering::AcqRel));
        let every = |n: Option<usize>| at.zip(n).is_some_and(|(at, n)| scattered(at).is_multiple_of(n));
        if every(self.plan.conflict_every) {
            self.counted.meet();
            let about = About { group: &target.resource.group, resource: &target.resource.plural };
            return Err(Status::modified(about, target.name));
        }
        let answer = call.await;
        if self.plan.die_after == Some(number) {
            self.counted.dead.send_replace(true);
            return std::future::pending().await;
        }
        if every(self.plan.lose_answer_every) {
            self.counted.meet();
            return Err(Status::timeout("the answer was lost on purpose"));
        }
        answer
    }
}

/// A fixed pseudo-random sequence, not in step with the calls of one reconcile, so that not always the
/// same call fails. The first number, 0, is a multiple of everything: a controller that writes once meets a fault too.
fn scattered(number: usize) -> usize {
    let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 42) as usize
}

impl Forward for Faulty {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            let answer = self.inner.get(target).await;
            if !self.plan.slow_reads.is_zero() {
                self.env.sleep(self.plan.slow_reads).await;
            }
            answer
        })
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let inner = self.inner.watch(target, options).await?;
            let watch: Box<dyn Watch> = Box::new(FaultyWatch {
                plan: self.plan.clone(),
                env: self.env.clone(),
                inner,
                counted: self.counted.clone(),
                initial: true,
                lost: false,
            });
            Ok(watch)
        })
    }
    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        target: Target<'a>,
        call: Answer<'a, T>,
    ) -> Answer<'a, T> {
        Box::pin(self.written(verb, target, call))
    }
}

struct FaultyWatch {
    plan: Plan,
    env: Env,
    inner: Box<dyn Watch>,
    counted: Arc<Counted>,
    /// The initial list is complete; only changes are affected.
    initial: bool,
    /// An event was lost: the next pull ends the watch.
    lost: bool,
}

impl Watch for FaultyWatch {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            if self.lost {
                return Err(Status::expired("too old resource version: on purpose"));
            }
            let known = into.len();
            let goes_on = self.inner.pull(into).await?;
            if std::mem::take(&mut self.initial) {
                return Ok(goes_on);
            }
            if let Some(every) = self.plan.cut_every
                && (self.counted.pulls.fetch_add(1, Ordering::AcqRel) + 1).is_multiple_of(every)
            {
                self.counted.meet();
                into.truncate(known);
                return Err(Status::unavailable("the connection was cut on purpose"));
            }
            if !self.plan.stale.is_zero() {
                self.counted.meet();
                self.env.sleep(self.plan.stale).await;
            }
            if let Some(every) = self.plan.lose_event_every {
                let before = into.len();
                into.retain(|event| {
                    matches!(event, Event::Bookmark { .. })
                        || !(self.counted.events.fetch_add(1, Ordering::AcqRel) + 1).is_multiple_of(every)
                });
                // A bookmark past the lost event must not be delivered.
                self.lost = into.len() < before;
                if self.lost {
                    self.counted.meet();
                    into.retain(|event| !matches!(event, Event::Bookmark { .. }));
                }
            }
            Ok(goes_on)
        })
    }
}
