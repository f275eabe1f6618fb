//! The garbage collector: what lost its last owner goes; owners wait for their dependents, or let go of them.
//!
//! ```text
//! informers of every kind ── Graph (one lock, pure) ──┬── attempt to delete ──> is it there? are its owners? ── keep, let go, delete
//!                                                     └── attempt to orphan ──> dependents let go ── finalizer off
//! ```
//! The graph only says whom to look at. Whether somebody exists is always asked of the server, right before acting.

mod absent;
mod calls;
mod graph;
mod identity;
mod kinds;
mod monitors;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use client::Revision;
use futures_util::future::BoxFuture;
use object::Obj;
use parking_lot::Mutex;
use runtime::owners::{Owner, owners_of};
use runtime::queue::{LOW, NORMAL};
use runtime::{
    Action, Cause, Controller, Failure, InformerEvent, Key, ObjectRef, Reconcile, ReconcileRequest, Recorder,
    Severity, WorkQueue, batch,
};
use tokio::task::JoinHandle;

use crate::Context;
use calls::{Calls, Located, is_gone};
use graph::{FOREGROUND, Graph, Look, ORPHAN, Stray, WorkItems, finalizers};
use identity::{Identity, Uid};
use kinds::{KindId, Mapping, WatchedKind};
use monitors::Monitors;
use plan::{Decision, OwnerState};

/// Dependents that are orphaned at once, of one owner.
const ORPHANED_AT_ONCE: usize = 50;

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let (env, workers) = (&context.env, context.settings.workers("concurrent-gc-syncs"));
    let client = context.clients.controller("generic-garbage-collector");
    let (recorder, events) =
        Recorder::start(env, client.clone(), "garbage-collector-controller", context.stop.clone());
    let delete =
        Controller::new(env, "garbage_collector_attempt_to_delete").workers(workers).max_retries(None);
    let orphan =
        Controller::new(env, "garbage_collector_attempt_to_orphan").workers(workers).max_retries(None);
    let collector = Arc::new(Collector {
        graph: Mutex::default(),
        calls: Calls { env: env.clone(), client },
        recorder,
        delete: delete.queue(),
        orphan: orphan.queue(),
        monitors: Monitors::new(context.informers.clone()),
    });
    collector.sync_monitors();
    let stop = &context.stop;
    let mut tasks = vec![events];
    tasks.push(env.spawn("garbage collector monitors", collector.clone().follow_catalog(stop.clone())));
    tasks.extend(delete.start(&context.controllers, Arc::new(Deleter(collector.clone())), stop.clone()));
    tasks.extend(orphan.start(&context.controllers, Arc::new(Orphaner(collector)), stop.clone()));
    tasks
}

struct Collector {
    /// Guards the graph: held for one change, or one look.
    graph: Mutex<Graph>,
    calls: Calls,
    recorder: Recorder,
    delete: Arc<WorkQueue<Key>>,
    orphan: Arc<WorkQueue<Key>>,
    monitors: Monitors,
}

/// A worker of the first queue: looks whether an object has to go, key by key (a key is a uid).
struct Deleter(Arc<Collector>);
/// A worker of the second queue: owners that let go of their dependents.
struct Orphaner(Arc<Collector>);

/// After a reconcile that went well.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// The server has it; whether an informer has seen it is another question.
    Exists,
    /// There is nothing more to learn by asking again.
    Known,
}

impl Reconcile for Deleter {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            self.0.monitors_synced().await;
            let uid = Uid::read(request.key.as_str());
            if self.0.attempt_to_delete(&uid, &request).await? == Outcome::Known {
                return Ok(Action::AwaitChange);
            }
            // One added and removed while a watch was down is never seen: it must be asked for again.
            let unseen = self.0.graph.lock().look(&uid).filter(|node| !node.observed);
            match unseen {
                Some(node) => Err(Failure::Other(format!("{} was not seen yet", node.identity))),
                None => Ok(Action::AwaitChange),
            }
        })
    }
}

impl Reconcile for Orphaner {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            self.0.monitors_synced().await;
            self.0.attempt_to_orphan(&Uid::read(request.key.as_str()), &request).await?;
            Ok(Action::AwaitChange)
        })
    }
}

impl Collector {
    fn changed(&self, kind: KindId, watched: &WatchedKind, event: &InformerEvent<'_>) {
        let mut wanted = WorkItems::default();
        if let InformerEvent::Updated { new, sync: true, .. } = event
            && self.misses_an_owner(new)
        {
            wanted.delete.push(Uid::read(new.uid()));
        }
        let (what, priority) = {
            let mut graph = self.graph.lock();
            match event {
                InformerEvent::Added { obj, initial } => {
                    graph.seen(kind, obj, &mut wanted);
                    ("added", if *initial { LOW } else { NORMAL })
                }
                InformerEvent::Updated { new, sync, .. } => {
                    graph.seen(kind, new, &mut wanted);
                    if *sync { ("resync", LOW) } else { ("updated", NORMAL) }
                }
                InformerEvent::Deleted { obj, .. } => {
                    graph.gone(kind, obj, &mut wanted);
                    ("deleted", NORMAL)
                }
            }
        };
        self.enqueue(wanted, priority, || {
            let cause = Cause::new(&watched.resource, event.obj(), what);
            // Revisions of another server are not those of our log.
            let revision = if watched.aggregated { Revision(0) } else { cause.revision };
            Some(Cause { revision, ..cause })
        });
    }

    /// The server knows nobody of this identity.
    fn absent(&self, identity: &Identity) {
        let mut wanted = WorkItems::default();
        self.graph.lock().absent(identity, &mut wanted);
        self.enqueue(wanted, NORMAL, || None);
    }

    fn enqueue(&self, wanted: WorkItems, priority: i32, cause: impl Fn() -> Option<Cause>) {
        for uid in wanted.delete {
            self.delete.add(key(&uid), priority, cause());
        }
        for uid in wanted.delete_later {
            self.delete.retry(key(&uid));
        }
        for uid in wanted.orphan {
            self.orphan.add(key(&uid), priority, cause());
        }
        for stray in wanted.strays {
            self.report(stray);
        }
    }

    fn report(&self, Stray { dependent, owner }: Stray) {
        let message =
            format!("ownerRef {owner} does not exist in namespace {}", object::quote(&dependent.namespace));
        let about = ObjectRef {
            api_version: dependent.api_version,
            kind: dependent.kind,
            namespace: dependent.namespace,
            name: dependent.name,
            uid: dependent.uid,
            resource_version: String::new(),
            field_path: String::new(),
        };
        self.recorder.event_on(about, Severity::Warning, "OwnerRefInvalidNamespace", message);
    }

    async fn attempt_to_delete(&self, uid: &Uid, request: &ReconcileRequest<'_>) -> Result<Outcome, Failure> {
        let Some(node) = self.graph.lock().look(uid) else { return Ok(Outcome::Known) };
        let identity = &node.identity;
        // It is on its way, and its dependents are looked at when it is gone.
        if node.being_deleted && !node.deleting_dependents {
            return Ok(Outcome::Known);
        }
        let Located::At(at) = self.calls.locate(identity)? else { return Ok(Outcome::Known) };
        let Some(live) = self.calls.live(&at, identity).await? else {
            request.plan(|| format!("{identity} is not there"));
            self.absent(identity);
            return Ok(Outcome::Known);
        };
        // The graph went on while the server was asked.
        let Some(now) = self.graph.lock().look(uid) else { return Ok(Outcome::Known) };
        if now.deleting_dependents {
            self.wait_for_dependents(uid, &at, &now, &live, request).await?;
            return Ok(Outcome::Exists);
        }
        let owners = owners_of(&live);
        if owners.is_empty() {
            return Ok(Outcome::Exists);
        }
        let Some(states) = self.owner_states(identity, &owners).await? else { return Ok(Outcome::Known) };
        // Dependents that came while the server was asked count too: whether they block is decided now.
        let Some(now) = self.graph.lock().look(uid) else { return Ok(Outcome::Known) };
        let circle = || self.graph.lock().has_waiting_dependent(uid);
        let step = plan::decide(&states, now.dependents, circle, &finalizers(&live));
        request.plan(|| format!("{identity}: {step:?}"));
        match step {
            Decision::Keep => {}
            Decision::LetGo(owners) => self.calls.let_go(&at, identity, &owners).await?,
            Decision::Delete { propagation, unblock } => {
                let live = if unblock { self.calls.unblock(&at, identity, &live).await? } else { live };
                if !self.calls.delete(&at, identity, &live, propagation).await? {
                    self.absent(identity);
                    return Ok(Outcome::Known);
                }
            }
        }
        Ok(Outcome::Exists)
    }

    /// What became of each owner; `None`: that can never be known.
    async fn owner_states(
        &self,
        dependent: &Identity,
        owners: &[Owner],
    ) -> Result<Option<Vec<(String, OwnerState)>>, Failure> {
        let mut states = Vec::with_capacity(owners.len());
        for owner in owners {
            let Some(state) = self.owner_state(dependent, owner).await? else { return Ok(None) };
            states.push((owner.uid.clone(), state));
        }
        Ok(Some(states))
    }

    async fn owner_state(&self, dependent: &Identity, owner: &Owner) -> Result<Option<OwnerState>, Failure> {
        let mut identity = Identity::referred(owner, "");
        let known_absent = {
            let mut graph = self.graph.lock();
            let absent = graph.absent_owners();
            absent.has(&identity) || {
                identity.namespace.clone_from(&dependent.namespace);
                absent.has(&identity)
            }
        };
        if known_absent {
            return Ok(Some(OwnerState::Dangling));
        }
        let Located::At(at) = self.calls.locate(&identity)? else { return Ok(None) };
        if !at.namespaced {
            identity.namespace.clear();
        }
        Ok(Some(match self.calls.live(&at, &identity).await? {
            None => {
                self.graph.lock().absent_owners().add(identity);
                OwnerState::Dangling
            }
            Some(live) if live.deleting() && has_finalizer(&live, FOREGROUND) => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        }))
    }

    /// An owner that is deleted in foreground: gone when nothing blocks it.
    async fn wait_for_dependents(
        &self,
        uid: &Uid,
        at: &Mapping,
        node: &Look,
        live: &Obj,
        request: &ReconcileRequest<'_>,
    ) -> Result<(), Failure> {
        let identity = &node.identity;
        request.plan(|| format!("{identity}: {} dependents block it", node.blocking));
        if node.blocking == 0 {
            // One that comes at the last moment is looked at by itself, and wakes the owner when it is gone.
            let alone = || self.graph.lock().look(uid).is_none_or(|now| now.blocking == 0);
            self.calls.remove_finalizer(at, identity, FOREGROUND, &alone).await?;
            return Ok(());
        }
        let (blocking, circle) = {
            let graph = self.graph.lock();
            (graph.blocking_dependents(uid), graph.waits_for_itself(uid))
        };
        // Differs from upstream, where a circle whose members are all deleted in foreground waits for ever.
        if circle && owners_of(live).iter().any(|owner| owner.block_owner_deletion) {
            self.calls.unblock(at, identity, live).await?;
        }
        for dependent in blocking {
            self.delete.add(key(&dependent), NORMAL, None);
        }
        Ok(())
    }

    async fn attempt_to_orphan(&self, uid: &Uid, request: &ReconcileRequest<'_>) -> Result<(), Failure> {
        let (node, dependents) = {
            let graph = self.graph.lock();
            let Some(node) = graph.look(uid) else { return Ok(()) };
            (node, graph.dependents(uid))
        };
        let owner = &node.identity;
        request.plan(|| format!("{owner}: {} dependents let go of it", dependents.len()));
        let Located::At(at) = self.calls.locate(owner)? else { return Ok(()) };
        let gone = [owner.uid.clone()];
        let one = |n: usize| -> BoxFuture<'_, Result<(), Failure>> {
            let (dependent, gone) = (&dependents[n], &gone);
            Box::pin(async move {
                let Located::At(at) = self.calls.locate(dependent)? else { return Ok(()) };
                match self.calls.let_go(&at, dependent, gone).await {
                    Err(status) if !is_gone(&status) => {
                        Err(Failure::Other(format!("orphaning {dependent} failed, {}", status.message)))
                    }
                    _ => Ok(()),
                }
            })
        };
        if let Some(failure) = batch::all(dependents.len(), ORPHANED_AT_ONCE, &one).await {
            return Err(failure);
        }
        // Those who let go may still be in the graph; somebody else there came while they did.
        let known: BTreeSet<&Identity> = dependents.iter().collect();
        let alone = || {
            let now = self.graph.lock().dependents(uid);
            now.iter().all(|dependent| known.contains(dependent))
        };
        if !self.calls.remove_finalizer(&at, owner, ORPHAN, &alone).await? {
            return Err(Failure::Other(format!("{owner} got dependents while it let go of others")));
        }
        Ok(())
    }
}

fn key(uid: &Uid) -> Key {
    Key::new("", &uid.to_string())
}

fn has_finalizer(obj: &Obj, finalizer: &str) -> bool {
    finalizers(obj).iter().any(|f| f == finalizer)
}
