//! DaemonSet: one pod on every node that can run it, and new ones for old when the template changes.
//!
//! ```text
//! daemonsets, pods, revisions ─┐
//! nodes: labels, taints ───────┴─> key ── history ── pods and nodes that changed ── create and delete node by node ── roll ── status
//! ```
//! A pod is made for a node, by its affinity to the node's name; the scheduler binds it there. While a creation or a deletion of its own
//! has not been seen yet, a set is not counted: it would be counted wrong.

mod apply;
mod backoff;
mod handlers;
mod placement;
mod plan;
mod pods;
mod revisions;
mod rolling;
mod status;
mod template;
#[cfg(test)]
mod tests;
mod view;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use client::Client;
use client::resources::{DAEMON_SETS, NODES, PODS};
use env::Env;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use runtime::{
    Action, Controller, Expectations, Failure, Informer, Key, OwnWrites, Reconcile, ReconcileRequest,
    Recorder,
};
use tokio::task::JoinHandle;

use crate::Context;
use crate::changed::Changed;
use crate::claim::{index_orphans, index_selectors};
use crate::history::History;
use backoff::Backoff;
use world::World;

pub(crate) const NAME: &str = "daemonset-controller";
/// Its account has another name than its events.
const ACCOUNT: &str = "daemon-set-controller";

struct DaemonSets {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    sets: Arc<Informer>,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    history: History,
    expectations: Expectations,
    writes: OwnWrites,
    /// Guards what is known of each set beyond its object; taken for a few instructions.
    memory: Mutex<BTreeMap<Key, Memory>>,
    /// Pods and nodes of each set that changed since it was last looked at: [`handlers::pod_part`] and [`handlers::node_part`].
    changed: Changed,
}

/// Of one set, between reconciles.
#[derive(Default)]
struct Memory {
    backoff: Backoff,
    known: Option<Known>,
}

/// What was seen of its nodes and pods, and what that rests on.
struct Known {
    basis: Basis,
    world: World,
}

/// While it stays the same, nodes and pods that do not change mean the same to the set.
#[derive(PartialEq)]
struct Basis {
    uid: String,
    generation: i64,
    template_generation: Option<i64>,
    hash: String,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    let client = context.clients.controller(ACCOUNT);
    let (recorder, recording) = Recorder::start(&context.env, client.clone(), NAME, context.stop.clone());
    tasks.push(recording);
    let of = |resource| context.informers.of(resource);
    let (sets, pods, nodes) = (of(&DAEMON_SETS), of(&PODS), of(&NODES));
    index_orphans(&pods);
    index_selectors(&sets, |set| view::daemon_set_view(set).selector.clone());
    let history = History::new(context, client.clone());
    let revisions = history.informer().clone();
    let state = Arc::new(DaemonSets {
        env: context.env.clone(),
        client,
        recorder,
        sets: sets.clone(),
        pods: pods.clone(),
        nodes: nodes.clone(),
        history,
        expectations: Expectations::new(&context.env),
        writes: OwnWrites::new(&context.env, &[&sets, &pods, &revisions]),
        memory: Mutex::default(),
        changed: Changed::default(),
    });
    let controller = Controller::new(&context.env, "daemonset")
        .workers(context.settings.workers("concurrent-daemonset-syncs"))
        .max_retries(None);
    let controller = controller.reads(&sets).reads(&pods).reads(&nodes).reads(&revisions);
    handlers::add(&state, controller.queue());
    tasks.extend(controller.start(&context.controllers, state, context.stop.clone()));
    tasks
}

impl Reconcile for DaemonSets {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(self.sync(request))
    }
}

impl DaemonSets {
    fn remember<T>(&self, key: &Key, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(self.memory.lock().entry(key.clone()).or_default())
    }

    fn forget(&self, key: &Key) {
        self.memory.lock().remove(key);
        self.changed.forget(key);
        self.expectations.forget(key);
        self.writes.forget(key);
    }
}
