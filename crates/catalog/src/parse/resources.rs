//! `resource` blocks: served resources and their storage.

use std::sync::Arc;

use super::line::{Line, flag};
use super::{CatalogError, Problem, StoredAs, group_version, types};
use crate::{
    Name, Resource, ResourceId, Schema, Selectable, Storage, StorageId, StrategySlot, Subresource, TypeId,
    Types, Verbs, Verified,
};

/// Resources and storages while their lines are read.
#[derive(Default)]
pub(super) struct Draft<'f> {
    resources: Vec<Resource>,
    storages: Vec<Storage>,
    stored: StoredAs,
    /// One per resource: its opening line, and what its lines said about storage.
    storage_lines: Vec<(Line<'f>, StorageLine<'f>)>,
    labels: Vec<(Line<'f>, ResourceId)>,
}

/// Served resources, and the storages they point to.
type Finished = (Vec<Arc<Resource>>, Vec<Arc<Storage>>);

enum StorageLine<'f> {
    Unset,
    Nowhere,
    Here(StorageId),
    /// The `stored-as` line: the other resource may stand in a later file.
    As(Line<'f>, (Name, Name, Name)),
}

impl<'f> Draft<'f> {
    pub(super) fn open(&mut self, schema: &Schema, line: &Line<'f>) -> Result<ResourceId, CatalogError> {
        let mut words = line.words();
        words.next();
        let (group, version) = group_version(line, words.need("GROUP/VERSION")?)?;
        let plural = Name::Static(words.need("plural")?);
        let ty = types::find(schema, line, words.need("type")?, "")?;
        let namespaced = namespaced(line, words.need("scope")?)?;
        let kind = &schema.get(ty).short;
        // Lists are types of their own beside the kind's; kinds that cannot be listed have none.
        let list_kind =
            schema.find(&format!("{}List", schema.get(ty).name)).map(|t| schema.get(t).short.clone());
        let id = ResourceId(self.resources.len() as u32);
        let mut r = Resource {
            id,
            group,
            version,
            plural,
            singular: Name::EMPTY,
            kind: kind.clone(),
            list_kind: list_kind.unwrap_or(Name::EMPTY),
            namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: Verbs::default(),
            subresources: Vec::new(),
            ty,
            types: Types::default(),
            storage: None,
            field_labels: Vec::new(),
            unknown_field: Name::EMPTY,
            custom: false,
            terminating: false,
            deprecation: None,
        };
        let mut instead = None;
        for word in words {
            match flag(word) {
                ("deprecated", Some(v)) => {
                    r.deprecation = Some(format!("{} {} is deprecated in v{v}+", r.api_version(), r.kind));
                }
                ("instead", Some(v)) => instead = v.rsplit_once('/'),
                ("singular", Some(v)) => r.singular = Name::Static(v),
                ("short", Some(v)) => r.short_names = v.split(',').map(Name::Static).collect(),
                ("categories", Some(v)) => r.categories = v.split(',').map(Name::Static).collect(),
                ("verbs", Some(v)) => r.verbs = verbs(line, v)?,
                _ => return Err(line.unexpected(word, "a flag of a resource")),
            }
        }
        if let (Some(text), Some((version, kind))) = (&mut r.deprecation, instead) {
            text.push_str(&format!("; use {version} {kind}"));
        }
        if r.singular.is_empty() {
            return Err(line.error(Problem::Missing("singular=")));
        }
        if r.verbs == Verbs::default() {
            return Err(line.error(Problem::Missing("verbs=")));
        }
        let twice = |o: &&Resource| {
            o.group == r.group && o.version == r.version && (o.plural == r.plural || o.kind == r.kind)
        };
        if self.resources.iter().find(twice).is_some() {
            return Err(line.duplicate("resource", &r.qualified()));
        }
        self.resources.push(r);
        self.storage_lines.push((*line, StorageLine::Unset));
        Ok(id)
    }

    /// An indented line of resource `id`.
    pub(super) fn add(
        &mut self,
        schema: &Schema,
        id: ResourceId,
        line: &Line<'f>,
    ) -> Result<(), CatalogError> {
        let mut words = line.words();
        let i = id.0 as usize;
        match words.need("keyword")? {
            "sub" => {
                let name = Name::Static(words.need("name")?);
                let body = words.need("GROUP/VERSION/KIND")?;
                let Some((gv, kind)) = body.rsplit_once('/') else {
                    return Err(line.unexpected(body, "GROUP/VERSION/KIND"));
                };
                let (group, version) = group_version(line, gv)?;
                let ty = types::find(schema, line, words.need("type")?, "")?;
                let verbs = verbs(line, words.need("verbs")?)?;
                if self.resources[i].subresource(&name).is_some() {
                    return Err(line.duplicate("subresource", &name));
                }
                let kind = Name::Static(kind);
                self.resources[i].subresources.push(Subresource {
                    name,
                    group,
                    version,
                    kind,
                    ty: Some(ty),
                    verbs,
                });
            }
            "unstored" => self.set_storage(i, line, StorageLine::Nowhere)?,
            "stored-as" => {
                let (group, version) = group_version(line, words.need("GROUP/VERSION")?)?;
                let plural = Name::Static(words.need("plural")?);
                self.set_storage(i, line, StorageLine::As(*line, (group, version, plural)))?;
            }
            "storage" => {
                let storage = self.storage(i, line)?;
                self.set_storage(i, line, StorageLine::Here(storage.id))?;
                self.stored.insert(
                    (storage.group.clone(), storage.version.clone(), storage.plural.clone()),
                    storage.id,
                );
                self.storages.push(storage);
                return Ok(());
            }
            "select" => {
                let StorageLine::Here(storage) = self.storage_lines[i].1 else {
                    return Err(line.error(Problem::Missing("`storage` line before it")));
                };
                let (selectable, indexed) = selectable(line)?;
                let storage = &mut self.storages[storage.0 as usize];
                if storage.selectable.iter().any(|s| s.name == selectable.name) {
                    return Err(line.duplicate("selectable field", &selectable.name));
                }
                if indexed {
                    storage.indexed = Some(selectable.name.clone());
                }
                storage.selectable.push(selectable);
                return Ok(());
            }
            "label" => {
                let label = Name::Static(words.need("name")?);
                let name = Name::Static(words.need("selectable field")?);
                self.resources[i].field_labels.push((label, name));
                self.labels.push((*line, id));
            }
            "unknown-field" => {
                words.need("words of the refusal")?;
                let text = line.text.strip_prefix("unknown-field").unwrap_or(line.text).trim();
                self.resources[i].unknown_field = Name::Static(text);
                return Ok(());
            }
            other => return Err(line.unexpected(other, "a line of a resource")),
        }
        match words.next() {
            Some(extra) => Err(line.unexpected(extra, "expected after a whole line")),
            None => Ok(()),
        }
    }

    /// After the last line: ties served resources to their storages.
    pub(super) fn finish(mut self, types: &Types) -> Result<Finished, CatalogError> {
        let mut stored: Vec<Option<StorageId>> = Vec::with_capacity(self.resources.len());
        for (r, (line, storage_line)) in self.resources.iter().zip(&self.storage_lines) {
            stored.push(match storage_line {
                StorageLine::Unset => return Err(line.error(Problem::NoStorage(r.qualified()))),
                StorageLine::Nowhere => None,
                StorageLine::Here(id) => Some(*id),
                StorageLine::As(line, other) => match self.stored.get(other) {
                    Some(id) => Some(*id),
                    None => return Err(line.error(Problem::UnknownStorage(other.2.to_string()))),
                },
            });
        }
        for s in &mut self.storages {
            s.types = types.clone();
            for field in &mut s.selectable {
                field.own = field.aliases.len();
            }
        }
        // A resource's labels come in the order of its lines.
        let mut position = 0;
        let mut previous = None;
        for (line, id) in &self.labels {
            position = if previous == Some(*id) { position + 1 } else { 0 };
            previous = Some(*id);
            let (label, name) = &self.resources[id.0 as usize].field_labels[position];
            let field = stored[id.0 as usize]
                .and_then(|s| self.storages[s.0 as usize].selectable.iter_mut().find(|f| f.name == *name));
            match field {
                None => return Err(line.error(Problem::UnknownSelectable(name.to_string()))),
                Some(field) if field.name != *label => field.aliases.push(label.clone()),
                Some(_) => {}
            }
        }
        let storages: Vec<Arc<Storage>> = self.storages.into_iter().map(Arc::new).collect();
        let tie = |(mut r, stored): (Resource, Option<StorageId>)| {
            r.types = types.clone();
            r.storage = stored.map(|id| storages[id.0 as usize].clone());
            Arc::new(r)
        };
        let resources = self.resources.into_iter().zip(stored).map(tie).collect();
        Ok((resources, storages))
    }

    fn set_storage(
        &mut self,
        i: usize,
        line: &Line<'f>,
        storage_line: StorageLine<'f>,
    ) -> Result<(), CatalogError> {
        if !matches!(self.storage_lines[i].1, StorageLine::Unset) {
            return Err(line.duplicate("storage of", &self.resources[i].qualified()));
        }
        self.storage_lines[i].1 = storage_line;
        Ok(())
    }

    fn storage(&self, i: usize, line: &Line) -> Result<Storage, CatalogError> {
        let r = &self.resources[i];
        let mut words = line.words();
        words.next();
        let prefix = words.need("key prefix")?;
        let place = (r.group.clone(), r.version.clone(), r.plural.clone());
        let mut s = self.new_storage(line, prefix, place, r.namespaced, r.kind.clone(), r.ty)?;
        for word in words {
            match flag(word) {
                ("unconditional-update", None) => s.unconditional_update = true,
                ("create-on-update", None) => s.create_on_update = true,
                ("returns-deleted", None) => s.returns_deleted = true,
                ("orphan", None) => s.orphan_by_default = true,
                ("no-gc", None) => s.no_gc = true,
                ("ttl", Some(v)) => {
                    s.ttl_seconds = Some(v.parse().map_err(|_| line.unexpected(v, "a number of seconds"))?);
                }
                _ => return Err(line.unexpected(word, "a flag of a storage")),
            }
        }
        Ok(s)
    }

    /// An `internal` line: a storage that is not served.
    pub(super) fn keep_only(&mut self, schema: &Schema, line: &Line<'f>) -> Result<(), CatalogError> {
        let mut words = line.words();
        words.next();
        let (group, version) = group_version(line, words.need("GROUP/VERSION")?)?;
        let plural = Name::Static(words.need("plural")?);
        let ty = types::find(schema, line, words.need("type")?, "")?;
        let namespaced = namespaced(line, words.need("scope")?)?;
        let prefix = words.need("key prefix")?;
        let kind = schema.get(ty).short.clone();
        let storage = self.new_storage(line, prefix, (group, version, plural), namespaced, kind, ty)?;
        self.storages.push(storage);
        Ok(())
    }

    fn new_storage(
        &self,
        line: &Line,
        prefix: &'static str,
        (group, version, plural): (Name, Name, Name),
        namespaced: bool,
        kind: Name,
        ty: TypeId,
    ) -> Result<Storage, CatalogError> {
        if !prefix.starts_with('/') || !prefix.ends_with('/') {
            return Err(line.unexpected(prefix, "a key prefix; it starts and ends with `/`"));
        }
        if self.storages.iter().any(|s| s.prefix == *prefix) {
            return Err(line.duplicate("key prefix", prefix));
        }
        Ok(Storage {
            id: StorageId(self.storages.len() as u32),
            prefix: Name::Static(prefix),
            group,
            version,
            earlier_versions: Vec::new(),
            versions: Vec::new(),
            verified: Verified::default(),
            kind,
            plural,
            namespaced,
            ty,
            types: Types::default(),
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
            selectable: Vec::new(),
            indexed: None,
            orphan_by_default: false,
            no_gc: false,
            ttl_seconds: None,
            strategy: StrategySlot::default(),
        })
    }
}

fn namespaced(line: &Line, word: &'static str) -> Result<bool, CatalogError> {
    match word {
        "namespaced" => Ok(true),
        "cluster" => Ok(false),
        other => Err(line.unexpected(other, "`namespaced` or `cluster`")),
    }
}

/// A `select` line, and whether the table has an index for it.
fn selectable(line: &Line) -> Result<(Selectable, bool), CatalogError> {
    let mut words = line.words();
    words.next();
    let name = words.need("name")?;
    let path = |p: &'static str| p.split('.').map(Name::Static).collect::<Vec<_>>();
    let mut s = Selectable {
        name: Name::Static(name),
        path: path(name),
        fallback: Vec::new(),
        absent: Name::EMPTY,
        aliases: Vec::new(),
        own: 0,
    };
    let mut indexed = false;
    for word in words {
        match flag(word) {
            ("path", Some(v)) => s.path = path(v),
            ("else", Some(v)) => s.fallback = path(v),
            ("absent", Some(v)) => s.absent = Name::Static(v),
            ("alias", Some(v)) => s.aliases.push(Name::Static(v)),
            ("indexed", None) => indexed = true,
            _ => return Err(line.unexpected(word, "a flag of a selectable field")),
        }
    }
    Ok((s, indexed))
}

fn verbs(line: &Line, word: &'static str) -> Result<Verbs, CatalogError> {
    if word == "all" {
        return Ok(Verbs(u8::MAX));
    }
    word.split(',').try_fold(Verbs::default(), |all, name| {
        Verbs::parse(name).map(|v| all | v).ok_or_else(|| line.unexpected(name, "a verb"))
    })
}
