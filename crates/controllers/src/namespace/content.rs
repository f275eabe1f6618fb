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

/// Every resource that has namespaces and can be deleted, in its preferred version.
pub fn contents(catalog: &Catalog) -> Vec<Content> {
    let mut found: BTreeMap<(&str, &str), Content> = BTreeMap::new();
    for group in catalog.groups() {
        for version in &group.versions {
            for resource in catalog.resources_of(&group.name, version) {
                if resource.namespaced && resource.verbs.contains(Verbs::DELETE) {
                    let content = || Content { resource: Gvr::from(&**resource), verbs: resource.verbs };
                    found.entry((&resource.group, &resource.plural)).or_insert_with(content);
                }
            }
        }
    }
    found.into_values().collect()
}
