//! The words of a schema: what OpenAPI has and definitions may not use, and Kubernetes' own words for lists and maps.

use std::collections::{BTreeMap, BTreeSet};

use object::{Value, deep};

use super::errors::{Errors, Raw};
use super::{Lenience, RuleSite, Step, path, shape, shown};
use crate::at::At;
use crate::read::{entries, flag, items, member, text, texts};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
const META: [&str; 3] = ["metadata", "kind", "apiVersion"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const VALIDATIONS: &str = "x-kubernetes-validations";
/// With a status of its own, the schema of the status is cut out: nothing else may hang on the root.
#[rustfmt::skip]
const AT_ROOT: [(&str, &str); 22] = [
    ("description", "Description"), ("type", "Type"), ("format", "Format"), ("title", "Title"),
    ("maximum", "Maximum"), ("exclusiveMaximum", "ExclusiveMaximum"), ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"), ("maxLength", "MaxLength"), ("minLength", "MinLength"),
    ("pattern", "Pattern"), ("maxItems", "MaxItems"), ("minItems", "MinItems"), ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"), ("required", "Required"), ("items", "Items"), ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"), ("example", "Example"), (PRESERVE, "XPreserveUnknownFields"),
    (VALIDATIONS, "XValidations"),
];

/// Whether a schema or one inside it has a type that does not exist, breaks the rule of sets, or that of keys.
pub(super) fn has_odd_type(schema: &Value) -> bool {
    any(schema, &|schema| !text(schema, "type").is_empty() && !TYPES.contains(&text(schema, "type")))
}
pub(super) fn has_broken_set(schema: &Value) -> bool {
    any(schema, &|schema| breaks(schema, check_set))
}
pub(super) fn has_broken_keys(schema: &Value) -> bool {
    any(schema, &|schema| breaks(schema, check_keys))
}
fn breaks(schema: &Value, rule: fn(&Value, &At<'_>, &mut Errors)) -> bool {
    let mut errors = Errors::default();
    rule(schema, &At::Text("schema"), &mut errors);
    !errors.list.is_empty()
}

/// Whether this schema or one inside it has something.
pub fn any(schema: &Value, has: &dyn Fn(&Value) -> bool) -> bool {
    has(schema) || deep(|| children(schema).into_iter().any(|child| any(child, has)))
}

fn children(schema: &Value) -> Vec<&Value> {
    let mut all: Vec<&Value> = Vec::new();
    for name in ["properties", "patternProperties", "definitions", "dependencies"] {
        all.extend(entries(schema, name).map(|(_, child)| child));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        all.extend(items(schema, name));
    }
    all.extend(["not", "additionalProperties", "additionalItems"].iter().filter_map(|n| schema.get(n)));
    match schema.get("items") {
        Some(Value::List(list)) => all.extend(list),
        other => all.extend(other),
    }
    all.retain(|child| child.as_map().is_some());
    all
}

/// The root of a schema whose resource has a status of its own.
pub(super) fn check_root(schema: &Value, at: &At<'_>, errors: &mut Errors) {
    for (name, value) in schema.as_map().into_iter().flat_map(|m| m.iter()) {
        // What Go holds by value is not there when it is zero; an empty list or a pointer is no zero.
        if value.is_null() {
            continue;
        }
        if &**name == "type" {
            if value.as_str() == Some("object") {
                continue;
            }
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            return errors.invalid(&at.child("openAPIV3Schema").child("type"), value, detail);
        }
        if !AT_ROOT.iter().any(|(json, _)| *json == &**name) {
            let fields: Vec<&str> = AT_ROOT.iter().map(|(_, go)| *go).collect();
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                fields.join(" ")
            );
            return errors.invalid(&at.child("openAPIV3Schema"), Raw(&super::shown::schema(schema)), detail);
        }
    }
}

/// Where in an object a schema stands.
#[derive(Clone, Copy)]
struct Place<'p> {
    root: bool,
    /// Inside apiVersion, kind or metadata of a resource.
    meta: bool,
    /// Why there may be no default here.
    no_default: Option<&'p str>,
    /// Below `not`, `allOf` and the like, where no rule is run.
    aside: bool,
    /// The list around it whose old and new elements cannot be told to be the same.
    uncorrelatable: Option<&'p At<'p>>,
}

/// The walk through a schema.
pub(super) struct Walk<'l> {
    lenience: &'l Lenience,
    pub(super) errors: Errors,
    pub(super) sites: Vec<RuleSite>,
    steps: Vec<Step>,
}

impl<'l> Walk<'l> {
    pub(super) fn new(lenience: &'l Lenience) -> Walk<'l> {
        Walk { lenience, errors: Errors::default(), sites: Vec::new(), steps: Vec::new() }
    }

    pub(super) fn check(&mut self, schema: &Value, at: &At<'_>) {
        let place = Place { root: true, meta: false, no_default: None, aside: false, uncorrelatable: None };
        self.check_at(schema, place, at);
    }

    fn check_at(&mut self, schema: &Value, place: Place<'_>, at: &At<'_>) {
        deep(|| self.check_level(schema, place, at));
    }

    /// A schema of its own, one step further into the object.
    fn check_below(&mut self, step: Step, schema: &Value, place: Place<'_>, at: &At<'_>) {
        self.steps.push(step);
        self.check_at(schema, place, at);
        self.steps.pop();
    }

    fn check_level(&mut self, schema: &Value, place: Place<'_>, at: &At<'_>) {
        let before = self.errors.len();
        let inner = Place { root: false, ..place };
        let aside = Place { aside: true, ..inner };
        check_standard(schema, place, at, self.lenience, &mut self.errors);
        if flag(schema, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.forbidden(&at.child("uniqueItems"), detail);
        }
        if let Some(additional) = member(schema, "additionalProperties") {
            let some = entries(schema, "properties").next().is_some();
            if some && additional.as_bool() != Some(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.errors.forbidden(&at.child("additionalProperties"), detail);
            }
            let reason = "inside additionalProperties applying to object metadata";
            let no_default = if place.meta { Some(reason) } else { inner.no_default };
            if additional.as_map().is_some() {
                let at = at.child("additionalProperties");
                self.check_below(Step::Additional, additional, Place { no_default, ..inner }, &at);
            }
        }
        for (name, property) in entries(schema, "properties") {
            let own = (place.root || flag(schema, EMBEDDED)) && META.contains(&name);
            let reason = format!("in top-level {name}");
            let no_default = if own && place.root { Some(reason.as_str()) } else { inner.no_default };
            let place = Place { meta: inner.meta || own, no_default, ..inner };
            self.check_below(Step::Property(name.into()), property, place, &at.child("properties").key(name));
        }
        if let Some(not) = member(schema, "not") {
            self.check_at(not, aside, &at.child("not"));
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (i, part) in items(schema, name).iter().enumerate() {
                self.check_at(part, aside, &at.child(name).index(i));
            }
        }
        for (name, part) in entries(schema, "definitions") {
            self.check_at(part, aside, &at.child("definitions").key(name));
        }
        let correlatable = text(schema, LIST_TYPE) == "map";
        let uncorrelatable =
            if correlatable { inner.uncorrelatable } else { inner.uncorrelatable.or(Some(at)) };
        let of_items = Place { uncorrelatable, ..inner };
        match member(schema, "items") {
            Some(Value::List(list)) => {
                for (i, part) in list.iter().enumerate() {
                    self.check_at(part, Place { aside: true, ..of_items }, &at.child("items").index(i));
                }
            }
            Some(part) => self.check_below(Step::Items, part, of_items, &at.child("items")),
            None => {}
        }
        for (name, part) in entries(schema, "dependencies").filter(|(_, part)| part.as_map().is_some()) {
            self.check_at(part, aside, &at.child("dependencies").key(name));
        }
        check_words(schema, at, self.lenience, &mut self.errors);
        check_validations(schema, &at.child(VALIDATIONS), &mut self.errors);
        // Rules over a schema that is wrong would only be misread.
        if !place.aside && self.errors.len() == before && !items(schema, VALIDATIONS).is_empty() {
            self.sites.push(RuleSite {
                at: at.child(VALIDATIONS).to_string(),
                steps: self.steps.clone(),
                uncorrelatable: place.uncorrelatable.map(ToString::to_string),
            });
        }
    }
}

fn check_standard(schema: &Value, place: Place<'_>, at: &At<'_>, lenience: &Lenience, errors: &mut Errors) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !lenience.types {
        errors.one_of(&at.child("type"), kind, &TYPES);
    }
    if let Some(reason) = place.no_default.filter(|_| member(schema, "default").is_some()) {
        errors.forbidden(&at.child("default"), format!("must not be set {reason}"));
    }
    for name in UNSUPPORTED {
        let set = match member(schema, name) {
            Some(Value::Str(text)) => name == "$ref" || !text.is_empty(),
            Some(Value::Map(map)) => name == "dependencies" || name == "additionalItems" || !map.is_empty(),
            other => other.is_some(),
        };
        if set {
            errors.forbidden(&at.child(name), format!("{name} is not supported"));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(&at.child("type"), detail);
    }
    if schema.get("items").and_then(Value::as_list).is_some_and(|list| !list.is_empty()) {
        errors.forbidden(&at.child("items"), "items must be a schema object and not an array");
    }
    if place.meta && flag(schema, EMBEDDED) {
        errors.forbidden(&at.child(EMBEDDED), "must not be used inside of resource meta");
    }
}

/// Kubernetes' own words: list types, map types, keys.
fn check_words(schema: &Value, at: &At<'_>, lenience: &Lenience, errors: &mut Errors) {
    if member(schema, PRESERVE).and_then(Value::as_bool) == Some(false) {
        errors.invalid(&at.child(PRESERVE), false, "must be true or undefined");
    }
    let kind = text(schema, "type");
    for (word, wanted) in [(MAP_TYPE, "object"), (LIST_TYPE, "array")] {
        let Some(chosen) = member(schema, word).and_then(Value::as_str) else { continue };
        let detail = format!("must be {wanted} if {word} is specified");
        match kind {
            "" => errors.required(&at.child("type"), &detail),
            _ if kind != wanted => errors.invalid(&at.child("type"), kind, detail),
            _ if word == LIST_TYPE && !lenience.sets => check_set(schema, at, errors),
            _ => {}
        }
        let allowed: &[&str] =
            if word == MAP_TYPE { &["atomic", "granular"] } else { &["atomic", "set", "map"] };
        errors.one_of(&at.child(word), chosen, allowed);
    }
    let list_type = member(schema, LIST_TYPE).and_then(Value::as_str);
    if !items(schema, LIST_KEYS).is_empty() {
        let detail = format!("must be map if {LIST_KEYS} is non-empty");
        match list_type {
            None => errors.required(&at.child(LIST_TYPE), &detail),
            Some(other) if other != "map" => errors.invalid(&at.child(LIST_TYPE), other, detail),
            Some(_) => {}
        }
    }
    if list_type == Some("map") {
        check_map_list(schema, at, errors);
    }
    if !lenience.keys {
        check_keys(schema, at, errors);
    }
}

/// The entries of a set are compared whole.
fn check_set(schema: &Value, at: &At<'_>, errors: &mut Errors) {
    let Some(entry) = schema.get("items").filter(|i| i.as_map().is_some()) else { return };
    if text(schema, LIST_TYPE) != "set" || text(schema, "type") != "array" {
        return;
    }
    let word = match text(entry, "type") {
        "array" if !matches!(text(entry, LIST_TYPE), "" | "atomic") => LIST_TYPE,
        "object" if text(entry, MAP_TYPE) != "atomic" => MAP_TYPE,
        _ => return,
    };
    // Upstream shows the list type in both.
    let shown = member(entry, LIST_TYPE);
    let detail = format!("must be atomic as item of a list with {LIST_TYPE}=set");
    errors.invalid(&at.child("items").child(word), shown, detail);
}

fn check_map_list(schema: &Value, at: &At<'_>, errors: &mut Errors) {
    let keys: Vec<&str> = texts(schema, LIST_KEYS).collect();
    let keys_at = at.child(LIST_KEYS);
    if keys.is_empty() {
        errors.required(&keys_at, "must not be empty if x-kubernetes-list-type is map");
    }
    let items_at = at.child("items");
    let entry = match member(schema, "items") {
        None => return errors.required(&items_at, "must have a schema if x-kubernetes-list-type is map"),
        Some(list @ Value::List(_)) => {
            let shown = shown::items(list);
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.invalid(&items_at, Raw(&shown), detail);
        }
        Some(entry) => entry,
    };
    if text(entry, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(&items_at.child("type"), text(entry, "type"), detail);
    }
    let mut seen = BTreeSet::new();
    let properties: BTreeMap<&str, &Value> = entries(entry, "properties").collect();
    for key in &keys {
        match properties.get(key) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.invalid(&keys_at, schema.get(LIST_KEYS), detail);
            }
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let at = items_at.child("properties");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(&at.key(key).child("type"), text(entry, "type"), detail);
            }
            Some(_) => {}
        }
        if !seen.insert(key) {
            errors.invalid(&keys_at, schema.get(LIST_KEYS), "must not contain duplicate entries");
        }
    }
}

/// Entries that are told apart are there, and so is what tells them apart.
fn check_keys(schema: &Value, at: &At<'_>, errors: &mut Errors) {
    let list_type = text(schema, LIST_TYPE);
    let Some(entry) = schema.get("items").filter(|i| i.as_map().is_some()) else { return };
    if !matches!(list_type, "set" | "map") {
        return;
    }
    let at = at.child("items");
    if flag(entry, "nullable") {
        let detail = format!("cannot be nullable when {LIST_TYPE} is {list_type}");
        errors.forbidden(&at.child("nullable"), detail);
    }
    if list_type != "map" {
        return;
    }
    for key in texts(schema, LIST_KEYS) {
        let Some((_, property)) = entries(entry, "properties").find(|(name, _)| *name == key) else {
            continue;
        };
        let properties = at.child("properties");
        let at = properties.key(key);
        if !texts(entry, "required").any(|name| name == key) && member(property, "default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&at.child("default"), detail);
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&at.child("nullable"), detail);
        }
    }
}

fn check_validations(schema: &Value, list: &At<'_>, errors: &mut Errors) {
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    for (i, validation) in items(schema, VALIDATIONS).iter().enumerate() {
        let at = list.index(i);
        let (rule, message) = (text(validation, "rule").trim(), text(validation, "message"));
        if rule.is_empty() {
            errors.required(&at.child("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(&at.child("message"), message, "must be non-empty if specified");
        } else if has_breaks(message.trim()) {
            errors.invalid(&at.child("message"), message, "must not contain line breaks");
        } else if has_breaks(rule) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.required(&at.child("message"), detail);
        }
        let expression = text(validation, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(&at.child("messageExpression"), detail);
        }
        if let Some(reason) = member(validation, "reason") {
            errors.one_of(&at.child("reason"), reason.as_str().unwrap_or_default(), &REASONS);
        }
        let path = text(validation, "fieldPath");
        if !path.is_empty() && path.trim().is_empty() {
            errors.invalid(&at.child("fieldPath"), path, "must be non-empty if specified");
        }
        if has_breaks(path) {
            errors.invalid(&at.child("fieldPath"), path, "must not contain line breaks");
        }
        if !path.is_empty() && shape::is_convertible(schema) && path::find(path, schema, true).is_err() {
            errors.invalid(&at.child("fieldPath"), path, "must be a valid path");
        }
    }
}
