//! Warnings about service accounts.

use super::{Accepted, Said};

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let before = write.old.and_then(|old| old.at(&["metadata", "annotations", ENFORCE]));
    if before.is_none() && write.annotation(ENFORCE).is_some() {
        said.say(format!(
            "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to \
             mounted secrets"
        ));
    }
}
