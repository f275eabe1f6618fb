//! Structural schemas: the shape of an object is said once, plainly; what is under `allOf` and the like only validates values.

use object::{FieldError, Value, deep};

use super::errors::Errors;
use crate::at::At;
use crate::read::{entries, flag, items, member, text};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const VALIDATIONS: &str = "x-kubernetes-validations";

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Whether upstream could make a structural schema of it at all; what it cannot read is refused elsewhere.
pub(super) fn is_convertible(schema: &Value) -> bool {
    let unread = |schema: &Value| {
        let set = |name: &str| match schema.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Str(text)) => !text.is_empty(),
            Some(Value::Map(map)) => !map.is_empty(),
            Some(_) => true,
        };
        ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"]
            .iter()
            .any(|name| set(name))
            || member(schema, PRESERVE).and_then(Value::as_bool) == Some(false)
            || schema.get("items").and_then(Value::as_list).is_some_and(|list| !list.is_empty())
    };
    !super::words::any(schema, &unread)
}

/// All that is not structural, sorted by its text as upstream sorts it.
pub(super) fn check(schema: &Value, at: &At<'_>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    check_shape(schema, Level::Root, at, &mut errors);
    check_complete(schema, Some(schema), at, at, &mut errors);
    errors.list.sort_by_key(ToString::to_string);
    errors.list
}

fn check_shape(schema: &Value, level: Level, at: &At<'_>, errors: &mut Errors) {
    deep(|| check_shape_here(schema, level, at, errors));
}

fn check_shape_here(schema: &Value, level: Level, at: &At<'_>, errors: &mut Errors) {
    let kind = text(schema, "type");
    match schema_at(schema, "items") {
        Some(entry) => check_shape(entry, Level::Item, &at.child("items"), errors),
        None if kind == "array" => errors.required(&at.child("items"), "must be specified"),
        None => {}
    }
    for (name, property) in entries(schema, "properties") {
        check_shape(property, Level::Field, &at.child("properties").key(name), errors);
    }
    let additional = member(schema, "additionalProperties");
    if let Some(additional) = additional {
        let at = at.child("additionalProperties");
        if level == Level::Root {
            errors.forbidden(&at, "must not be used at the root");
        }
        if additional.as_map().is_some() {
            check_shape(additional, Level::Field, &at, errors);
        }
    }
    let (int_or_string, preserve, embedded) =
        (flag(schema, INT_OR_STRING), flag(schema, PRESERVE), flag(schema, EMBEDDED));
    if int_or_string {
        for (set, word) in [(preserve, PRESERVE), (embedded, EMBEDDED)] {
            if set {
                let detail = format!("must be false if {INT_OR_STRING} is true");
                errors.invalid(&at.child(word), true, detail);
            }
        }
    }
    let first = items(schema, "allOf").first();
    check_value_validation(schema, is_int_or_string(Some(schema)), is_int_or_string(first), at, errors);
    if embedded && kind != "object" {
        let detail = format!("must be object if {EMBEDDED} is true");
        match kind {
            "" => errors.required(&at.child("type"), &detail),
            _ => errors.invalid(&at.child("type"), kind, detail),
        }
    } else if kind.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.required(&at.child("type"), detail);
    }
    if embedded && additional.is_some() {
        let detail = format!("must not be used if {EMBEDDED} is set");
        errors.forbidden(&at.child("additionalProperties"), detail);
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(&at.child("type"), kind, "must be object at the root");
    }
    check_meta(schema, level, at, errors);
    if embedded && !preserve && entries(schema, "properties").next().is_none() {
        let detail = format!("must not be empty if {EMBEDDED} is true without {PRESERVE}");
        errors.required(&at.child("properties"), &detail);
    }
}

/// Every resource has apiVersion, kind and metadata; a schema can add little to them.
fn check_meta(schema: &Value, level: Level, at: &At<'_>, errors: &mut Errors) {
    let resource = level == Level::Root || flag(schema, EMBEDDED);
    let list = at.child("properties");
    let property = |name: &str| entries(schema, "properties").find(|(n, _)| *n == name).map(|(_, p)| p);
    for name in ["kind", "apiVersion"] {
        if let Some(own) = property(name).filter(|own| resource && text(own, "type") != "string") {
            errors.invalid(&list.key(name).child("type"), text(own, "type"), "must be string");
        }
    }
    let Some(metadata) = property("metadata") else { return };
    let at = list.key("metadata");
    if resource && text(metadata, "type") != "object" {
        errors.invalid(&at.child("type"), text(metadata, "type"), "must be object");
    }
    if level == Level::Root {
        let names: Vec<&str> = entries(metadata, "properties").map(|(name, _)| name).collect();
        let plain = names.iter().all(|name| matches!(*name, "name" | "generateName"));
        let set = |(name, value): (&catalog::Name, &Value)| match &**name {
            "type" | "default" => false,
            "properties" => !plain,
            "additionalProperties" => !value.is_null(),
            "items" | "allOf" | "anyOf" | "oneOf" | "enum" if value.as_list() == Some(&[]) => false,
            _ => !matches!(value, Value::Null | Value::Bool(false)) && value.as_str() != Some(""),
        };
        if metadata.as_map().is_some_and(|m| m.iter().any(set)) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.forbidden(&at, detail);
        }
    }
}

/// `anyOf: [{type: integer}, {type: string}]`: the one place where types may stand below a junctor.
fn is_int_or_string(schema: Option<&Value>) -> bool {
    let any_of = schema.map(|s| items(s, "anyOf")).unwrap_or_default();
    let only = |part: &Value, kind: &str| {
        text(part, "type") == kind
            && part.as_map().is_some_and(|m| m.iter().filter(|(_, v)| !v.is_null()).count() == 1)
    };
    any_of.len() == 2 && only(&any_of[0], "integer") && only(&any_of[1], "string")
}

/// The parts that validate values. `skip_any` and `skip_first`: the pattern above stands here, or in the first of `allOf`.
fn check_value_validation(
    schema: &Value,
    skip_any: bool,
    skip_first: bool,
    at: &At<'_>,
    errors: &mut Errors,
) {
    if !skip_any {
        for (i, part) in items(schema, "anyOf").iter().enumerate() {
            check_nested(part, false, &at.child("anyOf").index(i), errors);
        }
    }
    for (i, part) in items(schema, "allOf").iter().enumerate() {
        check_nested(part, skip_first && i == 0, &at.child("allOf").index(i), errors);
    }
    for (i, part) in items(schema, "oneOf").iter().enumerate() {
        check_nested(part, false, &at.child("oneOf").index(i), errors);
    }
    if let Some(not) = member(schema, "not") {
        check_nested(not, false, &at.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = regexp::Regexp::check(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.invalid(&at.child("pattern"), pattern, detail);
    }
}

fn check_nested(schema: &Value, skip_any: bool, at: &At<'_>, errors: &mut Errors) {
    deep(|| check_value_validation(schema, skip_any, false, at, errors));
    if let Some(entry) = schema_at(schema, "items") {
        deep(|| check_nested(entry, false, &at.child("items"), errors));
    }
    for (name, property) in entries(schema, "properties") {
        deep(|| check_nested(property, false, &at.child("properties").key(name), errors));
    }
    let has = |name: &str| match schema.get(name) {
        None | Some(Value::Null) => false,
        // Any value is one.
        Some(_) if name == "default" => true,
        Some(Value::Bool(false)) => false,
        Some(Value::Str(text)) => !text.is_empty() || name.ends_with("-type"),
        Some(Value::List(list)) => !list.is_empty(),
        Some(_) => true,
    };
    for (name, wanted) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        (PRESERVE, "false"),
        (EMBEDDED, "false"),
        (INT_OR_STRING, "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        (VALIDATIONS, "empty"),
    ] {
        if has(name) {
            errors.forbidden(&at.child(name), format!("must be {wanted} to be structural"));
        }
    }
    if entries(schema, "properties").any(|(name, _)| name == "metadata") {
        let at = at.child("properties");
        errors.forbidden(&at.key("metadata"), "must not be specified in a nested context");
    }
}

/// A value validation of a field is about one that the shape has.
fn check_complete(
    validation: &Value,
    shape: Option<&Value>,
    shape_at: &At<'_>,
    at: &At<'_>,
    errors: &mut Errors,
) {
    if let Some(not) = member(validation, "not") {
        check_nested_complete(not, shape, shape_at, &at.child("not"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (i, part) in items(validation, name).iter().enumerate() {
            check_nested_complete(part, shape, shape_at, &at.child(name).index(i), errors);
        }
    }
}

fn check_nested_complete(
    validation: &Value,
    shape: Option<&Value>,
    shape_at: &At<'_>,
    at: &At<'_>,
    errors: &mut Errors,
) {
    let Some(shape) = shape else {
        return errors.required(shape_at, &format!("because it is defined in {at}"));
    };
    deep(|| check_complete(validation, Some(shape), shape_at, at, errors));
    if let Some(entry) = schema_at(validation, "items") {
        let own = schema_at(shape, "items");
        deep(|| check_nested_complete(entry, own, &shape_at.child("items"), &at.child("items"), errors));
    }
    for (name, property) in entries(validation, "properties") {
        let own = entries(shape, "properties").find(|(n, _)| *n == name).map(|(_, p)| p);
        let (shape_list, list) = (shape_at.child("properties"), at.child("properties"));
        deep(|| check_nested_complete(property, own, &shape_list.key(name), &list.key(name), errors));
    }
}

/// A member that is one schema; the empty list that `items` may be is none.
fn schema_at<'v>(schema: &'v Value, name: &str) -> Option<&'v Value> {
    schema.get(name).filter(|schema| schema.as_map().is_some())
}
