//! Query and path parameters of requests.

use catalog::{Catalog, Shape, TypeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub name: &'static str,
    pub location: ParamIn,
    /// JSON schema type.
    pub ty: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamIn {
    Path,
    Query,
}

impl ParamIn {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ParamIn::Path => "path",
            ParamIn::Query => "query",
        }
    }
}

const fn query(name: &'static str, ty: &'static str) -> Param {
    Param { name, location: ParamIn::Query, ty }
}

pub(crate) const NAME: Param = Param { name: "name", location: ParamIn::Path, ty: "string" };
pub(crate) const NAMESPACE: Param = Param { name: "namespace", location: ParamIn::Path, ty: "string" };
pub(crate) const PATH: Param = Param { name: "path", location: ParamIn::Path, ty: "string" };
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

/// Deleting a collection takes the parameters of a list, except `watch`, and those of a delete.
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
            // `sinceTime` of logs is accepted, but not documented.
            Shape::Time => return None,
            // The list of ports is a parameter that may be repeated.
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

/// Both, by name; a path parameter precedes a query parameter of the same name.
pub(crate) fn sorted(a: &[Param], b: &[Param]) -> Vec<Param> {
    let mut all: Vec<Param> = a.iter().chain(b).copied().collect();
    all.sort_by_key(|p| (p.name, p.location == ParamIn::Query));
    all
}
