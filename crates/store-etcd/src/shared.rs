//! State shared by commits, the feed and the health check: how far the watch is, and what fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Shorter failures are a reconnect, not unhealthy.
const TROUBLE_AFTER: Duration = Duration::from_secs(5);

pub struct Shared {
    env: Env,
    /// Last revision that the state has been given completely.
    seen: watch::Sender<u64>,
    /// Highest revision in any response: the watch has to reach it.
    wanted: AtomicU64,
    /// Whose log it is: the id of the etcd cluster.
    cluster: AtomicU64,
    closed: AtomicBool,
    /// Guards why nothing will be served any more.
    refused: Mutex<Option<String>>,
    /// Guards what is broken now; held for a few instructions.
    trouble: Mutex<Trouble>,
    /// Wakes the probe: calls have begun to fail.
    pub calls_fail: Notify,
    /// Wakes the feed from its pause: etcd has answered someone.
    pub answered: Notify,
}

#[derive(Default)]
struct Trouble {
    watch: Option<(Instant, String)>,
    calls: Option<(Instant, String)>,
}

impl Shared {
    pub fn new(env: Env) -> Shared {
        Shared {
            env,
            seen: watch::Sender::new(0),
            wanted: AtomicU64::new(0),
            cluster: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            refused: Mutex::default(),
            trouble: Mutex::default(),
            calls_fail: Notify::new(),
            answered: Notify::new(),
        }
    }

    pub fn seen(&self) -> u64 {
        *self.seen.borrow()
    }

    /// The feed alone calls this, after the state has it.
    pub fn set_seen(&self, revision: u64) {
        self.seen.send_replace(revision);
    }

    pub fn cluster(&self) -> u64 {
        self.cluster.load(Ordering::Relaxed)
    }

    pub fn set_cluster(&self, cluster: u64) {
        self.cluster.store(cluster, Ordering::Relaxed);
    }

    /// etcd answered with `now` though it has been at `was`. Nobody is shown an older state than they have seen, so this
    /// is the end; the message says how to fix it.
    pub fn refuse(&self, was: u64, now: u64) -> String {
        let why = went_back(was, now);
        let mut refused = self.refused.lock();
        if refused.is_none() {
            tracing::error!(was, now, "etcd's revision went back: the store stops");
        }
        refused.get_or_insert(why).clone()
    }

    /// Why nothing will be served any more.
    pub fn refused(&self) -> Option<String> {
        self.refused.lock().clone()
    }

    /// Waits until the state has this revision. The caller limits the time.
    pub async fn wait_for(&self, revision: u64) {
        self.wanted.fetch_max(revision, Ordering::Relaxed);
        // The sender lives in `self`: the wait cannot end by its loss.
        let _ = self.seen.subscribe().wait_for(|seen| *seen >= revision).await;
    }

    /// A response had a revision that the watch has not delivered.
    pub fn is_behind(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > self.seen()
    }

    /// After the store's log itself went back, what was wanted of the old one will never come.
    pub fn forget_wanted(&self) {
        self.wanted.store(0, Ordering::Relaxed);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether this call was the first.
    pub fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    pub fn call_failed(&self, reason: &dyn std::fmt::Display) {
        let now = self.env.monotonic();
        let mut trouble = self.trouble.lock();
        let since = trouble.calls.as_ref().map_or(now, |(since, _)| *since);
        trouble.calls = Some((since, reason.to_string()));
        self.calls_fail.notify_one();
    }

    pub fn call_answered(&self) {
        let mut trouble = self.trouble.lock();
        trouble.calls = None;
        if trouble.watch.is_some() {
            self.answered.notify_one();
        }
    }

    pub fn calls_are_failing(&self) -> bool {
        self.trouble.lock().calls.is_some()
    }

    pub fn watch_is_down(&self, reason: &dyn std::fmt::Display) {
        let now = self.env.monotonic();
        let mut trouble = self.trouble.lock();
        let since = trouble.watch.as_ref().map_or(now, |(since, _)| *since);
        trouble.watch = Some((since, reason.to_string()));
    }

    pub fn watch_is_up(&self) {
        self.trouble.lock().watch = None;
    }

    pub fn health(&self) -> Result<(), String> {
        if self.is_closed() {
            return Err("the engine is closed".into());
        }
        if let Some(why) = self.refused() {
            return Err(why);
        }
        let now = self.env.monotonic();
        let trouble = self.trouble.lock();
        let lasting = |part: &Option<(Instant, String)>| {
            let (since, reason) = part.as_ref()?;
            let down_for = now.duration_since(*since);
            (down_for >= TROUBLE_AFTER).then(|| format!("for {} s: {reason}", down_for.as_secs()))
        };
        if let Some(text) = lasting(&trouble.watch) {
            return Err(format!("the watch on etcd is down {text}"));
        }
        if let Some(text) = lasting(&trouble.calls) {
            return Err(format!("calls to etcd fail {text}"));
        }
        Ok(())
    }
}

/// The message for the administrator.
pub fn went_back(was: u64, now: u64) -> String {
    format!(
        "etcd is at revision {now}, but this server has served revision {was}: a revision never goes back. Restore etcd's \
         snapshot again with `etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted` and start again; \
         to start over with what etcd holds now, run `setpoint reset` or choose another --data-dir first"
    )
}
