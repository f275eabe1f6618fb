//! OpenAPI 3.0 documents as JSON.

use std::collections::BTreeMap;

use catalog::Catalog;

use crate::Documents;
use crate::document::{self, Version, Writer};
use crate::json::Json;
use crate::names;
use crate::paths::{self, Answer, Operation, Param, PathItem, in_order, phrase};
use crate::schemas::{self, Definition};
use crate::v2::client_groups;

/// The entries of the index, `api/v1`, `apis/apps`, `apis/apps/v1`, each with the indices of its custom resources in the
/// catalogue.
pub(crate) fn entries(catalog: &Catalog) -> BTreeMap<String, Vec<usize>> {
    let mut all: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for path in paths::ROOTS {
        all.entry(path.to_owned()).or_default();
    }
    for (i, r) in catalog.resources().iter().enumerate() {
        let entry = all.entry(names::path(&r.group, &r.version)).or_default();
        if r.custom {
            entry.push(i);
        } else if !r.group.is_empty() {
            all.entry(format!("apis/{}", r.group)).or_default();
        }
    }
    all
}

/// One of [`entries`].
pub(crate) fn entry(catalog: &Catalog, path: &str) -> Option<Vec<usize>> {
    let Some((group, version)) = group_version(catalog, path) else {
        return paths::of_discovery(catalog, path).map(|_| Vec::new());
    };
    let all = catalog.resources().iter().enumerate();
    let custom = all.filter(|(_, r)| r.custom && r.group == *group && r.version == *version);
    Some(custom.map(|(i, _)| i).collect())
}

pub(crate) fn index(hashes: &BTreeMap<String, String>) -> Vec<u8> {
    let mut w = Json::new();
    w.object(|w| {
        w.key("paths").object(|w| {
            for (path, hash) in hashes {
                w.key(path).object(|w| {
                    w.key("serverRelativeURL").string(&format!("/openapi/v3/{path}?hash={hash}"));
                });
            }
        });
    });
    w.finish()
}

/// The content of a document, before it is encoded.
pub(crate) struct Parts {
    pub items: Vec<PathItem>,
    pub definitions: BTreeMap<String, Definition>,
    pub style: Style,
}

/// Upstream builds documents of built-in and of custom resources differently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    BuiltIn,
    Custom,
}

impl Style {
    /// Title and version of the API.
    pub(crate) fn info(self) -> (&'static str, &'static str) {
        match self {
            Style::BuiltIn => document::INFO,
            Style::Custom => ("Kubernetes CRD Swagger", "v0.1.0"),
        }
    }

    pub(crate) fn has_security(self) -> bool {
        self == Style::BuiltIn
    }
}

pub(crate) fn parts(catalog: &Catalog, path: &str) -> Option<Parts> {
    let core = || (String::new(), "v1".to_owned());
    let mut style = Style::BuiltIn;
    let (groups, items) = match group_version(catalog, path) {
        Some((group, version)) => {
            if catalog.resources_of(group, version).all(|r| r.custom) {
                style = Style::Custom;
            }
            let own = (group.to_owned(), version.to_owned());
            let groups = match style {
                Style::Custom => client_groups(catalog),
                Style::BuiltIn if own == core() => vec![own],
                Style::BuiltIn => vec![core(), own],
            };
            (groups, paths::of_group_version(catalog, group, version))
        }
        None => (vec![core()], paths::of_discovery(catalog, path)?),
    };
    let operations = items.iter().flat_map(|item| &item.operations);
    let targets = operations.flat_map(|(_, op)| op.targets()).collect();
    let definitions = schemas::reachable(catalog, targets, &groups);
    Some(Parts { items, definitions, style })
}

pub(crate) fn document(of: Documents<'_>, path: &str) -> Option<Vec<u8>> {
    let Parts { items, definitions, style } = parts(of.catalog, path)?;
    let writer = Writer { of, version: Version::V3 };
    let mut w = Json::new();
    w.object(|w| {
        w.key("components").object(|w| {
            if !definitions.is_empty() {
                writer.definitions(w.key("schemas"), &definitions);
            }
            if style.has_security() {
                document::security(w.key("securitySchemes"));
            }
        });
        document::info(w, style.info());
        w.key("openapi").string("3.0.0");
        w.key("paths").object(|w| {
            for item in &items {
                let write = |w: &mut Json, op: &Operation| operation(w, &writer, op);
                document::path(w.key(&item.path), item, write, parameter);
            }
        });
    });
    Some(w.finish())
}

/// The served group and version of `api/v1` or `apis/apps/v1`.
fn group_version<'a>(catalog: &Catalog, path: &'a str) -> Option<(&'a str, &'a str)> {
    let (group, version) = match path.strip_prefix("apis/") {
        Some(rest) => rest.split_once('/').filter(|(group, _)| !group.is_empty())?,
        None => ("", path.strip_prefix("api/")?),
    };
    let served = catalog.groups().iter().find(|g| g.name == *group)?;
    served.versions.iter().any(|v| *v == *version).then_some((group, version))
}

fn operation(w: &mut Json, writer: &Writer<'_>, op: &Operation) {
    w.object(|w| {
        w.key("operationId").string(&op.id);
        if !op.parameters.is_empty() {
            w.key("parameters").array(|w| op.parameters.iter().for_each(|p| parameter(w, p)));
        }
        if op.body.is_some() {
            w.key("requestBody").object(|w| request_body(w, writer, op));
        }
        w.key("responses").object(|w| {
            for (code, answer) in &op.answers {
                w.key(&code.to_string()).object(|w| {
                    w.key("content").object(|w| {
                        for ty in in_order(op.produces.types()) {
                            w.key(ty).object(|w| content(w, writer, *answer));
                        }
                    });
                    w.key("description").string(phrase(*code));
                });
            }
            w.key("401").object(|w| w.key("description").string(phrase(401)));
        });
        w.key("tags").strings([op.tag.as_str()]);
        document::extensions(w, &op.extensions());
    });
}

fn request_body(w: &mut Json, writer: &Writer<'_>, op: &Operation) {
    let Some(body) = op.body else { return };
    w.key("content").object(|w| {
        for ty in in_order(op.consumes) {
            w.key(ty).object(|w| w.key("schema").object(|w| writer.reference(w, body.target())));
        }
    });
    if body.required() {
        w.key("required").bool(true);
    }
}

fn content(w: &mut Json, writer: &Writer<'_>, answer: Answer) {
    w.key("schema").object(|w| match answer {
        Answer::Is(target) => writer.reference(w, target),
        Answer::Text => w.key("type").string("string"),
    });
}

fn parameter(w: &mut Json, p: &Param) {
    document::parameter(w, p, |w| w.key("schema").object(|w| document::parameter_type(w, p)));
}
