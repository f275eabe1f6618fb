//! Warnings about admission policies, their bindings and webhook configurations: names reserved for static manifests.

use crate::warnings::{Accepted, Warnings};

const STATIC: &str = ".static.k8s.io";

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.new.str_at(&["metadata", "name"]).is_some_and(|name| name.ends_with(STATIC)) {
        warnings.push(format!(
            "metadata.name: names ending with \"{STATIC}\" are reserved for static manifest-based configurations \
             and cannot be managed via the API"
        ));
    }
}
