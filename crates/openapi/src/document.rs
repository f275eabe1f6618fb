//! Common parts of the JSON documents of both versions: schemas, paths, security.

use std::collections::BTreeMap;

use crate::Documents;
use crate::custom::Publisher;
use crate::json::Json;
use crate::paths::{Operation, Param, ParamIn, PathItem};
use crate::schemas::{self, Definition, Kind, Node, Target};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V2,
    V3,
}

impl Version {
    /// The text of a `$ref` to the definition of that name.
    pub(crate) fn reference(self, name: &str) -> String {
        let section = match self {
            Version::V2 => "definitions",
            Version::V3 => "components/schemas",
        };
        format!("#/{section}/{name}")
    }
}

pub(crate) struct Writer<'a> {
    pub of: Documents<'a>,
    pub version: Version,
}

impl<'a> Writer<'a> {
    pub(crate) fn publisher(&self) -> Publisher<'a> {
        Publisher { catalog: self.of.catalog, custom: self.of.custom, version: self.version }
    }

    pub(crate) fn definitions(&self, w: &mut Json, all: &BTreeMap<String, Definition>) {
        w.object(|w| {
            for (name, definition) in all {
                match definition {
                    Definition::Node(node) => self.schema(w.key(name), node),
                    Definition::Custom(custom) => {
                        w.key(name).value(&self.publisher().definition(*custom));
                    }
                }
            }
        });
    }

    fn properties(&self, w: &mut Json, all: &BTreeMap<String, Node>) {
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
            if let Some(description) = node.description {
                w.key("description").string(description);
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
                        self.properties(w.key("properties"), properties);
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
        w.key("$ref").string(&self.reference_text(target));
    }

    /// The text of a `$ref`.
    pub(crate) fn reference_text(&self, target: Target) -> String {
        self.version.reference(&schemas::name(self.of.catalog, target))
    }
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

/// Title and version of the API, as in kube-apiserver.
pub(crate) const INFO: (&str, &str) = ("Kubernetes", "1.36");

pub(crate) fn info(w: &mut Json, (title, version): (&str, &str)) {
    w.key("info").object(|w| {
        w.key("title").string(title);
        w.key("version").string(version);
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
