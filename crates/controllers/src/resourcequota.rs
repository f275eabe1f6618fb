//! The status of ResourceQuotas: the limits of the spec, and the usage once objects are deleted or shrink.
//!
//! ```text
//! create ── charged in its own commit (admission) ──> quota
//! object gone or smaller ──> book: the sums of its namespace's quotas ──> key ── another sum than the status has? ── write
//! every five minutes: the book is compared with the caches
//! ```
//! Objects of other servers are counted as well, and charged by nobody.
//!
//! The usage is written only if the quota is unchanged. A charge made meanwhile changes the quota, so the write fails and the sum is
//! looked at again: it never undoes a charge. For the same reason a quota is left alone until the caches have seen what was charged
//! to it.

mod book;
mod counting;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::RESOURCE_QUOTAS;
use client::{Client, ListOptions, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use kinds::resourcequota::usage::Quota;
use runtime::{Action, Controller, Failure, Informer, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::Context;
use counting::{Behind, Counting};

pub const NAME: &str = "resourcequota-controller";
/// A resource that is counted for the first time is read so soon.
const UNREAD: Duration = Duration::from_millis(100);
/// The same of another server, which need not answer: the rest is counted without it.
const UNREAD_ELSEWHERE: Duration = Duration::from_secs(1);
/// How often it is looked whether something is served that a quota counts; upstream's period.
const RESYNC: Duration = Duration::from_secs(30);
/// Another wrote first, or a cache is behind.
const AGAIN: Duration = Duration::from_millis(20);
/// A cache is waited for so long. Nobody tells it of revisions that are not its resource's, so it may never get there: then the
/// server is asked.
const BEHIND: Duration = Duration::from_millis(200);

struct Quotas {
    env: Env,
    client: Arc<dyn Client>,
    quotas: Arc<Informer>,
    counting: Arc<Counting>,
    /// Between two full recalculations; `None`: there are none.
    period: Option<Duration>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let quotas = context.informers.of(&RESOURCE_QUOTAS);
    let workers = context.settings.workers("concurrent-resource-quota-syncs");
    let controller = Controller::new(&context.env, NAME).workers(workers).max_retries(None);
    let counting = Arc::new(Counting::new(&context.env, &context.informers, controller.queue()));
    let told = counting.clone();
    let controller = controller.watches(&quotas, move |event| told.quota_changed(event));
    let (env, client) = (context.env.clone(), context.clients.controller(NAME));
    let period = Some(context.settings.resource_quota_sync_period).filter(|period| !period.is_zero());
    let reconcile = Arc::new(Quotas { env, client, quotas, counting, period });
    controller.start(&context.controllers, reconcile, context.stop.clone())
}

impl Reconcile for Quotas {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(obj) = self.quotas.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let counting = &self.counting;
            let read = counting.follow_aggregated(&obj);
            // Whatever the handler missed.
            counting.observe(&obj);
            let resources = counting.follow(&obj);
            if counting.is_unread(&resources) {
                return Ok(Action::Requeue(UNREAD));
            }
            counting.load(&obj, &resources, self.period);
            for Behind { of: counted, since } in counting.behind(&obj, &resources) {
                if self.env.monotonic() < since + BEHIND {
                    return Ok(Action::Requeue(AGAIN));
                }
                let target = counted.resource.within(obj.namespace());
                let fresh = self.client.list(target, ListOptions::default()).await?;
                counting.read(&obj, counted, &fresh.items, fresh.revision);
            }
            let used = counting.used(&obj);
            let mut later = self.period;
            if !read || counting.misses_a_resource(&obj) {
                let soon = if read { RESYNC } else { UNREAD_ELSEWHERE };
                later = Some(later.map_or(soon, |later| later.min(soon)));
            }
            let later = later.map_or(Action::AwaitChange, Action::Requeue);
            let Some(written) = used.and_then(|used| plan::plan(Quota::of(tree(&obj)), used)) else {
                return Ok(later);
            };
            request.plan(|| format!("write what is used: {}", plan::shown(&written)));
            let target = RESOURCE_QUOTAS.of(&obj).sub("status");
            match self.client.update(target, written, WriteOptions::default()).await {
                Ok(_) => Ok(later),
                Err(status) if status.code == 404 => Ok(Action::AwaitChange),
                Err(status) if status.code == 409 => Ok(Action::Requeue(AGAIN)),
                Err(status) => Err(status.into()),
            }
        })
    }
}
