//! Warnings about jobs: of their spec, and of a DELETE that leaves their pods.

use object::{DeleteOptions, Value};

use crate::check::{Path, int, text};
use crate::pod;
use crate::warnings::{Accepted, Warnings};
use crate::workload::SPEC;

const MANY_COMPLETIONS: i64 = 100_000;
const MUCH_PARALLELISM: i64 = 10_000;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if write.is_create() {
        warnings.name_of_pods(write.new);
    }
    if write.is_new_generation() {
        spec(write.spec(), &SPEC, warnings);
    }
}

/// The spec of a job, or of those a cron job makes.
pub(crate) fn spec(spec: &Value, at: &Path<'_>, warnings: &mut Warnings) {
    let count = |name| int(spec, name).unwrap_or(0);
    if text(spec, "completionMode") == "Indexed"
        && count("completions") > MANY_COMPLETIONS
        && count("parallelism") > MUCH_PARALLELISM
    {
        warnings.push_at(
            at,
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
        );
    }
    if let Some(template) = spec.get("template") {
        pod::warnings::template(template, Some(&at.child("template")), warnings);
    }
}

/// batch/v1 leaves the pods of a deleted job unless told otherwise, which surprises people.
pub(crate) fn delete_warning(options: &DeleteOptions) -> Option<&'static str> {
    let silent = options.propagation_policy.is_none() && options.orphan_dependents.is_none();
    silent.then_some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
         them or set propagationPolicy=Orphan to suppress this warning",
    )
}
