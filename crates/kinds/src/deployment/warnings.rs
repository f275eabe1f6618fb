//! Warnings about deployments.

use super::{Accepted, Said, pod};
use crate::workload::SPEC;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if write.is_create() {
        said.name_of_pods(write.new);
    }
    if let Some(template) = write.spec().get("template").filter(|_| write.is_new_generation()) {
        pod::template(template, Some(&SPEC.child("template")), said);
    }
}
