//! Warnings about storage classes.

use crate::check::{Path, items, text};
use crate::node::labels;
use crate::warnings::{Accepted, Warnings};

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let at = Path::Root("allowedTopologies");
    for (i, topology) in items(write.new, "allowedTopologies").iter().enumerate() {
        let at = at.index(i);
        let at = at.child("matchLabelExpressions");
        for (j, expression) in items(topology, "matchLabelExpressions").iter().enumerate() {
            if let Some(message) = labels::deprecated(text(expression, "key")) {
                warnings.push_at(&at.index(j).child("key"), message);
            }
        }
    }
}
