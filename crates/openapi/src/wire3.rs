//! An OpenAPI 3.0 document as protobuf: gnostic's `openapi.v3.Document`, written by field number.
//!
//! The numbers are those of OpenAPIv3.proto; each function says which of its messages it writes. Says what `v3` says as JSON.

use crate::Documents;
use crate::document::{Version, Writer as Text};
use crate::json::quoted;
use crate::paths::{Answer, Method, Operation, Param, ParamIn, PathItem, in_order, phrase};
use crate::schemas::{Definition, Kind, Node, Target};
use crate::v3;
use crate::wire::message::Message;
use crate::wire::{extensions, named, published, schemas};

pub(crate) fn document(of: Documents<'_>, path: &str) -> Option<Vec<u8>> {
    let parts = v3::parts(of.catalog, path)?;
    let writer = Writer { text: Text { of, version: Version::V3 } };
    let mut m = Message::with_capacity(256 << 10);
    m.string(1, "3.0.0");
    m.message(2, |info| {
        let (title, version) = parts.style.info();
        info.string(1, title);
        info.string(6, version);
    });
    m.message(4, |paths| {
        for item in &parts.items {
            named(paths, 1, &item.path, |value| writer.path(value, item));
        }
    });
    m.message(5, |components| {
        if !parts.definitions.is_empty() {
            components.message(1, |all| {
                for (name, definition) in &parts.definitions {
                    named(all, 1, name, |value| match definition {
                        Definition::Node(node) => writer.schema(value, node),
                        Definition::Custom(custom) => {
                            published::v3(value, &writer.text.publisher().definition(*custom));
                        }
                    });
                }
            });
        }
        if !parts.style.has_security() {
            return;
        }
        components.message(7, |all| {
            named(all, 1, "BearerToken", |value| {
                value.message(1, |scheme| {
                    scheme.string(1, "apiKey");
                    scheme.string(2, "Bearer Token authentication");
                    scheme.string(3, "authorization");
                    scheme.string(4, "header");
                });
            });
        });
    });
    Some(m.finish())
}

struct Writer<'a> {
    text: Text<'a>,
}

impl Writer<'_> {
    /// `SchemaOrReference`: a reference only where nothing stands beside it, as in JSON.
    fn schema(&self, m: &mut Message, node: &Node) {
        match &node.kind {
            Kind::Ref(target) if node.is_bare() => self.reference(m, *target),
            _ => m.message(1, |m| self.own_schema(m, node)),
        }
    }

    /// `Schema`.
    fn own_schema(&self, m: &mut Message, node: &Node) {
        if let Kind::Object { required, .. } = &node.kind {
            required.iter().for_each(|name| m.string(23, name));
        }
        for value in &node.values {
            m.message(24, |any| any.string(2, &quoted(value)));
        }
        if let Some(ty) = node.type_name(Version::V3) {
            m.string(25, ty);
        }
        match &node.kind {
            Kind::Ref(target) => m.message(26, |one| self.reference(one, *target)),
            Kind::OneOf(_, types) => {
                types.iter().for_each(|ty| m.message(27, |one| one.message(1, |s| s.string(25, ty))));
            }
            Kind::Array(element) => m.message(30, |items| items.message(1, |one| self.schema(one, element))),
            Kind::Object { properties, .. } if !properties.is_empty() => {
                m.message(31, |all| schemas(all, properties, |m, node| self.schema(m, node)));
            }
            Kind::Map(element) => m.message(32, |item| item.message(1, |one| self.schema(one, element))),
            _ => {}
        }
        if let Some(text) = &node.default {
            default(m, text);
        }
        if let Some(description) = node.description {
            m.string(34, description);
        }
        if let Kind::Scalar(_, Some(format)) | Kind::OneOf(Some(format), _) = &node.kind {
            m.string(35, format);
        }
        extensions(m, 36, &node.extensions);
    }

    /// The reference of a `...OrReference`.
    fn reference(&self, m: &mut Message, target: Target) {
        m.message(2, |one| one.string(1, &self.text.reference_text(target)));
    }

    /// `PathItem`.
    fn path(&self, m: &mut Message, item: &PathItem) {
        let numbered = item.operations.iter().map(|(method, op)| {
            let number = match method {
                Method::Get => 4,
                Method::Put => 5,
                Method::Post => 6,
                Method::Delete => 7,
                Method::Options => 8,
                Method::Head => 9,
                Method::Patch => 10,
            };
            (number, op)
        });
        let mut numbered: Vec<_> = numbered.collect();
        numbered.sort_by_key(|(number, _)| *number);
        for (number, op) in numbered {
            m.message(number, |m| self.operation(m, op));
        }
        item.parameters.iter().for_each(|p| m.message(13, |one| parameter(one, p)));
    }

    /// `Operation`.
    fn operation(&self, m: &mut Message, op: &Operation) {
        m.string(1, &op.tag);
        m.string(5, &op.id);
        op.parameters.iter().for_each(|p| m.message(6, |one| parameter(one, p)));
        if op.body.is_some() {
            m.message(7, |one| one.message(1, |m| self.body(m, op)));
        }
        m.message(8, |responses| {
            for (code, answer) in &op.answers {
                named(responses, 2, &code.to_string(), |one| {
                    one.message(1, |response| {
                        response.string(1, phrase(*code));
                        response.message(3, |content| {
                            for ty in in_order(op.produces.types()) {
                                named(content, 1, ty, |media| media.message(1, |s| self.answer(s, *answer)));
                            }
                        });
                    });
                });
            }
            named(responses, 2, "401", |one| one.message(1, |response| response.string(1, phrase(401))));
        });
        extensions(m, 13, &op.extensions());
    }

    /// `RequestBody`.
    fn body(&self, m: &mut Message, op: &Operation) {
        let Some(body) = op.body else { return };
        m.message(2, |content| {
            for ty in in_order(op.consumes) {
                named(content, 1, ty, |media| media.message(1, |s| self.reference(s, body.target())));
            }
        });
        m.bool(3, body.required());
    }

    fn answer(&self, m: &mut Message, answer: Answer) {
        match answer {
            Answer::Is(target) => self.reference(m, target),
            Answer::Text => m.message(1, |schema| schema.string(25, "string")),
        }
    }
}

/// `ParameterOrReference`.
fn parameter(m: &mut Message, p: &Param) {
    m.message(1, |m| {
        m.string(1, p.name);
        m.string(2, p.location.name());
        m.bool(4, p.location == ParamIn::Path);
        m.message(10, |one| {
            one.message(1, |schema| {
                schema.bool(20, true);
                schema.string(25, p.ty);
            });
        });
    });
}

/// `DefaultType`: scalars only, so other defaults are left out, as upstream does.
fn default(m: &mut Message, json: &str) {
    if let Some(text) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        // Defaults in the catalogue are plain text: nothing in them is escaped.
        m.message(33, |one| one.string(3, text));
    } else if json == "true" || json == "false" {
        m.message(33, |one| one.present_bool(2, json == "true"));
    } else if let Ok(number) = json.parse::<f64>() {
        m.message(33, |one| one.double(1, number));
    }
}
