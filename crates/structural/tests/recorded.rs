//! What upstream's own code answered, case by case (`tests/data`, one JSON object a line).

use std::collections::BTreeMap;

use catalog::Catalog;
use object::{FieldError, Value, validate_text};
use structural::{Coerce, Structural, rules};

fn json(bytes: &[u8]) -> Value {
    codec::json::parse(bytes, None).expect("JSON")
}

fn text(value: &Value) -> String {
    String::from_utf8(codec::json::to_vec(value)).expect("UTF-8")
}

fn texts(want: &Value, name: &str) -> Vec<String> {
    let list = want.get(name).and_then(Value::as_list).unwrap_or_default();
    list.iter()
        .map(|v| v.as_str().map_or_else(|| v.str_at(&["text"]).unwrap_or_default().to_owned(), str::to_owned))
        .collect()
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

fn only_in(all: &[String], others: &[String]) -> Vec<String> {
    all.iter().filter(|text| !others.contains(text)).cloned().collect()
}

fn shown(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The few rules of metadata that the cases break; the server has all of them.
fn check_metadata(resource: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let quoted = |text: &str| object::quote(text);
    let meta = |name: &str| resource.str_at(&["metadata", name]).unwrap_or_default();
    for name in ["generateName", "name"] {
        let problems = match name {
            "name" => validate_text::path_segment_name(meta(name)),
            _ => validate_text::path_segment_prefix(meta(name)),
        };
        errors.extend(
            problems
                .into_iter()
                .map(|p| FieldError::invalid(format!("metadata.{name}"), quoted(meta(name)), p)),
        );
    }
    if !meta("namespace").is_empty() {
        for problem in validate_text::dns1123_label(meta("namespace")) {
            errors.push(FieldError::invalid("metadata.namespace", quoted(meta("namespace")), problem));
        }
    }
    let labels = resource.at(&["metadata", "labels"]).and_then(Value::as_map);
    for (name, value) in labels.into_iter().flat_map(|map| map.iter()) {
        for problem in validate_text::qualified_name(name) {
            errors.push(FieldError::invalid("metadata.labels", quoted(name), problem));
        }
        for problem in validate_text::label_value(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(
                "metadata.labels",
                quoted(value.as_str().unwrap_or_default()),
                problem,
            ));
        }
    }
    errors
}

/// Their rules are the server's, and so are the cases about them.
const ELSEWHERE: [&str; 5] = [
    "metadata.annotations:",
    "metadata.finalizers:",
    "metadata.ownerReferences",
    "metadata.generation:",
    "metadata.managedFields[",
];

struct Replay<'c> {
    types: &'c catalog::Schema,
    different: BTreeMap<String, Vec<String>>,
}

impl Replay<'_> {
    fn differ(&mut self, id: &str, what: &str, got: impl std::fmt::Debug, want: impl std::fmt::Debug) {
        let line = format!("{what}:\n   got  {got:?}\n   want {want:?}");
        self.different.entry(id.to_owned()).or_default().push(line);
    }

    fn compare(&mut self, id: &str, what: &str, got: Vec<String>, want: &Value) {
        let wanted = texts(want, what);
        let (got, wanted) = (sorted(got), sorted(wanted));
        if got != wanted {
            self.differ(id, what, only_in(&got, &wanted), only_in(&wanted, &got));
        }
    }

    /// The definition itself; what upstream says about CEL rules is not this crate's.
    fn definition(&mut self, id: &str, schema: &Value, old: Option<&Value>, want: &Value) {
        let options = rules::Options {
            lenience: &rules::Lenience::of(old.into_iter(), self.types),
            has_status: false,
            may_be_unstructured: false,
            types: self.types,
            check_metadata: &check_metadata,
            check_rules: &|_, _, _| Vec::new(),
        };
        let checked = rules::check(schema, "spec.validation", &options);
        let mut wanted = texts(want, "crd");
        wanted.retain(|error| !error.contains("x-kubernetes-validations[") || error.contains("fieldPath"));
        wanted.retain(|error| error.starts_with("spec."));
        let (got, wanted) = (sorted(shown(&checked.errors)), sorted(wanted));
        if got != wanted {
            self.differ(id, "crd", only_in(&got, &wanted), only_in(&wanted, &got));
        }
    }

    fn case(&mut self, id: &str, case: &Value) {
        let none = Value::Null;
        let want = case.get("want").unwrap_or(&none);
        let Some(schema) = case.get("schema") else { return };
        self.definition(id, schema, case.get("oldSchema"), want);
        let parsed = match Structural::parse_to_serve(schema, self.types) {
            Ok(parsed) => parsed,
            Err(error) => {
                if want.get("errors").is_some() || want.get("pruned").is_some() {
                    self.differ(id, "parse", error, "a schema");
                }
                return;
            }
        };
        // A definition that is refused has no objects.
        let served = texts(want, "crd").is_empty();
        let Some(object) = case.get("object").filter(|_| served) else { return };
        let mut new = object.clone();
        let unknown = parsed.coerce(&mut new, self.types, Coerce { strict: true, ..Coerce::default() });
        let unknown = match (unknown, want.str_at(&["decodeError"])) {
            (Ok(unknown), None) => unknown,
            (Err(error), Some(wanted)) => {
                if error.to_string() != wanted {
                    self.differ(id, "decodeError", error.to_string(), wanted);
                }
                return;
            }
            (got, wanted) => return self.differ(id, "decodeError", got.map_err(|e| e.to_string()), wanted),
        };
        self.compare(id, "unknown", unknown, want);
        let pruned = want.get("pruned").map(text).unwrap_or_default();
        if text(&new) != pruned {
            self.differ(id, "pruned", text(&new), &pruned);
        }
        let before = text(&new);
        parsed.default(&mut new);
        let defaulted = want.get("defaulted").map_or(before, text);
        if text(&new) != defaulted {
            self.differ(id, "defaulted", text(&new), defaulted);
        }
        let (mut errors, mut embedded, mut lists) = (Vec::new(), Vec::new(), Vec::new());
        match case.get("oldObject").filter(|old| !old.is_null()) {
            None => {
                parsed.validate(&new, &mut errors);
                parsed.validate_lists(&new, &mut lists);
            }
            Some(old) => {
                let mut old = old.clone();
                let options = Coerce { drop_malformed_metadata: true, ..Coerce::default() };
                parsed.coerce(&mut old, self.types, options).expect("malformed metadata is dropped");
                parsed.default(&mut old);
                parsed.validate_update(&new, &old, &mut errors);
                parsed.validate_lists_update(&new, &old, &mut lists);
            }
        }
        parsed.validate_embedded(&new, &check_metadata, &mut embedded);
        self.compare(id, "errors", shown(&errors), want);
        let mut wanted = texts(want, "embedded");
        wanted.retain(|error| !ELSEWHERE.iter().any(|field| error.contains(field)));
        let got = sorted(shown(&embedded));
        if got != sorted(wanted.clone()) {
            self.differ(id, "embedded", got, wanted);
        }
        self.compare(id, "lists", shown(&lists), want);
        for error in &errors {
            let list = want.get("errors").and_then(Value::as_list).unwrap_or_default();
            let same = list.iter().find(|e| e.str_at(&["text"]) == Some(&error.to_string()));
            if let Some(same) = same
                && same.str_at(&["type"]) != Some(error.kind.reason())
            {
                self.differ(id, "type", error, same.str_at(&["type"]));
            }
        }
    }
}

#[test]
fn objects_are_treated_as_upstream_treats_them() {
    let catalog = Catalog::builtin();
    let mut replay = Replay { types: catalog.schema(), different: BTreeMap::new() };
    let mut count = 0;
    let data = std::env::var("STRUCTURAL_CASES")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data").to_owned());
    let mut files: Vec<_> =
        std::fs::read_dir(data).expect("data").map(|file| file.expect("file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    for file in files {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        for (line, case) in std::fs::read(&file).expect("a file").split(|c| *c == b'\n').enumerate() {
            if !case.is_empty() {
                let case = json(case);
                let id = case.str_at(&["id"]).unwrap_or_default();
                replay.case(&format!("{name}:{} {id}", line + 1), &case);
                count += 1;
            }
        }
    }
    let wrong: Vec<String> =
        replay.different.iter().map(|(id, lines)| format!("{id}\n  {}", lines.join("\n  "))).collect();
    assert!(wrong.is_empty(), "{} of {count} cases differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 1000, "{count} cases");
}
