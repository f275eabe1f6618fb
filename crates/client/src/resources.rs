//! The built-in resources controllers talk about, in the version they are stored in.

use crate::Gvr;

pub static BINDINGS: Gvr = Gvr::new("", "v1", "bindings");
pub static CONFIG_MAPS: Gvr = Gvr::new("", "v1", "configmaps");
pub static ENDPOINTS: Gvr = Gvr::new("", "v1", "endpoints");
pub static EVENTS: Gvr = Gvr::new("", "v1", "events");
/// The same events under their newer name and form.
pub static EVENTS_V1: Gvr = Gvr::new("events.k8s.io", "v1", "events");
pub static VALIDATING_ADMISSION_POLICIES: Gvr =
    Gvr::new("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies");
pub static NAMESPACES: Gvr = Gvr::new("", "v1", "namespaces");
pub static NODES: Gvr = Gvr::new("", "v1", "nodes");
pub static PERSISTENT_VOLUMES: Gvr = Gvr::new("", "v1", "persistentvolumes");
pub static PERSISTENT_VOLUME_CLAIMS: Gvr = Gvr::new("", "v1", "persistentvolumeclaims");
pub static PODS: Gvr = Gvr::new("", "v1", "pods");
pub static REPLICATION_CONTROLLERS: Gvr = Gvr::new("", "v1", "replicationcontrollers");
pub static RESOURCE_QUOTAS: Gvr = Gvr::new("", "v1", "resourcequotas");
pub static SECRETS: Gvr = Gvr::new("", "v1", "secrets");
pub static SERVICE_ACCOUNTS: Gvr = Gvr::new("", "v1", "serviceaccounts");
pub static SERVICES: Gvr = Gvr::new("", "v1", "services");
pub static CUSTOM_RESOURCE_DEFINITIONS: Gvr =
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
pub static CONTROLLER_REVISIONS: Gvr = Gvr::new("apps", "v1", "controllerrevisions");
pub static DAEMON_SETS: Gvr = Gvr::new("apps", "v1", "daemonsets");
pub static DEPLOYMENTS: Gvr = Gvr::new("apps", "v1", "deployments");
pub static REPLICA_SETS: Gvr = Gvr::new("apps", "v1", "replicasets");
pub static STATEFUL_SETS: Gvr = Gvr::new("apps", "v1", "statefulsets");
pub static SUBJECT_ACCESS_REVIEWS: Gvr = Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews");
pub static CRON_JOBS: Gvr = Gvr::new("batch", "v1", "cronjobs");
pub static HORIZONTAL_POD_AUTOSCALERS: Gvr = Gvr::new("autoscaling", "v2", "horizontalpodautoscalers");
pub static JOBS: Gvr = Gvr::new("batch", "v1", "jobs");
pub static CERTIFICATE_SIGNING_REQUESTS: Gvr =
    Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests");
pub static LEASES: Gvr = Gvr::new("coordination.k8s.io", "v1", "leases");
pub static ENDPOINT_SLICES: Gvr = Gvr::new("discovery.k8s.io", "v1", "endpointslices");
pub static IP_ADDRESSES: Gvr = Gvr::new("networking.k8s.io", "v1", "ipaddresses");
pub static SERVICE_CIDRS: Gvr = Gvr::new("networking.k8s.io", "v1", "servicecidrs");
pub static POD_DISRUPTION_BUDGETS: Gvr = Gvr::new("policy", "v1", "poddisruptionbudgets");
pub static DEVICE_CLASSES: Gvr = Gvr::new("resource.k8s.io", "v1", "deviceclasses");
pub static RESOURCE_CLAIM_TEMPLATES: Gvr = Gvr::new("resource.k8s.io", "v1", "resourceclaimtemplates");
pub static RESOURCE_CLAIMS: Gvr = Gvr::new("resource.k8s.io", "v1", "resourceclaims");
pub static RUNTIME_CLASSES: Gvr = Gvr::new("node.k8s.io", "v1", "runtimeclasses");
pub static CLUSTER_ROLES: Gvr = Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles");
pub static RESOURCE_SLICES: Gvr = Gvr::new("resource.k8s.io", "v1", "resourceslices");
pub static PRIORITY_CLASSES: Gvr = Gvr::new("scheduling.k8s.io", "v1", "priorityclasses");
pub static CSI_DRIVERS: Gvr = Gvr::new("storage.k8s.io", "v1", "csidrivers");
pub static CSI_NODES: Gvr = Gvr::new("storage.k8s.io", "v1", "csinodes");
pub static CSI_STORAGE_CAPACITIES: Gvr = Gvr::new("storage.k8s.io", "v1", "csistoragecapacities");
pub static STORAGE_CLASSES: Gvr = Gvr::new("storage.k8s.io", "v1", "storageclasses");
pub static VOLUME_ATTACHMENTS: Gvr = Gvr::new("storage.k8s.io", "v1", "volumeattachments");
pub static VOLUME_ATTRIBUTES_CLASSES: Gvr = Gvr::new("storage.k8s.io", "v1", "volumeattributesclasses");

/// The label of an EndpointSlice that names its Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
