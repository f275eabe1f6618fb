//! Job: runs pods until enough of them succeeded, and counts each of them once.
//!
//! ```text
//! jobs (at once) ─┐
//! pods (after 1 s) ┴─> queue ── sync: claim pods ── plan ── create, delete ── write down ── finalizers off ── count
//! pods without a Job, jobs that are over ──> orphans: finalizers off
//! ```

mod apply;
mod backoff;
mod claim;
mod handlers;
mod indexes;
mod metrics;
mod orphans;
mod plan;
mod pods;
mod policy;
mod released;
mod tally;
mod template;
#[cfg(test)]
mod tests;
mod track;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use client::resources::{JOBS, PODS};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Revision};
use parking_lot::Mutex;
use runtime::queue::Limits;
use runtime::{
    Action, BY_CONTROLLER, Controller, Expectations, Failure, Informer, Key, Reconcile, ReconcileRequest,
    Recorder,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::claim::{index_orphans, index_selectors};
use backoff::Record;
use metrics::Metrics;
use released::Released;
use tally::PodTally;

pub use view::{Job, job_view};

/// Changes of pods are answered this much later, all together.
pub(crate) const BATCH_MS: i64 = 1000;
const BATCH: Duration = Duration::from_millis(BATCH_MS as u64);
/// So long a reconcile waits to see what earlier reconciles wrote.
const CATCH_UP: Duration = Duration::from_secs(1);
/// Failures of the API are waited out in whole seconds.
const LIMITS: Limits =
    Limits { first: Duration::from_secs(1), most: Duration::from_secs(60), per_second: 1e6, burst: 1e6 };

struct Jobs {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    jobs: Arc<Informer>,
    pods: Arc<Informer>,
    expectations: Expectations,
    metrics: Metrics,
    /// Guards what is known of each Job beyond its object; taken for a few instructions.
    memory: Mutex<BTreeMap<Key, Memory>>,
}

/// Of one Job, between reconciles; gone when the Job is over.
#[derive(Default)]
struct Memory {
    backoff: Record,
    /// The newest revisions this controller wrote: a reconcile on an older view would count wrongly.
    wrote_job: Revision,
    wrote_pods: Revision,
    released: Released,
}

impl Memory {
    fn wrote_pod(&mut self, pod: &Obj) {
        self.wrote_pods = self.wrote_pods.max(pod.revision());
    }

    /// The pod has the finalizer again, if it ever lost it.
    fn adopted(&mut self, pod: &Obj) {
        self.wrote_pod(pod);
        self.released.back(pod.uid());
    }
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let (client, recorder) = context.identity("job-controller", &mut tasks);
    let (jobs, pods) = (context.informers.of(&JOBS), context.informers.of(&PODS));
    index_orphans(&pods);
    index_selectors(&jobs, |job| job_view(job).spec.selector.clone());
    pods.store().add_tally::<PodTally>(BY_CONTROLLER);
    let state = Arc::new(Jobs {
        env: context.env.clone(),
        client,
        recorder,
        jobs: jobs.clone(),
        pods: pods.clone(),
        expectations: Expectations::new(&context.env),
        metrics: Metrics::default(),
        memory: Mutex::default(),
    });
    let of_metrics = state.clone();
    context.controllers.add_metrics("job", move |out: &mut String| of_metrics.metrics.render(out));
    let controller = |name| {
        let controller = Controller::new(&context.env, name)
            .limits(LIMITS)
            .workers(context.settings.workers("concurrent-job-syncs"));
        controller.max_retries(None).reads(&jobs).reads(&pods)
    };
    let (main, orphans) = (controller("job"), controller("job-orphan-pods"));
    handlers::add(&state, main.queue(), orphans.queue());
    tasks.extend(main.start(&context.controllers, state.clone(), context.stop.clone()));
    let reconciler = Arc::new(orphans::OrphanPods { state });
    tasks.extend(orphans.start(&context.controllers, reconciler, context.stop.clone()));
    tasks
}

impl Reconcile for Jobs {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.sync(request))
    }
}

impl Jobs {
    fn remember(&self, key: &Key, change: impl FnOnce(&mut Memory)) {
        change(self.memory.lock().entry(key.clone()).or_default());
    }

    fn forget(&self, key: &Key) {
        self.memory.lock().remove(key);
        self.expectations.forget(key);
    }

    /// Waits until the informers show what this controller wrote for the Job.
    async fn caught_up(&self, key: &Key) -> Result<(), Failure> {
        let wrote = self.memory.lock().get(key).map(|memory| (memory.wrote_job, memory.wrote_pods));
        let (job, pods) = wrote.unwrap_or_default();
        if self.jobs.revision() >= job && self.pods.revision() >= pods {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = async {
                self.jobs.reached(job).await;
                self.pods.reached(pods).await;
            } => Ok(()),
            () = self.env.sleep(CATCH_UP) => {
                self.metrics.stale(self.jobs.revision() < job);
                Err(Failure::Other("the view is older than what was written".into()))
            }
        }
    }
}
