//! The list of kinds: one row each, data where data is enough.

use catalog::Storage;

use crate::generic::GenericKind;
use crate::kind::Kind;
use crate::rules::{Finalizers, Generation, Rules};
use crate::{
    admissionpolicy, apiservice, certificatesigningrequest, configmap, controllerrevision, cronjob,
    csidriver, csinode, csistoragecapacity, customresourcedefinition, daemonset, deployment, deviceclass,
    endpoints, endpointslice, event, flowschema, horizontalpodautoscaler, ingress, ingressclass, ipaddress,
    job, lease, limitrange, namespace, networkpolicy, node, persistentvolume, persistentvolumeclaim, pod,
    poddisruptionbudget, podtemplate, priorityclass, prioritylevelconfiguration, rbac, replicaset,
    replicationcontroller, resourceclaim, resourcequota, resourceslice, runtimeclass, secret, service,
    serviceaccount, servicecidr, statefulset, storageclass, volumeattachment, volumeattributesclass,
    webhookconfiguration,
};

/// The kind of what a storage keeps. Lives as long as the program: look it up once per storage, not per request.
pub fn kind_of(storage: &Storage) -> &'static dyn Kind {
    let row = KINDS.iter().find(|(group, plural, _)| storage.plural == *plural && storage.group == *group);
    row.map_or(&CUSTOM, |(_, _, kind)| *kind)
}

/// Whether a row names what the storage keeps; if none does, it is a custom resource.
pub(crate) fn is_listed(storage: &Storage) -> bool {
    KINDS.iter().any(|(group, plural, _)| storage.plural == *plural && storage.group == *group)
}

/// What no row names: a kind that came later.
static CUSTOM: GenericKind =
    GenericKind::plain(Rules::PLAIN.with_generation(Generation::SPEC).with_finalizers(Finalizers::Qualified));

type Row = (&'static str, &'static str, &'static dyn Kind);

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

#[rustfmt::skip]
static KINDS: &[Row] = &[
    ("", "configmaps", &configmap::KIND),
    ("", "endpoints", &endpoints::KIND),
    ("", "events", &event::KIND),
    ("", "limitranges", &limitrange::KIND),
    ("", "namespaces", &namespace::KIND),
    ("", "nodes", &node::KIND),
    ("", "persistentvolumeclaims", &persistentvolumeclaim::KIND),
    ("", "persistentvolumes", &persistentvolume::KIND),
    ("", "pods", &pod::KIND),
    ("", "podtemplates", &podtemplate::KIND),
    ("", "rangeallocations", &GenericKind::plain(Rules::PLAIN)),
    ("", "replicationcontrollers", &replicationcontroller::KIND),
    ("", "resourcequotas", &resourcequota::KIND),
    ("", "secrets", &secret::KIND),
    ("", "serviceaccounts", &serviceaccount::KIND),
    ("", "services", &service::KIND),

    (ADMISSION, "mutatingadmissionpolicies", &admissionpolicy::MUTATING),
    (ADMISSION, "mutatingadmissionpolicybindings", &admissionpolicy::MUTATING_BINDING),
    (ADMISSION, "mutatingwebhookconfigurations", &webhookconfiguration::MUTATING),
    (ADMISSION, "validatingadmissionpolicies", &admissionpolicy::VALIDATING),
    (ADMISSION, "validatingadmissionpolicybindings", &admissionpolicy::VALIDATING_BINDING),
    (ADMISSION, "validatingwebhookconfigurations", &webhookconfiguration::VALIDATING),

    ("apiextensions.k8s.io", "customresourcedefinitions", &customresourcedefinition::KIND),
    ("apiregistration.k8s.io", "apiservices", &apiservice::KIND),

    ("apps", "controllerrevisions", &controllerrevision::KIND),
    ("apps", "daemonsets", &daemonset::KIND),
    ("apps", "deployments", &deployment::KIND),
    ("apps", "replicasets", &replicaset::KIND),
    ("apps", "statefulsets", &statefulset::KIND),

    ("autoscaling", "horizontalpodautoscalers", &horizontalpodautoscaler::KIND),
    ("batch", "cronjobs", &cronjob::KIND),
    ("batch", "jobs", &job::KIND),
    ("certificates.k8s.io", "certificatesigningrequests", &certificatesigningrequest::KIND),
    ("coordination.k8s.io", "leases", &lease::KIND),
    ("discovery.k8s.io", "endpointslices", &endpointslice::KIND),

    (FLOW, "flowschemas", &flowschema::KIND),
    (FLOW, "prioritylevelconfigurations", &prioritylevelconfiguration::KIND),

    (NETWORKING, "ingressclasses", &ingressclass::KIND),
    (NETWORKING, "ingresses", &ingress::KIND),
    (NETWORKING, "ipaddresses", &ipaddress::KIND),
    (NETWORKING, "networkpolicies", &networkpolicy::KIND),
    (NETWORKING, "servicecidrs", &servicecidr::KIND),

    ("node.k8s.io", "runtimeclasses", &runtimeclass::KIND),
    ("policy", "poddisruptionbudgets", &poddisruptionbudget::KIND),

    (RBAC_GROUP, "clusterrolebindings", &rbac::CLUSTER_ROLE_BINDING),
    (RBAC_GROUP, "clusterroles", &rbac::CLUSTER_ROLE),
    (RBAC_GROUP, "rolebindings", &rbac::ROLE_BINDING),
    (RBAC_GROUP, "roles", &rbac::ROLE),

    (RESOURCE, "deviceclasses", &deviceclass::KIND),
    (RESOURCE, "resourceclaims", &resourceclaim::CLAIM),
    (RESOURCE, "resourceclaimtemplates", &resourceclaim::TEMPLATE),
    (RESOURCE, "resourceslices", &resourceslice::KIND),

    ("scheduling.k8s.io", "priorityclasses", &priorityclass::KIND),

    (STORAGE, "csidrivers", &csidriver::KIND),
    (STORAGE, "csinodes", &csinode::KIND),
    (STORAGE, "csistoragecapacities", &csistoragecapacity::KIND),
    (STORAGE, "storageclasses", &storageclass::KIND),
    (STORAGE, "volumeattachments", &volumeattachment::KIND),
    (STORAGE, "volumeattributesclasses", &volumeattributesclass::KIND),
];

/// (group, plural) of every row, for tests that sweep them.
#[cfg(test)]
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().map(|(group, plural, _)| (*group, *plural))
}
