//! Which pods are a Job's: those it controls, and orphans its selector fits, which it adopts.

use std::sync::Arc;

use client::resources::{JOBS, PODS};
use object::Obj;
use runtime::owners::{self, Claimant, Verdict};
use runtime::{Failure, Key};

use super::Jobs;
use super::pods::FINALIZER;
use super::view::Spec;
use crate::claim::{candidates, matches};

impl Jobs {
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
