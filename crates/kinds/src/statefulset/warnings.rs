//! Warnings about stateful sets.

use super::{Accepted, Said, persistentvolumeclaim, pod};
use crate::check::{int, items};
use crate::workload::SPEC;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    let spec = write.spec();
    if let Some(template) = spec.get("template").filter(|_| write.is_new_generation()) {
        pod::template(template, Some(&SPEC.child("template")), said);
    }
    let at = SPEC.child("volumeClaimTemplates");
    for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
        let Some(spec) = claim.get("spec") else { continue };
        let at = at.index(i);
        // Upstream forgets the claim's own "spec" on create, and writes it large on update.
        match write.is_create() {
            true => persistentvolumeclaim::spec(spec, &at, said),
            false => persistentvolumeclaim::spec(spec, &at.child("Spec"), said),
        }
    }
    if int(spec, "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
        said.about(&SPEC.child("revisionHistoryLimit"), text);
    }
}
