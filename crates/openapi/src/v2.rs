//! The Swagger 2.0 document as JSON.

use catalog::Catalog;

use crate::json::Json;
use crate::paths::{self, Answer, Operation, Param, PathItem, Place, phrase};
use crate::schemas::{self, Kind, Node, Target};
use crate::v3::extensions;

/// What the document is made of, for both of its encodings.
pub(crate) struct Parts {
    pub items: Vec<PathItem>,
    pub definitions: std::collections::BTreeMap<String, Node>,
    /// Parameters that operations refer to by name.
    pub shared: Vec<Param>,
}

pub(crate) fn parts(catalog: &Catalog) -> Parts {
    let items = paths::all(catalog);
    let operations = || items.iter().flat_map(|i| &i.operations);
    let targets: Vec<Target> = operations().flat_map(|(_, op)| op.targets().collect::<Vec<_>>()).collect();
    let groups: Vec<(String, String)> = catalog
        .groups()
        .iter()
        .flat_map(|g| g.versions.iter().map(move |v| (g.name.to_string(), v.to_string())))
        .collect();
    let definitions = schemas::reachable(catalog, targets, &groups);
    let mut shared: Vec<Param> = Vec::new();
    let lists = items.iter().map(|i| &i.parameters).chain(operations().map(|(_, op)| &op.parameters));
    for p in lists.flatten() {
        if is_shared(p) && !shared.contains(p) {
            shared.push(*p);
        }
    }
    shared.sort_by_key(shared_name);
    Parts { items, definitions, shared }
}

/// Older clients look for `dryRun` and `fieldValidation` without following references, so these are written out.
pub(crate) fn is_shared(p: &Param) -> bool {
    !matches!(p.name, "dryRun" | "fieldValidation" | "name")
}

/// A shared parameter's name tells apart what only its place or type tells apart.
pub(crate) fn shared_name(p: &Param) -> String {
    format!("{}-{}-{}", p.name, place(p), p.ty)
}

pub(crate) fn place(p: &Param) -> &'static str {
    if p.place == Place::Path { "path" } else { "query" }
}

pub(crate) fn json(catalog: &Catalog) -> Vec<u8> {
    let parts = parts(catalog);
    let writer = Writer { catalog };
    let mut w = Json::new();
    w.object(|w| {
        w.key("definitions").object(|w| {
            for (name, definition) in &parts.definitions {
                w.key(name);
                writer.schema(w, definition);
            }
        });
        w.key("info").object(|w| {
            w.key("title").string("Kubernetes");
            w.key("version").string("unversioned");
        });
        w.key("parameters").object(|w| {
            for p in &parts.shared {
                w.key(&shared_name(p));
                parameter(w, p);
            }
        });
        w.key("paths").object(|w| {
            for item in &parts.items {
                w.key(&item.path).object(|w| writer.path(w, item));
            }
        });
        w.key("security").array(|w| w.object(|w| w.key("BearerToken").array(|_| ())));
        w.key("securityDefinitions").object(|w| {
            w.key("BearerToken").object(|w| {
                w.key("description").string("Bearer Token authentication");
                w.key("in").string("header");
                w.key("name").string("authorization");
                w.key("type").string("apiKey");
            });
        });
        w.key("swagger").string("2.0");
    });
    w.finish()
}

struct Writer<'a> {
    catalog: &'a Catalog,
}

impl Writer<'_> {
    fn schema(&self, w: &mut Json, node: &Node) {
        w.object(|w| {
            match &node.kind {
                Kind::Ref(target) => self.reference(w, *target),
                Kind::Map(element) => {
                    w.key("additionalProperties");
                    self.schema(w, element);
                }
                _ => {}
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
            if let Some(ty) = type_of(node) {
                w.key("type").string(ty);
            }
            for (name, value) in &node.extensions {
                w.key(name).raw(value);
            }
        });
    }

    fn reference(&self, w: &mut Json, target: Target) {
        w.key("$ref").string(&format!("#/definitions/{}", schemas::name(self.catalog, target)));
    }

    fn path(&self, w: &mut Json, item: &PathItem) {
        let (before, after): (Vec<_>, Vec<_>) =
            item.operations.iter().partition(|(method, _)| method.name() < "parameters");
        before.into_iter().for_each(|(method, op)| self.operation(w.key(method.name()), op));
        if !item.parameters.is_empty() {
            w.key("parameters").array(|w| item.parameters.iter().for_each(|p| reference_or_parameter(w, p)));
        }
        after.into_iter().for_each(|(method, op)| self.operation(w.key(method.name()), op));
    }

    fn operation(&self, w: &mut Json, op: &Operation) {
        w.object(|w| {
            if !consumes(op).is_empty() {
                w.key("consumes").strings(consumes(op).iter().copied());
            }
            w.key("operationId").string(&op.id);
            if op.body.is_some() || !op.parameters.is_empty() {
                w.key("parameters").array(|w| {
                    if let Some(body) = op.body {
                        w.object(|w| {
                            w.key("in").string("body");
                            w.key("name").string("body");
                            if body.required() {
                                w.key("required").bool(true);
                            }
                            w.key("schema").object(|w| self.reference(w, body.target()));
                        });
                    }
                    op.parameters.iter().for_each(|p| reference_or_parameter(w, p));
                });
            }
            w.key("produces").strings(op.produces.types().iter().copied());
            w.key("responses").object(|w| {
                for (code, answer) in &op.answers {
                    w.key(&code.to_string()).object(|w| {
                        w.key("description").string(phrase(*code));
                        w.key("schema").object(|w| match answer {
                            Answer::Is(target) => self.reference(w, *target),
                            Answer::Text => w.key("type").string("string"),
                        });
                    });
                }
                w.key("401").object(|w| w.key("description").string(phrase(401)));
            });
            w.key("schemes").strings(["https"]);
            w.key("tags").strings([op.tag.as_str()]);
            extensions(w, op);
        });
    }
}

/// The `type` of a schema; where v3 has alternatives, v2 says string.
pub(crate) fn type_of(node: &Node) -> Option<&'static str> {
    match &node.kind {
        Kind::Scalar(ty, _) => Some(ty),
        Kind::OneOf(..) => Some("string"),
        Kind::Array(_) => Some("array"),
        Kind::Map(_) | Kind::Object { .. } => Some("object"),
        Kind::Ref(_) | Kind::Any => None,
    }
}

pub(crate) fn consumes(op: &Operation) -> &'static [&'static str] {
    op.body.map_or(op.consumes, |b| b.consumes())
}

fn reference_or_parameter(w: &mut Json, p: &Param) {
    if is_shared(p) {
        w.object(|w| w.key("$ref").string(&format!("#/parameters/{}", shared_name(p))));
    } else {
        parameter(w, p);
    }
}

fn parameter(w: &mut Json, p: &Param) {
    w.object(|w| {
        w.key("in").string(place(p));
        w.key("name").string(p.name);
        if p.place == Place::Path {
            w.key("required").bool(true);
        }
        w.key("type").string(p.ty);
        w.key("uniqueItems").bool(true);
    });
}
