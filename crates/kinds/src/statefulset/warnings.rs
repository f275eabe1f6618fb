//! Warnings about stateful sets.

use crate::check::{int, items};
use crate::persistentvolumeclaim;
use crate::pod;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let spec = write.spec();
    if let Some(template) = spec.get("template").filter(|_| write.is_new_generation()) {
        pod::warnings::template(template, Some(&SPEC.child("template")), warnings);
    }
    let at = SPEC.child("volumeClaimTemplates");
    for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
        let Some(spec) = claim.get("spec") else { continue };
        let at = at.index(i);
        // Upstream forgets the claim's own "spec" on create, and writes it large on update.
        match write.is_create() {
            true => persistentvolumeclaim::warnings::spec(spec, &at, warnings),
            false => persistentvolumeclaim::warnings::spec(spec, &at.child("Spec"), warnings),
        }
    }
    if int(spec, "revisionHistoryLimit").is_some_and(|limit| limit < 0) {
        let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push_at(&SPEC.child("revisionHistoryLimit"), text);
    }
}
