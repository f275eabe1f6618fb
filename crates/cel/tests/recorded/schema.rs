//! JSON schemas as values and types see them, following upstream's `SchemaDeclType`.

use std::collections::BTreeMap;

use catalog::Name;
use cel::{Format, ListKind, Schema, Shape, Type, escape};
use serde_json::Value as Json;

const MAX_REQUEST: u64 = 3 * 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub struct JsonSchema {
    ty: String,
    format: String,
    nullable: bool,
    int_or_string: bool,
    preserve: bool,
    embedded: bool,
    properties: Option<BTreeMap<String, JsonSchema>>,
    additional: Option<Box<JsonSchema>>,
    items: Option<Box<JsonSchema>>,
    list_type: String,
    list_keys: Vec<Name>,
    required: Vec<String>,
    has_default: bool,
    max_length: Option<i64>,
    max_items: Option<i64>,
    max_properties: Option<i64>,
    enumeration: Vec<Json>,
}

impl JsonSchema {
    pub fn new(spec: &Json, root: bool) -> JsonSchema {
        let text = |name: &str| match &spec[name] {
            Json::Array(types) => types.first().and_then(Json::as_str).unwrap_or("").to_owned(),
            other => other.as_str().unwrap_or("").to_owned(),
        };
        let flag = |name: &str| spec[name].as_bool().unwrap_or(false);
        let strings = |name: &str| -> Vec<String> {
            let list = spec[name].as_array().cloned().unwrap_or_default();
            list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let mut schema = JsonSchema {
            ty: text("type"),
            format: text("format"),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            properties: spec["properties"].as_object().map(|properties| {
                properties.iter().map(|(name, spec)| (name.clone(), JsonSchema::new(spec, false))).collect()
            }),
            additional: spec["additionalProperties"]
                .is_object()
                .then(|| Box::new(JsonSchema::new(&spec["additionalProperties"], false))),
            items: spec["items"].is_object().then(|| Box::new(JsonSchema::new(&spec["items"], false))),
            list_type: text("x-kubernetes-list-type"),
            list_keys: strings("x-kubernetes-list-map-keys").into_iter().map(Name::from).collect(),
            required: strings("required"),
            has_default: !spec["default"].is_null(),
            max_length: spec["maxLength"].as_i64(),
            max_items: spec["maxItems"].as_i64(),
            max_properties: spec["maxProperties"].as_i64(),
            enumeration: spec["enum"].as_array().cloned().unwrap_or_default(),
        };
        if root || schema.embedded {
            schema.add_meta();
        }
        schema
    }

    fn add_meta(&mut self) {
        let is = |schema: Option<&JsonSchema>, ty: &str| schema.is_some_and(|schema| schema.ty == ty);
        let properties = self.properties.get_or_insert_default();
        let metadata = properties.get("metadata").and_then(|metadata| metadata.properties.as_ref());
        let complete = is(properties.get("kind"), "string")
            && is(properties.get("apiVersion"), "string")
            && is(properties.get("metadata"), "object")
            && metadata.is_some_and(|m| is(m.get("name"), "string") && is(m.get("generateName"), "string"));
        if complete {
            return;
        }
        let string = || JsonSchema { ty: "string".into(), ..JsonSchema::default() };
        let names = ["name", "generateName"].map(|name| (name.to_owned(), string()));
        let metadata =
            JsonSchema { ty: "object".into(), properties: Some(names.into()), ..JsonSchema::default() };
        properties.insert("kind".into(), string());
        properties.insert("apiVersion".into(), string());
        properties.insert("metadata".into(), metadata);
    }
}

impl Schema for JsonSchema {
    fn nullable(&self) -> bool {
        self.nullable
    }
    fn shape(&self) -> Shape<'_> {
        if self.int_or_string {
            return Shape::IntOrString;
        }
        match self.ty.as_str() {
            "object" if self.properties.is_some() => Shape::Object,
            "object" => Shape::Map,
            "array" => match &self.items {
                Some(items) => Shape::List(
                    &**items,
                    match self.list_type.as_str() {
                        "set" => ListKind::Set,
                        "map" => ListKind::Map(&self.list_keys),
                        _ => ListKind::Atomic,
                    },
                ),
                None => Shape::ListWithoutItems,
            },
            "string" => Shape::String(match self.format.as_str() {
                "duration" => Format::Duration,
                "date" => Format::Date,
                "date-time" => Format::DateTime,
                "byte" => Format::Byte,
                _ => Format::Plain,
            }),
            "number" => Shape::Number,
            "integer" => Shape::Integer,
            "boolean" => Shape::Boolean,
            _ if self.preserve => Shape::Preserved,
            other => Shape::Unknown(other),
        }
    }
    fn member(&self, name: &str) -> Option<&dyn Schema> {
        match &self.properties {
            Some(properties) => properties.get(name).map(|schema| schema as &dyn Schema),
            None => self.additional.as_deref().map(|schema| schema as &dyn Schema),
        }
    }
}

/// Upstream's `DeclType`.
#[derive(Clone, Debug)]
pub struct Decl {
    pub ty: Type,
    pub max_elements: u64,
    min_size: u64,
    fields: Option<BTreeMap<String, Decl>>,
    key: Option<Box<Decl>>,
    element: Option<Box<Decl>>,
}

impl Decl {
    fn simple(ty: Type, min_size: u64, max_elements: u64) -> Decl {
        Decl { ty, max_elements, min_size, fields: None, key: None, element: None }
    }

    /// `None` if expressions cannot use it.
    pub fn of(schema: &JsonSchema) -> Option<Decl> {
        let limit = |max: Option<i64>, otherwise: u64| max.map_or(otherwise, |max| max.max(0) as u64);
        let length = schema.max_length.map(|length| length * 4);
        if schema.int_or_string {
            return Some(Decl::simple(Type::Dyn, 1, limit(length, MAX_REQUEST - 2)));
        }
        Some(match schema.ty.as_str() {
            "array" => {
                let element = Decl::of(schema.items.as_deref()?)?;
                let max = limit(schema.max_items, (MAX_REQUEST - 2) / (element.min_size + 1));
                let ty = Type::list(element.ty.clone());
                Decl { element: Some(Box::new(element)), ..Decl::simple(ty, 2, max) }
            }
            "object" => match &schema.additional {
                Some(values) => {
                    let element = Decl::of(values)?;
                    let max = limit(schema.max_properties, (MAX_REQUEST - 2) / (element.min_size + 6));
                    let ty = Type::map(Type::String, element.ty.clone());
                    let key = Decl::simple(Type::String, 2, 0);
                    Decl {
                        key: Some(Box::new(key)),
                        element: Some(Box::new(element)),
                        ..Decl::simple(ty, 2, max)
                    }
                }
                None => {
                    let mut min_size = 2;
                    let mut fields = BTreeMap::new();
                    for (name, property) in schema.properties.iter().flatten() {
                        let Some(field) = Decl::of(property) else { continue };
                        if schema.required.contains(name) && !property.has_default {
                            min_size += name.len() as u64 + field.min_size + 4;
                        }
                        if let Some(escaped) = escape::escape(name) {
                            fields.insert(escaped.into_owned(), field);
                        }
                    }
                    Decl { fields: Some(fields), ..Decl::simple(Type::object("object"), min_size, 0) }
                }
            },
            "string" => match schema.format.as_str() {
                "byte" => Decl::simple(Type::Bytes, 2, limit(schema.max_length, MAX_REQUEST - 2)),
                "duration" => Decl::simple(Type::Duration, 3, 32),
                "date" => Decl::simple(Type::Timestamp, 12, 12),
                "date-time" => Decl::simple(Type::Timestamp, 21, 32),
                _ => {
                    let longest = schema.enumeration.iter().filter_map(Json::as_str).map(str::len).max();
                    let free = longest.map_or(MAX_REQUEST - 2, |longest| longest as u64);
                    Decl::simple(Type::String, 2, limit(length, free))
                }
            },
            "boolean" => Decl::simple(Type::Bool, 4, 0),
            "number" => Decl::simple(Type::Double, 1, 0),
            "integer" => Decl::simple(Type::Int, 1, 0),
            _ => return None,
        })
    }

    pub fn assign_name(&mut self, name: &str) {
        if let Some(fields) = &mut self.fields {
            self.ty = Type::object(name.to_owned());
            fields.iter_mut().for_each(|(field, decl)| decl.assign_name(&format!("{name}.{field}")));
        } else if let Some(element) = &mut self.element {
            let is_map = self.key.is_some();
            element.assign_name(&format!("{name}.{}", if is_map { "@elem" } else { "@idx" }));
            self.ty = if is_map {
                Type::map(Type::String, element.ty.clone())
            } else {
                Type::list(element.ty.clone())
            };
        }
    }

    pub fn register(&self, types: &mut BTreeMap<String, BTreeMap<String, Type>>) {
        if let Some(fields) = &self.fields {
            let own = fields.iter().map(|(name, decl)| (name.clone(), decl.ty.clone())).collect();
            types.insert(self.ty.to_string(), own);
            fields.values().for_each(|field| field.register(types));
        }
        self.element.iter().for_each(|element| element.register(types));
    }

    pub fn step(&self, name: &str) -> Option<&Decl> {
        match name {
            "@items" | "@values" => self.element.as_deref(),
            "@keys" => self.key.as_deref(),
            _ => self.fields.as_ref()?.get(name),
        }
    }
}
