//! Warnings about daemon sets.

use super::{Accepted, Said, pod};
use crate::workload::SPEC;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// An update is judged only if it changes the template.
pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let generation =
        |v: &object::Value| v.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]).map(str::to_owned);
    let changed = write.old.is_none_or(|old| generation(old) != generation(write.new));
    if let Some(template) = write.spec().get("template").filter(|_| changed) {
        pod::template(template, Some(&SPEC.child("template")), said);
    }
}
