//! A reconcile of a static pod: the pod itself, which needs no API, then its mirror, which shows it there.

use std::sync::Arc;

use client::resources::PODS;
use client::{DeleteOptions, WriteOptions};
use object::{Map, Obj, Revision, Value, time};
use runtime::{Key, ObjectRef, ReconcileRequest};

use super::{Again, Agent};
use crate::pod::{Pod, short_uid};
use crate::static_pods::{self, HASH, MIRROR, StaticPod, StaticPods};

/// The node's own object, where it is known.
type FindNode<'a> = dyn Fn() -> Option<Value> + Send + Sync + 'a;

impl Agent {
    pub fn static_pods(&self) -> Option<&Arc<StaticPods>> {
        self.static_pods.as_ref()
    }

    /// The pod is one the node runs by itself.
    pub fn is_static(&self, key: &Key) -> bool {
        self.static_pods.as_ref().is_some_and(|pods| pods.contains(key))
    }

    /// The object shows a static pod. Simulated nodes have no files: they run whatever is bound to them.
    pub fn is_mirror(&self, obj: &Obj) -> bool {
        self.static_pods.is_some() && static_pods::is_mirror(obj)
    }

    /// `shown` is the object the API has under the pod's name.
    pub async fn sync_static(
        &self,
        request: &ReconcileRequest<'_>,
        shown: Option<&Arc<Obj>>,
        node: &FindNode<'_>,
    ) -> Again {
        let (Some(pods), key) = (&self.static_pods, request.key) else { return Again::OnChange };
        let Some(pod) = pods.get(key) else {
            request.plan(|| format!("{}: delete the mirror of a pod that is gone", self.name));
            return self.delete_orphan(pods, key, shown).await;
        };
        let uid = pod.uid();
        if self.waits_for_predecessor(key, &pod) {
            request.plan(|| format!("{}: wait until the pod before it is gone", self.name));
            return Again::OnChange;
        }
        let mut tree = (*pod.tree).clone();
        self.recall(&mut tree, shown);
        let Some(mut step) = self.decide(key, Revision(0), &tree, Ok(None), node) else {
            return Again::OnChange;
        };
        request.plan(|| format!("{}: {}, and its mirror", self.name, step.describe()));
        self.tell_all(&tree, &about(&tree), &step);
        if let Some(status) = step.status.take() {
            pods.set_status(key, uid, &status);
            tree.make_map().set("status", status);
        }
        let released = !step.over || self.inner.lock().runtime.release(uid);
        if released && step.delete {
            self.drop_worker(&mut self.inner.lock(), key);
            pods.over(key, uid);
            // What follows it begins, or its mirror goes.
            return Again::At(self.now());
        }
        // As kubelet, which has forgotten a pod that nobody wants: its mirror stays as it is until it goes, or the next one comes.
        let mirrored = match pod.is_ending() {
            true => Again::OnChange,
            false => self.sync_mirror(key, &tree, shown, node).await,
        };
        match (mirrored, step.wake) {
            (Again::OnChange, Some(wake)) => Again::At(wake),
            (Again::Soon | Again::Later, Some(wake)) if wake <= self.now() => Again::At(wake),
            (again, _) => again,
        }
    }

    /// Something is left of another pod with this name: it is ended first.
    fn waits_for_predecessor(&self, key: &Key, pod: &StaticPod) -> bool {
        let mut inner = self.inner.lock();
        let held = inner.runtime.list();
        let before = |held: &&crate::container_runtime::Held| {
            held.key == *key && (held.uid != pod.uid() || pod.after == Some(held.uid))
        };
        // One that this process started for the pod itself is not in the way.
        let own = inner.pods.get(key).map(|worker| worker.uid);
        let before: Vec<u128> =
            held.iter().filter(before).map(|held| held.uid).filter(|uid| own != Some(*uid)).collect();
        for uid in &before {
            inner.runtime.remove(*uid);
        }
        !before.is_empty()
    }

    /// A pod that ran before this process did: it is not begun anew, and what its mirror says of it still holds.
    fn recall(&self, tree: &mut Value, shown: Option<&Arc<Obj>>) {
        let pod = Pod::read(tree);
        let held = || self.inner.lock().runtime.list().iter().any(|held| held.uid == short_uid(pod.uid));
        if pod.started.is_some() || !held() {
            return;
        }
        let said = shown.map(|obj| runtime::tree(obj)).filter(|shown| is_mirror_of(shown, tree));
        let said = said.and_then(|shown| shown.get("status").cloned());
        let said = said.filter(|status| status.str_at(&["startTime"]).is_some());
        if let Some(status) = said {
            tree.make_map().set("status", status);
        } else {
            tree.map_at(&["status"]).set("startTime", time::format_seconds(self.now() / 1000));
        }
    }

    /// Makes the API show the pod.
    async fn sync_mirror(
        &self,
        key: &Key,
        tree: &Value,
        shown: Option<&Arc<Obj>>,
        node: &FindNode<'_>,
    ) -> Again {
        if self.waits_for_node(key) {
            return Again::OnChange;
        }
        if let Some(obj) = shown {
            let there = runtime::tree(obj);
            if there.at(&["metadata", "annotations", MIRROR]).is_none() {
                tracing::error!(pod = key.as_str(), "a static pod is not shown: another pod has its name");
                return Again::Later;
            }
            if is_mirror_of(&there, tree) && !obj.deleting() {
                return self.show_status(key, there, tree).await;
            }
            if let Err(again) = self.delete_mirror(obj).await {
                return again;
            }
        }
        let Some(node) = node().filter(|node| node.at(&["metadata", "deletionTimestamp"]).is_none()) else {
            return Again::OnChange;
        };
        let mirror = mirror(tree, &node);
        let created = self.client.create(PODS.within(key.namespace()), mirror, WriteOptions::default()).await;
        match created {
            Ok(_) => Again::OnChange,
            Err(status) => {
                let error = &status.message;
                if status.reason == "AlreadyExists" {
                    // Most likely the one we made, which is on its way here.
                    tracing::debug!(pod = key.as_str(), error, "failed to create mirror pod");
                    return Again::Later;
                }
                tracing::warn!(pod = key.as_str(), error, "failed to create mirror pod, retrying");
                Again::after(&status)
            }
        }
    }

    async fn show_status(&self, key: &Key, mut shown: Value, tree: &Value) -> Again {
        let Some(mut status) = tree.get("status").cloned() else { return Again::OnChange };
        keep_others_conditions(&mut status, shown.get("status"));
        if kinds::same(shown.get("status"), Some(&status)) {
            return Again::OnChange;
        }
        shown.make_map().set("status", status);
        let target = PODS.at(key.namespace(), key.name()).sub("status");
        match self.client.update(target, shown, WriteOptions::default()).await {
            Ok(_) => Again::OnChange,
            Err(status) if matches!(status.code, 404 | 409) => Again::Soon,
            Err(status) => self.refused(key, &status),
        }
    }

    /// `Err`: not now; when to try again.
    async fn delete_mirror(&self, obj: &Obj) -> Result<(), Again> {
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::exactly(obj) };
        match self.client.delete(PODS.of(obj), options).await {
            Ok(()) => Ok(()),
            Err(status) if matches!(status.code, 404 | 409) => Err(Again::Soon),
            Err(status) => {
                let error = &status.message;
                tracing::warn!(pod = obj.name(), error, "failed to delete mirror pod, retrying");
                Err(Again::after(&status))
            }
        }
    }

    /// A mirror whose pod is not wanted, and does not run any more.
    async fn delete_orphan(&self, pods: &StaticPods, key: &Key, shown: Option<&Arc<Obj>>) -> Again {
        let Some(obj) = shown.filter(|obj| static_pods::is_mirror(obj)) else { return Again::OnChange };
        if self.waits_for_node(key) {
            return Again::OnChange;
        }
        if !pods.seen_all() {
            return Again::Soon;
        }
        self.delete_mirror(obj).await.err().unwrap_or(Again::OnChange)
    }

    /// The API was not reached yet: the key is looked at again when it is.
    fn waits_for_node(&self, key: &Key) -> bool {
        let mut inner = self.inner.lock();
        if inner.quiet {
            inner.waiting.insert(key.clone());
        }
        inner.quiet
    }
}

fn is_mirror_of(shown: &Value, tree: &Value) -> bool {
    let hash = tree.str_at(&["metadata", "annotations", HASH]);
    hash.is_some() && shown.str_at(&["metadata", "annotations", MIRROR]) == hash
}

/// As it is created; the server gives it an identity and a status of its own.
fn mirror(tree: &Value, node: &Value) -> Value {
    let mut mirror = tree.clone();
    mirror.make_map().remove("status");
    let hash = tree.str_at(&["metadata", "annotations", HASH]).unwrap_or_default().to_owned();
    let metadata = mirror.map_at(&["metadata"]);
    for name in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(name);
    }
    let mut owner = Map::with_capacity(5);
    owner.set("apiVersion", "v1");
    owner.set("kind", "Node");
    owner.set("name", node.str_at(&["metadata", "name"]).unwrap_or_default());
    owner.set("uid", node.str_at(&["metadata", "uid"]).unwrap_or_default());
    owner.set("controller", true);
    metadata.set("ownerReferences", Value::List(vec![Value::Map(owner)]));
    mirror.map_at(&["metadata", "annotations"]).set(MIRROR, hash);
    mirror
}

/// Conditions that others gave the mirror stay.
fn keep_others_conditions(status: &mut Value, shown: Option<&Value>) {
    let shown =
        shown.and_then(|status| status.get("conditions")).and_then(Value::as_list).unwrap_or_default();
    let Some(Value::List(ours)) = status.make_map().get_mut("conditions") else { return };
    for condition in shown {
        let kind = condition.str_at(&["type"]);
        if !ours.iter().any(|ours| ours.str_at(&["type"]) == kind) {
            ours.push(condition.clone());
        }
    }
}

/// Events are about the pod itself: whoever asks for those of the mirror asks for its hash.
fn about(tree: &Value) -> ObjectRef {
    let pod = Pod::read(tree);
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.namespace.to_owned(),
        name: pod.name.to_owned(),
        uid: pod.uid.to_owned(),
        resource_version: String::new(),
        field_path: String::new(),
    }
}
