//! One view of a resource for everybody in the process: a store to read, and handlers that are told what changes.
//!
//! In process the objects are the server's own; over HTTP they come through the same reflector. Handlers run one after
//! another, in the order things happened, on the informer's task: they put keys into queues and nothing else.

use std::sync::Arc;
use std::time::Duration;

use client::Client;
use env::Env;
use parking_lot::Mutex;
use store::Revision;
use table::Obj;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fifo::{Delta, DeltaFifo, Fifo, RealFifo};
use crate::reflector::{Reflector, Scope};
use crate::{Indexer, Key, Stop};

/// What a handler is told.
pub enum Notice<'a> {
    /// `initial`: it was there when the handler (or the informer) came.
    Added { obj: &'a Arc<Obj>, initial: bool },
    /// `sync`: nothing changed, the handler asked to be told now and then. Deleted and made again between two looks is
    /// one update, from one uid to another.
    Updated { old: &'a Arc<Obj>, new: &'a Arc<Obj>, sync: bool },
    /// `unknown`: the deletion itself was missed, this is the last state seen.
    Deleted { obj: &'a Arc<Obj>, unknown: bool },
}

impl<'a> Notice<'a> {
    /// The newest state told of.
    pub fn obj(&self) -> &'a Arc<Obj> {
        match self {
            Notice::Added { obj, .. } | Notice::Deleted { obj, .. } => obj,
            Notice::Updated { new, .. } => new,
        }
    }
}

pub type Handler = Box<dyn Fn(&Notice<'_>) + Send + Sync>;

/// Shorter periods are raised to this.
const LEAST_RESYNC: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    #[default]
    Real,
    Delta,
}

pub struct Informer {
    env: Env,
    client: Arc<dyn Client>,
    scope: Scope,
    queue: QueueKind,
    store: Indexer,
    /// Guards the handlers, and is held while they run: who comes late sees a whole state.
    handlers: Mutex<Vec<Registered>>,
    /// The first whole state was applied.
    synced: watch::Sender<bool>,
    /// Everything up to here was applied and told.
    progress: watch::Sender<u64>,
}

struct Registered {
    handler: Handler,
    resync: Option<(Duration, Instant)>,
}

impl Informer {
    pub fn new(env: Env, client: Arc<dyn Client>, scope: Scope, queue: QueueKind) -> Arc<Informer> {
        Arc::new(Informer {
            env,
            client,
            scope,
            queue,
            store: Indexer::default(),
            handlers: Mutex::default(),
            synced: watch::Sender::new(false),
            progress: watch::Sender::new(0),
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
    pub fn add_handler(&self, resync: Option<Duration>, handler: Handler) {
        let mut handlers = self.handlers.lock();
        for obj in self.store.list() {
            handler(&Notice::Added { obj: &obj, initial: true });
        }
        let resync = resync.filter(|period| !period.is_zero()).map(|period| {
            let period = period.max(LEAST_RESYNC);
            (period, self.env.monotonic() + period)
        });
        handlers.push(Registered { handler, resync });
    }

    /// Keeps the store in step until stopped.
    pub fn start(self: &Arc<Informer>, stop: Stop) -> Vec<JoinHandle<()>> {
        let reflector = Reflector {
            env: self.env.clone(),
            client: self.client.clone(),
            scope: self.scope.clone(),
            stop: stop.clone(),
        };
        let mut fifo: Box<dyn Fifo> = match self.queue {
            QueueKind::Real => Box::<RealFifo>::default(),
            QueueKind::Delta => Box::<DeltaFifo>::default(),
        };
        let informer = self.clone();
        let reflecting = async move {
            reflector
                .run(move |deltas| {
                    for delta in deltas.drain(..) {
                        fifo.push(delta, &informer.store);
                    }
                    loop {
                        let batch = fifo.pop();
                        if batch.is_empty() {
                            break;
                        }
                        informer.apply(batch);
                    }
                })
                .await;
        };
        vec![self.env.spawn("informer", reflecting), self.env.spawn("resync", resync(self.clone(), stop))]
    }

    /// One transaction: the store first, then the handlers.
    fn apply(&self, batch: Vec<Delta>) {
        let handlers = self.handlers.lock();
        let initial = !self.has_synced();
        let mut told: Vec<Told> = Vec::with_capacity(batch.len());
        let (mut upto, mut whole) = (Revision(0), false);
        for delta in batch {
            match delta {
                Delta::Added(obj) | Delta::Updated(obj) => {
                    upto = upto.max(obj.revision());
                    told.push(Told { old: self.store.put(obj.clone()), new: Some(obj), unknown: false });
                }
                Delta::Deleted { key, obj, unknown } => {
                    let old = self.store.remove(&key);
                    if let Some(obj) = &obj {
                        upto = upto.max(obj.revision());
                    }
                    // Handlers get the final state where it is known.
                    if let Some(last) = obj.or(old.clone()).filter(|_| old.is_some()) {
                        told.push(Told { old: Some(last), new: None, unknown });
                    }
                }
                Delta::Replaced { items, revision } => {
                    let listed: std::collections::BTreeSet<Key> =
                        items.iter().map(|obj| Key::of(obj)).collect();
                    let gone: Vec<Key> =
                        self.store.keys().into_iter().filter(|key| !listed.contains(key)).collect();
                    for key in gone {
                        told.push(Told { old: self.store.remove(&key), new: None, unknown: true });
                    }
                    for obj in items {
                        told.push(Told { old: self.store.put(obj.clone()), new: Some(obj), unknown: false });
                    }
                    (upto, whole) = (upto.max(revision), true);
                }
                Delta::Sync => {}
                Delta::Bookmark(revision) => (upto, whole) = (upto.max(revision), true),
            }
        }
        self.store.saw(upto);
        for Told { old, new, unknown } in &told {
            let notice = match (old, new) {
                (None, Some(obj)) => Notice::Added { obj, initial },
                (Some(old), Some(new)) => {
                    Notice::Updated { old, new, sync: old.revision() == new.revision() }
                }
                (Some(obj), None) => Notice::Deleted { obj, unknown: *unknown },
                (None, None) => continue,
            };
            for registered in handlers.iter() {
                let sync_only = matches!(notice, Notice::Updated { sync: true, .. });
                if !sync_only || registered.resync.is_some() {
                    (registered.handler)(&notice);
                }
            }
        }
        drop(handlers);
        self.progress.send_if_modified(|seen| {
            let later = upto.0 > *seen;
            *seen = (*seen).max(upto.0);
            later
        });
        if whole && initial {
            self.synced.send_replace(true);
        }
    }
}

/// One object's part of a transaction.
struct Told {
    old: Option<Arc<Obj>>,
    new: Option<Arc<Obj>>,
    unknown: bool,
}

/// Tells handlers that asked for it everything again, each in its own period.
async fn resync(informer: Arc<Informer>, stop: Stop) {
    loop {
        let now = informer.env.monotonic();
        let mut next = now + Duration::from_secs(3600);
        {
            let mut handlers = informer.handlers.lock();
            for Registered { handler, resync } in handlers.iter_mut() {
                let Some((period, due)) = resync else { continue };
                if *due <= now {
                    *due = now + *period;
                    for obj in informer.store.list() {
                        handler(&Notice::Updated { old: &obj, new: &obj, sync: true });
                    }
                }
                next = next.min(*due);
            }
        }
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            // Who adds a handler with a short period is heard soon enough.
            () = informer.env.sleep((next - now).min(Duration::from_secs(60))) => {}
        }
    }
}
