//! Hints of the plugins that look at volumes.

use super::Event;
use crate::pod::{Pod, PodVolume, disks_conflict};
use crate::storage::{Claim, Storage};

/// Differs from kube-scheduler, which forgets that a disk may be in use in another namespace.
pub fn restrictions(pod: &Pod, event: &Event) -> bool {
    match event {
        Event::NodeAdded(_) => true,
        Event::Claim { old: None, new } => names(pod, new),
        Event::Gone { pod: gone, .. } => {
            let used = |v: &PodVolume| matches!(v, PodVolume::Claim(_)) && gone.volumes.contains(v);
            gone.namespace == *pod.namespace() && pod.class.volumes.iter().any(used)
                || disks_conflict(&pod.class.volumes, &gone.volumes)
        }
        _ => false,
    }
}

/// Differs from kube-scheduler, which waits for the CSINode of a new node: one without has no limits.
pub fn limits(pod: &Pod, event: &Event) -> bool {
    match event {
        Event::NodeAdded(_) | Event::CsiNode { old: None, .. } => true,
        Event::CsiNode { old: Some(old), new } => {
            let mut limits = new.limits.iter().map(|(driver, limit)| (limit.unwrap_or(0), old.limit(driver)));
            // A driver that is not named, or without a number, has no limit.
            limits.any(|(limit, before)| limit > before.unwrap_or(0))
                || old.limits.iter().any(|(driver, limit)| limit.is_some() && new.limit(driver).is_none())
        }
        Event::Gone { pod: gone, .. } => {
            gone.volumes.iter().any(|volume| !matches!(volume, PodVolume::Disk(_)))
        }
        Event::Claim { old: None, new } => uses(pod, new),
        Event::Detached => pod.class.volumes.iter().any(|volume| !matches!(volume, PodVolume::Disk(_))),
        _ => false,
    }
}

/// Differs from kube-scheduler, which tries again after every change of any volume, also of one that is another's, and forgets claims when a driver
/// does not say any more how much room it has.
pub fn binding(pod: &Pod, event: &Event, storage: &Storage) -> bool {
    match event {
        Event::NodeAdded(_) => true,
        Event::NodeUpdated { old, new } => old.labels != new.labels,
        Event::StorageClass { old, new } => old.is_none_or(|old| old.topologies != new.topologies),
        Event::Claim { new, .. } => uses(pod, new),
        Event::Volume { new: volume, .. } => pod.class.volumes.iter().any(|v| {
            // Also when a claim is gone, which the volume still names: what was said of the claim is no longer so.
            if volume
                .claim
                .as_ref()
                .is_some_and(|c| c.namespace == *pod.namespace() && v.is_claim(&pod.name, &c.name))
            {
                return true;
            }
            let claim = v.claim_name(&pod.name).and_then(|name| storage.claim(pod.namespace(), &name));
            claim.is_some_and(|claim| match claim.is_bound() {
                true => claim.volume == volume.name,
                false => match &volume.claim {
                    Some(own) => own.namespace == claim.namespace && own.name == claim.name,
                    None => claim.class == volume.class,
                },
            })
        }),
        Event::CapacityAdded | Event::CapacityGrown | Event::CapacityIgnored => true,
        _ => false,
    }
}

pub fn zone(pod: &Pod, event: &Event) -> bool {
    match event {
        Event::NodeAdded(_) => true,
        Event::NodeUpdated { old, new } => old.labels != new.labels,
        Event::StorageClass { old: None, new } => new.waits,
        Event::Claim { new, .. } => names(pod, new),
        Event::Volume { old, new } => old.is_none_or(|old| old.zones() != new.zones()),
        _ => false,
    }
}

/// Whether it is one of the pod's claims.
fn uses(pod: &Pod, claim: &Claim) -> bool {
    let volumes = &pod.class.volumes;
    *pod.namespace() == claim.namespace && volumes.iter().any(|v| v.is_claim(&pod.name, &claim.name))
}

/// As [`uses`], without those of ephemeral volumes.
fn names(pod: &Pod, claim: &Claim) -> bool {
    let named = |v: &PodVolume| matches!(v, PodVolume::Claim(name) if *name == claim.name);
    *pod.namespace() == claim.namespace && pod.class.volumes.iter().any(named)
}
