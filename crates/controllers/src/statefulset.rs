//! StatefulSets: pods with names, numbers and claims of their own, made and replaced in order.
//!
//! ```text
//! pods ───┐ handlers: wake the owner (or the set an orphan is named after)
//! claims ─┤           wake who waits for an old claim to go
//! sets ───┴──> key ──> adopt revisions ── pods that changed, or claim all ── which revision is this? ── plan ── steps ── status ── trim
//! ```

mod apply;
mod claims;
mod identity;
mod members;
mod plan;
mod retention;
mod revisions;
mod set;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use client::resources::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use env::Env;
use futures_util::future::BoxFuture;
use object::Obj;
use parking_lot::Mutex;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, OwnWrites, Reconcile, ReconcileRequest,
    Recorder, owners,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::changed::{Changed, Parts};
use crate::claim::{candidates_among, matches};
use crate::history::{History, Restorer, Revision, surplus};
use crate::pods::{Pod, next_available};
use identity::{REVISION, parent_and_ordinal, sets_of_claim};
use members::{Members, Rules, part_of_pod, parts_of_claim, pod_part};
use owners::Claimant;
use plan::Snapshot;
use revisions::Same;
use set::StatefulSet;

const NAME: &str = "statefulset-controller";

/// Pods nobody controls, by the set they are named after: no other can adopt them.
const NAMED_ORPHANS: &str = "orphans-by-set";

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(NAME, &mut tasks);
    let of = |resource| context.informers.of(resource);
    let (sets, pods, claims) = (of(&STATEFUL_SETS), of(&PODS), of(&PERSISTENT_VOLUME_CLAIMS));
    pods.store().add_index(NAMED_ORPHANS, |pod| match parent_and_ordinal(pod.name()) {
        Some((set, _)) if owners::controller_of(pod).is_none() => vec![format!("{}/{set}", pod.namespace())],
        _ => Vec::new(),
    });
    let history = History::new(context, client.clone());
    let sync = Arc::new(Sync {
        env: context.env.clone(),
        client,
        recorder,
        writes: OwnWrites::new(&context.env, &[&sets, &pods, &claims, history.informer()]),
        sets: sets.clone(),
        pods: pods.clone(),
        claims: claims.clone(),
        restorer: Restorer::new(context, &STATEFUL_SETS),
        same: Mutex::default(),
        known: Mutex::default(),
        changed: Changed::default(),
        history,
    });
    let (of_set, of_pod, of_claim) = (sync.clone(), sync.clone(), sync.clone());
    let controller = Controller::new(&context.env, "statefulset")
        .workers(context.settings.workers("concurrent-statefulset-syncs"))
        .max_retries(None)
        .watches(&sets, move |event| of_set.set_changed(event))
        .watches(&pods, move |event| of_pod.pod_changed(event))
        .watches(&claims, move |event| of_claim.claim_changed(event))
        .reads(sync.history.informer());
    tasks.extend(controller.start(&context.controllers, sync, context.stop.clone()));
    tasks
}

struct Sync {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    sets: Arc<Informer>,
    pods: Arc<Informer>,
    claims: Arc<Informer>,
    history: History,
    restorer: Restorer,
    writes: OwnWrites,
    /// Guards which sets are known to be at a revision that says it in other bytes; one entry for each such set.
    same: Mutex<BTreeMap<Key, Same>>,
    /// Guards what was seen of each set's pods in its last reconcile, if that went well; taken for a few instructions.
    known: Mutex<BTreeMap<Key, Known>>,
    /// Pods and claims of each set that changed since it was last looked at.
    changed: Changed,
}

/// The pods of a set, and what they were judged by.
struct Known {
    basis: Basis,
    members: Members,
}

/// While it stays the same, pods and claims that do not change mean the same to the set.
#[derive(PartialEq, Eq)]
struct Basis {
    uid: String,
    generation: i64,
    deleting: bool,
}

impl Reconcile for Sync {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.sync(request))
    }
}

impl Sync {
    async fn sync(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        let key = request.key;
        self.writes.seen(key).await?;
        let Some(obj) = self.sets.store().get_key(key) else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        let set = StatefulSet::of(&obj);
        if let Err(why) = &set.selector {
            tracing::warn!(set = %key, why, "invalid selector, ignoring the set");
            return Ok(Action::AwaitChange);
        }
        let (resource, api_version, kind) = (&STATEFUL_SETS, "apps/v1", "StatefulSet");
        let claimant = Claimant { resource, api_version, kind, owner: &obj, finalizer: None };
        let revisions = self.adopted_revisions(key, &claimant, &set).await?;
        let known = self.look(key, &claimant, &set).await?;
        let action = self.act(&request, &obj, &set, &revisions, &known.members).await?;
        // Only now: after a failure everything is looked at.
        self.known.lock().insert(key.clone(), known);
        Ok(action)
    }

    /// The set's pods: as they were, with what changed of them, or all looked up anew.
    async fn look(&self, key: &Key, claimant: &Claimant<'_>, set: &StatefulSet) -> Result<Known, Failure> {
        let obj = claimant.owner;
        let basis = Basis { uid: obj.uid().to_owned(), generation: set.generation, deleting: obj.deleting() };
        // Taken before anything is read: what changes meanwhile is for the next time.
        let changed = self.changed.take(key);
        let known = self.known.lock().remove(key).filter(|known| known.basis == basis);
        let claim = |name: &str| self.claims.store().get(obj.namespace(), name);
        if let (Parts::Only(parts), Some(mut known)) = (changed, known) {
            let pod = |name: &str| self.pods.store().get(obj.namespace(), name);
            if known.members.update(&parts, &Rules { obj, set, claim: &claim }, &pod) {
                return Ok(known);
            }
        }
        let candidates = candidates_among(&self.pods, obj, &set.selector, NAMED_ORPHANS, key.as_str());
        let fits = |pod: &Obj| Rules { obj, set, claim: &claim }.means(pod);
        let decided = owners::decide(obj, candidates, fits);
        let mut wrote = |_, pod: &Obj| self.wrote_pod(key, pod);
        let pods = owners::apply(&*self.client, claimant, &PODS, decided, &mut wrote).await?;
        let members = Members::new(pods.into_iter().map(Pod::new), &Rules { obj, set, claim: &claim });
        Ok(Known { basis, members })
    }

    async fn act(
        &self,
        request: &ReconcileRequest<'_>,
        obj: &Obj,
        set: &StatefulSet,
        revisions: &[Revision],
        members: &Members,
    ) -> Result<Action, Failure> {
        let key = request.key;
        let Some(at) = self.revisions_of(key, obj, set, revisions).await? else {
            return Ok(Action::AwaitChange);
        };
        let now_nanos = self.env.now_nanos() as i128;
        let plan = plan::plan(&Snapshot {
            rules: Rules { obj, set, claim: &|name| self.claims.store().get(obj.namespace(), name) },
            members,
            current: at.current.name(),
            update: at.update.name(),
            collisions: at.collisions,
            now: (now_nanos / 1_000_000_000) as i64,
        });
        request.plan(|| plan.describe(obj.name()));
        let more = plan.more;
        let done = self.apply(key, obj, set, &at, plan).await;

        let lives = |name: &str| {
            name == at.current.name()
                || name == at.update.name()
                || members.pods().any(|pod| pod.obj.label(REVISION) == Some(name))
        };
        let mut trimmed = Ok(());
        for revision in surplus(revisions, set.history_limit, lives) {
            let deleted = self.history.delete(revision).await;
            trimmed = trimmed.and(deleted);
        }
        // What became of the pods matters more.
        let (status, is_stopped) = done?;
        trimmed?;
        // In a namespace that goes there is nothing more to do.
        if more && !is_stopped {
            return Ok(Action::Requeue(Duration::ZERO));
        }
        if set.min_ready_seconds > 0 && status.ready != status.available {
            return Ok(Action::Requeue(next_available(members.pods(), set.min_ready_seconds, now_nanos)));
        }
        Ok(Action::AwaitChange)
    }

    /// It is looked at again, whether or not the handlers hear of it.
    fn wrote_pod(&self, key: &Key, pod: &Obj) {
        self.writes.note(key, &PODS, pod);
        self.changed.note(key, &pod_part(pod.name()));
    }

    fn wrote_claim(&self, key: &Key, claim: &Obj) {
        self.writes.note(key, &PERSISTENT_VOLUME_CLAIMS, claim);
        parts_of_claim(claim).for_each(|(set, part)| self.changed.note(&set, &part));
    }

    fn forget(&self, key: &Key) {
        self.writes.forget(key);
        self.same.lock().remove(key);
        self.known.lock().remove(key);
        self.changed.forget(key);
    }

    fn set_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let key = Key::of(event.obj());
        // What handlers were never told of is found now.
        if matches!(event, InformerEvent::Updated { sync: true, .. }) {
            self.changed.forget(&key);
        }
        vec![key]
    }

    fn pod_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let (old, new) = match event {
            InformerEvent::Updated { sync: true, .. } => return Vec::new(),
            InformerEvent::Added { obj, .. } => (None, Some(*obj)),
            InformerEvent::Updated { old, new, .. } => (Some(*old), Some(*new)),
            InformerEvent::Deleted { obj, .. } => (Some(*obj), None),
        };
        for (set, part) in old.into_iter().chain(new).filter_map(|pod| part_of_pod(pod)) {
            self.changed.note(&set, &part);
        }
        let moved = old.filter(|old| new.is_none_or(|new| new.owners() != old.owners()));
        let mut keys: Vec<Key> = moved.and_then(|old| self.owner_of(old)).into_iter().collect();
        if let Some(new) = new {
            keys.extend(match owners::controller_of(new) {
                Some(owner) => self.resolve(new.namespace(), &owner),
                None => self.wanted_by(new, old.map(|old| &**old)),
            });
        }
        keys.dedup();
        keys
    }

    /// Differs from kube-controller-manager: there, nothing wakes a set that waits for an old claim of a pod's to go.
    fn claim_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        if !matches!(event, InformerEvent::Updated { sync: true, .. }) {
            parts_of_claim(event.obj()).for_each(|(set, part)| self.changed.note(&set, &part));
        }
        let InformerEvent::Deleted { obj: gone, .. } = event else { return Vec::new() };
        let known = sets_of_claim(gone.name()).filter_map(|(template, set)| {
            let set = self.sets.store().get(gone.namespace(), set)?;
            let has_template = StatefulSet::of(&set).claim_templates.iter().any(|name| name == template);
            has_template.then(|| Key::of(&set))
        });
        known.collect()
    }

    fn owner_of(&self, pod: &Obj) -> Option<Key> {
        self.resolve(pod.namespace(), &owners::controller_of(pod)?)
    }

    /// The set a reference means, if it is the very one.
    fn resolve(&self, namespace: &str, owner: &owners::Owner) -> Option<Key> {
        if owner.kind != "StatefulSet" {
            return None;
        }
        let set = self.sets.store().get(namespace, &owner.name)?;
        (set.uid() == owner.uid).then(|| Key::of(&set))
    }

    /// The set that would adopt an orphan, unless it would have done so before: only the one it is named after can.
    fn wanted_by(&self, orphan: &Obj, before: Option<&Obj>) -> Option<Key> {
        let (parent, _) = parent_and_ordinal(orphan.name())?;
        let set = self.sets.store().get(orphan.namespace(), parent)?;
        let selector = &StatefulSet::of(&set).selector;
        let wanted_before =
            |before: &Obj| owners::controller_of(before).is_none() && matches(selector, before);
        (matches(selector, orphan) && !before.is_some_and(wanted_before)).then(|| Key::of(&set))
    }
}
