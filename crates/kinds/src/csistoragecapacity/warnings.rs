//! Warnings about storage capacities.

use crate::check::{Path, entries, items, member};
use crate::node::labels;
use crate::warnings::{Accepted, Warnings};

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let Some(topology) = member(write.new, "nodeTopology") else { return };
    let at = Path::Root("nodeTopology");
    for (i, expression) in items(topology, "matchExpressions").iter().enumerate() {
        labels::expression_key(expression, &at.child("matchExpressions").index(i), warnings);
    }
    for (label, _) in entries(topology, "matchLabels") {
        if let Some(message) = labels::deprecated(label) {
            warnings.push_at(&at.child("matchLabels").child(label), message);
        }
    }
}
