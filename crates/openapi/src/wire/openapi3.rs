//! Any OpenAPI 3.0 document as protobuf, from its JSON: where one was converted from another server's Swagger 2.0.
//!
//! Each message is a table of members with their numbers in OpenAPIv3.proto.

use object::{Map, Value};

use super::message::Message;
use super::named;
use super::published::{self, any};
use super::swagger::{DOCS, Form, Shape, requirement};

static CONTACT: Shape = Shape {
    members: &[("name", 1, Form::Text), ("url", 2, Form::Text), ("email", 3, Form::Text)],
    extensions: 4,
};

static LICENSE: Shape = Shape { members: &[("name", 1, Form::Text), ("url", 2, Form::Text)], extensions: 3 };

static INFO: Shape = Shape {
    members: &[
        ("title", 1, Form::Text),
        ("description", 2, Form::Text),
        ("termsOfService", 3, Form::Text),
        ("contact", 4, Form::One(&CONTACT)),
        ("license", 5, Form::One(&LICENSE)),
        ("version", 6, Form::Text),
    ],
    extensions: 7,
};

static OPERATION: Shape = Shape {
    members: &[
        ("tags", 1, Form::Texts),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("externalDocs", 4, Form::One(&DOCS)),
        ("operationId", 5, Form::Text),
        ("parameters", 6, Form::Many(parameter)),
        ("requestBody", 7, Form::Many(request_body)),
        ("responses", 8, Form::Many(responses)),
        ("deprecated", 10, Form::Bool),
        ("security", 11, Form::Many(requirement)),
    ],
    extensions: 13,
};

static PATH_ITEM: Shape = Shape {
    members: &[
        ("$ref", 1, Form::Text),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("get", 4, Form::One(&OPERATION)),
        ("put", 5, Form::One(&OPERATION)),
        ("post", 6, Form::One(&OPERATION)),
        ("delete", 7, Form::One(&OPERATION)),
        ("options", 8, Form::One(&OPERATION)),
        ("head", 9, Form::One(&OPERATION)),
        ("patch", 10, Form::One(&OPERATION)),
        ("parameters", 13, Form::Many(parameter)),
    ],
    extensions: 14,
};

static PARAMETER: Shape = Shape {
    members: &[
        ("name", 1, Form::Text),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("required", 4, Form::Bool),
        ("deprecated", 5, Form::Bool),
        ("allowEmptyValue", 6, Form::Bool),
        ("style", 7, Form::Text),
        ("explode", 8, Form::Bool),
        ("allowReserved", 9, Form::Bool),
        ("schema", 10, Form::Many(published::v3)),
        ("example", 11, Form::Any),
        ("content", 13, Form::Each(media_type)),
    ],
    extensions: 14,
};

static HEADER: Shape = Shape {
    members: &[
        ("description", 1, Form::Text),
        ("required", 2, Form::Bool),
        ("deprecated", 3, Form::Bool),
        ("allowEmptyValue", 4, Form::Bool),
        ("style", 5, Form::Text),
        ("explode", 6, Form::Bool),
        ("allowReserved", 7, Form::Bool),
        ("schema", 8, Form::Many(published::v3)),
        ("example", 9, Form::Any),
        ("content", 11, Form::Each(media_type)),
    ],
    extensions: 12,
};

static REQUEST_BODY: Shape = Shape {
    members: &[
        ("description", 1, Form::Text),
        ("content", 2, Form::Each(media_type)),
        ("required", 3, Form::Bool),
    ],
    extensions: 4,
};

static RESPONSE: Shape = Shape {
    members: &[
        ("description", 1, Form::Text),
        ("headers", 2, Form::Each(header)),
        ("content", 3, Form::Each(media_type)),
    ],
    extensions: 5,
};

static MEDIA_TYPE: Shape =
    Shape { members: &[("schema", 1, Form::Many(published::v3)), ("example", 2, Form::Any)], extensions: 5 };

static FLOW: Shape = Shape {
    members: &[
        ("authorizationUrl", 1, Form::Text),
        ("tokenUrl", 2, Form::Text),
        ("refreshUrl", 3, Form::Text),
        ("scopes", 4, Form::Many(strings)),
    ],
    extensions: 5,
};

static FLOWS: Shape = Shape {
    members: &[
        ("implicit", 1, Form::One(&FLOW)),
        ("password", 2, Form::One(&FLOW)),
        ("clientCredentials", 3, Form::One(&FLOW)),
        ("authorizationCode", 4, Form::One(&FLOW)),
    ],
    extensions: 5,
};

static SECURITY_SCHEME: Shape = Shape {
    members: &[
        ("type", 1, Form::Text),
        ("description", 2, Form::Text),
        ("name", 3, Form::Text),
        ("in", 4, Form::Text),
        ("scheme", 5, Form::Text),
        ("bearerFormat", 6, Form::Text),
        ("flows", 7, Form::One(&FLOWS)),
        ("openIdConnectUrl", 8, Form::Text),
    ],
    extensions: 9,
};

static COMPONENTS: Shape = Shape {
    members: &[
        ("schemas", 1, Form::Each(published::v3)),
        ("responses", 2, Form::Each(response)),
        ("parameters", 3, Form::Each(parameter)),
        ("requestBodies", 5, Form::Each(request_body)),
        ("headers", 6, Form::Each(header)),
        ("securitySchemes", 7, Form::Each(security_scheme)),
    ],
    extensions: 10,
};

static DOCUMENT: Shape = Shape {
    members: &[
        ("openapi", 1, Form::Text),
        ("info", 2, Form::One(&INFO)),
        ("paths", 4, Form::Many(paths)),
        ("components", 5, Form::One(&COMPONENTS)),
        ("security", 6, Form::Many(requirement)),
        ("externalDocs", 8, Form::One(&DOCS)),
    ],
    extensions: 9,
};

pub(crate) fn document(document: &Value) -> Vec<u8> {
    let mut m = Message::with_capacity(256 << 10);
    DOCUMENT.write(&mut m, document);
    m.finish()
}

fn members(value: &Value) -> impl Iterator<Item = (&catalog::Name, &Value)> {
    value.as_map().into_iter().flat_map(Map::iter)
}

/// `Paths`.
fn paths(m: &mut Message, value: &Value) {
    for (path, item) in members(value) {
        match path.starts_with("x-") {
            true => named(m, 2, path, |one| any(one, item)),
            false => named(m, 1, path, |one| PATH_ITEM.write(one, item)),
        }
    }
}

/// `Responses`.
fn responses(m: &mut Message, value: &Value) {
    if let Some(default) = value.get("default") {
        m.message(1, |one| response(one, default));
    }
    for (code, value) in members(value).filter(|(code, _)| **code != *"default") {
        match code.starts_with("x-") {
            true => named(m, 3, code, |one| any(one, value)),
            false => named(m, 2, code, |one| response(one, value)),
        }
    }
}

/// A choice between the thing itself and a `Reference` to it.
fn or_reference(m: &mut Message, value: &Value, shape: &Shape) {
    match value.str_at(&["$ref"]) {
        Some(reference) => m.message(2, |one| one.string(1, reference)),
        None => m.message(1, |one| shape.write(one, value)),
    }
}

fn parameter(m: &mut Message, value: &Value) {
    or_reference(m, value, &PARAMETER);
}

fn header(m: &mut Message, value: &Value) {
    or_reference(m, value, &HEADER);
}

fn request_body(m: &mut Message, value: &Value) {
    or_reference(m, value, &REQUEST_BODY);
}

fn response(m: &mut Message, value: &Value) {
    or_reference(m, value, &RESPONSE);
}

fn security_scheme(m: &mut Message, value: &Value) {
    or_reference(m, value, &SECURITY_SCHEME);
}

/// `MediaType`.
fn media_type(m: &mut Message, value: &Value) {
    MEDIA_TYPE.write(m, value);
}

/// `Strings`.
fn strings(m: &mut Message, value: &Value) {
    for (name, text) in members(value) {
        m.message(1, |one| {
            one.string(1, name);
            one.string(2, text.as_str().unwrap_or_default());
        });
    }
}
