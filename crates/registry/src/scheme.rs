//! Which kinds upstream's servers can decode, served or not: the kind a body names decides the error it is refused with.
//!
//! A scheme is what one of the three servers in upstream's program has types for. Most old versions are no longer served, but a body
//! in one of them is still read and only then found to be the wrong one.

/// The types one of upstream's servers knows.
pub(crate) struct Scheme {
    /// Where upstream's source creates it: part of the error message.
    pub name: &'static str,
    rows: &'static [Row],
}

/// An apiVersion and its kinds; a star stands for the kind's list.
type Row = (&'static str, &'static str);

/// The scheme of the server that has this group.
pub(crate) fn of_group(group: &str) -> Scheme {
    match group {
        "apiextensions.k8s.io" => Scheme { name: "pkg/apiserver/apiserver.go:55", rows: EXTENSIONS },
        "apiregistration.k8s.io" => Scheme { name: "pkg/apiserver/scheme/scheme.go:28", rows: AGGREGATOR },
        _ => Scheme { name: "pkg/api/legacyscheme/scheme.go:30", rows: BUILT_IN },
    }
}

impl Scheme {
    pub fn knows(&self, api_version: &str, kind: &str) -> bool {
        if OF_NO_VERSION.contains(&kind) {
            return true;
        }
        let Some((_, kinds)) = self.rows.iter().find(|(version, _)| *version == api_version) else {
            return false;
        };
        let named = |word: &str| match word.strip_suffix('*') {
            Some(stem) => kind == stem || kind.strip_suffix("List") == Some(stem),
            None => kind == word,
        };
        OF_EVERY_VERSION.contains(&kind) || kinds.split(' ').any(named)
    }
}

/// Known under whatever version they are sent in.
const OF_NO_VERSION: [&str; 5] = ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
/// Known in each version there is.
const OF_EVERY_VERSION: [&str; 7] = [
    "WatchEvent",
    "ListOptions",
    "GetOptions",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
];

const EXTENSIONS: &[Row] = &[
    ("apiextensions.k8s.io/v1", "ConversionReview CustomResourceDefinition*"),
    ("apiextensions.k8s.io/v1beta1", "ConversionReview CustomResourceDefinition*"),
    ("v1", ""),
];

const AGGREGATOR: &[Row] = &[
    ("apiregistration.k8s.io/v1", "APIService*"),
    ("apiregistration.k8s.io/v1beta1", "APIService*"),
    ("v1", ""),
];

const BUILT_IN: &[Row] = &[
    ("admission.k8s.io/v1", "AdmissionReview"),
    ("admission.k8s.io/v1beta1", "AdmissionReview"),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding* MutatingWebhookConfiguration* \
         ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding* ValidatingWebhookConfiguration*",
    ),
    (
        "admissionregistration.k8s.io/v1alpha1",
        "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding* ValidatingAdmissionPolicy* \
         ValidatingAdmissionPolicyBinding*",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "MutatingAdmissionPolicy* MutatingAdmissionPolicyBinding* MutatingWebhookConfiguration* \
         ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding* ValidatingWebhookConfiguration*",
    ),
    ("apps/v1", "ControllerRevision* DaemonSet* Deployment* ReplicaSet* StatefulSet*"),
    ("apps/v1beta1", "ControllerRevision* Deployment* DeploymentRollback Scale StatefulSet*"),
    ("apps/v1beta2", "ControllerRevision* DaemonSet* Deployment* ReplicaSet* Scale StatefulSet*"),
    ("authentication.k8s.io/v1", "SelfSubjectReview TokenRequest TokenReview"),
    ("authentication.k8s.io/v1alpha1", "SelfSubjectReview"),
    ("authentication.k8s.io/v1beta1", "SelfSubjectReview TokenReview"),
    (
        "authorization.k8s.io/v1",
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    (
        "authorization.k8s.io/v1beta1",
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    ("autoscaling/v1", "HorizontalPodAutoscaler* Scale"),
    ("autoscaling/v2", "HorizontalPodAutoscaler*"),
    ("batch/v1", "CronJob* Job*"),
    ("batch/v1beta1", "CronJob*"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest*"),
    ("certificates.k8s.io/v1alpha1", "ClusterTrustBundle*"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest* ClusterTrustBundle* PodCertificateRequest*"),
    ("coordination.k8s.io/v1", "Lease*"),
    ("coordination.k8s.io/v1alpha2", "LeaseCandidate*"),
    ("coordination.k8s.io/v1beta1", "Lease* LeaseCandidate*"),
    ("discovery.k8s.io/v1", "EndpointSlice*"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice*"),
    ("events.k8s.io/v1", "Event*"),
    ("events.k8s.io/v1beta1", "Event*"),
    (
        "extensions/v1beta1",
        "DaemonSet* Deployment* DeploymentRollback Ingress* NetworkPolicy* ReplicaSet* Scale",
    ),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema* PriorityLevelConfiguration*"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema* PriorityLevelConfiguration*"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema* PriorityLevelConfiguration*"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema* PriorityLevelConfiguration*"),
    ("imagepolicy.k8s.io/v1alpha1", "ImageReview"),
    ("internal.apiserver.k8s.io/v1alpha1", "StorageVersion*"),
    ("metrics.k8s.io/v1beta1", "NodeMetrics* PodMetrics*"),
    ("networking.k8s.io/v1", "IPAddress* Ingress* IngressClass* NetworkPolicy* ServiceCIDR*"),
    ("networking.k8s.io/v1beta1", "IPAddress* Ingress* IngressClass* ServiceCIDR*"),
    ("node.k8s.io/v1", "RuntimeClass*"),
    ("node.k8s.io/v1alpha1", "RuntimeClass*"),
    ("node.k8s.io/v1beta1", "RuntimeClass*"),
    ("policy/v1", "Eviction PodDisruptionBudget*"),
    ("policy/v1beta1", "Eviction PodDisruptionBudget*"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole* ClusterRoleBinding* Role* RoleBinding*"),
    ("rbac.authorization.k8s.io/v1alpha1", "ClusterRole* ClusterRoleBinding* Role* RoleBinding*"),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRole* ClusterRoleBinding* Role* RoleBinding*"),
    ("resource.k8s.io/v1", "DeviceClass* ResourceClaim* ResourceClaimTemplate* ResourceSlice*"),
    ("resource.k8s.io/v1alpha3", "DeviceTaintRule* ResourcePoolStatusRequest*"),
    ("resource.k8s.io/v1beta1", "DeviceClass* ResourceClaim* ResourceClaimTemplate* ResourceSlice*"),
    (
        "resource.k8s.io/v1beta2",
        "DeviceClass* DeviceTaintRule* ResourceClaim* ResourceClaimTemplate* ResourceSlice*",
    ),
    ("scheduling.k8s.io/v1", "PriorityClass*"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup* Workload*"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass*"),
    (
        "storage.k8s.io/v1",
        "CSIDriver* CSINode* CSIStorageCapacity* StorageClass* VolumeAttachment* VolumeAttributesClass*",
    ),
    ("storage.k8s.io/v1alpha1", "CSIStorageCapacity* VolumeAttachment* VolumeAttributesClass*"),
    (
        "storage.k8s.io/v1beta1",
        "CSIDriver* CSINode* CSIStorageCapacity* StorageClass* VolumeAttachment* VolumeAttributesClass*",
    ),
    ("storagemigration.k8s.io/v1beta1", "StorageVersionMigration*"),
    (
        "v1",
        "Binding ComponentStatus* ConfigMap* Endpoints* Event* LimitRange* List Namespace* Node* \
         NodeProxyOptions PersistentVolume* PersistentVolumeClaim* Pod* PodAttachOptions PodExecOptions \
         PodLogOptions PodPortForwardOptions PodProxyOptions PodStatusResult PodTemplate* \
         RangeAllocation ReplicationController* ResourceQuota* Secret* SerializedReference Service* \
         ServiceAccount* ServiceProxyOptions",
    ),
];

#[cfg(test)]
mod tests {
    use catalog::Catalog;

    use super::of_group;

    #[test]
    fn every_kind_that_is_served_is_known_to_its_own_scheme() {
        for resource in Catalog::builtin().resources() {
            let scheme = of_group(&resource.group);
            assert!(scheme.knows(&resource.api_version(), &resource.kind), "{}", resource.qualified());
            let lists = resource.list_kind.is_empty()
                || !resource.verbs.contains(catalog::Verbs::LIST)
                || scheme.knows(&resource.api_version(), &resource.list_kind);
            assert!(lists, "the list of {}", resource.qualified());
        }
    }

    #[test]
    fn schemes_know_versions_that_are_not_served_and_nothing_of_each_other() {
        let (built_in, extensions) = (of_group("apps"), of_group("apiextensions.k8s.io"));
        for (version, kind, known) in [
            ("authentication.k8s.io/v1beta1", "TokenReview", true),
            ("authentication.k8s.io/v1beta1", "TokenReviewList", false),
            ("authentication.k8s.io/v1beta1", "TokenRequest", false),
            ("apps/v1beta1", "StatefulSetList", true),
            ("v9", "Status", true),
            ("batch/v1", "DeleteOptions", true),
            ("batch/v9", "DeleteOptions", false),
            ("v1", "", false),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", false),
        ] {
            assert_eq!(built_in.knows(version, kind), known, "{version} {kind}");
        }
        assert!(extensions.knows("apiextensions.k8s.io/v1beta1", "CustomResourceDefinitionList"));
        assert!(extensions.knows("v1", "DeleteOptions") && !extensions.knows("v1", "ConfigMap"));
    }
}
