//! Whether a claim wants to be larger than its volume.

use kinds::persistentvolume::view::{PRE_RESIZE_CAPACITY, VolumeView};
use kinds::persistentvolumeclaim::view::{ClaimView, annotation};
use object::Value;

/// Which claim it is.
#[derive(Clone, Copy)]
pub struct ClaimId<'a> {
    pub namespace: &'a str,
    pub uid: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    Nothing,
    /// The volume is not the claim's: tried again.
    NotBound,
    /// A driver outside of this program is to make it larger.
    AwaitOthers,
}

/// Is a claim to be looked at again?
pub fn grew(old: &ClaimView, new: &ClaimView) -> bool {
    new.requested > old.requested || new.capacity > old.capacity
}

/// The claim and the volume it names.
pub fn plan(id: ClaimId<'_>, claim: &ClaimView, volume: &Value) -> Plan {
    let owner = VolumeView::read(volume).claim;
    if !owner.is_some_and(|owner| *owner.namespace == *id.namespace && *owner.uid == *id.uid) {
        return Plan::NotBound;
    }
    match claim.requested <= claim.capacity && annotation(volume, PRE_RESIZE_CAPACITY).is_none() {
        true => Plan::Nothing,
        false => Plan::AwaitOthers,
    }
}
