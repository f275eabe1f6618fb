//! Fields of features that are off in v1.36: accepted, and dropped unless the stored object has them already.
//!
//! An object that was stored by a server with the feature on keeps what it has; nobody can begin to use it here. One row a feature
//! and place; what needs more than a row (`dataSourceRef` of claims) stands in the kind's folder.

#[cfg(test)]
mod tests;

use catalog::Storage;
use object::Value;

/// Before a write is prepared: takes away what is not served. `old` is `None` for a create.
pub fn drop_disabled(storage: &Storage, new: &mut Value, old: Option<&Value>) {
    for (_, _, place) in PODS.iter().filter(|(group, plural, _)| is(storage, group, plural)) {
        let old = old.and_then(|old| old.at(place));
        if let Some(spec) = at_mut(new, place) {
            OF_POD_SPECS.iter().for_each(|row| row.apply(spec, old));
        }
    }
    for (_, _, row) in ROWS.iter().filter(|(group, plural, _)| is(storage, group, plural)) {
        row.apply(new, old);
    }
}

fn is(storage: &Storage, group: &str, plural: &str) -> bool {
    storage.plural == *plural && storage.group == *group
}

/// A feature and the fields it brought to one place.
struct Row {
    /// For people: the name of upstream's gate.
    #[cfg_attr(not(test), allow(dead_code))]
    gate: &'static str,
    /// Any of them in the stored object keeps all of them. `[]` is every item of a list, `{}` every value of a map.
    fields: &'static [&'static str],
    /// A struct that holds nothing else goes with the field.
    with_empty_parent: bool,
}

const fn row(gate: &'static str, fields: &'static [&'static str]) -> Row {
    Row { gate, fields, with_empty_parent: false }
}

/// Where kinds hold a pod's spec.
static PODS: &[(&str, &str, &[&str])] = &[
    ("", "pods", &["spec"]),
    ("", "podtemplates", &["template", "spec"]),
    ("", "replicationcontrollers", &["spec", "template", "spec"]),
    ("apps", "daemonsets", &["spec", "template", "spec"]),
    ("apps", "deployments", &["spec", "template", "spec"]),
    ("apps", "replicasets", &["spec", "template", "spec"]),
    ("apps", "statefulsets", &["spec", "template", "spec"]),
    ("batch", "jobs", &["spec", "template", "spec"]),
    ("batch", "cronjobs", &["spec", "jobTemplate", "spec", "template", "spec"]),
];

static OF_POD_SPECS: &[Row] = &[
    row("ClusterTrustBundleProjection", &["volumes[].projected.sources[].clusterTrustBundle"]),
    row("PodCertificateRequest", &["volumes[].projected.sources[].podCertificate"]),
    row("GenericWorkload", &["schedulingGroup"]),
    Row {
        gate: "ContainerStopSignals",
        fields: &[
            "initContainers[].lifecycle.stopSignal",
            "containers[].lifecycle.stopSignal",
            "ephemeralContainers[].lifecycle.stopSignal",
        ],
        with_empty_parent: true,
    },
];

static ROWS: &[(&str, &str, Row)] = &[
    (
        "",
        "pods",
        row(
            "ImageVolumeWithDigest",
            &[
                "status.containerStatuses[].volumeMounts[].volumeStatus",
                "status.initContainerStatuses[].volumeMounts[].volumeStatus",
                "status.ephemeralContainerStatuses[].volumeMounts[].volumeStatus",
            ],
        ),
    ),
    ("", "pods", row("DRANodeAllocatableResources", &["status.nodeAllocatableResourceClaimStatuses"])),
    (
        "apps",
        "statefulsets",
        row("MaxUnavailableStatefulSet", &["spec.updateStrategy.rollingUpdate.maxUnavailable"]),
    ),
    ("", "nodes", row("DynamicKubeletConfig", &["spec.configSource"])),
    ("", "nodes", row("DynamicKubeletConfig", &["status.config"])),
    ("coordination.k8s.io", "leases", row("CoordinatedLeaderElection", &["spec.strategy"])),
    ("coordination.k8s.io", "leases", row("CoordinatedLeaderElection", &["spec.preferredHolder"])),
    (
        "resource.k8s.io",
        "resourceslices",
        row("DRANodeAllocatableResources", &["spec.devices[].nodeAllocatableResourceMappings"]),
    ),
    (
        "resource.k8s.io",
        "resourceslices",
        row(
            "DRAListTypeAttributes",
            &[
                "spec.devices[].attributes{}.bools",
                "spec.devices[].attributes{}.ints",
                "spec.devices[].attributes{}.strings",
                "spec.devices[].attributes{}.versions",
            ],
        ),
    ),
    ("storage.k8s.io", "csidrivers", row("VolumeLimitScaling", &["spec.preventPodSchedulingIfMissing"])),
];

impl Row {
    fn apply(&self, new: &mut Value, old: Option<&Value>) {
        let in_use = |field: &&str| old.is_some_and(|old| holds(old, field));
        if self.fields.iter().any(in_use) {
            return;
        }
        for field in self.fields {
            remove(new, field, self.with_empty_parent);
        }
    }
}

/// One step of a field's path: the name, and whether it goes on in every item of what stands there.
fn step(path: &str) -> (&str, bool, Option<&str>) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let name = first.strip_suffix("[]").or_else(|| first.strip_suffix("{}"));
    (name.unwrap_or(first), name.is_some(), rest)
}

fn holds(value: &Value, path: &str) -> bool {
    let (name, each, rest) = step(path);
    let Some(here) = value.get(name).filter(|v| !v.is_null()) else { return false };
    let Some(rest) = rest else {
        return here.as_list().is_none_or(|l| !l.is_empty()) && here.as_map().is_none_or(|m| !m.is_empty());
    };
    match here {
        Value::List(list) if each => list.iter().any(|item| holds(item, rest)),
        Value::Map(map) if each => map.iter().any(|(_, item)| holds(item, rest)),
        here => holds(here, rest),
    }
}

fn remove(value: &mut Value, path: &str, with_empty_parent: bool) {
    let (name, each, rest) = step(path);
    let Some(map) = value.as_map_mut() else { return };
    let Some(rest) = rest else {
        map.remove(name);
        return;
    };
    let Some(here) = map.get_mut(name) else { return };
    match here {
        Value::List(list) if each => list.iter_mut().for_each(|item| remove(item, rest, with_empty_parent)),
        Value::Map(map) if each => map.iter_mut().for_each(|(_, item)| remove(item, rest, with_empty_parent)),
        here => {
            let had = here.get(rest).is_some();
            remove(here, rest, with_empty_parent);
            let emptied = had && here.as_map().is_some_and(|m| m.is_empty());
            if with_empty_parent && emptied {
                map.remove(name);
            }
        }
    }
}

fn at_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |here, name| here.as_map_mut()?.get_mut(name))
}
