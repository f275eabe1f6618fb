//! OpenAPI 3.0 documents as JSON.

use std::collections::BTreeMap;

use catalog::Catalog;

use crate::document::{self, Version, Writer};
use crate::json::Json;
use crate::names;
use crate::paths::{self, Answer, Body, Operation, Param, PathItem, in_order, phrase};
use crate::schemas::{self, Node};

/// The entries of the index: `api/v1`, `apis/apps`, `apis/apps/v1`, in alphabetical order.
pub(crate) fn entries(catalog: &Catalog) -> Vec<String> {
    let mut all: Vec<String> = paths::ROOTS.map(str::to_owned).to_vec();
    for g in catalog.groups() {
        if !g.name.is_empty() {
            all.push(format!("apis/{}", g.name));
        }
        all.extend(g.versions.iter().map(|v| names::path(&g.name, v)));
    }
    all.sort();
    all
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
    pub definitions: BTreeMap<String, Node>,
}

pub(crate) fn parts(catalog: &Catalog, path: &str) -> Option<Parts> {
    let (group, items) = match group_version(catalog, path) {
        Some((group, version)) => {
            ((group.to_owned(), version.to_owned()), paths::of_group_version(catalog, group, version))
        }
        None => ((String::new(), "v1".to_owned()), paths::of_discovery(catalog, path)?),
    };
    let core = (String::new(), "v1".to_owned());
    let groups = if group == core { vec![core] } else { vec![core, group] };
    let definitions = schemas::reachable(catalog, &items, &groups);
    Some(Parts { items, definitions })
}

pub(crate) fn document(catalog: &Catalog, path: &str) -> Option<Vec<u8>> {
    let Parts { items, definitions } = parts(catalog, path)?;
    let writer = Writer { catalog, version: Version::V3 };
    let mut w = Json::new();
    w.object(|w| {
        w.key("components").object(|w| {
            if !definitions.is_empty() {
                writer.definitions(w.key("schemas"), &definitions);
            }
            document::security(w.key("securitySchemes"));
        });
        document::info(w);
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
        if let Some(body) = op.body {
            w.key("requestBody").object(|w| request_body(w, writer, body));
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

fn request_body(w: &mut Json, writer: &Writer<'_>, body: Body) {
    w.key("content").object(|w| {
        for ty in in_order(body.consumes()) {
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
