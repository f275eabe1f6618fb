//! The list of kinds: one row each, data where data is enough.

use catalog::Storage;

use crate::kind::Kind;
use crate::rules::{Finalizers, Generation, NameRule, Rules, StatusMeta};
use crate::{
    apiservice, certificatesigningrequest, configmap, controllerrevision, cronjob, customresourcedefinition,
    daemonset, deployment, endpoints, endpointslice, event, horizontalpodautoscaler, ingress, job, lease,
    limitrange, namespace, networkpolicy, node, persistentvolume, persistentvolumeclaim, pod,
    poddisruptionbudget, podtemplate, priorityclass, rbac, replicaset, replicationcontroller, resourcequota,
    resourceslice, secret, service, serviceaccount, statefulset, storageclass,
};

/// The kind of what a storage keeps. Lives as long as the program: look it up once per storage, not per request.
pub fn kind_of(storage: &Storage) -> &'static dyn Kind {
    let row = KINDS.iter().find(|(group, plural, _)| storage.plural == *plural && storage.group == *group);
    row.map_or(&CUSTOM, |(_, _, kind)| *kind)
}

/// A kind that is data only.
struct Plain {
    rules: Rules,
}

impl Kind for Plain {
    fn rules(&self) -> &Rules {
        &self.rules
    }
}

const fn plain(rules: Rules) -> Plain {
    Plain { rules }
}

/// What no row names: a kind that came later.
static CUSTOM: Plain = plain(SPEC.with_finalizers(Finalizers::Qualified));

const PLAIN: Rules = Rules::PLAIN;
const SPEC: Rules = PLAIN.with_generation(Generation::SPEC);
/// Admission configuration and leases: any qualified finalizer will do.
const LENIENT: Rules = PLAIN.with_finalizers(Finalizers::Qualified);

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
    ("", "rangeallocations", &plain(PLAIN)),
    ("", "replicationcontrollers", &replicationcontroller::KIND),
    ("", "resourcequotas", &resourcequota::KIND),
    ("", "secrets", &secret::KIND),
    ("", "serviceaccounts", &serviceaccount::KIND),
    ("", "services", &service::KIND),

    (ADMISSION, "mutatingadmissionpolicies", &plain(LENIENT.with_generation(Generation::SPEC))),
    (ADMISSION, "mutatingadmissionpolicybindings", &plain(LENIENT.with_generation(Generation::SPEC))),
    (ADMISSION, "mutatingwebhookconfigurations", &plain(LENIENT.with_generation(Generation::Of("webhooks")))),
    (ADMISSION, "validatingadmissionpolicies", &plain(LENIENT.with_generation(Generation::SPEC).with_status(StatusMeta::KeepAll))),
    (ADMISSION, "validatingadmissionpolicybindings", &plain(LENIENT.with_generation(Generation::SPEC))),
    (ADMISSION, "validatingwebhookconfigurations", &plain(LENIENT.with_generation(Generation::Of("webhooks")))),

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

    (FLOW, "flowschemas", &plain(SPEC.with_status(StatusMeta::KeepWhole))),
    (FLOW, "prioritylevelconfigurations", &plain(SPEC.with_status(StatusMeta::KeepWhole))),

    (NETWORKING, "ingressclasses", &plain(SPEC)),
    (NETWORKING, "ingresses", &ingress::KIND),
    (NETWORKING, "ipaddresses", &plain(PLAIN.with_name(NameRule::IpAddress))),
    (NETWORKING, "networkpolicies", &networkpolicy::KIND),
    (NETWORKING, "servicecidrs", &plain(PLAIN.with_status(StatusMeta::KeepAll))),

    ("node.k8s.io", "runtimeclasses", &plain(LENIENT)),
    ("policy", "poddisruptionbudgets", &poddisruptionbudget::KIND),

    (RBAC_GROUP, "clusterrolebindings", &rbac::CLUSTER_ROLE_BINDING),
    (RBAC_GROUP, "clusterroles", &rbac::CLUSTER_ROLE),
    (RBAC_GROUP, "rolebindings", &rbac::ROLE_BINDING),
    (RBAC_GROUP, "roles", &rbac::ROLE),

    (RESOURCE, "deviceclasses", &plain(SPEC.without_generate_name())),
    (RESOURCE, "resourceclaims", &plain(PLAIN.with_status(StatusMeta::KeepAll))),
    (RESOURCE, "resourceclaimtemplates", &plain(PLAIN)),
    (RESOURCE, "resourceslices", &resourceslice::KIND),

    ("scheduling.k8s.io", "priorityclasses", &priorityclass::KIND),

    // The first change of a driver's spec gives it generation 1.
    (STORAGE, "csidrivers", &plain(PLAIN.with_generation(Generation::SpecFromNothing))),
    (STORAGE, "csinodes", &plain(PLAIN)),
    (STORAGE, "csistoragecapacities", &plain(PLAIN)),
    (STORAGE, "storageclasses", &storageclass::KIND),
    (STORAGE, "volumeattachments", &plain(PLAIN.with_status(StatusMeta::KeepAll))),
    (STORAGE, "volumeattributesclasses", &plain(PLAIN)),
];

/// (group, plural) of every row, for tests that sweep them.
#[cfg(test)]
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().map(|(group, plural, _)| (*group, *plural))
}
