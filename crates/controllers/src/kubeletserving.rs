//! Approves requests for the serving certificates of nodes, whose names and addresses must be those of the requester's own Node.
//!
//! kube-controller-manager has no such controller, since a node writes its addresses itself. So what the Node says is not enough here:
//! an address must be the one the request came from, or at least nobody else's (no other Node's, not the API server's), and the only
//! DNS name is that of the Node object, unless it is one of the API server's certificate. A request from the API server's own machine,
//! by its loopback, is believed; so a proxy there hides where nodes ask from. What is left is people's to decide
//! (`kubectl certificate approve`).
//! People who want to decide themselves turn it off by `--controllers=*,-kubelet-serving-approver-controller`.

mod plan;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use client::resources::{CERTIFICATE_SIGNING_REQUESTS, ENDPOINTS, NODES, SERVICES};
use client::{Client, Gvr};
use futures_util::future::BoxFuture;
use runtime::{Action, Failure, Informer, InformerEvent, Key, Reconcile, ReconcileRequest, tree};
use tokio::task::JoinHandle;

use crate::{Context, ServingNames, csr};
use plan::{Decision, Others};

pub const NAME: &str = "kubelet-serving-approver-controller";
/// Who it acts as.
const IDENTITY: &str = "kubelet-serving-approver";
/// The index of undecided requests by the node that asks.
const BY_NODE: &str = "undecided-by-node";
/// The index of Nodes by their names and addresses.
const BY_ADDRESS: &str = "by-address";
/// The API server is known by a Service of this name in `default`.
const KUBERNETES: &str = "kubernetes";

struct Approver {
    client: Arc<dyn Client>,
    requests: Arc<Informer>,
    nodes: Arc<Informer>,
    serving_names: Option<ServingNames>,
}

/// What is known of the API server.
struct Server {
    /// Where clients expect it.
    addresses: Vec<IpAddr>,
    /// Of its machines: what it advertises.
    machines: Vec<IpAddr>,
    /// The DNS names of its certificate, in lower case.
    names: Vec<String>,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let requests = context.informers.of(&CERTIFICATE_SIGNING_REQUESTS);
    requests.store().add_index(BY_NODE, |csr| plan::asking_node(&tree(csr)).into_iter().collect());
    let nodes = context.informers.of(&NODES);
    nodes.store().add_index(BY_ADDRESS, |node| plan::known_as(&tree(node)));
    let asking = requests.clone();
    // A node asks as soon as it is up; its object may show the addresses later.
    let controller = csr::controller(context, NAME, &requests).watches(&nodes, move |event| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ => asking.store().by_index(BY_NODE, event.obj().name()).iter().map(|csr| Key::of(csr)).collect(),
    });
    let client = context.clients.controller(IDENTITY);
    let serving_names = context.trust.serving_names.clone();
    let approver = Arc::new(Approver { client, requests, nodes, serving_names });
    controller.start(&context.controllers, approver, context.stop.clone())
}

impl Approver {
    async fn server(&self) -> Result<Server, Failure> {
        let names = self.serving_names.as_ref().map(|names| names()).unwrap_or_default();
        let (mut addresses, names) =
            plan::addresses_and_names(names.iter().map(|name| name.to_ascii_lowercase()));
        let [service, machines] = [self.addresses_of(&SERVICES).await?, self.addresses_of(&ENDPOINTS).await?];
        addresses.extend(service.iter().chain(&machines));
        Ok(Server { addresses, machines, names })
    }

    async fn addresses_of(&self, resource: &Gvr) -> Result<Vec<IpAddr>, Failure> {
        match self.client.get(resource.at("default", KUBERNETES)).await {
            Ok(obj) => Ok(plan::addresses_in(&tree(&obj))),
            Err(status) if status.code == 404 => Ok(Vec::new()),
            Err(status) => Err(status.into()),
        }
    }
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
            let server = self.server().await?;
            let decision = {
                let nodes = self.nodes.store();
                let taken = |address: &str| {
                    nodes.by_index(BY_ADDRESS, address).iter().any(|other| other.name() != name)
                };
                let others = Others {
                    taken: &taken,
                    control_plane: &server.addresses,
                    control_plane_machines: &server.machines,
                    control_plane_names: &server.names,
                };
                plan::decide(&csr, node.as_ref(), &others)
            };
            match decision {
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
