//! OpenAPI 3.0 documents as JSON.

use std::collections::BTreeMap;

use catalog::Catalog;

use crate::json::Json;
use crate::names;
use crate::paths::{self, Answer, Body, Operation, Param, PathItem, Place, phrase};
use crate::schemas::{self, Kind, Node, Target};

/// What the documents are of: `api/v1`, `apis/apps`, `apis/apps/v1`, in alphabetical order.
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

/// What a document says, before it is written down.
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
    let targets: Vec<Target> = items
        .iter()
        .flat_map(|i| &i.operations)
        .flat_map(|(_, op)| op.targets().collect::<Vec<_>>())
        .collect();
    let definitions = schemas::reachable(catalog, targets, &groups);
    Some(Parts { items, definitions })
}

pub(crate) fn document(catalog: &Catalog, path: &str) -> Option<Vec<u8>> {
    let Parts { items, definitions } = parts(catalog, path)?;
    let writer = Writer { catalog };
    let mut w = Json::new();
    w.object(|w| {
        w.key("components").object(|w| {
            w.key("schemas").object(|w| {
                for (name, definition) in &definitions {
                    w.key(name);
                    writer.schema(w, definition);
                }
            });
            w.key("securitySchemes").object(|w| {
                w.key("BearerToken").object(|w| {
                    w.key("description").string("Bearer Token authentication");
                    w.key("in").string("header");
                    w.key("name").string("authorization");
                    w.key("type").string("apiKey");
                });
            });
        });
        w.key("info").object(|w| {
            w.key("title").string("Kubernetes");
            w.key("version").string("unversioned");
        });
        w.key("openapi").string("3.0.0");
        w.key("paths").object(|w| {
            for item in &items {
                w.key(&item.path);
                writer.path(w, item);
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

struct Writer<'a> {
    catalog: &'a Catalog,
}

impl Writer<'_> {
    fn schema(&self, w: &mut Json, node: &Node) {
        let bare = node.default.is_none() && node.extensions.is_empty();
        w.object(|w| {
            match &node.kind {
                // A `$ref` hides what stands beside it, so with company it goes into an `allOf`.
                Kind::Ref(target) if bare => self.reference(w, *target),
                Kind::Ref(target) => w.key("allOf").array(|w| w.object(|w| self.reference(w, *target))),
                Kind::Map(element) => {
                    w.key("additionalProperties");
                    self.schema(w, element);
                }
                _ => {}
            }
            if let Some(default) = &node.default {
                w.key("default").raw(default);
            }
            if !node.values.is_empty() {
                w.key("enum").strings(node.values.iter().map(String::as_str));
            }
            if let Kind::Scalar(_, Some(format)) | Kind::OneOf(Some(format), _) = &node.kind {
                w.key("format").string(format);
            }
            match &node.kind {
                Kind::Array(element) => {
                    w.key("items");
                    self.schema(w, element);
                }
                Kind::OneOf(_, types) => {
                    w.key("oneOf")
                        .array(|w| types.iter().for_each(|t| w.object(|w| w.key("type").string(t))));
                }
                Kind::Object { properties, required } => {
                    if !properties.is_empty() {
                        w.key("properties").object(|w| {
                            for (name, property) in properties {
                                w.key(name);
                                self.schema(w, property);
                            }
                        });
                    }
                    if !required.is_empty() {
                        w.key("required").strings(required.iter().map(String::as_str));
                    }
                }
                _ => {}
            }
            match &node.kind {
                Kind::Scalar(ty, _) => w.key("type").string(ty),
                Kind::Array(_) => w.key("type").string("array"),
                Kind::Map(_) | Kind::Object { .. } => w.key("type").string("object"),
                Kind::Ref(_) | Kind::Any | Kind::OneOf(..) => {}
            }
            for (name, value) in &node.extensions {
                w.key(name).raw(value);
            }
        });
    }

    fn reference(&self, w: &mut Json, target: Target) {
        w.key("$ref").string(&format!("#/components/schemas/{}", schemas::name(self.catalog, target)));
    }

    fn path(&self, w: &mut Json, item: &PathItem) {
        w.object(|w| {
            // "parameters" stands among the methods in alphabetical order: before "patch".
            let (before, after): (Vec<_>, Vec<_>) =
                item.operations.iter().partition(|(method, _)| method.name() < "parameters");
            before.into_iter().for_each(|(method, op)| self.operation(w.key(method.name()), op));
            parameters(w, &item.parameters);
            after.into_iter().for_each(|(method, op)| self.operation(w.key(method.name()), op));
        });
    }

    fn operation(&self, w: &mut Json, op: &Operation) {
        w.object(|w| {
            w.key("operationId").string(&op.id);
            parameters(w, &op.parameters);
            if let Some(body) = op.body {
                w.key("requestBody").object(|w| self.body(w, body));
            }
            w.key("responses").object(|w| {
                for (code, answer) in &op.answers {
                    w.key(&code.to_string()).object(|w| {
                        w.key("content").object(|w| {
                            for ty in op.produces.types() {
                                w.key(ty).object(|w| self.answer(w, *answer));
                            }
                        });
                        w.key("description").string(phrase(*code));
                    });
                }
                w.key("401").object(|w| w.key("description").string(phrase(401)));
            });
            w.key("tags").strings([op.tag.as_str()]);
            extensions(w, op);
        });
    }

    fn body(&self, w: &mut Json, body: Body) {
        w.key("content").object(|w| {
            for ty in body.consumes() {
                w.key(ty).object(|w| w.key("schema").object(|w| self.reference(w, body.target())));
            }
        });
        if body.required() {
            w.key("required").bool(true);
        }
    }

    fn answer(&self, w: &mut Json, answer: Answer) {
        w.key("schema").object(|w| match answer {
            Answer::Is(target) => self.reference(w, target),
            Answer::Text => w.key("type").string("string"),
        });
    }
}

fn parameters(w: &mut Json, all: &[Param]) {
    if all.is_empty() {
        return;
    }
    w.key("parameters").array(|w| {
        for p in all {
            w.object(|w| {
                w.key("in").string(if p.place == Place::Path { "path" } else { "query" });
                w.key("name").string(p.name);
                if p.place == Place::Path {
                    w.key("required").bool(true);
                }
                w.key("schema").object(|w| {
                    w.key("type").string(p.ty);
                    w.key("uniqueItems").bool(true);
                });
            });
        }
    });
}

/// What Kubernetes' clients look for on an operation; the same in v2.
pub(crate) fn extensions(w: &mut Json, op: &Operation) {
    if let Some(action) = op.action {
        w.key("x-kubernetes-action").string(action);
    }
    if let Some([group, version, kind]) = &op.gvk {
        w.key("x-kubernetes-group-version-kind").object(|w| {
            w.key("group").string(group);
            w.key("kind").string(kind);
            w.key("version").string(version);
        });
    }
}
