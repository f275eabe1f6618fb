//! Hints of the plugin that looks at claims.

use super::Event;
use crate::dynamic_resources::DynamicResources;
use crate::pod::{CLASS_PREFIX, Pod};

pub fn dynamic_resources(pod: &Pod, event: &Event, known: &DynamicResources) -> bool {
    match event {
        Event::NodeAdded(_) | Event::DeviceClass { .. } | Event::ResourceSlice { .. } => true,
        Event::NodeUpdated { old, new } => old.labels != new.labels || old.allocatable != new.allocatable,
        Event::DevicesFreed => known.pod_claims(pod).is_ok(),
        Event::ResourceClaim { old, new } => {
            let Ok(claims) = known.pod_claims(pod) else { return false };
            let deallocated = old.is_some_and(|old| old.allocation.is_some()) && new.allocation.is_none();
            let uses = claims.iter().any(|claim| claim.uid == new.uid);
            deallocated || uses && old.is_none_or(|old| !old.same_status(new))
        }
        Event::Itself { old, new } => old.claims != new.claims && known.pod_claims(new).is_ok(),
        _ => false,
    }
}

/// Whether a class that came or changed stands for a resource the pod asks for.
pub fn class_for_resources(pod: &Pod, event: &Event) -> bool {
    let Event::DeviceClass { old, new } = event else { return false };
    let asks = |name: &str| pod.class.spec.request(name) != 0;
    let explicit = new.extended_resource_name.as_deref();
    match old {
        Some(old) if old.extended_resource_name == new.extended_resource_name => false,
        Some(_) => explicit.is_some_and(asks),
        None => explicit.is_some_and(asks) || asks(&format!("{CLASS_PREFIX}{}", new.name)),
    }
}
