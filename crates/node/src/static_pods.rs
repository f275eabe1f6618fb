//! The pods a node runs by itself, because its files say so. The API only shows them: each has a mirror there.
//!
//! ```text
//!  files ── set ──> StaticPods ── wake ──> Agent::sync_static ──> PodWorker ──> runtime
//!                       ^ status, over ───────────┘ └── mirror ──> API, while it can be reached
//! ```
//! A pod that changed is another one with the same name: it begins when nothing is left of the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use object::{Obj, Value, time};
use parking_lot::Mutex;
use runtime::Key;

use crate::container_runtime::Wake;
use crate::pod::{Pod, short_uid};

/// What the pod's source made of it; the mirror's is the one of the pod it shows.
pub const HASH: &str = "kubernetes.io/config.hash";
pub const MIRROR: &str = "kubernetes.io/config.mirror";
pub const SOURCE: &str = "kubernetes.io/config.source";
pub const SEEN: &str = "kubernetes.io/config.seen";

/// What is wanted, and how far it is.
pub struct StaticPods {
    /// Held for a look or a change only.
    inner: Mutex<Inner>,
    wake: OnceLock<Wake>,
}

struct Inner {
    /// Sources that have not said anything yet.
    unseen: BTreeSet<&'static str>,
    pods: BTreeMap<Key, StaticPod>,
}

/// One of them.
#[derive(Clone)]
pub struct StaticPod {
    /// With its status; on its way out it has a `deletionTimestamp`.
    pub tree: Arc<Value>,
    source: &'static str,
    /// What comes when it is over.
    next: Option<Arc<Value>>,
    /// The uid of the pod it follows.
    pub(crate) after: Option<u128>,
}

impl StaticPods {
    pub fn new(sources: impl IntoIterator<Item = &'static str>) -> StaticPods {
        let inner = Inner { unseen: sources.into_iter().collect(), pods: BTreeMap::new() };
        StaticPods { inner: Mutex::new(inner), wake: OnceLock::new() }
    }

    /// All pods of a source as it is now. `now` in Unix seconds.
    pub fn set(&self, source: &'static str, pods: Vec<Value>, now: i64) {
        let changed = {
            let mut inner = self.inner.lock();
            inner.unseen.remove(source);
            inner.merge(source, pods, now)
        };
        if let Some(wake) = self.wake.get() {
            changed.iter().for_each(|key| wake(key));
        }
    }

    pub fn get(&self, key: &Key) -> Option<StaticPod> {
        self.inner.lock().pods.get(key).cloned()
    }

    /// In the order of their keys.
    pub fn list(&self) -> Vec<Arc<Value>> {
        self.inner.lock().pods.values().map(|pod| pod.tree.clone()).collect()
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.inner.lock().pods.keys().cloned().collect()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.inner.lock().pods.contains_key(key)
    }

    /// Until then nobody knows whose a container is.
    pub(crate) fn seen_all(&self) -> bool {
        self.inner.lock().unseen.is_empty()
    }

    pub(crate) fn wake_by(&self, wake: Wake) {
        // Set once: an agent has one fleet.
        let _ = self.wake.set(wake);
    }

    /// What became of a pod, unless there is another in its place.
    pub(crate) fn set_status(&self, key: &Key, uid: u128, status: &Value) {
        if let Some(pod) = self.inner.lock().pods.get_mut(key).filter(|pod| pod.uid() == uid) {
            Arc::make_mut(&mut pod.tree).make_map().set("status", status.clone());
        }
    }

    /// Nothing of the pod runs any more: what it made way for comes.
    pub(crate) fn over(&self, key: &Key, uid: u128) {
        let mut inner = self.inner.lock();
        let Some(pod) = inner.pods.get_mut(key).filter(|pod| pod.uid() == uid && pod.is_ending()) else {
            return;
        };
        match pod.next.take() {
            Some(tree) => {
                *pod = StaticPod { tree, source: pod.source, next: None, after: Some(uid) };
            }
            None => drop(inner.pods.remove(key)),
        }
    }
}

impl Inner {
    /// The keys of pods that are to be looked at.
    fn merge(&mut self, source: &'static str, pods: Vec<Value>, now: i64) -> Vec<Key> {
        let mut wanted: BTreeMap<Key, Value> = BTreeMap::new();
        for tree in pods {
            let pod = Pod::read(&tree);
            let key = Key::new(pod.namespace, pod.name);
            let taken = self.pods.get(&key).is_some_and(|there| there.source != source);
            if taken || wanted.contains_key(&key) {
                tracing::error!(
                    pod = key.as_str(),
                    source,
                    "another static pod has the same name, ignoring this one"
                );
                continue;
            }
            wanted.insert(key, tree);
        }
        let mut changed = Vec::new();
        for (key, pod) in &mut self.pods {
            if pod.source == source && !wanted.contains_key(key) {
                pod.next = None;
                changed.extend(pod.end(now).then(|| key.clone()));
            }
        }
        for (key, tree) in wanted {
            let Some(there) = self.pods.get_mut(&key) else {
                let pod = StaticPod { tree: Arc::new(tree), source, next: None, after: None };
                self.pods.insert(key.clone(), pod);
                changed.push(key);
                continue;
            };
            let same_uid = there.uid() == short_uid(Pod::read(&tree).uid);
            if there.is_ending() || !same_uid {
                there.next = Some(Arc::new(tree));
                changed.extend(there.end(now).then_some(key));
            } else if differ(&there.tree, &tree) {
                // Only where the file names a uid: what runs is told.
                there.update(tree);
                changed.push(key);
            }
        }
        changed
    }
}

impl StaticPod {
    pub(crate) fn uid(&self) -> u128 {
        short_uid(Pod::read(&self.tree).uid)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.tree.at(&["metadata", "deletionTimestamp"]).is_some()
    }

    /// Asks it to end, with its own grace. `false`: it was asked before.
    fn end(&mut self, now: i64) -> bool {
        if self.is_ending() {
            return false;
        }
        let grace_seconds = Pod::read(&self.tree).grace_seconds;
        let metadata = Arc::make_mut(&mut self.tree).map_at(&["metadata"]);
        metadata.set("deletionTimestamp", time::format_seconds(now));
        metadata.set("deletionGracePeriodSeconds", Value::Int(grace_seconds));
        true
    }

    fn update(&mut self, mut tree: Value) {
        if let Some(status) = self.tree.get("status") {
            tree.make_map().set("status", status.clone());
        }
        if let Some(seen) = self.tree.at(&["metadata", "annotations", SEEN]) {
            tree.map_at(&["metadata", "annotations"]).set(SEEN, seen.clone());
        }
        self.tree = Arc::new(tree);
    }
}

/// In more than when they were seen, and what became of them.
fn differ(a: &Value, b: &Value) -> bool {
    let annotations = |tree: &Value| {
        let mut all = tree.at(&["metadata", "annotations"]).cloned().unwrap_or_else(Value::map);
        all.make_map().remove(SEEN);
        all
    };
    a.get("spec") != b.get("spec")
        || a.at(&["metadata", "labels"]) != b.at(&["metadata", "labels"])
        || annotations(a) != annotations(b)
}

/// The object in the API shows a static pod, and is never run itself.
pub fn is_mirror(obj: &Obj) -> bool {
    // Most objects are not worth reading.
    let body = obj.body();
    let mentioned = body.windows(MIRROR.len()).any(|part| part == MIRROR.as_bytes());
    mentioned && runtime::tree(obj).at(&["metadata", "annotations", MIRROR]).is_some()
}

#[cfg(test)]
mod tests;
