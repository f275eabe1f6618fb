//! What a client knows of what its server serves: the built-in resources, and custom ones as they are used or discovered.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{Catalog, Name, Resource, compare_versions};
use client::Gvr;
use object::Status;
use parking_lot::Mutex;

use crate::discovery::{Discovered, GroupVersion, definition};

/// What a server is known to serve; shared by its clients.
pub struct Served {
    /// Guards the snapshot of the day; held for a look or a change of it.
    catalog: Mutex<Arc<Catalog>>,
}

impl Served {
    pub fn new(catalog: Arc<Catalog>) -> Served {
        Served { catalog: Mutex::new(catalog) }
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.lock().clone()
    }

    pub(crate) fn find(&self, gvr: &Gvr) -> Option<Arc<Resource>> {
        gvr.find(&self.catalog.lock()).cloned()
    }

    /// Remembers a resource in one more version, or anew in one that is known.
    pub(crate) fn learn(&self, found: Discovered) {
        let mut catalog = self.catalog.lock();
        // Another scope or kind is another definition: what was known of its other versions is of the old one.
        let same = |other: &&Arc<Resource>| {
            other.version != found.version
                && (&other.kind, other.namespaced) == (&found.kind, found.namespaced)
        };
        let mut versions: Vec<Discovered> = known(&catalog, &found.group, &found.plural)
            .filter(same)
            .map(|other| Discovered::of(other))
            .collect();
        versions.push(found);
        define(&mut catalog, versions);
    }

    /// The server did not know the path: the resource is looked up again when it is used next. Returns whether it will be.
    pub(crate) fn forget(&self, resource: &Resource) -> bool {
        let mut catalog = self.catalog.lock();
        let now = catalog.find(&resource.group, &resource.version, &resource.plural);
        if !resource.custom || now.is_none_or(|now| now.id != resource.id) {
            return resource.custom;
        }
        if let Some((without, _)) = catalog.undefine(&resource.group, &resource.plural) {
            *catalog = Arc::new(without);
        }
        true
    }

    /// Takes over what the server said it serves. Built-in resources stay, whether it serves them or not.
    pub(crate) fn take_over(&self, said: Vec<GroupVersion>) -> Arc<Catalog> {
        let mut catalog = self.catalog.lock();
        let unknown: BTreeSet<(String, String)> = said
            .iter()
            .filter(|version| version.resources.is_none())
            .map(|version| (version.group.clone(), version.version.clone()))
            .collect();
        let is_unknown = |resource: &Discovered| {
            unknown.contains(&(resource.group.to_string(), resource.version.to_string()))
        };
        let mut found: Vec<Discovered> = said.into_iter().filter_map(|v| v.resources).flatten().collect();
        // What cannot be asked now stays as it was.
        let custom = catalog.resources().iter().filter(|resource| resource.custom);
        found.extend(custom.map(|resource| Discovered::of(resource)).filter(is_unknown));
        let names: BTreeSet<(Name, Name)> =
            found.iter().map(|r| (r.group.clone(), r.plural.clone())).collect();
        let gone: BTreeSet<(Name, Name)> = catalog
            .resources()
            .iter()
            .filter(|resource| resource.custom)
            .map(|resource| (resource.group.clone(), resource.plural.clone()))
            .filter(|known| !names.contains(known))
            .collect();
        for (group, plural) in gone {
            if let Some((without, _)) = catalog.undefine(&group, &plural) {
                *catalog = Arc::new(without);
            }
        }
        for (group, plural) in names {
            let of_it = |r: &&Discovered| r.group == group && r.plural == plural;
            let versions: Vec<Discovered> = found.iter().filter(of_it).cloned().collect();
            define(&mut catalog, versions);
        }
        catalog.clone()
    }
}

/// The versions a resource is known in.
fn known<'a>(
    catalog: &'a Catalog,
    group: &'a str,
    plural: &'a str,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    catalog.resources().iter().filter(move |resource| resource.group == *group && resource.plural == *plural)
}

/// Puts a custom resource into the catalogue, unless it is there like that already.
fn define(catalog: &mut Arc<Catalog>, mut versions: Vec<Discovered>) {
    versions.sort_by(|a, b| compare_versions(&b.version, &a.version));
    let Some(first) = versions.first().filter(|first| !first.plural.is_empty() && !first.kind.is_empty())
    else {
        return;
    };
    let now = || known(catalog, &first.group, &first.plural);
    if now().any(|resource| !resource.custom)
        || now().map(|resource| Discovered::of(resource)).eq(versions.iter().cloned())
    {
        return;
    }
    // A definition of another name that had the kind before is gone, or the server would not serve this one.
    for version in &versions {
        let owner = catalog.find_kind(&version.group, &version.version, &version.kind);
        if let Some(plural) =
            owner.filter(|o| o.custom && o.plural != version.plural).map(|o| o.plural.clone())
            && let Some((without, _)) = catalog.undefine(&version.group, &plural)
        {
            *catalog = Arc::new(without);
        }
    }
    let Some(def) = definition(catalog, &versions) else { return };
    match catalog.define(def) {
        Ok((next, _)) => *catalog = Arc::new(next),
        Err(error) => {
            tracing::warn!(group = %first.group, resource = %first.plural, %error, "discovery contradicts itself");
        }
    }
}

/// Whether a refusal says that the path is not served, rather than that an object is not there.
pub(crate) fn is_unserved(status: &Status) -> bool {
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty())
}

#[cfg(test)]
mod tests;
