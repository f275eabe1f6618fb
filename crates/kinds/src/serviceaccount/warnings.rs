//! Warnings about service accounts.

use crate::warnings::{Accepted, Warnings};

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let before = write.old.and_then(|old| old.at(&["metadata", "annotations", ENFORCE]));
    if before.is_none() && write.annotation(ENFORCE).is_some() {
        warnings.push(format!(
            "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to \
             mounted secrets"
        ));
    }
}
