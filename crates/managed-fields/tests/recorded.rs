//! Replays what upstream v1.36 answered: sets, comparisons, merges, and what its field manager made of whole sequences of writes.
//!
//! `data/*.jsonl` has a case a line, made by running structured-merge-diff and apimachinery's managedfields on random objects of
//! every kind and of random custom resources (`data/crds.jsonl`). `MANAGED_FIELDS_CASES` names another folder.

#![allow(clippy::unwrap_used)]

#[path = "recorded/sequence.rs"]
mod sequence;

use std::fs;
use std::path::PathBuf;

use catalog::Catalog;
use managed_fields::typed::{self, Duplicates};
use managed_fields::{Set, TypeRef};
use object::Value;
use structural::Structural;

struct World {
    catalog: Catalog,
    crds: Vec<Structural>,
}

fn folder() -> PathBuf {
    std::env::var("MANAGED_FIELDS_CASES")
        .map_or_else(|_| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")), PathBuf::from)
}

fn parse(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

impl World {
    fn new() -> World {
        let file = fs::read_to_string(folder().join("crds.jsonl")).unwrap();
        let root = |line: &str| {
            let crd = parse(line);
            let versions = crd.at(&["spec", "versions"]).unwrap().as_list().unwrap();
            Structural::parse(versions[0].at(&["schema", "openAPIV3Schema"]).unwrap()).unwrap()
        };
        World { catalog: Catalog::builtin(), crds: file.lines().map(root).collect() }
    }

    fn type_of(&self, case: &Value, object: &Value) -> Option<TypeRef<'_>> {
        if let Some(crd) = case.get("crd").and_then(Value::as_int) {
            return Some(TypeRef::custom(&self.crds[crd as usize], self.catalog.schema()));
        }
        if case.get("deduced").is_some() {
            return Some(TypeRef::deduced());
        }
        let version = object.get("apiVersion")?.as_str()?;
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let ty = self.catalog.find_type(group, version, object.get("kind")?.as_str()?)?;
        Some(TypeRef::built_in(self.catalog.schema(), ty))
    }
}

/// An answer as text, with everything that has no order in one.
fn canonical(value: &Value) -> String {
    let mut value = value.clone();
    sort(&mut value);
    String::from_utf8(codec::json::to_vec(&value)).unwrap()
}

fn sort(value: &mut Value) {
    match value {
        Value::Map(map) => {
            map.entries_mut().sort_by(|a, b| a.0.cmp(&b.0));
            map.iter_mut().for_each(|(_, value)| sort(value));
            if let Some(Value::Str(error)) = map.get_mut("error") {
                let mut lines: Vec<_> = error.lines().collect();
                lines.sort_unstable();
                *error = lines.join("\n");
            }
        }
        Value::List(list) => list.iter_mut().for_each(sort),
        Value::Raw(text) => {
            *value = codec::json::expanded(text);
            sort(value);
        }
        // Go prints 2.0 as 2.
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e15 => *value = Value::Int(*f as i64),
        _ => {}
    }
}

fn answer<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    Value::Map(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn error(text: impl ToString) -> Value {
    answer([("error", text.to_string().into())])
}

fn set(set: &Set) -> Value {
    set.to_json().into()
}

fn run(world: &World, case: &Value) -> Value {
    let text = |name| case.get(name).and_then(Value::as_str).unwrap_or_default();
    let empty = Value::Null;
    let value = case.get("value").unwrap_or(&empty);
    let ty = world.type_of(case, value);
    let duplicates = if case.get("dup").is_some() { Duplicates::Allowed } else { Duplicates::Refused };
    let json = || Set::parse(text("json").as_bytes());
    match text("op") {
        "fields" => match json() {
            Ok(found) => answer([
                ("set", set(&found)),
                ("paths", found.paths().into_iter().map(Value::from).collect::<Vec<_>>().into()),
                ("leaves", set(&found.leaves())),
                ("size", (found.len() as i64).into()),
            ]),
            Err(_) => error("?"),
        },
        "algebra" => {
            let (Ok(a), Ok(b)) = (json(), Set::parse(text("other").as_bytes())) else { return error("?") };
            answer([
                ("union", set(&a.union(&b))),
                ("intersection", set(&a.intersection(&b))),
                ("difference", set(&a.difference(&b))),
                ("recursive", set(&a.recursive_difference(&b))),
                ("equal", (a == b).into()),
            ])
        }
        "set" => {
            let ty = ty.unwrap();
            match typed::validate(value, ty, duplicates) {
                Ok(()) => answer([("set", set(&typed::field_set(value, ty)))]),
                Err(wrong) => error(wrong),
            }
        }
        op @ ("compare" | "merge") => {
            let ty = ty.unwrap();
            let new = case.get("new").unwrap();
            if let Err(wrong) = typed::validate(value, ty, Duplicates::Allowed) {
                return error(format!("old: {wrong}"));
            }
            if let Err(wrong) = typed::validate(new, ty, duplicates) {
                return error(format!("new: {wrong}"));
            }
            if op == "merge" {
                return match typed::merge(value, new, ty) {
                    Ok(merged) => answer([("value", merged)]),
                    Err(wrong) => error(wrong),
                };
            }
            match typed::compare(value, new, ty) {
                Ok(found) => answer([
                    ("added", set(&found.added)),
                    ("modified", set(&found.modified)),
                    ("removed", set(&found.removed)),
                ]),
                Err(wrong) => error(wrong),
            }
        }
        op @ ("remove" | "extract" | "extract-keys" | "reconcile") => {
            let ty = ty.unwrap();
            if let Err(wrong) = typed::validate(value, ty, Duplicates::Allowed) {
                return error(wrong);
            }
            let items = json().unwrap();
            match op {
                "remove" => {
                    let mut value = value.clone();
                    typed::remove_items(&mut value, &items, ty);
                    answer([("value", value)])
                }
                "extract" => answer([("value", typed::extract_items(value, &items, ty))]),
                "extract-keys" => answer([("value", typed::extract_items_and_keys(value, &items, ty))]),
                _ => match typed::reconcile(&items, ty) {
                    Some(changed) => answer([("set", set(&changed))]),
                    None => answer([("unchanged", true.into())]),
                },
            }
        }
        "sequence" => sequence::run(world, case),
        "scale" => sequence::run_scale(case),
        other => panic!("{other}"),
    }
}

#[test]
fn recorded_cases_come_out_as_upstream_has_them() {
    let world = World::new();
    let only = std::env::var("MANAGED_FIELDS_ONLY").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut failures = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if file.extension().is_none_or(|ext| ext != "jsonl") || name == "crds" || !name.contains(&only) {
            continue;
        }
        let (mut count, before) = (0, failures.len());
        for line in fs::read_to_string(&file).unwrap().lines() {
            let mut case = parse(line);
            let (mut input, mut want) = {
                let map = case.as_map_mut().unwrap();
                (map.remove("in").unwrap(), map.remove("out").unwrap())
            };
            count += 1;
            // What the Go type makes of an object is the canonical one.
            if input.get("op").and_then(Value::as_str) == Some("structured") {
                let Some(canonical) = want.as_map_mut().unwrap().remove("value") else { continue };
                input.as_map_mut().unwrap().set("op", "set");
                input.as_map_mut().unwrap().set("dup", true);
                input.as_map_mut().unwrap().set("value", canonical);
            }
            let op = input.get("op").and_then(Value::as_str).unwrap_or_default();
            // The words of its JSON reader reach nobody.
            if matches!(op, "fields" | "algebra") && want.get("error").is_some() {
                want = error("?");
            }
            if op == "sequence" {
                sequence::to_hub(&world, &input, &mut want);
            }
            let (got, want) = (canonical(&run(&world, &input)), canonical(&want));
            if got != want {
                failures.push(format!("{name} {}\n  want {want}\n  got  {got}", canonical(&input)));
            }
        }
        println!("{name}: {} of {count} differ", failures.len() - before);
    }
    assert!(
        failures.is_empty(),
        "{} differ\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
}
