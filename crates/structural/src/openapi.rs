//! Schemas as they are published: OpenAPI v3 as they are, v2 with what its clients cannot read taken out.
//!
//! The kind's own marks (`x-kubernetes-group-version-kind`, selectable fields) are added by who owns the document.

#[cfg(test)]
mod tests;

use object::{Map, Value, deep};

use crate::read::{entries, flag, items, member, text, texts};

const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
/// Members that are published as they are written, by where they stand in the text.
const BEFORE_REQUIRED: [&str; 14] = [
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
];
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
/// The kind and apiVersion of the object itself, and of embedded ones.
const API_VERSION: [&str; 2] = [
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
    "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
];
const KIND: [&str; 2] = [
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
];

/// A version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V2,
    V3,
}

/// The definition of a kind. `schema` is its `openAPIV3Schema`; `None` when there is none or it is not structural. `preserve`:
/// the definition preserves unknown fields.
pub fn publish(schema: Option<&Value>, version: Version, preserve: bool) -> Value {
    let v2 = version == Version::V2;
    let Some(schema) = schema.filter(|schema| !(v2 && (preserve || flag(schema, PRESERVE)))) else {
        // Not even the metadata: clients would refuse all other fields.
        return Value::Map([("type".into(), Value::from("object"))].into_iter().collect());
    };
    let publisher = Publisher { v2 };
    let mut out = publisher.schema(schema);
    if let Some(map) = out.as_map_mut() {
        publisher.add_metadata(map, 0);
    }
    out
}

struct Publisher {
    v2: bool,
}

impl Publisher {
    fn schema(&self, schema: &Value) -> Value {
        deep(|| self.emit(schema, false))
    }

    /// `nested`: below a junctor, where only values are validated.
    fn emit(&self, schema: &Value, nested: bool) -> Value {
        let mut out = Map::default();
        let nullable = flag(schema, "nullable");
        let preserve = flag(schema, PRESERVE);
        // Clients of v2 cannot cope with fields of what may be null or anything, nor with lists of they know not what.
        let bare = self.v2 && !nested && (nullable || preserve);
        let list = schema.get("items").filter(|list| list.as_map().is_some() && !bare);
        let ty = text(schema, "type");
        let untyped = self.v2
            && !nested
            && (nullable || (ty == "array" && list.is_none()) || (ty == "object" && preserve));
        copy_text(&mut out, schema, "description");
        if !ty.is_empty() && !untyped {
            out.push("type".into(), ty.into());
        }
        if nullable && !self.v2 {
            out.push("nullable".into(), true.into());
        }
        copy_text(&mut out, schema, "format");
        copy_text(&mut out, schema, "title");
        if let Some(default) = member(schema, "default").filter(|_| !self.v2) {
            push_sorted(&mut out, "default", default);
        }
        for name in BEFORE_REQUIRED {
            match member(schema, name) {
                None | Some(Value::Bool(false)) => {}
                Some(Value::Str(text)) if text.is_empty() => {}
                Some(Value::List(list)) if list.is_empty() => {}
                Some(value) => push_sorted(&mut out, name, value),
            }
        }
        self.push_required(&mut out, schema, nested);
        if let Some(list) = list {
            out.push("items".into(), deep(|| self.emit(list, nested)));
        }
        if !self.v2 {
            self.push_junctors(&mut out, schema, nested);
        }
        let mut properties: Vec<(&str, &Value)> = entries(schema, "properties").filter(|_| !bare).collect();
        if !properties.is_empty() {
            properties.sort_by_key(|(name, _)| *name);
            let all = properties
                .into_iter()
                .map(|(name, property)| (name.to_owned().into(), deep(|| self.emit(property, nested))));
            out.push("properties".into(), Value::Map(all.collect()));
        }
        match schema.get("additionalProperties").filter(|_| !nested) {
            Some(Value::Bool(allowed)) => out.push("additionalProperties".into(), (*allowed).into()),
            Some(values @ Value::Map(_)) => {
                out.push("additionalProperties".into(), self.schema(values));
            }
            _ => {}
        }
        push_docs(&mut out, schema);
        push_extensions(&mut out, schema, self.v2);
        if flag(schema, EMBEDDED) && !(self.v2 && preserve) {
            self.add_metadata(&mut out, 1);
            add_required(&mut out);
        }
        Value::Map(out)
    }

    /// A null satisfies nobody who requires a value, so v2, which has no null, does not require it.
    fn push_required(&self, out: &mut Map, schema: &Value, nested: bool) {
        let v2 = self.v2 && !nested;
        let values = schema.get("additionalProperties").filter(|values| values.as_map().is_some());
        if v2 && values.is_some_and(|values| flag(values, "nullable")) {
            return;
        }
        let bare = v2 && (flag(schema, "nullable") || flag(schema, PRESERVE));
        let may_be_null = |name: &str| {
            v2 && !bare
                && entries(schema, "properties")
                    .any(|(own, property)| own == name && flag(property, "nullable"))
        };
        let required: Vec<Value> =
            texts(schema, "required").filter(|name| !may_be_null(name)).map(Value::from).collect();
        if !required.is_empty() {
            out.push("required".into(), required.into());
        }
    }

    /// An integer or string says so in words that everyone knows.
    fn push_junctors(&self, out: &mut Map, schema: &Value, nested: bool) {
        let part = |part: &Value| deep(|| self.emit(part, true));
        let list = |name: &str| items(schema, name).iter().map(part).collect::<Vec<_>>();
        let (mut all_of, one_of, mut any_of) = (list("allOf"), list("oneOf"), list("anyOf"));
        let says_so = is_either(items(schema, "anyOf"))
            || items(schema, "allOf").first().is_some_and(|first| is_either(items(first, "anyOf")));
        if flag(schema, INT_OR_STRING) && !nested && !says_so {
            let one = |ty: &str| Value::Map([("type".into(), Value::from(ty))].into_iter().collect());
            let either = vec![one("integer"), one("string")];
            if any_of.is_empty() {
                any_of = either;
            } else {
                all_of.insert(0, Value::Map([("anyOf".into(), either.into())].into_iter().collect()));
            }
        }
        for (name, parts) in [("allOf", all_of), ("oneOf", one_of), ("anyOf", any_of)] {
            if !parts.is_empty() {
                out.push(name.into(), parts.into());
            }
        }
        if let Some(not) = member(schema, "not") {
            out.push("not".into(), part(not));
        }
    }

    /// The properties that every resource has.
    fn add_metadata(&self, out: &mut Map, which: usize) {
        let string = |description: &str| {
            let mut property = Map::default();
            property.push("description".into(), description.into());
            property.push("type".into(), "string".into());
            Value::Map(property)
        };
        let mut metadata = Map::default();
        metadata.push("description".into(), METADATA.into());
        let base = if self.v2 { "#/definitions/" } else { "#/components/schemas/" };
        let to = Value::from(format!("{base}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
        if self.v2 {
            metadata.push("$ref".into(), to);
        } else {
            let to = Value::Map([("$ref".into(), to)].into_iter().collect());
            metadata.push("allOf".into(), vec![to].into());
        }
        let properties = properties_of(out);
        properties.set("apiVersion", string(API_VERSION[which]));
        properties.set("kind", string(KIND[which]));
        properties.set("metadata", metadata);
        properties.entries_mut().sort_by(|a, b| a.0.cmp(&b.0));
    }
}

/// The properties in their place, made if there are none.
fn properties_of(out: &mut Map) -> &mut Map {
    let entries = out.entries_mut();
    let at = entries.iter().position(|(name, _)| name == "properties").unwrap_or_else(|| {
        let later = ["additionalProperties", "externalDocs", "example"];
        let follows = |name: &str| later.contains(&name) || name.starts_with("x-");
        let at = entries.iter().position(|(name, _)| follows(name)).unwrap_or(entries.len());
        entries.insert(at, ("properties".into(), Value::map()));
        at
    });
    entries[at].1.make_map()
}

fn add_required(out: &mut Map) {
    let entries = out.entries_mut();
    let at = entries.iter().position(|(name, _)| name == "required").unwrap_or_else(|| {
        let later = ["items", "allOf", "oneOf", "anyOf", "not", "properties"];
        let at = entries.iter().position(|(name, _)| later.contains(&name.as_str())).unwrap_or(entries.len());
        entries.insert(at, ("required".into(), Value::List(Vec::new())));
        at
    });
    if let Value::List(required) = &mut entries[at].1 {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|own| own.as_str() == Some(name)) {
                required.push(name.into());
            }
        }
    }
}

fn is_either(any_of: &[Value]) -> bool {
    let only = |part: &Value, ty: &str| {
        text(part, "type") == ty
            && part.as_map().is_some_and(|map| map.iter().filter(|(_, value)| !value.is_null()).count() == 1)
    };
    matches!(any_of, [first, second] if only(first, "integer") && only(second, "string"))
}

fn copy_text(out: &mut Map, schema: &Value, name: &'static str) {
    let own = text(schema, name);
    if !own.is_empty() {
        out.push(name.into(), own.into());
    }
}

fn push_sorted(out: &mut Map, name: &'static str, value: &Value) {
    let mut value = value.clone();
    crate::coerce::sort(&mut value);
    out.push(name.into(), value);
}

fn push_docs(out: &mut Map, schema: &Value) {
    if let Some(docs) = member(schema, "externalDocs") {
        let mut own = Map::default();
        copy_text(&mut own, docs, "description");
        copy_text(&mut own, docs, "url");
        out.push("externalDocs".into(), own.into());
    }
    if let Some(example) = member(schema, "example") {
        push_sorted(out, "example", example);
    }
}

/// Sorted by name.
fn push_extensions(out: &mut Map, schema: &Value, v2: bool) {
    for name in [EMBEDDED, INT_OR_STRING] {
        if flag(schema, name) {
            out.push(name.into(), true.into());
        }
    }
    let keys = items(schema, "x-kubernetes-list-map-keys");
    if !keys.is_empty() {
        out.push("x-kubernetes-list-map-keys".into(), keys.to_vec().into());
    }
    for name in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if let Some(own) = member(schema, name) {
            out.push(name.into(), own.clone());
        }
    }
    if flag(schema, PRESERVE) {
        out.push(PRESERVE.into(), true.into());
    }
    let rules = items(schema, "x-kubernetes-validations");
    if !rules.is_empty() {
        out.push(
            "x-kubernetes-validations".into(),
            rules.iter().map(|own| rule(own, v2)).collect::<Vec<_>>().into(),
        );
    }
}

/// In the order of its fields, or, where the document is merged with others on its way, of its names.
fn rule(rule: &Value, by_name: bool) -> Value {
    let mut out = Map::default();
    out.push("rule".into(), text(rule, "rule").into());
    for name in ["message", "messageExpression", "reason", "fieldPath"] {
        copy_text(&mut out, rule, name);
    }
    if let Some(own) = member(rule, "optionalOldSelf") {
        out.push("optionalOldSelf".into(), own.clone());
    }
    if by_name {
        out.entries_mut().sort_by(|a, b| a.0.cmp(&b.0));
    }
    Value::Map(out)
}
