//! Whether a volume may go.

use kinds::persistentvolume::view::VolumePhase;

use crate::volumes::in_use::Protection;

pub const FINALIZER: &str = "kubernetes.io/pv-protection";

/// For a volume that lives without the finalizer, or is deleted with it.
pub fn plan(deleting: bool, phase: VolumePhase) -> Protection {
    Protection::of(deleting, || phase == VolumePhase::Bound)
}
