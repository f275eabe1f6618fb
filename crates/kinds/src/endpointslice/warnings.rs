//! Warnings about endpoint slices: names instead of addresses, and addresses in odd forms.

use crate::check::{Path, items, text, texts};
use crate::warnings::{Accepted, Warnings};

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLERS: [&str; 2] =
    ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.is_create() && text(write.new, "addressType") == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated");
    }
    // The controllers write canonical addresses: no check is needed.
    let manager = write.new.str_at(&["metadata", "labels", MANAGED_BY]);
    if manager.is_some_and(|name| CONTROLLERS.contains(&name)) {
        return;
    }
    let at = Path::Root("endpoints");
    for (i, endpoint) in items(write.new, "endpoints").iter().enumerate() {
        for (j, address) in texts(endpoint, "addresses").enumerate() {
            warnings.ip(&at.index(i).child("addresses").index(j), address);
        }
    }
}
