//! Token cleaner: deletes bootstrap tokens that have expired.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::SECRETS;
use client::{Client, DeleteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use runtime::{Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::{Context, bootstrap_token};
use plan::{Plan, plan};

pub const NAME: &str = "token-cleaner-controller";

struct TokenCleaner {
    env: Env,
    client: Arc<dyn Client>,
    secrets: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let secrets = context.informers.scoped(bootstrap_token::scope());
    let controller = Controller::new(&context.env, "token-cleaner").workers(1).max_retries(None);
    let controller = controller.watches(&secrets, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    let client = context.clients.controller("token-cleaner");
    let cleaner = Arc::new(TokenCleaner { env: context.env.clone(), client, secrets });
    controller.start(&context.controllers, cleaner, context.stop.clone())
}

impl Reconcile for TokenCleaner {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(secret) = self.secrets.store().get_key(request.key) else {
                return Ok(Action::AwaitChange);
            };
            match plan(&tree(&secret), self.env.now_nanos() as i128) {
                Plan::Keep => Ok(Action::AwaitChange),
                Plan::LookAgain(wait) => Ok(Action::Requeue(wait)),
                Plan::Delete => {
                    request.plan(|| "delete an expired token".to_owned());
                    match self.client.delete(SECRETS.of(&secret), DeleteOptions::exactly(&secret)).await {
                        Err(status) if status.code == 404 => {}
                        // Differs from kube-controller-manager: it is tried again, not only after the next event. So is a conflict:
                        // another of its name is looked at anew.
                        answer => answer?,
                    }
                    Ok(Action::AwaitChange)
                }
            }
        })
    }
}
