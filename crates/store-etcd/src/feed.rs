//! The one task that feeds the state: loads it, follows the log, and picks up again after every loss.
//!
//! ```text
//!  load ──> Following ──lost──> (pause) ──> Following at seen+1
//!   ^          │ compacted, a gap, another log
//!   └──────────┘ reload: cursors of the table end with 410
//!   an older state than was served ──> the end: the store has failed
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use parking_lot::Mutex;
use store::{Change, Key, Revision, State};

use crate::assemble::{Assembler, Batch};
use crate::channel::Channel;
use crate::client::{Client, RANGE, WATCH, head_request, header};
use crate::grpc::{CallError, Connection};
use crate::lease::Leases;
use crate::load::{Loaded, key_of, load};
use crate::mark::Mark;
use crate::proto::{RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse};
use crate::shared::{Shared, went_back};

/// The pause after the second failure in a row; the first is followed by none.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that lived this long, or brought something, was a good one: its end starts a new row of failures.
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
    pub mark: Option<Arc<Mark>>,
    /// Guards which broken keys the log knows of: each is told once.
    pub broken: Mutex<BTreeSet<Key>>,
}

/// Why a watch ended.
enum End {
    /// The log goes on where it was left.
    Lost(String),
    /// What is missing cannot be had any more.
    Reload(String),
    /// etcd holds an older state than was served: the end, and it has been told.
    Refused,
}

/// Why nothing was loaded.
pub enum LoadError {
    Call(CallError),
    /// etcd holds an older state than was served.
    Refused(String),
}

impl From<CallError> for LoadError {
    fn from(error: CallError) -> LoadError {
        LoadError::Call(error)
    }
}

impl From<CallError> for End {
    fn from(error: CallError) -> End {
        if error.is_compacted() { End::Reload(error.to_string()) } else { End::Lost(error.to_string()) }
    }
}

impl Feed {
    /// Loads everything into the state. Answers the id of the cluster it came from.
    pub async fn load(&self) -> Result<u64, LoadError> {
        let mut reload = self.state.reload();
        let loaded = load(&self.client, &self.leases, &self.prefix, &mut *reload).await?;
        self.check(&loaded)?;
        let keys = loaded.keys;
        reload.finish(Revision(loaded.revision));
        // What was mended or deleted meanwhile is told again should it break again.
        self.broken.lock().retain(|key| self.state.unreadable_at(key).is_some());
        match self.state.unreadable() {
            None => tracing::info!(revision = loaded.revision, keys, "loaded from etcd"),
            Some(why) if self.shared.seen() > 0 => {
                tracing::error!("{why}: reads and lists with it fail until that is mended or deleted")
            }
            // Whoever connects is told.
            Some(_) => {}
        }
        self.shared.forget_wanted();
        self.shared.set_cluster(loaded.cluster);
        self.shared.set_seen(loaded.revision);
        Ok(loaded.cluster)
    }

    /// A reading of etcd's leader (not of a member that lags) with less than was served is one of another past.
    fn check(&self, loaded: &Loaded) -> Result<(), LoadError> {
        let (now, seen) = (loaded.revision, self.shared.seen());
        // What it said before counts for the first reading; afterwards it is never ahead of what was seen.
        if seen > 0 {
            return match now < seen {
                true => Err(LoadError::Refused(self.shared.refuse(seen, now))),
                false => Ok(()),
            };
        }
        let Some(served) = self.mark.as_ref().and_then(|mark| mark.said()).filter(|s| now < s.revision)
        else {
            return Ok(());
        };
        // Nobody restores a snapshot of nothing: this is another etcd, for a cluster that begins anew.
        if served.cluster != loaded.cluster && loaded.keys == 0 {
            tracing::warn!(
                now,
                was = served.revision,
                "another etcd with nothing in it: revisions begin anew"
            );
            return Ok(());
        }
        // The first reading: whoever connects is told, and there is no store yet that could stop.
        Err(LoadError::Refused(went_back(served.revision, now)))
    }

    /// Follows the log for ever, unless it goes back; the owner aborts it.
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
                        "cannot resume the watch on etcd: loading anew"
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
            self.channel.disappointed();
            self.pause(failures).await;
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
            // It may have moved on past us, as a restored one should.
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
        for told in batch.events {
            if !told.key.starts_with(self.prefix.as_bytes()) {
                continue;
            }
            let Some(key) = key_of(&told.key) else { continue };
            let value = told.value.map(Bytes::from);
            let expires_at = self.leases.expires_at(told.lease).await;
            changes.push(Change { revision: Revision(told.revision), key, value, expires_at });
        }
        let keys: Vec<Key> = changes.iter().map(|change| change.key.clone()).collect();
        self.state.publish(changes, Revision(batch.upto));
        for key in keys {
            self.tell_if_broken(key);
        }
        self.shared.set_seen(batch.upto);
    }

    /// Whoever runs the cluster has to mend it: no server writes over what it cannot read.
    fn tell_if_broken(&self, key: Key) {
        let mut broken = self.broken.lock();
        match self.state.unreadable_at(&key) {
            Some(why) if broken.insert(key.clone()) => tracing::error!(
                "{why}: somebody else wrote it; reads and lists with it fail until that key is mended or deleted"
            ),
            Some(_) => {}
            None if broken.remove(&key) => tracing::info!(key = &*key, "can be read again"),
            None => {}
        }
    }

    /// Nothing after the first failure, then longer and longer; cut short when etcd answers somebody.
    async fn pause(&self, failures: u32) {
        let Some(doublings) = failures.checked_sub(1) else { return };
        let base = FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(LONGEST_PAUSE);
        // Servers that lost the same etcd must not all come back at once.
        let jitter = Duration::from_millis(self.env.random_below(base.as_millis() as u64 / 2 + 1));
        tokio::select! {
            biased;
            _ = self.shared.answered.notified() => {}
            _ = self.env.sleep(base / 2 + jitter) => {}
        }
    }
}
