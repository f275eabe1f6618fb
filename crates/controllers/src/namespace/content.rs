//! What namespaces contain.

use std::collections::BTreeMap;

use catalog::{Catalog, Verbs};
use client::Gvr;

/// A resource namespaces contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub resource: Gvr,
    pub verbs: Verbs,
}

/// Every resource that has namespaces and can be deleted, in the version it is stored in, or in its preferred one where that is
/// not served. Upstream takes the preferred one always, and cannot empty a namespace while a conversion webhook is down.
pub fn contents(catalog: &Catalog) -> Vec<Content> {
    let mut found: BTreeMap<(&str, &str), Content> = BTreeMap::new();
    for group in catalog.groups() {
        for version in &group.versions {
            for resource in catalog.resources_of(&group.name, version) {
                if resource.namespaced && resource.verbs.contains(Verbs::DELETE) {
                    let content = || Content { resource: Gvr::from(&**resource), verbs: resource.verbs };
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
