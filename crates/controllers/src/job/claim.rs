//! Which pods are a Job's: those it controls, and orphans its selector fits, which it adopts.

use std::sync::Arc;

use client::resources::{JOBS, PODS};
use runtime::owners::{self, Claimant};
use runtime::{Failure, Key};
use table::Obj;

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
        let before: Vec<Arc<Obj>> =
            candidates.iter().filter(|pod| owners::controller_of(pod).is_none()).cloned().collect();
        let claimant = Claimant {
            resource: JOBS,
            api_version: "batch/v1",
            kind: "Job",
            owner: job,
            finalizer: Some(FINALIZER),
        };
        let fits = |pod: &Obj| matches(&spec.selector, pod);
        let pods = owners::claim(&*self.client, &claimant, PODS, candidates, fits).await?;
        for adopted in pods.iter().filter(|pod| before.iter().any(|orphan| orphan.path() == pod.path())) {
            self.remember(&Key::of(job), |memory| memory.adopted(adopted));
        }
        Ok(pods)
    }
}
