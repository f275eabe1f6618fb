//! Events that are not a step of a pod's life: of the node, and of pods it ends.

use std::sync::Arc;

use object::Value;
use runtime::{ObjectRef, Severity};

type Tell = dyn Fn(ObjectRef, Annotations, Severity, &str, String) + Send + Sync;
/// Of an event, for programs that read it.
pub type Annotations = Vec<(String, String)>;

#[derive(Clone)]
pub struct NodeEvents {
    node: String,
    tell: Arc<Tell>,
}

impl NodeEvents {
    /// `tell` gets what it is about, annotations, reason and message.
    pub fn new(
        node: &str,
        tell: impl Fn(ObjectRef, Annotations, Severity, &str, String) + Send + Sync + 'static,
    ) -> NodeEvents {
        NodeEvents { node: node.to_owned(), tell: Arc::new(tell) }
    }

    pub fn of_node(&self, severity: Severity, reason: &str, message: String) {
        // Kubelet knows itself by name only.
        let about = ObjectRef {
            api_version: String::new(),
            kind: "Node".to_owned(),
            namespace: String::new(),
            name: self.node.clone(),
            uid: self.node.clone(),
            resource_version: String::new(),
            field_path: String::new(),
        };
        (self.tell)(about, Annotations::new(), severity, reason, message);
    }

    pub fn of_pod(
        &self,
        pod: &Value,
        annotations: Annotations,
        severity: Severity,
        reason: &str,
        message: String,
    ) {
        let text = |name: &str| pod.str_at(&["metadata", name]).unwrap_or("").to_owned();
        let about = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            field_path: String::new(),
        };
        (self.tell)(about, annotations, severity, reason, message);
    }
}
