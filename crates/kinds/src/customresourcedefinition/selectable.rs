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

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Path<'static> = Path::Root("fields");

    fn errors(fields: &str, old: Option<&str>) -> Vec<String> {
        let json = crate::tests::json;
        let schema = json(
            r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"number"},
                "m":{"type":"object","additionalProperties":{"type":"integer"}}}},"metadata":{"type":"object","properties":{"name":{"type":"string"}}}}}"#,
        );
        let (fields, old) = (json(fields), old.map(json));
        let mut errors = Errors::default();
        check(&fields, old.as_ref(), Some(&schema), &AT, &Path::Root("schema"), &mut errors);
        errors.list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn selectable_fields_are_strings_booleans_and_integers_of_the_schema() {
        assert_eq!(
            errors(r#"[{"jsonPath":".spec.a"},{"jsonPath":".spec.m.x"}]"#, None),
            Vec::<String>::new()
        );
        let typed = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
        for (path, expected) in [
            ("", "fields[0].jsonPath: Required value".to_owned()),
            (".spec.b", "fields[0].jsonPath: Invalid value: \".spec.b\": is an invalid path: does not refer to a valid field".to_owned()),
            (".spec['a']", "fields[0].jsonPath: Invalid value: \".spec['a']\": is an invalid path: array notation is not allowed".to_owned()),
            (".spec.n", format!("fields[0].jsonPath: Invalid value: \".spec.n\": {typed}")),
            (".metadata.name", "fields[0].jsonPath: Invalid value: \".metadata.name\": must not point to fields in metadata".to_owned()),
        ] {
            assert_eq!(errors(&format!(r#"[{{"jsonPath":"{path}"}}]"#), None), [expected]);
        }
    }

    #[test]
    fn too_many_may_stay_but_not_become_others() {
        let list = |last: &str| {
            let paths = (0..8).map(|i| format!(".spec.m.x{i}")).chain([last.to_owned()]);
            let fields: Vec<String> = paths.map(|path| format!(r#"{{"jsonPath":"{path}"}}"#)).collect();
            format!("[{}]", fields.join(","))
        };
        let nine = list(".spec.m.x8");
        assert_eq!(errors(&nine, None), ["fields: Too many: 9: must have at most 8 items"]);
        assert_eq!(errors(&nine, Some(&nine)), Vec::<String>::new());
        assert_eq!(errors(&nine, Some(&list(".spec.a"))).len(), 1);
    }
}
