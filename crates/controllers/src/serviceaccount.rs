//! Service accounts: every namespace in use has one called `default`, which pods run as that name none.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::{NAMESPACES, SERVICE_ACCOUNTS};
use client::{Client, WriteOptions};
use futures_util::future::BoxFuture;
use runtime::{Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::{Context, namespace_is_going};
use plan::{ACCOUNT, plan};

pub const NAME: &str = "serviceaccount-controller";

struct Accounts {
    client: Arc<dyn Client>,
    namespaces: Arc<Informer>,
    accounts: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let namespaces = context.informers.of(&NAMESPACES);
    let accounts = context.informers.of(&SERVICE_ACCOUNTS);
    let controller = Controller::new(&context.env, "serviceaccount").workers(1).max_retries(None);
    let controller = controller.watches(&namespaces, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    let controller = controller.watches(&accounts, |event| match event {
        InformerEvent::Deleted { obj, .. } if obj.name() == ACCOUNT => vec![Key::new("", obj.namespace())],
        _ => Vec::new(),
    });
    let client = context.clients.controller("service-account-controller");
    let reconcile = Arc::new(Accounts { client, namespaces, accounts });
    controller.start(&context.controllers, reconcile, context.stop.clone())
}

impl Reconcile for Accounts {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let namespace = request.key.name();
            let known = self.namespaces.store().get_key(request.key).map(|known| tree(&known));
            let there = self.accounts.store().get(namespace, ACCOUNT).is_some();
            let Some(account) = plan(known.as_ref(), there) else { return Ok(Action::AwaitChange) };
            request.plan(|| "create the default account".to_owned());
            match self
                .client
                .create(SERVICE_ACCOUNTS.within(namespace), account, WriteOptions::default())
                .await
            {
                Err(status) if status.reason == "AlreadyExists" || namespace_is_going(&status) => {
                    Ok(Action::AwaitChange)
                }
                Err(status) => Err(status.into()),
                Ok(_) => Ok(Action::AwaitChange),
            }
        })
    }
}
