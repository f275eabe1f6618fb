//! A reconcile of one pod: decide under the lock, then write the status, then delete where that was asked for.

use std::sync::Arc;

use client::resources::PODS;
use client::{DeleteOptions, WriteOptions};
use object::{Obj, Revision, Status, Value};
use runtime::{Key, ObjectRef, ReconcileRequest};

use super::preempt::Room;
use super::{Again, Agent, Inner, wake_all};
use crate::admit;
use crate::pod::{Pod, short_uid};
use crate::worker::{ClaimDevices, Host, PodWorker, SyncResult};

impl Agent {
    /// `node` gives the node's own object, for pods that care about its labels or taints.
    pub async fn sync_pod(
        &self,
        request: &ReconcileRequest<'_>,
        obj: &Arc<Obj>,
        node: &(dyn Fn() -> Option<Value> + Send + Sync),
    ) -> Again {
        let key = request.key;
        if let Some(observer) = &self.observer {
            observer.turn();
        }
        let ours = self.ahead_of(key, obj);
        let obj = ours.as_ref().unwrap_or(obj);
        if let Some(again) = self.settled(key, obj) {
            if let Some(observer) = &self.observer {
                observer.shown(short_uid(obj.uid()));
            }
            request.plan(|| format!("{}: nothing, it is as written", self.name));
            return again;
        }
        let mut tree = runtime::tree(obj);
        let prepared = self.prepare(&tree).await;
        let Some(mut step) = self.decide(key, obj.revision(), &tree, prepared, node) else {
            request.plan(|| format!("{}: wait for what was written, or for the node", self.name));
            return Again::OnChange;
        };
        request.plan(|| format!("{}: {}", self.name, step.describe()));
        self.tell_all(&tree, &ObjectRef::of(&self.client.catalog(), &PODS, obj), &step);
        if let Some(status) = step.status.take() {
            tree.make_map().set("status", status);
            match self.client.update(PODS.of(obj).sub("status"), tree, WriteOptions::default()).await {
                Ok(written) => self.note_written(key, written),
                Err(status) => return self.refused(key, &status),
            }
        }
        if step.over && !self.inner.lock().runtime.release(short_uid(obj.uid())) {
            // Whoever finds it gone from the API may count on nothing of it being left on the node.
            return Again::OnChange;
        }
        if step.delete {
            let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::exactly(obj) };
            match self.client.delete(PODS.of(obj), options).await {
                Ok(()) => return Again::OnChange,
                Err(status) => return self.refused(key, &status),
            }
        }
        step.wake.map_or(Again::OnChange, Again::At)
    }

    /// Nothing happened but what this agent wrote itself, and no time has come: not worth reading the object. When to look again: of
    /// several times the queue keeps the earliest alone, which may have been another's.
    pub(super) fn settled(&self, key: &Key, obj: &Obj) -> Option<Again> {
        let now = self.now();
        let inner = self.inner.lock();
        let is_written =
            |worker: &&PodWorker| worker.written == obj.revision() && worker.uid == short_uid(obj.uid());
        let wake = inner.pods.get(key).filter(is_written)?.wake;
        wake.is_none_or(|wake| now < wake).then(|| wake.map_or(Again::OnChange, Again::At))
    }

    pub(super) fn decide(
        &self,
        key: &Key,
        revision: Revision,
        tree: &Value,
        prepared: Result<Option<Vec<ClaimDevices>>, String>,
        node: &(dyn Fn() -> Option<Value> + Send + Sync),
    ) -> Option<SyncResult> {
        let mut inner = self.inner.lock();
        let mut awake = Vec::new();
        let step =
            self.decide_locked(&mut inner, key, revision, &Pod::read(tree), prepared, node, &mut awake);
        let wake = inner.wake.clone();
        drop(inner);
        wake_all(wake, &awake);
        step
    }

    /// `awake`: who is to look at itself because of what is decided here.
    #[expect(clippy::too_many_arguments, reason = "the above, under its lock")]
    fn decide_locked(
        &self,
        inner: &mut Inner,
        key: &Key,
        revision: Revision,
        pod: &Pod<'_>,
        prepared: Result<Option<Vec<ClaimDevices>>, String>,
        node: &(dyn Fn() -> Option<Value> + Send + Sync),
        awake: &mut Vec<Key>,
    ) -> Option<SyncResult> {
        if inner.quiet && !self.is_static(key) {
            inner.waiting.insert(key.clone());
            return None;
        }
        if inner.pods.get(key).is_some_and(|worker| worker.uid != short_uid(pod.uid)) {
            // Deleted and made again between two looks.
            self.drop_worker(inner, key);
            awake.extend(inner.retry_waiting());
        }
        let had_reserved = inner.pods.get(key).is_some_and(|worker| worker.waiting.is_some());
        let refused = match self.make_room(inner, key, pod, node) {
            Room::Enough => None,
            Room::Never(why) => Some(why),
            Room::Later(victims) => {
                awake.extend(victims);
                return Some(SyncResult::default());
            }
        };
        let Inner { pods, runtime, taken, longest_back_off, .. } = &mut *inner;
        let worker = pods
            .entry(key.clone())
            .or_insert_with(|| PodWorker::new(pod).with_longest_back_off(*longest_back_off));
        if revision < worker.written {
            // Our own write is on its way here and will ask for a reconcile.
            return None;
        }
        if worker.is_new() && !pod.is_over() {
            worker.adopt(pod, &mut **runtime);
            if worker.is_counted() {
                taken.add(pod, worker.requests);
            }
        }
        let with_reserved = inner.taken_with_reserved(key);
        let amounts = with_reserved.as_ref().unwrap_or(&inner.taken).amounts;
        let turn = inner.resize_turn(key, pod, amounts, &self.capacity, self.now(), awake);
        let Inner { pods, runtime, taken, heartbeat, .. } = &mut *inner;
        let worker = pods.get_mut(key)?;
        // What a pod asks for may be changed while it runs.
        let (counted, before, uid) = (worker.is_counted(), worker.requests, worker.uid);
        let mut admit = |pod: &Pod<'_>, requests| {
            if let Some(why) = &refused {
                return Err(why.clone());
            }
            self.admit.as_ref().map_or(Ok(()), |admit| admit(pod))?;
            let node = if heartbeat.evicts || admit::is_choosy(pod) { node() } else { None };
            let taken = with_reserved.as_ref().unwrap_or(taken);
            if !counted {
                return admit::admit(pod, requests, &self.capacity, taken, node.as_ref());
            }
            let mut others = taken.clone();
            others.remove(uid, before);
            admit::admit(pod, requests, &self.capacity, &others, node.as_ref())
        };
        let unprepared = match prepared {
            Err(why) => Some(why),
            Ok(devices) => {
                worker.devices = devices.unwrap_or(std::mem::take(&mut worker.devices));
                None
            }
        };
        let ips = self.ips.get();
        let host = Host {
            ips: &ips,
            recursive_read_only: runtime.recursive_read_only(pod),
            unprepared: unprepared.as_deref(),
            may_resize: turn.has_come,
        };
        let step = worker.step(pod, &host, &mut admit, &mut **runtime, self.now());
        worker.wake = step.wake;
        if let Some(observer) = &self.observer {
            match &step.status {
                Some(status) => observer.decided(pod, status),
                // With what somebody else has written since, as it may be.
                None if worker.ahead.is_none() => observer.shown(worker.uid),
                None => {}
            }
        }
        let after = worker.requests;
        let is_due = worker.waiting_resize().is_some_and(|pending| pending.due);
        let frees = match (counted, worker.is_counted()) {
            (false, true) => {
                taken.add(pod, after);
                false
            }
            (true, false) => {
                taken.remove(uid, before);
                true
            }
            (true, true) if before != after => {
                taken.remove(uid, before);
                taken.add(pod, after);
                after.cpu_milli < before.cpu_milli || after.memory < before.memory
            }
            // It was kept for it, and it is not taken in.
            (false, false) => had_reserved,
            (true, true) => false,
        };
        if frees {
            awake.extend(inner.retry_waiting());
        } else if turn.was_due && !is_due {
            awake.extend(inner.next_resize());
        }
        Some(step)
    }

    fn note_written(&self, key: &Key, written: Arc<Obj>) {
        let mut inner = self.inner.lock();
        let worker = inner.pods.get_mut(key).filter(|worker| worker.uid == short_uid(written.uid()));
        if let Some(worker) = worker.filter(|worker| worker.written < written.revision()) {
            worker.written = written.revision();
            worker.ahead = Some(written);
        }
    }

    /// What the API answered to the last write, while the watch does not show it yet: a pod is looked after though the watch stalls.
    fn ahead_of(&self, key: &Key, obj: &Obj) -> Option<Arc<Obj>> {
        let mut inner = self.inner.lock();
        let worker = inner.pods.get_mut(key).filter(|worker| worker.uid == short_uid(obj.uid()))?;
        // Kept no longer than that: there may be many pods.
        worker.ahead = worker.ahead.take().filter(|ahead| ahead.revision() > obj.revision());
        worker.ahead.clone()
    }

    /// Gone, or newer than what was read: the change that tells so asks for a reconcile. Anything else may pass.
    pub(super) fn refused(&self, key: &Key, status: &Status) -> Again {
        if status.code == 404 {
            return Again::OnChange;
        }
        // Not settled, whatever revision comes next.
        if let Some(worker) = self.inner.lock().pods.get_mut(key) {
            worker.wake = Some(0);
        }
        let (again, node, error) = (Again::after(status), &*self.name, &status.message);
        if again == Again::Later {
            tracing::warn!(node, pod = key.as_str(), error, "failed to update pod status");
        } else {
            tracing::debug!(node, pod = key.as_str(), error, "failed to update pod status, retrying");
        }
        again
    }

    pub(super) fn tell_all(&self, tree: &Value, about: &ObjectRef, step: &SyncResult) {
        if step.events.is_empty() || self.events.is_none() {
            return;
        }
        let pod = Pod::read(tree);
        for event in &step.events {
            let mut about = about.clone();
            if let Some(container) = event.container.and_then(|index| pod.containers.get(index)) {
                let (list, _) = container.role.lists();
                about.field_path = format!("spec.{list}{{{}}}", container.name);
            }
            self.tell(about, event.severity, &event.reason, event.message.clone());
        }
    }
}
