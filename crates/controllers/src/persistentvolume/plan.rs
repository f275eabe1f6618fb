//! What is to become of a claim or a volume, seen with the other half.

use kinds::persistentvolume::view::{ReclaimPolicy, VolumePhase, VolumeView};
use kinds::persistentvolumeclaim::view::{ClaimPhase, ClaimView};

use super::class::{Class, Provisioner, provisioner};

/// Who a claim is.
#[derive(Clone, Copy, Debug)]
pub struct ClaimId<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// A volume as a claim sees it.
#[derive(Clone, Copy)]
pub struct Volume<'a> {
    pub name: &'a str,
    pub view: &'a VolumeView,
    pub deleting: bool,
}

/// An event: reason and message.
pub type Told = (&'static str, String);

#[derive(Clone, Debug, PartialEq)]
pub enum ForClaim {
    /// Claim and volume name each other: to be made so, or seen to be so.
    Bind,
    /// Nothing there is to do: pending, and people are told why.
    Pending {
        warning: bool,
        told: Option<Told>,
    },
    /// The claim names no class, and there is a default one.
    AssignClass(String),
    /// Waits for a pod; who that is decides what people are told.
    AwaitConsumer,
    /// Somebody else is to make a volume.
    Provision(Provisioner),
    Lost(Told),
    /// The claim is bound to what belongs to another; tried again.
    Broken {
        told: Told,
        why: String,
    },
}

/// A claim that names no volume, and for which none was found.
pub fn without_volume(claim: &ClaimView, class: Option<&Class>, default: Option<String>) -> ForClaim {
    if let (None, Some(default)) = (&claim.class, default) {
        return ForClaim::AssignClass(default);
    }
    let delayed = class.is_some_and(|class| class.delayed);
    if delayed && claim.selected_node.is_none() {
        return ForClaim::AwaitConsumer;
    }
    if !claim.class_name().is_empty() {
        return ForClaim::Provision(provisioner(claim.class_name(), class));
    }
    let why = "no persistent volumes available for this claim and no storage class is set";
    ForClaim::Pending { warning: false, told: Some(("FailedBinding", why.to_owned())) }
}

/// A claim that names its volume and was never bound.
pub fn named_volume(id: ClaimId<'_>, claim: &ClaimView, volume: Option<Volume<'_>>) -> ForClaim {
    let Some(volume) = volume else { return ForClaim::Pending { warning: false, told: None } };
    let Some(owner) = &volume.view.claim else {
        return match mismatch(claim, &volume) {
            None => ForClaim::Bind,
            Some(why) => {
                let told = format!("Cannot bind to requested volume \"{}\": {why}", volume.name);
                ForClaim::Pending { warning: true, told: Some(("VolumeMismatch", told)) }
            }
        };
    };
    if owner.is_for(id.namespace, id.name, id.uid) {
        return ForClaim::Bind;
    }
    let told = ("FailedBinding", format!("volume \"{}\" already bound to a different claim.", volume.name));
    if !claim.bound_by_controller {
        return ForClaim::Pending { warning: true, told: Some(told) };
    }
    let why = format!(
        "invalid binding of claim \"{}/{}\" to volume \"{}\": volume already claimed by \"{}\"",
        id.namespace,
        id.name,
        volume.name,
        owner.key()
    );
    ForClaim::Broken { told, why }
}

/// A claim that was bound before.
pub fn bound(id: ClaimId<'_>, claim: &ClaimView, volume: Option<Volume<'_>>) -> ForClaim {
    let lost = |reason, message: &str| ForClaim::Lost((reason, message.to_owned()));
    if claim.volume.is_empty() {
        let why = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lost("ClaimLost", why);
    }
    let Some(volume) = volume else {
        return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    match &volume.view.claim {
        Some(owner) if *owner.uid != *id.uid => {
            let why = "Two claims are bound to the same volume, this one is bound incorrectly";
            lost("ClaimMisbound", why)
        }
        _ => ForClaim::Bind,
    }
}

/// Why a volume that a claim names cannot be its.
fn mismatch(claim: &ClaimView, volume: &Volume<'_>) -> Option<String> {
    let view = volume.view;
    let why = if volume.deleting {
        return Some(format!("the volume is marked for deletion \"{}\"", volume.name));
    } else if view.capacity < claim.requested {
        "requested PV is too small"
    } else if *view.class != *claim.class_name() {
        "storageClassName does not match"
    } else if view.attributes_class != claim.attributes_class {
        "volumeAttributesClassName does not match"
    } else if view.block != claim.block {
        "incompatible volumeMode"
    } else if !view.modes.contains(claim.modes) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// What people are told of a claim that waits for its first consumer; `pods` use it and have no node.
pub fn awaited(pods: &[String]) -> Told {
    match pods {
        [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
        [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

pub fn awaits_provisioner(name: &str) -> Told {
    let told = format!(
        "Waiting for a volume to be created either by the external provisioner '{name}' \
         or manually by the system administrator. If volume creation is delayed, please verify that \
         the provisioner is running and correctly registered."
    );
    ("ExternalProvisioning", told)
}

/// Claim and volume are bound to each other, and say so: no write is missing.
pub fn is_settled(id: ClaimId<'_>, claim: &ClaimView, volume: &Volume<'_>) -> bool {
    let owner = volume.view.claim.as_ref();
    claim.bind_completed
        && *claim.volume == *volume.name
        && claim.phase == ClaimPhase::Bound
        && claim.status_modes == volume.view.mode_names
        && volume.view.phase == VolumePhase::Bound
        && owner.is_some_and(|owner| *owner.uid == *id.uid && owner.is_for(id.namespace, id.name, id.uid))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForVolume {
    Phase(VolumePhase),
    /// Its claim is gone, or has another: what the policy says.
    Release,
    /// The claim is to look again.
    WakeClaim,
    /// The claim's volume mode is another: what the volume and the claim are told.
    Mismatch {
        volume: String,
        claim: String,
    },
    /// The claim has another volume.
    Unbind,
}

/// A volume and the claim it names: the very one, if it is there.
pub fn volume(name: &str, view: &VolumeView, claim: Option<&ClaimView>) -> ForVolume {
    let Some(reference) = view.claim.as_ref().filter(|claim| !claim.uid.is_empty()) else {
        return ForVolume::Phase(VolumePhase::Available);
    };
    let Some(claim) = claim else { return ForVolume::Release };
    if claim.volume.is_empty() {
        if claim.block != view.block {
            let volume = format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"{}\" due to incompatible volumeMode.",
                reference.name
            );
            let claim = format!(
                "Cannot bind PersistentVolume \"{name}\" to requested PersistentVolumeClaim due to incompatible volumeMode."
            );
            return ForVolume::Mismatch { volume, claim };
        }
        return ForVolume::WakeClaim;
    }
    if *claim.volume == *name {
        return ForVolume::Phase(VolumePhase::Bound);
    }
    // Made for the claim, which has another now: nobody knows whom it would suit.
    if view.provisioned_by.is_some() && view.policy == ReclaimPolicy::Delete {
        return ForVolume::Release;
    }
    ForVolume::Unbind
}
