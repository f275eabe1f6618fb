//! What the loops about nodes write: taints, labels, conditions, and pods that cannot be ready.

use std::sync::Arc;

use client::resources::{NODES, PODS};
use client::{Client, Patch};
use env::Env;
use kinds::pod::view::PodView;
use object::{Map, Status, Value, time};
use runtime::{ObjectRef, Recorder, Severity};
use table::Obj;

use super::node::{Condition, NodeFacts, Taint, swapped};
use crate::pod_view;

/// Somebody else may write the node at the same time.
const TRIES: usize = 5;

#[derive(Clone)]
pub struct Writer {
    pub env: Env,
    pub client: Arc<dyn Client>,
    pub recorder: Recorder,
}

impl Writer {
    pub fn now_text(&self) -> String {
        time::format_seconds(self.env.now_seconds() as i64)
    }

    /// Adds and takes away taints in one write; `None`: nothing was to be done.
    pub async fn swap_taints(
        &self,
        node: &Arc<Obj>,
        add: &[Taint],
        remove: &[Taint],
    ) -> Result<Option<Arc<Obj>>, Status> {
        let mut node = node.clone();
        for tries in 1.. {
            let facts = NodeFacts::of(&node);
            let Some(taints) = swapped(&facts.taints, add, remove, &self.now_text()) else { return Ok(None) };
            let list = if taints.is_empty() {
                Value::Null
            } else {
                Value::List(taints.iter().map(Taint::to_value).collect())
            };
            let mut patch = guarded(&node);
            patch.map_at(&["spec"]).set("taints", list);
            match self.client.patch(NODES.of(&node), Patch::Merge(patch)).await {
                Ok(written) => return Ok(Some(written)),
                Err(status) if status.code == 409 && tries < TRIES => {
                    node = self.client.get(NODES.of(&node)).await?;
                }
                Err(status) => return Err(status),
            }
        }
        Ok(None)
    }

    pub async fn set_labels(&self, node: &Obj, labels: Vec<(&'static str, String)>) -> Result<(), Status> {
        let mut patch = guarded(node);
        let map: Map = labels.into_iter().map(|(name, value)| (name.into(), Value::Str(value))).collect();
        patch.map_at(&["metadata"]).set("labels", Value::Map(map));
        self.client.patch(NODES.of(node), Patch::Merge(patch)).await.map(|_| ())
    }

    pub async fn set_conditions(&self, node: &Obj, conditions: &[Condition]) -> Result<Arc<Obj>, Status> {
        let mut body = runtime::tree(node);
        let old = body.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
        let merged = conditions.iter().map(|condition| {
            // Fields this loop knows nothing of stay.
            let there = old.iter().find(|old| old.str_at(&["type"]) == Some(&condition.kind));
            let mut merged = there.cloned().unwrap_or_else(Value::map);
            if let Value::Map(fields) = condition.to_value() {
                for (name, value) in fields {
                    merged.make_map().set(name, value);
                }
            }
            merged
        });
        let merged = Value::List(merged.collect());
        body.map_at(&["status"]).set("conditions", merged);
        self.client.update(NODES.of(node).sub("status"), body).await
    }

    /// A pod nobody hears of is not ready. The first refusal, after all were tried.
    pub async fn mark_not_ready(&self, pods: &[Arc<Obj>]) -> Result<(), Status> {
        let mut failed = None;
        for pod in pods.iter().filter(|pod| is_ready_now(pod)) {
            let mut condition = Map::default();
            condition.set("type", "Ready");
            condition.set("status", "False");
            condition.set("lastTransitionTime", self.now_text());
            let mut patch = Value::map();
            patch.map_at(&["metadata"]).set("uid", pod.uid().to_owned());
            patch.map_at(&["status"]).set("conditions", Value::List(vec![Value::Map(condition)]));
            match self.client.patch(PODS.of(pod).sub("status"), Patch::Strategic(patch)).await {
                Err(status) if status.code == 404 => continue,
                Err(status) => {
                    failed.get_or_insert(status);
                }
                Ok(_) => {}
            }
            self.recorder.event(PODS, pod, Severity::Warning, "NodeNotReady", "Node is not ready");
        }
        failed.map_or(Ok(()), Err)
    }

    pub fn node_event(&self, name: &str, uid: &str, reason: &str, message: String) {
        let about = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version: String::new(),
            field_path: String::new(),
        };
        self.recorder.event_on(about, Severity::Normal, reason, message);
    }
}

/// Who sets the condition says since when.
pub fn has_ready_condition(pod: &PodView) -> bool {
    pod.ready || pod.ready_since != 0
}

/// Has it a Ready condition that does not say False? Most pods are asked without being read.
fn is_ready_now(pod: &Obj) -> bool {
    let view = pod_view(pod);
    if view.ready || !has_ready_condition(&view) {
        return view.ready;
    }
    let tree = runtime::tree(pod);
    let conditions = tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.str_at(&["type"]) == Some("Ready"));
    ready.is_some_and(|ready| ready.str_at(&["status"]) != Some("False"))
}

/// A patch for this very version only.
fn guarded(node: &Obj) -> Value {
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", node.uid().to_owned());
    metadata.set("resourceVersion", node.revision().to_string());
    patch
}
