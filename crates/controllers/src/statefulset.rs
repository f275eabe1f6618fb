//! StatefulSets: pods with names, numbers and claims of their own, made and replaced in order.
//!
//! ```text
//! pods ───┐ handlers: wake the owner (or the set an orphan is named after)
//! claims ─┤           wake who waits for an old claim to go
//! sets ───┴──> key ──> adopt revisions, claim pods ── which revision is this? ── plan ── steps ── status ── trim the history
//! ```

mod apply;
mod claims;
mod identity;
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
use crate::claim::{candidates_among, matches};
use crate::history::{History, Restorer, surplus};
use crate::pods::{Pod, next_available};
use identity::{REVISION, is_member, parent_and_ordinal, sets_of_claim};
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
            self.writes.forget(key);
            self.same.lock().remove(key);
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
        let candidates = candidates_among(&self.pods, &obj, &set.selector, NAMED_ORPHANS, key.as_str());
        let fits = |pod: &Obj| matches(&set.selector, pod) && is_member(&obj, pod);
        let decided = owners::decide(&obj, candidates, fits);
        let mut wrote = |_, pod: &Obj| self.writes.note(key, &PODS, pod);
        let pods = owners::apply(&*self.client, &claimant, &PODS, decided, &mut wrote).await?;
        let pods: Vec<Pod> = pods.into_iter().map(Pod::new).collect();

        let Some(at) = self.revisions_of(key, &obj, &set, &revisions).await? else {
            return Ok(Action::AwaitChange);
        };
        let now_nanos = self.env.now_nanos() as i128;
        let plan = plan::plan(&Snapshot {
            obj: &obj,
            set: &set,
            pods: &pods,
            current: at.current.name(),
            update: at.update.name(),
            collisions: at.collisions,
            claim: &|name| self.claims.store().get(obj.namespace(), name),
            now: (now_nanos / 1_000_000_000) as i64,
        });
        request.plan(|| plan.describe(obj.name()));
        let more = plan.more;
        let done = self.apply(key, &obj, &set, &at, plan).await;

        let lives = |name: &str| {
            name == at.current.name()
                || name == at.update.name()
                || pods.iter().any(|pod| pod.obj.label(REVISION) == Some(name))
        };
        let mut trimmed = Ok(());
        for revision in surplus(&revisions, set.history_limit, lives) {
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
            return Ok(Action::Requeue(next_available(&pods, set.min_ready_seconds, now_nanos)));
        }
        Ok(Action::AwaitChange)
    }

    fn set_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        vec![Key::of(event.obj())]
    }

    fn pod_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let (old, new) = match event {
            InformerEvent::Updated { sync: true, .. } => return Vec::new(),
            InformerEvent::Added { obj, .. } => (None, Some(*obj)),
            InformerEvent::Updated { old, new, .. } => (Some(*old), Some(*new)),
            InformerEvent::Deleted { obj, .. } => (Some(*obj), None),
        };
        let moved =
            old.filter(|old| new.is_none_or(|new| new.owners() != old.owners() || new.uid() != old.uid()));
        let mut keys: Vec<Key> = moved.and_then(|old| self.owner_of(old)).into_iter().collect();
        if let Some(new) = new {
            keys.extend(match owners::controller_of(new) {
                Some(owner) => self.resolve(new.namespace(), &owner),
                // Of another that had its name nobody knows whether it was wanted.
                None => self.wanted_by(new, old.filter(|old| old.uid() == new.uid()).map(|old| &**old)),
            });
        }
        keys.dedup();
        keys
    }

    /// Differs from kube-controller-manager: there, nothing wakes a set that waits for an old claim of a pod's to go.
    fn claim_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let gone = match event {
            InformerEvent::Deleted { obj, .. } => obj,
            InformerEvent::Updated { old, new, .. } if old.uid() != new.uid() => old,
            _ => return Vec::new(),
        };
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
