//! Jobs: one run of one pod, six failures allowed.
//!
//! A job without labels gets those of its template, but only after the strategy has added its own: upstream shares one map
//! between the two.

use object::Map;

use crate::defaults::fill::Literal::{Bool, Int, Text};
use crate::defaults::fill::{Default, at, each, fill, inside, is_set, plain, pointer};
use crate::pod;

const ONE_RUN: &[Default] = &[pointer("completions", Int(1))];
const SPEC: &[Default] = &[
    pointer("parallelism", Int(1)),
    pointer("completionMode", Text("NonIndexed")),
    pointer("suspend", Bool(false)),
    pointer("manualSelector", Bool(false)),
];
/// Where each index has a limit of its own, the whole has none.
const ANY_FAILURES: &[Default] = &[pointer("backoffLimit", Int(i32::MAX as i64))];
const SIX_FAILURES: &[Default] = &[pointer("backoffLimit", Int(6))];
/// A failure policy is evaluated for pods that have failed: those still going are not replaced yet.
const REPLACE_FAILED: &[Default] = &[pointer("podReplacementPolicy", Text("Failed"))];
const REPLACE_EARLY: &[Default] = &[pointer("podReplacementPolicy", Text("TerminatingOrFailed"))];
const CONDITION: &[Default] = &[plain("status", Text("True"))];

pub(crate) fn apply(job: &mut Map) {
    let Some(spec) = inside(job, "spec") else { return };
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        fill(spec, ONE_RUN);
    }
    fill(spec, if is_set(spec, "backoffLimitPerIndex") { ANY_FAILURES } else { SIX_FAILURES });
    fill(spec, if is_set(spec, "podFailurePolicy") { REPLACE_FAILED } else { REPLACE_EARLY });
    fill(spec, SPEC);
    template_spec(spec);
}

/// The part that holds for the job template of a CronJob too.
pub(crate) fn template_spec(spec: &mut Map) {
    if let Some(policy) = at(spec, "podFailurePolicy") {
        each(policy, "rules", |rule| {
            each(rule, "onPodConditions", |condition| fill(condition, CONDITION));
        });
    }
    pod::defaults::template(spec);
}
