//! TTL of nodes: an annotation tells every kubelet how long it may keep Secrets and ConfigMaps before it asks again; the more
//! nodes ask, the longer.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::NODES;
use client::{Client, Patch, WriteOptions};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use runtime::{Action, Controller, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::Context;
use plan::{Plan, plan, stage};

pub const NAME: &str = "ttl-controller";

struct Ttl {
    client: Arc<dyn Client>,
    nodes: Arc<Informer>,
    /// Guards the stage of the cluster's size: where one stands depends on where one came from.
    stage: Mutex<usize>,
}

/// A node is looked at whenever it changes, which a kubelet sees to: so a new size of the cluster reaches all of them.
pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let nodes = context.informers.of(&NODES);
    let controller = Controller::new(&context.env, NAME).workers(5).max_retries(None);
    let controller = controller.watches(&nodes, |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => vec![Key::of(event.obj())],
    });
    let client = context.clients.controller(NAME);
    let ttl = Arc::new(Ttl { client, nodes, stage: Mutex::new(0) });
    controller.start(&context.controllers, ttl, context.stop.clone())
}

impl Reconcile for Ttl {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let now = {
                let mut now = self.stage.lock();
                *now = stage(*now, self.nodes.store().len());
                *now
            };
            let Some(node) = self.nodes.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            match plan(&tree(&node), now) {
                Plan::Nothing => {}
                Plan::Annotate { seconds, patch } => {
                    request.plan(|| format!("objects may be kept for {seconds} s"));
                    match self
                        .client
                        .patch(NODES.of(&node), Patch::Strategic(patch), WriteOptions::default())
                        .await
                    {
                        Err(status) if status.code == 404 => {}
                        answer => drop(answer?),
                    }
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}
