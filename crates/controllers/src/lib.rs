//! The control loops of a cluster, one folder each: wiring in `<loop>.rs`, the pure decision in `<loop>/plan.rs`.
//!
//! Every loop acts as its own service account in kube-system, with upstream's role, through a [`client::Client`]: the same
//! code runs inside the server and against any cluster over HTTP.

mod claim;
mod condition;
mod deployment;
mod endpoints;
mod endpointslice;
mod endpointslicemirroring;
mod garbagecollector;
mod job;
mod namespace;
mod nodelifecycle;
mod poddisruptionbudget;
mod podgc;
mod pods;
mod port_order;
mod replicaset;
mod replicationcontroller;
mod rootca;
mod serviceaccount;
mod services;
mod tainteviction;
mod tokens;
mod ttl;
mod ttlafterfinished;

use std::sync::Arc;

use client::{Client, Clients};
use env::Env;
use object::{Obj, Status};
use runtime::{Board, Informers, Recorder, Stop};
use tokio::task::JoinHandle;

pub use pods::{PodFields, pod_view};

/// What every loop is given.
#[derive(Clone)]
pub struct Context {
    pub env: Env,
    pub clients: Arc<dyn Clients>,
    pub informers: Arc<Informers>,
    pub board: Arc<Board>,
    pub stop: Stop,
    pub trust: Trust,
}

/// What no client can read from a server: whom to trust, and the key tokens are signed with. Loops that need what is not
/// there do not run.
#[derive(Clone, Default)]
pub struct Trust {
    /// The certificate authority pods must trust to reach the server, as PEM.
    pub root_ca: Option<Arc<str>>,
    pub sign: Option<SignToken>,
}

/// A token for a service account that is good as long as the Secret holds it.
pub type SignToken = Arc<dyn Fn(&Obj, &Obj) -> Result<String, Status> + Send + Sync>;

impl Context {
    /// A client and an event recorder of the loop's own identity; the recorder's task is added to `tasks`.
    pub fn identity(&self, controller: &str, tasks: &mut Vec<JoinHandle<()>>) -> (Arc<dyn Client>, Recorder) {
        let client = self.clients.controller(controller);
        let (recorder, task) = Recorder::start(&self.env, client.clone(), controller, self.stop.clone());
        tasks.push(task);
        (client, recorder)
    }
}

/// One loop: its name for people and flags, and how it is started.
pub struct Row {
    pub name: &'static str,
    pub start: fn(&Context) -> Vec<JoinHandle<()>>,
}

/// All loops. A new one is a folder and a row.
pub const ROWS: &[Row] = &[
    Row { name: "deployment-controller", start: deployment::start },
    Row { name: endpoints::NAME, start: endpoints::start },
    Row { name: endpointslice::NAME, start: endpointslice::start },
    Row { name: endpointslicemirroring::NAME, start: endpointslicemirroring::start },
    Row { name: "garbage-collector-controller", start: garbagecollector::start },
    Row { name: "job-controller", start: job::start },
    Row { name: "namespace-controller", start: namespace::start },
    Row { name: nodelifecycle::NAME, start: nodelifecycle::start },
    Row { name: "disruption-controller", start: poddisruptionbudget::start },
    Row { name: podgc::NAME, start: podgc::start },
    Row { name: "replicaset-controller", start: replicaset::start },
    Row { name: "replicationcontroller-controller", start: replicationcontroller::start },
    Row { name: rootca::NAME, start: rootca::start },
    Row { name: serviceaccount::NAME, start: serviceaccount::start },
    Row { name: tokens::NAME, start: tokens::start },
    Row { name: tainteviction::NAME, start: tainteviction::start },
    Row { name: ttl::NAME, start: ttl::start },
    Row { name: "ttl-after-finished-controller", start: ttlafterfinished::start },
];

/// The loops a server without any others needs: where they do not run, no pod can be made in a new namespace.
pub const ACCOUNTS: [&str; 3] = [rootca::NAME, serviceaccount::NAME, tokens::NAME];

/// Starts all loops that are wanted, by name; the tasks end after `context.stop`.
pub fn start(context: &Context, wanted: &dyn Fn(&str) -> bool) -> Vec<JoinHandle<()>> {
    let wanted = ROWS.iter().filter(|row| wanted(row.name));
    let mut tasks: Vec<JoinHandle<()>> = wanted.flat_map(|row| (row.start)(context)).collect();
    tasks.extend(context.informers.take_tasks());
    tasks
}

/// Nothing new is made in a namespace that is being deleted: no failure, and nothing to try again.
fn namespace_is_going(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod form;
