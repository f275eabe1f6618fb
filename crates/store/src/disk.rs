//! The engine on disk, with group commit: callers that wait at the same time share one fsync.
//!
//! ```text
//!  a lone commit, fast disk ── on the caller's own thread: one fsync, no thread switch
//!  all others ── queue ── the engine's thread, a batch at a time ── one fsync for all of them
//! ```
//! While an fsync runs, later commits gather in the queue and the next one takes them all; where several came
//! together last time, it waits a moment for as many more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::contract::{BoxFuture, Commit, CommitError, Engine, Revision, State};
use crate::durable::{Durable, DurableError};
use crate::files::{Files, OpenError};
use crate::sequencer::Sequencer;

/// Commits waiting for the engine's thread. When it is full callers wait; it is as deep as a
/// batch may be long, for a longer queue would only add latency.
const QUEUE: usize = 1024;
/// Bytes of one batch (or a single commit, if that has more): bounds the write buffer and the time until the
/// first of the batch is answered.
const BATCH_BYTES: usize = 4 << 20;
/// How long a batch waits for more. With the kernel's own slack it is about twice that: half an fsync, which
/// costs as much CPU as two requests, so it pays as soon as a few more join.
const GATHER: Duration = Duration::from_micros(50);
/// A disk that answers within this is fast: a caller may wait for it on a thread that others share. Two thread switches
/// cost about a tenth of it, so with a slower disk there is little to gain.
const FAST: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The log is compacted into a snapshot when it is longer than this, and than the last snapshot.
    pub snapshot_log_bytes: u64,
    /// Called by the engine's thread before it waits for the next commits.
    pub before_waiting: fn(),
    /// Whether a commit is on disk when it is acknowledged. Without it a crash of the machine may lose or damage what was
    /// written last; a crash of the process does not. For stores that are thrown away, such as a test's.
    pub sync: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        DiskOptions { snapshot_log_bytes: 64 << 20, before_waiting: || {}, sync: true }
    }
}

pub struct DiskEngine {
    queue: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    /// Guards the order of commits: its holder writes the next ones.
    worker: Arc<Mutex<Worker>>,
    /// Guards the handle, taken to join the thread.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Where its files are, if it has any.
    dir: Option<PathBuf>,
}

/// State of the engine's thread that can be read without the queue.
struct Shared {
    /// The last revision that is durable and published.
    revision: AtomicU64,
    /// Guards the reason why nothing can be committed any more.
    stopped: Mutex<Option<String>>,
    /// Guards the reason why only removals can be committed for now.
    full: Mutex<Option<String>>,
    /// The last commit was alone and the disk was fast: the next one need not go through the queue.
    alone: AtomicBool,
}

enum Request {
    Commit(Commit, oneshot::Sender<Result<Revision, CommitError>>),
    Expire(u64, oneshot::Sender<Result<(), CommitError>>),
    Close(oneshot::Sender<()>),
}

impl DiskEngine {
    /// Opens or creates a data directory and loads it into the state. Blocks while it reads.
    pub fn open(
        dir: &Path,
        state: Arc<dyn State>,
        options: DiskOptions,
    ) -> Result<Arc<dyn Engine>, OpenError> {
        let files = Files::new(dir, options.snapshot_log_bytes).sync(options.sync);
        let io = |source| OpenError::Io { path: dir.to_owned(), source };
        let sequencer = Sequencer::start(Box::new(files), state).map_err(|error| match error {
            DurableError::Open(error) => error,
            other => io(std::io::Error::other(other)),
        })?;
        Self::start(sequencer, Some(dir.to_owned()), options.before_waiting).map_err(io)
    }

    /// The same engine over any durable layer.
    pub fn over(durable: Box<dyn Durable>, state: Arc<dyn State>) -> std::io::Result<Arc<dyn Engine>> {
        Self::start(Sequencer::start(durable, state).map_err(std::io::Error::other)?, None, || {})
    }

    #[allow(clippy::disallowed_methods, reason = "the durable layer's own thread, because an fsync blocks")]
    fn start(
        sequencer: Sequencer,
        dir: Option<PathBuf>,
        before_waiting: fn(),
    ) -> std::io::Result<Arc<dyn Engine>> {
        let shared = Shared {
            revision: AtomicU64::new(sequencer.revision().0),
            stopped: Mutex::new(None),
            full: Mutex::new(None),
            alone: AtomicBool::new(false),
        };
        let shared = Arc::new(shared);
        let (queue, requests) = mpsc::channel(QUEUE);
        let worker = Arc::new(Mutex::new(Worker::new(sequencer, shared.clone())));
        let owner = worker.clone();
        // The durable layer's own thread, because an fsync blocks; nothing of a virtual world runs on it.
        let thread = std::thread::Builder::new().name("store-disk".into());
        let thread = thread.spawn(move || run(&owner, requests, before_waiting))?;
        Ok(Arc::new(DiskEngine { queue, shared, worker, thread: Mutex::new(Some(thread)), dir }))
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, CommitError>>) -> Request,
    ) -> Result<T, CommitError> {
        let (answer, answered) = oneshot::channel();
        if self.queue.send(request(answer)).await.is_err() {
            return Err(self.why_stopped());
        }
        // Dropped without an answer: the thread died while it had the request.
        answered.await.unwrap_or_else(|_| Err(CommitError::Unknown("the store's thread ended".to_owned())))
    }

    /// Commits on the caller's thread if nobody else is writing and the disk is fast; returns the commit otherwise.
    fn commit_here(&self, commit: Commit) -> Result<Result<Revision, CommitError>, Commit> {
        if !self.shared.alone.load(Ordering::Relaxed) {
            return Err(commit);
        }
        match self.worker.try_lock() {
            Some(mut worker) => Ok(worker.commit_one(commit)),
            None => Err(commit),
        }
    }

    fn why_stopped(&self) -> CommitError {
        let why = self.shared.stopped.lock().clone();
        CommitError::Stopped(why.unwrap_or_else(|| "its thread ended".to_owned()))
    }
}

impl Engine for DiskEngine {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            // A caller that commits again and again without ever waiting must yield to others.
            tokio::task::coop::consume_budget().await;
            match self.commit_here(commit) {
                Ok(answer) => answer,
                Err(commit) => self.ask(|answer| Request::Commit(commit, answer)).await,
            }
        })
    }

    /// All commits pass through this engine, so the last published one is the newest.
    fn barrier(&self) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            match self.health() {
                Ok(()) => Ok(Revision(self.shared.revision.load(Ordering::Acquire))),
                Err(why) => Err(CommitError::Stopped(why)),
            }
        })
    }

    /// Nothing to do: history is the state's, and files are compacted by size.
    fn compact(&self, _: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async move { self.health().map_err(CommitError::Stopped) })
    }

    fn expire(&self, now: u64) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(self.ask(move |answer| Request::Expire(now, answer)))
    }

    fn health(&self) -> Result<(), String> {
        match &*self.shared.stopped.lock() {
            Some(why) => Err(why.clone()),
            None if self.queue.is_closed() => Err("its thread ended".to_owned()),
            None => Ok(()),
        }
    }

    fn full(&self) -> Option<String> {
        self.shared.full.lock().clone()
    }

    fn size_bytes(&self) -> Option<u64> {
        let entries = std::fs::read_dir(self.dir.as_ref()?).ok()?;
        // A file that was deleted by compaction meanwhile has no size any more.
        Some(entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|m| m.len()).sum())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            if self.queue.send(Request::Close(answer)).await.is_ok() {
                // An error means that the thread is gone, which is what we wait for.
                let _ = answered.await;
            }
            let thread = self.thread.lock().take();
            // It answered last of all (or is dead), so this does not block.
            thread.map(JoinHandle::join);
        })
    }
}

impl Drop for DiskEngine {
    /// Finishes what was accepted, so that the directory is unlocked afterwards.
    fn drop(&mut self) {
        // Replacing the sender closes the queue; the thread ends when it has emptied it.
        self.queue = mpsc::channel(1).0;
        let thread = self.thread.lock().take();
        thread.map(JoinHandle::join);
    }
}

/// What writes: the sequencer, and buffers that are kept from batch to batch.
struct Worker {
    sequencer: Sequencer,
    shared: Arc<Shared>,
    commits: Vec<Commit>,
    senders: Vec<oneshot::Sender<Result<Revision, CommitError>>>,
    answers: Vec<Result<Revision, CommitError>>,
    /// Of `commits`.
    bytes: usize,
}

/// The engine's thread.
fn run(worker: &Mutex<Worker>, mut requests: mpsc::Receiver<Request>, before_waiting: fn()) {
    let mut queued = Vec::with_capacity(QUEUE);
    let mut closers = Vec::new();
    let mut last_batch = 0;
    while requests.blocking_recv_many(&mut queued, QUEUE) > 0 {
        // A lone writer never waits: nobody else would come.
        if last_batch > 1 && queued.len() < 2 * last_batch {
            gather(&mut requests, &mut queued);
        }
        // Waits for a commit on its caller's thread; those that came meanwhile join the batch.
        let mut worker = worker.lock();
        join(&mut requests, &mut queued);
        last_batch = queued.len();
        for request in queued.drain(..) {
            if let Request::Close(sender) = request {
                requests.close();
                closers.push(sender);
            } else {
                worker.take(request);
            }
        }
        worker.commit();
        drop(worker);
        before_waiting();
    }
    worker.lock().close();
    for closer in closers {
        // A caller that no longer waits needs no answer; the same below.
        let _ = closer.send(());
    }
}

impl Worker {
    fn new(sequencer: Sequencer, shared: Arc<Shared>) -> Worker {
        let (commits, senders, answers) = (Vec::new(), Vec::new(), Vec::new());
        Worker { sequencer, shared, commits, senders, answers, bytes: 0 }
    }

    fn take(&mut self, request: Request) {
        match request {
            Request::Commit(commit, sender) => {
                self.bytes += commit.bytes();
                self.commits.push(commit);
                self.senders.push(sender);
                if self.bytes >= BATCH_BYTES {
                    self.commit();
                }
            }
            Request::Expire(now, sender) => {
                self.commit();
                let answer = self.guarded(|sequencer, _, _| sequencer.expire(now));
                let _ = sender.send(answer.unwrap_or_else(|| Err(panicked())));
            }
            Request::Close(_) => {}
        }
    }

    /// Writes the commits taken so far, as one batch.
    fn commit(&mut self) {
        self.bytes = 0;
        if self.commits.is_empty() {
            return;
        }
        self.write();
        for (sender, answer) in self.senders.drain(..).zip(self.answers.drain(..)) {
            let _ = sender.send(answer);
        }
    }

    /// One commit, for a caller that waits on its own thread.
    fn commit_one(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        self.commits.push(commit);
        self.write();
        self.answers.pop().expect("every commit is answered")
    }

    // Real files, real time: nothing but the thread on which the next commit is written depends on it.
    #[allow(clippy::disallowed_methods)]
    fn write(&mut self) {
        let (count, begun) = (self.commits.len(), Instant::now());
        let done = self.guarded(|sequencer, commits, answers| sequencer.commit_all(commits, answers));
        if done.is_none() {
            // Some of them may be durable.
            self.commits.clear();
            self.answers.clear();
            self.answers.resize_with(count, || Err(panicked()));
        }
        self.shared.alone.store(count == 1 && begun.elapsed() < FAST, Ordering::Relaxed);
    }

    /// Lets the sequencer do something. `None` after a panic: what it knows can't be trusted any more, so it stops.
    fn guarded<T>(
        &mut self,
        act: impl FnOnce(&mut Sequencer, &mut Vec<Commit>, &mut Vec<Result<Revision, CommitError>>) -> T,
    ) -> Option<T> {
        let Worker { sequencer, commits, answers, .. } = self;
        let done = catch_unwind(AssertUnwindSafe(|| act(sequencer, commits, answers)));
        if done.is_err() {
            tracing::error!("a commit panicked, the store stops; this is a bug");
            self.sequencer.stop("a commit panicked");
        }
        self.update_shared();
        done.ok()
    }

    fn close(&mut self) {
        self.sequencer.close();
        self.update_shared();
    }

    /// Before anybody is answered, so that a barrier after an answer is never older than the answer.
    fn update_shared(&self) {
        self.shared.revision.store(self.sequencer.revision().0, Ordering::Release);
        let full = self.sequencer.full();
        // Compared first: it is nearly always as it was.
        if self.shared.full.lock().as_deref() != full {
            *self.shared.full.lock() = full.map(str::to_owned);
        }
        if let Some(why) = self.sequencer.stopped() {
            self.shared.stopped.lock().get_or_insert_with(|| why.to_owned());
        }
    }
}

fn panicked() -> CommitError {
    CommitError::Unknown("a commit panicked".to_owned())
}

/// Gives others a moment to join the batch.
// The durable layer's own thread, which has no world's clock; nothing but the size of a batch depends on it.
#[allow(clippy::disallowed_methods)]
fn gather(requests: &mut mpsc::Receiver<Request>, queued: &mut Vec<Request>) {
    std::thread::sleep(GATHER);
    join(requests, queued);
}

fn join(requests: &mut mpsc::Receiver<Request>, queued: &mut Vec<Request>) {
    while queued.len() < QUEUE
        && let Ok(request) = requests.try_recv()
    {
        queued.push(request);
    }
}
