//! Warnings about CSI drivers.

use super::{Accepted, Said};
use crate::check::{items, member};
use crate::same;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let spec = write.spec();
    let changed =
        write.old.is_none_or(|old| !same(old.at(&["spec", "tokenRequests"]), spec.get("tokenRequests")));
    if changed
        && !items(spec, "tokenRequests").is_empty()
        && member(spec, "serviceAccountTokenInSecrets").is_none()
    {
        said.say(
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
             possible logging of tokens in volume attributes",
        );
    }
}
