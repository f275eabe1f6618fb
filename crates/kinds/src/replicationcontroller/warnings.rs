//! Warnings about replication controllers.

use super::{Accepted, Said, pod};
use crate::workload::SPEC;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if write.is_create() {
        said.name_of_pods(write.new);
    }
    // Upstream hands the two templates over in the wrong order: an update is told about the stored one.
    let judged = write.old.unwrap_or(write.new);
    if let Some(template) = judged.at(&["spec", "template"]).filter(|_| write.is_new_generation()) {
        pod::template(template, Some(&SPEC.child("template")), said);
    }
}
