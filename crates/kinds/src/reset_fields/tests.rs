//! Every built-in resource and subresource against what kube-apiserver v1.36.4's strategies reset.

use std::collections::BTreeSet;

use catalog::{Catalog, Verbs};

use crate::kind_of;

/// What writes to a resource and its subresources reset; of others it is nothing. The version `v1` unless another is named.
const UPSTREAM: &str = "
admissionregistration.k8s.io validatingadmissionpolicies: status
admissionregistration.k8s.io validatingadmissionpolicies/status: metadata spec
apiextensions.k8s.io customresourcedefinitions: status
apiextensions.k8s.io customresourcedefinitions/status: spec
apiregistration.k8s.io apiservices: status
apiregistration.k8s.io apiservices/status: metadata spec
apps daemonsets: status
apps daemonsets/status: spec
apps deployments: status
apps deployments/status: metadata.labels spec
apps replicasets: status
apps replicasets/status: spec
apps statefulsets: status
apps statefulsets/status: spec
autoscaling horizontalpodautoscalers: status
autoscaling horizontalpodautoscalers/status: spec
autoscaling/v2 horizontalpodautoscalers: status
autoscaling/v2 horizontalpodautoscalers/status: spec
batch cronjobs: status
batch cronjobs/status: spec
batch jobs: status
batch jobs/status: spec
certificates.k8s.io certificatesigningrequests: spec status
certificates.k8s.io certificatesigningrequests/approval: spec status.certificate
certificates.k8s.io certificatesigningrequests/status: spec status.conditions
core namespaces: status
core namespaces/finalize: status
core namespaces/status: spec
core nodes: status
core nodes/status: spec
core persistentvolumeclaims: status
core persistentvolumeclaims/status: spec
core persistentvolumes: status
core persistentvolumes/status: spec
core pods: status
core pods/status: metadata.deletionTimestamp metadata.ownerReferences spec
core replicationcontrollers: status
core replicationcontrollers/status: spec
core resourcequotas: status
core resourcequotas/status: spec
core services: status
core services/status: spec
flowcontrol.apiserver.k8s.io flowschemas: status
flowcontrol.apiserver.k8s.io flowschemas/status: metadata spec
flowcontrol.apiserver.k8s.io prioritylevelconfigurations: status
flowcontrol.apiserver.k8s.io prioritylevelconfigurations/status: metadata spec
networking.k8s.io ingresses: status
networking.k8s.io ingresses/status: spec
networking.k8s.io servicecidrs: status
networking.k8s.io servicecidrs/status: metadata spec
policy poddisruptionbudgets: status
policy poddisruptionbudgets/status: spec
resource.k8s.io resourceclaims: status
resource.k8s.io resourceclaims/status: metadata spec
storage.k8s.io volumeattachments: status
storage.k8s.io volumeattachments/status: metadata spec
";

#[test]
fn writes_reset_what_upstreams_strategies_reset() {
    let catalog = Catalog::builtin();
    let mut ours = BTreeSet::new();
    for storage in catalog.storages() {
        for resource in catalog.served_by(storage) {
            let writable = |verbs: Verbs| verbs.contains(Verbs::UPDATE) || verbs.contains(Verbs::PATCH);
            // A scale is not an object of the kind: what is written to it has fields of its own.
            let subresources =
                resource.subresources.iter().filter(|s| writable(s.verbs) && s.name != *"scale");
            let subresources = subresources.map(|s| Some(s.name.as_str()));
            for subresource in std::iter::once(None).chain(subresources) {
                let fields = kind_of(storage).reset_fields(&resource.version, subresource);
                if fields.is_empty() {
                    continue;
                }
                let mut paths: Vec<String> = fields.iter().map(|path| path.join(".")).collect();
                paths.sort();
                let group = if resource.group.is_empty() { "core" } else { &resource.group };
                let version = if resource.version == *"v1" { "" } else { &format!("/{}", resource.version) };
                let of = subresource.map(|name| format!("/{name}")).unwrap_or_default();
                ours.insert(format!("{group}{version} {}{of}: {}", resource.plural, paths.join(" ")));
            }
        }
    }
    let upstream: BTreeSet<String> =
        UPSTREAM.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!(
        (only(&ours, &upstream), only(&upstream, &ours)),
        (vec![], vec![]),
        "ours only, upstream's only"
    );
}
