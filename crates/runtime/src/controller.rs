//! A control loop: informers fill its queue with keys, workers reconcile one key at a time.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object::Status;
use tokio::task::JoinHandle;

use crate::board::{Board, Entry};
use crate::cause::{Cause, Causes};
use crate::informer::{Informer, Notice};
use crate::queue::{LOW, Limits, NORMAL, WorkQueue};
use crate::{Key, Stop};

/// What a turn of work is about. The key alone decides what to do; the causes are for people.
pub struct Turn<'a> {
    pub key: &'a Key,
    pub causes: &'a Causes,
    /// How often the key failed before.
    pub failures: u32,
    entry: &'a Entry,
}

impl Turn<'_> {
    /// Says what the loop is going to do, for `/debug/controllers`.
    pub fn plan(&self, plan: impl FnOnce() -> String) {
        self.entry.planned(self.key, plan());
    }
}

/// After a turn that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing to do until something changes.
    Done,
    /// Look again after this long, whatever happens.
    After(Duration),
}

/// A turn that failed; the key is tried again.
#[derive(Debug)]
pub enum Failure {
    /// The API refused.
    Api(Status),
    Other(String),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Api(status)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Api(status) => f.write_str(&status.message),
            Failure::Other(why) => f.write_str(why),
        }
    }
}

/// Holds the world to what an object says. Called with a key, never with an event; never twice at once for one key.
pub trait Reconcile: Send + Sync + 'static {
    fn reconcile<'a>(&'a self, turn: Turn<'a>) -> BoxFuture<'a, Result<Next, Failure>>;
}

pub struct Controller {
    env: Env,
    name: &'static str,
    workers: usize,
    max_retries: Option<u32>,
    queue: Arc<WorkQueue<Key>>,
    informers: Vec<Arc<Informer>>,
}

impl Controller {
    pub fn new(env: &Env, name: &'static str) -> Controller {
        Controller {
            env: env.clone(),
            name,
            workers: 5,
            max_retries: Some(15),
            queue: Arc::new(WorkQueue::new(env.clone(), Limits::default())),
            informers: Vec::new(),
        }
    }
    /// How many keys are worked on at once.
    pub fn workers(mut self, workers: usize) -> Controller {
        self.workers = workers;
        self
    }
    /// How failures slow keys down. Before `watches`: it begins a new queue.
    pub fn limits(mut self, limits: Limits) -> Controller {
        self.queue = Arc::new(WorkQueue::new(self.env.clone(), limits));
        self
    }
    /// After so many failures a key waits for the next event; `None`: it is tried for ever.
    pub fn max_retries(mut self, most: Option<u32>) -> Controller {
        self.max_retries = most;
        self
    }
    /// The queue, for handlers that do more than map a change to keys.
    pub fn queue(&self) -> Arc<WorkQueue<Key>> {
        self.queue.clone()
    }

    /// Changes of what the controller is for.
    pub fn owns_keys_of(self, informer: &Arc<Informer>) -> Controller {
        self.watches(informer, |notice| vec![Key::of(notice.obj())])
    }

    /// Changes of a resource, and the keys each asks work for.
    pub fn watches(
        mut self,
        informer: &Arc<Informer>,
        keys: impl Fn(&Notice<'_>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Controller {
        let (queue, resource) = (self.queue.clone(), informer.scope().resource);
        informer.add_handler(
            None,
            Box::new(move |notice| {
                let (what, priority) = describe(notice);
                for key in keys(notice) {
                    queue.add(key, priority, Some(Cause::new(resource, notice.obj(), what)));
                }
            }),
        );
        self.informers.push(informer.clone());
        self
    }

    /// Also waits for this informer before it starts; for handlers added by hand.
    pub fn reads(mut self, informer: &Arc<Informer>) -> Controller {
        self.informers.push(informer.clone());
        self
    }

    /// Starts the workers once the informers have their first state.
    pub fn start(self, board: &Arc<Board>, reconcile: Arc<dyn Reconcile>, stop: Stop) -> Vec<JoinHandle<()>> {
        let Controller { env, name, workers, max_retries, queue, informers } = self;
        let entry = board.register(name, workers, queue.clone());
        let mut tasks = Vec::new();
        for _ in 0..workers {
            let (env2, queue, entry) = (env.clone(), queue.clone(), entry.clone());
            let (reconcile, informers, stop) = (reconcile.clone(), informers.clone(), stop.clone());
            tasks.push(env.spawn(name, async move {
                for informer in &informers {
                    tokio::select! {
                        biased;
                        () = stop.stopped() => return,
                        () = informer.synced() => {}
                    }
                }
                work(&env2, name, &queue, &entry, &*reconcile, max_retries).await;
            }));
        }
        tasks.push(env.spawn(name, async move {
            stop.stopped().await;
            queue.shut_down();
        }));
        tasks
    }
}

async fn work(
    env: &Env,
    name: &'static str,
    queue: &WorkQueue<Key>,
    entry: &Entry,
    reconcile: &dyn Reconcile,
    max_retries: Option<u32>,
) {
    while let Some(taken) = queue.get().await {
        let begun = env.monotonic();
        entry.begun(&taken.key, &taken.causes, taken.waited);
        let turn = Turn { key: &taken.key, causes: &taken.causes, failures: taken.failures, entry };
        let result = AssertUnwindSafe(reconcile.reconcile(turn)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(controller = name, key = taken.key.as_str(), "a turn panicked; this is a bug");
            Err(Failure::Other("the controller panicked".to_owned()))
        });
        let worked = env.monotonic() - begun;
        match &result {
            Ok(next) => {
                queue.forget(&taken.key);
                if let Next::After(wait) = next {
                    queue.add_after(taken.key.clone(), *wait, None);
                }
            }
            Err(failure) => {
                let (key, error) = (taken.key.as_str(), failure.to_string());
                if max_retries.is_some_and(|most| taken.failures >= most) {
                    tracing::warn!(controller = name, key, error, "given up until something changes");
                    queue.forget(&taken.key);
                } else {
                    tracing::debug!(controller = name, key, error, "a turn failed, trying again");
                    queue.retry(taken.key.clone());
                }
            }
        }
        entry.ended(&taken.key, &result, worked);
        queue.done(&taken.key);
    }
}

fn describe(notice: &Notice<'_>) -> (&'static str, i32) {
    match notice {
        Notice::Added { initial: true, .. } => ("added", LOW),
        Notice::Added { .. } => ("added", NORMAL),
        Notice::Updated { sync: true, .. } => ("resync", LOW),
        Notice::Updated { .. } => ("updated", NORMAL),
        Notice::Deleted { .. } => ("deleted", NORMAL),
    }
}
