//! What namespaces contain.

use std::collections::BTreeMap;

use catalog::{Catalog, Verbs};
use client::{Aggregated, AggregatedResource, Gvr};

/// A resource namespaces contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub resource: Gvr,
    pub verbs: Verbs,
    /// Another server's: it is asked by its path.
    pub aggregated: bool,
}

/// Every resource that has namespaces and can be deleted, in the version it is stored in, or in its preferred one where that is
/// not served. Upstream takes the preferred one always, and cannot empty a namespace while a conversion webhook is down.
pub fn contents(catalog: &Catalog) -> Vec<Content> {
    let mut found: BTreeMap<(&str, &str), Content> = BTreeMap::new();
    for group in catalog.groups() {
        for version in &group.versions {
            for resource in catalog.resources_of(&group.name, version) {
                if resource.namespaced && resource.verbs.contains(Verbs::DELETE) {
                    let content = || Content {
                        resource: Gvr::from(&**resource),
                        verbs: resource.verbs,
                        aggregated: false,
                    };
                    let found = found.entry((&resource.group, &resource.plural));
                    match resource.is_stored_version() {
                        true => _ = found.insert_entry(content()),
                        false => _ = found.or_insert_with(content),
                    }
                }
            }
        }
    }
    found.into_values().collect()
}

/// The same of other servers; of each resource the first version that was told.
pub fn aggregated_contents(aggregated: &Aggregated) -> Vec<Content> {
    let mut found: Vec<Content> = Vec::new();
    for AggregatedResource { resource, namespaced, verbs, .. } in &aggregated.resources {
        let same = |known: &Content| {
            known.resource.group == resource.group && known.resource.plural == resource.plural
        };
        if *namespaced && verbs.contains(Verbs::DELETE) && !found.iter().any(same) {
            found.push(Content { resource: resource.clone(), verbs: *verbs, aggregated: true });
        }
    }
    found
}
