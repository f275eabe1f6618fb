//! One trait for everyone who uses the API: a controller, the scheduler, a node, a user's operator.
//!
//! ```text
//!                              ┌─ in process: apiserver's LocalClient, no serialization, its own identity
//! controller ── dyn Client ────┤
//!                              └─ over HTTP: client-http's HttpClient, any cluster
//! ```
//! Bodies are trees ([`object::Value`]), answers are objects ([`Obj`]: bytes and a header, shared), refusals are
//! [`Status`]es. A body may leave out its kind and apiVersion: they follow from the resource it is written to. Ask for the version a resource is stored in ([`resources`] names it): in process nothing is converted.

mod body;
pub mod resources;

use std::sync::Arc;

use catalog::{Catalog, Name, Resource, Verbs};
use futures_util::future::BoxFuture;

pub use body::{with_applied_type, with_type};
// What calls are made of, for those who need no more than a client.
pub use object::{
    DeleteOptions, FieldValidation, ListOptions, Map, Obj, Patch, Preconditions, Propagation, Revision,
    Status, Value, WriteOptions,
};

/// What a call comes to, later.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Status>>;

/// A served resource by group, version and plural: one of [`resources`], or one that came while the program runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvr {
    /// "" for the core group.
    pub group: Name,
    pub version: Name,
    pub plural: Name,
}

/// Where a call goes.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub resource: &'a Gvr,
    /// Empty for cluster-scoped resources, and for all namespaces.
    pub namespace: &'a str,
    /// Empty for lists, watches and creates.
    pub name: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Answers are PartialObjectMetadata: for those who need no more of an object, of any resource. Nobody can write one back by
    /// mistake, since that is another kind.
    pub metadata_only: bool,
}

impl Gvr {
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Gvr {
        Gvr { group: Name::Static(group), version: Name::Static(version), plural: Name::Static(plural) }
    }
    /// One object; `namespace` is empty where there are none.
    pub fn at<'a>(&'a self, namespace: &'a str, name: &'a str) -> Target<'a> {
        Target { resource: self, namespace, name, subresource: "", metadata_only: false }
    }
    /// The very object, by its own name.
    pub fn of<'a>(&'a self, obj: &'a Obj) -> Target<'a> {
        self.at(obj.namespace(), obj.name())
    }
    pub fn within<'a>(&'a self, namespace: &'a str) -> Target<'a> {
        self.at(namespace, "")
    }
    pub fn everywhere(&self) -> Target<'_> {
        self.at("", "")
    }
    /// Its definition; `None`: it is not served (any more).
    pub fn find<'a>(&self, catalog: &'a Catalog) -> Option<&'a Arc<Resource>> {
        catalog.find(&self.group, &self.version, &self.plural)
    }
    /// Where objects of the resource keep a selectable field ([`Obj::field`]), which is known without reading them; `None`: nobody can
    /// select by it. It holds for this catalogue only, unless the resource is built in: those stay as they are.
    pub fn field(&self, catalog: &Catalog, name: &str) -> Option<usize> {
        catalog.find_storage(&self.group, &self.plural)?.selectable_at(name)
    }
}

impl AggregatedResource {
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.resource.group, self.resource.version)
    }
}

impl From<&Resource> for Gvr {
    fn from(resource: &Resource) -> Gvr {
        Gvr {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
        }
    }
}

impl<'a> Target<'a> {
    #[allow(clippy::should_implement_trait, reason = "short for subresource; nothing is subtracted")]
    pub fn sub(self, subresource: &'a str) -> Target<'a> {
        Target { subresource, ..self }
    }
    pub fn metadata(self) -> Target<'a> {
        Target { metadata_only: true, ..self }
    }
}

/// How a watch begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    pub label_selector: String,
    pub field_selector: String,
    /// Changes after this; with `initial_events`, a state not older than this first.
    pub resource_version: String,
    /// The state as `Added`, then a bookmark with `initial_events_end`, then changes.
    pub initial_events: bool,
    /// 0: as long as the server likes.
    pub timeout_seconds: u64,
}

/// Part of a resource.
#[derive(Clone)]
pub struct List {
    pub items: Vec<Arc<Obj>>,
    pub revision: Revision,
    /// Empty: that was all.
    pub continue_token: String,
}

#[derive(Clone)]
pub enum Event {
    Added(Arc<Obj>),
    Modified(Arc<Obj>),
    Deleted(Arc<Obj>),
    /// Everything up to here was sent.
    Bookmark {
        revision: Revision,
        initial_events_end: bool,
    },
}

/// Resources of aggregated API servers. They are used like any other; what is not an object of theirs is asked for by its path
/// ([`Client::get_raw`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregated {
    /// The preferred version of a group first.
    pub resources: Vec<AggregatedResource>,
    /// Group versions whose servers could not be asked.
    pub stale: Vec<String>,
}

impl Aggregated {
    /// Whether the server of a resource could not be asked.
    pub fn is_stale(&self, resource: &Gvr) -> bool {
        self.stale.iter().any(|stale| {
            stale
                .split_once('/')
                .is_some_and(|(group, version)| resource.group == *group && resource.version == *version)
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedResource {
    pub resource: Gvr,
    pub kind: Name,
    pub namespaced: bool,
    pub verbs: Verbs,
}

/// A watch under way.
pub trait Watch: Send {
    /// Waits for something to happen and appends all there is; `false`: the watch is over, in good order.
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool>;
}

/// The API as one identity sees it. Writes that name no field manager are made under the client's own ([`Clients`]).
pub trait Client: Send + Sync {
    /// What is served now, as far as that is known. Resources come and go, and each change makes another catalogue: ask again with
    /// each use. A resource that is not there can be used all the same: the server decides.
    fn catalog(&self) -> Arc<Catalog>;
    /// The same, after asking the server: over HTTP a client knows the built-in resources and those it used before. For those who work
    /// on whatever is served.
    fn discover(&self) -> Answer<'_, Arc<Catalog>> {
        let catalog = self.catalog();
        Box::pin(async move { Ok(catalog) })
    }

    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>>;
    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List>;
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>>;

    fn create<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>>;
    /// Replaces the object (or its `status`), provided that it is at the resourceVersion the body names.
    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>>;
    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>>;
    /// Server-side apply: the fields that `config` names get its values, and those that only an earlier apply under this field manager
    /// named go; an object that is not there is created. Fields of other managers are a conflict (409), unless `options.force` takes
    /// them over. Name every field that is yours with every apply, and no other: a controller that forces needs no version, and does
    /// not read before it writes. The config may leave out its type and name. Of `status` and `scale` it is the same.
    fn apply<'a>(
        &'a self,
        target: Target<'a>,
        config: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        self.patch(target, Patch::Apply(config), options)
    }
    /// Begins a deletion; the object may live on until its finalizers are gone.
    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()>;
    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()>;
    /// Carries something out: `binding`, `eviction`.
    fn act<'a>(&'a self, target: Target<'a>, body: Value, options: WriteOptions<'a>) -> Answer<'a, ()>;

    /// Asks what is answered and not stored, such as a SubjectAccessReview, or a TokenRequest (`token` of a ServiceAccount); the answer
    /// is the review with its status.
    fn review<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Value> {
        let _ = (target, body);
        Box::pin(async { Err(Status::no_such_resource()) })
    }

    /// GET of a path below `/apis`, with its query: what leads to no object of the catalogue, such as metrics. The answer is not kept, and
    /// is as fresh as its server likes.
    fn get_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        let _ = path;
        Box::pin(async { Err(Status::no_such_resource()) })
    }

    /// DELETE of such a path.
    fn delete_raw<'a>(&'a self, path: &'a str) -> Answer<'a, Value> {
        let _ = path;
        Box::pin(async { Err(Status::no_such_resource()) })
    }

    /// What other servers serve through this one, as far as they told, and it is in no catalogue.
    fn aggregated(&self) -> Aggregated {
        Aggregated::default()
    }

    /// Who wrote a revision, where that is still known: for people who ask why a controller did something.
    fn writer(&self, revision: Revision) -> Option<Name> {
        let _ = revision;
        None
    }
}

/// Gives each controller a client with its own identity and field manager.
pub trait Clients: Send + Sync {
    /// The service account of that name in kube-system; its field manager is [`CONTROLLERS`].
    fn controller(&self, name: &str) -> Arc<dyn Client>;
    /// A user by name and groups: a node, the scheduler. The field manager is [`field_manager_of`] that user.
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client>;
    /// Clients fenced by a Lease: their writes are refused once it names another holder. What a leader writes with. `None` where the
    /// server cannot fence; a leader then has to stop in time, as everywhere.
    fn fenced(&self, _namespace: &str, _lease: &str, _holder: &str) -> Option<Arc<dyn Clients>> {
        None
    }
}

/// The field manager of all controllers: upstream's run in one program and are named after it, and tools tell users' fields from theirs
/// by that name.
pub const CONTROLLERS: &str = "kube-controller-manager";

/// The field manager of a component that is known by its user, as upstream's components call themselves.
pub fn field_manager_of(user: &str) -> &str {
    match user.strip_prefix("system:") {
        Some(node) if node.starts_with("node:") => "kubelet",
        Some(component) => component,
        None => user,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_manage_fields_under_upstreams_names() {
        let managers =
            [("system:node:sim-7", "kubelet"), ("system:kube-scheduler", "kube-scheduler"), ("jane", "jane")];
        for (user, manager) in managers {
            assert_eq!(field_manager_of(user), manager);
        }
    }
}
