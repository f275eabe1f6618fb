//! Which APIServices this server registers for itself, and where their groups stand among the others.

use catalog::Catalog;
use object::{Map, Value};

use crate::resource_metrics;

/// Says that an APIService is this server's own: `onstart` or `true`.
pub(crate) const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Whose group comes first in discovery, whatever others claim: the one that registers them.
pub(crate) const REGISTRATION: &str = "apiregistration.k8s.io";

/// Group priority, version priority: the higher, the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    pub group: i64,
    pub version: i64,
}

/// Custom resources come after what is built in; their versions are sorted by name.
pub(crate) const CUSTOM: Priority = Priority { group: 1000, version: 100 };
/// As metrics-server registers itself.
const METRICS: Priority = Priority { group: 100, version: 100 };

/// kube-apiserver's table, of the group versions that are served here.
const BUILT_IN: [(&str, &str, i64, i64); 21] = [
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("autoscaling", "v1", 17_500, 15),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
];

pub(crate) fn built_in(group: &str, version: &str) -> Option<Priority> {
    let found = BUILT_IN.iter().find(|(g, v, ..)| *g == group && *v == version);
    let metrics = (group == resource_metrics::GROUP).then_some(METRICS);
    found.map(|(.., group, version)| Priority { group: *group, version: *version }).or(metrics)
}

/// An APIService that should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub group: String,
    pub version: String,
    pub priority: Priority,
    pub managed: Managed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Managed {
    /// Written when the server starts; who changes or deletes it then is left alone.
    OnStart,
    Always,
    /// The same, unless somebody gave it a Service: then it is theirs, until they delete it.
    UntilReplaced,
}

impl Wanted {
    pub fn custom(group: &str, version: &str) -> Wanted {
        let (group, version) = (group.to_owned(), version.to_owned());
        Wanted { group, version, priority: CUSTOM, managed: Managed::Always }
    }

    pub fn name(&self) -> String {
        name(&self.group, &self.version)
    }

    pub fn object(&self) -> Value {
        let label = if self.managed == Managed::OnStart { "onstart" } else { "true" };
        let mut object = Value::map();
        let top = object.make_map();
        top.set("apiVersion", "apiregistration.k8s.io/v1");
        top.set("kind", "APIService");
        object.map_at(&["metadata"]).set("name", self.name());
        object.map_at(&["metadata", "labels"]).set(AUTOMANAGED, label);
        object.make_map().set("spec", self.spec());
        object
    }

    pub fn spec(&self) -> Map {
        let mut spec = Map::default();
        if !self.group.is_empty() {
            spec.set("group", self.group.clone());
        }
        spec.set("version", self.version.clone());
        spec.set("groupPriorityMinimum", self.priority.group);
        spec.set("versionPriority", self.priority.version);
        spec
    }

    /// Whether the object needs another spec than it has.
    pub fn differs(&self, current: &Value) -> bool {
        let wanted = self.spec();
        let Some(spec) = current.get("spec").and_then(Value::as_map) else { return true };
        if self.managed == Managed::UntilReplaced && spec.get("service").is_some_and(|s| !s.is_null()) {
            return false;
        }
        spec.len() != wanted.len() || wanted.iter().any(|(name, value)| spec.get(name) != Some(value))
    }
}

/// `v1.apps`; of the core group `v1.`.
pub(crate) fn name(group: &str, version: &str) -> String {
    format!("{version}.{group}")
}

/// `onstart`, `true`, or what else the label says; empty: it is nobody's but its author's.
pub(crate) fn automanaged(api_service: &Value) -> &str {
    api_service.str_at(&["metadata", "labels", AUTOMANAGED]).unwrap_or("")
}

/// Of every built-in group version.
pub(crate) fn wanted_built_in(catalog: &Catalog) -> Vec<Wanted> {
    let custom = |group: &str, version: &str| {
        catalog.resources_of(group, version).next().is_none_or(|resource| resource.custom)
    };
    let mut all = Vec::new();
    for group in catalog.groups() {
        for version in &group.versions {
            let Some(priority) = built_in(&group.name, version) else { continue };
            if custom(&group.name, version) {
                continue;
            }
            let managed = match group.name == *resource_metrics::GROUP {
                true => Managed::UntilReplaced,
                false => Managed::OnStart,
            };
            let (group, version) = (group.name.to_string(), version.to_string());
            all.push(Wanted { group, version, priority, managed });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_group_version_but_the_registry_of_them_has_a_priority() {
        let catalog = Catalog::builtin();
        for group in catalog.groups() {
            for version in &group.versions {
                let known = built_in(&group.name, version).is_some();
                assert_eq!(known, group.name != *REGISTRATION, "{}/{version}", group.name);
            }
        }
    }

    #[test]
    fn every_row_is_of_a_group_version_that_is_served() {
        let catalog = Catalog::builtin();
        for (group, version, ..) in BUILT_IN {
            assert!(catalog.resources_of(group, version).next().is_some(), "{group}/{version}");
        }
    }

    #[test]
    fn priorities_order_groups_as_the_catalogue_does() {
        let catalog = Catalog::builtin();
        let wanted = wanted_built_in(&catalog);
        let mut sorted = wanted.clone();
        let order = |w: &Wanted| (-w.priority.group, w.group.clone(), -w.priority.version);
        sorted.sort_by_key(order);
        let names = |all: &[Wanted]| all.iter().map(Wanted::name).collect::<Vec<_>>();
        assert_eq!(names(&wanted), names(&sorted));
    }

    #[test]
    fn an_api_service_of_ours_is_left_to_a_service() {
        let wanted =
            Wanted { managed: Managed::UntilReplaced, ..Wanted::custom("metrics.k8s.io", "v1beta1") };
        let mut object = wanted.object();
        assert!(!wanted.differs(&object));
        object.map_at(&["spec"]).set("versionPriority", 7);
        assert!(wanted.differs(&object));
        object.map_at(&["spec", "service"]).set("name", "theirs");
        assert!(!wanted.differs(&object));
        assert!(Wanted { managed: Managed::Always, ..wanted }.differs(&object));
    }
}
