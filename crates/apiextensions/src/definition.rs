//! What a CustomResourceDefinition says, as the definition of a resource.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use catalog::{
    Catalog, Name, Resource, ResourceDef, ResourceId, Selectable, Storage, StorageId, Subresource, Verbs,
    Verified, compare_versions,
};
use object::Value;

use crate::conditions::{ESTABLISHED, TERMINATING, is_true};
use crate::custom_resource::CustomResource;

/// Why a CRD cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("spec.versions has no storage version")]
    NoStorageVersion,
    #[error("status.acceptedNames.{0} is empty")]
    NoName(&'static str),
    #[error("the schema of version {version} is not structural: {why}")]
    Schema { version: String, why: String },
}

/// The part of an established CRD that decides how its resource is served.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    spec: &'a Value,
    names: &'a Value,
    terminating: bool,
    uid: &'a str,
    generation: i64,
}

/// Two states of a CRD with the same one are served alike, but for creates once it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    uid: String,
    names: Vec<u8>,
    /// Not the generation: the deletion counts that up as well.
    spec: u64,
}

impl<'a> Served<'a> {
    /// `None` while the CRD is not served: its names are not accepted yet.
    pub fn of(crd: &'a Value) -> Option<Served<'a>> {
        if !is_true(crd, ESTABLISHED) {
            return None;
        }
        Some(Served {
            spec: crd.get("spec")?,
            names: crd.at(&["status", "acceptedNames"])?,
            terminating: is_true(crd, TERMINATING),
            uid: crd.str_at(&["metadata", "uid"])?,
            generation: crd.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0),
        })
    }

    pub fn fingerprint(&self) -> Fingerprint {
        let mut spec = DefaultHasher::new();
        spec.write(&codec::json::to_vec(self.spec));
        Fingerprint { uid: self.uid.to_owned(), names: codec::json::to_vec(self.names), spec: spec.finish() }
    }

    pub fn group(&self) -> &'a str {
        self.spec.str_at(&["group"]).unwrap_or_default()
    }

    pub fn plural(&self) -> &'a str {
        self.names.str_at(&["plural"]).unwrap_or_default()
    }

    fn versions(&self) -> &'a [Value] {
        self.spec.get("versions").and_then(Value::as_list).unwrap_or_default()
    }

    fn name(&self, member: &'static str) -> Result<Name, DefinitionError> {
        match self.names.str_at(&[member]).filter(|name| !name.is_empty()) {
            Some(name) => Ok(Name::from(name.to_owned())),
            None => Err(DefinitionError::NoName(member)),
        }
    }

    fn names(&self, member: &str) -> Vec<Name> {
        let list = self.names.get(member).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(|name| Name::from(name.to_owned())).collect()
    }

    /// The definition of the resource.
    pub fn resource_def(&self, catalog: &Catalog) -> Result<ResourceDef, DefinitionError> {
        let group = Name::from(self.group().to_owned());
        let (plural, kind) = (self.name("plural")?, self.name("kind")?);
        let (singular, list_kind) = (self.name("singular")?, self.name("listKind")?);
        let namespaced = self.spec.str_at(&["scope"]) == Some("Namespaced");
        let has = |version: &Value, member| version.get(member).and_then(Value::as_bool) == Some(true);
        let stored = self.versions().iter().find(|v| has(v, "storage"));
        let stored = stored.and_then(|v| v.str_at(&["name"])).ok_or(DefinitionError::NoStorageVersion)?;
        let types = catalog.types().clone();
        let ty = types.find("apiextensions.v1.CustomResource").ok_or(DefinitionError::NoStorageVersion)?;
        let name_of = |v: &Value| Name::from(v.str_at(&["name"]).unwrap_or_default().to_owned());
        let mut storage = Storage {
            id: StorageId(0),
            prefix: Name::from(format!("/registry/{group}/{plural}/")),
            group: group.clone(),
            version: Name::from(stored.to_owned()),
            earlier_versions: self.versions().iter().map(name_of).filter(|name| &**name != stored).collect(),
            versions: Vec::new(),
            verified: Verified::none(),
            kind: kind.clone(),
            plural: plural.clone(),
            namespaced,
            ty,
            types: types.clone(),
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
            selectable: self.selectable(),
            indexed: None,
            orphan_by_default: false,
            no_gc: false,
            ttl_seconds: None,
            strategy: kinds::strategy(Arc::new(CustomResource::new(self, catalog.types())?)),
        };
        let (mut served, mut versions) = (Vec::new(), Vec::new());
        for version in self.versions() {
            let name = name_of(version);
            let sub = |sub: &'static str, (group, api, kind): (&Name, &Name, &Name), ty| Subresource {
                name: Name::Static(sub),
                group: group.clone(),
                version: api.clone(),
                kind: kind.clone(),
                ty,
                verbs: Verbs::GET | Verbs::PATCH | Verbs::UPDATE,
            };
            let mut subresources = Vec::new();
            if version.at(&["subresources", "status"]).is_some() {
                subresources.push(sub("status", (&group, &name, &kind), Some(ty)));
            }
            if version.at(&["subresources", "scale"]).is_some() {
                let scale = (&Name::Static("autoscaling"), &Name::Static("v1"), &Name::Static("Scale"));
                subresources.push(sub("scale", scale, types.find("autoscaling.v1.Scale")));
            }
            let mut labels: Vec<Name> =
                selectable_of(version).map(|path| Name::from(path.to_owned())).collect();
            // None at all would mean the storage's.
            if labels.is_empty() && !storage.selectable.is_empty() {
                labels.push(Name::EMPTY);
            }
            // Ids that nothing in the catalogue has, and each version another.
            let id = ResourceId(u32::MAX - 1 - versions.len() as u32);
            let resource = Resource {
                id,
                group: group.clone(),
                version: name.clone(),
                plural: plural.clone(),
                singular: singular.clone(),
                kind: kind.clone(),
                list_kind: list_kind.clone(),
                namespaced,
                short_names: self.names("shortNames"),
                categories: self.names("categories"),
                verbs: ALL_VERBS,
                subresources,
                ty,
                types: types.clone(),
                storage: None,
                field_labels: labels.into_iter().map(|label| (label.clone(), label)).collect(),
                unknown_field: Name::Static("field label not supported: {}"),
                custom: true,
                terminating: self.terminating,
                deprecation: has(version, "deprecated").then(|| self.deprecation(version)),
            };
            let resource = Arc::new(resource);
            if has(version, "served") {
                served.push(resource.clone());
            }
            versions.push(resource);
        }
        storage.versions = versions;
        Ok(ResourceDef { storage: Some(Arc::new(storage)), served })
    }

    /// Those of all versions: they share the objects.
    fn selectable(&self) -> Vec<Selectable> {
        let mut paths: Vec<&str> = Vec::new();
        for path in self.versions().iter().flat_map(selectable_of) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths.into_iter().map(Selectable::new).collect()
    }

    fn deprecation(&self, version: &Value) -> String {
        if let Some(warning) = version.str_at(&["deprecationWarning"]) {
            return warning.to_owned();
        }
        let name = |v: &Value| v.str_at(&["name"]).unwrap_or_default().to_owned();
        let has = |v: &Value, member| v.get(member).and_then(Value::as_bool) == Some(true);
        let (group, kind, this) =
            (self.group(), self.spec.str_at(&["names", "kind"]).unwrap_or_default(), name(version));
        let better = |v: &&Value| {
            has(v, "served") && !has(v, "deprecated") && compare_versions(&this, &name(v)).is_lt()
        };
        let best = self.versions().iter().filter(better).map(name).max_by(|a, b| compare_versions(a, b));
        let said = format!("{group}/{this} {kind} is deprecated");
        match best {
            Some(best) => format!("{said}; use {group}/{best} {kind}"),
            None => said,
        }
    }

    /// The members of `spec.versions`, for what each version has of its own.
    pub(crate) fn each_version(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.versions().iter().map(|v| (v.str_at(&["name"]).unwrap_or_default(), v))
    }

    pub(crate) fn storage_version(&self) -> &'a str {
        let stored = |v: &&Value| v.get("storage").and_then(Value::as_bool) == Some(true);
        self.versions().iter().find(stored).and_then(|v| v.str_at(&["name"])).unwrap_or_default()
    }

    pub(crate) fn converts_by_webhook(&self) -> bool {
        self.spec.str_at(&["conversion", "strategy"]) == Some("Webhook")
    }

    /// It is being deleted: nothing new is created under it.
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    pub(crate) fn uid(&self) -> &'a str {
        self.uid
    }

    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    pub(crate) fn kind(&self) -> &'a str {
        self.names.str_at(&["kind"]).unwrap_or_default()
    }

    pub(crate) fn preserves_unknown_fields(&self) -> bool {
        self.spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true)
    }
}

const ALL_VERBS: Verbs = Verbs(255);
/// `spec.color` of `.spec.color`.
fn selectable_of(version: &Value) -> impl Iterator<Item = &str> {
    let fields = version.get("selectableFields").and_then(Value::as_list).unwrap_or_default();
    fields.iter().filter_map(|field| field.str_at(&["jsonPath"])?.strip_prefix('.'))
}
