//! Adding and removing resources while the server runs.

use std::sync::Arc;

use crate::name::NameMap;
use crate::version::compare_versions;
use crate::{Catalog, Group, Index, Name, Resource, ResourceDef, ResourceId, Storage, StorageId, Types};

/// Why a definition cannot be added to the catalogue.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefineError {
    #[error("{0} is already served")]
    Served(String),
    #[error("the key prefix {0} is used by another resource")]
    Prefix(Name),
}

impl Catalog {
    /// The catalogue with one more resource, or with a new definition of the one with the same group and plural. Either
    /// way it gets new ids; returns the definition with these ids beside the catalogue.
    pub fn define(&self, def: ResourceDef) -> Result<(Catalog, ResourceDef), DefineError> {
        let mut next = match def.names().and_then(|(group, plural)| self.undefine(group, plural)) {
            Some((without, _)) => without,
            None => self.clone(),
        };
        let (mut resource_id, mut storage_id) = next.next;
        let storage = match &def.storage {
            None => None,
            Some(storage) if next.index.prefixes.contains_key(&storage.prefix) => {
                return Err(DefineError::Prefix(storage.prefix.clone()));
            }
            Some(storage) => {
                let id = storage_id;
                storage_id = StorageId(id.0 + 1);
                Some(Arc::new(Storage { id, ..Storage::clone(storage) }))
            }
        };
        let mut served = Vec::with_capacity(def.served.len());
        for resource in &def.served {
            if next.find(&resource.group, &resource.version, &resource.plural).is_some()
                || next.find_kind(&resource.group, &resource.version, &resource.kind).is_some()
            {
                return Err(DefineError::Served(format!("{}/{}", resource.api_version(), resource.plural)));
            }
            let id = resource_id;
            resource_id = ResourceId(id.0 + 1);
            served.push(Arc::new(Resource { id, storage: storage.clone(), ..Resource::clone(resource) }));
        }
        next.next = (resource_id, storage_id);
        next.generation = self.generation + 1;
        next.storages.extend(storage.clone());
        next.resources.extend(served.iter().cloned());
        next.sort_defined();
        next.index_again();
        Ok((next, ResourceDef { storage, served }))
    }

    /// The catalogue without the resource of that group and plural, and its definition; `None` when there is none.
    pub fn undefine(&self, group: &str, plural: &str) -> Option<(Catalog, ResourceDef)> {
        let storage = self.find_storage(group, plural).cloned();
        let id = storage.as_ref().map(|storage| storage.id);
        let of_it = |resource: &Resource| match (&resource.storage, id) {
            (Some(storage), Some(id)) => storage.id == id,
            _ => resource.group == *group && resource.plural == *plural,
        };
        let mut next = self.clone();
        let served: Vec<_> = next.resources.extract_if(.., |resource| of_it(resource)).collect();
        next.storages.retain(|storage| Some(storage.id) != id);
        if served.is_empty() && storage.is_none() {
            return None;
        }
        next.generation += 1;
        next.index_again();
        Some((next, ResourceDef { storage, served }))
    }

    /// The catalogue with the resource of that group and plural as one whose definition is being deleted; `None` if it is one
    /// already. It keeps its ids: its objects and watches stay.
    pub fn mark_terminating(&self, group: &str, plural: &str) -> Option<Catalog> {
        let id = self.find_storage(group, plural)?.id;
        let of_it = |resource: &Resource| {
            resource.storage.as_ref().is_some_and(|storage| storage.id == id) && !resource.terminating
        };
        let mut next = self.clone();
        let mut marked = false;
        for resource in next.resources.iter_mut().filter(|resource| of_it(resource)) {
            *resource = Arc::new(Resource { terminating: true, ..Resource::clone(resource) });
            marked = true;
        }
        if !marked {
            return None;
        }
        next.generation += 1;
        next.index_again();
        Some(next)
    }

    /// The definition of the resource of that group and plural.
    pub fn definition(&self, group: &str, plural: &str) -> Option<ResourceDef> {
        self.undefine(group, plural).map(|(_, def)| def)
    }

    /// Discovery lists what was defined at run time behind the built-in resources: groups and resources by name, newer versions first.
    fn sort_defined(&mut self) {
        self.resources[self.built_in..].sort_by(|a, b| {
            let versions = compare_versions(&b.version, &a.version);
            a.group.cmp(&b.group).then(versions).then_with(|| a.plural.cmp(&b.plural))
        });
    }

    /// Rebuilds groups and lookups.
    pub(crate) fn index_again(&mut self) {
        self.groups = groups(&self.resources);
        self.index = Index::new(&self.resources, &self.storages, &self.schema);
    }
}

impl ResourceDef {
    /// Group and plural, as it is stored or else served.
    fn names(&self) -> Option<(&Name, &Name)> {
        let stored = self.storage.as_ref().map(|storage| (&storage.group, &storage.plural));
        stored.or_else(|| self.served.first().map(|resource| (&resource.group, &resource.plural)))
    }
}

/// In the order of their first resources.
fn groups(resources: &[Arc<Resource>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: NameMap<usize> = NameMap::default();
    for r in resources {
        let place = *places.entry(r.group.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            None => groups.push(Group { name: r.group.clone(), versions: vec![r.version.clone()] }),
            Some(g) if !g.versions.contains(&r.version) => g.versions.push(r.version.clone()),
            Some(_) => {}
        }
    }
    groups
}

impl Index {
    fn new(resources: &[Arc<Resource>], storages: &[Arc<Storage>], schema: &Types) -> Index {
        let mut index = Index::default();
        for r in resources {
            index.plurals.entry(r.plural.clone()).or_default().push(r.clone());
            index.kinds.entry(r.kind.clone()).or_default().push(r.clone());
        }
        for s in storages {
            index.prefixes.insert(s.prefix.clone(), s.clone());
            index.stored.entry(s.plural.clone()).or_default().push(s.clone());
        }
        for (id, t) in schema.iter() {
            if let Some((_, _, kind)) = &t.gvk {
                index.type_kinds.entry(kind.clone()).or_default().push(id);
            }
        }
        index
    }
}
