//! Which pods go first when there are too many: those that do least, and would be missed least.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use kinds::pod::view::{Phase, PodView};

use crate::pods::Pod;

/// The `count` pods to delete. `related` are pods of all sets of the same owner: a node that has many of them can spare one.
pub(crate) fn to_delete(mut pods: Vec<Pod>, related: &[Pod], count: usize, now_nanos: i128) -> Vec<Pod> {
    if count < pods.len() {
        let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in related.iter().filter(|pod| pod.view.is_active()) {
            *on_node.entry(&pod.view.node).or_default() += 1;
        }
        let doubled = |view: &PodView| on_node.get(&*view.node).copied().unwrap_or(0);
        pods.sort_by(|a, b| {
            let (doubled_a, doubled_b) = (doubled(&a.view), doubled(&b.view));
            compare(&a.view, &b.view, doubled_a, doubled_b, now_nanos)
                .then_with(|| a.obj.uid().cmp(b.obj.uid()))
        });
    }
    pods.truncate(count);
    pods
}

/// `Less` goes first. Ages count by their order of magnitude only, so that equals are chosen among as if by chance.
///
/// Differs from kube-controller-manager: there, two ages of one magnitude are decided by uid at once, before restarts are
/// looked at, which is no order (it may run in circles). Here the uid comes last.
pub(crate) fn compare(
    a: &PodView,
    b: &PodView,
    doubled_a: usize,
    doubled_b: usize,
    now_nanos: i128,
) -> Ordering {
    let bound = |view: &PodView| !view.node.is_empty();
    let both_ready = a.ready && b.ready;
    let age = |since: i64| magnitude(since, now_nanos);
    bound(a)
        .cmp(&bound(b))
        .then_with(|| phase(a.phase).cmp(&phase(b.phase)))
        .then_with(|| a.ready.cmp(&b.ready))
        .then_with(|| a.deletion_cost.cmp(&b.deletion_cost))
        .then_with(|| doubled_b.cmp(&doubled_a))
        .then_with(|| if both_ready { age(a.ready_since).cmp(&age(b.ready_since)) } else { Ordering::Equal })
        .then_with(|| Reverse(a.max_restarts).cmp(&Reverse(b.max_restarts)))
        .then_with(|| Reverse(a.max_sidecar_restarts).cmp(&Reverse(b.max_sidecar_restarts)))
        .then_with(|| age(a.created).cmp(&age(b.created)))
}

/// Terminal pods are not ranked; they would go with the pending.
fn phase(phase: Phase) -> u8 {
    match phase {
        Phase::Pending | Phase::Succeeded | Phase::Failed => 0,
        Phase::Unknown => 1,
        Phase::Running => 2,
    }
}

/// The power of two of an age in nanoseconds; what has no time is younger than everything.
fn magnitude(since: i64, now_nanos: i128) -> i64 {
    if since == 0 {
        return i64::MIN;
    }
    let age = now_nanos - i128::from(since) * 1_000_000_000;
    if age > 0 { i64::from(age.ilog2()) } else { -1 }
}
