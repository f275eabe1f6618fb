//! Which pods are a Job's: those it controls, and orphans its selector fits, which it adopts.

use std::sync::Arc;

use client::resources::{JOBS, PODS};
use object::Obj;
use runtime::owners::{self, Claimant, Verdict};
use runtime::{BY_CONTROLLER, Failure, Key};

use super::Jobs;
use super::pods::FINALIZER;
use super::tally::{Counts, PodTally};
use super::view::Spec;
use crate::claim::{candidates, matches, wanted_orphans};

impl Jobs {
    /// What the Job's pods count, and those of them that have to be looked at; `None`: it has to be settled first whose some are.
    pub(super) fn counted(&self, job: &Obj, spec: &Spec) -> Option<(Counts, Vec<Arc<Obj>>)> {
        let (pods, selector) = (self.pods.store(), spec.selector.as_ref().ok()?);
        if !wanted_orphans(&self.pods, job, &spec.selector).is_empty() {
            return None;
        }
        let judged = spec.failure_policy.is_some();
        let read = |tally: &PodTally| tally.counts(job.namespace(), selector, judged);
        let counts = pods.tally(BY_CONTROLLER, job.uid(), read)?;
        let named = counts.ended.iter().chain(&counts.failed).filter_map(|key| pods.get_key(key));
        // The name may be another's by now.
        let is_own = |pod: &Arc<Obj>| owners::controller_of(pod).is_some_and(|owner| owner.uid == job.uid());
        let named = named.filter(is_own).collect();
        Some((counts, named))
    }

    pub(super) async fn claimed(&self, job: &Arc<Obj>, spec: &Spec) -> Result<Vec<Arc<Obj>>, Failure> {
        if let Err(why) = &spec.selector {
            return Err(Failure::Other(format!("couldn't convert Job selector: {why}")));
        }
        let candidates = candidates(&self.pods, job, &spec.selector);
        let claimant = Claimant {
            resource: &JOBS,
            api_version: "batch/v1",
            kind: "Job",
            owner: job,
            finalizer: Some(FINALIZER),
        };
        let decided = owners::decide(job, candidates, |pod| matches(&spec.selector, pod));
        let mut wrote = |verdict: Verdict, pod: &Obj| {
            self.remember(&Key::of(job), |memory| match verdict {
                Verdict::Adopt => memory.adopted(pod),
                _ => memory.wrote_pod(pod),
            });
        };
        Ok(owners::apply(&*self.client, &claimant, &PODS, decided, &mut wrote).await?)
    }
}
