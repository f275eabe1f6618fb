//! Warnings about endpoints: addresses in odd forms.

use crate::check::{Path, items, text};
use crate::warnings::{Accepted, Warnings};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    // The controller writes canonical addresses: no check is needed.
    if write.new.str_at(&["metadata", "labels", MANAGED_BY]) == Some("endpoint-controller") {
        return;
    }
    let at = Path::Root("subsets");
    for (i, subset) in items(write.new, "subsets").iter().enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            for (j, address) in items(subset, list).iter().enumerate() {
                warnings.ip(&at.index(i).child(list).index(j).child("ip"), text(address, "ip"));
            }
        }
    }
}
