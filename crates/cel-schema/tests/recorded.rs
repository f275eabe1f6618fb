//! What upstream's own code answered, case by case (`tests/data`, one JSON object a line): objects against the rules of
//! their schemas, and what writing a definition with these rules says of them.
//!
//! `RULE_CASES` names another folder, `RULE_ONLY` a part of a file's name, `RULE_SHOW` how many differences are printed.

#![allow(clippy::unwrap_used)] // A case that does not read fails the test.

use std::path::PathBuf;
use std::sync::Arc;

use catalog::Catalog;
use cel_schema::{Definition, Expressions, Limits, Rules};
use object::{FieldError, Value};
use structural::{Structural, rules};

const SCHEMA: &str = "spec.validation.openAPIV3Schema";

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).expect("JSON")
}

fn list<'v>(of: &'v Value, name: &str) -> &'v [Value] {
    of.get(name).and_then(Value::as_list).unwrap_or_default()
}

fn texts(list: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().or(value.str_at(&["text"])).unwrap_or_default().to_owned();
    list.iter().map(text).collect()
}

fn shown(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[derive(Default)]
struct Replay {
    cases: usize,
    checks: usize,
    different: Vec<String>,
}

impl Replay {
    fn compare(&mut self, case: &Value, what: &str, got: Vec<String>, want: Vec<String>) {
        self.checks += 1;
        let unordered = list(case.get("want").unwrap_or(&Value::Null), "unordered")
            .iter()
            .any(|key| key.as_str() == Some(what));
        let (mut ours, mut theirs) = (got.clone(), want.clone());
        // Go's maps have no order; ours is that of the names.
        if unordered || what == "crd" {
            ours.sort();
            theirs.sort();
        }
        if ours != theirs {
            let id = case.str_at(&["id"]).unwrap_or_default();
            let schema = String::from_utf8(codec::json::to_vec(case.get("schema").unwrap())).unwrap();
            self.different.push(format!("{id} {what} of {schema}:\n   got  {got:#?}\n   want {want:#?}"));
        }
    }

    fn case(&mut self, case: &Value) {
        self.cases += 1;
        let want = case.get("want").unwrap();
        let schema = case.get("schema").unwrap();
        let parsed = match Structural::parse(schema) {
            Ok(parsed) => Arc::new(parsed),
            Err(_) => {
                assert!(want.get("validate").is_none(), "a schema: {case:?}");
                return;
            }
        };
        self.definition(case, want, &parsed);
        if let Some(object) = case.get("object") {
            self.object(case, want, parsed, object);
        }
    }

    /// The errors of the schema and its rules; others of the definition are not looked at.
    fn definition(&mut self, case: &Value, want: &Value, schema: &Arc<Structural>) {
        let catalog = Catalog::builtin();
        let (new, old) = (case.get("schema").unwrap(), case.get("oldSchema"));
        let lenience = rules::Lenience::of(old.into_iter(), catalog.schema());
        let is_status = case.get("statusSubresource").and_then(Value::as_bool) == Some(true);
        let options = rules::Options {
            lenience: &lenience,
            has_status: is_status,
            may_be_unstructured: false,
            types: catalog.schema(),
            check_metadata: &|_| Vec::new(),
            check_rules: &|node, default, path| {
                let Some(rules) = Rules::new(Arc::clone(schema)) else { return Vec::new() };
                let node = schema.node_at(node.index()).unwrap();
                let resource = node.index() == schema.root().index() || node.is_embedded_resource();
                rules.validate_default(node, resource, path, default, Limits::default(), None).errors
            },
        };
        let checked = rules::check(new, "spec.validation", &options);
        let mut stored = Expressions::default();
        old.iter().for_each(|old| stored.collect(old));
        let definition = Definition { stored: &stored, unchanged: old == Some(new), meter: None };
        let mut got = checked.errors;
        got.extend(definition.check(schema, SCHEMA, &checked.sites));
        let wanted = texts(list(want, "crd"));
        let wanted = wanted.into_iter().filter(|text| text.starts_with("spec.validation")).collect();
        self.compare(case, "crd", shown(&got), wanted);
    }

    fn object(&mut self, case: &Value, want: &Value, schema: Arc<Structural>, object: &Value) {
        let mut limits = Limits::default();
        if let Some(budget) = case.get("budget").and_then(Value::as_int) {
            limits.budget = budget;
        }
        if let Some(limit) = case.get("limit").and_then(Value::as_int) {
            limits.per_call = limit as u64;
        }
        let (mut new, mut old) = (object.clone(), case.get("oldObject").cloned());
        structural::sort(&mut new);
        old.iter_mut().for_each(|old| _ = structural::sort(old));
        let outcome = match Rules::new(schema) {
            Some(rules) => rules.validate(&new, old.as_ref(), limits, None),
            None => cel_schema::Outcome { remaining: limits.budget, ..Default::default() },
        };
        self.compare(case, "validate", shown(&outcome.errors), texts(list(want, "validate")));
        self.compare(case, "warnings", outcome.warnings, texts(list(want, "warnings")));
        let remaining = want.get("remaining").and_then(Value::as_int).unwrap_or(0);
        self.compare(case, "remaining", vec![outcome.remaining.to_string()], vec![remaining.to_string()]);
    }
}

#[test]
fn recorded_rules_come_out_as_upstream_has_them() {
    let folder = std::env::var("RULE_CASES")
        .map_or_else(|_| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")), PathBuf::from);
    let only = std::env::var("RULE_ONLY").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut cases, mut checks, mut different) = (0, 0, Vec::new());
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("rule-") || !name.contains(&only) {
            continue;
        }
        let mut replay = Replay::default();
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            replay.case(&json(line));
        }
        println!("{name}: {} of {} differ ({} checks)", replay.different.len(), replay.cases, replay.checks);
        cases += replay.cases;
        checks += replay.checks;
        different.extend(replay.different);
    }
    assert!(cases > 0 && checks >= cases / 2, "no cases in {}", folder.display());
    let shown: usize = std::env::var("RULE_SHOW").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    different.iter().take(shown).for_each(|difference| println!("{difference}"));
    assert!(different.is_empty(), "{} differences in {cases} cases", different.len());
}
