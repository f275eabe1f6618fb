//! A volume goes when no claim is bound to it.

use kinds::persistentvolume::view::VolumePhase::{Available, Bound, Failed, Pending, Released};

use super::plan::plan;
use crate::volumes::in_use::Protection;

#[test]
fn a_bound_volume_is_kept_and_any_other_goes() {
    for phase in [Pending, Available, Released, Failed] {
        assert_eq!(plan(true, phase), Protection::Remove, "{phase:?}");
        assert_eq!(plan(false, phase), Protection::Add, "{phase:?}");
    }
    assert_eq!(plan(true, Bound), Protection::Keep);
    assert_eq!(plan(false, Bound), Protection::Add);
}
