//! Every group, kind, field, list key and protobuf number of the API: data and its parser, pure.
//!
//! ```text
//! data/core.cat ─┐
//! data/apps.cat ─┼─ parse ─> Catalog { resources (served) ─> storages (kept), schema (types) }
//! data/...      ─┘                routes, discovery, OpenAPI      keys        decode, patch, protobuf
//! ```
//!
//! A new kind is a `resource` block and its `type` blocks in one file; the grammar stands in [`parse`](Catalog::parse)'s module.

mod builtin;
mod name;
mod parse;
mod resource;
mod schema;

#[cfg(test)]
mod tests;

use name::NameMap;

pub use name::Name;
pub use parse::{CatalogError, Problem};
pub use resource::{Group, Resource, ResourceId, Selectable, Storage, StorageId, Subresource, Verbs};
pub use schema::{AnyKind, Field, ListKind, MapKind, PatchRule, Schema, Shape, StructType, TypeId, Types};

/// Everything that is served, and how.
#[derive(Debug)]
pub struct Catalog {
    pub(crate) resources: Vec<Resource>,
    pub(crate) storages: Vec<Storage>,
    pub(crate) schema: Types,
    pub(crate) groups: Vec<Group>,
    pub(crate) index: Index,
}

/// Lookups by the last, most telling part of a name; what shares it (one to three entries) is compared in full.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) plurals: NameMap<Vec<ResourceId>>,
    pub(crate) kinds: NameMap<Vec<ResourceId>>,
    pub(crate) type_kinds: NameMap<Vec<TypeId>>,
    pub(crate) prefixes: NameMap<StorageId>,
    pub(crate) stored: NameMap<Vec<StorageId>>,
}

impl Catalog {
    /// What Kubernetes v1.36 serves by default.
    pub fn builtin() -> Catalog {
        Catalog::parse(builtin::FILES).expect("the embedded catalogue parses: a test of this crate says so")
    }

    /// Reads catalogue files, given as (name for messages, text). Their order is the order of groups in discovery.
    pub fn parse(files: &[(&str, &'static str)]) -> Result<Catalog, CatalogError> {
        parse::parse(files)
    }

    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
    /// Core first, then in the order `/apis` lists them.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
    pub fn storage(&self, id: StorageId) -> &Storage {
        &self.storages[id.0 as usize]
    }
    pub fn resource(&self, id: ResourceId) -> &Resource {
        &self.resources[id.0 as usize]
    }

    /// By group ("" for core), version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        let ids = self.index.plurals.get(plural)?;
        ids.iter().map(|id| self.resource(*id)).find(|r| r.group == *group && r.version == *version)
    }

    /// What is stored under a group and plural, whichever versions are served, or none.
    pub fn find_storage(&self, group: &str, plural: &str) -> Option<&Storage> {
        let ids = self.index.stored.get(plural)?;
        ids.iter().map(|id| self.storage(*id)).find(|s| s.group == *group)
    }

    /// By group, version and kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Resource> {
        let ids = self.index.kinds.get(kind)?;
        ids.iter().map(|id| self.resource(*id)).find(|r| r.group == *group && r.version == *version)
    }

    /// The type of any kind, served or not: lists, `Status`, `Scale`, `Table`.
    pub fn find_type(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        let ids = self.index.type_kinds.get(kind)?;
        ids.iter().copied().find(|id| {
            self.schema.get(*id).gvk.as_ref().is_some_and(|(g, v, _)| *g == *group && *v == *version)
        })
    }

    /// The resources of one group version, in the order discovery lists them.
    pub fn resources_of<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Resource> {
        self.resources.iter().filter(move |r| r.group == *group && r.version == *version)
    }

    /// The resources that serve one storage, its own version first.
    pub fn served_by(&self, storage: StorageId) -> impl Iterator<Item = &Resource> {
        let own = move |r: &&Resource| {
            let s = self.storage(storage);
            r.group == s.group && r.version == s.version
        };
        let all = move || self.resources.iter().filter(move |r| r.storage == Some(storage));
        all().filter(own).chain(all().filter(move |r| !own(r)))
    }

    /// Which storage a key belongs to, and what follows its prefix: `default/web` of `/registry/pods/default/web`.
    pub fn storage_of_key<'k>(&self, key: &'k str) -> Option<(StorageId, &'k str)> {
        // Prefixes end in '/', so only cuts after a '/' can be one; from the right, the longest comes first.
        let mut end = key.len();
        while let Some(slash) = key[..end].rfind('/') {
            if let Some(id) = self.index.prefixes.get(&key[..=slash]) {
                return Some((*id, &key[slash + 1..]));
            }
            end = slash;
        }
        None
    }

    /// The selectable field that a field selector's label names when it comes through this resource;
    /// `None` is upstream's "field label not supported". `metadata.name` and `metadata.namespace` are not here.
    pub fn selectable(&self, resource: &Resource, label: &str) -> Option<&Selectable> {
        let all = &self.storage(resource.storage?).selectable;
        if resource.field_labels.is_empty() {
            return all.iter().find(|s| s.name == *label || s.own_aliases().iter().any(|a| *a == *label));
        }
        let (_, name) = resource.field_labels.iter().find(|(l, _)| *l == *label)?;
        all.iter().find(|s| s.name == *name)
    }
}
