//! From the JSON of a schema to nodes.

use std::collections::HashMap;

use catalog::Name;
use object::{Value, deep};

use crate::check::{Bound, Check, NumberFormat};
use crate::format::StringFormat;
use crate::name::intern;
use crate::node::{Extra, Flags, ListType, MapType, NodeData, NodeId, Rule, Span, Structural, Type};
use crate::number::to_f64;
use crate::pattern::Pattern;
use crate::read::{flag, items, text};

/// Keywords that OpenAPI has and structural schemas do not, in the order upstream looks for them.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];
/// Keywords whose JSON, beside the children, makes a node what it is.
const KEPT: [&str; 32] = [
    "type",
    "nullable",
    "format",
    "default",
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
    "required",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "properties",
    "items",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
];
const NOT: &str = "not";

impl Structural {
    /// The schema of a version (`openAPIV3Schema`). The error is upstream's, for what it cannot convert either.
    pub fn parse(schema: &Value) -> Result<Structural, String> {
        let mut parser = Parser::default();
        let root = parser.node(schema)?;
        Ok(Structural {
            nodes: parser.nodes.into(),
            properties: parser.properties.into(),
            checks: parser.checks.into(),
            root,
        })
    }

    /// As [`Structural::parse`], to serve objects with: defaults are without what would be pruned from an object.
    pub fn parse_to_serve(schema: &Value, types: &catalog::Schema) -> Result<Structural, String> {
        let mut parsed = Structural::parse(schema)?;
        parsed.prune_defaults(types);
        Ok(parsed)
    }
}

#[derive(Default)]
struct Parser {
    nodes: Vec<NodeData>,
    properties: Vec<(Name, NodeId)>,
    checks: Vec<Check>,
    /// Nodes by all they are made of.
    known: HashMap<Box<[u8]>, NodeId>,
}

/// The nodes a node refers to.
#[derive(Default)]
struct Children {
    properties: Vec<(Name, NodeId)>,
    items: Option<NodeId>,
    additional: Option<NodeId>,
    all_of: Box<[NodeId]>,
    any_of: Box<[NodeId]>,
    one_of: Box<[NodeId]>,
    not: Option<NodeId>,
}

impl Parser {
    fn node(&mut self, schema: &Value) -> Result<NodeId, String> {
        if let Some((_, word)) = UNSUPPORTED.iter().find(|(name, _)| is_set(schema, name)) {
            return Err(format!("OpenAPIV3Schema '{word}' is not supported"));
        }
        if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
            let why = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
            return Err(why.to_owned());
        }
        let children = deep(|| self.children(schema))?;
        let key = key_of(schema, &children);
        if let Some(id) = self.known.get(&*key) {
            return Ok(*id);
        }
        let node = self.build(schema, children);
        if self.nodes.len() >= NodeId::MAX {
            return Err("too many schemas".to_owned());
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        self.known.insert(key, id);
        Ok(id)
    }

    fn children(&mut self, schema: &Value) -> Result<Children, String> {
        let mut children = Children { not: self.child(schema.get(NOT))?, ..Children::default() };
        children.all_of = self.list(schema, "allOf")?;
        children.any_of = self.list(schema, "anyOf")?;
        children.one_of = self.list(schema, "oneOf")?;
        children.items = match schema.get("items") {
            Some(Value::List(list)) if !list.is_empty() => {
                return Err("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
            }
            other => self.child(other)?,
        };
        if let Some(Value::Map(properties)) = schema.get("properties") {
            for (name, property) in properties.iter() {
                let id = self.node(property)?;
                children.properties.push((intern(name), id));
            }
            children.properties.sort_by(|a, b| a.0.cmp(&b.0));
            children.properties.dedup_by(|a, b| a.0 == b.0);
        }
        children.additional = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(NodeId::ALLOWED),
            Some(Value::Bool(false)) => Some(NodeId::DENIED),
            other => self.child(other)?,
        };
        Ok(children)
    }

    fn child(&mut self, schema: Option<&Value>) -> Result<Option<NodeId>, String> {
        schema.filter(|schema| schema.as_map().is_some()).map(|schema| self.node(schema)).transpose()
    }

    fn list(&mut self, schema: &Value, name: &str) -> Result<Box<[NodeId]>, String> {
        items(schema, name).iter().map(|part| self.node(part)).collect()
    }

    fn build(&mut self, schema: &Value, children: Children) -> NodeData {
        let written = text(schema, "type");
        let ty = Type::parse(written);
        let mut flags = Flags::default();
        for (name, own) in [
            ("nullable", Flags::NULLABLE),
            ("x-kubernetes-int-or-string", Flags::INT_OR_STRING),
            ("x-kubernetes-preserve-unknown-fields", Flags::PRESERVE),
            ("x-kubernetes-embedded-resource", Flags::EMBEDDED),
        ] {
            if flag(schema, name) {
                flags.add(own);
            }
        }
        let (extra, own) = extra_of(schema, ty, written);
        flags.add(own);
        let below = children
            .properties
            .iter()
            .map(|(_, id)| *id)
            .chain(children.items)
            .chain(children.additional.and_then(NodeId::some));
        for id in below {
            flags.add(self.nodes[id.0 as usize].flags.and(Flags::BELOW));
        }
        let list = match text(schema, "x-kubernetes-list-type") {
            "atomic" => ListType::Atomic,
            "set" => ListType::Set,
            "map" => ListType::Map,
            _ => ListType::None,
        };
        if matches!(list, ListType::Set | ListType::Map) {
            flags.add(Flags::LISTS_BELOW);
        }
        if flags.has(Flags::EMBEDDED) {
            flags.add(Flags::EMBEDDED_BELOW);
        }
        let checks = self.checks.len();
        let formatted = self.add_checks(schema, ty, flags, &children);
        if formatted {
            flags.add(Flags::FORMAT);
        }
        let properties = Span { start: self.properties.len() as u32, len: children.properties.len() as u32 };
        self.properties.extend(children.properties);
        NodeData {
            properties,
            checks: Span { start: checks as u32, len: (self.checks.len() - checks) as u32 },
            items: children.items.unwrap_or(NodeId::NONE),
            additional: children.additional.unwrap_or(NodeId::NONE),
            flags,
            ty,
            list,
            map: match text(schema, "x-kubernetes-map-type") {
                "atomic" => MapType::Atomic,
                "granular" => MapType::Granular,
                _ => MapType::None,
            },
            extra,
        }
    }

    /// Returns whether there is a format that is checked.
    fn add_checks(&mut self, schema: &Value, ty: Type, flags: Flags, children: &Children) -> bool {
        let int = |name: &str| schema.get(name).and_then(Value::as_int);
        let float = |name: &str| schema.get(name).and_then(to_f64);
        let bound = |name: &str, exclusive: &str| {
            float(name).map(|at| Bound { at, exclusive: flag(schema, exclusive) })
        };
        let out = &mut self.checks;
        let some = |parts: &[NodeId]| (!parts.is_empty()).then(|| Box::from(parts));
        out.extend(some(&children.any_of).map(Check::AnyOf));
        out.extend(some(&children.one_of).map(Check::OneOf));
        out.extend(some(&children.all_of).map(Check::AllOf));
        out.extend(children.not.map(Check::Not));
        out.extend(int("maxLength").map(Check::MaxLength));
        out.extend(int("minLength").map(Check::MinLength));
        let pattern = text(schema, "pattern");
        if !pattern.is_empty() {
            out.push(Check::Pattern(Pattern::shared(pattern)));
        }
        let format = format_of(text(schema, "format"), ty, flags);
        let formatted = format.is_some();
        out.extend(format);
        out.extend(float("multipleOf").map(Check::MultipleOf));
        out.extend(bound("minimum", "exclusiveMinimum").map(Check::Minimum));
        out.extend(bound("maximum", "exclusiveMaximum").map(Check::Maximum));
        out.extend(int("minItems").map(Check::MinItems));
        out.extend(int("maxItems").map(Check::MaxItems));
        if flag(schema, "uniqueItems") {
            out.push(Check::UniqueItems);
        }
        match schema.get("enum").and_then(Value::as_list) {
            Some(values) if !values.is_empty() => out.push(Check::Enum(values.into())),
            _ => {}
        }
        out.extend(int("minProperties").map(Check::MinProperties));
        out.extend(int("maxProperties").map(Check::MaxProperties));
        let required: Box<[Name]> = names(schema, "required");
        if !required.is_empty() {
            out.push(Check::Required(required));
        }
        formatted
    }
}

/// The format, when it is one that this type has; others are no more than a comment.
fn format_of(written: &str, ty: Type, flags: Flags) -> Option<Check> {
    let number = |format| Some(Check::NumberFormat(format));
    match ty {
        _ if written.is_empty() => None,
        // An integer or string has two types, and so no format of numbers.
        _ if flags.has(Flags::INT_OR_STRING) => string_format(written),
        Type::None | Type::String => string_format(written),
        Type::Integer => match written {
            "int32" => number(NumberFormat::Int32),
            "int64" => number(NumberFormat::Int64),
            _ => None,
        },
        Type::Number => match written {
            "float" => number(NumberFormat::Float),
            "double" => number(NumberFormat::Double),
            _ => None,
        },
        Type::Object | Type::Array | Type::Boolean | Type::Odd => None,
    }
}

fn string_format(written: &str) -> Option<Check> {
    StringFormat::parse(written).map(|format| Check::Format(format, written.into()))
}

fn extra_of(schema: &Value, ty: Type, written: &str) -> (Option<Box<Extra>>, Flags) {
    let mut flags = Flags::default();
    let default = schema.get("default").filter(|default| !default.is_null()).map(|default| {
        let mut default = default.clone();
        crate::coerce::sort(&mut default);
        default
    });
    if default.is_some() {
        flags.add(Flags::DEFAULT);
        flags.add(Flags::DEFAULTS_BELOW);
    }
    let rules = items(schema, "x-kubernetes-validations");
    if !rules.is_empty() {
        flags.add(Flags::RULES_BELOW);
    }
    let format = text(schema, "format");
    let extra = Extra {
        default,
        keys: names(schema, "x-kubernetes-list-map-keys"),
        rules: rules.iter().map(rule).collect(),
        odd_type: (ty == Type::Odd).then(|| written.into()),
        format: (!format.is_empty()).then(|| format.into()),
    };
    let some = flags != Flags::default()
        || !extra.keys.is_empty()
        || extra.odd_type.is_some()
        || extra.format.is_some();
    (some.then(|| Box::new(extra)), flags)
}

fn rule(rule: &Value) -> Rule {
    Rule {
        rule: text(rule, "rule").into(),
        message: text(rule, "message").into(),
        message_expression: text(rule, "messageExpression").into(),
        reason: text(rule, "reason").into(),
        field_path: text(rule, "fieldPath").into(),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

/// Equal for nodes that are equal.
fn key_of(schema: &Value, children: &Children) -> Box<[u8]> {
    let mut key = Vec::with_capacity(128);
    for (i, name) in KEPT.iter().enumerate() {
        let Some(value) = schema.get(name).filter(|value| !value.is_null()) else { continue };
        key.push(i as u8);
        match *name {
            "properties" => {
                for (name, id) in &children.properties {
                    codec::json::write_string(name, &mut key);
                    key.extend_from_slice(&id.0.to_le_bytes());
                }
            }
            "items" => push(&mut key, children.items.as_slice()),
            "additionalProperties" => push(&mut key, children.additional.as_slice()),
            "allOf" => push(&mut key, &children.all_of),
            "anyOf" => push(&mut key, &children.any_of),
            "oneOf" => push(&mut key, &children.one_of),
            _ => codec::json::write(value, &mut key),
        }
        // No byte of JSON text, and a length is given where other bytes are.
        key.push(0xff);
    }
    push(&mut key, children.not.as_slice());
    key.into()
}

fn push(key: &mut Vec<u8>, ids: &[NodeId]) {
    key.extend_from_slice(&(ids.len() as u32).to_le_bytes());
    for id in ids {
        key.extend_from_slice(&id.0.to_le_bytes());
    }
}

fn is_set(schema: &Value, name: &str) -> bool {
    match schema.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Str(text)) => !text.is_empty(),
        Some(Value::Map(map)) => name == "additionalItems" || !map.is_empty(),
        Some(_) => true,
    }
}

fn names(of: &Value, name: &str) -> Box<[Name]> {
    items(of, name).iter().filter_map(Value::as_str).map(intern).collect()
}
