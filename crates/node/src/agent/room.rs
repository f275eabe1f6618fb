//! Resizes that wait for room, and whose turn it is.
//!
//! Kubelet tries all of them in one loop, in their order, whenever there may be room. Here each is tried by whoever reconciles its pod,
//! many at once and in any order, and it comes to the same: a resize gets only what those before it leave.
//!
//! ```text
//!              there may be room           others that are due come first, and too little is left
//!  refused ────────────────────────> due <───────────────────────────────────────────────────────┐
//!     ^                               │ reconciled                                               │
//!     │                               ├──────────────────────────────────────────────────────────┘
//!     └──── there is none, after all ─┴──> given
//! ```
//! All are woken when they become due, and the first of them has nobody to wait for. Whoever is not due any more, for whatever reason,
//! wakes the first that still is: nobody waits for one that was tried, and none is tried twice without a new reason.

#[cfg(test)]
mod tests;

use runtime::Key;

use super::Inner;
use crate::admit::{self, Capacity};
use crate::container_runtime::Millis;
use crate::pod::{Pod, Requests};
use crate::worker::PodWorker;

/// Of a pod that is reconciled.
pub(super) struct Turn {
    /// If it asks for something else than it has, it may try to get that now.
    pub has_come: bool,
    /// Others may wait for what comes of it.
    pub was_due: bool,
}

impl Inner {
    /// There may be room. Whom to wake, in their order.
    pub(super) fn retry_waiting(&mut self) -> Vec<Key> {
        self.pods.values_mut().for_each(PodWorker::retry_resize);
        self.in_order(PodWorker::waits_for_room).into_iter().map(|(key, _)| key.clone()).collect()
    }

    /// The first resize that is due.
    pub(super) fn next_resize(&self) -> Option<Key> {
        self.in_order(is_due).first().map(|(key, _)| (*key).clone())
    }

    fn in_order(&self, which: impl Fn(&PodWorker) -> bool) -> Vec<(&Key, &PodWorker)> {
        let mut all: Vec<_> = self.pods.iter().filter(|(_, worker)| which(worker)).collect();
        // Of equals, one has to be the first.
        all.sort_by_cached_key(|(key, worker)| (worker.room_order(), *key));
        all
    }

    /// `taken`: by all pods on the node, and kept for new ones.
    pub(super) fn resize_turn(
        &mut self,
        key: &Key,
        pod: &Pod<'_>,
        taken: Requests,
        capacity: &Capacity,
        now: Millis,
        awake: &mut Vec<Key>,
    ) -> Turn {
        if !self.pods.values().any(|worker| worker.waiting_resize().is_some()) {
            return Turn { has_come: true, was_due: false };
        }
        let Inner { pods, runtime, .. } = self;
        if pods.get_mut(key).is_some_and(|worker| worker.queue_resize(pod, &mut **runtime, now)) {
            // As in kubelet, where one that comes to the others is a reason to try all of them.
            awake.extend(self.retry_waiting().into_iter().filter(|other| other != key));
        }
        let own = self.pods.get(key).and_then(|worker| Some((worker.requests, worker.waiting_resize()?)));
        let Some((has, own)) = own else { return Turn { has_come: true, was_due: false } };
        if !own.due {
            return Turn { has_come: false, was_due: false };
        }
        let mut left = taken;
        for (_, before) in self.in_order(is_due).into_iter().take_while(|(other, _)| *other != key) {
            let Some(waiting) = before.waiting_resize() else { continue };
            let others = left.minus(before.requests);
            if admit::has_room(capacity, others, waiting.wanted) {
                left = others.plus(waiting.wanted);
            }
        }
        let fits = |taken: Requests| admit::has_room(capacity, taken.minus(has), own.wanted);
        // One that would not fit without the others either is refused at once.
        Turn { has_come: fits(left) || !fits(taken), was_due: true }
    }
}

fn is_due(worker: &PodWorker) -> bool {
    worker.waiting_resize().is_some_and(|pending| pending.due)
}
