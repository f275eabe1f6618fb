//! Warnings about custom resource definitions: formats that nobody checks.

use object::{Value, quote};
use structural::StringFormat;

use crate::check::{items, member, text};
use crate::warnings::{Accepted, Warnings};

const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const DEEPEST: usize = 200;

pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    let before = write.old.map(unknown_formats).unwrap_or_default();
    for format in unknown_formats(write.new) {
        if !before.contains(&format) {
            warnings.push(format!("unrecognized format {}", quote(format)));
        }
    }
}

fn unknown_formats(definition: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    for version in versions {
        if let Some(schema) = version.at(&["schema", "openAPIV3Schema"]) {
            visit(schema, DEEPEST, &mut found);
        }
    }
    found
}

fn visit<'v>(schema: &'v Value, depth: usize, found: &mut Vec<&'v str>) {
    if schema.as_map().is_none() || depth == 0 {
        return;
    }
    let format = text(schema, "format");
    if !format.is_empty() && !is_known(text(schema, "type"), format) {
        found.push(format);
    }
    let mut all: Vec<&Value> = Vec::new();
    match schema.get("items") {
        Some(Value::List(list)) => all.extend(list),
        other => all.extend(other),
    }
    all.extend(LISTS.iter().flat_map(|list| items(schema, list)));
    all.extend(member(schema, "not"));
    let by_name =
        |member: &str| schema.get(member).and_then(Value::as_map).into_iter().flat_map(|m| m.iter());
    all.extend(by_name("properties").map(|(_, s)| s));
    all.extend(member(schema, "additionalProperties"));
    all.extend(by_name("patternProperties").map(|(_, s)| s));
    all.extend(member(schema, "additionalItems"));
    for member in ["definitions", "dependencies"] {
        all.extend(by_name(member).map(|(_, s)| s));
    }
    for below in all {
        visit(below, depth - 1, found);
    }
}

fn is_known(of_type: &str, format: &str) -> bool {
    match of_type {
        "" | "string" => StringFormat::parse(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}
