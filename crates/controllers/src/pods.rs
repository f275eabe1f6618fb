//! Pods as controllers see them: without reading them where that is enough.

use std::sync::Arc;
use std::time::Duration;

use client::resources::PODS;
use kinds::pod::view::PodView;
use object::Obj;

use crate::Context;

/// The view of a pod's object, made once per revision for all controllers.
pub fn pod_view(pod: &Obj) -> Arc<PodView> {
    pod.view(|pod| PodView::read(&runtime::tree(pod)))
}

/// A pod and what is known of it.
#[derive(Clone)]
pub(crate) struct Pod {
    pub obj: Arc<Obj>,
    pub view: Arc<PodView>,
}

impl Pod {
    pub fn new(obj: Arc<Obj>) -> Pod {
        let view = pod_view(&obj);
        Pod { obj, view }
    }
}

/// When the next of them that is ready will have been so for long enough.
pub(crate) fn next_available<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    min_ready_seconds: i64,
    now_nanos: i128,
) -> Duration {
    let due = |pod: &Pod| {
        let at = i128::from(pod.view.ready_since + min_ready_seconds) * 1_000_000_000;
        u64::try_from(at - now_nanos).ok().filter(|wait| *wait > 0)
    };
    let waiting = pods.filter(|pod| pod.view.ready && pod.view.ready_since != 0);
    let next = waiting.filter_map(due).min().map(Duration::from_nanos);
    // A time that was never told, or has just passed: a whole wait is always enough.
    next.unwrap_or(Duration::from_secs(min_ready_seconds.unsigned_abs()))
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
