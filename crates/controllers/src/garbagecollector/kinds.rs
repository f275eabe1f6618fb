//! The kinds whose objects own and are owned: everything that is stored and can be listed, watched and deleted.

use catalog::{Catalog, Verbs};
use client::{Aggregated, Gvr};

/// A kind the collector watches, in one of its served versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedKind {
    pub resource: Gvr,
    pub api_version: String,
    pub kind: String,
    /// Another server has its objects: they are watched as metadata, and may be out of reach.
    pub aggregated: bool,
}

/// Index into the kinds a graph was ever told of.
pub type KindId = u16;

/// Without these nothing can be collected.
fn needed() -> Verbs {
    Verbs::LIST | Verbs::WATCH | Verbs::DELETE
}

/// What is served now and has to be watched, each resource once. `synced` are those that are watched and have a state: where the server of
/// one cannot be asked what it serves, it is watched on.
pub fn watched(
    catalog: &Catalog,
    aggregated: &Aggregated,
    synced: impl IntoIterator<Item = WatchedKind>,
) -> Vec<WatchedKind> {
    let is_remote = |resource: &Gvr| {
        let of_version = |other: &Gvr| (&other.group, &other.version) == (&resource.group, &resource.version);
        aggregated.resources.iter().any(|other| of_version(&other.resource)) || aggregated.is_stale(resource)
    };
    // Events own nothing, are owned by nothing, and there are many.
    let storages = catalog.storages().iter().filter(|storage| !storage.no_gc);
    let kinds = storages.filter_map(|storage| {
        let mut served = catalog.served_by(storage).filter(|r| r.verbs.contains(needed()));
        let resource = served.find(|resource| !is_remote(&Gvr::from(&***resource)))?;
        Some(WatchedKind {
            resource: Gvr::from(&**resource),
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
            aggregated: false,
        })
    });
    let mut kinds: Vec<WatchedKind> = kinds.collect();
    let unreachable = synced.into_iter().filter(|kind| aggregated.is_stale(&kind.resource));
    let current = aggregated.resources.iter().filter(|found| found.verbs.contains(needed()));
    let current = current.filter(|found| !found.kind.is_empty()).map(|found| WatchedKind {
        resource: found.resource.clone(),
        api_version: found.api_version(),
        kind: found.kind.to_string(),
        aggregated: true,
    });
    for kind in unreachable.chain(current) {
        let same = |other: &WatchedKind| {
            (&other.resource.group, &other.resource.plural) == (&kind.resource.group, &kind.resource.plural)
        };
        if !kinds.iter().any(same) {
            kinds.push(kind);
        }
    }
    kinds
}

/// Where objects of a kind are found, as an owner reference names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub resource: Gvr,
    pub namespaced: bool,
    pub aggregated: bool,
}

/// `None`: nothing of that kind is served in that version, or its server cannot be asked.
pub fn mapping(
    catalog: &Catalog,
    aggregated: impl FnOnce() -> Aggregated,
    api_version: &str,
    kind: &str,
) -> Option<Mapping> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some(resource) = catalog.find_kind(group, version, kind) {
        let (resource, namespaced) = (Gvr::from(&**resource), resource.namespaced);
        return Some(Mapping { resource, namespaced, aggregated: false });
    }
    let found = aggregated().resources.into_iter().find(|found| {
        found.resource.group == *group && found.resource.version == *version && found.kind == *kind
    })?;
    Some(Mapping { resource: found.resource, namespaced: found.namespaced, aggregated: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::AggregatedResource;

    fn found(
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
        verbs: Verbs,
    ) -> AggregatedResource {
        let resource = Gvr::new("x.io", version, plural);
        AggregatedResource { resource, kind: kind.into(), namespaced: true, verbs }
    }

    fn names(kinds: &[WatchedKind]) -> Vec<(&str, &str)> {
        kinds.iter().filter(|kind| kind.aggregated).map(|k| (&*k.resource.version, &*k.kind)).collect()
    }

    #[test]
    fn each_deletable_resource_of_other_servers_is_watched_once() {
        let catalog = Catalog::builtin();
        let resources = vec![
            found("v2", "things", "Thing", needed()),
            found("v1", "things", "Thing", needed()),
            found("v1", "reviews", "Review", Verbs::CREATE),
            found("v1", "metrics", "Metric", Verbs::LIST | Verbs::WATCH),
        ];
        let aggregated = Aggregated { resources, stale: Vec::new() };
        let kinds = watched(&catalog, &aggregated, []);
        assert_eq!(names(&kinds), [("v2", "Thing")]);
        assert!(kinds.iter().any(|kind| kind.kind == "ConfigMap" && !kind.aggregated));
        let at = mapping(&catalog, || aggregated.clone(), "x.io/v1", "Review").unwrap();
        assert_eq!((&*at.resource.plural, at.aggregated), ("reviews", true));
        assert!(mapping(&catalog, || aggregated, "x.io/v3", "Thing").is_none());
    }

    #[test]
    fn what_a_server_serves_that_cannot_be_asked_is_watched_on() {
        let catalog = Catalog::builtin();
        let current =
            Aggregated { resources: vec![found("v2", "things", "Thing", needed())], stale: Vec::new() };
        let before = watched(&catalog, &current, []);
        // Its other version does not take its place meanwhile.
        let resources = vec![found("v1", "things", "Thing", needed())];
        let stale = Aggregated { resources, stale: vec!["x.io/v2".to_owned()] };
        assert_eq!(names(&watched(&catalog, &stale, before.clone())), [("v2", "Thing")]);
        assert_eq!(names(&watched(&catalog, &stale, [])), [("v1", "Thing")], "it never had a state");
        assert_eq!(names(&watched(&catalog, &Aggregated::default(), before)), [], "its APIService is gone");
    }

    #[test]
    fn a_built_in_group_version_that_another_server_serves_is_its() {
        let catalog = Catalog::builtin();
        let jobs = |kinds: &[WatchedKind]| kinds.iter().filter(|kind| kind.kind == "Job").count();
        assert_eq!(jobs(&watched(&catalog, &Aggregated::default(), [])), 1);
        let stale = Aggregated { resources: Vec::new(), stale: vec!["batch/v1".to_owned()] };
        assert_eq!(jobs(&watched(&catalog, &stale, [])), 0);
    }
}
