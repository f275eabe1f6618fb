//! The one task that feeds the state: lists, watches, and resumes after every failure, as a reflector does.
//!
//! ```text
//!  load ──> Following ──lost──> (pause) ──> Following at seen+1
//!   ^          │ compacted, a gap, another log
//!   └──────────┘ reload: cursors of the table end with 410
//!   a lower revision than was served ──> the end: the store has failed
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use grpc::{CallError, Connection};
use parking_lot::Mutex;
use store::{Change, Key, Revision, State};

use crate::assemble::{Assembler, Batch};
use crate::channel::Channel;
use crate::client::{Client, RANGE, WATCH, head_request, header, is_compacted};
use crate::high_water_mark::HighWaterMark;
use crate::lease::Leases;
use crate::load::{Loaded, key_of, load};
use crate::proto::{RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::shared::{Shared, went_back};

/// The backoff after the second failure in a row; there is none after the first.
const FIRST_BACKOFF: Duration = Duration::from_millis(800);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// A watch that lasted this long, or delivered something, was a good one: it ends a row of failures.
const GOOD_AFTER: Duration = Duration::from_secs(10);
/// A watch that says nothing for this long, though it has something to say, is taken for dead.
const STALLED_AFTER: Duration = Duration::from_secs(5);

pub struct Feed {
    pub env: Env,
    /// For the watch alone: a long answer of it must not hold up a commit's.
    pub channel: Channel,
    pub client: Arc<Client>,
    pub leases: Arc<Leases>,
    pub shared: Arc<Shared>,
    pub state: Arc<dyn State>,
    pub prefix: String,
    /// What was served before this process began.
    pub high_water_mark: Option<Arc<HighWaterMark>>,
    /// Guards which unreadable keys were logged: each is logged once.
    pub unreadable: Mutex<BTreeSet<Key>>,
}

/// Why a watch ended.
enum End {
    /// The watch can be resumed.
    Lost(String),
    /// Events are lost: everything has to be loaded again.
    Reload(String),
    /// etcd's revision is lower than one that was served: the end, and it has been logged.
    Refused,
}

/// Why nothing was loaded.
pub enum LoadError {
    Call(CallError),
    /// etcd's revision is lower than one that was served.
    Refused(String),
}

impl From<CallError> for LoadError {
    fn from(error: CallError) -> LoadError {
        LoadError::Call(error)
    }
}

impl From<CallError> for End {
    fn from(error: CallError) -> End {
        if is_compacted(&error) { End::Reload(error.to_string()) } else { End::Lost(error.to_string()) }
    }
}

impl Feed {
    /// Loads everything into the state. Returns the id of the etcd cluster.
    pub async fn load(&self) -> Result<u64, LoadError> {
        let mut reload = self.state.reload();
        let loaded = load(&self.client, &self.leases, &self.prefix, &mut *reload).await?;
        self.check(&loaded)?;
        let keys = loaded.keys;
        reload.finish(Revision(loaded.revision));
        // What was fixed or deleted meanwhile is logged again should it break again.
        self.unreadable.lock().retain(|key| self.state.unreadable_at(key).is_some());
        match self.state.unreadable() {
            None => tracing::info!(revision = loaded.revision, keys, "loaded from etcd"),
            Some(why) if self.shared.seen() > 0 => {
                tracing::error!("{why}: reads and lists that include it fail until it is fixed or deleted")
            }
            // `connect` reports it.
            Some(_) => {}
        }
        self.shared.forget_wanted();
        self.shared.set_cluster(loaded.cluster);
        self.shared.set_seen(loaded.revision);
        Ok(loaded.cluster)
    }

    /// A linearizable read (not of a member that lags) with a lower revision than was served is of another log.
    fn check(&self, loaded: &Loaded) -> Result<(), LoadError> {
        let (now, seen) = (loaded.revision, self.shared.seen());
        // The recorded revision matters for the first load only; afterwards it is never ahead of what was seen.
        if seen > 0 {
            return match now < seen {
                true => Err(LoadError::Refused(self.shared.refuse(seen, now))),
                false => Ok(()),
            };
        }
        let recorded = self.high_water_mark.as_ref().and_then(|mark| mark.recorded());
        let Some(served) = recorded.filter(|served| now < served.revision) else { return Ok(()) };
        // Nobody restores an empty snapshot: this is another etcd, for a new cluster.
        if served.cluster != loaded.cluster && loaded.keys == 0 {
            tracing::warn!(now, was = served.revision, "another etcd, which is empty: revisions start over");
            return Ok(());
        }
        // The first load: `connect` reports it, and there is no store yet that could stop.
        Err(LoadError::Refused(went_back(served.revision, now)))
    }

    /// Watches for ever, unless the revision goes back; the owner aborts it.
    pub async fn run(self, mut cluster: u64) {
        let mut failures = 0;
        loop {
            let (started, seen) = (self.env.monotonic(), self.shared.seen());
            let end = self.follow(cluster).await;
            if self.shared.seen() > seen || self.env.monotonic().duration_since(started) >= GOOD_AFTER {
                failures = 0;
            }
            let reason = match end {
                End::Refused => return,
                End::Lost(reason) => {
                    tracing::warn!(reason, seen = self.shared.seen(), "lost the watch on etcd");
                    reason
                }
                End::Reload(reason) => {
                    tracing::warn!(
                        reason,
                        seen = self.shared.seen(),
                        "cannot resume the watch on etcd: loading everything again"
                    );
                    match self.load().await {
                        Ok(loaded) => {
                            cluster = loaded;
                            reason
                        }
                        Err(LoadError::Refused(_)) => return,
                        Err(LoadError::Call(error)) => format!("loading from etcd failed: {error}"),
                    }
                }
            };
            self.shared.watch_is_down(&reason);
            self.channel.try_next_endpoint();
            self.back_off(failures).await;
            failures += 1;
        }
    }

    /// One watch, from its connection to its end.
    async fn follow(&self, cluster: u64) -> End {
        let outcome = async {
            let connection = self.channel.dial().await?;
            self.same_log(&connection, cluster).await?;
            self.watch(&connection).await
        };
        match outcome.await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    /// A cluster restored from a backup, or another one at the same address, has another log.
    async fn same_log(&self, connection: &Connection, cluster: u64) -> Result<(), End> {
        let request = head_request();
        let answer: RangeResponse = self
            .env
            .timeout(STALLED_AFTER, connection.unary(RANGE, &request))
            .await
            .map_err(|_| End::Lost(format!("no answer within {STALLED_AFTER:?}")))??;
        let (is_cluster, revision) = header(answer.header)?;
        let seen = self.shared.seen();
        if is_cluster != cluster {
            // Its revision may be past ours, as that of a restored one should.
            return Err(End::Reload(format!("cluster {is_cluster:x} answers in place of {cluster:x}")));
        }
        if revision < seen {
            self.shared.refuse(seen, revision);
            return Err(End::Refused);
        }
        Ok(())
    }

    async fn watch(&self, connection: &Connection) -> Result<std::convert::Infallible, End> {
        let seen = self.shared.seen();
        let create = WatchCreateRequest {
            // From the lowest key on, without an end: everything.
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
            start_revision: (seen + 1).cast_signed(),
            fragment: true,
        };
        let silent = |_| End::Lost(format!("the watch says nothing for {STALLED_AFTER:?}"));
        let request = WatchRequest { create: Some(create) };
        let mut answers =
            self.env.timeout(STALLED_AFTER, connection.stream(WATCH, &request)).await.map_err(silent)??;
        let mut assembler = Assembler::new(seen);
        let mut created = false;
        loop {
            let answer = match self.env.timeout(STALLED_AFTER, answers.next::<WatchResponse>()).await {
                Ok(Ok(Some(answer))) => answer,
                Ok(Ok(None)) => return Err(End::Lost("etcd ended the watch".into())),
                Ok(Err(error)) => return Err(error.into()),
                Err(elapsed) if !created || self.shared.is_behind() => return Err(silent(elapsed)),
                // Quiet because nothing happens; pings watch over the connection.
                Err(_) => continue,
            };
            if answer.compact_revision != 0 {
                return Err(End::Reload(format!("history up to {} is compacted", answer.compact_revision)));
            }
            if answer.canceled {
                return Err(End::Lost(format!("etcd cancelled the watch: {}", answer.cancel_reason)));
            }
            if answer.created {
                tracing::debug!(after = seen, "following etcd");
                created = true;
                self.shared.watch_is_up();
            }
            if let Some(batch) =
                assembler.take(answer).map_err(|e| End::Reload(format!("events are missing: {e}")))?
            {
                self.publish(batch).await;
            }
        }
    }

    async fn publish(&self, batch: Batch) {
        let mut changes = Vec::with_capacity(batch.events.len());
        for event in batch.events {
            if !event.key.starts_with(self.prefix.as_bytes()) {
                continue;
            }
            let Some(key) = key_of(&event.key) else { continue };
            let value = event.value.map(Bytes::from);
            let expires_at = self.leases.expires_at(event.lease).await;
            changes.push(Change { revision: Revision(event.revision), key, value, expires_at });
        }
        let keys: Vec<Key> = changes.iter().map(|change| change.key.clone()).collect();
        self.state.publish(changes, Revision(batch.upto));
        for key in keys {
            self.log_if_unreadable(key);
        }
        self.shared.set_seen(batch.upto);
    }

    /// Left for an administrator to fix: no server overwrites what it cannot read.
    fn log_if_unreadable(&self, key: Key) {
        let mut unreadable = self.unreadable.lock();
        match self.state.unreadable_at(&key) {
            Some(why) if unreadable.insert(key.clone()) => tracing::error!(
                "{why}: another program wrote it; reads and lists that include it fail until that key is fixed or deleted"
            ),
            Some(_) => {}
            None if unreadable.remove(&key) => tracing::info!(key = &*key, "readable again"),
            None => {}
        }
    }

    /// Exponential backoff, after the first failure none; ended early when etcd answers somebody.
    async fn back_off(&self, failures: u32) {
        let Some(doublings) = failures.checked_sub(1) else { return };
        let base = FIRST_BACKOFF.saturating_mul(1 << doublings.min(16)).min(LONGEST_BACKOFF);
        // Servers that lost the same etcd must not all come back at once.
        let jitter = Duration::from_millis(self.env.random_below(base.as_millis() as u64 / 2 + 1));
        tokio::select! {
            biased;
            _ = self.shared.answered.notified() => {}
            _ = self.env.sleep(base / 2 + jitter) => {}
        }
    }
}
