//! Warnings about admission policies, their bindings and webhook configurations: names that belong to files.

use super::{Accepted, Said};

const STATIC: &str = ".static.k8s.io";

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if write.new.str_at(&["metadata", "name"]).is_some_and(|name| name.ends_with(STATIC)) {
        said.say(format!(
            "metadata.name: names ending with \"{STATIC}\" are reserved for static manifest-based configurations \
             and cannot be managed via the API"
        ));
    }
}
