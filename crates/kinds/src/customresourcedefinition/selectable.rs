//! Fields by which custom resources can be selected: scalars of the schema, at most eight, none of the metadata.

use object::Value;

use crate::check::{Errors, Path, items, member, text};
use crate::same;

const MAX_FIELDS: usize = 8;

/// `schema` is the version's, or the one that all versions share. More fields than allowed pass if they were there
/// `before`, unchanged.
pub(super) fn check(
    fields: &Value,
    schema: Option<&Value>,
    before: Option<&Value>,
    list: &Path<'_>,
    errors: &mut Errors,
) {
    let mut known: Vec<&str> = Vec::new();
    for (i, field) in fields.as_list().unwrap_or_default().iter().enumerate() {
        let at = list.index(i);
        let at = at.child("jsonPath");
        let path = text(field, "jsonPath");
        if path.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let found = match find(path, schema) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(&at, path, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.root == "metadata" {
            errors.invalid(&at, path, "must not point to fields in metadata");
        }
        let kind = found.schema.map_or("", |schema| text(schema, "type"));
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&at, path, detail);
        }
        if known.contains(&path) {
            errors.duplicate(&at, path);
        } else {
            known.push(path);
        }
    }
    let kept = before.filter(|before| before.as_list().is_some_and(|list| list.len() > MAX_FIELDS));
    if known.len() > MAX_FIELDS && !kept.is_some_and(|before| same(Some(before), Some(fields))) {
        errors.too_many(list, known.len(), MAX_FIELDS);
    }
}

/// The selectable fields of the version of that name.
pub(super) fn of_version<'a>(spec: &'a Value, name: &str) -> Option<&'a Value> {
    let version = items(spec, "versions").iter().rev().find(|version| text(version, "name") == name)?;
    member(version, "selectableFields")
}

struct Found<'a> {
    /// The first name.
    root: &'a str,
    schema: Option<&'a Value>,
}

/// Where `.a.b` leads. What is wrong with it comes in upstream's words.
fn find<'a>(path: &'a str, schema: Option<&'a Value>) -> Result<Found<'a>, String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    let mut found = Found { root: "", schema };
    let mut rest = path;
    while let Some(token) = next(&mut rest) {
        match token {
            "." => {}
            "[" => return Err("array notation is not allowed".to_owned()),
            other => return Err(format!("expected [ or . but got: {other}")),
        }
        let name = next(&mut rest).ok_or("unexpected end of JSON path")?;
        if found.root.is_empty() {
            found.root = name;
        }
        let here = found.schema.ok_or_else(nowhere)?;
        found.schema = match (member(here, "properties"), member(here, "additionalProperties")) {
            (Some(properties), _) => Some(member(properties, name).ok_or_else(nowhere)?),
            (None, Some(values)) => Some(values).filter(|values| values.as_map().is_some()),
            (None, None) => return Err(nowhere()),
        };
    }
    Ok(found)
}

/// A delimiter, a quoted text, or what stands before the next delimiter.
fn next<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let bytes = rest.as_bytes();
    let end = match bytes.first()? {
        b'.' | b'[' | b']' => 1,
        b'\'' => {
            let closes = |i: &usize| bytes[*i] == b'\'' && bytes[i - 1] != b'\\';
            (1..bytes.len()).find(closes).map_or(bytes.len(), |i| i + 1)
        }
        _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
    };
    let (token, after) = rest.split_at(end);
    *rest = after;
    Some(token)
}
