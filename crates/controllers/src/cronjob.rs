//! CronJob: makes a Job at each time of a schedule, and keeps only the last of those that ended.
//!
//! ```text
//! cronjobs ─┐ at once; at its next time if the schedule changed
//! jobs ─────┴─> queue ── old Jobs deleted ── active Jobs counted ── a Job, if one is due ── status ── wait for the next time
//! wall clock set, machine woke up ──> every CronJob
//! ```
//! A Job is named after the time it was due: it cannot be made twice, however often the controller dies.

mod apply;
mod clock;
mod handlers;
mod plan;
mod template;
#[cfg(test)]
mod tests;
mod times;
mod view;

use std::sync::Arc;

use client::Client;
use client::resources::{CRON_JOBS, JOBS};
use env::Env;
use futures_util::future::BoxFuture;
use runtime::{
    Action, Controller, Failure, Informer, OwnWrites, Reconcile, ReconcileRequest, Recorder, WorkQueue,
};
use tokio::task::JoinHandle;

use crate::Context;

pub(crate) const NAME: &str = "cronjob-controller";

struct CronJobs {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    cron_jobs: Arc<Informer>,
    jobs: Arc<Informer>,
    /// A Job made and not seen yet would look as if it were missing.
    writes: OwnWrites,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity(NAME, &mut tasks);
    let (cron_jobs, jobs) = (context.informers.of(&CRON_JOBS), context.informers.of(&JOBS));
    let state = Arc::new(CronJobs {
        env: context.env.clone(),
        client,
        recorder,
        cron_jobs: cron_jobs.clone(),
        jobs: jobs.clone(),
        writes: OwnWrites::new(&context.env, &[&cron_jobs, &jobs]),
    });
    let controller = Controller::new(&context.env, "cronjob")
        .workers(context.settings.workers("concurrent-cron-job-syncs"))
        .max_retries(None)
        .reads(&cron_jobs)
        .reads(&jobs);
    let queue: Arc<WorkQueue<runtime::Key>> = controller.queue();
    handlers::add(&state, queue.clone());
    tasks.push(context.env.spawn("cronjob-clock", clock::watch(state.clone(), queue, context.stop.clone())));
    tasks.extend(controller.start(&context.controllers, state, context.stop.clone()));
    tasks
}

impl Reconcile for CronJobs {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.sync(request))
    }
}
