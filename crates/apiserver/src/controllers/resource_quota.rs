//! Keeps the status of ResourceQuotas right: the limits the spec names, and what is used once objects go or shrink.
//!
//! What is created is charged in its own commit (`admission::resource_quota`). Here everything is counted again when
//! that is not enough: a new or changed quota, an object that vanished or uses less, and now and then.
//! A count is written only over the very quota it started from. A charge made meanwhile changed the quota, so the
//! write fails and the count starts again: it never undoes a charge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use admission::resource_quota::{Evaluator, Measured, Quota, Selector, evaluators};
use catalog::StorageId;
use codec::json;
use object::{Obj, Status, Value};
use store::{Key, Revision};
use table::{EventKind, WatchEvent};

use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient};
use crate::table_watcher::TableWatcher;

const IDENTITY: &str = "resourcequota-controller";
const QUOTAS: GroupResource = ("", "resourcequotas");
/// Upstream's resync: what only time changes (pods past their deletion) is seen then.
const RESYNC: Duration = Duration::from_secs(300);
/// A write that did not see a new quota yet may be committed right after it was first counted.
const SETTLE: Duration = Duration::from_secs(1);
/// Between rounds, so that many deletions are counted together.
const PAUSE: Duration = Duration::from_millis(10);
/// How often a count starts again in one round when charges come in between.
const TRIES: usize = 16;

/// Runs until shutdown.
pub async fn run(api: Arc<Api>) {
    let stored = api.registry().catalog().find_storage(QUOTAS.0, QUOTAS.1).map(|storage| storage.id);
    let Some(storage) = stored else { return };
    let client = LoopbackClient::for_controller(&api, IDENTITY);
    let mut controller =
        QuotaController { client, storage, tracked: BTreeMap::new(), measured: BTreeMap::new() };
    let mut watched: BTreeSet<StorageId> = BTreeSet::new();
    let mut watcher = controller.watcher(&watched);
    let (mut due, mut retry): (BTreeSet<Key>, BTreeSet<Key>) = Default::default();
    let env = api.registry().env().clone();
    let (mut counted_all, mut again_at) = (env.monotonic(), env.monotonic());
    loop {
        let Some(events) = watcher.next_events(Some(if retry.is_empty() { RESYNC } else { SETTLE })).await
        else {
            return;
        };
        let now = env.monotonic();
        if now >= again_at {
            due.append(&mut retry);
            again_at = now + SETTLE;
        }
        if now >= counted_all + RESYNC {
            counted_all = now;
            due.extend(controller.tracked.keys().cloned());
        }
        for event in &events {
            controller.observe(event, &mut due);
        }
        for key in std::mem::take(&mut due) {
            match controller.count(&key).await {
                Ok(true) => {
                    retry.insert(key);
                    again_at = env.monotonic() + SETTLE;
                }
                Ok(false) => {}
                Err(status) => {
                    tracing::warn!(
                        key = &*key,
                        error = status.message,
                        "could not count what a quota covers"
                    );
                    retry.insert(key);
                }
            }
        }
        let needed = controller.needed();
        if needed != watched {
            // What changed between the two is not seen as a change: count everything once more.
            watcher = controller.watcher(&needed);
            watched = needed;
            due.extend(controller.tracked.keys().cloned());
        }
        env.sleep(PAUSE).await;
    }
}

struct QuotaController<'a> {
    client: LoopbackClient<'a>,
    storage: StorageId,
    /// The quotas, by key: what decides what they count.
    tracked: BTreeMap<Key, TrackedQuota>,
    /// What objects used when they were last counted; only in namespaces with quotas.
    measured: BTreeMap<Key, (Revision, Arc<Measured>)>,
}

struct TrackedQuota {
    namespace: String,
    selectors: Vec<Selector>,
    counted: Vec<(StorageId, Evaluator)>,
}

impl QuotaController<'_> {
    /// Quotas, and the resources some quota counts.
    fn watcher(&self, watched: &BTreeSet<StorageId>) -> TableWatcher {
        let catalog = self.client.api().registry().catalog();
        let rows: Vec<_> = catalog.storages().iter().filter(|s| watched.contains(&s.id)).collect();
        let mut names: Vec<(&str, &str)> = vec![QUOTAS];
        names.extend(rows.iter().filter(|s| s.id != self.storage).map(|s| (&*s.group, &*s.plural)));
        TableWatcher::new(self.client.api(), &names)
    }

    fn needed(&self) -> BTreeSet<StorageId> {
        self.tracked.values().flat_map(|tracked| tracked.counted.iter().map(|(id, _)| *id)).collect()
    }

    /// Which quotas must be counted again after this change.
    fn observe(&mut self, event: &WatchEvent, due: &mut BTreeSet<Key>) {
        let (obj, gone) = (&event.obj, event.kind == EventKind::Deleted);
        let catalog = self.client.api().registry().catalog();
        let Some(storage) = catalog.storage_of_key(obj.key()).map(|storage| storage.id) else { return };
        if storage == self.storage {
            self.observe_quota(obj, gone, due);
        }
        let about: Vec<(&Key, &Evaluator)> = self
            .tracked
            .iter()
            .filter(|(_, tracked)| tracked.namespace == obj.namespace())
            .filter_map(|(key, tracked)| {
                Some((key, &tracked.counted.iter().find(|(id, _)| *id == storage)?.1))
            })
            .collect();
        let Some((_, evaluator)) = about.first() else { return };
        if gone {
            self.measured.remove(obj.key());
        } else {
            if !evaluator.shrinks() {
                return;
            }
            // Most changes of a pod's status change nothing here.
            let before = self.measured.get(obj.key()).cloned();
            let now = self.client.api().registry().env().now_seconds() as i64;
            let measured = measure(&mut self.measured, now, evaluator, obj);
            // And what is new was charged when it was created.
            let new = before.is_none() && event.kind == EventKind::Added;
            if new || before.is_some_and(|(_, before)| *before == *measured) {
                return;
            }
        }
        due.extend(about.into_iter().map(|(key, _)| key.clone()));
    }

    fn observe_quota(&mut self, obj: &Obj, gone: bool, due: &mut BTreeSet<Key>) {
        if gone {
            self.tracked.remove(obj.key());
            let kept: BTreeSet<&str> =
                self.tracked.values().map(|tracked| tracked.namespace.as_str()).collect();
            if !kept.contains(obj.namespace()) {
                let catalog = self.client.api().registry().catalog();
                let namespace = obj.namespace();
                self.measured.retain(|key, _| {
                    let storage = catalog.storage_of_key(key);
                    let rest = storage.and_then(|storage| key.strip_prefix(&*storage.prefix));
                    rest.and_then(|rest| rest.split('/').next()) != Some(namespace)
                });
            }
            return;
        }
        let quota = Quota::of(tree(obj));
        let catalog = &*self.client.api().registry().catalog();
        let counted = evaluators(catalog, &quota.wanted);
        let same = self.tracked.get(obj.key()).is_some_and(|tracked| tracked.selectors == quota.selectors);
        // Our own writes, and charges, change nothing that was counted.
        if !same || quota.is_unsettled(catalog) {
            due.insert(obj.key().into());
        }
        let tracked =
            TrackedQuota { namespace: obj.namespace().to_owned(), selectors: quota.selectors, counted };
        self.tracked.insert(obj.key().into(), tracked);
    }

    /// Counts for one quota; true when it should be looked at again soon.
    async fn count(&mut self, key: &Key) -> Result<bool, Status> {
        let (registry, storage) = (self.client.api().registry(), self.storage);
        let mut turn = None;
        for _ in 0..TRIES {
            let Some(obj) = registry.table().get(storage, key) else { return Ok(false) };
            let now = registry.env().now_seconds() as i64;
            let before = Quota::of(tree(&obj));
            let first = before.is_unsettled(&registry.catalog());
            let mut quota = before.clone();
            let kept = &mut self.measured;
            quota.settle(registry.table(), &mut |evaluator, obj| measure(kept, now, evaluator, obj))?;
            if quota.hard == before.hard && quota.used == before.used {
                return Ok(false);
            }
            // The tree names the version it was read at: that is the guard.
            match self.client.update_status(QUOTAS, quota.into_tree()).await {
                Ok(()) => return Ok(first),
                Err(status) if status.code == 404 => return Ok(false),
                Err(status) if status.code == 409 => {
                    // Charges came in between. In line with them it is our turn sooner or later.
                    if turn.is_none() {
                        turn = Some(registry.lock_contended(key).await);
                    }
                }
                Err(status) => return Err(status),
            }
        }
        Ok(true)
    }
}

/// What an object uses, measured at most once for each of its versions.
fn measure(
    kept: &mut BTreeMap<Key, (Revision, Arc<Measured>)>,
    now: i64,
    evaluator: &Evaluator,
    obj: &Arc<Obj>,
) -> Arc<Measured> {
    if let Some((revision, measured)) = kept.get(obj.key())
        && *revision == obj.revision()
        && measured.until.is_none_or(|until| now <= until)
    {
        return measured.clone();
    }
    // Plain counts look at nothing inside.
    if !evaluator.shrinks() {
        return Arc::new(evaluator.measure(&Value::Null, now));
    }
    let measured = Arc::new(evaluator.measure(&tree(obj), now));
    kept.insert(obj.key().into(), (obj.revision(), measured.clone()));
    measured
}

fn tree(obj: &Obj) -> Value {
    json::parse(obj.body(), None).unwrap_or_else(|_| Value::map())
}
