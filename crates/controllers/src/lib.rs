//! The controllers of a cluster, one folder each: wiring in `<controller>.rs`, the pure decision in `<controller>/plan.rs`.
//!
//! Every controller acts as its own service account in kube-system, with upstream's role, through a [`client::Client`]: the same
//! code runs inside the server and against any cluster over HTTP.

mod bootstrap_token;
mod bootstrapsigner;
mod changed;
mod claim;
mod clusterroleaggregation;
mod condition;
mod cronjob;
mod csr;
mod csrapproving;
mod csrcleaner;
mod csrsigning;
mod daemonset;
mod deployment;
mod devicetainteviction;
mod endpoints;
mod endpointslice;
mod endpointslicemirroring;
mod ephemeralvolume;
mod garbagecollector;
mod history;
mod horizontalpodautoscaler;
mod job;
mod kubeletserving;
mod legacytokencleaner;
mod localprovisioner;
mod namespace;
mod nodeipam;
mod nodelifecycle;
mod persistentvolume;
mod poddisruptionbudget;
mod podgc;
mod pods;
mod port_order;
mod pvcprotection;
mod pvprotection;
mod replicaset;
mod replicationcontroller;
mod resourceclaim;
mod resourcequota;
mod rootca;
mod serviceaccount;
mod servicecidrs;
mod services;
mod settings;
mod statefulset;
mod tainteviction;
#[cfg(test)]
mod testing;
mod tokencleaner;
mod tokens;
mod ttl;
mod ttlafterfinished;
mod vacprotection;
mod validatingadmissionpolicystatus;
mod volumeexpand;
mod volumes;

use std::sync::Arc;

use auth::pki::Issuer;
use client::{Client, Clients};
use env::Env;
use object::{Obj, Status};
use runtime::{ControllerRegistry, Informers, Recorder, Stop};
use tokio::task::JoinHandle;

pub use horizontalpodautoscaler::HorizontalPodAutoscaler;
pub use kubeletserving::NAME as KUBELET_SERVING_APPROVER;
pub use localprovisioner::{NAME as LOCAL_PROVISIONER, storage_class as local_storage_class};
pub use nodeipam::{Cidr, MaskSizes, NodeIpam, NodeIpamError};
pub use nodelifecycle::NodeLifecycle;
pub use pods::{PodFields, pod_view};
pub use settings::{CONCURRENCY, Concurrency, Endpoints, Settings};

/// What every controller is given.
#[derive(Clone)]
pub struct Context {
    pub env: Env,
    pub clients: Arc<dyn Clients>,
    pub informers: Arc<Informers>,
    pub controllers: Arc<ControllerRegistry>,
    pub stop: Stop,
    pub trust: Trust,
    pub settings: Arc<Settings>,
}

/// What no client can read from a server: whom to trust, and the keys tokens and certificates are signed with. Controllers that need what is not
/// there do not run.
#[derive(Clone, Default)]
pub struct Trust {
    /// The certificate authority pods must trust to reach the server, as PEM.
    pub root_ca: Option<Arc<str>>,
    pub sign: Option<SignToken>,
    /// Signs certificates of the cluster's own signers.
    pub issuer: Option<Issuer>,
    /// No node gets them.
    pub serving_names: Option<ServingNames>,
}

/// The DNS names and addresses of the server's own certificate as it is now.
pub type ServingNames = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// A token for a service account that is good as long as the Secret holds it.
pub type SignToken = Arc<dyn Fn(&Obj, &Obj) -> Result<String, Status> + Send + Sync>;

impl Context {
    /// A client and an event recorder of the controller's own identity; the recorder's task is added to `tasks`.
    pub fn identity(&self, controller: &str, tasks: &mut Vec<JoinHandle<()>>) -> (Arc<dyn Client>, Recorder) {
        let client = self.clients.controller(controller);
        let (recorder, task) = Recorder::start(&self.env, client.clone(), controller, self.stop.clone());
        tasks.push(task);
        (client, recorder)
    }
}

/// One controller: its name for people and flags, and how it is started.
pub struct ControllerDescriptor {
    pub name: &'static str,
    pub start: fn(&Context) -> Vec<JoinHandle<()>>,
}

/// All controllers. A new one is a folder and a row.
pub const CONTROLLERS: &[ControllerDescriptor] = &[
    ControllerDescriptor { name: bootstrapsigner::NAME, start: bootstrapsigner::start },
    ControllerDescriptor { name: csrapproving::NAME, start: csrapproving::start },
    ControllerDescriptor { name: csrcleaner::NAME, start: csrcleaner::start },
    ControllerDescriptor { name: csrsigning::NAME, start: csrsigning::start },
    ControllerDescriptor { name: clusterroleaggregation::NAME, start: clusterroleaggregation::start },
    ControllerDescriptor { name: cronjob::NAME, start: cronjob::start },
    ControllerDescriptor { name: daemonset::NAME, start: daemonset::start },
    ControllerDescriptor { name: "deployment-controller", start: deployment::start },
    ControllerDescriptor { name: devicetainteviction::NAME, start: devicetainteviction::start },
    ControllerDescriptor { name: endpoints::NAME, start: endpoints::start },
    ControllerDescriptor { name: endpointslice::NAME, start: endpointslice::start },
    ControllerDescriptor { name: endpointslicemirroring::NAME, start: endpointslicemirroring::start },
    ControllerDescriptor { name: ephemeralvolume::NAME, start: ephemeralvolume::start },
    ControllerDescriptor { name: "garbage-collector-controller", start: garbagecollector::start },
    ControllerDescriptor { name: horizontalpodautoscaler::NAME, start: horizontalpodautoscaler::start },
    ControllerDescriptor { name: "job-controller", start: job::start },
    ControllerDescriptor { name: kubeletserving::NAME, start: kubeletserving::start },
    ControllerDescriptor { name: localprovisioner::NAME, start: localprovisioner::start },
    ControllerDescriptor { name: legacytokencleaner::NAME, start: legacytokencleaner::start },
    ControllerDescriptor { name: "namespace-controller", start: namespace::start },
    ControllerDescriptor { name: nodeipam::NAME, start: nodeipam::start },
    ControllerDescriptor { name: nodelifecycle::NAME, start: nodelifecycle::start },
    ControllerDescriptor { name: "disruption-controller", start: poddisruptionbudget::start },
    ControllerDescriptor { name: persistentvolume::NAME, start: persistentvolume::start },
    ControllerDescriptor { name: volumeexpand::NAME, start: volumeexpand::start },
    ControllerDescriptor { name: pvcprotection::NAME, start: pvcprotection::start },
    ControllerDescriptor { name: pvprotection::NAME, start: pvprotection::start },
    ControllerDescriptor { name: podgc::NAME, start: podgc::start },
    ControllerDescriptor { name: "replicaset-controller", start: replicaset::start },
    ControllerDescriptor { name: "replicationcontroller-controller", start: replicationcontroller::start },
    ControllerDescriptor { name: resourceclaim::NAME, start: resourceclaim::start },
    ControllerDescriptor { name: resourcequota::NAME, start: resourcequota::start },
    ControllerDescriptor { name: rootca::NAME, start: rootca::start },
    ControllerDescriptor { name: serviceaccount::NAME, start: serviceaccount::start },
    ControllerDescriptor { name: servicecidrs::NAME, start: servicecidrs::start },
    ControllerDescriptor { name: "statefulset-controller", start: statefulset::start },
    ControllerDescriptor { name: tokencleaner::NAME, start: tokencleaner::start },
    ControllerDescriptor { name: tokens::NAME, start: tokens::start },
    ControllerDescriptor { name: tainteviction::NAME, start: tainteviction::start },
    ControllerDescriptor { name: ttl::NAME, start: ttl::start },
    ControllerDescriptor { name: "ttl-after-finished-controller", start: ttlafterfinished::start },
    ControllerDescriptor { name: vacprotection::NAME, start: vacprotection::start },
    ControllerDescriptor {
        name: validatingadmissionpolicystatus::NAME,
        start: validatingadmissionpolicystatus::start,
    },
];

/// Controllers that run only where `--controllers` names them: they are for clusters that nodes join by kubeadm.
pub const OFF_BY_DEFAULT: [&str; 2] = [bootstrapsigner::NAME, tokencleaner::NAME];

/// The controllers a server without any others needs: where they do not run, no pod can be made in a new namespace.
pub const ACCOUNTS: [&str; 3] = [rootca::NAME, serviceaccount::NAME, tokens::NAME];

/// Starts all controllers that are wanted, by name; the tasks end after `context.stop`.
pub fn start(context: &Context, wanted: &dyn Fn(&str) -> bool) -> Vec<JoinHandle<()>> {
    let wanted = CONTROLLERS.iter().filter(|row| wanted(row.name));
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
