//! Root-CA publisher: every namespace has a ConfigMap `kube-root-ca.crt`, which says whom its pods must trust to reach this server.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::{CONFIG_MAPS, NAMESPACES};
use client::{Client, WriteOptions};
use futures_util::future::BoxFuture;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, Scope, tree,
};
use tokio::task::JoinHandle;

use crate::{Context, namespace_is_going};
use plan::{NAME as MAP, Plan, plan};

pub const NAME: &str = "root-ca-certificate-publisher-controller";

struct Publisher {
    client: Arc<dyn Client>,
    maps: Arc<Informer>,
    pem: Arc<str>,
}

/// Without an authority there is nothing to publish.
pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let Some(pem) = context.trust.root_ca.clone() else { return Vec::new() };
    let namespaces = context.informers.of(&NAMESPACES);
    // Only those of that name: nobody's other ConfigMaps are held, or wake anyone.
    let named = Scope { field_selector: format!("metadata.name={MAP}"), ..Scope::all(&CONFIG_MAPS) };
    let maps = context.informers.scoped(named);
    let controller = Controller::new(&context.env, "root-ca-cert-publisher").workers(1).max_retries(None);
    let controller = controller.watches(&namespaces, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        InformerEvent::Updated { new, .. } if new.deleting() => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    let controller = controller.watches(&maps, |event| match event {
        InformerEvent::Added { .. } => Vec::new(),
        _ => vec![Key::new("", event.obj().namespace())],
    });
    let client = context.clients.controller("root-ca-cert-publisher");
    let reconcile = Arc::new(Publisher { client, maps, pem });
    controller.start(&context.controllers, reconcile, context.stop.clone())
}

impl Reconcile for Publisher {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let namespace = request.key.name();
            let there = self.maps.store().get(namespace, MAP);
            match plan(there.map(|map| tree(&map)), &self.pem) {
                Plan::Nothing => {}
                Plan::Create(map) => {
                    request.plan(|| "publish the authority".to_owned());
                    match self
                        .client
                        .create(CONFIG_MAPS.within(namespace), map, WriteOptions::default())
                        .await
                    {
                        // The namespace is gone, or going.
                        Err(status) if status.code == 404 || namespace_is_going(&status) => {}
                        answer => drop(answer?),
                    }
                }
                Plan::Update(map) => {
                    request.plan(|| "publish the authority again".to_owned());
                    self.client.update(CONFIG_MAPS.at(namespace, MAP), map, WriteOptions::default()).await?;
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}
