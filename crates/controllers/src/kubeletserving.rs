//! Approves requests for the serving certificates of nodes, whose names and addresses must be those of the requester's own Node.
//!
//! kube-controller-manager has no such controller, since an address is not always known to be the node's; here the Node says which it has.
//! People who want to decide themselves turn it off by `--controllers=*,-kubelet-serving-approver-controller`.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::Client;
use client::resources::{CERTIFICATE_SIGNING_REQUESTS, NODES};
use futures_util::future::BoxFuture;
use runtime::{Action, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::{Context, csr};
use plan::Decision;

pub const NAME: &str = "kubelet-serving-approver-controller";
/// Who it acts as.
const IDENTITY: &str = "kubelet-serving-approver";
/// The index of undecided requests by the node that asks.
const BY_NODE: &str = "undecided-by-node";

struct Approver {
    client: Arc<dyn Client>,
    requests: Arc<Informer>,
    nodes: Arc<Informer>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let requests = context.informers.of(&CERTIFICATE_SIGNING_REQUESTS);
    requests.store().add_index(BY_NODE, |csr| plan::asking_node(&tree(csr)).into_iter().collect());
    let nodes = context.informers.of(&NODES);
    let asking = requests.clone();
    // A node asks as soon as it is up; its object may show the addresses later.
    let controller = csr::controller(context, NAME, &requests).watches(&nodes, move |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => asking.store().by_index(BY_NODE, event.obj().name()).iter().map(|csr| Key::of(csr)).collect(),
    });
    let client = context.clients.controller(IDENTITY);
    let approver = Arc::new(Approver { client, requests, nodes });
    controller.start(&context.controllers, approver, context.stop.clone())
}

impl Reconcile for Approver {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(obj) = self.requests.store().get_key(request.key) else {
                return Ok(Action::AwaitChange);
            };
            let csr = tree(&obj);
            let Some(name) = plan::asking_node(&csr) else { return Ok(Action::AwaitChange) };
            let node = self.nodes.store().get("", &name).map(|node| tree(&node));
            match plan::decide(&csr, node.as_ref()) {
                Decision::Approve => {
                    request.plan(|| "approve".to_owned());
                    csr::write(&*self.client, "approval", plan::approved(&csr)).await?;
                }
                // Not refused: the Node may still get the address, and people may decide otherwise.
                Decision::Leave(why) => request.plan(|| format!("leave it undecided: {why}")),
            }
            Ok(Action::AwaitChange)
        })
    }
}
