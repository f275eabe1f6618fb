//! Warnings about replication controllers.

use crate::pod;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.is_create() {
        warnings.name_of_pods(write.new);
    }
    // Upstream hands the two templates over in the wrong order: an update is told about the stored one.
    let object = write.old.unwrap_or(write.new);
    if let Some(template) = object.at(&["spec", "template"]).filter(|_| write.is_new_generation()) {
        pod::warnings::template(template, Some(&SPEC.child("template")), warnings);
    }
}
