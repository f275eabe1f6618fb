//! Bootstrap signer: the ConfigMap `cluster-info` in kube-public carries a signature of its kubeconfig for every bootstrap token, by
//! which a new node that knows the token knows whom to trust.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use client::resources::CONFIG_MAPS;
use client::{Client, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::Value;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Scope, tree,
};
use tokio::task::JoinHandle;

use crate::{Context, bootstrap_token};

pub const NAME: &str = "bootstrap-signer-controller";
const NAMESPACE: &str = "kube-public";
const MAP: &str = "cluster-info";

struct Signer {
    env: Env,
    client: Arc<dyn Client>,
    maps: Arc<Informer>,
    secrets: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let named = Scope {
        namespace: NAMESPACE.to_owned(),
        field_selector: format!("metadata.name={MAP}"),
        ..Scope::all(&CONFIG_MAPS)
    };
    let maps = context.informers.scoped(named);
    let secrets = context.informers.scoped(bootstrap_token::scope());
    let controller = Controller::new(&context.env, "bootstrap-signer").workers(1).max_retries(None);
    let controller = controller.watches(&maps, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => vec![Key::new(NAMESPACE, MAP)],
    });
    let controller = controller.watches(&secrets, |_| vec![Key::new(NAMESPACE, MAP)]);
    let client = context.clients.controller("bootstrap-signer");
    let signer = Arc::new(Signer { env: context.env.clone(), client, maps, secrets });
    controller.start(&context.controllers, signer, context.stop.clone())
}

impl Reconcile for Signer {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(map) = self.maps.store().get(NAMESPACE, MAP) else { return Ok(Action::AwaitChange) };
            let secrets: Vec<(String, Value)> = self
                .secrets
                .store()
                .list()
                .iter()
                .map(|secret| (secret.name().to_owned(), tree(secret)))
                .collect();
            let (tokens, next) = plan::tokens(&secrets, self.env.now_nanos() as i128);
            if let Some(signed) = plan::plan(tree(&map), &tokens) {
                request.plan(|| format!("sign for {} tokens", tokens.len()));
                match self
                    .client
                    .update(CONFIG_MAPS.at(NAMESPACE, MAP), signed, WriteOptions::default())
                    .await
                {
                    // The change that came first has an event of its own.
                    Err(status) if matches!(status.code, 404 | 409) => {}
                    answer => drop(answer?),
                }
            }
            // Differs from kube-controller-manager: a token that expires loses its signature then, not at the next event.
            Ok(next.map_or(Action::AwaitChange, |nanos| Action::Requeue(Duration::from_nanos(nanos))))
        })
    }
}
