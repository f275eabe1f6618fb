//! Warnings about CSI drivers.

use crate::check::{items, member};
use crate::same;
use crate::warnings::{Accepted, Warnings};

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let spec = write.spec();
    let changed =
        write.old.is_none_or(|old| !same(old.at(&["spec", "tokenRequests"]), spec.get("tokenRequests")));
    if changed
        && !items(spec, "tokenRequests").is_empty()
        && member(spec, "serviceAccountTokenInSecrets").is_none()
    {
        warnings.push(
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
             possible logging of tokens in volume attributes",
        );
    }
}
