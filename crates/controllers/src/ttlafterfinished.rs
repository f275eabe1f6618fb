//! TTL after finished: deletes Jobs `ttlSecondsAfterFinished` after they ended.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::JOBS;
use client::{Client, DeleteOptions, Propagation};
use env::Env;
use futures_util::future::BoxFuture;
use runtime::{Controller, Failure, Informer, Key, Next, Notice, Reconcile, Turn};
use tokio::task::JoinHandle;

use crate::Context;
use plan::{Step, expires_at, plan};

struct Ttl {
    env: Env,
    client: Arc<dyn Client>,
    jobs: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let jobs = context.informers.of(&JOBS);
    let client = context.clients.controller("ttl-after-finished-controller");
    let controller = Controller::new(&context.env, "ttl-after-finished").max_retries(None);
    let controller = controller.watches(&jobs, |notice| match notice {
        Notice::Deleted { .. } => Vec::new(),
        _ if expires_at(notice.obj()).is_some() => vec![Key::of(notice.obj())],
        _ => Vec::new(),
    });
    let ttl = Arc::new(Ttl { env: context.env.clone(), client, jobs });
    controller.start(&context.board, ttl, context.stop.clone())
}

impl Reconcile for Ttl {
    fn reconcile<'a>(&'a self, turn: Turn<'a>) -> BoxFuture<'a, Result<Next, Failure>> {
        Box::pin(async move {
            let Some(job) = self.jobs.store().get_key(turn.key) else { return Ok(Next::Done) };
            match plan(&job, self.env.now_nanos()) {
                Step::Nothing => return Ok(Next::Done),
                Step::Wait(left) => return Ok(Next::After(left)),
                Step::Delete => {}
            }
            // The time may have been changed since: only the server knows.
            let fresh = match self.client.get(JOBS.of(&job)).await {
                Err(status) if status.code == 404 => return Ok(Next::Done),
                other => other?,
            };
            let step = plan(&fresh, self.env.now_nanos());
            turn.plan(|| format!("{step:?}"));
            match step {
                Step::Nothing => return Ok(Next::Done),
                Step::Wait(left) => return Ok(Next::After(left)),
                Step::Delete => {}
            }
            let options = DeleteOptions {
                propagation_policy: Some(Propagation::Foreground),
                ..DeleteOptions::exactly(&fresh)
            };
            self.client.delete(JOBS.of(&fresh), options).await?;
            Ok(Next::Done)
        })
    }
}
