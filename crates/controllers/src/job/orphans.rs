//! Pods whose Job is gone or over lose the finalizer nobody else would take.

use std::sync::Arc;

use client::WriteOptions;
use client::resources::PODS;
use futures_util::future::BoxFuture;
use object::Value;
use runtime::{Action, Failure, Reconcile, ReconcileRequest, owners};

use super::Jobs;
use super::handlers::resolve;
use super::pods::{FINALIZER, is_tracked};
use super::view::job_view;

pub(super) struct OrphanPods {
    pub state: Arc<Jobs>,
}

impl Reconcile for OrphanPods {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let state = &self.state;
            let Some(pod) = state.pods.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            if !is_tracked(&pod) {
                return Ok(Action::AwaitChange);
            }
            if let Some(owner) = owners::controller_of(&pod) {
                if owner.kind != "Job" || owner.api_version != "batch/v1" {
                    return Ok(Action::AwaitChange);
                }
                let job = resolve(&state.jobs, pod.namespace(), &owner);
                // Its Job counts it, or whoever else manages that.
                let elsewhere = |job: &super::Job| job.spec.managed_by.is_some() || !job.is_finished();
                if job.is_some_and(|job| elsewhere(&job_view(&job))) {
                    return Ok(Action::AwaitChange);
                }
            }
            request.plan(|| "take the finalizer".to_owned());
            let mut patch = Value::map();
            let metadata = patch.map_at(&["metadata"]);
            metadata.set("uid", pod.uid());
            metadata.set("$deleteFromPrimitiveList/finalizers", vec![Value::from(FINALIZER)]);
            match state
                .client
                .patch(PODS.of(&pod), client::Patch::Strategic(patch), WriteOptions::default())
                .await
            {
                Err(status) if status.code != 404 => Err(status.into()),
                _ => Ok(Action::AwaitChange),
            }
        })
    }
}
