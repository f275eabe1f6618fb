//! Controllers this server runs itself: those of kube-apiserver.
//!
//! They read the table, write through the chain ([`crate::loopback`]), and reconcile when an object changed
//! ([`crate::table_watcher`]), when a write failed, and now and then.

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

use tokio::task::JoinHandle;

use crate::api::Api;
use crate::flow_control;

pub use kubernetes_service::Advertised;

impl Api {
    /// Starts the controllers, once, however many sockets there are; they stop when a shutdown begins. The first caller owns the
    /// tasks and joins them.
    pub fn start_controllers(self: &Arc<Api>) -> Vec<JoinHandle<()>> {
        if self.controllers_started.swap(true, Ordering::AcqRel) {
            return Vec::new();
        }
        let env = self.registry.env();
        vec![
            env.spawn("store-maintenance", store_maintenance::run(self.clone())),
            env.spawn("flow-control", flow_control::run(self.clone())),
            env.spawn("service-ip-repair", service_ip_repair::run(self.clone())),
            env.spawn("kubernetes-service", kubernetes_service::run(self.clone())),
            env.spawn("cluster-authentication-trust", cluster_authentication_trust::run(self.clone())),
            env.spawn("legacy-token-tracking", legacy_token_tracking::run(self.clone())),
            env.spawn("legacy-token-uses", legacy_token_tracking::record_uses(self.clone())),
            env.spawn("flow-schemas", flow_schemas::run(self.clone())),
            env.spawn("custom-resource-definitions", custom_resource_definitions::run(self.clone())),
        ]
    }
}
