//! Fields of features that are off in v1.36: accepted, and dropped unless the stored object has them already.
//!
//! An object stored by a server with the feature on keeps its fields; new uses are dropped. A kind lists its features; what
//! needs more than a list (`dataSourceRef` of claims) is code in the kind's folder.

#[cfg(test)]
mod tests;

use object::Value;

use crate::kind::Kind;

/// Before a write is prepared: drops what is not served. `old` is `None` for a create.
pub fn drop_disabled(kind: &dyn Kind, new: &mut Value, old: Option<&Value>) {
    if let Some(path) = kind.pod_spec_path() {
        let old = old.and_then(|old| old.at(path));
        if let Some(spec) = at_mut(new, path) {
            OF_POD_SPECS.iter().for_each(|feature| feature.drop_fields(spec, old));
        }
    }
    for feature in kind.disabled_features() {
        feature.drop_fields(new, old);
    }
}

/// A feature gate that is off, and its fields.
#[derive(Debug)]
pub struct DisabledFeature {
    /// The name of upstream's feature gate.
    #[cfg_attr(not(test), allow(dead_code))]
    gate: &'static str,
    /// Any of them in the stored object keeps all of them. `[]` is every item of a list, `{}` every value of a map.
    fields: &'static [&'static str],
    /// A struct that becomes empty is dropped with the field.
    with_empty_parent: bool,
}

/// Those of every pod spec, in a pod or in a template.
static OF_POD_SPECS: &[DisabledFeature] = &[
    DisabledFeature::new(
        "ClusterTrustBundleProjection",
        &["volumes[].projected.sources[].clusterTrustBundle"],
    ),
    DisabledFeature::new("PodCertificateRequest", &["volumes[].projected.sources[].podCertificate"]),
    DisabledFeature::new("GenericWorkload", &["schedulingGroup"]),
    DisabledFeature {
        gate: "ContainerStopSignals",
        fields: &[
            "initContainers[].lifecycle.stopSignal",
            "containers[].lifecycle.stopSignal",
            "ephemeralContainers[].lifecycle.stopSignal",
        ],
        with_empty_parent: true,
    },
];

impl DisabledFeature {
    pub(crate) const fn new(gate: &'static str, fields: &'static [&'static str]) -> DisabledFeature {
        DisabledFeature { gate, fields, with_empty_parent: false }
    }

    fn drop_fields(&self, new: &mut Value, old: Option<&Value>) {
        let in_use = |field: &&str| old.is_some_and(|old| holds(old, field));
        if self.fields.iter().any(in_use) {
            return;
        }
        for field in self.fields {
            remove(new, field, self.with_empty_parent);
        }
    }
}

/// The first element of a field's path: the name, and whether the path continues in every item of that list or map.
fn split_first(path: &str) -> (&str, bool, Option<&str>) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let name = first.strip_suffix("[]").or_else(|| first.strip_suffix("{}"));
    (name.unwrap_or(first), name.is_some(), rest)
}

fn holds(value: &Value, path: &str) -> bool {
    let (name, each, rest) = split_first(path);
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
    let (name, each, rest) = split_first(path);
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
