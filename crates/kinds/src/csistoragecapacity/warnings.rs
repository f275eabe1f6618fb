//! Warnings about storage capacities.

use super::{Accepted, Said, node_labels};
use crate::check::{Path, entries, items, member};

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let Some(topology) = member(write.new, "nodeTopology") else { return };
    let at = Path::Root("nodeTopology");
    for (i, expression) in items(topology, "matchExpressions").iter().enumerate() {
        node_labels::expression_key(expression, &at.child("matchExpressions").index(i), said);
    }
    for (label, _) in entries(topology, "matchLabels") {
        if let Some(message) = node_labels::deprecated(label) {
            said.about(&at.child("matchLabels").child(label), message);
        }
    }
}
