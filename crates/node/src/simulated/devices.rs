//! Devices of simulated nodes: a driver that publishes them in ResourceSlices and says how allocated ones are.
//!
//! | annotation of a node | meaning |
//! |---|---|
//! | `sim.setpoint.dev/devices` | a number, or JSON: devices as ResourceSlices have them, each with a `count` if it stands for several; `{"sharedCounters":[..],"devices":[..]}` |
//! | `sim.setpoint.dev/device-taints` | `DEVICE:KEY=VALUE:EFFECT`, several separated by commas; `*` for all devices |
//! | `sim.setpoint.dev/device-status` | `true`: the driver reports devices of reserved claims as Ready; or JSON with more of their status (`data`, `networkData`) |
//! | `sim.setpoint.dev/binding-seconds` | how long after an allocation binding conditions become true (0); `never` |
//! | `sim.setpoint.dev/binding-failure` | `true`: instead, the first failure condition does |

pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::resources::{RESOURCE_CLAIMS, RESOURCE_SLICES};
use client::{Client, Clients, DeleteOptions, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Value};
use runtime::{
    Action, Controller, ControllerRegistry, Failure, Informer, InformerEvent, Informers, Key, Reconcile,
    ReconcileRequest, Stop, tree,
};
use tokio::task::JoinHandle;

use plan::{Change, DRIVER};

/// Slices of this driver, and claims with its devices, by node.
const BY_NODE: &str = "simulated node";
/// The service account that stands for the drivers on all nodes; a real one runs in a pod, with a role an administrator gave it.
const IDENTITY: &str = "simulated-device-driver";

struct Devices {
    env: Env,
    /// The simulated nodes, each with its own client: a node writes only slices of its own.
    nodes: BTreeMap<String, Arc<dyn Client>>,
    /// What nodes have that say nothing.
    default: String,
    driver: Arc<dyn Client>,
    node_objects: Arc<Informer>,
    slices: Arc<Informer>,
    claims: Arc<Informer>,
}

struct Slices(Arc<Devices>);
struct Claims(Arc<Devices>);

/// What is started beside the nodes.
pub struct Parts<'a> {
    pub clients: &'a dyn Clients,
    pub informers: &'a Informers,
    pub node_objects: Arc<Informer>,
    pub nodes: BTreeMap<String, Arc<dyn Client>>,
    pub default: String,
}

pub fn start(
    env: &Env,
    parts: Parts<'_>,
    controllers: &Arc<ControllerRegistry>,
    stop: Stop,
) -> Vec<JoinHandle<()>> {
    let [slices, claims] = [&RESOURCE_SLICES, &RESOURCE_CLAIMS].map(|resource| parts.informers.of(resource));
    slices.store().add_index(BY_NODE, |slice| node_of(slice).into_iter().collect());
    claims.store().add_index(BY_NODE, nodes_of_claim);
    let devices = Arc::new(Devices {
        env: env.clone(),
        nodes: parts.nodes,
        default: parts.default,
        driver: parts.clients.controller(IDENTITY),
        node_objects: parts.node_objects.clone(),
        slices: slices.clone(),
        claims: claims.clone(),
    });
    let known = devices.clone();
    let of_node = move |event: &InformerEvent<'_>| known.concerned(event);
    let of_slice = |event: &InformerEvent<'_>| {
        node_of(event.obj()).map(|node| Key::new("", &node)).into_iter().collect()
    };
    let controller = Controller::new(env, "node-devices").workers(8).max_retries(None);
    let controller = controller.watches(&parts.node_objects, of_node).watches(&slices, of_slice);
    let mut tasks = controller.start(controllers, Arc::new(Slices(devices.clone())), stop.clone());
    let of_claim = |event: &InformerEvent<'_>| match event {
        InformerEvent::Deleted { .. } => Vec::new(),
        _ if !mentions(event.obj(), DRIVER) => Vec::new(),
        _ => vec![Key::of(event.obj())],
    };
    // A node that can be reached again, or says something else of its devices.
    let held = claims.clone();
    let on_node = move |event: &InformerEvent<'_>| {
        let claims = held.store().by_index(BY_NODE, event.obj().name());
        claims.iter().map(|claim| Key::of(claim)).collect()
    };
    let controller = Controller::new(env, "node-device-claims").workers(8).max_retries(None);
    let controller = controller.watches(&claims, of_claim).watches(&parts.node_objects, on_node);
    tasks.extend(controller.start(controllers, Arc::new(Claims(devices)), stop));
    tasks
}

fn mentions(obj: &Obj, text: &str) -> bool {
    obj.body().windows(text.len()).any(|part| part == text.as_bytes())
}

/// Of a slice of ours.
fn node_of(slice: &Obj) -> Option<String> {
    if !mentions(slice, DRIVER) {
        return None;
    }
    let slice = tree(slice);
    let ours = slice.str_at(&["spec", "driver"]) == Some(DRIVER);
    slice.str_at(&["spec", "nodeName"]).filter(|_| ours).map(str::to_owned)
}

/// Those with devices of ours that a claim has.
fn nodes_of_claim(claim: &Obj) -> Vec<String> {
    if mentions(claim, DRIVER) { plan::nodes_of(&tree(claim)) } else { Vec::new() }
}

impl Devices {
    /// Most nodes have no devices: nothing is looked at for them.
    fn concerned(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let node = event.obj();
        let may = !self.default.is_empty() || mentions(node, "sim.setpoint.dev/device");
        let has = || !self.slices.store().by_index(BY_NODE, node.name()).is_empty();
        let ours = self.nodes.contains_key(node.name());
        if ours && (may || has()) { vec![Key::of(node)] } else { Vec::new() }
    }
}

impl Reconcile for Slices {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let devices = &*self.0;
            let Some(client) = devices.nodes.get(request.key.name()) else { return Ok(Action::AwaitChange) };
            // What a node published that is no more is the garbage collector's.
            let node = devices.node_objects.store().get_key(request.key).filter(|node| !node.deleting());
            let Some(node) = node.map(|node| tree(&node)) else { return Ok(Action::AwaitChange) };
            if plan::annotation(&node, "silent") == Some("true") {
                return Ok(Action::AwaitChange);
            }
            let mut there = devices.slices.store().by_index(BY_NODE, request.key.name());
            there.retain(|slice| !slice.deleting());
            let trees: Vec<Value> = there.iter().map(|slice| tree(slice)).collect();
            let changes = match plan::changes(&node, &devices.default, &trees) {
                Ok(changes) => changes,
                Err(error) => {
                    let node = request.key.name();
                    tracing::warn!(node, error, "annotations about devices cannot be read");
                    request.plan(|| format!("nothing: {error}"));
                    return Ok(Action::AwaitChange);
                }
            };
            if !changes.is_empty() {
                request.plan(|| format!("publish devices: {} writes", changes.len()));
            }
            for change in changes {
                let options = WriteOptions::default();
                match change {
                    Change::Create(slice) => {
                        client.create(RESOURCE_SLICES.everywhere(), slice, options).await?;
                    }
                    Change::Update(at, slice) => {
                        client.update(RESOURCE_SLICES.of(&there[at]), slice, options).await?;
                    }
                    Change::Delete(at) => {
                        let (target, options) =
                            (RESOURCE_SLICES.of(&there[at]), DeleteOptions::exactly(&there[at]));
                        match client.delete(target, options).await {
                            Err(status) if status.code != 404 => return Err(status.into()),
                            _ => {}
                        }
                    }
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}

impl Reconcile for Claims {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let devices = &*self.0;
            let claim = devices.claims.store().get_key(request.key);
            let Some(claim) = claim else { return Ok(Action::AwaitChange) };
            let node = |name: &str| {
                let node =
                    devices.nodes.get(name).and_then(|_| devices.node_objects.store().get("", name))?;
                Some(tree(&node)).filter(|node| plan::annotation(node, "silent") != Some("true"))
            };
            let now = devices.env.now_seconds() as i64;
            let (status, again) = plan::device_status(&tree(&claim), node, now);
            if let Some(status) = status {
                request.plan(|| "say how its devices are".to_owned());
                let options = WriteOptions { field_manager: DRIVER, force: true, ..WriteOptions::default() };
                devices.driver.apply(RESOURCE_CLAIMS.of(&claim).sub("status"), status, options).await?;
            }
            Ok(match again {
                None => Action::AwaitChange,
                Some(at) => {
                    Action::Requeue(Duration::from_secs(at.saturating_sub(now).max(1).unsigned_abs()))
                }
            })
        })
    }
}
