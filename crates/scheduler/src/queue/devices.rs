//! Pods that wait for claims and devices: found by what they name, so that no change looks at all who wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::hints::Event;
use super::{Queue, QueuePosition};
use crate::cluster::Cluster;
use crate::dynamic_resources::{ClaimKey, ResourceClaim};
use crate::pod::Pod;

impl Queue {
    /// The pod as it is now, where it was; the answer is what it was.
    pub(super) fn replace(&mut self, pod: Arc<Pod>) -> Arc<Pod> {
        let entry = self.entries.get_mut(&pod.uid).expect("only pods that wait are replaced");
        let old = std::mem::replace(&mut entry.queued.pod, pod.clone());
        let indexed = matches!(entry.position, QueuePosition::Unschedulable(_) | QueuePosition::Gated);
        if indexed && old.claims != pod.claims {
            self.unindex_resource_claims(&old);
            self.index_resource_claims(&pod);
        }
        old
    }

    /// Pods that were not to be tried for want of a claim, and now have all of theirs.
    pub(super) fn open_gates(
        &mut self,
        claim: &ResourceClaim,
        cause: &'static str,
        cluster: &Cluster,
        now: Duration,
    ) {
        let users = self.by_resource_claim.get(&(claim.namespace.clone(), claim.name.clone()));
        let open =
            |uid: &&Arc<str>| self.is_gated(uid) && !self.has_gate(&self.entries[*uid].queued.pod, cluster);
        let open: Vec<Arc<str>> = users.into_iter().flatten().filter(open).cloned().collect();
        open.iter().for_each(|uid| self.requeue(uid, cause, cluster, now));
    }

    /// The unschedulable pods a change of devices may help: all who ask for some, or those who use the claim.
    pub(super) fn asking_for_devices(&self, event: &Event) -> BTreeSet<u64> {
        let Event::ResourceClaim { old, new } = event else { return self.with_devices.clone() };
        if old.is_some_and(|old| old.allocation.is_some()) && new.allocation.is_none() {
            return self.with_devices.clone();
        }
        let users = self.by_resource_claim.get(&(new.namespace.clone(), new.name.clone()));
        let number = |uid: &Arc<str>| match self.entries[uid].position {
            QueuePosition::Unschedulable(number) => Some(number),
            _ => None,
        };
        users.into_iter().flatten().filter_map(number).collect()
    }

    pub(super) fn index_resource_claims(&mut self, pod: &Pod) {
        for key in resource_claims(pod) {
            self.by_resource_claim.entry(key).or_default().insert(pod.uid.clone());
        }
    }

    pub(super) fn unindex_resource_claims(&mut self, pod: &Pod) {
        for key in resource_claims(pod) {
            let users = self.by_resource_claim.get_mut(&key);
            if users.is_some_and(|users| users.remove(&pod.uid) && users.is_empty()) {
                self.by_resource_claim.remove(&key);
            }
        }
    }
}

fn resource_claims(pod: &Pod) -> impl Iterator<Item = ClaimKey> {
    pod.claims.iter().filter_map(|entry| Some((pod.namespace().clone(), entry.claim()?.clone())))
}
