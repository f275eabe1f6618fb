//! From changes of CronJobs and Jobs to keys of work.

use std::sync::Arc;

use client::resources::{CRON_JOBS, JOBS};
use object::Obj;
use runtime::owners::{Owner, controller_of};
use runtime::queue::{LOW, NORMAL};
use runtime::{Cause, InformerEvent, Key, Severity, WorkQueue};

use super::CronJobs;
use super::plan::schedule;
use super::times::until_next;
use super::view::cron_job_view;

struct Handlers {
    state: Arc<CronJobs>,
    queue: Arc<WorkQueue<Key>>,
}

pub(super) fn add(state: &Arc<CronJobs>, queue: Arc<WorkQueue<Key>>) {
    let handlers = Arc::new(Handlers { state: state.clone(), queue });
    let for_jobs = handlers.clone();
    state.cron_jobs.add_resyncing_handler(Box::new(move |event| handlers.cron_job(event)));
    state.jobs.add_handler(None, Box::new(move |event| for_jobs.job(event)));
}

impl Handlers {
    fn cron_job(&self, event: &InformerEvent<'_>) {
        let obj = event.obj();
        let (what, priority) = match event {
            InformerEvent::Added { initial, .. } => ("added", if *initial { LOW } else { NORMAL }),
            InformerEvent::Updated { sync: true, .. } => ("resync", LOW),
            InformerEvent::Updated { old, new, .. } => {
                let (before, after) = (&cron_job_view(old).spec, &cron_job_view(new).spec);
                if (&before.schedule, &before.time_zone) != (&after.schedule, &after.time_zone) {
                    return self.rescheduled(new);
                }
                ("updated", NORMAL)
            }
            InformerEvent::Deleted { obj, .. } => {
                self.state.writes.forget(&Key::of(obj));
                ("deleted", NORMAL)
            }
        };
        self.queue.add(Key::of(obj), priority, Some(Cause::new(&CRON_JOBS, obj, what)));
    }

    /// A new schedule is not applied to the time that has passed: the first turn is at its next time.
    fn rescheduled(&self, obj: &Arc<Obj>) {
        let cron = cron_job_view(obj);
        match schedule(&cron) {
            Ok(schedule) => {
                let wait = until_next(&cron, &schedule, self.state.env.now_nanos() as i128);
                self.queue.add_after(Key::of(obj), wait, Some(Cause::new(&CRON_JOBS, obj, "updated")));
            }
            Err(_) => {
                let message = format!("unparseable schedule for cronjob: {}", cron.spec.schedule);
                let reason = "UnParseableCronJobSchedule";
                self.state.recorder.event(&CRON_JOBS, obj, Severity::Warning, reason, message);
            }
        }
    }

    fn job(&self, event: &InformerEvent<'_>) {
        match event {
            InformerEvent::Added { obj, .. } => self.owner(obj, "added"),
            InformerEvent::Deleted { obj, .. } => self.owner(obj, "deleted"),
            InformerEvent::Updated { sync: true, .. } => {}
            InformerEvent::Updated { old, new, .. } => {
                if old.owners() != new.owners() {
                    self.owner(old, "released");
                }
                self.owner(new, "updated");
            }
        }
    }

    fn owner(&self, job: &Obj, what: &'static str) {
        let Some(owner) = controller_of(job) else { return };
        if let Some(key) = self.resolve(job.namespace(), &owner) {
            self.queue.add(key, NORMAL, Some(Cause::new(&JOBS, job, what)));
        }
    }

    /// The CronJob an owner reference means, if it is the one there.
    fn resolve(&self, namespace: &str, owner: &Owner) -> Option<Key> {
        if owner.kind != "CronJob" {
            return None;
        }
        let cron = self.state.cron_jobs.store().get(namespace, &owner.name)?;
        (cron.uid() == owner.uid).then(|| Key::of(&cron))
    }
}
