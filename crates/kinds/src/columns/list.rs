//! The list of printers: one row for each kind that shows more than its name and birth.

use super::row::{Row, seconds_of};
use super::{
    Cell, Column, Printer, admissionregistration, apps, autoscaling, batch, certificates, core, endpoints,
    event, flowcontrol, networking, node, pod, rbac, resource, service, single, storage, volume,
};

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

/// (group, plural) of those whose status upstream shows as itself only.
pub(super) const WITHOUT_STATUS_TABLE: [(&str, &str); 3] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    (RESOURCE, "resourceclaims"),
];

pub(super) fn find(group: &str, plural: &str) -> &'static Printer {
    let row = PRINTERS.iter().find(|(g, p, _)| *p == plural && *g == group);
    row.map_or(&GENERIC, |(_, _, printer)| *printer)
}

/// (group, plural) of every row, for tests that sweep them.
#[cfg(test)]
pub(super) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    PRINTERS.iter().map(|(group, plural, _)| (*group, *plural))
}

static GENERIC: Printer = Printer::new(&[Column::NAME, Column::CREATED], generic);

fn generic(row: &Row<'_>, out: &mut Vec<Cell>) {
    let created = seconds_of(row.at(&["metadata", "creationTimestamp"]));
    let created = created.unwrap_or(object::time::ZERO_SECONDS);
    out.extend([row.name(), object::time::format_seconds(created).into()]);
}

#[rustfmt::skip]
static PRINTERS: &[(&str, &str, &Printer)] = &[
    ("", "componentstatuses", &core::COMPONENT_STATUS),
    ("", "configmaps", &core::CONFIG_MAP),
    ("", "endpoints", &endpoints::ENDPOINTS),
    ("", "events", &event::PRINTER),
    ("", "namespaces", &core::NAMESPACE),
    ("", "nodes", &node::PRINTER),
    ("", "persistentvolumeclaims", &volume::PERSISTENT_VOLUME_CLAIM),
    ("", "persistentvolumes", &volume::PERSISTENT_VOLUME),
    ("", "pods", &pod::PRINTER),
    ("", "podtemplates", &core::POD_TEMPLATE),
    ("", "replicationcontrollers", &apps::REPLICATION_CONTROLLER),
    ("", "resourcequotas", &core::RESOURCE_QUOTA),
    ("", "secrets", &core::SECRET),
    ("", "serviceaccounts", &core::SERVICE_ACCOUNT),
    ("", "services", &service::PRINTER),

    (ADMISSION, "mutatingadmissionpolicies", &admissionregistration::MUTATING_POLICY),
    (ADMISSION, "mutatingadmissionpolicybindings", &admissionregistration::BINDING),
    (ADMISSION, "mutatingwebhookconfigurations", &admissionregistration::WEBHOOKS),
    (ADMISSION, "validatingadmissionpolicies", &admissionregistration::VALIDATING_POLICY),
    (ADMISSION, "validatingadmissionpolicybindings", &admissionregistration::BINDING),
    (ADMISSION, "validatingwebhookconfigurations", &admissionregistration::WEBHOOKS),

    ("apiregistration.k8s.io", "apiservices", &single::API_SERVICE),

    ("apps", "controllerrevisions", &apps::CONTROLLER_REVISION),
    ("apps", "daemonsets", &apps::DAEMON_SET),
    ("apps", "deployments", &apps::DEPLOYMENT),
    ("apps", "replicasets", &apps::REPLICA_SET),
    ("apps", "statefulsets", &apps::STATEFUL_SET),

    ("autoscaling", "horizontalpodautoscalers", &autoscaling::HORIZONTAL_POD_AUTOSCALER),
    ("batch", "cronjobs", &batch::CRON_JOB),
    ("batch", "jobs", &batch::JOB),
    ("certificates.k8s.io", "certificatesigningrequests", &certificates::SIGNING_REQUEST),
    ("coordination.k8s.io", "leases", &single::LEASE),
    ("discovery.k8s.io", "endpointslices", &endpoints::ENDPOINT_SLICE),
    ("events.k8s.io", "events", &event::PRINTER),

    (FLOW, "flowschemas", &flowcontrol::FLOW_SCHEMA),
    (FLOW, "prioritylevelconfigurations", &flowcontrol::PRIORITY_LEVEL),

    (NETWORKING, "ingressclasses", &networking::INGRESS_CLASS),
    (NETWORKING, "ingresses", &networking::INGRESS),
    (NETWORKING, "ipaddresses", &networking::IP_ADDRESS),
    (NETWORKING, "networkpolicies", &networking::NETWORK_POLICY),
    (NETWORKING, "servicecidrs", &networking::SERVICE_CIDR),

    ("node.k8s.io", "runtimeclasses", &single::RUNTIME_CLASS),
    ("policy", "poddisruptionbudgets", &single::POD_DISRUPTION_BUDGET),

    (RBAC, "clusterrolebindings", &rbac::BINDING),
    (RBAC, "rolebindings", &rbac::BINDING),

    (RESOURCE, "deviceclasses", &resource::NAME_AND_AGE),
    (RESOURCE, "resourceclaims", &resource::CLAIM),
    (RESOURCE, "resourceclaimtemplates", &resource::NAME_AND_AGE),
    (RESOURCE, "resourceslices", &resource::SLICE),

    ("scheduling.k8s.io", "priorityclasses", &single::PRIORITY_CLASS),

    (STORAGE, "csidrivers", &storage::CSI_DRIVER),
    (STORAGE, "csinodes", &storage::CSI_NODE),
    (STORAGE, "storageclasses", &storage::STORAGE_CLASS),
    (STORAGE, "volumeattachments", &storage::VOLUME_ATTACHMENT),
    (STORAGE, "volumeattributesclasses", &storage::VOLUME_ATTRIBUTES_CLASS),
];
