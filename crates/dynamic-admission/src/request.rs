//! The `AdmissionRequest`: what a webhook is sent, and what expressions know as `request`.

use admission::{Attempt, Operation};
use catalog::Verbs;
use object::Value;

use crate::criteria::{Invocation, namespace};

/// Without uid and objects.
pub fn admission_request(attempt: &Attempt<'_>, invocation: &Invocation) -> Value {
    let mut out = Value::map();
    let map = out.make_map();
    let asked = attempt.kind();
    let kind = match attempt.body {
        admission::Body::Resource => {
            let resource = &invocation.resource;
            (&*resource.group, &*resource.version, &*resource.kind)
        }
        admission::Body::Other { .. } => asked,
    };
    let (own, shown) = (&attempt.resource, &invocation.resource);
    let subresource = attempt.subresource.unwrap_or_default();
    map.set("kind", names(kind, "kind"));
    map.set("resource", names((&shown.group, &shown.version, &shown.plural), "resource"));
    set_text(map, "subResource", subresource);
    map.set("requestKind", names(asked, "kind"));
    map.set("requestResource", names((&own.group, &own.version, &own.plural), "resource"));
    set_text(map, "requestSubResource", subresource);
    // Of a whole collection nobody is named.
    let name = if attempt.verb.contains(Verbs::DELETE_COLLECTION) { "" } else { attempt.name };
    set_text(map, "name", name);
    set_text(map, "namespace", namespace(attempt));
    map.set("operation", attempt.operation.name());
    map.set("userInfo", user_info(attempt));
    map.set("dryRun", attempt.dry_run);
    map.set("options", options(attempt));
    out
}

/// `request` of match conditions, of webhooks and policies alike: they see the resource of the request, whichever equivalent one a
/// rule named; the kind is the equivalent's.
pub fn condition_request(attempt: &Attempt<'_>, invocation: &Invocation) -> Value {
    let mut request = expression_request(attempt, invocation);
    if let Some(own) = request.get("requestResource").cloned() {
        request.make_map().set("resource", own);
    }
    request
}

/// `request` of other expressions.
pub fn expression_request(attempt: &Attempt<'_>, invocation: &Invocation) -> Value {
    let mut request = admission_request(attempt, invocation);
    let map = request.make_map();
    // Fields that are there whatever the request is, and say nothing: the objects have variables of their own.
    map.set("uid", "");
    map.set("object", Value::Null);
    map.set("oldObject", Value::Null);
    request
}

fn set_text(map: &mut object::Map, name: &'static str, text: &str) {
    if !text.is_empty() {
        map.set(name, text);
    }
}

fn names((group, version, name): (&str, &str, &str), member: &'static str) -> Value {
    let mut out = Value::map();
    let map = out.make_map();
    map.set("group", group);
    map.set("version", version);
    map.set(member, name);
    out
}

fn user_info(attempt: &Attempt<'_>) -> Value {
    let user = attempt.user;
    let texts = |list: &[String]| -> Vec<Value> { list.iter().map(|text| text.as_str().into()).collect() };
    let mut out = Value::map();
    let map = out.make_map();
    set_text(map, "username", &user.name);
    set_text(map, "uid", &user.uid);
    if !user.groups.is_empty() {
        map.set("groups", texts(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = object::Map::default();
        for (key, values) in &user.extra {
            extra.set(catalog::Name::from(key.clone()), texts(values));
        }
        map.set("extra", extra);
    }
    out
}

/// CreateOptions, UpdateOptions or DeleteOptions; nothing for a CONNECT.
fn options(attempt: &Attempt<'_>) -> Value {
    let mut out = match attempt.operation {
        Operation::Connect => return Value::Null,
        Operation::Delete => attempt.delete_options.map_or_else(Value::map, |options| options.to_value()),
        _ => Value::map(),
    };
    let map = out.make_map();
    map.set("apiVersion", "meta.k8s.io/v1");
    map.set(
        "kind",
        match attempt.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            _ => "DeleteOptions",
        },
    );
    if attempt.operation == Operation::Delete {
        return out;
    }
    if attempt.dry_run {
        map.set("dryRun", vec![Value::from("All")]);
    }
    let said = &attempt.options;
    set_text(map, "fieldManager", said.field_manager);
    if said.names_field_validation {
        map.set("fieldValidation", said.field_validation.as_str());
    }
    out
}
