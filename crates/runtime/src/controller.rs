//! A controller: informers fill its queue with keys, workers reconcile one key at a time.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object::{Status, WriteOptions};
use tokio::task::JoinHandle;

use crate::cause::{Cause, Causes};
use crate::controller_registry::{ControllerRegistry, Entry};
use crate::informer::{Informer, InformerEvent};
use crate::queue::{LOW, Limits, NORMAL, Taken, WorkQueue};
use crate::trigger::{Change, Edges, Trigger};
use crate::{Key, Stop};

/// What a reconcile is about. The key alone decides what to do; the causes are for people.
pub struct ReconcileRequest<'a> {
    pub key: &'a Key,
    pub causes: &'a Causes,
    /// How often the key failed before.
    pub failures: u32,
    entry: &'a Entry,
    change: Option<&'a Change>,
}

impl ReconcileRequest<'_> {
    /// The one change this reconcile is about, under [`Trigger::EdgeOnly`] and nowhere else: the others look at the state.
    pub fn change(&self) -> Option<&Change> {
        self.change
    }

    /// How this controller applies: under its own name, and by force, since what it wants holds whoever changed it.
    pub fn apply_options(&self) -> WriteOptions<'static> {
        WriteOptions { field_manager: self.entry.name(), force: true, ..WriteOptions::default() }
    }

    /// Says what the controller is going to do, for `/debug/controllers`.
    pub fn plan(&self, plan: impl FnOnce() -> String) {
        self.entry.planned(self.key, plan());
    }
}

/// After a reconcile that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing to do until something changes.
    AwaitChange,
    /// Look again after this long, whatever happens.
    Requeue(Duration),
}

/// A reconcile that failed; the key is tried again.
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
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>>;
}

/// The keys a change asks work for.
type KeysOf = Box<dyn Fn(&InformerEvent<'_>) -> Vec<Key> + Send + Sync>;

/// Changes of one resource.
struct Watched {
    informer: Arc<Informer>,
    keys: KeysOf,
    /// They are worked on so long after they were told.
    wait: Duration,
}

pub struct Controller {
    env: Env,
    name: &'static str,
    workers: usize,
    max_retries: Option<u32>,
    trigger: Trigger,
    queue: Arc<WorkQueue<Key>>,
    watched: Vec<Watched>,
    read: Vec<Arc<Informer>>,
}

impl Controller {
    pub fn new(env: &Env, name: &'static str) -> Controller {
        Controller {
            env: env.clone(),
            name,
            workers: 5,
            max_retries: Some(15),
            trigger: Trigger::default(),
            queue: Arc::new(WorkQueue::new(env.clone(), Limits::default())),
            watched: Vec::new(),
            read: Vec::new(),
        }
    }
    /// What makes a reconcile, and what it is given.
    pub fn trigger(mut self, trigger: Trigger) -> Controller {
        self.trigger = trigger;
        self
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
        self.watches(informer, |event| vec![Key::of(event.obj())])
    }

    /// Changes of a resource, and the keys each asks work for.
    pub fn watches(
        mut self,
        informer: &Arc<Informer>,
        keys: impl Fn(&InformerEvent<'_>) -> Vec<Key> + Send + Sync + 'static,
    ) -> Controller {
        self.watched.push(Watched { informer: informer.clone(), keys: Box::new(keys), wait: Duration::ZERO });
        self
    }

    /// What is watched last is worked on so long after it changed, together with all that changes meanwhile.
    pub fn batched(mut self, wait: Duration) -> Controller {
        if let Some(watched) = self.watched.last_mut() {
            watched.wait = wait;
        }
        self
    }

    /// Also waits for this informer before it starts; for handlers added by hand.
    pub fn reads(mut self, informer: &Arc<Informer>) -> Controller {
        self.read.push(informer.clone());
        self
    }

    /// Hears of changes from now on, and starts the workers once the informers have their first state.
    pub fn start(
        self,
        controllers: &Arc<ControllerRegistry>,
        reconcile: Arc<dyn Reconcile>,
        stop: Stop,
    ) -> Vec<JoinHandle<()>> {
        let Controller { env, name, workers, max_retries, trigger, queue, watched, read: mut informers } =
            self;
        let entry = controllers.register(name, workers, queue.clone());
        let edges = (trigger == Trigger::EdgeOnly).then(|| Arc::new(Edges::default()));
        let mut hearing = Vec::new();
        for Watched { informer, keys, wait } in watched {
            informers.push(informer.clone());
            let (queue, edges, resource) = (queue.clone(), edges.clone(), informer.scope().resource.clone());
            let handler = move |event: &InformerEvent<'_>| {
                let (what, priority) = describe(event);
                for key in keys(event) {
                    if let Some(edges) = &edges {
                        edges.push(&key, event);
                    }
                    let cause = Cause::new(&resource, event.obj(), what);
                    queue.add_after_with(key, wait, priority, Some(cause));
                }
            };
            let registration = informer.add_handler(trigger.resync(&env), Box::new(handler));
            hearing.push((informer, registration));
        }
        let shared = Arc::new(Shared { env, name, queue, entry, reconcile, max_retries, edges, stop });
        let mut tasks = Vec::new();
        for _ in 0..workers {
            let (shared, informers) = (shared.clone(), informers.clone());
            tasks.push(shared.env.clone().spawn(name, async move {
                for informer in &informers {
                    tokio::select! {
                        biased;
                        () = shared.stop.stopped() => return,
                        () = informer.synced() => {}
                    }
                }
                shared.work().await;
            }));
        }
        tasks.push(shared.env.clone().spawn(name, async move {
            shared.stop.stopped().await;
            shared.queue.shut_down();
            // The informer may be others' too, and live on.
            for (informer, registration) in hearing {
                informer.remove_handler(&registration);
            }
        }));
        tasks
    }
}

/// What the workers of a controller share.
struct Shared {
    env: Env,
    name: &'static str,
    queue: Arc<WorkQueue<Key>>,
    entry: Arc<Entry>,
    reconcile: Arc<dyn Reconcile>,
    max_retries: Option<u32>,
    edges: Option<Arc<Edges>>,
    stop: Stop,
}

impl Shared {
    async fn work(&self) {
        while let Some(taken) = self.queue.get().await {
            // What still waits is found again by whoever comes next.
            if self.stop.is_stopped() {
                self.queue.done(&taken.key);
                return;
            }
            self.reconcile(taken).await;
        }
    }

    async fn reconcile(&self, taken: Taken<Key>) {
        let Shared { env, name, queue, entry, edges, .. } = self;
        let key = &taken.key;
        let begun = env.monotonic();
        entry.begun(key, &taken.causes);
        let change = edges.as_ref().and_then(|edges| edges.first(key));
        let request = ReconcileRequest {
            key,
            causes: &taken.causes,
            failures: taken.failures,
            entry,
            change: change.as_ref(),
        };
        let reconciling = AssertUnwindSafe(async { self.reconcile.reconcile(request).await }).catch_unwind();
        let result = reconciling.await.unwrap_or_else(|_| {
            tracing::error!(controller = name, key = key.as_str(), "reconcile panicked; this is a bug");
            entry.panicked();
            Err(Failure::Other("the controller panicked".to_owned()))
        });
        let worked = env.monotonic() - begun;
        let mut settled = true;
        match &result {
            Ok(next) => {
                queue.forget(key);
                if let Action::Requeue(wait) = next {
                    queue.add_after_with(key.clone(), *wait, taken.priority, None);
                }
            }
            Err(failure) => {
                let (key, error) = (key.as_str(), failure.to_string());
                settled = self.max_retries.is_some_and(|most| taken.failures >= most);
                if settled {
                    tracing::warn!(controller = name, key, error, "giving up until something changes");
                    queue.forget(&taken.key);
                } else {
                    tracing::debug!(controller = name, key, error, "reconcile failed, retrying");
                    queue.retry(taken.key.clone());
                }
            }
        }
        if let Some(edges) = edges.as_ref().filter(|_| settled && change.is_some())
            && edges.settle(key)
        {
            queue.add(key.clone(), taken.priority, None);
        }
        entry.ended(key, &result, worked);
        queue.done(key);
    }
}

fn describe(event: &InformerEvent<'_>) -> (&'static str, i32) {
    match event {
        InformerEvent::Added { initial: true, .. } => ("added", LOW),
        InformerEvent::Added { .. } => ("added", NORMAL),
        InformerEvent::Updated { sync: true, .. } => ("resync", LOW),
        InformerEvent::Updated { .. } => ("updated", NORMAL),
        InformerEvent::Deleted { .. } => ("deleted", NORMAL),
    }
}

#[cfg(test)]
pub(crate) mod tests;
