//! Query and path parameters of requests.

use catalog::{Catalog, Shape, TypeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub name: &'static str,
    pub place: Place,
    /// JSON schema type.
    pub ty: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Query,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
        }
    }
}

const fn query(name: &'static str, ty: &'static str) -> Param {
    Param { name, place: Place::Query, ty }
}

pub(crate) const NAME: Param = Param { name: "name", place: Place::Path, ty: "string" };
pub(crate) const NAMESPACE: Param = Param { name: "namespace", place: Place::Path, ty: "string" };
pub(crate) const PATH: Param = Param { name: "path", place: Place::Path, ty: "string" };
pub(crate) const PRETTY: Param = query("pretty", "string");
const DRY_RUN: Param = query("dryRun", "string");
const FIELD_MANAGER: Param = query("fieldManager", "string");
/// kubectl looks for it on PATCH before it asks the server to validate fields.
const FIELD_VALIDATION: Param = query("fieldValidation", "string");

/// Of a custom resource.
pub(crate) const GET: &[Param] = &[query("resourceVersion", "string")];
pub(crate) const WRITE: &[Param] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
pub(crate) const PATCH: &[Param] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, query("force", "boolean")];
pub(crate) const DELETE: &[Param] = &[
    DRY_RUN,
    query("gracePeriodSeconds", "integer"),
    query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    query("orphanDependents", "boolean"),
    query("propagationPolicy", "string"),
];
/// `shardSelector` belongs to an alpha feature that is off: named, as upstream does, and without effect.
pub(crate) const LIST: &[Param] = &[
    query("allowWatchBookmarks", "boolean"),
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("shardSelector", "string"),
    query("timeoutSeconds", "integer"),
    query("watch", "boolean"),
];
/// The old watch paths take what lists take.
pub(crate) const WATCH: &[Param] = LIST;

/// Deleting a collection takes what a list takes, but the watch, and what a delete takes.
pub(crate) fn collection_delete() -> Vec<Param> {
    let list: Vec<Param> =
        LIST.iter().copied().filter(|p| !matches!(p.name, "watch" | "allowWatchBookmarks")).collect();
    sorted(DELETE, &list)
}

/// Options of a connection, as query parameters.
pub(crate) fn of_options(catalog: &Catalog, ty: TypeId) -> Vec<Param> {
    let fields = catalog.schema().get(ty).fields.iter();
    let own = fields.filter(|f| !matches!(f.name.as_str(), "kind" | "apiVersion"));
    own.filter_map(|f| {
        let ty = match &f.shape {
            Shape::Bool => "boolean",
            Shape::Int32 | Shape::Int64 => "integer",
            // `sinceTime` of logs is taken, but no document says so.
            Shape::Time => return None,
            // The list of ports is a parameter that may come several times.
            Shape::List(inner) if **inner == Shape::Int32 => "integer",
            _ => "string",
        };
        match &f.name {
            catalog::Name::Static(name) => Some(query(name, ty)),
            // Types made at run time have no connections.
            catalog::Name::Shared(_) => None,
        }
    })
    .collect()
}

/// Both, by name; a path parameter stands before a query parameter of the same name.
pub(crate) fn sorted(a: &[Param], b: &[Param]) -> Vec<Param> {
    let mut all: Vec<Param> = a.iter().chain(b).copied().collect();
    all.sort_by_key(|p| (p.name, p.place == Place::Query));
    all
}
