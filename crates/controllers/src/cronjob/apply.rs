//! A reconcile on a CronJob: the decisions of `plan.rs`, carried out.

use std::sync::Arc;

use client::resources::{CRON_JOBS, JOBS};
use client::{DeleteOptions, Propagation, WriteOptions};
use object::{Obj, Status};
use runtime::{Action, BY_CONTROLLER, Failure, ReconcileRequest, Severity, owners};

use super::CronJobs;
use super::plan::{Child, End, Step, Work};
use super::template;
use super::view::{ActiveJob, Policy, cron_job_view};
use crate::job::job_view;

impl CronJobs {
    pub(super) async fn sync(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        self.writes.seen(request.key).await?;
        let Some(mut cron) = self.cron_jobs.store().get_key(request.key) else {
            self.writes.forget(request.key);
            return Ok(Action::AwaitChange);
        };
        // Differs from kube-controller-manager: there, Jobs of another CronJob that had the same name count, too.
        let mut jobs = self.jobs.store().by_index(BY_CONTROLLER, cron.uid());
        jobs.retain(|job| job.namespace() == cron.namespace());
        let mut work = Work::begin(cron_job_view(&cron).as_ref().clone());
        let outcome = self.turn(&request, &mut cron, &jobs, &mut work).await;
        for told in work.events.drain(..) {
            self.recorder.event(&CRON_JOBS, &cron, told.severity, told.reason, told.message);
        }
        if work.changed {
            let mut tree = runtime::tree(&cron);
            work.cron.status.write(&mut tree);
            let target = CRON_JOBS.of(&cron).sub("status");
            let written = self.client.update(target, tree, WriteOptions::default()).await?;
            self.writes.note(request.key, &CRON_JOBS, &written);
        }
        outcome
    }

    /// Everything but the status, which is stored whatever comes of this.
    async fn turn(
        &self,
        request: &ReconcileRequest<'_>,
        cron: &mut Arc<Obj>,
        jobs: &[Arc<Obj>],
        work: &mut Work,
    ) -> Result<Action, Failure> {
        let children: Vec<Child> = jobs.iter().map(|job| child(job)).collect();
        for at in work.excess(&children) {
            // What cannot be deleted now is tried again with the next reconcile.
            let _ = self.delete(&jobs[at], work).await;
        }
        let unknown = work.unknown(&children);
        if !unknown.is_empty() {
            let fresh = self.client.get(CRON_JOBS.of(cron)).await?;
            if fresh.uid() == cron.uid() && work.look_again(&cron_job_view(&fresh), &children, &unknown) {
                *cron = fresh;
            }
        }
        work.ended(&children);
        for active in work.missing(&children) {
            // The informer may be behind.
            match self.client.get(JOBS.at(&active.namespace, &active.name)).await {
                Err(status) if status.code == 404 => work.gone(&active),
                Err(status) => return Err(status.into()),
                Ok(_) => {}
            }
        }
        let now_nanos = self.env.now_nanos() as i128;
        let step = work.decide(now_nanos);
        request.plan(|| format!("{step:?}; {} active", work.cron.status.active.len()));
        let wait = match step {
            Step::Nothing => None,
            Step::Wait(wait) => Some(wait),
            Step::Start(at) => {
                if !self.start(cron, work, request, at).await? {
                    return Ok(Action::AwaitChange);
                }
                work.next_wait(now_nanos)
            }
        };
        Ok(wait.map_or(Action::AwaitChange, Action::Requeue))
    }

    /// Makes the Job of a time; tells whether there is any use in waiting for the next.
    async fn start(
        &self,
        cron: &Arc<Obj>,
        work: &mut Work,
        request: &ReconcileRequest<'_>,
        at: i64,
    ) -> Result<bool, Failure> {
        // Thousands may be due in the same moment: everybody else has a turn in between.
        tokio::task::yield_now().await;
        if work.cron.spec.policy == Policy::Replace {
            for active in work.cron.status.active.clone() {
                self.replace(&active, work).await?;
            }
        }
        let job = template::job(cron, &work.cron, at);
        let name = job.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
        match self.client.create(JOBS.within(cron.namespace()), job, WriteOptions::default()).await {
            Ok(job) => {
                self.writes.note(request.key, &JOBS, &job);
                work.tell(Severity::Normal, "SuccessfulCreate", format!("Created job {}", job.name()));
                work.started(ActiveJob::of(&job), at);
            }
            Err(status) if crate::namespace_is_going(&status) => return Ok(false),
            Err(status) if status.reason == "AlreadyExists" => {
                // Made before a death, and not written down; or somebody else's, who answers for it.
                let job = self.client.get(JOBS.at(cron.namespace(), &name)).await?;
                let ours = owners::controller_of(&job).is_some_and(|owner| owner.uid == cron.uid());
                if ours && !work.cron.status.is_active(job.uid()) {
                    work.started(ActiveJob::of(&job), at);
                }
            }
            Err(status) => {
                let message = format!("Error creating job: {}", status.message);
                work.tell(Severity::Warning, "FailedCreate", message);
                return Err(status.into());
            }
        }
        Ok(true)
    }

    async fn replace(&self, active: &ActiveJob, work: &mut Work) -> Result<(), Failure> {
        let job = match self.client.get(JOBS.at(&active.namespace, &active.name)).await {
            Ok(job) => job,
            Err(status) => {
                work.tell(Severity::Warning, "FailedGet", format!("Get job: {}", status.message));
                return Err(status.into());
            }
        };
        let failed = || Failure::Other(format!("could not replace job {}", job.path()));
        self.delete(&job, work).await.map_err(|_| failed())
    }

    async fn delete(&self, job: &Obj, work: &mut Work) -> Result<(), Status> {
        let options = DeleteOptions {
            propagation_policy: Some(Propagation::Background),
            ..DeleteOptions::exactly(job)
        };
        match self.client.delete(JOBS.of(job), options).await {
            Err(status) if status.code != 404 => {
                let message = format!("Deleted job: {}", status.message);
                work.tell(Severity::Warning, "FailedDelete", message);
                Err(status)
            }
            _ => {
                work.deleted(job.uid(), job.name());
                Ok(())
            }
        }
    }
}

fn child(job: &Obj) -> Child {
    let status = &job_view(job).status;
    let end = if status.is_true("Complete") {
        Some(End::Complete)
    } else {
        status.is_true("Failed").then_some(End::Failed)
    };
    Child {
        uid: job.uid().to_owned(),
        name: job.name().to_owned(),
        end,
        started: status.start_time,
        completed: status.completion_time,
    }
}
