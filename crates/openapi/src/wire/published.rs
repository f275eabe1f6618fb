//! Schemas of custom resources and of other servers as protobuf: `Schema` of OpenAPIv2.proto and of OpenAPIv3.proto, from their JSON.

use object::{Value, deep};

use super::message::Message;
use super::named;

/// How a member is written.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    /// Any value, as YAML text.
    Any,
    Anys,
    /// v2: one of several types.
    Type,
    /// v3 knows scalars only.
    Default,
    Docs,
    Items,
    Properties,
    SchemaOrBool,
    Schema,
    Schemas,
}

struct Dialect {
    members: &'static [(&'static str, u32, Form)],
    extensions: u32,
    /// A schema inside another one is a message with two alternatives, itself or a reference.
    wraps: bool,
}

const V2: Dialect = Dialect {
    members: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Any),
        ("multipleOf", 6, Form::Double),
        ("maximum", 7, Form::Double),
        ("exclusiveMaximum", 8, Form::Bool),
        ("minimum", 9, Form::Double),
        ("exclusiveMinimum", 10, Form::Bool),
        ("maxLength", 11, Form::Int),
        ("minLength", 12, Form::Int),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Int),
        ("minItems", 15, Form::Int),
        ("uniqueItems", 16, Form::Bool),
        ("maxProperties", 17, Form::Int),
        ("minProperties", 18, Form::Int),
        ("required", 19, Form::Texts),
        ("enum", 20, Form::Anys),
        ("additionalProperties", 21, Form::SchemaOrBool),
        ("type", 22, Form::Type),
        ("items", 23, Form::Items),
        ("allOf", 24, Form::Schemas),
        ("properties", 25, Form::Properties),
        ("discriminator", 26, Form::Text),
        ("readOnly", 27, Form::Bool),
        ("externalDocs", 29, Form::Docs),
        ("example", 30, Form::Any),
    ],
    extensions: 31,
    wraps: false,
};

const V3: Dialect = Dialect {
    members: &[
        ("nullable", 1, Form::Bool),
        ("externalDocs", 6, Form::Docs),
        ("example", 7, Form::Any),
        ("title", 9, Form::Text),
        ("multipleOf", 10, Form::Double),
        ("maximum", 11, Form::Double),
        ("exclusiveMaximum", 12, Form::Bool),
        ("minimum", 13, Form::Double),
        ("exclusiveMinimum", 14, Form::Bool),
        ("maxLength", 15, Form::Int),
        ("minLength", 16, Form::Int),
        ("pattern", 17, Form::Text),
        ("maxItems", 18, Form::Int),
        ("minItems", 19, Form::Int),
        ("uniqueItems", 20, Form::Bool),
        ("maxProperties", 21, Form::Int),
        ("minProperties", 22, Form::Int),
        ("required", 23, Form::Texts),
        ("enum", 24, Form::Anys),
        ("type", 25, Form::Text),
        ("allOf", 26, Form::Schemas),
        ("oneOf", 27, Form::Schemas),
        ("anyOf", 28, Form::Schemas),
        ("not", 29, Form::Schema),
        ("items", 30, Form::Items),
        ("properties", 31, Form::Properties),
        ("additionalProperties", 32, Form::SchemaOrBool),
        ("default", 33, Form::Default),
        ("description", 34, Form::Text),
        ("format", 35, Form::Text),
    ],
    extensions: 36,
    wraps: true,
};

/// `Schema`.
pub(crate) fn v2(m: &mut Message, schema: &Value) {
    V2.inner(m, schema);
}

/// `SchemaOrReference`.
pub(crate) fn v3(m: &mut Message, schema: &Value) {
    V3.inner(m, schema);
}

impl Dialect {
    fn inner(&self, m: &mut Message, schema: &Value) {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) if self.wraps => m.message(2, |one| one.string(1, reference)),
            _ if self.wraps => m.message(1, |one| self.schema(one, schema)),
            _ => self.schema(m, schema),
        }
    }

    fn schema(&self, m: &mut Message, schema: &Value) {
        deep(|| {
            for (name, number, form) in self.members {
                if let Some(value) = schema.get(name) {
                    self.member(m, *number, *form, value);
                }
            }
        });
        let all = schema.as_map().into_iter().flat_map(|map| map.iter());
        for (name, value) in all.filter(|(name, _)| name.starts_with("x-")) {
            named(m, self.extensions, name, |one| any(one, value));
        }
    }

    fn member(&self, m: &mut Message, number: u32, form: Form, value: &Value) {
        let text = value.as_str().unwrap_or_default();
        let list = value.as_list().unwrap_or_default();
        match form {
            Form::Text => m.string(number, text),
            Form::Texts => list.iter().filter_map(Value::as_str).for_each(|text| m.string(number, text)),
            Form::Bool => m.bool(number, value.as_bool() == Some(true)),
            Form::Int => m.int(number, value.as_int().unwrap_or_default()),
            Form::Double => m.double(number, float(value)),
            Form::Any => m.message(number, |one| any(one, value)),
            Form::Anys => list.iter().for_each(|value| m.message(number, |one| any(one, value))),
            Form::Type if value.as_str().is_some() => m.message(number, |item| item.string(1, text)),
            Form::Type => m.message(number, |item| {
                list.iter().filter_map(Value::as_str).for_each(|text| item.string(1, text));
            }),
            Form::Default => match value {
                Value::Int(_) | Value::Float(_) => m.message(number, |one| one.double(1, float(value))),
                Value::Bool(value) => m.message(number, |one| one.present_bool(2, *value)),
                Value::Str(text) => m.message(number, |one| one.string(3, text)),
                _ => {}
            },
            Form::Docs => m.message(number, |docs| {
                for (name, number) in [("description", 1), ("url", 2)] {
                    if let Some(text) = value.str_at(&[name]) {
                        docs.string(number, text);
                    }
                }
            }),
            Form::Items => m.message(number, |items| items.message(1, |one| self.inner(one, value))),
            Form::Properties => m.message(number, |all| {
                for (name, property) in value.as_map().into_iter().flat_map(|map| map.iter()) {
                    named(all, 1, name, |one| self.inner(one, property));
                }
            }),
            Form::SchemaOrBool => m.message(number, |item| match value {
                Value::Bool(value) => item.present_bool(2, *value),
                schema => item.message(1, |one| self.inner(one, schema)),
            }),
            Form::Schema => m.message(number, |one| self.schema(one, value)),
            Form::Schemas => list.iter().for_each(|part| m.message(number, |one| self.inner(one, part))),
        }
    }
}

/// `Any`: YAML text, which JSON is.
pub(crate) fn any(m: &mut Message, value: &Value) {
    let json = codec::json::to_vec(value);
    m.string(2, std::str::from_utf8(&json).unwrap_or_default());
}

pub(crate) fn float(value: &Value) -> f64 {
    match value {
        Value::Float(float) => *float,
        other => other.as_int().unwrap_or_default() as f64,
    }
}
