//! Warnings about nodes.

use super::{Accepted, Said};
use crate::check::{member, text, texts};
use crate::workload::SPEC;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let spec = write.spec();
    if member(spec, "configSource").is_some() {
        said.about(&SPEC.child("configSource"), "the feature is removed");
    }
    if !text(spec, "externalID").is_empty() {
        said.about(&SPEC.child("externalID"), "this field is deprecated, and is unused by Kubernetes");
    }
    for (i, block) in texts(spec, "podCIDRs").enumerate() {
        said.cidr(&SPEC.child("podCIDRs").index(i), block);
    }
}
