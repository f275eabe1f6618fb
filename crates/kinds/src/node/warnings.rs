//! Warnings about nodes.

use crate::check::{member, text, texts};
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let spec = write.spec();
    if member(spec, "configSource").is_some() {
        warnings.push_at(&SPEC.child("configSource"), "the feature is removed");
    }
    if !text(spec, "externalID").is_empty() {
        warnings.push_at(&SPEC.child("externalID"), "this field is deprecated, and is unused by Kubernetes");
    }
    for (i, block) in texts(spec, "podCIDRs").enumerate() {
        warnings.cidr(&SPEC.child("podCIDRs").index(i), block);
    }
}
