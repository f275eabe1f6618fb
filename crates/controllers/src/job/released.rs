//! Pods whose finalizer this controller took, until the informer shows them without it.
//!
//! A pod that was counted is struck off the Job's status at once. A view that still shows its finalizer would have it
//! counted again, and the revision of the patch does not tell how old a view is: where taking the finalizer completes
//! a deletion, a server answers with the revision the pod had before.

use std::collections::BTreeSet;

use super::pods::Pod;

/// By uid; bounded by the pods in the view, since what a view does not show is forgotten.
#[derive(Default)]
pub struct Released(BTreeSet<String>);

impl Released {
    /// Before the finalizer is taken: whatever the view says from now on is too old, or says that it is gone.
    pub fn expect(&mut self, uid: &str) {
        self.0.insert(uid.to_owned());
    }

    /// The finalizer is there after all.
    pub fn back(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// Corrects a view, and tells which pods it still shows with the finalizer: see [`Released::shown`].
    pub fn correct(&self, pods: &mut [Pod]) -> BTreeSet<String> {
        let mut shown = BTreeSet::new();
        if self.0.is_empty() {
            return shown;
        }
        for pod in pods.iter_mut().filter(|pod| pod.tracked) {
            if let Some(uid) = self.0.get(pod.obj.uid()) {
                pod.tracked = false;
                shown.insert(uid.clone());
            }
        }
        shown
    }

    /// Of a view that lacks no pod with the finalizer: what it does not show is forgotten.
    pub fn shown(&mut self, shown: BTreeSet<String>) {
        self.0 = shown;
    }
}
