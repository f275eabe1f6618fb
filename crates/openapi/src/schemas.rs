//! Definitions: the catalogue's types as schema nodes, the same for every dialect.

use std::collections::BTreeMap;

use catalog::{AnyKind, Catalog, Field, ListKind, MapKind, Resource, Shape, StructType, TypeId};

use crate::descriptions;
use crate::document::Version;
use crate::json::{group_version_kind, quoted};
use crate::names;

/// The target of a `$ref`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Type(TypeId),
    /// Go types that are not structs in JSON.
    Special(Special),
    Custom(Custom),
}

/// The kind of a custom resource, or the kind of its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Custom {
    /// Its index among the resources of the catalogue.
    pub resource: usize,
    pub list: bool,
}

impl Custom {
    pub(crate) fn resource(self, catalog: &Catalog) -> &Resource {
        &catalog.resources()[self.resource]
    }

    pub(crate) fn kind(self, catalog: &Catalog) -> &str {
        let resource = self.resource(catalog);
        if self.list { &resource.list_kind } else { &resource.kind }
    }
}

/// A named schema.
#[derive(Debug)]
pub(crate) enum Definition {
    Node(Node),
    /// Read from its CustomResourceDefinition when written: together they would be large.
    Custom(Custom),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    RawExtension,
    FieldsV1,
    Json,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    Patch,
    VersionInfo,
}

/// Fields of `/version`, and whether they are required.
const VERSION_INFO: [(&str, bool); 13] = [
    ("buildDate", true),
    ("compiler", true),
    ("emulationMajor", false),
    ("emulationMinor", false),
    ("gitCommit", true),
    ("gitTreeState", true),
    ("gitVersion", true),
    ("goVersion", true),
    ("major", true),
    ("minCompatibilityMajor", false),
    ("minCompatibilityMinor", false),
    ("minor", true),
    ("platform", true),
];

impl Special {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Special::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
            Special::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
            Special::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
            Special::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            Special::RawExtension => "io.k8s.apimachinery.pkg.runtime.RawExtension",
            Special::FieldsV1 => "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
            Special::Json => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
            Special::SchemaOrArray => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
            }
            Special::SchemaOrBool => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"
            }
            Special::SchemaOrStrings => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"
            }
            Special::Patch => "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
            Special::VersionInfo => "io.k8s.apimachinery.pkg.version.Info",
        }
    }
}

/// A schema node.
#[derive(Debug)]
pub(crate) struct Node {
    pub kind: Kind,
    pub description: Option<&'static str>,
    /// JSON text. Only v3 documents include defaults.
    pub default: Option<String>,
    pub values: Vec<String>,
    /// `x-kubernetes-...` and its value as JSON text, in alphabetical order.
    pub extensions: Vec<(&'static str, String)>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Ref(Target),
    Scalar(&'static str, Option<&'static str>),
    Array(Box<Node>),
    Map(Box<Node>),
    Object {
        properties: BTreeMap<String, Node>,
        required: Vec<String>,
    },
    /// Any JSON value.
    Any,
    /// One of these scalar types; v2 has no alternatives and uses a string.
    OneOf(Option<&'static str>, [&'static str; 2]),
}

impl From<Kind> for Node {
    fn from(kind: Kind) -> Node {
        Node { kind, description: None, default: None, values: Vec::new(), extensions: Vec::new() }
    }
}

impl Node {
    /// It has nothing but its type.
    pub(crate) fn is_bare(&self) -> bool {
        self.default.is_none() && self.description.is_none() && self.extensions.is_empty()
    }

    /// Its type and format; where v3 has alternatives, v2 has a string.
    pub(crate) fn type_name(&self, version: Version) -> Option<&'static str> {
        match &self.kind {
            Kind::Scalar(ty, _) => Some(ty),
            Kind::OneOf(..) => (version == Version::V2).then_some("string"),
            Kind::Array(_) => Some("array"),
            Kind::Map(_) | Kind::Object { .. } => Some("object"),
            Kind::Ref(_) | Kind::Any => None,
        }
    }
}

pub(crate) fn name(catalog: &Catalog, target: Target) -> String {
    match target {
        Target::Type(id) => names::definition(&catalog.schema().get(id).name),
        Target::Special(s) => s.name().into(),
        Target::Custom(custom) => {
            let resource = custom.resource(catalog);
            names::custom_definition(&resource.group, &resource.version, custom.kind(catalog))
        }
    }
}

/// Definitions by name: `todo`, and all that these refer to. Options of requests are kinds of each of `groups`.
pub(crate) fn reachable(
    catalog: &Catalog,
    mut todo: Vec<Target>,
    groups: &[(String, String)],
) -> BTreeMap<String, Definition> {
    // Built-in definitions are taken first: they win over custom ones of the same name.
    todo.sort_by_key(|target| !matches!(target, Target::Custom(_)));
    let mut done = BTreeMap::new();
    while let Some(target) = todo.pop() {
        let name = name(catalog, target);
        if done.contains_key(&name) {
            continue;
        }
        let node = match target {
            Target::Type(id) => structure(catalog.schema().get(id), groups),
            Target::Special(s) => special(s),
            Target::Custom(custom) => {
                done.insert(name, Definition::Custom(custom));
                let metadata = if custom.list { "meta.v1.ListMeta" } else { "meta.v1.ObjectMeta" };
                todo.extend(catalog.schema().find(metadata).map(Target::Type));
                continue;
            }
        };
        if let Kind::Object { properties, .. } = &node.kind {
            todo.extend(properties.values().filter_map(target_of));
        }
        done.insert(name, Definition::Node(node));
    }
    done
}

/// The definition a property refers to, through lists and maps.
fn target_of(node: &Node) -> Option<Target> {
    match &node.kind {
        Kind::Ref(target) => Some(*target),
        Kind::Array(element) | Kind::Map(element) => target_of(element),
        _ => None,
    }
}

fn structure(ty: &StructType, groups: &[(String, String)]) -> Node {
    let described = |f: &Field| {
        let description = descriptions::of_field(&ty.name, &f.name);
        (f.name.to_string(), Node { description, ..property(f) })
    };
    let properties = ty.fields.iter().map(described).collect();
    let required = ty.fields.iter().filter(|f| f.required).map(|f| f.name.to_string()).collect();
    let mut node = Node::from(Kind::Object { properties, required });
    let kinds: Vec<String> = match (&ty.gvk, ty.name.as_str()) {
        (Some((group, version, kind)), _) => vec![group_version_kind(group, version, kind)],
        (None, "meta.v1.DeleteOptions" | "meta.v1.WatchEvent") => {
            groups.iter().map(|(group, version)| group_version_kind(group, version, &ty.short)).collect()
        }
        _ => Vec::new(),
    };
    if !kinds.is_empty() {
        node.extensions.push(("x-kubernetes-group-version-kind", format!("[{}]", kinds.join(","))));
    }
    if ty.atomic {
        node.extensions.push(("x-kubernetes-map-type", quoted("atomic")));
    }
    if let Some(union) = &ty.union {
        node.extensions.push(("x-kubernetes-unions", union.to_string()));
    }
    node
}

fn property(f: &Field) -> Node {
    let mut node = shape(&f.shape, f.any);
    node.default = match (&f.default, &f.shape) {
        (Some(json), _) => Some(json.to_string()),
        // The value Go has when the field is not sent: only fields that are no pointers have one.
        (None, Shape::Struct(_)) => f.by_value.then(|| "{}".into()),
        (None, _) if f.pointer || f.omit_empty => None,
        (None, shape) => zero(shape).map(Into::into),
    };
    let scalar = match &mut node.kind {
        Kind::Array(element) | Kind::Map(element) => &mut **element,
        _ => &mut node,
    };
    scalar.values = f.values.iter().map(ToString::to_string).collect();
    match &f.list {
        ListKind::None => {}
        ListKind::Atomic => node.extensions.push(("x-kubernetes-list-type", quoted("atomic"))),
        ListKind::Set => node.extensions.push(("x-kubernetes-list-type", quoted("set"))),
        ListKind::Map(keys) => {
            let keys: Vec<String> = keys.iter().map(|k| quoted(k)).collect();
            node.extensions.push(("x-kubernetes-list-map-keys", format!("[{}]", keys.join(","))));
            node.extensions.push(("x-kubernetes-list-type", quoted("map")));
        }
    }
    match f.map {
        MapKind::OfType => {}
        MapKind::Atomic => node.extensions.push(("x-kubernetes-map-type", quoted("atomic"))),
        MapKind::Granular => node.extensions.push(("x-kubernetes-map-type", quoted("granular"))),
    }
    if let Some(key) = &f.patch.key {
        node.extensions.push(("x-kubernetes-patch-merge-key", quoted(key)));
    }
    let strategies =
        [(f.patch.merge, "merge"), (f.patch.replace, "replace"), (f.patch.retain_keys, "retainKeys")];
    let strategies: Vec<&str> = strategies.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    if !strategies.is_empty() {
        node.extensions.push(("x-kubernetes-patch-strategy", quoted(&strategies.join(","))));
    }
    node
}

/// A list's or a map's element: held by value, so it has a zero.
fn element(inner: &Shape, any: AnyKind) -> Box<Node> {
    let mut node = shape(inner, any);
    node.default = zero(inner).map(Into::into);
    Box::new(node)
}

fn zero(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::Struct(_) => Some("{}"),
        Shape::String => Some("\"\""),
        Shape::Bool => Some("false"),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Some("0"),
        _ => None,
    }
}

fn shape(s: &Shape, any: AnyKind) -> Node {
    let special = |s| Kind::Ref(Target::Special(s));
    Node::from(match s {
        Shape::Struct(id) => Kind::Ref(Target::Type(*id)),
        Shape::List(inner) => Kind::Array(element(inner, any)),
        Shape::Map(inner) => Kind::Map(element(inner, any)),
        Shape::String | Shape::Duration => Kind::Scalar("string", None),
        Shape::Bool => Kind::Scalar("boolean", None),
        Shape::Int32 => Kind::Scalar("integer", Some("int32")),
        Shape::Int64 => Kind::Scalar("integer", Some("int64")),
        Shape::Float64 => Kind::Scalar("number", Some("double")),
        Shape::Bytes => Kind::Scalar("string", Some("byte")),
        Shape::Time => special(Special::Time),
        Shape::MicroTime => special(Special::MicroTime),
        Shape::Quantity => special(Special::Quantity),
        Shape::IntOrString => special(Special::IntOrString),
        Shape::Any => special(match any {
            AnyKind::Raw => Special::RawExtension,
            AnyKind::Fields => Special::FieldsV1,
            AnyKind::Json => Special::Json,
            AnyKind::SchemaOrArray => Special::SchemaOrArray,
            AnyKind::SchemaOrBool => Special::SchemaOrBool,
            AnyKind::SchemaOrStrings => Special::SchemaOrStrings,
        }),
    })
}

fn special(s: Special) -> Node {
    Node::from(match s {
        Special::Time | Special::MicroTime => Kind::Scalar("string", Some("date-time")),
        Special::Quantity => Kind::OneOf(None, ["string", "number"]),
        Special::IntOrString => Kind::OneOf(Some("int-or-string"), ["integer", "string"]),
        Special::RawExtension | Special::FieldsV1 | Special::Patch => Kind::Scalar("object", None),
        Special::Json | Special::SchemaOrArray | Special::SchemaOrBool | Special::SchemaOrStrings => {
            Kind::Any
        }
        Special::VersionInfo => {
            let field = |(name, always): (&str, bool)| {
                let mut node = Node::from(Kind::Scalar("string", None));
                node.default = always.then(|| "\"\"".into());
                (name.to_owned(), node)
            };
            let required = VERSION_INFO.iter().filter(|(_, always)| *always).map(|(name, _)| (*name).into());
            Kind::Object { properties: VERSION_INFO.map(field).into(), required: required.collect() }
        }
    })
}
