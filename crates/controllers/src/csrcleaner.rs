//! Deletes requests for certificates that are done, or that nobody decided for long enough: those who ask for them do so again
//! and again.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::CERTIFICATE_SIGNING_REQUESTS;
use client::{Client, DeleteOptions, Preconditions};
use env::Env;
use futures_util::future::BoxFuture;
use runtime::{Action, Controller, Failure, Informer, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::{Context, csr};

pub const NAME: &str = "certificatesigningrequest-cleaner-controller";
const EVERY: Duration = Duration::from_secs(3600);

struct Cleaner {
    env: Env,
    client: Arc<dyn Client>,
    requests: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let requests = context.informers.of(&CERTIFICATE_SIGNING_REQUESTS);
    let (env, client) = (context.env.clone(), context.clients.controller(csr::IDENTITY));
    let controller = Controller::new(&context.env, NAME).workers(1).max_retries(None).reads(&requests);
    controller.queue().add(Key::new("", "clean"), runtime::queue::NORMAL, None);
    let cleaner = Arc::new(Cleaner { env, client, requests });
    controller.start(&context.controllers, cleaner, context.stop.clone())
}

impl Reconcile for Cleaner {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let now = self.env.now_seconds() as i64;
            let mut left = None;
            for obj in self.requests.store().list() {
                if !plan::is_old(&tree(&obj), now) {
                    continue;
                }
                request.plan(|| format!("delete {}", obj.name()));
                let preconditions = Preconditions::uid(obj.uid());
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                match self.client.delete(CERTIFICATE_SIGNING_REQUESTS.of(&obj), options).await {
                    // Gone, or another of that name.
                    Err(status) if status.code == 404 || status.code == 409 => {}
                    // One failure does not keep the others.
                    Err(status) => left = Some(status),
                    Ok(()) => {}
                }
            }
            left.map_or(Ok(Action::Requeue(EVERY)), |status| Err(status.into()))
        })
    }
}
