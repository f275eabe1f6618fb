//! Warnings about runtime classes.

use super::{Accepted, Said, node_labels};
use crate::check::{entries, member};

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let Some(scheduling) = member(write.new, "scheduling") else { return };
    for (label, _) in entries(scheduling, "nodeSelector") {
        if let Some(message) = node_labels::deprecated(label) {
            said.say(format!("scheduling.nodeSelector: {message}"));
        }
    }
}
