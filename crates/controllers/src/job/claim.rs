//! Which pods are a Job's: those it controls, and orphans its selector fits, which it adopts.

use std::sync::Arc;

use client::Patch;
use client::resources::{JOBS, PODS};
use object::{Status, Value};
use runtime::{BY_CONTROLLER, Failure, Key, owners};
use table::Obj;

use super::Jobs;
use super::pods::FINALIZER;
use super::view::Spec;

/// The index of pods nobody controls, by namespace.
pub const ORPHANS: &str = "job-orphans";

pub fn orphan_of(pod: &Obj) -> Vec<String> {
    if owners::controller_of(pod).is_none() { vec![pod.namespace().to_owned()] } else { Vec::new() }
}

impl Jobs {
    pub(super) async fn claimed(&self, job: &Arc<Obj>, spec: &Spec) -> Result<Vec<Arc<Obj>>, Failure> {
        let fits = |pod: &Obj| spec.selector.matches(&|name| pod.label(name));
        let mut pods = self.pods.store().by_index(BY_CONTROLLER, job.uid());
        let mut stray = Vec::new();
        pods.retain(|pod| {
            let ours = pod.namespace() == job.namespace();
            let fitting = fits(pod);
            if ours && !fitting {
                stray.push(pod.clone());
            }
            ours && fitting
        });
        if job.deleting() {
            return Ok(pods);
        }
        for pod in stray {
            match self.release(job, &pod).await {
                // Gone, or no longer what it was: nothing to release.
                Err(status) if status.code != 404 && status.code != 422 => return Err(status.into()),
                _ => {}
            }
        }
        let mut orphans = self.pods.store().by_index(ORPHANS, job.namespace());
        orphans.retain(|pod| !pod.deleting() && fits(pod));
        if !orphans.is_empty() {
            self.check_alive(job).await?;
        }
        for pod in orphans {
            match self.adopt(job, &pod).await {
                Ok(adopted) => pods.push(adopted),
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status.into()),
            }
        }
        Ok(pods)
    }

    /// A Job that goes adopts nobody; the server knows best whether it does.
    async fn check_alive(&self, job: &Obj) -> Result<(), Failure> {
        let fresh = self.client.get(JOBS.of(job)).await?;
        if fresh.uid() != job.uid() || fresh.deleting() {
            let path = job.path();
            return Err(Failure::Other(format!("the Job {path} is gone or going: it adopts no pods")));
        }
        Ok(())
    }

    async fn adopt(&self, job: &Arc<Obj>, pod: &Obj) -> Result<Arc<Obj>, Status> {
        let mut patch = Value::map();
        let metadata = patch.map_at(&["metadata"]);
        metadata.set("uid", pod.uid());
        metadata.set("ownerReferences", vec![owners::controller_ref("batch/v1", "Job", job)]);
        metadata.set("finalizers", vec![Value::from(FINALIZER)]);
        self.patched(job, pod, patch).await
    }

    async fn release(&self, job: &Arc<Obj>, pod: &Obj) -> Result<Arc<Obj>, Status> {
        let mut owner = Value::map();
        owner.make_map().set("$patch", "delete");
        owner.make_map().set("uid", job.uid());
        let mut patch = Value::map();
        let metadata = patch.map_at(&["metadata"]);
        metadata.set("uid", pod.uid());
        metadata.set("ownerReferences", vec![owner]);
        metadata.set("$deleteFromPrimitiveList/finalizers", vec![Value::from(FINALIZER)]);
        self.patched(job, pod, patch).await
    }

    async fn patched(&self, job: &Arc<Obj>, pod: &Obj, patch: Value) -> Result<Arc<Obj>, Status> {
        let patched = self.client.patch(PODS.of(pod), Patch::Strategic(patch)).await?;
        let revision = patched.revision();
        self.remember(&Key::of(job), |memory| memory.wrote_pods = memory.wrote_pods.max(revision));
        Ok(patched)
    }
}
