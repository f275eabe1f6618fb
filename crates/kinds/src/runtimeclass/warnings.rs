//! Warnings about runtime classes.

use crate::check::{entries, member};
use crate::node::labels;
use crate::warnings::{Accepted, Warnings};

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let Some(scheduling) = member(write.new, "scheduling") else { return };
    for (label, _) in entries(scheduling, "nodeSelector") {
        if let Some(message) = labels::deprecated(label) {
            warnings.push(format!("scheduling.nodeSelector: {message}"));
        }
    }
}
