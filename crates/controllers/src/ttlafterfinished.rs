//! TTL after finished: deletes Jobs `ttlSecondsAfterFinished` after they ended.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::JOBS;
use client::{Client, DeleteOptions, Propagation};
use env::Env;
use futures_util::future::BoxFuture;
use runtime::{Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest};
use tokio::task::JoinHandle;

use crate::Context;
use plan::{Plan, expires_at, plan};

struct Ttl {
    env: Env,
    client: Arc<dyn Client>,
    jobs: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let jobs = context.informers.of(&JOBS);
    let client = context.clients.controller("ttl-after-finished-controller");
    let controller = Controller::new(&context.env, "ttl-after-finished")
        .workers(context.settings.workers("concurrent-ttl-after-finished-syncs"))
        .max_retries(None);
    let controller = controller.watches(&jobs, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if expires_at(event.obj()).is_some() => vec![Key::of(event.obj())],
        _ => Vec::new(),
    });
    let ttl = Arc::new(Ttl { env: context.env.clone(), client, jobs });
    controller.start(&context.controllers, ttl, context.stop.clone())
}

impl Reconcile for Ttl {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(job) = self.jobs.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            match plan(&job, self.env.now_nanos()) {
                Plan::Nothing => return Ok(Action::AwaitChange),
                Plan::Wait(left) => return Ok(Action::Requeue(left)),
                Plan::Delete => {}
            }
            // The time may have been changed since: only the server knows.
            let fresh = match self.client.get(JOBS.of(&job)).await {
                Err(status) if status.code == 404 => return Ok(Action::AwaitChange),
                other => other?,
            };
            let step = plan(&fresh, self.env.now_nanos());
            request.plan(|| format!("{step:?}"));
            match step {
                Plan::Nothing => return Ok(Action::AwaitChange),
                Plan::Wait(left) => return Ok(Action::Requeue(left)),
                Plan::Delete => {}
            }
            let options = DeleteOptions {
                propagation_policy: Some(Propagation::Foreground),
                ..DeleteOptions::exactly(&fresh)
            };
            self.client.delete(JOBS.of(&fresh), options).await?;
            Ok(Action::AwaitChange)
        })
    }
}
