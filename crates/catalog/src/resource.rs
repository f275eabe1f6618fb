//! Served resources, and the storage resources they point to.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::{Name, Schema, TypeId, Types};

/// Identifies a served resource. Never reused, so data cached for a removed resource matches nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u32);

/// Identifies a storage. Never reused, as [`ResourceId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageId(pub u32);

/// One resource as a value: where its objects are stored, and the versions it is served in. Built-in resources
/// and CustomResourceDefinitions both become one; nothing else distinguishes them.
#[derive(Clone, Debug, Default)]
pub struct ResourceDef {
    /// `None`: served, never stored.
    pub storage: Option<Arc<Storage>>,
    /// In the order discovery lists them; the storage of each is `storage`.
    pub served: Vec<Arc<Resource>>,
}

/// A resource as in discovery: one group, one version, one plural.
#[derive(Clone, Debug)]
pub struct Resource {
    pub id: ResourceId,
    /// "" for the core group.
    pub group: Name,
    pub version: Name,
    pub plural: Name,
    pub singular: Name,
    pub kind: Name,
    /// Empty when the kind has no list (reviews, bindings).
    pub list_kind: Name,
    pub namespaced: bool,
    pub short_names: Vec<Name>,
    pub categories: Vec<Name>,
    pub verbs: Verbs,
    pub subresources: Vec<Subresource>,
    pub ty: TypeId,
    /// Where `ty` is looked up.
    pub types: Types,
    /// `None`: served, never stored (access reviews, bindings, component statuses).
    pub storage: Option<Arc<Storage>>,
    /// This resource's names for the storage's selectable fields
    /// (`regarding.name` is `involvedObject.name`). Empty: the storage's own names.
    pub field_labels: Vec<(Name, Name)>,
    /// The error for an unsupported field selector: `{}` stands for the name, `{q}` for the
    /// quoted name. Empty: the default message.
    pub unknown_field: Name,
    /// Defined by a CustomResourceDefinition. What clients see of that: items of lists carry kind and apiVersion, discovery
    /// lists verbs in another order, and neither protobuf nor strategic merge patches are served.
    pub custom: bool,
    /// Its definition is being deleted: nothing new can be created. Discovery leaves out all verbs that write; updates and
    /// patches are served still.
    pub terminating: bool,
    /// The deprecation warning sent with every response.
    pub deprecation: Option<String>,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether its objects are stored as it serves them.
    pub fn is_stored_version(&self) -> bool {
        self.storage.as_ref().is_some_and(|s| s.group == self.group && s.version == self.version)
    }

    /// `configmaps` or `deployments.apps`: the resource in messages.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    pub fn schema(&self) -> &Schema {
        &self.types
    }

    /// The selectable field for a label of a field selector on this resource, with its position;
    /// `None` is upstream's "field label not supported". `metadata.name` and `metadata.namespace` are not here.
    pub fn selectable(&self, label: &str) -> Option<(usize, &Selectable)> {
        let all = &self.storage.as_ref()?.selectable;
        let mut fields = all.iter().enumerate();
        if self.field_labels.is_empty() {
            return fields.find(|(_, s)| s.name == *label || s.own_aliases().iter().any(|a| *a == *label));
        }
        let (_, name) = self.field_labels.iter().find(|(l, _)| *l == *label)?;
        fields.find(|(_, s)| s.name == *name)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == *name)
    }
}

/// A group and its served versions, the preferred one first.
#[derive(Clone, Debug)]
pub struct Group {
    /// "" for the core group.
    pub name: Name,
    pub versions: Vec<Name>,
}

#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: Name,
    /// Group, version and kind of its body; often the parent's.
    pub group: Name,
    pub version: Name,
    pub kind: Name,
    pub ty: Option<TypeId>,
    pub verbs: Verbs,
}

/// A selectable field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selectable {
    /// The name in a selector: `status.successful`.
    pub name: Name,
    /// The path in the storage version: `status.succeeded`. Scalars only; numbers and booleans by their text.
    pub path: Vec<Name>,
    /// The fallback if `path` is absent or empty (an event's `source` falls back to `reportingComponent`).
    pub fallback: Vec<Name>,
    /// The value when the path is absent: `0`, `false`, mostly empty.
    pub absent: Name,
    /// Names other served versions use for the same field (`involvedObject.name` is `regarding.name` in events.k8s.io).
    pub aliases: Vec<Name>,
    /// So many of `aliases`, the first ones, are old names of the storage version itself (`spec.host` of pods).
    pub(crate) own: usize,
}

impl Selectable {
    /// A field under its own name and nothing else, empty when it is absent.
    pub fn new(path: &str) -> Selectable {
        Selectable {
            name: Name::from(path.to_owned()),
            path: path.split('.').map(|name| Name::from(name.to_owned())).collect(),
            fallback: Vec::new(),
            absent: Name::EMPTY,
            aliases: Vec::new(),
            own: 0,
        }
    }

    pub(crate) fn own_aliases(&self) -> &[Name] {
        &self.aliases[..self.own]
    }
}

/// A storage: several served resources may share one.
#[derive(Clone, Debug)]
pub struct Storage {
    pub id: StorageId,
    /// `/registry/configmaps/`.
    pub prefix: Name,
    pub group: Name,
    /// The version objects are stored in.
    pub version: Name,
    /// Other versions in which objects may be stored from earlier.
    pub earlier_versions: Vec<Name>,
    /// Of a custom resource: all its versions in the order of the definition, those that are not served too. Rules of admission
    /// may name any of them. They have ids of their own and no storage.
    pub versions: Vec<Arc<Resource>>,
    /// Which objects are stored as this definition would store them.
    pub verified: Verified,
    pub kind: Name,
    pub plural: Name,
    pub namespaced: bool,
    pub ty: TypeId,
    /// Where `ty` is looked up: validating an update needs to know which members are pointers.
    pub types: Types,
    /// An update may come without a resourceVersion.
    pub unconditional_update: bool,
    /// PUT of an absent object creates it.
    pub create_on_update: bool,
    /// DELETE returns the object even when it is removed at once; other resources return a Status then.
    pub returns_deleted: bool,
    /// Selectable fields beyond metadata.name and metadata.namespace.
    pub selectable: Vec<Selectable>,
    /// The selectable field the table keeps an index for (`spec.nodeName` of pods).
    pub indexed: Option<Name>,
    /// The default propagation policy of DELETE.
    pub orphan_by_default: bool,
    /// Deletion propagation is not supported at all (events).
    pub no_gc: bool,
    /// Objects live this long (events: one hour).
    pub ttl_seconds: Option<u32>,
    pub strategy: StrategySlot,
}

/// Objects behind this revision were written under the definition they are read by, so their bytes are served as they are. A
/// custom resource from before may have fields its schema no longer has, lack defaults, or be stored in another version: it is
/// converted when it is read.
#[derive(Clone, Debug, Default)]
pub struct Verified(Arc<AtomicU64>);

impl Verified {
    /// No object is served as it is stored, until [`after`](Verified::after) is called.
    pub fn none() -> Verified {
        Verified(Arc::new(AtomicU64::new(u64::MAX)))
    }

    /// From now on every write is one of this definition.
    pub fn after(&self, revision: u64) {
        self.0.store(revision, Ordering::Release);
    }

    pub fn contains(&self, revision: u64) -> bool {
        revision > self.0.load(Ordering::Acquire)
    }
}

/// The strategy of a storage. The catalogue does not know objects, so `kinds` stores its own type here: on
/// first use of a built-in resource, or when a definition is added.
#[derive(Clone, Default)]
pub struct StrategySlot(OnceLock<Arc<dyn Any + Send + Sync>>);

impl StrategySlot {
    pub fn new(strategy: Arc<dyn Any + Send + Sync>) -> StrategySlot {
        StrategySlot(OnceLock::from(strategy))
    }

    pub fn get_or_init(&self, find: impl FnOnce() -> Arc<dyn Any + Send + Sync>) -> &(dyn Any + Send + Sync) {
        &**self.0.get_or_init(find)
    }
}

impl std::fmt::Debug for StrategySlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "strategy" } else { "no strategy yet" })
    }
}

impl Storage {
    /// A resource that serves its objects as they are stored, for who acts on them although that version is not served.
    pub fn as_resource(self: &Arc<Storage>) -> Resource {
        Resource {
            id: ResourceId(u32::MAX),
            group: self.group.clone(),
            version: self.version.clone(),
            plural: self.plural.clone(),
            singular: Name::EMPTY,
            kind: self.kind.clone(),
            list_kind: Name::EMPTY,
            namespaced: self.namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: Verbs::default(),
            subresources: Vec::new(),
            ty: self.ty,
            types: self.types.clone(),
            storage: Some(self.clone()),
            field_labels: Vec::new(),
            unknown_field: Name::EMPTY,
            custom: true,
            terminating: false,
            deprecation: None,
        }
    }

    pub fn schema(&self) -> &Schema {
        &self.types
    }

    /// `/registry/pods/` + `default/web`; `namespace` counts only where there are namespaces.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{}{namespace}/{name}", self.prefix)
        } else {
            format!("{}{name}", self.prefix)
        }
    }

    /// The place of a selectable field among what the table keeps of an object.
    pub fn selectable_at(&self, name: &str) -> Option<usize> {
        self.selectable.iter().position(|field| &*field.name == name)
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(pub u8);

impl Verbs {
    pub const CREATE: Verbs = Verbs(1);
    pub const DELETE: Verbs = Verbs(2);
    pub const DELETE_COLLECTION: Verbs = Verbs(4);
    pub const GET: Verbs = Verbs(8);
    pub const LIST: Verbs = Verbs(16);
    pub const PATCH: Verbs = Verbs(32);
    pub const UPDATE: Verbs = Verbs(64);
    pub const WATCH: Verbs = Verbs(128);

    /// In the alphabetical order discovery uses.
    pub const NAMES: [(&'static str, Verbs); 8] = [
        ("create", Verbs::CREATE),
        ("delete", Verbs::DELETE),
        ("deletecollection", Verbs::DELETE_COLLECTION),
        ("get", Verbs::GET),
        ("list", Verbs::LIST),
        ("patch", Verbs::PATCH),
        ("update", Verbs::UPDATE),
        ("watch", Verbs::WATCH),
    ];

    pub fn contains(self, other: Verbs) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(_, v)| self.contains(*v)).map(|(n, _)| *n)
    }

    pub fn parse(name: &str) -> Option<Verbs> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }
}

impl std::ops::BitOr for Verbs {
    type Output = Verbs;
    fn bitor(self, other: Verbs) -> Verbs {
        Verbs(self.0 | other.0)
    }
}
