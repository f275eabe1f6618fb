//! Pods as loops see them.

use std::sync::Arc;

use kinds::pod::view::PodView;
use table::Obj;

/// The view of a pod's object, made once per revision for all loops.
pub fn pod_view(pod: &Obj) -> Arc<PodView> {
    pod.view(|pod| PodView::read(&runtime::tree(pod)))
}
