//! The kinds whose objects own and are owned: everything that is stored and can be listed, watched and deleted.

use catalog::{Catalog, Verbs};
use client::Gvr;

/// A kind the collector watches, in one of its served versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedKind {
    pub resource: Gvr,
    pub api_version: String,
    pub kind: String,
}

/// Index into the kinds a graph was ever told of.
pub type KindId = u16;

/// What is served now and has to be watched.
pub fn watched(catalog: &Catalog) -> Vec<WatchedKind> {
    let needed = Verbs::LIST | Verbs::WATCH | Verbs::DELETE;
    // Events own nothing, are owned by nothing, and there are many.
    let storages = catalog.storages().iter().filter(|storage| !storage.no_gc);
    let kinds = storages.filter_map(|storage| {
        let resource = catalog.served_by(storage).find(|r| r.verbs.contains(needed))?;
        Some(WatchedKind {
            resource: Gvr::from(&**resource),
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
        })
    });
    kinds.collect()
}

/// Where objects of a kind are found, as an owner reference names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub resource: Gvr,
    pub namespaced: bool,
}

/// `None`: nothing of that kind is served in that version.
pub fn mapping(catalog: &Catalog, api_version: &str, kind: &str) -> Option<Mapping> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = catalog.find_kind(group, version, kind)?;
    Some(Mapping { resource: Gvr::from(&**resource), namespaced: resource.namespaced })
}
