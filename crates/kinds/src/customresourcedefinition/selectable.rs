//! Selectable fields: where they lead in the schema, and how many there may be.

use std::collections::BTreeSet;

use object::Value;
use structural::{Structural, rules};

use crate::check::{Errors, Path, text};
use crate::same;

const MOST: usize = 8;

/// `old`: those of the stored definition, which may be too many if they stay as they are.
pub(super) fn check(
    fields: &Value,
    old: Option<&Value>,
    schema: Option<&Value>,
    list: &Path<'_>,
    schema_at: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(schema) = schema else { return };
    if let Err(error) = Structural::parse(schema) {
        return errors.invalid(&schema_at.child("openAPIV3Schema"), "", error);
    }
    let mut known = BTreeSet::new();
    for (i, field) in fields.as_list().unwrap_or_default().iter().enumerate() {
        let at = list.index(i);
        let at = at.child("jsonPath");
        let path = text(field, "jsonPath");
        if path.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let found = match rules::find_path(path, schema, false) {
            Ok(found) => found,
            Err(error) => {
                errors.invalid(&at, path, format!("is an invalid path: {error}"));
                continue;
            }
        };
        if found.names.first().is_some_and(|first| first == "metadata") {
            errors.invalid(&at, path, "must not point to fields in metadata");
        }
        if !found.schema.is_some_and(rules::is_selectable) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&at, path, detail);
        }
        if !known.insert(found.text) {
            errors.duplicate(&at, path);
        }
    }
    let many_before = old.and_then(Value::as_list).is_some_and(|old| old.len() > MOST);
    if known.len() > MOST && !(many_before && same(Some(fields), old)) {
        errors.too_many(list, known.len(), MOST);
    }
}
