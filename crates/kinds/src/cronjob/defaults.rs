//! Cron jobs: concurrent runs allowed, a short history kept.

use object::Map;

use crate::defaults::fill::Literal::{Bool, Int, Text};
use crate::defaults::fill::{Default, fill, inside, plain, pointer};
use crate::job;

const SPEC: &[Default] = &[
    plain("concurrencyPolicy", Text("Allow")),
    pointer("suspend", Bool(false)),
    pointer("successfulJobsHistoryLimit", Int(3)),
    pointer("failedJobsHistoryLimit", Int(1)),
];

pub(crate) fn apply(cron: &mut Map) {
    let Some(spec) = inside(cron, "spec") else { return };
    fill(spec, SPEC);
    // The job's own defaults come when the job is made.
    if let Some(inner) = inside(spec, "jobTemplate").and_then(|template| inside(template, "spec")) {
        job::defaults::template_spec(inner);
    }
}
