//! Warnings about daemon sets.

use crate::pod;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// An update gets warnings only if it changes the template.
pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let generation =
        |v: &object::Value| v.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]).map(str::to_owned);
    let changed = write.old.is_none_or(|old| generation(old) != generation(write.new));
    if let Some(template) = write.spec().get("template").filter(|_| changed) {
        pod::warnings::template(template, Some(&SPEC.child("template")), warnings);
    }
}
