//! Warnings about cron jobs.

use super::{Accepted, Said, job};
use crate::check::text;
use crate::workload::SPEC;

pub(super) fn warn(write: &Accepted<'_>, said: &mut Said) {
    if write.is_create() {
        said.name_of_pods(write.new);
    }
    let spec = write.spec().at(&["jobTemplate", "spec"]);
    if let Some(spec) = spec.filter(|_| write.is_new_generation()) {
        job::spec(spec, &SPEC.child("jobTemplate").child("spec"), said);
    }
    // A create with one is refused; what stands there already may stay. Upstream says "spec" twice.
    if !write.is_create() && text(write.spec(), "schedule").contains("TZ") {
        said.say(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
        );
    }
}
