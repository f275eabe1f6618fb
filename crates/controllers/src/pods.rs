//! Pods as loops see them: without reading them where that is enough.

use std::sync::Arc;

use client::resources::PODS;
use kinds::pod::view::PodView;
use object::Obj;

use crate::Context;

/// The view of a pod's object, made once per revision for all loops.
pub fn pod_view(pod: &Obj) -> Arc<PodView> {
    pod.view(|pod| PodView::read(&runtime::tree(pod)))
}

/// Does a name stand anywhere in what was encoded? Most pods are told apart from those a rule is about without being
/// read. (Names of Kubernetes' own need no escapes.)
pub fn mentions(encoded: &[u8], name: &str) -> bool {
    memchr::memmem::find(encoded, name.as_bytes()).is_some()
}

/// What the table knows of every pod, by the place it keeps it.
#[derive(Clone, Copy)]
pub struct PodFields {
    node: usize,
    phase: usize,
}

impl PodFields {
    pub fn of(context: &Context) -> PodFields {
        let at = |field| PODS.field(context.informers.catalog(), field);
        PodFields { node: at("spec.nodeName"), phase: at("status.phase") }
    }
    /// Empty: not bound.
    pub fn node(self, pod: &Obj) -> &str {
        pod.field(self.node)
    }
    /// Succeeded or failed: it will never run again.
    pub fn is_terminal(self, pod: &Obj) -> bool {
        matches!(pod.field(self.phase), "Succeeded" | "Failed")
    }
}
