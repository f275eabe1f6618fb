//! The list of kinds: one row each, data where data is enough.

use std::sync::Arc;

use catalog::{Resource, Storage, StrategySlot};

use crate::generic::GenericKind;
use crate::kind::Kind;
use crate::metadata::finalizer_warnings;
use crate::rules::{Finalizers, Generation, Rules};
use crate::{
    admissionpolicy, apiservice, certificatesigningrequest, componentstatus, configmap, controllerrevision,
    cronjob, csidriver, csinode, csistoragecapacity, customresourcedefinition, daemonset, deployment,
    deviceclass, endpoints, endpointslice, event, flowschema, horizontalpodautoscaler, ingress, ingressclass,
    ipaddress, job, lease, limitrange, namespace, networkpolicy, node, persistentvolume,
    persistentvolumeclaim, pod, poddisruptionbudget, podtemplate, priorityclass, prioritylevelconfiguration,
    rbac, replicaset, replicationcontroller, resourceclaim, resourcequota, resourceslice, runtimeclass,
    scale, secret, service, serviceaccount, servicecidr, statefulset, storageclass, tokenrequest,
    volumeattachment, volumeattributesclass, webhookconfiguration,
};

/// What a definition holds of its kind.
enum Strategy {
    BuiltIn(&'static dyn Kind),
    Defined(Arc<dyn Kind>),
}

/// The kind of what a storage holds: the one its definition came with, or its row of the list, looked up once.
pub fn kind_of(storage: &Storage) -> &dyn Kind {
    let strategy = storage.strategy.get_or_init(|| Arc::new(Strategy::BuiltIn(listed(storage))));
    match strategy.downcast_ref() {
        Some(Strategy::BuiltIn(kind)) => *kind,
        Some(Strategy::Defined(kind)) => &**kind,
        None => &CUSTOM,
    }
}

/// For a definition that is made while the server runs.
pub fn strategy(kind: Arc<dyn Kind>) -> StrategySlot {
    StrategySlot::new(Arc::new(Strategy::Defined(kind)))
}

fn listed(storage: &Storage) -> &'static dyn Kind {
    let row = KINDS.iter().find(|(group, plural, _)| storage.plural == *plural && storage.group == *group);
    row.map_or(&CUSTOM, |(_, _, kind)| *kind)
}

/// The kind of what a resource serves.
pub fn kind_of_resource(resource: &Resource) -> &dyn Kind {
    match &resource.storage {
        Some(storage) => kind_of(storage),
        None => unstored_kind(&resource.group, &resource.kind),
    }
}

/// Kinds that are never stored: reviews, and bodies of subresources.
pub fn unstored_kind(group: &str, kind: &str) -> &'static dyn Kind {
    let row = UNSTORED.iter().find(|row| row.1 == kind && row.0 == group);
    row.map_or(&PLAIN, |(_, _, kind)| *kind)
}

/// What no row names: a kind that came later.
static CUSTOM: GenericKind =
    GenericKind::plain(Rules::PLAIN.with_generation(Generation::SPEC).with_finalizers(Finalizers::Qualified))
        .with_warnings(|write, warnings| warnings.extend(finalizer_warnings(write.new, write.old)));

static PLAIN: GenericKind = GenericKind::plain(Rules::PLAIN);

type Row = (&'static str, &'static str, &'static dyn Kind);

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
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
    ("", "rangeallocations", &PLAIN),
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

/// By group and kind: a body of a subresource has no plural.
#[rustfmt::skip]
static UNSTORED: &[Row] = &[
    ("", "Binding", &PLAIN),
    ("", "ComponentStatus", &componentstatus::KIND),
    (AUTHENTICATION, "SelfSubjectReview", &PLAIN),
    (AUTHENTICATION, "TokenRequest", &tokenrequest::KIND),
    (AUTHENTICATION, "TokenReview", &PLAIN),
    (AUTHORIZATION, "LocalSubjectAccessReview", &PLAIN),
    (AUTHORIZATION, "SelfSubjectAccessReview", &PLAIN),
    (AUTHORIZATION, "SelfSubjectRulesReview", &PLAIN),
    (AUTHORIZATION, "SubjectAccessReview", &PLAIN),
    ("autoscaling", "Scale", &scale::KIND),
    ("policy", "Eviction", &PLAIN),
];

/// (group, plural) of every stored kind, for tests that sweep them.
#[cfg(test)]
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().map(|(group, plural, _)| (*group, *plural))
}

/// (group, kind) of every kind that is not stored.
#[cfg(test)]
pub(crate) fn unstored_rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    UNSTORED.iter().map(|(group, kind, _)| (*group, *kind))
}
