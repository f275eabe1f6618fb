//! Cases for definitions as operators publish them: each is installed, and objects made from its schema are sent.
//!
//! ```text
//! DIR/**/*.yaml ── definitions, by name ── a valid object (what is required), a rich one (what may be there) ── both broken
//! ```
//! Whether an object is valid is the reference server's to say: what it refuses is compared all the same.

mod synthesis;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use object::Value;

use super::custom::definition::{COLLECTION, open};
use super::leaves::{broken, changed, content};
use super::path::{PathElement, set};
use crate::case::{MERGE, Scenario, Step, TABLE, parse};
use crate::error::DiffError;
use crate::kinds::{Sample, Target};

/// So many values of one object are broken; of a larger one, every second or third.
const MOST_BROKEN: usize = 40;
/// Folders deeper than this are not looked into: links may go round in circles.
const DEEPEST: usize = 16;

/// The scenarios of every definition in the folder; of those with the same name, the first file's.
pub fn scenarios(folder: &Path) -> Result<Vec<Scenario>, DiffError> {
    let mut definitions = BTreeMap::new();
    collect(folder, 0, &mut definitions)?;
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (name, definition) in definitions {
        if let Some(steps) = steps(&name, definition) {
            scenarios.push(Scenario {
                name: format!("published {name}"),
                resource: name,
                custom: true,
                steps,
            });
        }
    }
    Ok(scenarios)
}

fn collect(folder: &Path, depth: usize, found: &mut BTreeMap<String, Value>) -> Result<(), DiffError> {
    let failed = |source| DiffError::Read { path: folder.to_path_buf(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    for path in paths {
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        if path.is_dir() && depth < DEEPEST {
            collect(&path, depth + 1, found)?;
        } else if is_yaml {
            let text = fs::read_to_string(&path).map_err(|source| DiffError::Read { path, source })?;
            for document in text.split("\n---") {
                // Templates are no YAML, and most documents define something else.
                let Ok(value) = codec::yaml::parse(document.trim_start_matches("---").as_bytes()) else {
                    continue;
                };
                let name = value.str_at(&["metadata", "name"]).unwrap_or_default().to_owned();
                let is_definition = value.str_at(&["kind"]) == Some("CustomResourceDefinition")
                    && value.str_at(&["apiVersion"]) == Some("apiextensions.k8s.io/v1");
                if is_definition && !name.is_empty() {
                    found.entry(name).or_insert(value);
                }
            }
        }
    }
    Ok(())
}

/// `None` for a definition without a version to use.
fn steps(name: &str, mut definition: Value) -> Option<Vec<Step>> {
    definition.make_map().remove("status");
    let as_published = definition.clone();
    // Nobody answers the webhooks of an operator that is not there.
    definition.map_at(&["spec"]).remove("conversion");
    let (target, schema) = target_of(&definition)?;
    let one = format!("{COLLECTION}/{name}");
    let all = target.collection();
    let dry = format!("{all}?dryRun=All");
    let mut steps =
        vec![Step::with("as published", "POST", format!("{COLLECTION}?dryRun=All"), &as_published)];
    steps.extend(open(&definition, &target));
    steps.push(Step::new("columns", "GET", &all).accept(TABLE));
    steps.push(
        Step::new("resources", "GET", format!("/apis/{}", target.api_version)).until(200, &target.plural),
    );
    steps.push(
        Step::new("document", "GET", format!("/openapi/v3/apis/{}", target.api_version)).until(200, ""),
    );
    let required = Sample::new(name, synthesis::required(&schema), None);
    let rich = Sample::new(name, synthesis::rich(&schema), None);
    for (what, sample) in [("required", &required), ("rich", &rich)] {
        let object = sample.object(&target, what);
        steps.push(Step::with(
            format!("{what}, strict"),
            "POST",
            format!("{dry}&fieldValidation=Strict"),
            &object,
        ));
        let mut unknown = object.clone();
        unknown.map_at(&["spec"]).set("bogus", 1i64);
        steps.push(Step::with(
            format!("{what}, unknown field"),
            "POST",
            format!("{dry}&fieldValidation=Strict"),
            &unknown,
        ));
        let broken: Vec<(String, Value)> = content(&object)
            .into_iter()
            .flat_map(|(path, value)| {
                let at = PathElement::text(&path);
                let wrong = of_another_type(&object, &path, &value);
                broken(&object, &path, &value)
                    .into_iter()
                    .chain([wrong])
                    .map(move |(how, object)| (format!("{at} {how}"), object))
            })
            .collect();
        for (how, object) in thinned(broken, MOST_BROKEN) {
            steps.push(Step::with(format!("{what}, {how}"), "POST", &dry, &object));
        }
    }
    for (what, sample) in [("required", &required), ("rich", &rich)] {
        let object = sample.object(&target, what);
        let path = format!("{all}/{}", sample.name(&target, what));
        steps.push(Step::with(format!("{what}, created"), "POST", &all, &object));
        steps.push(Step::new(format!("{what}, get"), "GET", &path));
        steps.push(Step::new(format!("{what}, as Table"), "GET", &path).accept(TABLE));
        let changed = content(&object).into_iter().flat_map(|(path, value)| {
            let at = PathElement::text(&path);
            changed(&object, &path, &value)
                .into_iter()
                .map(move |(how, object)| (format!("{at} {how}"), object))
        });
        for (how, mut object) in thinned(changed.collect(), MOST_BROKEN / 2) {
            object.map_at(&["metadata"]).set("resourceVersion", "$RV");
            steps.push(Step::with(
                format!("{what}, update, {how}"),
                "PUT",
                format!("{path}?dryRun=All"),
                &object,
            ));
        }
        let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        steps.push(Step::text(format!("{what}, label"), "PATCH", &path, MERGE, label));
        if target.status {
            let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}],"bogus":1}}"#;
            steps.push(Step::text(
                format!("{what}, status"),
                "PATCH",
                format!("{path}/status"),
                MERGE,
                status,
            ));
        }
        steps.push(Step::new(format!("{what}, deleted"), "DELETE", &path));
    }
    steps.push(Step::new("definition goes", "DELETE", &one));
    steps.push(Step::new("definition is gone", "GET", &one).until(404, ""));
    Some(steps)
}

/// The storage version if it is served, else the first one that is; and its schema.
fn target_of(definition: &Value) -> Option<(Target, Value)> {
    let spec = definition.get("spec")?;
    let versions = spec.get("versions")?.as_list()?;
    let is = |version: &Value, name: &str| version.get(name).and_then(Value::as_bool) == Some(true);
    let served = |version: &&Value| is(version, "served");
    let version =
        versions.iter().filter(served).find(|v| is(v, "storage")).or_else(|| versions.iter().find(served))?;
    let text = |path: &[&str]| spec.str_at(path).map(str::to_owned);
    let has = |name: &str| version.at(&["subresources", name]).is_some();
    let target = Target {
        api_version: format!(
            "{}/{}",
            text(&["group"]).filter(|group| !group.is_empty())?,
            version.str_at(&["name"])?
        ),
        plural: text(&["names", "plural"])?,
        kind: text(&["names", "kind"])?,
        namespaced: text(&["scope"])? == "Namespaced",
        status: has("status"),
        scale: has("scale"),
        delete_collection: true,
        custom: true,
    };
    Some((target, version.at(&["schema", "openAPIV3Schema"]).cloned().unwrap_or(Value::map())))
}

fn of_another_type(object: &Value, path: &[PathElement], value: &Value) -> (String, Value) {
    let text = match value {
        Value::Map(_) => r#""text""#,
        Value::List(_) => r#"{"a":1}"#,
        Value::Str(_) => "7",
        _ => r#""7""#,
    };
    let mut object = object.clone();
    set(&mut object, path, parse(text).unwrap_or(Value::Null));
    (format!("={text}"), object)
}

/// At most so many, evenly chosen.
fn thinned<T>(items: Vec<T>, most: usize) -> impl Iterator<Item = T> {
    let every = items.len().div_ceil(most).max(1);
    items.into_iter().step_by(every)
}
