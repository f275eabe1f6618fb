//! Any Swagger 2.0 document as protobuf, from its JSON: where other servers' paths and definitions are merged into ours.
//!
//! Each message is a table of members with their numbers in OpenAPIv2.proto.

use object::{Map, Value, deep};

use super::message::Message;
use super::published::{self, any, float};
use super::{header, named, security};

/// How a member is written.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    Any,
    Anys,
    /// A schema.
    Schema,
    /// A message of its own.
    One(&'static Shape),
    /// A message with one entry for each member.
    Each(fn(&mut Message, &Value)),
    /// Repeated.
    Many(fn(&mut Message, &Value)),
}

/// The members of a message.
pub(super) struct Shape {
    pub members: &'static [(&'static str, u32, Form)],
    pub extensions: u32,
}

pub(super) static DOCS: Shape =
    Shape { members: &[("description", 1, Form::Text), ("url", 2, Form::Text)], extensions: 3 };

static OPERATION: Shape = Shape {
    members: &[
        ("tags", 1, Form::Texts),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("externalDocs", 4, Form::One(&DOCS)),
        ("operationId", 5, Form::Text),
        ("produces", 6, Form::Texts),
        ("consumes", 7, Form::Texts),
        ("parameters", 8, Form::Many(parameters_item)),
        ("responses", 9, Form::Each(response_value)),
        ("schemes", 10, Form::Texts),
        ("deprecated", 11, Form::Bool),
        ("security", 12, Form::Many(requirement)),
    ],
    extensions: 13,
};

static PATH_ITEM: Shape = Shape {
    members: &[
        ("$ref", 1, Form::Text),
        ("get", 2, Form::One(&OPERATION)),
        ("put", 3, Form::One(&OPERATION)),
        ("post", 4, Form::One(&OPERATION)),
        ("delete", 5, Form::One(&OPERATION)),
        ("options", 6, Form::One(&OPERATION)),
        ("head", 7, Form::One(&OPERATION)),
        ("patch", 8, Form::One(&OPERATION)),
        ("parameters", 9, Form::Many(parameters_item)),
    ],
    extensions: 10,
};

static BODY_PARAMETER: Shape = Shape {
    members: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Bool),
        ("schema", 5, Form::Schema),
    ],
    extensions: 6,
};

/// Of a header or in the path.
static PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, Form::Bool),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("format", 6, Form::Text),
        ("items", 7, Form::One(&ITEMS)),
        ("collectionFormat", 8, Form::Text),
        ("default", 9, Form::Any),
        ("maximum", 10, Form::Double),
        ("exclusiveMaximum", 11, Form::Bool),
        ("minimum", 12, Form::Double),
        ("exclusiveMinimum", 13, Form::Bool),
        ("maxLength", 14, Form::Int),
        ("minLength", 15, Form::Int),
        ("pattern", 16, Form::Text),
        ("maxItems", 17, Form::Int),
        ("minItems", 18, Form::Int),
        ("uniqueItems", 19, Form::Bool),
        ("enum", 20, Form::Anys),
        ("multipleOf", 21, Form::Double),
    ],
    extensions: 22,
};

/// Of the query or of a form: one that may be empty.
static OPTIONAL_PARAMETER: Shape = Shape {
    members: &[
        ("required", 1, Form::Bool),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("allowEmptyValue", 5, Form::Bool),
        ("type", 6, Form::Text),
        ("format", 7, Form::Text),
        ("items", 8, Form::One(&ITEMS)),
        ("collectionFormat", 9, Form::Text),
        ("default", 10, Form::Any),
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
        ("enum", 21, Form::Anys),
        ("multipleOf", 22, Form::Double),
    ],
    extensions: 23,
};

macro_rules! primitive {
    ($($more:tt)*) => {
        &[
            ("type", 1, Form::Text),
            ("format", 2, Form::Text),
            ("items", 3, Form::One(&ITEMS)),
            ("collectionFormat", 4, Form::Text),
            ("default", 5, Form::Any),
            ("maximum", 6, Form::Double),
            ("exclusiveMaximum", 7, Form::Bool),
            ("minimum", 8, Form::Double),
            ("exclusiveMinimum", 9, Form::Bool),
            ("maxLength", 10, Form::Int),
            ("minLength", 11, Form::Int),
            ("pattern", 12, Form::Text),
            ("maxItems", 13, Form::Int),
            ("minItems", 14, Form::Int),
            ("uniqueItems", 15, Form::Bool),
            ("enum", 16, Form::Anys),
            ("multipleOf", 17, Form::Double),
            $($more)*
        ]
    };
}

static ITEMS: Shape = Shape { members: primitive!(), extensions: 18 };
static HEADER: Shape = Shape { members: primitive!(("description", 18, Form::Text)), extensions: 19 };

static RESPONSE: Shape = Shape {
    members: &[
        ("description", 1, Form::Text),
        ("schema", 2, Form::Many(schema_item)),
        ("headers", 3, Form::Each(|m, value| HEADER.write(m, value))),
        ("examples", 4, Form::Each(any)),
    ],
    extensions: 5,
};

static FILE: Shape = Shape {
    members: &[
        ("format", 1, Form::Text),
        ("title", 2, Form::Text),
        ("description", 3, Form::Text),
        ("default", 4, Form::Any),
        ("required", 5, Form::Texts),
        ("type", 6, Form::Text),
        ("readOnly", 7, Form::Bool),
        ("externalDocs", 8, Form::One(&DOCS)),
        ("example", 9, Form::Any),
    ],
    extensions: 10,
};

/// The whole document. Title, version and security are ours.
pub(crate) fn document(document: &Value) -> Vec<u8> {
    let all = |name: &str| document.get(name).and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let mut m = Message::with_capacity(2 << 20);
    header(&mut m);
    m.message(8, |paths| {
        for (path, item) in all("paths") {
            match path.starts_with("x-") {
                true => named(paths, 1, path, |value| any(value, item)),
                false => named(paths, 2, path, |value| PATH_ITEM.write(value, item)),
            }
        }
    });
    m.message(9, |definitions| {
        for (name, schema) in all("definitions") {
            named(definitions, 1, name, |value| published::v2(value, schema));
        }
    });
    m.message(10, |parameters| {
        for (name, value) in all("parameters") {
            named(parameters, 1, name, |one| parameter(one, value));
        }
    });
    security(&mut m);
    m.finish()
}

impl Shape {
    pub fn write(&self, m: &mut Message, value: &Value) {
        for (name, number, form) in self.members {
            if let Some(value) = value.get(name).filter(|value| !value.is_null()) {
                deep(|| member(m, *number, *form, value));
            }
        }
        let all = value.as_map().into_iter().flat_map(Map::iter);
        for (name, value) in all.filter(|(name, _)| name.starts_with("x-")) {
            named(m, self.extensions, name, |one| any(one, value));
        }
    }
}

fn member(m: &mut Message, number: u32, form: Form, value: &Value) {
    let list = value.as_list().unwrap_or_default();
    match form {
        Form::Text => m.string(number, value.as_str().unwrap_or_default()),
        Form::Texts => list.iter().filter_map(Value::as_str).for_each(|text| m.string(number, text)),
        Form::Bool => m.bool(number, value.as_bool() == Some(true)),
        Form::Int => m.int(number, value.as_int().unwrap_or_default()),
        Form::Double => m.double(number, float(value)),
        Form::Any => m.message(number, |one| any(one, value)),
        Form::Anys => list.iter().for_each(|value| m.message(number, |one| any(one, value))),
        Form::Schema => m.message(number, |one| published::v2(one, value)),
        Form::One(shape) => m.message(number, |one| shape.write(one, value)),
        Form::Each(write) => m.message(number, |all| {
            for (name, value) in value.as_map().into_iter().flat_map(Map::iter) {
                named(all, 1, name, |one| write(one, value));
            }
        }),
        Form::Many(write) => match value {
            Value::List(list) => list.iter().for_each(|value| m.message(number, |one| write(one, value))),
            value => m.message(number, |one| write(one, value)),
        },
    }
}

/// `JsonReference`, in the second place of a choice; whether it is one.
fn reference(m: &mut Message, value: &Value) -> bool {
    let Some(text) = value.str_at(&["$ref"]) else { return false };
    m.message(2, |reference| {
        reference.string(1, text);
        if let Some(description) = value.str_at(&["description"]) {
            reference.string(2, description);
        }
    });
    true
}

/// `ParametersItem`.
fn parameters_item(m: &mut Message, value: &Value) {
    if !reference(m, value) {
        m.message(1, |one| parameter(one, value));
    }
}

/// `Parameter`.
fn parameter(m: &mut Message, value: &Value) {
    let (number, shape) = match value.str_at(&["in"]).unwrap_or_default() {
        "body" => return m.message(1, |body| BODY_PARAMETER.write(body, value)),
        "header" => (1, &PARAMETER),
        "formData" => (2, &OPTIONAL_PARAMETER),
        "path" => (4, &PARAMETER),
        _ => (3, &OPTIONAL_PARAMETER),
    };
    m.message(2, |non_body| non_body.message(number, |one| shape.write(one, value)));
}

/// `ResponseValue`.
fn response_value(m: &mut Message, value: &Value) {
    if !reference(m, value) {
        m.message(1, |one| RESPONSE.write(one, value));
    }
}

/// `SchemaItem`.
fn schema_item(m: &mut Message, value: &Value) {
    match value.str_at(&["type"]) {
        Some("file") => m.message(2, |one| FILE.write(one, value)),
        _ => m.message(1, |one| published::v2(one, value)),
    }
}

/// `SecurityRequirement`.
pub(super) fn requirement(m: &mut Message, value: &Value) {
    for (name, scopes) in value.as_map().into_iter().flat_map(Map::iter) {
        let scopes = scopes.as_list().unwrap_or_default();
        named(m, 1, name, |all| scopes.iter().filter_map(Value::as_str).for_each(|text| all.string(1, text)));
    }
}
