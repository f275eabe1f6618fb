//! TTL after finished: deletes Jobs `ttlSecondsAfterFinished` after they ended.

use std::sync::Arc;
use std::time::Duration;

use client::resources::JOBS;
use client::{Client, DeleteOptions, Propagation};
use env::Env;
use futures_util::future::BoxFuture;
use runtime::{Controller, Failure, Informer, Key, Next, Notice, Reconcile, Turn};
use table::Obj;
use tokio::task::JoinHandle;

use crate::Context;
use crate::job::{Job, job_view};

struct Ttl {
    env: Env,
    client: Arc<dyn Client>,
    jobs: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let jobs = context.informers.of(JOBS);
    let client = context.clients.controller("ttl-after-finished-controller");
    let controller = Controller::new(&context.env, "ttl-after-finished").max_retries(None);
    let controller = controller.watches(&jobs, |notice| match notice {
        Notice::Deleted { .. } => Vec::new(),
        _ if ends_at(notice.obj()).is_some() => vec![Key::of(notice.obj())],
        _ => Vec::new(),
    });
    let ttl = Arc::new(Ttl { env: context.env.clone(), client, jobs });
    controller.start(&context.board, ttl, context.stop.clone())
}

impl Reconcile for Ttl {
    fn reconcile<'a>(&'a self, turn: Turn<'a>) -> BoxFuture<'a, Result<Next, Failure>> {
        Box::pin(async move {
            let Some(job) = self.jobs.store().get_key(turn.key) else { return Ok(Next::Done) };
            if let Some(next) = self.not_yet(&job) {
                return Ok(next);
            }
            // The time may have been changed since: only the server knows.
            let fresh = match self.client.get(JOBS.of(&job)).await {
                Err(status) if status.code == 404 => return Ok(Next::Done),
                other => other?,
            };
            if let Some(next) = self.not_yet(&fresh) {
                return Ok(next);
            }
            turn.plan(|| "delete".to_owned());
            let options = DeleteOptions {
                propagation: Some(Propagation::Foreground),
                ..DeleteOptions::exactly(&fresh)
            };
            self.client.delete(JOBS.of(&fresh), options).await?;
            Ok(Next::Done)
        })
    }
}

impl Ttl {
    /// When to look again, if ever; `None`: it is time.
    fn not_yet(&self, job: &Obj) -> Option<Next> {
        let Some(at) = ends_at(job) else { return Some(Next::Done) };
        let left_ms = at * 1000 - (self.env.now_nanos() / 1_000_000) as i64;
        (left_ms > 0).then(|| Next::After(Duration::from_millis(left_ms as u64)))
    }
}

/// When the Job is to be deleted, in Unix seconds.
fn ends_at(job: &Obj) -> Option<i64> {
    if job.deleting() { None } else { expires_at(&job_view(job)) }
}

fn expires_at(job: &Job) -> Option<i64> {
    let over = |kind: &str| matches!(kind, "Complete" | "Failed");
    let end = job.status.conditions.iter().find(|c| over(&c.kind) && c.status == "True")?;
    Some(end.since + job.spec.ttl_seconds?)
}

#[cfg(test)]
mod tests {
    use object::Value;

    use super::*;

    fn job(text: &str) -> Value {
        codec::json::parse(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn only_finished_jobs_with_a_ttl_expire() {
        let read = |text: &str| expires_at(&Job::read(&job(text)));
        let over = r#""status":{"conditions":[{"type":"Failed","status":"True","lastTransitionTime":"1970-01-01T00:01:40Z"}]}"#;
        assert_eq!(read(&format!(r#"{{"spec":{{"ttlSecondsAfterFinished":10}},{over}}}"#)), Some(110));
        assert_eq!(read(&format!(r#"{{"spec":{{"ttlSecondsAfterFinished":0}},{over}}}"#)), Some(100));
        assert_eq!(read(&format!(r#"{{"spec":{{}},{over}}}"#)), None);
        assert_eq!(read(r#"{"spec":{"ttlSecondsAfterFinished":10}}"#), None);
    }
}
