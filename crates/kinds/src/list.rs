//! The list of kinds: one row each, data where data is enough.

use catalog::Storage;

use crate::kind::Kind;
use crate::rules::{Finalizers, Generation, NameRule, Rules, StatusMeta};
use crate::scale::{self, ScalePaths};
use crate::{
    apiservice, certificatesigningrequest, configmap, customresourcedefinition, daemonset, event,
    horizontalpodautoscaler, job, limitrange, namespace, persistentvolume, persistentvolumeclaim, pod,
    secret, serviceaccount,
};

/// The kind of what a storage keeps. Lives as long as the program: look it up once per storage, not per request.
pub fn kind_of(storage: &Storage) -> &'static dyn Kind {
    let row = KINDS.iter().find(|(group, plural, _)| storage.plural == *plural && storage.group == *group);
    row.map_or(&CUSTOM, |(_, _, kind)| *kind)
}

/// A kind that is data only.
struct Plain {
    rules: Rules,
    scale: Option<&'static ScalePaths>,
}

impl Kind for Plain {
    fn rules(&self) -> &Rules {
        &self.rules
    }
    fn scale(&self) -> Option<&'static ScalePaths> {
        self.scale
    }
}

const fn plain(rules: Rules) -> Plain {
    Plain { rules, scale: None }
}

/// What no row names: a kind that came later.
static CUSTOM: Plain = plain(SPEC.with_finalizers(Finalizers::Qualified));

const PLAIN: Rules = Rules::PLAIN;
const SPEC: Rules = PLAIN.with_generation(Generation::SPEC);
const STATUS: Rules = PLAIN.with_status(StatusMeta::Free);
const SPEC_AND_STATUS: Rules = SPEC.with_status(StatusMeta::Free);
/// Admission configuration and leases: any qualified finalizer will do.
const LENIENT: Rules = PLAIN.with_finalizers(Finalizers::Qualified);
const RBAC: Rules = PLAIN.with_name(NameRule::PathSegment);

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
    ("", "endpoints", &plain(PLAIN)),
    ("", "events", &event::KIND),
    ("", "limitranges", &limitrange::KIND),
    ("", "namespaces", &namespace::KIND),
    // A node may be born with a status: kubelets register that way.
    ("", "nodes", &plain(Rules { keep_status_on_update: true, ..PLAIN })),
    ("", "persistentvolumeclaims", &persistentvolumeclaim::KIND),
    ("", "persistentvolumes", &persistentvolume::KIND),
    ("", "pods", &pod::KIND),
    ("", "podtemplates", &plain(PLAIN.with_generation(Generation::Of("template")))),
    ("", "replicationcontrollers", &Plain { rules: SPEC_AND_STATUS.without_generate_name(), scale: Some(&scale::REPLICATION_CONTROLLER) }),
    ("", "resourcequotas", &plain(STATUS)),
    ("", "secrets", &secret::KIND),
    ("", "serviceaccounts", &serviceaccount::KIND),
    ("", "services", &plain(STATUS.with_name(NameRule::Label))),

    (ADMISSION, "mutatingadmissionpolicies", &plain(LENIENT.with_generation(Generation::SPEC))),
    (ADMISSION, "mutatingadmissionpolicybindings", &plain(LENIENT.with_generation(Generation::SPEC))),
    (ADMISSION, "mutatingwebhookconfigurations", &plain(LENIENT.with_generation(Generation::Of("webhooks")))),
    (ADMISSION, "validatingadmissionpolicies", &plain(LENIENT.with_generation(Generation::SPEC).with_status(StatusMeta::KeepAll))),
    (ADMISSION, "validatingadmissionpolicybindings", &plain(LENIENT.with_generation(Generation::SPEC))),
    (ADMISSION, "validatingwebhookconfigurations", &plain(LENIENT.with_generation(Generation::Of("webhooks")))),

    ("apiextensions.k8s.io", "customresourcedefinitions", &customresourcedefinition::KIND),
    ("apiregistration.k8s.io", "apiservices", &apiservice::KIND),

    ("apps", "controllerrevisions", &plain(PLAIN)),
    ("apps", "daemonsets", &daemonset::KIND),
    ("apps", "deployments", &Plain { rules: PLAIN.with_generation(Generation::SpecOrAnnotations).with_status(StatusMeta::KeepLabels), scale: Some(&scale::WORKLOAD) }),
    ("apps", "replicasets", &Plain { rules: SPEC_AND_STATUS, scale: Some(&scale::WORKLOAD) }),
    ("apps", "statefulsets", &Plain { rules: SPEC_AND_STATUS.with_name(NameRule::Label), scale: Some(&scale::WORKLOAD) }),

    ("autoscaling", "horizontalpodautoscalers", &horizontalpodautoscaler::KIND),
    ("batch", "cronjobs", &plain(SPEC_AND_STATUS)),
    ("batch", "jobs", &job::KIND),
    ("certificates.k8s.io", "certificatesigningrequests", &certificatesigningrequest::KIND),
    ("coordination.k8s.io", "leases", &plain(LENIENT)),
    ("discovery.k8s.io", "endpointslices", &plain(PLAIN.with_generation(Generation::Content))),

    (FLOW, "flowschemas", &plain(SPEC.with_status(StatusMeta::KeepWhole))),
    (FLOW, "prioritylevelconfigurations", &plain(SPEC.with_status(StatusMeta::KeepWhole))),

    (NETWORKING, "ingressclasses", &plain(SPEC)),
    (NETWORKING, "ingresses", &plain(SPEC_AND_STATUS)),
    (NETWORKING, "ipaddresses", &plain(PLAIN.with_name(NameRule::IpAddress))),
    (NETWORKING, "networkpolicies", &plain(SPEC)),
    (NETWORKING, "servicecidrs", &plain(PLAIN.with_status(StatusMeta::KeepAll))),

    ("node.k8s.io", "runtimeclasses", &plain(LENIENT)),
    ("policy", "poddisruptionbudgets", &plain(SPEC_AND_STATUS.without_metadata())),

    (RBAC_GROUP, "clusterrolebindings", &plain(RBAC)),
    (RBAC_GROUP, "clusterroles", &plain(RBAC)),
    (RBAC_GROUP, "rolebindings", &plain(RBAC)),
    (RBAC_GROUP, "roles", &plain(RBAC)),

    (RESOURCE, "deviceclasses", &plain(SPEC.without_generate_name())),
    (RESOURCE, "resourceclaims", &plain(PLAIN.with_status(StatusMeta::KeepAll))),
    (RESOURCE, "resourceclaimtemplates", &plain(PLAIN)),
    (RESOURCE, "resourceslices", &plain(SPEC)),

    ("scheduling.k8s.io", "priorityclasses", &plain(PLAIN.with_generation(Generation::Once))),

    // The first change of a driver's spec gives it generation 1.
    (STORAGE, "csidrivers", &plain(PLAIN.with_generation(Generation::SpecFromNothing))),
    (STORAGE, "csinodes", &plain(PLAIN)),
    (STORAGE, "csistoragecapacities", &plain(PLAIN)),
    (STORAGE, "storageclasses", &plain(PLAIN)),
    (STORAGE, "volumeattachments", &plain(PLAIN.with_status(StatusMeta::KeepAll))),
    (STORAGE, "volumeattributesclasses", &plain(PLAIN)),
];

/// (group, plural) of every row, for tests that sweep them.
#[cfg(test)]
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.iter().map(|(group, plural, _)| (*group, *plural))
}
