//! What the controllers of storage share: views of claims and volumes, pods by the claims they use, and finalizers that keep
//! what is in use.

pub(crate) mod in_use;
pub(crate) mod newest;
pub(crate) mod pods;

use std::sync::Arc;

use kinds::persistentvolume::view::VolumeView;
use kinds::persistentvolumeclaim::view::ClaimView;
use object::Obj;

/// The view of a claim's object, made once per revision for all controllers.
pub(crate) fn claim_view(claim: &Obj) -> Arc<ClaimView> {
    claim.view(|claim| ClaimView::read(&runtime::tree(claim)))
}

/// The view of a volume's object, made once per revision for all controllers.
pub(crate) fn volume_view(volume: &Obj) -> Arc<VolumeView> {
    volume.view(|volume| VolumeView::read(&runtime::tree(volume)))
}
