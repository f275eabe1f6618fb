//! The resources loops talk about, in the version they are stored in.

use crate::Gvr;

pub const BINDINGS: Gvr = Gvr::new("", "v1", "bindings");
pub const CONFIG_MAPS: Gvr = Gvr::new("", "v1", "configmaps");
pub const ENDPOINTS: Gvr = Gvr::new("", "v1", "endpoints");
pub const EVENTS: Gvr = Gvr::new("", "v1", "events");
/// The same events under their newer name and form.
pub const EVENTS_V1: Gvr = Gvr::new("events.k8s.io", "v1", "events");
pub const NAMESPACES: Gvr = Gvr::new("", "v1", "namespaces");
pub const NODES: Gvr = Gvr::new("", "v1", "nodes");
pub const PODS: Gvr = Gvr::new("", "v1", "pods");
pub const REPLICATION_CONTROLLERS: Gvr = Gvr::new("", "v1", "replicationcontrollers");
pub const SECRETS: Gvr = Gvr::new("", "v1", "secrets");
pub const SERVICE_ACCOUNTS: Gvr = Gvr::new("", "v1", "serviceaccounts");
pub const SERVICES: Gvr = Gvr::new("", "v1", "services");
pub const DAEMON_SETS: Gvr = Gvr::new("apps", "v1", "daemonsets");
pub const DEPLOYMENTS: Gvr = Gvr::new("apps", "v1", "deployments");
pub const REPLICA_SETS: Gvr = Gvr::new("apps", "v1", "replicasets");
pub const STATEFUL_SETS: Gvr = Gvr::new("apps", "v1", "statefulsets");
pub const JOBS: Gvr = Gvr::new("batch", "v1", "jobs");
pub const LEASES: Gvr = Gvr::new("coordination.k8s.io", "v1", "leases");
pub const ENDPOINT_SLICES: Gvr = Gvr::new("discovery.k8s.io", "v1", "endpointslices");
pub const POD_DISRUPTION_BUDGETS: Gvr = Gvr::new("policy", "v1", "poddisruptionbudgets");
pub const PRIORITY_CLASSES: Gvr = Gvr::new("scheduling.k8s.io", "v1", "priorityclasses");
