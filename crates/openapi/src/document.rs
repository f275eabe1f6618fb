//! Common parts of the JSON documents of both versions: schemas, paths, security.

use std::collections::BTreeMap;

use catalog::Catalog;

use crate::json::Json;
use crate::paths::{Operation, Param, ParamIn, PathItem};
use crate::schemas::{self, Kind, Node, Target};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V2,
    V3,
}

pub(crate) struct Writer<'a> {
    pub catalog: &'a Catalog,
    pub version: Version,
}

impl Writer<'_> {
    pub(crate) fn definitions(&self, w: &mut Json, all: &BTreeMap<String, Node>) {
        w.object(|w| {
            for (name, node) in all {
                self.schema(w.key(name), node);
            }
        });
    }

    fn schema(&self, w: &mut Json, node: &Node) {
        let v3 = self.version == Version::V3;
        w.object(|w| {
            match &node.kind {
                // A `$ref` hides its siblings, so if it has any it goes into an `allOf`.
                Kind::Ref(target) if v3 && !node.is_bare() => {
                    w.key("allOf").array(|w| w.object(|w| self.reference(w, *target)));
                }
                Kind::Ref(target) => self.reference(w, *target),
                Kind::Map(element) => self.schema(w.key("additionalProperties"), element),
                _ => {}
            }
            if let Some(default) = node.default.as_ref().filter(|_| v3) {
                w.key("default").raw(default);
            }
            if !node.values.is_empty() {
                w.key("enum").strings(node.values.iter().map(String::as_str));
            }
            if let Kind::Scalar(_, Some(format)) | Kind::OneOf(Some(format), _) = &node.kind {
                w.key("format").string(format);
            }
            match &node.kind {
                Kind::Array(element) => self.schema(w.key("items"), element),
                Kind::OneOf(_, types) if v3 => {
                    w.key("oneOf")
                        .array(|w| types.iter().for_each(|t| w.object(|w| w.key("type").string(t))));
                }
                Kind::Object { properties, required } => {
                    if !properties.is_empty() {
                        self.definitions(w.key("properties"), properties);
                    }
                    if !required.is_empty() {
                        w.key("required").strings(required.iter().map(String::as_str));
                    }
                }
                _ => {}
            }
            if let Some(ty) = node.type_name(self.version) {
                w.key("type").string(ty);
            }
            extensions(w, &node.extensions);
        });
    }

    pub(crate) fn reference(&self, w: &mut Json, target: Target) {
        w.key("$ref").string(&reference(self.catalog, self.version, target));
    }
}

/// The text of a `$ref`.
pub(crate) fn reference(catalog: &Catalog, version: Version, target: Target) -> String {
    let section = match version {
        Version::V2 => "definitions",
        Version::V3 => "components/schemas",
    };
    format!("#/{section}/{}", schemas::name(catalog, target))
}

/// "parameters" is sorted among the methods: before "patch".
pub(crate) fn path(
    w: &mut Json,
    item: &PathItem,
    operation: impl Fn(&mut Json, &Operation),
    parameter: impl Fn(&mut Json, &Param),
) {
    w.object(|w| {
        let (before, after): (Vec<_>, Vec<_>) =
            item.operations.iter().partition(|(method, _)| method.name() < "parameters");
        before.into_iter().for_each(|(method, op)| operation(w.key(method.name()), op));
        if !item.parameters.is_empty() {
            w.key("parameters").array(|w| item.parameters.iter().for_each(|p| parameter(w, p)));
        }
        after.into_iter().for_each(|(method, op)| operation(w.key(method.name()), op));
    });
}

/// `ty` is its type: a sibling of the other members in v2, in a schema of its own in v3.
pub(crate) fn parameter(w: &mut Json, p: &Param, ty: impl FnOnce(&mut Json)) {
    w.object(|w| {
        w.key("in").string(p.location.name());
        w.key("name").string(p.name);
        if p.location == ParamIn::Path {
            w.key("required").bool(true);
        }
        ty(w);
    });
}

pub(crate) fn parameter_type(w: &mut Json, p: &Param) {
    w.key("type").string(p.ty);
    w.key("uniqueItems").bool(true);
}

pub(crate) fn info(w: &mut Json) {
    w.key("info").object(|w| {
        w.key("title").string("Kubernetes");
        w.key("version").string(crate::API_VERSION);
    });
}

pub(crate) fn security(w: &mut Json) {
    w.object(|w| {
        w.key("BearerToken").object(|w| {
            w.key("description").string("Bearer Token authentication");
            w.key("in").string("header");
            w.key("name").string("authorization");
            w.key("type").string("apiKey");
        });
    });
}

/// Each with its value as JSON text.
pub(crate) fn extensions(w: &mut Json, all: &[(&'static str, String)]) {
    all.iter().for_each(|(name, value)| w.key(name).raw(value));
}
