//! Node IPAM: every node gets a block of pod addresses of each cluster CIDR (`spec.podCIDRs`), and keeps it as long as it is there.
//!
//! ```text
//! node added ──> its blocks are taken   (told before any worker begins: no block is given twice after a restart)
//! node gone ───> its blocks are free
//! key ─────────> no blocks yet? the next free one of each CIDR ─ patch
//! ```

mod cidr;
mod cidr_set;
mod held;
mod plan;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use client::resources::NODES;
use client::{Client, Patch, WriteOptions};
use futures_util::future::BoxFuture;
use object::Obj;
use parking_lot::Mutex;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, ObjectRef, Reconcile, ReconcileRequest,
    Recorder, Severity, tree,
};
use tokio::task::JoinHandle;

use crate::Context;
use plan::{Allocator, Overlap, Plan};

pub use cidr::Cidr;
pub use settings::{MaskSizes, NodeIpam, NodeIpamError};

pub const NAME: &str = "node-ipam-controller";
const WORKERS: usize = 30;
const TRIES: usize = 3;

struct Ipam {
    client: Arc<dyn Client>,
    recorder: Recorder,
    nodes: Arc<Informer>,
    /// Guards which blocks are taken; never held while waiting.
    blocks: Arc<Mutex<Allocator>>,
}

/// Does not run with `--allocate-node-cidrs=false`.
pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let Some(settings) = &context.settings.node_ipam else { return Vec::new() };
    let client = context.clients.controller("node-controller");
    let (recorder, recording) =
        Recorder::start(&context.env, client.clone(), "cidrAllocator", context.stop.clone());
    let nodes = context.informers.of(&NODES);
    let blocks = Arc::new(Mutex::new(Allocator::new(settings)));
    let (told, events) = (blocks.clone(), recorder.clone());
    // By default nodes may have ranges of their own choice.
    let strict = !settings.kubelets_only;
    let controller = Controller::new(&context.env, NAME).workers(WORKERS).max_retries(None);
    let controller = controller.watches(&nodes, move |event| {
        let mut blocks = told.lock();
        let node = event.obj();
        if let InformerEvent::Deleted { .. } = event {
            let released = blocks.release(&tree(node));
            if strict {
                settle(node, released);
            }
            return Vec::new();
        }
        let (overlaps, occupied) = blocks.occupy(node.name(), &tree(node));
        overlaps.iter().for_each(|overlap| tell_overlap(&events, node, overlap));
        // Told once for each node, not with each of its heartbeats.
        if let (true, InformerEvent::Added { .. }) = (strict, &event) {
            settle(node, occupied);
        }
        vec![Key::of(node)]
    });
    let ipam = Arc::new(Ipam { client, recorder, nodes, blocks });
    let mut tasks = controller.start(&context.controllers, ipam, context.stop.clone());
    tasks.push(recording);
    tasks
}

/// What cannot be taken or given back is another configuration's: someone must look.
fn settle(node: &Obj, done: Result<(), String>) {
    if let Err(error) = done {
        tracing::error!(node = node.name(), error, "cannot account for the pod CIDRs of a node");
    }
}

/// Two nodes chose ranges that have addresses in common. Both go on; pods of both may have the same address.
fn tell_overlap(recorder: &Recorder, node: &Obj, overlap: &Overlap) {
    let Overlap { cidr, other } = overlap;
    tracing::warn!(node = node.name(), pod_cidr = %cidr, other, "a pod CIDR overlaps one of another node");
    let message = format!("Pod CIDR {cidr} overlaps one of node {other}");
    recorder.event_on(reference(node), Severity::Warning, "CIDROverlap", message);
}

fn reference(node: &Obj) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: node.name().to_owned(),
        uid: node.uid().to_owned(),
        resource_version: String::new(),
        field_path: String::new(),
    }
}

impl Reconcile for Ipam {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let Some(node) = self.nodes.store().get_key(request.key) else { return Ok(Action::AwaitChange) };
            let planned = self.blocks.lock().plan(&tree(&node));
            match planned {
                Plan::Nothing => Ok(Action::AwaitChange),
                Plan::Full(why) => {
                    request.plan(|| why.clone());
                    self.tell(&node, "CIDRNotAvailable");
                    Err(Failure::Other(why))
                }
                Plan::Assign { blocks, patch } => {
                    request.plan(|| format!("assign {}", texts(&blocks).join(", ")));
                    self.assign(&node, &blocks, patch).await?;
                    Ok(Action::AwaitChange)
                }
            }
        })
    }
}

impl Ipam {
    async fn assign(&self, node: &Arc<Obj>, blocks: &[Cidr], patch: object::Value) -> Result<(), Failure> {
        let mut failed = None;
        for _ in 0..TRIES {
            let patch = Patch::Strategic(patch.clone());
            match self.client.patch(NODES.of(node), patch, WriteOptions::default()).await {
                Ok(_) => {
                    self.blocks.lock().note_answer(node.name(), 200);
                    return Ok(());
                }
                Err(status) => {
                    self.blocks.lock().note_answer(node.name(), status.code);
                    failed = Some(status);
                }
            }
        }
        let Some(status) = failed else { return Ok(()) };
        self.tell(node, "CIDRAssignmentFailed");
        self.blocks.lock().give_back(node.name(), blocks);
        Err(status.into())
    }

    fn tell(&self, node: &Obj, what: &str) {
        let message = format!("Node {} status is now: {what}", node.name());
        self.recorder.event_on(reference(node), Severity::Normal, what, message);
    }
}

fn texts(blocks: &[Cidr]) -> Vec<String> {
    blocks.iter().map(Cidr::to_string).collect()
}
