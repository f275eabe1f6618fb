//! Leader election by Lease: of several processes one leads, and if it stops renewing its Lease another does.
//!
//! ```text
//! follow ── the lease is free, released, or has not changed for its duration ──> lead ── stopped: wind down, release ──> Stopped
//!   ^  every 2 s, and by chance longer                                            │ renewed every 2 s
//!   └──────────────── (call run again) <── Lost ── not renewed for 10 s, or another holds it
//! ```
//! It is not a fence: a leader that was held up may still write a moment after another began. Every write carries its
//! version or uid, and so fails where the other was first.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use client::resources::LEASES;
use client::{Client, WriteOptions};
use env::Env;
use object::{Obj, Status, Value, time};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::backoff::jittered;
use crate::{Stop, Stopper};

/// How patient everybody is. All who compete for a lease must agree.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// So long after its last change a lease is no longer respected.
    pub lease: Duration,
    /// So long a leader tries to renew before it steps down; shorter than `lease`, or two would lead.
    pub renew_deadline: Duration,
    pub retry: Duration,
    /// Followers wait up to that part longer, by chance.
    pub jitter: f64,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            jitter: 1.2,
        }
    }
}

/// Tasks that were told to stop have this long, and the lease is kept meanwhile; then they are aborted.
const WIND_DOWN: Duration = Duration::from_secs(30);
/// Calls under way may end, even where another has the lease already.
const GRACE: Duration = Duration::from_secs(1);

/// How leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// We were told to stop; the lease was given back if it was ours.
    Stopped,
    /// The lease could not be renewed, or another has it.
    Lost,
}

/// One process that would lead.
pub struct Elector {
    env: Env,
    client: Arc<dyn Client>,
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
    seen: Option<Seen>,
}

/// The lease as it was last seen.
struct Seen {
    lease: Arc<Obj>,
    record: Record,
    /// By our own clock: nobody's clock but this one is compared with it.
    changed: Instant,
}

/// What of a lease the election is about.
#[derive(Clone, Debug, Default, PartialEq)]
struct Record {
    holder: String,
    duration_seconds: i64,
    acquired: String,
    renewed: String,
    transitions: i64,
}

impl Elector {
    /// `identity` must be another for every process.
    pub fn new(env: &Env, client: Arc<dyn Client>, namespace: &str, name: &str, identity: &str) -> Elector {
        Elector {
            env: env.clone(),
            client,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing: Timing::default(),
            seen: None,
        }
    }

    pub fn timing(mut self, timing: Timing) -> Elector {
        self.timing = timing;
        self
    }

    /// Who leads, as far as was seen.
    pub fn leader(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| &*seen.record.holder).filter(|holder| !holder.is_empty())
    }

    /// Waits until this process leads, starts `lead` and keeps the lease. The [`Stop`] given to `lead` fires when the
    /// lease is lost or `stop` does; this returns after the tasks `lead` started have ended. Those that do not end by
    /// themselves are aborted before another may lead.
    pub async fn run(&mut self, stop: &Stop, lead: impl FnOnce(Stop) -> Vec<JoinHandle<()>>) -> Outcome {
        let won = tokio::select! {
            biased;
            () = stop.stopped() => false,
            () = self.follow() => true,
        };
        if !won {
            return Outcome::Stopped;
        }
        tracing::info!(lease = self.name, identity = self.identity, "became the leader");
        let (stopper, leading) = Stopper::new();
        let tasks = lead(leading);
        let outcome = tokio::select! {
            biased;
            () = stop.stopped() => Outcome::Stopped,
            () = self.renew() => Outcome::Lost,
        };
        stopper.stop();
        self.wind_down(tasks, outcome).await;
        if outcome == Outcome::Stopped {
            // Only now that nobody works any more may another begin.
            self.release().await;
        } else {
            tracing::warn!(lease = self.name, identity = self.identity, "lost lease");
        }
        outcome
    }

    /// Waits for the tasks to end. Whoever was told to stop still leads while they work: nobody else may begin.
    async fn wind_down(&mut self, tasks: Vec<JoinHandle<()>>, outcome: Outcome) {
        let aborts: Vec<AbortHandle> = tasks.iter().map(JoinHandle::abort_handle).collect();
        let env = self.env.clone();
        let mut ended = pin!(async move {
            for task in tasks {
                // A task that panicked has ended too.
                let _ = task.await;
            }
        });
        let mut lost = outcome == Outcome::Lost;
        if !lost {
            tokio::select! {
                biased;
                () = &mut ended => return,
                () = self.renew() => lost = true,
                () = env.sleep(WIND_DOWN) => {}
            }
        }
        if lost {
            // Half of what is left of the lease: all must be over before it is.
            let left = (self.time_left() / 2).max(GRACE);
            tokio::select! {
                biased;
                () = &mut ended => return,
                () = env.sleep(left) => {}
            }
        }
        tracing::warn!(lease = self.name, identity = self.identity, "aborting tasks that did not stop");
        aborts.iter().for_each(AbortHandle::abort);
        ended.await;
    }

    async fn follow(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(status) => {
                    tracing::debug!(lease = self.name, error = status.message, "failed to acquire lease")
                }
            }
            self.env.sleep(jittered(&self.env, self.timing.retry, self.timing.jitter)).await;
        }
    }

    /// Returns when the lease is lost.
    async fn renew(&mut self) {
        let (env, Timing { renew_deadline, retry, .. }) = (self.env.clone(), self.timing);
        loop {
            env.sleep(retry).await;
            // Whoever was told to stop in the middle of this has less than the whole: all must be over when the lease is.
            let spare = (2 * GRACE).min(self.timing.lease / 6);
            let deadline = renew_deadline.min(self.time_left().saturating_sub(spare));
            let trying = async {
                loop {
                    match self.attempt().await {
                        // Differs from client-go: who sees another's name does not wait for the deadline.
                        Ok(kept) => return kept,
                        Err(status) => {
                            tracing::debug!(
                                lease = self.name,
                                error = status.message,
                                "failed to renew lease"
                            );
                        }
                    }
                    self.env.sleep(retry).await;
                }
            };
            let kept = tokio::select! {
                biased;
                kept = trying => kept,
                () = env.sleep(deadline) => false,
            };
            if !kept {
                return;
            }
        }
    }

    /// Takes or renews the lease; `false`: another has it.
    async fn attempt(&mut self) -> Result<bool, Status> {
        if self.leads() && self.is_valid() {
            // Most renewals: nobody else has written, so there is no need to look first.
            if let Ok(()) = self.write().await {
                return Ok(true);
            }
        }
        match self.client.get(LEASES.at(&self.namespace, &self.name)).await {
            Ok(lease) => self.observe(lease),
            Err(status) if status.code == 404 => {
                let mut lease = Value::map();
                let metadata = lease.map_at(&["metadata"]);
                metadata.set("name", self.name.clone());
                metadata.set("namespace", self.namespace.clone());
                self.record(0, None).put_on(&mut lease);
                let lease = self
                    .client
                    .create(LEASES.within(&self.namespace), lease, WriteOptions::default())
                    .await?;
                self.observe(lease);
                return Ok(true);
            }
            Err(status) => return Err(status),
        }
        if self.leader().is_some() && !self.leads() && self.is_valid() {
            return Ok(false);
        }
        self.write().await?;
        Ok(true)
    }

    /// Puts our name on the lease as it was last seen; a conflict if it has changed.
    async fn write(&mut self) -> Result<(), Status> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let record = if self.leads() {
            self.record(seen.record.transitions, Some(seen.record.acquired.clone()))
        } else {
            self.record(seen.record.transitions + 1, None)
        };
        self.update(record).await
    }

    async fn update(&mut self, record: Record) -> Result<(), Status> {
        let Some(seen) = &self.seen else { return Ok(()) };
        let mut lease = crate::tree(&seen.lease);
        record.put_on(&mut lease);
        let lease = self
            .client
            .update(LEASES.at(&self.namespace, &self.name), lease, WriteOptions::default())
            .await?;
        self.observe(lease);
        Ok(())
    }

    /// Lets another begin at once.
    async fn release(&mut self) {
        // A renewal that was cut off may have been carried out: give back what is there, not what was last seen.
        let (env, deadline) = (self.env.clone(), self.timing.retry);
        let there = tokio::select! {
            biased;
            there = self.client.get(LEASES.at(&self.namespace, &self.name)) => there,
            () = env.sleep(deadline) => Err(Status::timeout("no answer")),
        };
        if let Ok(lease) = there {
            self.observe(lease);
        }
        let Some(seen) = self.seen.as_ref().filter(|_| self.leads()) else { return };
        let now = self.now();
        let record = Record {
            holder: String::new(),
            duration_seconds: 1,
            acquired: now.clone(),
            renewed: now,
            transitions: seen.record.transitions,
        };
        let (env, deadline) = (self.env.clone(), self.timing.renew_deadline);
        let released = tokio::select! {
            biased;
            released = self.update(record) => released,
            // A server that does not answer must not hold up the end of the process.
            () = env.sleep(deadline) => Err(Status::timeout("no answer")),
        };
        if let Err(status) = released {
            tracing::info!(lease = self.name, error = status.message, "failed to release lease");
        }
    }

    fn observe(&mut self, lease: Arc<Obj>) {
        let record = Record::read(&crate::tree(&lease));
        let now = self.env.monotonic();
        let changed = match &self.seen {
            Some(seen) if seen.record == record => seen.changed,
            _ => now,
        };
        self.seen = Some(Seen { lease, record, changed });
    }

    fn leads(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.record.holder == self.identity)
    }

    fn is_valid(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| self.env.monotonic() < seen.expires())
    }

    /// How long nobody else may lead; zero where we do not.
    fn time_left(&self) -> Duration {
        let ours = self.seen.as_ref().filter(|_| self.leads());
        ours.map_or(Duration::ZERO, |seen| seen.expires().saturating_duration_since(self.env.monotonic()))
    }

    fn record(&self, transitions: i64, acquired: Option<String>) -> Record {
        let now = self.now();
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.timing.lease.as_secs() as i64,
            acquired: acquired.unwrap_or_else(|| now.clone()),
            renewed: now,
            transitions,
        }
    }

    fn now(&self) -> String {
        let nanos = self.env.now_nanos();
        time::format_micros((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32)
    }
}

impl Seen {
    fn expires(&self) -> Instant {
        let seconds = u64::try_from(self.record.duration_seconds).unwrap_or(0);
        self.changed + Duration::from_secs(seconds)
    }
}

impl Record {
    fn read(lease: &Value) -> Record {
        let text = |name: &str| lease.str_at(&["spec", name]).unwrap_or("").to_owned();
        let number = |name: &str| lease.at(&["spec", name]).and_then(Value::as_int).unwrap_or(0);
        Record {
            holder: text("holderIdentity"),
            duration_seconds: number("leaseDurationSeconds"),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: number("leaseTransitions"),
        }
    }

    fn put_on(self, lease: &mut Value) {
        let spec = lease.map_at(&["spec"]);
        spec.set("holderIdentity", self.holder);
        spec.set("leaseDurationSeconds", Value::Int(self.duration_seconds));
        spec.set("acquireTime", self.acquired);
        spec.set("renewTime", self.renewed);
        spec.set("leaseTransitions", Value::Int(self.transitions));
    }
}
