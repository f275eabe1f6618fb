//! What the controllers about nodes write: taints, labels, conditions, and pods that cannot be ready.

use std::sync::Arc;

use client::resources::{NODES, PODS};
use client::{Client, Patch, WriteOptions};
use env::Env;
use object::{Map, Obj, Status, Value, time};
use runtime::{ObjectRef, Recorder, Severity};

use super::node::{Condition, NodeFacts, Taint};
use super::plan;
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
            let Some(taints) = plan::swapped(&facts.taints, add, remove, &self.now_text()) else {
                return Ok(None);
            };
            let list = if taints.is_empty() {
                Value::Null
            } else {
                Value::List(taints.iter().map(Taint::to_value).collect())
            };
            let mut patch = guarded(&node);
            patch.map_at(&["spec"]).set("taints", list);
            match self.client.patch(NODES.of(&node), Patch::Merge(patch), WriteOptions::default()).await {
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
        self.client.patch(NODES.of(node), Patch::Merge(patch), WriteOptions::default()).await.map(|_| ())
    }

    pub async fn set_conditions(&self, node: &Obj, conditions: &[Condition]) -> Result<Arc<Obj>, Status> {
        let body = plan::with_conditions(runtime::tree(node), conditions);
        self.client.update(NODES.of(node).sub("status"), body, WriteOptions::default()).await
    }

    /// A pod nobody hears of is not ready. The first refusal, after all were tried.
    pub async fn mark_not_ready(&self, pods: &[Arc<Obj>]) -> Result<(), Status> {
        let mut failed = None;
        let ready = |pod: &&Arc<Obj>| plan::is_ready_now(&pod_view(pod), || runtime::tree(pod));
        for pod in pods.iter().filter(ready) {
            let patch = plan::not_ready(pod.uid(), self.now_text());
            match self
                .client
                .patch(PODS.of(pod).sub("status"), Patch::Strategic(patch), WriteOptions::default())
                .await
            {
                Err(status) if status.code == 404 => continue,
                Err(status) => {
                    failed.get_or_insert(status);
                }
                Ok(_) => {}
            }
            self.recorder.event(&PODS, pod, Severity::Warning, "NodeNotReady", "Node is not ready");
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

/// A patch for this very version only.
fn guarded(node: &Obj) -> Value {
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", node.uid().to_owned());
    metadata.set("resourceVersion", node.revision().to_string());
    patch
}
