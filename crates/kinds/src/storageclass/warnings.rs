//! Warnings about storage classes.

use super::{Accepted, Said, node_labels};
use crate::check::{Path, items, text};

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let at = Path::Root("allowedTopologies");
    for (i, topology) in items(write.new, "allowedTopologies").iter().enumerate() {
        let at = at.index(i);
        let at = at.child("matchLabelExpressions");
        for (j, expression) in items(topology, "matchLabelExpressions").iter().enumerate() {
            if let Some(message) = node_labels::deprecated(text(expression, "key")) {
                said.about(&at.index(j).child("key"), message);
            }
        }
    }
}
