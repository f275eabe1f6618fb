//! One view of a resource for everybody in the process: a store to read, and handlers that are told what changes.
//!
//! In process the objects are the server's own; over HTTP they come through the same reflector. Handlers run one after
//! another, in the order things happened, on the informer's task: they put keys into queues and nothing else.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::Client;
use env::Env;
use object::{Obj, Revision};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fifo::{Delta, DeltaFifo, Fifo, RealFifo};
use crate::indexer::Transaction;
use crate::reflector::{Reflector, Scope};
use crate::{Indexer, Stop, Trigger};

/// What a handler is told.
pub enum InformerEvent<'a> {
    /// `initial`: it was there when the handler (or the informer) came.
    Added { obj: &'a Arc<Obj>, initial: bool },
    /// `sync`: nothing changed, the handler asked to be told now and then. It is always the same object: one that was
    /// deleted and made again between two looks is `Deleted` (`unknown`), then `Added`.
    Updated { old: &'a Arc<Obj>, new: &'a Arc<Obj>, sync: bool },
    /// `unknown`: the deletion itself was missed, this is the last state seen.
    Deleted { obj: &'a Arc<Obj>, unknown: bool },
}

impl<'a> InformerEvent<'a> {
    /// The newest state told of.
    pub fn obj(&self) -> &'a Arc<Obj> {
        match self {
            InformerEvent::Added { obj, .. } | InformerEvent::Deleted { obj, .. } => obj,
            InformerEvent::Updated { new, .. } => new,
        }
    }
}

pub type Handler = Box<dyn Fn(&InformerEvent<'_>) + Send + Sync>;

/// What a test makes go wrong between the store of an informer and its handlers.
pub struct Loss {
    /// No handler ever hears of a change this is true of. First states and resyncs are not asked about.
    pub lost: Box<dyn Fn(&InformerEvent<'_>) -> bool + Send + Sync>,
    /// Handlers that resync do so this many times as often: half a day is long to wait.
    pub sooner: u32,
}

/// Shorter periods are raised to this.
const LEAST_RESYNC: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    #[default]
    Real,
    Delta,
}

/// A handler that was added: to take it away again, and to know when it was told of the first whole state.
#[derive(Clone)]
pub struct Registration {
    id: u64,
    synced: watch::Receiver<bool>,
}

impl Registration {
    /// Handlers are told within the transaction that applies a state: when that is whole, the handler knows all of it.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }
    pub async fn synced(&self) {
        let _ = self.synced.clone().wait_for(|synced| *synced).await;
    }
}

pub struct Informer {
    env: Env,
    client: Arc<dyn Client>,
    scope: Scope,
    /// Guards the queue, and is held while it is emptied: one writer of the store at a time.
    fifo: Mutex<Box<dyn Fifo>>,
    store: Indexer,
    /// Guards the handlers, and is held while they run: who comes late sees a whole state.
    handlers: Mutex<Vec<Registered>>,
    next_id: AtomicU64,
    /// The first whole state was applied.
    synced: watch::Sender<bool>,
    /// Everything up to here was applied and told.
    progress: watch::Sender<u64>,
    /// Somebody asked for resyncs.
    asked: Notify,
    loss: Option<Arc<Loss>>,
}

struct Registered {
    id: u64,
    handler: Handler,
    resync: Option<(Duration, Instant)>,
    /// The resync under way is this handler's too.
    syncing: bool,
}

impl Informer {
    pub fn new(env: Env, client: Arc<dyn Client>, scope: Scope, queue: QueueKind) -> Arc<Informer> {
        Informer::losing(env, client, scope, queue, None)
    }

    pub(crate) fn losing(
        env: Env,
        client: Arc<dyn Client>,
        scope: Scope,
        queue: QueueKind,
        loss: Option<Arc<Loss>>,
    ) -> Arc<Informer> {
        let fifo: Box<dyn Fifo> = match queue {
            QueueKind::Real => Box::<RealFifo>::default(),
            QueueKind::Delta => Box::<DeltaFifo>::default(),
        };
        Arc::new(Informer {
            env,
            client,
            scope,
            fifo: Mutex::new(fifo),
            store: Indexer::default(),
            handlers: Mutex::default(),
            next_id: AtomicU64::new(0),
            synced: watch::Sender::new(false),
            progress: watch::Sender::new(0),
            asked: Notify::new(),
            loss,
        })
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }
    pub fn store(&self) -> &Indexer {
        &self.store
    }
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }
    pub async fn synced(&self) {
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }
    /// Everything up to this revision is in the store, and handlers were told.
    pub fn revision(&self) -> Revision {
        Revision(*self.progress.borrow())
    }
    pub async fn reached(&self, revision: Revision) {
        let _ = self.progress.subscribe().wait_for(|seen| *seen >= revision.0).await;
    }

    /// A handler is told at once of everything known, then of every change. `resync`: and of everything again, that often.
    pub fn add_handler(&self, resync: Option<Duration>, handler: Handler) -> Registration {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut handlers = self.handlers.lock();
        for obj in self.store.list() {
            handler(&InformerEvent::Added { obj: &obj, initial: true });
        }
        let sooner = self.loss.as_ref().map_or(1, |loss| loss.sooner);
        let resync = resync.filter(|period| !period.is_zero()).map(|period| {
            let period = (period / sooner).max(LEAST_RESYNC);
            (period, self.env.monotonic() + period)
        });
        handlers.push(Registered { id, handler, resync, syncing: false });
        drop(handlers);
        if resync.is_some() {
            self.asked.notify_one();
        }
        Registration { id, synced: self.synced.subscribe() }
    }

    /// A handler that is added by hand and resyncs as often as those of a [`Controller`](crate::Controller).
    pub fn add_resyncing_handler(&self, handler: Handler) -> Registration {
        self.add_handler(Trigger::default().resync(&self.env), handler)
    }

    /// After this the handler is not called any more; `false`: it was not there. Not for handlers to call: they run under
    /// the lock this takes.
    pub fn remove_handler(&self, registration: &Registration) -> bool {
        let mut handlers = self.handlers.lock();
        let before = handlers.len();
        handlers.retain(|registered| registered.id != registration.id);
        handlers.len() < before
    }

    /// Keeps the store in step until stopped.
    pub fn start(self: &Arc<Informer>, stop: Stop) -> Vec<JoinHandle<()>> {
        let reflector = Reflector {
            env: self.env.clone(),
            client: self.client.clone(),
            scope: self.scope.clone(),
            stop: stop.clone(),
        };
        let ends = Ends(self.clone());
        let reflecting = async move { reflector.run(move |deltas| ends.0.feed(deltas)).await };
        vec![self.env.spawn("informer", reflecting), self.env.spawn("resync", resync(self.clone(), stop))]
    }

    /// Queues what was learned and applies all that waits.
    fn feed(&self, deltas: &mut Vec<Delta>) {
        let mut fifo = self.fifo.lock();
        for delta in deltas.drain(..) {
            fifo.push(delta, &self.store);
        }
        let mut upto = None;
        loop {
            let initial = !fifo.has_synced();
            let batch = fifo.pop();
            if batch.is_empty() {
                break;
            }
            upto = upto.max(self.apply(batch, initial));
        }
        // Only now: a queue may apply a later change of one key before an earlier one of another.
        if let Some(upto) = upto {
            self.store.saw(upto);
            let seen = self.store.revision().0;
            self.progress.send_if_modified(|told| std::mem::replace(told, seen) != seen);
        }
        if fifo.has_synced() {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }

    /// One transaction: the store first, then the handlers. Tells the revision it reached.
    fn apply(&self, batch: Vec<Delta>, initial: bool) -> Option<Revision> {
        let handlers = self.handlers.lock();
        let mut told: Vec<Told> = Vec::with_capacity(batch.len());
        let mut upto = None;
        for delta in &batch {
            match delta {
                Delta::Added(obj) | Delta::Updated(obj) | Delta::Listed(obj) => self.store.prepare(obj),
                Delta::Replaced { items, .. } => items.iter().for_each(|obj| self.store.prepare(obj)),
                _ => {}
            }
        }
        let mut store = self.store.begin();
        for delta in batch {
            match delta {
                Delta::Added(obj) | Delta::Updated(obj) | Delta::Listed(obj) => {
                    upto = upto.max(Some(obj.revision()));
                    Told::put(&mut told, &mut store, obj);
                }
                Delta::Deleted { key, obj, unknown } => {
                    if let Some(obj) = &obj {
                        upto = upto.max(Some(obj.revision()));
                    }
                    // Differs from client-go: who never heard of an object is not told that it is gone.
                    let Some(old) = store.remove(key.as_str()) else { continue };
                    // Handlers get the final state where it is known.
                    told.push(Told { old: obj.or(Some(old)), unknown, ..Told::default() });
                }
                Delta::Replaced { items, revision } => {
                    let listed: BTreeSet<&str> = items.iter().map(|obj| obj.path()).collect();
                    let gone: Vec<Arc<Obj>> =
                        store.objects().filter(|obj| !listed.contains(obj.path())).cloned().collect();
                    for obj in gone {
                        told.push(Told { old: store.remove(obj.path()), unknown: true, ..Told::default() });
                    }
                    for obj in items {
                        Told::put(&mut told, &mut store, obj);
                    }
                    store.restart_at(revision);
                    upto = Some(revision);
                }
                Delta::Sync => told.extend(store.objects().map(Told::again)),
                // Where it was deleted or changed meanwhile there is nothing to tell again.
                Delta::Synced(obj) => told.extend(store.get(obj.path()).map(Told::again)),
                Delta::Bookmark(revision) => upto = upto.max(Some(revision)),
            }
        }
        drop(store);
        for Told { old, new, unknown, again } in &told {
            let event = match (old, new) {
                (None, Some(obj)) => InformerEvent::Added { obj, initial },
                (Some(old), Some(new)) => {
                    InformerEvent::Updated { old, new, sync: old.revision() == new.revision() }
                }
                (Some(obj), None) => InformerEvent::Deleted { obj, unknown: *unknown },
                (None, None) => continue,
            };
            let sync = matches!(event, InformerEvent::Updated { sync: true, .. });
            if !initial && !sync && self.loss.as_ref().is_some_and(|loss| (loss.lost)(&event)) {
                continue;
            }
            for Registered { handler, resync, syncing, .. } in handlers.iter() {
                // A resync is for those whose time has come; a relist that finds nothing new, for all who resync.
                let wanted = if *again { *syncing } else { !sync || resync.is_some() };
                // One handler's bug must not freeze what all the others see.
                if wanted && catch_unwind(AssertUnwindSafe(|| handler(&event))).is_err() {
                    let resource = &*self.scope.resource.plural;
                    tracing::error!(resource, "a handler panicked; this is a bug");
                }
            }
        }
        upto
    }
}

/// The informer will learn nothing more. Its handlers go: they may hold what holds the informer.
struct Ends(Arc<Informer>);

impl Drop for Ends {
    fn drop(&mut self) {
        let handlers = std::mem::take(&mut *self.0.handlers.lock());
        drop(handlers);
    }
}

/// One object's part of a transaction.
#[derive(Default)]
struct Told {
    old: Option<Arc<Obj>>,
    new: Option<Arc<Obj>>,
    unknown: bool,
    /// Nothing happened: a resync.
    again: bool,
}

impl Told {
    /// Differs from client-go, which tells of another object under the name of one that is gone as of an update. Who counts what
    /// comes and goes would wait for both for ever, and every handler would have to think of it.
    fn put(told: &mut Vec<Told>, store: &mut Transaction<'_>, obj: Arc<Obj>) {
        let mut old = store.put(obj.clone());
        if let Some(replaced) = old.take_if(|old| old.uid() != obj.uid()) {
            told.push(Told { old: Some(replaced), unknown: true, ..Told::default() });
        }
        told.push(Told { old, new: Some(obj), ..Told::default() });
    }

    fn again(obj: &Arc<Obj>) -> Told {
        Told { old: Some(obj.clone()), new: Some(obj.clone()), unknown: false, again: true }
    }
}

/// Tells handlers that asked for it everything again, each in its own period.
async fn resync(informer: Arc<Informer>, stop: Stop) {
    loop {
        let now = informer.env.monotonic();
        let (mut any, mut next) = (false, None::<Instant>);
        for Registered { resync, syncing, .. } in informer.handlers.lock().iter_mut() {
            let Some((period, due)) = resync else { continue };
            *syncing = *due <= now;
            if *syncing {
                (*due, any) = (now + *period, true);
            }
            next = Some(next.map_or(*due, |next| next.min(*due)));
        }
        if any {
            informer.feed(&mut vec![Delta::Sync]);
        }
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            () = informer.asked.notified() => {}
            () = informer.env.sleep(next.map_or(Duration::ZERO, |next| next - now)), if next.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests;
