//! The published schema of a custom resource: the one in its CustomResourceDefinition, adapted to each OpenAPI version.
//!
//! ```text
//! openAPIV3Schema ── node ──> v3: as written, int-or-string expanded
//!                             v2: without what Swagger lacks, and without what kubectl's model of it cannot represent
//!                 ── root ──> with kind, apiVersion, metadata and the extensions Kubernetes' clients look for
//! ```

use catalog::{Catalog, Name, Resource};
use object::{Map, Value, deep};

use crate::document::Version;
use crate::schemas::{Custom, Special, Target, name};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// What `kubectl explain` says about the fields every object has, in upstream's words; some clients look for them.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values.";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase.";
const EMBEDDED_API_VERSION: &str =
    "apiVersion defines the versioned schema of this representation of an object.";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase.";
const METADATA: &str = "Standard object's metadata.";
const LIST_METADATA: &str = "Standard list metadata.";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Where the schemas of custom resources come from.
pub trait CustomSchemas: Sync {
    /// Identifies the version of the resource's definition: equal ones have equal schemas. Must be cheap.
    fn fingerprint(&self, resource: &Resource) -> String;

    /// The schema of that version; `None` if it has none.
    fn schema(&self, resource: &Resource) -> Option<CustomSchema>;
}

pub struct CustomSchema {
    /// `openAPIV3Schema`.
    pub schema: Value,
    /// `spec.preserveUnknownFields` of the definition.
    pub preserve_unknown_fields: bool,
}

/// For catalogues of built-in resources.
pub struct NoCustomSchemas;

impl CustomSchemas for NoCustomSchemas {
    fn fingerprint(&self, _: &Resource) -> String {
        String::new()
    }

    fn schema(&self, _: &Resource) -> Option<CustomSchema> {
        None
    }
}

/// Makes definitions of custom resources for one OpenAPI version.
#[derive(Clone, Copy)]
pub(crate) struct Publisher<'a> {
    pub catalog: &'a Catalog,
    pub custom: &'a dyn CustomSchemas,
    pub version: Version,
}

impl Publisher<'_> {
    /// The definition, with its members in alphabetical order.
    pub(crate) fn definition(self, custom: Custom) -> Value {
        let resource = custom.resource(self.catalog);
        let mut root = if custom.list { self.list(custom) } else { self.root(resource) };
        let gvk: Map = [
            ("group", resource.group.as_str()),
            ("kind", custom.kind(self.catalog)),
            ("version", &resource.version),
        ]
        .map(|(name, value)| (Name::Static(name), Value::from(value)))
        .into_iter()
        .collect();
        root.set("x-kubernetes-group-version-kind", vec![Value::from(gvk)]);
        let selectable = resource.field_labels.iter().filter(|(label, _)| !label.is_empty());
        let selectable: Vec<Value> =
            selectable.map(|(label, _)| member("fieldPath", Value::from(label.as_str()))).collect();
        if !selectable.is_empty() {
            root.set("x-kubernetes-selectable-fields", selectable);
        }
        let mut root = Value::from(root);
        sort(&mut root);
        root
    }

    fn root(self, resource: &Resource) -> Map {
        let object = || Map::from_iter([(Name::Static("type"), Value::from("object"))]);
        let Some(CustomSchema { schema, preserve_unknown_fields }) = self.custom.schema(resource) else {
            return object();
        };
        // kubectl refuses unknown fields of what has properties.
        if self.is_v2() && (preserve_unknown_fields || is_true(&schema, PRESERVE)) {
            return object();
        }
        let mut root = match self.node(&schema) {
            Value::Map(root) => root,
            _ => object(),
        };
        self.add_type_and_metadata(&mut root, API_VERSION, KIND);
        root
    }

    fn list(self, custom: Custom) -> Map {
        let kind = Target::Custom(Custom { list: false, ..custom });
        let plural = &custom.resource(self.catalog).plural;
        let items = [
            (Name::Static("description"), Value::from(format!("List of {plural}. More info: {CONVENTIONS}"))),
            (Name::Static("type"), Value::from("array")),
            (Name::Static("items"), self.reference(kind)),
        ];
        let mut properties = Map::default();
        properties.set("apiVersion", described_string(API_VERSION, "resources"));
        properties.set("items", Map::from_iter(items));
        properties.set("kind", described_string(KIND, "types-kinds"));
        properties.set("metadata", self.metadata("meta.v1.ListMeta", LIST_METADATA, "types-kinds"));
        let mut list = Map::default();
        let (list_kind, of) = (custom.kind(self.catalog), &custom.resource(self.catalog).kind);
        list.set("description", format!("{list_kind} is a list of {of}"));
        list.set("properties", properties);
        list.set("required", vec![Value::from("items")]);
        list.set("type", "object");
        list
    }

    fn node(self, schema: &Value) -> Value {
        deep(|| self.own_node(schema))
    }

    fn own_node(self, schema: &Value) -> Value {
        let Value::Map(map) = schema else { return schema.clone() };
        let (v2, nullable, preserve) = (self.is_v2(), is_true(schema, "nullable"), is_true(schema, PRESERVE));
        let opaque = v2 && (nullable || preserve);
        let mut out = Map::with_capacity(map.len() + 1);
        for (name, value) in map.iter() {
            let published = match &**name {
                _ if value.is_null() => continue,
                "allOf" | "anyOf" | "oneOf" | "not" | "nullable" | "default" if v2 => continue,
                "items" | "properties" if opaque => continue,
                "type" if v2 && has_no_type(schema, opaque) => continue,
                "required" if v2 => match required(schema, value, opaque) {
                    Some(required) => required,
                    None => continue,
                },
                "items" | "not" | "additionalProperties" => self.node(value),
                "properties" => match value {
                    Value::Map(all) => {
                        all.iter().map(|(n, v)| (n.clone(), self.node(v))).collect::<Map>().into()
                    }
                    _ => continue,
                },
                "allOf" | "anyOf" | "oneOf" => match value {
                    Value::List(all) => all.iter().map(|part| self.node(part)).collect::<Vec<_>>().into(),
                    _ => continue,
                },
                "maximum" | "minimum" | "multipleOf" => number(value),
                _ => value.clone(),
            };
            out.push(name.clone(), published);
        }
        if is_true(schema, INT_OR_STRING) && !v2 {
            expand(&mut out);
        }
        if is_true(schema, EMBEDDED) && !(v2 && preserve) {
            self.add_type_and_metadata(&mut out, EMBEDDED_API_VERSION, EMBEDDED_KIND);
            let mut required = match out.remove("required") {
                Some(Value::List(required)) => required,
                _ => Vec::new(),
            };
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|other| other.as_str() == Some(name)) {
                    required.push(Value::from(name));
                }
            }
            out.set("required", required);
        }
        Value::from(out)
    }

    /// Replaces what the author wrote for these.
    fn add_type_and_metadata(self, schema: &mut Map, api_version: &str, kind: &str) {
        let properties = schema.entry(Name::Static("properties")).make_map();
        properties.set("apiVersion", described_string(api_version, "resources"));
        properties.set("kind", described_string(kind, "types-kinds"));
        properties.set("metadata", self.metadata("meta.v1.ObjectMeta", METADATA, "metadata"));
    }

    fn metadata(self, ty: &str, description: &str, section: &str) -> Value {
        let found = self.catalog.schema().find(ty);
        let reference = self.reference(found.map_or(Target::Special(Special::RawExtension), Target::Type));
        let description = Value::from(format!("{description} More info: {CONVENTIONS}#{section}"));
        // In version 3 a reference has nothing beside it.
        let mut out = match reference {
            Value::Map(reference) if self.is_v2() => reference,
            reference => Map::from_iter([(Name::Static("allOf"), Value::from(vec![reference]))]),
        };
        out.set("description", description);
        Value::from(out)
    }

    fn reference(self, target: Target) -> Value {
        member("$ref", Value::from(self.version.reference(&name(self.catalog, target))))
    }

    fn is_v2(self) -> bool {
        self.version == Version::V2
    }
}

/// kubectl's model has no null, no list without items, and no object with arbitrary fields.
fn has_no_type(schema: &Value, opaque: bool) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => opaque || schema.get("items").is_none(),
        Some("object") => opaque,
        _ => is_true(schema, "nullable"),
    }
}

/// Without nullable properties, which have no type.
fn required(schema: &Value, required: &Value, opaque: bool) -> Option<Value> {
    if schema.get("additionalProperties").is_some_and(|of| is_true(of, "nullable")) {
        return None;
    }
    let nullable = |name: &Value| {
        let property = name.as_str().and_then(|name| schema.at(&["properties", name]));
        !opaque && property.is_some_and(|property| is_true(property, "nullable"))
    };
    let names = required.as_list().unwrap_or_default().iter().filter(|name| !nullable(name)).cloned();
    let names: Vec<Value> = names.collect();
    (!names.is_empty()).then(|| names.into())
}

/// Expands `x-kubernetes-int-or-string` into alternatives, unless the author wrote them.
fn expand(schema: &mut Map) {
    let types =
        || Value::from(vec![member("type", Value::from("integer")), member("type", Value::from("string"))]);
    let written = |of: Option<&Value>| of.is_some_and(|of| *of == types());
    let first = schema.get("allOf").and_then(Value::as_list).and_then(<[Value]>::first);
    if written(schema.get("anyOf")) || written(first.and_then(|first| first.get("anyOf"))) {
        return;
    }
    if schema.get("anyOf").is_none() {
        return schema.set("anyOf", types());
    }
    let mut all = vec![member("anyOf", types())];
    if let Some(Value::List(more)) = schema.remove("allOf") {
        all.extend(more);
    }
    schema.set("allOf", all);
}

fn member(name: &'static str, value: Value) -> Value {
    Map::from_iter([(Name::Static(name), value)]).into()
}

fn described_string(description: &str, section: &str) -> Value {
    let description = Value::from(format!("{description} More info: {CONVENTIONS}#{section}"));
    Map::from_iter([
        (Name::Static("description"), description),
        (Name::Static("type"), Value::from("string")),
    ])
    .into()
}

/// Bounds are floats in Go, so large integers are rounded.
fn number(value: &Value) -> Value {
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    match value {
        Value::Int(i) if i.unsigned_abs() > EXACT => Value::Float(*i as f64),
        other => other.clone(),
    }
}

fn is_true(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

fn sort(value: &mut Value) {
    deep(|| match value {
        Value::Map(map) => {
            map.entries_mut().sort_by(|a, b| a.0.cmp(&b.0));
            map.iter_mut().for_each(|(_, member)| sort(member));
        }
        Value::List(list) => list.iter_mut().for_each(sort),
        _ => {}
    });
}
