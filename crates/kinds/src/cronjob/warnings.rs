//! Warnings about cron jobs.

use crate::check::text;
use crate::job;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.is_create() {
        warnings.name_of_pods(write.new);
    }
    let spec = write.spec().at(&["jobTemplate", "spec"]);
    if let Some(spec) = spec.filter(|_| write.is_new_generation()) {
        job::warnings::spec(spec, &SPEC.child("jobTemplate").child("spec"), warnings);
    }
    // A create with one is refused; a stored one may stay. Upstream repeats "spec".
    if !write.is_create() && text(write.spec(), "schedule").contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
        );
    }
}
