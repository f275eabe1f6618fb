//! Warnings about deployments.

use crate::pod;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.is_create() {
        warnings.name_of_pods(write.new);
    }
    if let Some(template) = write.spec().get("template").filter(|_| write.is_new_generation()) {
        pod::warnings::template(template, Some(&SPEC.child("template")), warnings);
    }
}
