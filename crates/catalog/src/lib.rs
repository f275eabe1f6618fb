//! Every group, kind, field, list key and protobuf number of the API: data and its parser, without I/O.
//!
//! ```text
//! data/core.cat ─┐
//! data/apps.cat ─┼─ parse ─> Catalog { resources (served) ─> storages, schema (types) }
//! data/...      ─┘                routes, discovery, OpenAPI      keys        decode, patch, protobuf
//! ```
//!
//! A catalogue is an immutable snapshot. [`Catalog::define`] and [`Catalog::undefine`] return another one with a resource added
//! or removed, which the owner swaps in; holders of the old one continue with it.
//!
//! A new kind is a `resource` block and its `type` blocks in one file; see [`parse`](Catalog::parse)'s module for the grammar.

mod builtin;
mod define;
mod name;
mod parse;
mod resource;
mod schema;
mod version;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use name::NameMap;

pub use define::DefineError;
pub use name::Name;
pub use parse::{CatalogError, Problem};
pub use resource::{
    Group, Resource, ResourceDef, ResourceId, Selectable, Storage, StorageId, StrategySlot, Subresource,
    Verbs, Verified,
};
pub use schema::{AnyKind, Field, ListKind, MapKind, PatchRule, Schema, Shape, StructType, TypeId, Types};
pub use version::compare_versions;

/// All served resources and their types.
#[derive(Clone, Debug)]
pub struct Catalog {
    pub(crate) resources: Vec<Arc<Resource>>,
    pub(crate) storages: Vec<Arc<Storage>>,
    pub(crate) schema: Types,
    pub(crate) groups: Vec<Group>,
    pub(crate) index: Index,
    /// The ids for the next definition.
    pub(crate) next: (ResourceId, StorageId),
    pub(crate) generation: u64,
    /// So many of `resources`, the first ones, are of the catalogue files.
    pub(crate) built_in: usize,
}

/// Lookups by the most selective part of a name; the few entries that share it are compared in full.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    pub(crate) plurals: NameMap<Vec<Arc<Resource>>>,
    pub(crate) kinds: NameMap<Vec<Arc<Resource>>>,
    pub(crate) type_kinds: NameMap<Vec<TypeId>>,
    pub(crate) prefixes: NameMap<Arc<Storage>>,
    pub(crate) stored: NameMap<Vec<Arc<Storage>>>,
}

impl Catalog {
    /// The resources Kubernetes v1.36 serves by default.
    pub fn builtin() -> Catalog {
        Catalog::parse(builtin::FILES).expect("the embedded catalogue parses: a test of this crate says so")
    }

    /// The same with metrics.k8s.io, which upstream serves only with metrics-server installed.
    pub fn with_metrics() -> Catalog {
        let files = [builtin::FILES, &[builtin::METRICS]].concat();
        Catalog::parse(&files).expect("the embedded catalogue parses: a test of this crate says so")
    }

    /// Resources that are not built in, from catalogue files that may use the types of this catalogue.
    pub fn parse_definitions(
        &self,
        files: &[(&str, &'static str)],
    ) -> Result<Vec<ResourceDef>, CatalogError> {
        let more = parse::parse(files, Schema::extending(self.schema.clone()))?;
        let of = |storage: &Arc<Storage>| more.definition(&storage.group, &storage.plural);
        Ok(more.storages.iter().filter_map(of).collect())
    }

    /// Parses catalogue files, given as (name for messages, text). Their order is the order of groups in discovery.
    pub fn parse(files: &[(&str, &'static str)]) -> Result<Catalog, CatalogError> {
        parse::parse(files, Schema::default())
    }

    /// Increases with every added or removed definition, so that derived data can be cached.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }
    pub fn storages(&self) -> &[Arc<Storage>] {
        &self.storages
    }
    /// The built-in types: those of every resource in the catalogue files, and those without resources (`Status`, `Table`).
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
    /// The same, shared with later definitions.
    pub fn types(&self) -> &Types {
        &self.schema
    }
    /// Core first, then in the order `/apis` lists them.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// By group ("" for core), version and plural.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.index.plurals.get(plural)?.iter().find(|r| r.group == *group && r.version == *version)
    }

    /// The storage of a group and plural, whichever versions are served, or none.
    pub fn find_storage(&self, group: &str, plural: &str) -> Option<&Arc<Storage>> {
        self.index.stored.get(plural)?.iter().find(|s| s.group == *group)
    }

    /// By group, version and kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.index.kinds.get(kind)?.iter().find(|r| r.group == *group && r.version == *version)
    }

    /// The built-in type of any kind, served or not: lists, `Status`, `Scale`, `Table`.
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
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.iter().filter(move |r| r.group == *group && r.version == *version)
    }

    /// The resources that serve one storage, its own version first.
    pub fn served_by<'a>(&'a self, storage: &'a Storage) -> impl Iterator<Item = &'a Arc<Resource>> {
        let own = move |r: &&Arc<Resource>| r.group == storage.group && r.version == storage.version;
        let serves = move |r: &&Arc<Resource>| r.storage.as_ref().is_some_and(|s| s.id == storage.id);
        let all = move || self.resources.iter().filter(serves);
        all().filter(own).chain(all().filter(move |r| !own(r)))
    }

    /// The storage a key belongs to; `None`: no definition claims it.
    pub fn storage_of_key(&self, key: &str) -> Option<&Arc<Storage>> {
        // Prefixes end in '/', so only cuts after a '/' can be one; from the right, the longest comes first.
        let mut end = key.len();
        while let Some(slash) = key[..end].rfind('/') {
            if let Some(storage) = self.index.prefixes.get(&key[..=slash]) {
                return Some(storage);
            }
            end = slash;
        }
        None
    }
}
