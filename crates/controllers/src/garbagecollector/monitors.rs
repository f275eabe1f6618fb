//! The informers that feed the graph, one for each kind that is served: started and stopped as resources come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use object::Obj;
use parking_lot::Mutex;
use runtime::owners::owners_of;
use runtime::{Informer, Informers, Registration, Stop};
use tokio::time::Instant;

use super::Collector;
use super::graph::WorkItems;
use super::kinds::{self, KindId, WatchedKind};

/// How often it is looked which resources are served; upstream's period.
const RESYNC: Duration = Duration::from_secs(30);
/// A resource that cannot be listed does not keep the collector from its work for longer than this.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);
/// Another server holds up the collection of everything else no longer than this, and only when its resource comes up.
const AGGREGATED_SYNC_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that cannot be asked may be back soon, and what it serves owns and is owned.
const STALE_RESYNC: Duration = Duration::from_secs(5);

pub struct Monitors {
    informers: Arc<Informers>,
    /// Guards the list; held for a look or a change of it.
    running: Mutex<Vec<Monitor>>,
    /// How many were ever added.
    added: AtomicU64,
    /// So many of them were waited for.
    synced: AtomicU64,
}

struct Monitor {
    id: KindId,
    kind: WatchedKind,
    informer: Arc<Informer>,
    registration: Registration,
    /// It is waited for until then.
    deadline: Instant,
}

impl Monitors {
    pub fn new(informers: Arc<Informers>) -> Monitors {
        Monitors { informers, running: Mutex::default(), added: AtomicU64::new(0), synced: AtomicU64::new(0) }
    }
}

impl Collector {
    /// Watches what is served now, and nothing else. Called from one place at a time.
    pub(super) fn sync_monitors(self: &Arc<Collector>) {
        let (client, running) = (&self.calls.client, &self.monitors.running);
        let synced =
            running.lock().iter().filter(|m| m.informer.has_synced()).map(|m| m.kind.clone()).collect();
        let synced: Vec<WatchedKind> = synced;
        let served = kinds::watched(&client.catalog(), &client.aggregated(), synced);
        let gone: Vec<Monitor> =
            running.lock().extract_if(.., |monitor| !served.contains(&monitor.kind)).collect();
        for Monitor { id, kind, informer, registration, .. } in gone {
            tracing::info!(
                resource = &*kind.resource.plural,
                group = &*kind.resource.group,
                "no longer watched"
            );
            informer.remove_handler(&registration);
            self.monitors.informers.stop(&kind.resource);
            let mut wanted = WorkItems::default();
            self.graph.lock().forget_kind(id, &mut wanted);
            self.enqueue(wanted, runtime::queue::NORMAL, || None);
        }
        for kind in served {
            if running.lock().iter().any(|monitor| monitor.kind == kind) {
                continue;
            }
            let id = self.graph.lock().add_kind(kind.clone());
            let informers = &self.monitors.informers;
            let (informer, timeout) = match kind.aggregated {
                true => (informers.metadata_of(&kind.resource), AGGREGATED_SYNC_TIMEOUT),
                false => (informers.of(&kind.resource), SYNC_TIMEOUT),
            };
            let (told, watched) = (self.clone(), kind.clone());
            let registration =
                informer.add_resyncing_handler(Box::new(move |event| told.changed(id, &watched, event)));
            let deadline = self.calls.env.monotonic() + timeout;
            running.lock().push(Monitor { id, kind, informer, registration, deadline });
            self.monitors.added.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether an owner is not in the cache of its kind, though the graph may not have heard that it went.
    pub(super) fn misses_an_owner(&self, obj: &Obj) -> bool {
        let owners = owners_of(obj);
        let running = self.monitors.running.lock();
        owners.iter().any(|owner| {
            let is_of = |monitor: &&Monitor| {
                *monitor.kind.kind == *owner.kind && *monitor.kind.resource.group == *owner.group()
            };
            let is_there = |monitor: &Monitor| {
                let held = |namespace| monitor.informer.store().get(namespace, &owner.name);
                [obj.namespace(), ""].into_iter().filter_map(held).any(|held| held.uid() == owner.uid)
            };
            running.iter().filter(is_of).any(|monitor| monitor.informer.has_synced() && !is_there(monitor))
        })
    }

    /// Keeps the monitors in step with what is served.
    pub(super) async fn follow_catalog(self: Arc<Collector>, stop: Stop) {
        loop {
            let stale = !self.calls.client.aggregated().stale.is_empty();
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = self.calls.env.sleep(if stale { STALE_RESYNC } else { RESYNC }) => {}
            }
            match self.calls.client.discover().await {
                Ok(_) => self.sync_monitors(),
                Err(status) => tracing::warn!(error = status.message, "cannot tell what is served now"),
            }
        }
    }

    /// Waits until the graph is whole, or until it is time to go on without the rest: a dependent nobody saw yet would not be orphaned.
    pub(super) async fn monitors_synced(&self) {
        let Monitors { running, added, synced, .. } = &self.monitors;
        loop {
            let upto = added.load(Ordering::Acquire);
            if synced.load(Ordering::Acquire) == upto {
                return;
            }
            let running: Vec<(Arc<Informer>, Instant)> =
                running.lock().iter().map(|m| (m.informer.clone(), m.deadline)).collect();
            for (informer, deadline) in running {
                let left = deadline.saturating_duration_since(self.calls.env.monotonic());
                tokio::select! {
                    biased;
                    () = informer.synced() => {}
                    () = self.calls.env.sleep(left) => {
                        let resource = &*informer.scope().resource.plural;
                        tracing::warn!(resource, "not synced yet, collecting garbage without it");
                    }
                }
            }
            synced.fetch_max(upto, Ordering::Release);
        }
    }
}
