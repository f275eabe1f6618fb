//! The rules of definitions: names that fit, versions of which one is stored, a conversion, and schemas.
//!
//! Upstream validates a form in which what all versions have in common stands once, above them; its paths
//! (`spec.validation`, `spec.subresources`) say so. What a schema must obey is in `structural::rules`, and
//! what its CEL rules must, in `rules`.

use catalog::Schema;
use object::{Value, validate_text};
use structural::rules;

use super::rules::{SchemaRules, Stored};
use super::{approval, conversion, selectable, shown};
use crate::check::{Errors, Path, Raw, Seen, flag, items, member, text, texts};
use crate::metadata::check_embedded;
use crate::same;
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const WARNING_MAX_BYTES: usize = 256;
const HOISTED: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let none = Value::Null;
    let (spec, status, old) = (write.spec(), write.status(), write.old_spec());
    let accepted = status.get("acceptedNames").unwrap_or(&none);
    if write.is_status() {
        return check_names(accepted, &STATUS.child("acceptedNames"), errors);
    }
    let established = write.old_status().is_some_and(is_established);
    check_spec(write, established, errors);
    if let Some(old) = old {
        check_update(spec, old, established, errors);
    }
    check_names(accepted, &STATUS.child("acceptedNames"), errors);
    check_stored(spec, status, errors);
    approval::check(write, errors);
    let kept = old.is_some_and(|old| flag(old, "preserveUnknownFields"));
    if flag(spec, "preserveUnknownFields") && !kept {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&SPEC.child("preserveUnknownFields"), true, detail);
    }
}

/// The spec as upstream holds it: what all versions share, taken out of them.
struct Hoisted<'a> {
    versions: Vec<Value>,
    shared: [Option<&'a Value>; 4],
}

impl<'a> Hoisted<'a> {
    fn of(spec: &'a Value) -> Hoisted<'a> {
        let given = items(spec, "versions");
        let mut versions = given.to_vec();
        let shared = HOISTED.map(|name| {
            let first = given.first().and_then(|v| v.get(name)).filter(|v| !v.is_null());
            if !given.iter().all(|version| same(version.get(name), first)) {
                return None;
            }
            for version in versions.iter_mut().filter_map(Value::as_map_mut) {
                version.remove(name);
            }
            first
        });
        Hoisted { versions, shared }
    }
    fn schema(&self) -> Option<&'a Value> {
        self.shared[0].and_then(|schema| member(schema, "openAPIV3Schema"))
    }
    fn subresources(&self) -> Option<&'a Value> {
        self.shared[1]
    }
    fn has_status(&self, version: &Value) -> bool {
        let own = member(version, "subresources").or(self.subresources());
        own.is_some_and(|own| member(own, "status").is_some())
    }
}

fn check_spec(write: &Write<'_>, established: bool, errors: &mut Errors) {
    let (spec, old, types) = (write.spec(), write.old_spec(), &write.storage.types);
    let none = Value::Null;
    let hoisted = Hoisted::of(spec);
    let group = text(spec, "group");
    let problems = validate_text::dns1123_subdomain(group);
    let at = SPEC.child("group");
    if group.is_empty() {
        errors.required(&at, "");
    } else if !problems.is_empty() {
        errors.invalid(&at, group, problems.join(","));
    } else if !group.contains('.') {
        errors.invalid(&at, group, "should be a domain with at least one dot");
    }
    errors.choice(&SPEC.child("scope"), text(spec, "scope"), &["Cluster", "Namespaced"]);
    check_schemas_given(spec, old, &hoisted, errors);
    let has_defaults = schemas(spec).any(rules::has_defaults);
    if flag(spec, "preserveUnknownFields") && has_defaults {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&SPEC.child("preserveUnknownFields"), true, detail);
    }
    let schemas = Schemas {
        lenience: old.map(|old| rules::Lenience::of(schemas(old), types)).unwrap_or_default(),
        may_be_unstructured: flag(spec, "preserveUnknownFields")
            && !has_defaults
            && !schemas(spec).any(rules::has_extensions),
        types,
        stored: old.map(|old| Stored::of(spec, old)).unwrap_or_default(),
        meter: write.ctx.meter,
    };
    let old_hoisted = old.map(Hoisted::of);
    let list = SPEC.child("versions");
    for (i, version) in hoisted.versions.iter().enumerate() {
        let name = text(version, "name");
        let same_name = |old: &&Value| text(old, "name") == name;
        let old = old_hoisted.as_ref().and_then(|old| old.versions.iter().find(same_name));
        check_version(version, old, &hoisted, &schemas, &list.index(i), errors);
    }
    let versions = member(spec, "versions").map(|_| Value::List(hoisted.versions.clone()));
    let names: Vec<&str> = items(spec, "versions").iter().map(|v| text(v, "name")).collect();
    let mut seen = Seen::default();
    if names.iter().any(|name| seen.again(*name)) {
        errors.invalid(&list, Raw(&shown::versions(versions.as_ref())), "must contain unique version names");
    }
    if hoisted.versions.iter().filter(|v| flag(v, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.invalid(&list, Raw(&shown::versions(versions.as_ref())), detail);
    }
    // Upstream keeps the first version's name a second time.
    if let Some(first) = names.first().filter(|name| !name.is_empty()) {
        joined(first, validate_text::dns1035_label(first), &SPEC.child("version"), errors);
    }
    let at = SPEC.child("names");
    let names = spec.get("names").unwrap_or(&none);
    for name in ["plural", "singular", "kind", "listKind"] {
        errors.need(&at, names, name);
    }
    check_names(names, &at, errors);
    let any_status = hoisted.versions.iter().any(|v| hoisted.has_status(v));
    let first = items(spec, "versions").first().map_or("", |version| text(version, "name"));
    schemas.check(hoisted.schema(), first, any_status, &SPEC.child("validation"), errors);
    check_subresources(hoisted.subresources(), &SPEC.child("subresources"), errors);
    check_columns(hoisted.shared[2], &SPEC.child("additionalPrinterColumns"), errors);
    if let Some(fields) = hoisted.shared[3].filter(|fields| fields.as_list() != Some(&[])) {
        let at = SPEC.child("selectableFields");
        match hoisted.shared[0] {
            None => errors.invalid(&at, "", "may only be set when validations.schema is included"),
            Some(_) => {
                let schema_at = SPEC.child("schema");
                let old = old_hoisted.as_ref().and_then(|old| old.shared[3]);
                selectable::check(fields, old, hoisted.schema(), &at, &schema_at, errors);
            }
        }
    }
    conversion::check(spec, old, established, errors);
}

fn check_schemas_given(spec: &Value, old: Option<&Value>, hoisted: &Hoisted<'_>, errors: &mut Errors) {
    if hoisted.schema().is_some() {
        return;
    }
    let has = |version: &Value| version.at(&["schema", "openAPIV3Schema"]).is_some_and(|s| !s.is_null());
    let strict = old.is_none_or(|old| items(old, "versions").iter().all(has));
    for (i, version) in items(spec, "versions").iter().enumerate().filter(|(_, version)| !has(version)) {
        let list = SPEC.child("versions");
        let at = list.index(i);
        let at = at.child("schema");
        let at = at.child("openAPIV3Schema");
        if strict {
            errors.required(&at, "");
        } else if !flag(spec, "preserveUnknownFields") && flag(version, "served") {
            errors.required(&at, "because otherwise all fields are pruned");
        }
    }
}

fn check_version(
    version: &Value,
    old: Option<&Value>,
    hoisted: &Hoisted<'_>,
    schemas: &Schemas<'_>,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let name = text(version, "name");
    joined(name, validate_text::dns1035_label(name), &at.child("name"), errors);
    check_deprecation(version, &at.child("deprecationWarning"), errors);
    let own = member(version, "schema").and_then(|schema| member(schema, "openAPIV3Schema"));
    schemas.check(own, name, hoisted.has_status(version), &at.child("schema"), errors);
    check_subresources(member(version, "subresources"), &at.child("subresources"), errors);
    check_columns(version.get("additionalPrinterColumns"), &at.child("additionalPrinterColumns"), errors);
    if let Some(fields) = member(version, "selectableFields").filter(|fields| fields.as_list() != Some(&[])) {
        let list = at.child("selectableFields");
        match own {
            None => {
                let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.invalid(&list, "", detail);
            }
            Some(_) => {
                let old = old.and_then(|old| member(old, "selectableFields"));
                selectable::check(fields, old, own, &list, &at.child("schema"), errors);
            }
        }
    }
}

fn check_deprecation(version: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(warning) = member(version, "deprecationWarning").and_then(Value::as_str) else { return };
    // Behind a pointer, and so shown as JSON.
    let shown = shown::json(warning);
    let mut invalid = |detail: &str| errors.invalid(at, Raw(&shown), detail);
    if !flag(version, "deprecated") {
        return invalid("can only be set for deprecated versions");
    }
    if warning.len() > WARNING_MAX_BYTES {
        invalid("must be <= 256 characters long");
    }
    if warning.is_empty() {
        invalid("must not be an empty string");
    }
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| !is_printable(*c)) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {i}"
        );
        invalid(&detail);
    }
}

/// Go's `unicode.IsPrint`. Rust's tables know the same, and show it by escaping.
fn is_printable(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || !['a', c].iter().collect::<String>().escape_debug().any(|c| c == '\\')
}

/// What the schemas of a definition are checked with.
struct Schemas<'c> {
    lenience: rules::Lenience,
    may_be_unstructured: bool,
    types: &'c Schema,
    /// What was accepted of CEL rules before.
    stored: Stored,
    meter: Option<&'c cel_schema::Meter>,
}

impl Schemas<'_> {
    /// The schema of a version, or of all of them, the first of which is named.
    fn check(
        &self,
        schema: Option<&Value>,
        version: &str,
        has_status: bool,
        at: &Path<'_>,
        errors: &mut Errors,
    ) {
        let Some(schema) = schema else { return };
        let rules = SchemaRules::new(schema, self.meter);
        let options = rules::Options {
            lenience: &self.lenience,
            has_status,
            may_be_unstructured: self.may_be_unstructured,
            types: self.types,
            check_metadata: &check_embedded,
            check_rules: &|node, default, at| rules.check_default(node, default, at),
        };
        let mut checked = rules::check(schema, &at.to_string(), &options);
        errors.list.append(&mut checked.errors);
        let at = at.child("openAPIV3Schema").to_string();
        errors.list.extend(rules.check(&checked, &self.stored, version, &at));
    }
}

fn check_subresources(subresources: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
    let Some(scale) = subresources.and_then(|s| member(s, "scale")) else { return };
    for (name, prefixes, detail) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."][..], "should be a json path under .status"),
        (
            "labelSelectorPath",
            &[".spec.", ".status."][..],
            "should be a json path under either .spec or .status",
        ),
    ] {
        let at = at.child("scale");
        let at = at.child(name);
        let path = text(scale, name);
        match path {
            "" if name == "labelSelectorPath" => {}
            "" => errors.required(&at, ""),
            _ if !path.starts_with('.') => {
                errors.invalid(&at, path, "must be a simple json path starting with .");
            }
            _ if prefixes.iter().any(|prefix| path.starts_with(prefix)) => {}
            _ if name == "labelSelectorPath" => errors.invalid(&at, Raw(&shown::json(path)), detail),
            _ => errors.invalid(&at, path, detail),
        }
    }
}

fn check_columns(columns: Option<&Value>, list: &Path<'_>, errors: &mut Errors) {
    for (i, column) in columns.and_then(Value::as_list).unwrap_or_default().iter().enumerate() {
        let at = list.index(i);
        errors.need(&at, column, "name");
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => errors.required(&at.child("type"), &types),
            kind if !COLUMN_TYPES.contains(&kind) => errors.invalid(&at.child("type"), kind, types),
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.invalid(&at.child("format"), format, detail);
        }
        match text(column, "jsonPath") {
            "" => errors.required(&at.child("JSONPath"), ""),
            path if !path.starts_with('.') => {
                let detail = "must be a simple json path starting with .";
                errors.invalid(&at.child("JSONPath"), path, detail);
            }
            _ => {}
        }
    }
}

fn check_names(names: &Value, at: &Path<'_>, errors: &mut Errors) {
    for name in ["plural", "singular"] {
        let value = text(names, name);
        if !value.is_empty() {
            joined(value, validate_text::dns1035_label(value), &at.child(name), errors);
        }
    }
    for name in ["kind", "listKind"] {
        let value = text(names, name);
        let problems = validate_text::dns1035_label(&value.to_lowercase());
        if !value.is_empty() && !problems.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
            errors.invalid(&at.child(name), value, detail);
        }
    }
    let each = |name: &str, errors: &mut Errors| {
        for (i, value) in texts(names, name).enumerate() {
            joined(value, validate_text::dns1035_label(value), &at.child(name).index(i), errors);
        }
    };
    each("shortNames", errors);
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(&at.child("listKind"), list_kind, "kind and listKind may not be the same");
    }
    each("categories", errors);
}

fn check_update(spec: &Value, old: &Value, established: bool, errors: &mut Errors) {
    let names = SPEC.child("names");
    let mut keep = |at: &Path<'_>, path: &[&str]| {
        let of = |spec: &Value| spec.str_at(path).unwrap_or_default().to_owned();
        errors.immutable_text(at, &of(spec), &of(old));
    };
    if established {
        keep(&SPEC.child("scope"), &["scope"]);
        keep(&names.child("kind"), &["names", "kind"]);
    }
    keep(&SPEC.child("group"), &["group"]);
    keep(&names.child("plural"), &["names", "plural"]);
}

fn is_established(status: &Value) -> bool {
    let is = |c: &Value| text(c, "type") == "Established" && text(c, "status") == "True";
    items(status, "conditions").iter().any(is)
}

fn check_stored(spec: &Value, status: &Value, errors: &mut Errors) {
    let at = STATUS.child("storedVersions");
    let shown = status.get("storedVersions");
    let stored: Vec<&str> = texts(status, "storedVersions").collect();
    if stored.is_empty() {
        return errors.invalid(&at, shown, "must have at least one stored version");
    }
    let versions = items(spec, "versions");
    let mut seen = Seen::default();
    for version in versions {
        let name = text(version, "name");
        // Each version counts once: another of the same name finds it taken.
        let taken = seen.again(name);
        if flag(version, "storage") && (taken || !stored.contains(&name)) {
            errors.invalid(&at, shown, format!("must have the storage version {name}"));
        }
    }
    for (i, name) in stored.iter().enumerate() {
        if !versions.iter().any(|v| text(v, "name") == *name) && !stored[i + 1..].contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(&at.index(i), *name, detail);
        }
    }
}

fn schemas(spec: &Value) -> impl Iterator<Item = &Value> {
    items(spec, "versions")
        .iter()
        .filter_map(|v| v.at(&["schema", "openAPIV3Schema"]))
        .filter(|s| !s.is_null())
}

fn joined(value: &str, problems: Vec<String>, at: &Path<'_>, errors: &mut Errors) {
    if !problems.is_empty() {
        errors.invalid(at, value, problems.join(","));
    }
}
