//! Controllers this server runs itself: those of kube-apiserver.
//!
//! They are woken and retried by `runtime`, like all others: an informer of the server's own user, a work queue, a reconcile with a
//! key. What they read is the table itself ([`crate::loopback`]), which is never older than what woke them, and they write through
//! the chain.

pub(crate) mod aggregated_documents;
pub(crate) mod api_service_availability;
pub(crate) mod api_service_registration;
pub(crate) mod cluster_authentication_trust;
pub(crate) mod custom_resource_definitions;
pub(crate) mod default_service_cidr;
pub(crate) mod flow_schemas;
pub(crate) mod kubernetes_service;
pub(crate) mod legacy_token_tracking;
pub(crate) mod service_ip_repair;
pub(crate) mod store_maintenance;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use runtime::queue::Limits;
use runtime::{Controller, ControllerRegistry, Informers, Reconcile, Stop, Stopper};
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::flow_control;
use crate::loopback::LoopbackClient;

pub use kubernetes_service::Advertised;

/// What a controller of this server is given.
pub(crate) struct Context {
    pub api: Arc<Api>,
    pub informers: Arc<Informers>,
    pub stop: Stop,
    registry: Arc<ControllerRegistry>,
}

/// A failed write is retried soon, and a minute later at most.
const RETRIES: Limits = Limits {
    first: Duration::from_millis(100),
    most: Duration::from_secs(60),
    per_second: 100.0,
    burst: 1000.0,
};

impl Context {
    pub fn controller(&self, name: &'static str) -> Controller {
        Controller::new(self.api.registry().env(), name).workers(1).max_retries(None).limits(RETRIES)
    }

    pub fn start(&self, controller: Controller, reconcile: impl Reconcile) -> Vec<JoinHandle<()>> {
        controller.start(&self.registry, Arc::new(reconcile), self.stop.clone())
    }
}

impl Api {
    /// Starts the controllers, once, however many sockets there are; they stop when a shutdown begins. The first caller owns the
    /// tasks and joins them.
    pub fn start_controllers(self: &Arc<Api>) -> Vec<JoinHandle<()>> {
        if self.controllers_started.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let env = self.registry.env();
        let (stopper, stop) = Stopper::new();
        let mut shutdown = self.shutdown();
        let stopping = async move {
            shutdown.begun().await;
            stopper.stop();
        };
        let informers = Informers::new(env.clone(), LoopbackClient::new(self).into_client(), stop.clone());
        let context = Context { api: self.clone(), informers, stop, registry: self.own_controllers.clone() };
        let mut tasks = vec![
            env.spawn("controllers", stopping),
            // Neither watches anything.
            env.spawn("store-maintenance", store_maintenance::run(self.clone())),
            env.spawn("kubernetes-service", kubernetes_service::run(self.clone())),
            env.spawn("legacy-token-uses", legacy_token_tracking::record_uses(self.clone())),
        ];
        tasks.extend(flow_control::start(&context));
        tasks.extend(service_ip_repair::start(&context));
        tasks.extend(cluster_authentication_trust::start(&context));
        tasks.extend(legacy_token_tracking::start(&context));
        tasks.extend(flow_schemas::start(&context));
        tasks.extend(custom_resource_definitions::start(&context));
        tasks.extend(api_service_registration::start(&context));
        tasks.extend(api_service_availability::start(&context));
        tasks.extend(aggregated_documents::start(&context));
        tasks.extend(context.informers.take_tasks());
        tasks
    }
}
