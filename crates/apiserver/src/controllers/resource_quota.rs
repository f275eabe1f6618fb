//! The status of ResourceQuotas: the limits of the spec, and the usage once objects are deleted or shrink.
//!
//! A create is charged in its own commit (`admission::resource_quota`). This controller recalculates the usage when that is not
//! enough: for a new or changed quota, an object that is deleted or uses less, and at every resync.
//! The usage is written only if the quota is unchanged. A charge made meanwhile changes the quota, so the write fails and the
//! calculation starts again: it never undoes a charge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use admission::resource_quota::{Evaluator, Measured, Quota, Selector, evaluators};
use catalog::StorageId;
use codec::json;
use object::{Obj, Status, Value};
use store::{Key, Revision};
use table::{EventKind, Table, WatchEvent};

use crate::api::Api;
use crate::loopback::{GroupResource, LoopbackClient};
use crate::table_watcher::TableWatcher;

const IDENTITY: &str = "resourcequota-controller";
const QUOTAS: GroupResource = ("", "resourcequotas");
/// Upstream's resync, for what only time changes (pods past their grace period).
const RESYNC: Duration = Duration::from_secs(300);
/// A write that did not see a new quota yet may be committed right after its first calculation.
const SETTLE: Duration = Duration::from_secs(1);
/// Between rounds, so that many deletions are handled together.
const PAUSE: Duration = Duration::from_millis(10);
/// Attempts per round when charges come in between.
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
                        "could not calculate the usage of a quota"
                    );
                    retry.insert(key);
                }
            }
        }
        let needed = controller.needed();
        if needed != watched {
            // Changes between the two watchers are not seen: recalculate everything once more.
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
    /// The quotas by key: which objects they cover.
    tracked: BTreeMap<Key, TrackedQuota>,
    /// The usage of objects at their last calculation; only in namespaces with quotas.
    measured: BTreeMap<Key, (Revision, Arc<Measured>)>,
}

struct TrackedQuota {
    namespace: String,
    selectors: Vec<Selector>,
    counted: Vec<(StorageId, Evaluator)>,
}

impl QuotaController<'_> {
    /// Watches quotas, and the resources they cover.
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

    /// Adds the quotas that must be recalculated after this event.
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
            // Most changes of a pod's status do not change its usage.
            let before = self.measured.get(obj.key()).cloned();
            let now = self.client.api().registry().env().now_seconds() as i64;
            let measured =
                measure(&mut self.measured, now, evaluator, obj, self.client.api().registry().table());
            // A new object was charged when it was created.
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
        // Our own writes, and charges, do not change what is covered.
        if !same || quota.is_unsettled(catalog) {
            due.insert(obj.key().into());
        }
        let tracked =
            TrackedQuota { namespace: obj.namespace().to_owned(), selectors: quota.selectors, counted };
        self.tracked.insert(obj.key().into(), tracked);
    }

    /// Recalculates one quota; true if it should be checked again soon.
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
            quota.settle(registry.table(), &mut |evaluator, obj| {
                measure(kept, now, evaluator, obj, registry.table())
            })?;
            if quota.hard == before.hard && quota.used == before.used {
                return Ok(false);
            }
            // Guarded by the resourceVersion in the tree.
            match self.client.update_status(QUOTAS, quota.into_tree()).await {
                Ok(()) => return Ok(first),
                Err(status) if status.code == 404 => return Ok(false),
                Err(status) if status.code == 409 => {
                    // Charges came in between. Queueing for the key with them guarantees progress.
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

/// The usage of an object, measured once for each of its versions.
fn measure(
    kept: &mut BTreeMap<Key, (Revision, Arc<Measured>)>,
    now: i64,
    evaluator: &Evaluator,
    obj: &Arc<Obj>,
    table: &Table,
) -> Arc<Measured> {
    if let Some((revision, measured)) = kept.get(obj.key())
        && *revision == obj.revision()
        && measured.until.is_none_or(|until| now <= until)
    {
        return measured.clone();
    }
    // A plain count does not depend on the content.
    if !evaluator.shrinks() {
        return Arc::new(evaluator.measure(&Value::Null, now));
    }
    let measured = Arc::new(evaluator.measure_in(&tree(obj), now, table));
    kept.insert(obj.key().into(), (obj.revision(), measured.clone()));
    measured
}

fn tree(obj: &Obj) -> Value {
    json::parse(obj.body(), None).unwrap_or_else(|_| Value::map())
}
