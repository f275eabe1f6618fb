//! Pods as controllers see them: without reading them where that is enough.

use std::sync::Arc;

use client::resources::PODS;
use kinds::pod::view::PodView;
use object::Obj;

use crate::Context;

/// The view of a pod's object, made once per revision for all controllers.
pub fn pod_view(pod: &Obj) -> Arc<PodView> {
    pod.view(|pod| PodView::read(&runtime::tree(pod)))
}

/// Does a name stand anywhere in what was encoded? Most pods are told apart from those a rule is about without being
/// read. (Names of Kubernetes' own need no escapes.)
pub fn mentions(encoded: &[u8], name: &str) -> bool {
    memchr::memmem::find(encoded, name.as_bytes()).is_some()
}

/// What is known of every pod without reading it, by its position ([`Obj::field`]): pods are built in, so it never changes.
#[derive(Clone, Copy)]
pub struct PodFields {
    node: usize,
    phase: usize,
}

impl PodFields {
    pub fn of(context: &Context) -> PodFields {
        let catalog = context.informers.catalog();
        let at = |field| PODS.field(&catalog, field).expect("pods are selected by it");
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
