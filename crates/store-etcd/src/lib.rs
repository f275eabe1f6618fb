//! The store on an etcd v3 cluster, which several servers may share.
//!
//! ```text
//!  commit ──Txn──> etcd ──one watch over every key──> feed ──publish──> State
//!     └───────────────── waits until the feed has seen the revision ──────┘
//! ```
//!
//! Other servers write too, so the log is etcd's watch, also for our own writes: a commit is answered after the
//! watch has delivered it. The watch covers the whole key space and not only our prefix. So each revision
//! of etcd is an event of it, a revision that does not come is noticed (`assemble`), and having seen a revision
//! that a linearizable read told proves that the state is fresh.
//!
//! From the bottom up: `proto` (messages), `channel` (several endpoints, one connection), `client`
//! (the calls), `lease`, `load`, `assemble`, `feed` (the state's feeder), `txn`, `compact`, and here the engine.

mod assemble;
mod channel;
mod client;
mod compact;
mod feed;
mod high_water_mark;
#[cfg(test)]
mod hostile;
mod lease;
mod load;
mod proto;
mod shared;
mod tls;
mod txn;

use std::fmt::Display;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use store::{BoxFuture, Commit, CommitError, Engine, Op, Revision, State, Unreadable};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

pub use channel::EndpointError;
use channel::{CALL_LIMIT, Channel, Cluster};
use client::Client;
use feed::{Feed, LoadError};
use grpc::CallError;
use high_water_mark::{HighWaterMark, Served};
use lease::Leases;
use shared::Shared;
pub use tls::{TlsFileError, TlsFiles};
pub use tokio_rustls::rustls::ClientConfig as TlsConfig;
use txn::Outcome;

/// Concurrent requests to etcd; more wait, within their timeout.
const MAX_IN_FLIGHT: u32 = 256;
/// How long the watch may take to deliver a revision that etcd has answered with.
const SEEN_LIMIT: Duration = Duration::from_secs(10);
/// How often a call is tried while calls fail, to notice that etcd is back.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How often the highest revision is recorded in a file, if it has changed.
const RECORD_EVERY: Duration = Duration::from_secs(10);
/// Attempts to load, each overtaken by a compaction, before `connect` gives up.
const LOAD_ATTEMPTS: usize = 3;

/// Where the cluster is, and which part of it is ours.
#[derive(Clone)]
pub struct Options {
    /// `http://host:port`, `https://host:port` or `host:port`; members of one cluster.
    pub endpoints: Vec<String>,
    /// What all our keys begin with: `/registry/` for a cluster.
    pub prefix: String,
    /// Roots and, where etcd asks for one, a client certificate. Needed for `https` endpoints.
    pub tls: Option<Arc<TlsConfig>>,
    /// File for the highest revision served, so that an etcd whose revision went back is refused after a restart too.
    pub high_water_mark: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("the key prefix is empty: use /registry/ unless several clusters share one etcd")]
    NoPrefix,
    #[error("loading from etcd failed: {0}")]
    Load(String),
    /// Its revision is lower than one that was served.
    #[error("{0}")]
    WentBack(String),
    /// It holds data of another program.
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error("{}: {source}", path.display())]
    HighWaterMark { path: PathBuf, source: std::io::Error },
}

/// An etcd cluster as the store. Its tasks end with [`Engine::close`] or when it is dropped.
pub struct EtcdEngine {
    env: Env,
    client: Arc<Client>,
    leases: Arc<Leases>,
    shared: Arc<Shared>,
    in_flight: Semaphore,
    barrier: Barrier,
    high_water_mark: Option<Arc<HighWaterMark>>,
    /// The feed and the probe. Held for a few instructions.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl EtcdEngine {
    /// Loads everything under the prefix into the state and watches from there on.
    pub async fn connect(
        endpoints: Vec<String>,
        prefix: String,
        env: Env,
        state: Arc<dyn State>,
    ) -> Result<Arc<EtcdEngine>, ConnectError> {
        EtcdEngine::connect_with(Options { endpoints, prefix, tls: None, high_water_mark: None }, env, state)
            .await
    }

    pub async fn connect_with(
        options: Options,
        env: Env,
        state: Arc<dyn State>,
    ) -> Result<Arc<EtcdEngine>, ConnectError> {
        let cluster = Cluster::new(env.clone(), &options.endpoints, options.tls)?;
        if options.prefix.is_empty() {
            return Err(ConnectError::NoPrefix);
        }
        let read = |path: PathBuf| {
            let read = HighWaterMark::read(path.clone()).map(Arc::new);
            read.map_err(|source| ConnectError::HighWaterMark { path, source })
        };
        let high_water_mark = options.high_water_mark.map(read).transpose()?;
        let shared = Arc::new(Shared::new(env.clone()));
        let client = Arc::new(Client::new(Channel::new(cluster.clone()), shared.clone()));
        let leases = Arc::new(Leases::new(env.clone(), client.clone()));
        let feed = Feed {
            env: env.clone(),
            channel: Channel::new(cluster),
            client: client.clone(),
            leases: leases.clone(),
            shared: shared.clone(),
            state,
            prefix: options.prefix,
            high_water_mark: high_water_mark.clone(),
            unreadable: Mutex::default(),
        };
        let state = feed.state.clone();
        let mut loaded = feed.load().await;
        for _ in 1..LOAD_ATTEMPTS {
            if !matches!(&loaded, Err(LoadError::Call(e)) if client::is_compacted(e)) {
                break;
            }
            loaded = feed.load().await;
        }
        let loaded = loaded.map_err(|e| match e {
            LoadError::Call(error) => ConnectError::Load(error.to_string()),
            LoadError::Refused(why) => ConnectError::WentBack(why),
        })?;
        // Before anything is recorded or written: those keys would seem free, and whoever wrote them would lose them.
        if let Some(unreadable) = state.unreadable() {
            return Err(ConnectError::Unreadable(unreadable));
        }
        let ticks = high_water_mark.as_ref().map(|mark| {
            let failed = |source| ConnectError::HighWaterMark { path: mark.path().to_owned(), source };
            record_on_thread(mark.clone(), shared.clone()).map_err(failed)
        });
        let ticks = ticks.transpose()?;
        let mut tasks = vec![
            env.spawn("etcd-feed", feed.run(loaded)),
            env.spawn("etcd-probe", probe(env.clone(), client.clone(), shared.clone())),
        ];
        if let Some(mark) = &high_water_mark {
            record(mark, &shared);
        }
        if let Some(ticks) = ticks {
            tasks.push(env.spawn("etcd-high-water-mark", keep_recording(env.clone(), ticks)));
        }
        Ok(Arc::new(EtcdEngine {
            env,
            client,
            leases,
            shared,
            in_flight: Semaphore::new(MAX_IN_FLIGHT as usize),
            barrier: Barrier::default(),
            high_water_mark,
            tasks: Mutex::new(tasks),
        }))
    }

    /// The outcome of a commit, published to the state or not.
    async fn send(&self, commit: &Commit) -> Result<Outcome, CommitError> {
        let mut leases_forgotten = false;
        loop {
            let leases = self
                .env
                .timeout(CALL_LIMIT, self.leases_for(commit))
                .await
                .unwrap_or(Err(CallError::Timeout(CALL_LIMIT)))
                .map_err(|e| stopped("nothing was written: no lease for a key that expires", &e))?;
            let answer = self.client.txn(&txn::request(commit, &leases)).await;
            // A lease of ours expired early (revoked by hand, a clock that jumped): etcd wrote nothing.
            if is_lease_gone(&answer) && !leases_forgotten {
                self.leases.forget_all().await;
                leases_forgotten = true;
                continue;
            }
            return txn::outcome(commit, answer.map_err(txn::failure)?);
        }
    }

    /// One for each op; 0 for those that need none.
    async fn leases_for(&self, commit: &Commit) -> Result<Vec<i64>, CallError> {
        let mut leases = Vec::with_capacity(commit.ops.len());
        for (_, op) in &commit.ops {
            leases.push(match op {
                Op::Put { expires_at: Some(at), .. } => self.leases.get(*at).await?,
                _ => 0,
            });
        }
        Ok(leases)
    }

    async fn commit_now(&self, commit: Commit) -> Result<Revision, CommitError> {
        let _permit = self.permit().await?;
        let before = self.shared.seen();
        // A put always takes a new revision.
        let puts = commit.ops.iter().any(|(_, op)| matches!(op, Op::Put { .. }));
        match self.send(&commit).await? {
            // Written to a log that is not ours, where the guards may have held by chance.
            Outcome::Committed { revision } if revision < before + u64::from(puts) => {
                Err(CommitError::Unknown(self.shared.refuse(before, revision)))
            }
            Outcome::Refused { revision, .. } if revision < before => {
                Err(CommitError::Stopped(self.shared.refuse(before, revision)))
            }
            Outcome::Committed { revision } => {
                self.seen(revision).await.map_err(|late| {
                    CommitError::Unknown(format!("committed at revision {revision}, but {late}"))
                })?;
                Ok(Revision(revision))
            }
            Outcome::Refused { key, revision } => {
                self.seen(revision).await.map_err(|late| {
                    CommitError::Stopped(format!(
                        "nothing was written: a guard on {key} did not hold, but {late}"
                    ))
                })?;
                Err(CommitError::Conflict { key })
            }
        }
    }

    async fn barrier_now(&self) -> Result<Revision, CommitError> {
        let _permit = self.permit().await?;
        let before = self.shared.seen();
        let asked = self.env.timeout(CALL_LIMIT, self.barrier.pass(|| self.client.revision())).await;
        let revision = match asked {
            Ok(revision) => revision.map_err(|e| stopped("etcd's revision cannot be read", &e))?,
            Err(_) => return Err(stopped("etcd's revision cannot be read", &CallError::Timeout(CALL_LIMIT))),
        };
        if revision < before {
            return Err(CommitError::Stopped(self.shared.refuse(before, revision)));
        }
        self.seen(revision).await.map_err(|late| stopped("the state is not fresh", &late))?;
        Ok(Revision(revision))
    }

    async fn compact_now(&self, upto: Revision) -> Result<(), CommitError> {
        let _permit = self.permit().await?;
        // What the watch has not delivered is still needed; etcd refuses future revisions, too.
        let upto = upto.0.min(self.shared.seen());
        if upto == 0 {
            return Ok(());
        }
        compact::compact(&self.client, upto).await.map_err(|e| match e {
            CallError::NotSent(_) | CallError::Status { .. } => stopped("etcd was not compacted", &e),
            _ => CommitError::Unknown(e.to_string()),
        })
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, CommitError> {
        if self.shared.is_closed() {
            return Err(CommitError::Stopped("the engine is closed".into()));
        }
        if let Some(why) = self.shared.refused() {
            return Err(CommitError::Stopped(why));
        }
        match self.env.timeout(CALL_LIMIT, self.in_flight.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(CommitError::Stopped("the engine is closed".into())),
            Err(_) => Err(CommitError::Stopped(format!(
                "nothing was written: {MAX_IN_FLIGHT} requests are in flight"
            ))),
        }
    }

    async fn seen(&self, revision: u64) -> Result<(), String> {
        self.env
            .timeout(SEEN_LIMIT, self.shared.wait_for(revision))
            .await
            .map_err(|_| format!("the watch on etcd has not shown revision {revision} within {SEEN_LIMIT:?}"))
    }
}

impl Engine for EtcdEngine {
    fn is_shared(&self) -> bool {
        true
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(self.commit_now(commit))
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(self.barrier_now())
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(self.compact_now(upto))
    }

    /// etcd's leases do it.
    fn expire(&self, _now: u64) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async { Ok(()) })
    }

    fn health(&self) -> Result<(), String> {
        self.shared.health()
    }

    /// An etcd that cannot be reached may come back; one whose revision went back stays so.
    fn failed(&self) -> Option<String> {
        self.shared.refused()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !self.shared.close() {
                return;
            }
            // All permits at once: then every request is done. Each has a timeout, and so has this.
            let longest = 2 * CALL_LIMIT + SEEN_LIMIT;
            let _ = self.env.timeout(longest, self.in_flight.acquire_many(MAX_IN_FLIGHT)).await;
            self.in_flight.close();
            let tasks = std::mem::take(&mut *self.tasks.lock());
            for task in tasks {
                task.abort();
                let _ = task.await;
            }
            if let Some(mark) = &self.high_water_mark {
                record(mark, &self.shared);
            }
            self.client.close().await;
        })
    }
}

impl Drop for EtcdEngine {
    fn drop(&mut self) {
        for task in self.tasks.get_mut() {
            task.abort();
        }
    }
}

/// Lets many ask for the revision at once and sends one read for all who wait.
#[derive(Default)]
struct Barrier {
    asked: AtomicU64,
    /// The last read: who had asked before it was sent, and what it said. Held during a read, on purpose:
    /// those who wait share the next.
    last: tokio::sync::Mutex<(u64, u64)>,
}

impl Barrier {
    async fn pass<F>(&self, read: impl FnOnce() -> F) -> Result<u64, CallError>
    where
        F: Future<Output = Result<u64, CallError>>,
    {
        let ticket = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut last = self.last.lock().await;
        let (covers, revision) = *last;
        // That read was sent after we asked: it has seen all we may have heard of.
        if covers >= ticket {
            return Ok(revision);
        }
        let covers = self.asked.load(Ordering::Acquire);
        let revision = read().await?;
        *last = (covers, revision);
        Ok(revision)
    }
}

fn record(mark: &HighWaterMark, shared: &Shared) {
    mark.record(Served { cluster: shared.cluster(), revision: shared.seen() });
}

/// Records at each tick, and ends with its sender: the fsync of a slow disk must not delay other tasks.
#[allow(
    clippy::disallowed_methods,
    reason = "the durable layer's own thread: it only writes a file, and its time is the sender's"
)]
fn record_on_thread(mark: Arc<HighWaterMark>, shared: Arc<Shared>) -> std::io::Result<SyncSender<()>> {
    let (ticks, ticked) = sync_channel(1);
    std::thread::Builder::new().name("etcd-mark".into()).spawn(move || {
        while ticked.recv().is_ok() {
            record(&mark, &shared);
        }
    })?;
    Ok(ticks)
}

/// Seldom: each takes an fsync of the data directory's disk.
async fn keep_recording(env: Env, ticks: SyncSender<()>) {
    loop {
        env.sleep(RECORD_EVERY).await;
        // Full: the last one is not through yet, and will be followed by another.
        let _ = ticks.try_send(());
    }
}

/// While calls fail, sends one now and then: health must not depend on somebody else's next request.
async fn probe(env: Env, client: Arc<Client>, shared: Arc<Shared>) {
    loop {
        shared.calls_fail.notified().await;
        while shared.calls_are_failing() {
            env.sleep(PROBE_EVERY).await;
            // The client notes the outcome.
            let _ = client.revision().await;
        }
    }
}

fn is_lease_gone<T>(answer: &Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::Status { code: grpc::code::NOT_FOUND, message }) if message.contains("lease"))
}

fn stopped(what: &str, why: &dyn Display) -> CommitError {
    CommitError::Stopped(format!("{what}: {why}"))
}
