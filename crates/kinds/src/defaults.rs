//! What an object gets that its writer left out: one row a kind, in the version the writer speaks.
//!
//! ```text
//! body ─ normalise ─ apply ─ to_storage ─ admission ─ prepare ─ normalise ─ validate ─ encode
//! ```
//! Missing members are added at the end of their map, so what comes out is canonical but for their order; the
//! pass that follows every preparation puts them in their place. Applying twice is applying once. Nothing is
//! looked up, drawn or dated here: addresses and ports are allotted elsewhere, tokens and tolerations are
//! admission's. Fields behind a feature gate are here when the gate is on by default in v1.36. What upstream
//! does on the way through its internal types to the same version (`serviceAccount` beside
//! `serviceAccountName`, `podIP` beside `podIPs`) is here too: there are no internal types.
//!
//! A kind's defaults lie in its folder; this file alone names them, so that a kind that is otherwise data
//! needs no module of its own.

mod amounts;
mod fill;

#[path = "admissionpolicy/defaults.rs"]
mod admissionpolicy;
#[path = "apiservice/defaults.rs"]
mod apiservice;
#[path = "pod/defaults/container.rs"]
mod container;
#[path = "cronjob/defaults.rs"]
mod cronjob;
#[path = "csidriver/defaults.rs"]
mod csidriver;
#[path = "customresourcedefinition/defaults.rs"]
mod customresourcedefinition;
#[path = "daemonset/defaults.rs"]
mod daemonset;
#[path = "deployment/defaults.rs"]
mod deployment;
#[path = "endpoints/defaults.rs"]
mod endpoints;
#[path = "endpointslice/defaults.rs"]
mod endpointslice;
#[path = "flowschema/defaults.rs"]
mod flowschema;
#[path = "horizontalpodautoscaler/defaults.rs"]
mod horizontalpodautoscaler;
#[path = "pod/defaults/image.rs"]
mod image;
#[path = "ingressclass/defaults.rs"]
mod ingressclass;
#[path = "job/defaults.rs"]
mod job;
#[path = "limitrange/defaults.rs"]
mod limitrange;
#[path = "namespace/defaults.rs"]
mod namespace;
#[path = "networkpolicy/defaults.rs"]
mod networkpolicy;
#[path = "node/defaults.rs"]
mod node;
#[path = "persistentvolume/defaults.rs"]
mod persistentvolume;
#[path = "persistentvolumeclaim/defaults.rs"]
mod persistentvolumeclaim;
#[path = "pod/defaults.rs"]
mod pod;
#[path = "pod/defaults/resources.rs"]
mod pod_resources;
#[path = "pod/defaults/spec.rs"]
mod pod_spec;
#[path = "podtemplate/defaults.rs"]
mod podtemplate;
#[path = "priorityclass/defaults.rs"]
mod priorityclass;
#[path = "prioritylevelconfiguration/defaults.rs"]
mod prioritylevelconfiguration;
#[path = "replicaset/defaults.rs"]
mod replicaset;
#[path = "replicationcontroller/defaults.rs"]
mod replicationcontroller;
#[path = "resourceclaim/defaults.rs"]
mod resourceclaim;
#[path = "resourcequota/defaults.rs"]
mod resourcequota;
#[path = "resourceslice/defaults.rs"]
mod resourceslice;
#[path = "rolebinding/defaults.rs"]
mod rolebinding;
#[path = "secret/defaults.rs"]
mod secret;
#[path = "service/defaults.rs"]
mod service;
#[path = "statefulset/defaults.rs"]
mod statefulset;
#[path = "storageclass/defaults.rs"]
mod storageclass;
#[path = "tokenrequest/defaults.rs"]
mod tokenrequest;
#[path = "pod/defaults/volume.rs"]
mod volume;
#[path = "volumeattachment/defaults.rs"]
mod volumeattachment;
#[path = "webhookconfiguration/defaults.rs"]
mod webhookconfiguration;

#[cfg(test)]
mod tests;

use catalog::Resource;
use object::{Map, Value};

pub(crate) use replicationcontroller::take_template_labels;

/// Fills in what is missing from an object of this resource's kind and version. The tree is normalised.
pub fn apply(resource: &Resource, value: &mut Value) {
    apply_kind(&resource.group, &resource.version, &resource.kind, value);
}

/// As [`apply`], for a kind that is the body of a subresource (`TokenRequest`).
pub fn apply_kind(group: &str, version: &str, kind: &str, value: &mut Value) {
    if let Some(Some(apply)) = row(group, version, kind)
        && let Value::Map(object) = value
    {
        apply(object);
    }
}

/// Whether objects of this resource can get anything at all.
pub fn has_defaults(resource: &Resource) -> bool {
    matches!(row(&resource.group, &resource.version, &resource.kind), Some(Some(_)))
}

fn row(group: &str, version: &str, kind: &str) -> Option<Option<Apply>> {
    // Kinds differ most, in length too: nearly all rows are passed over by comparing two numbers.
    let named = |row: &&Row| row.2 == kind && row.0 == group && row.1 == version;
    ROWS.iter().find(named).map(|row| row.3)
}

type Apply = fn(&mut Map);
/// Group, version, kind; `None` where upstream has no defaults.
type Row = (&'static str, &'static str, &'static str, Option<Apply>);

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

#[rustfmt::skip]
static ROWS: &[Row] = &[
    // The kinds that are written all the time stand first.
    ("", "v1", "Pod", Some(pod::apply)),
    ("", "v1", "Event", None),
    ("events.k8s.io", "v1", "Event", None),
    ("coordination.k8s.io", "v1", "Lease", None),
    ("", "v1", "Node", Some(node::apply)),

    ("", "v1", "Binding", None),
    ("", "v1", "ComponentStatus", None),
    // Upstream makes the absent data an empty map, which is not written.
    ("", "v1", "ConfigMap", None),
    ("", "v1", "Endpoints", Some(endpoints::apply)),
    ("", "v1", "LimitRange", Some(limitrange::apply)),
    ("", "v1", "Namespace", Some(namespace::apply)),
    ("", "v1", "PersistentVolume", Some(persistentvolume::apply)),
    ("", "v1", "PersistentVolumeClaim", Some(persistentvolumeclaim::apply)),
    ("", "v1", "PodTemplate", Some(podtemplate::apply)),
    ("", "v1", "ReplicationController", Some(replicationcontroller::apply)),
    ("", "v1", "ResourceQuota", Some(resourcequota::apply)),
    ("", "v1", "Secret", Some(secret::apply)),
    ("", "v1", "Service", Some(service::apply)),
    ("", "v1", "ServiceAccount", None),

    (ADMISSION, "v1", "MutatingAdmissionPolicy", Some(admissionpolicy::apply_policy)),
    (ADMISSION, "v1", "MutatingAdmissionPolicyBinding", Some(admissionpolicy::apply_binding)),
    (ADMISSION, "v1", "MutatingWebhookConfiguration", Some(webhookconfiguration::apply_mutating)),
    (ADMISSION, "v1", "ValidatingAdmissionPolicy", Some(admissionpolicy::apply_policy)),
    (ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", Some(admissionpolicy::apply_binding)),
    (ADMISSION, "v1", "ValidatingWebhookConfiguration", Some(webhookconfiguration::apply_validating)),

    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", Some(customresourcedefinition::apply)),
    ("apiregistration.k8s.io", "v1", "APIService", Some(apiservice::apply)),

    ("apps", "v1", "ControllerRevision", None),
    ("apps", "v1", "DaemonSet", Some(daemonset::apply)),
    ("apps", "v1", "Deployment", Some(deployment::apply)),
    ("apps", "v1", "ReplicaSet", Some(replicaset::apply)),
    ("apps", "v1", "StatefulSet", Some(statefulset::apply)),

    (AUTHENTICATION, "v1", "SelfSubjectReview", None),
    (AUTHENTICATION, "v1", "TokenRequest", Some(tokenrequest::apply)),
    (AUTHENTICATION, "v1", "TokenReview", None),
    (AUTHORIZATION, "v1", "LocalSubjectAccessReview", None),
    (AUTHORIZATION, "v1", "SelfSubjectAccessReview", None),
    (AUTHORIZATION, "v1", "SelfSubjectRulesReview", None),
    (AUTHORIZATION, "v1", "SubjectAccessReview", None),

    ("autoscaling", "v1", "HorizontalPodAutoscaler", Some(horizontalpodautoscaler::apply_v1)),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", Some(horizontalpodautoscaler::apply_v2)),
    ("autoscaling", "v1", "Scale", None),
    ("batch", "v1", "CronJob", Some(cronjob::apply)),
    ("batch", "v1", "Job", Some(job::apply)),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest", None),
    ("discovery.k8s.io", "v1", "EndpointSlice", Some(endpointslice::apply)),

    (FLOW, "v1", "FlowSchema", Some(flowschema::apply)),
    (FLOW, "v1", "PriorityLevelConfiguration", Some(prioritylevelconfiguration::apply)),

    (NETWORKING, "v1", "IPAddress", None),
    (NETWORKING, "v1", "Ingress", None),
    (NETWORKING, "v1", "IngressClass", Some(ingressclass::apply)),
    (NETWORKING, "v1", "NetworkPolicy", Some(networkpolicy::apply)),
    (NETWORKING, "v1", "ServiceCIDR", None),

    ("node.k8s.io", "v1", "RuntimeClass", None),
    ("policy", "v1", "Eviction", None),
    ("policy", "v1", "PodDisruptionBudget", None),

    (RBAC, "v1", "ClusterRole", None),
    (RBAC, "v1", "ClusterRoleBinding", Some(rolebinding::apply)),
    (RBAC, "v1", "Role", None),
    (RBAC, "v1", "RoleBinding", Some(rolebinding::apply)),

    (RESOURCE, "v1", "DeviceClass", None),
    (RESOURCE, "v1", "ResourceClaim", Some(resourceclaim::apply)),
    (RESOURCE, "v1", "ResourceClaimTemplate", Some(resourceclaim::apply_template)),
    (RESOURCE, "v1", "ResourceSlice", Some(resourceslice::apply)),

    ("scheduling.k8s.io", "v1", "PriorityClass", Some(priorityclass::apply)),

    (STORAGE, "v1", "CSIDriver", Some(csidriver::apply)),
    (STORAGE, "v1", "CSINode", None),
    (STORAGE, "v1", "CSIStorageCapacity", None),
    (STORAGE, "v1", "StorageClass", Some(storageclass::apply)),
    (STORAGE, "v1", "VolumeAttachment", Some(volumeattachment::apply)),
    (STORAGE, "v1", "VolumeAttributesClass", None),
];
