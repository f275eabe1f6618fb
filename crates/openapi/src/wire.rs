//! The Swagger 2.0 document as protobuf: gnostic's `openapi.v2.Document`, written by field number.
//!
//! The numbers are those of OpenAPIv2.proto; each function names the message it writes.

pub(crate) mod message;
pub(crate) mod openapi3;
pub(crate) mod published;
pub(crate) mod swagger;

use std::collections::BTreeMap;

use crate::Documents;
use crate::document::{INFO, Version, Writer as Text};
use crate::json::quoted;
use crate::paths::{self, Answer, Body, Method, Operation, Param, ParamIn, PathItem, phrase};
use crate::schemas::{Definition, Kind, Node, Target};
use crate::v2;
use message::Message;

pub(crate) fn document(of: Documents<'_>) -> Vec<u8> {
    let parts = v2::parts(of.catalog);
    let writer = Writer { text: Text { of, version: Version::V2 } };
    let mut m = Message::with_capacity(2 << 20);
    header(&mut m);
    m.message(8, |paths| {
        paths::each(of.catalog, &mut |item| {
            named(paths, 2, &item.path, |value| writer.path(value, item));
        });
    });
    m.message(9, |all| {
        for (name, definition) in &parts.definitions {
            named(all, 1, name, |value| match definition {
                Definition::Node(node) => writer.schema(value, node),
                Definition::Custom(custom) => {
                    published::v2(value, &writer.text.publisher().definition(*custom));
                }
            });
        }
    });
    m.message(10, |parameters| {
        for p in &parts.shared {
            named(parameters, 1, &v2::shared_name(p), |value| parameter(value, p));
        }
    });
    security(&mut m);
    m.finish()
}

fn header(m: &mut Message) {
    m.string(1, "2.0");
    m.message(2, |info| {
        info.string(1, INFO.0);
        info.string(2, INFO.1);
    });
}

fn security(m: &mut Message) {
    m.message(12, |requirement| named(requirement, 1, "BearerToken", |_| ()));
    m.message(13, |definitions| {
        named(definitions, 1, "BearerToken", |item| {
            item.message(2, |key| {
                key.string(1, "apiKey");
                key.string(2, "authorization");
                key.string(3, "header");
                key.string(4, "Bearer Token authentication");
            });
        });
    });
}

struct Writer<'a> {
    text: Text<'a>,
}

impl Writer<'_> {
    /// `Schema`.
    fn schema(&self, m: &mut Message, node: &Node) {
        if let Kind::Ref(target) = &node.kind {
            self.reference(m, *target);
        }
        if let Kind::Scalar(_, Some(format)) | Kind::OneOf(Some(format), _) = &node.kind {
            m.string(2, format);
        }
        if let Some(description) = node.description {
            m.string(4, description);
        }
        if let Kind::Object { required, .. } = &node.kind {
            required.iter().for_each(|name| m.string(19, name));
        }
        for value in &node.values {
            m.message(20, |any| any.string(2, &quoted(value)));
        }
        if let Kind::Map(element) = &node.kind {
            m.message(21, |item| item.message(1, |schema| self.schema(schema, element)));
        }
        if let Some(ty) = node.type_name(Version::V2) {
            m.message(22, |item| item.string(1, ty));
        }
        match &node.kind {
            Kind::Array(element) => {
                m.message(23, |items| items.message(1, |schema| self.schema(schema, element)))
            }
            Kind::Object { properties, .. } if !properties.is_empty() => {
                m.message(25, |all| schemas(all, properties, |m, node| self.schema(m, node)));
            }
            _ => {}
        }
        extensions(m, 31, &node.extensions);
    }

    fn reference(&self, m: &mut Message, target: Target) {
        m.string(1, &self.text.reference_text(target));
    }

    /// `PathItem`.
    fn path(&self, m: &mut Message, item: &PathItem) {
        let number = |method: &Method| match method {
            Method::Get => 2,
            Method::Put => 3,
            Method::Post => 4,
            Method::Delete => 5,
            Method::Options => 6,
            Method::Head => 7,
            Method::Patch => 8,
        };
        let mut operations: Vec<_> =
            item.operations.iter().map(|(method, op)| (number(method), op)).collect();
        operations.sort_by_key(|(number, _)| *number);
        for (number, op) in operations {
            m.message(number, |m| self.operation(m, op));
        }
        for p in &item.parameters {
            m.message(9, |item| parameters_item(item, p));
        }
    }

    /// `Operation`.
    fn operation(&self, m: &mut Message, op: &Operation) {
        m.string(1, &op.tag);
        m.string(5, &op.id);
        op.produces.types().iter().for_each(|ty| m.string(6, ty));
        op.consumes.iter().for_each(|ty| m.string(7, ty));
        if let Some(body) = op.body {
            m.message(8, |item| item.message(1, |parameter| parameter.message(1, |b| self.body(b, body))));
        }
        for p in &op.parameters {
            m.message(8, |item| parameters_item(item, p));
        }
        m.message(9, |responses| {
            for (code, answer) in &op.answers {
                named(responses, 1, &code.to_string(), |value| {
                    value.message(1, |response| {
                        response.string(1, phrase(*code));
                        response.message(2, |item| item.message(1, |schema| self.answer(schema, *answer)));
                    });
                });
            }
            named(responses, 1, "401", |value| value.message(1, |response| response.string(1, phrase(401))));
        });
        m.string(10, "https");
        extensions(m, 13, &op.extensions());
    }

    /// `BodyParameter`.
    fn body(&self, m: &mut Message, body: Body) {
        m.string(2, "body");
        m.string(3, "body");
        m.bool(4, body.required());
        m.message(5, |schema| self.reference(schema, body.target()));
    }

    fn answer(&self, m: &mut Message, answer: Answer) {
        match answer {
            Answer::Is(target) => self.reference(m, target),
            Answer::Text => m.message(22, |item| item.string(1, "string")),
        }
    }
}

/// `ParametersItem`: a parameter, or a reference to a shared one.
fn parameters_item(m: &mut Message, p: &Param) {
    if v2::is_shared(p) {
        m.message(2, |reference| reference.string(1, &format!("#/parameters/{}", v2::shared_name(p))));
    } else {
        m.message(1, |value| parameter(value, p));
    }
}

/// `Parameter` that is not a body: query and path parameters are messages of their own.
fn parameter(m: &mut Message, p: &Param) {
    m.message(2, |non_body| match p.location {
        ParamIn::Query => non_body.message(3, |q| {
            q.string(2, "query");
            q.string(4, p.name);
            q.string(6, p.ty);
            q.bool(20, true);
        }),
        ParamIn::Path => non_body.message(4, |q| {
            q.bool(1, true);
            q.string(2, "path");
            q.string(4, p.name);
            q.string(5, p.ty);
            q.bool(19, true);
        }),
    });
}

/// An entry of a map: `Named...`, its name and value.
pub(crate) fn named(m: &mut Message, number: u32, name: &str, value: impl FnOnce(&mut Message)) {
    m.message(number, |entry| {
        entry.string(1, name);
        entry.message(2, value);
    });
}

/// Each a `NamedAny` with the value as YAML text; JSON is YAML.
pub(crate) fn extensions(m: &mut Message, number: u32, all: &[(&'static str, String)]) {
    all.iter().for_each(|(name, json)| named(m, number, name, |any| any.string(2, json)));
}

/// The `named_schema`s of definitions or properties.
pub(crate) fn schemas(m: &mut Message, all: &BTreeMap<String, Node>, schema: impl Fn(&mut Message, &Node)) {
    all.iter().for_each(|(name, node)| named(m, 1, name, |value| schema(value, node)));
}
