//! Replays expressions that upstream v1.36 compiled and evaluated: messages, types, estimates, results and costs have to be the same.
//!
//! `data/expr-*.jsonl` has a case a line, made by running cel-go with Kubernetes' libraries. `CEL_CASES` names another folder.

#![allow(clippy::unwrap_used)]

#[path = "recorded/authz.rs"]
mod authz;
#[path = "recorded/schema.rs"]
mod schema;
#[path = "recorded/value.rs"]
mod value;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use cel::cost::{Node, Range, SizeEstimate, SizeEstimator};
use cel::{EnvironmentSet, Type, TypeProvider, Val, Variables, Version};
use schema::{Decl, JsonSchema};
use serde_json::{Map, Value as Json, json};

/// Cases that come out differently, and why.
const DIFFERENT: [(&str, &str); 1] = [(
    "quantity-0309",
    "upstream prints a quantity that is too large without its suffix, although it has its value",
)];

#[test]
fn recorded_cases_come_out_as_upstream_has_them() {
    let folder = std::env::var("CEL_CASES")
        .map_or_else(|_| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")), PathBuf::from);
    let only = std::env::var("CEL_ONLY").unwrap_or_default();
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut bases = BTreeMap::new();
    let (mut total, mut failures) = (0, Vec::new());
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("expr-") || !name.contains(&only) {
            continue;
        }
        let (mut count, mut failed) = (0, 0);
        for line in fs::read_to_string(&file).unwrap().lines() {
            // A handful is nested deeper than serde_json reads.
            let Ok(case) = serde_json::from_str::<Json>(line) else { continue };
            count += 1;
            let got = run(&case, &mut bases);
            if DIFFERENT.iter().any(|(id, _)| case["id"] == *id) {
                continue;
            }
            if let Some(difference) = difference(&case["want"], &got) {
                failed += 1;
                failures.push(format!("{name} {} `{}`: {difference}", case["id"], case["expr"]));
            }
        }
        total += count;
        println!("{name}: {failed} of {count} differ");
    }
    assert!(total > 0, "no cases in {}", folder.display());
    let shown: usize = std::env::var("CEL_SHOW").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    for failure in failures.iter().take(shown) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} of {total} cases differ", failures.len());
}

/// What the case expects and did not get.
fn difference(want: &Json, got: &Map<String, Json>) -> Option<String> {
    let keys = ["compileError", "type", "estimate", "programError", "result", "error", "cost", "checks"];
    for key in keys {
        let (mut want_value, mut got_value) =
            (want[key].clone(), got.get(key).cloned().unwrap_or(Json::Null));
        if want["unordered"].as_array().is_some_and(|keys| keys.iter().any(|k| k == key)) {
            value::sort_lists(&mut want_value);
            value::sort_lists(&mut got_value);
        }
        if !value::same(&want_value, &got_value) {
            return Some(format!("{key}: want {want_value}, got {got_value}"));
        }
    }
    None
}

fn run(case: &Json, bases: &mut BTreeMap<Version, EnvironmentSet>) -> Map<String, Json> {
    let mut out = Map::new();
    let version = case["version"].as_str().unwrap_or("1.36").split_once('.').unwrap();
    let version = Version(version.0.parse().unwrap(), version.1.parse().unwrap());
    let base = bases.entry(version).or_insert_with(|| EnvironmentSet::of(version));
    let base = match case["env"].as_str() {
        Some("stored") => base.stored_expressions.clone(),
        _ => base.new_expressions.clone(),
    };

    // Schemas and objects live as long as the evaluation.
    let empty = Map::new();
    let vars = case["vars"].as_object().unwrap_or(&empty);
    let mut types = Vec::new();
    let mut roots = Sizes::default();
    let mut provider = Declared::default();
    let mut schemas: BTreeMap<&str, JsonSchema> = BTreeMap::new();
    let mut objects: BTreeMap<&str, object::Value> = BTreeMap::new();
    for (name, var) in vars {
        if let Some(spec) = var.get("schema").or_else(|| var.get("openapi")) {
            let root = var["root"].as_bool().unwrap_or(false);
            let schema = JsonSchema::new(spec, root);
            let mut decl = Decl::of(&schema).expect("a type");
            decl.assign_name(&format!("{name}Type"));
            decl.register(&mut provider.0);
            let ty = decl.ty.clone();
            let optional = var["optional"].as_bool().unwrap_or(false);
            types.push((name.clone().into(), if optional { Type::optional(ty) } else { ty }));
            roots.0.insert(name.clone(), decl);
            schemas.insert(name, schema);
        } else {
            types.push((name.clone().into(), value::parse_type(var["type"].as_str().unwrap())));
        }
        if let Some(json) = var.get("value") {
            objects.insert(name, value::to_object(json));
        }
    }
    let rules = authz::Rules::of(case);
    let bound = rules.variables();
    types.extend(bound.iter().map(|(name, ty, _)| ((*name).into(), ty.clone())));
    let provider: Option<Arc<dyn TypeProvider>> =
        if provider.0.is_empty() { None } else { Some(Arc::new(provider)) };
    let env = base.extend(types, provider);
    let text = case["expr"].as_str().unwrap();
    let checked = match env.compile(text) {
        Ok(checked) => checked,
        Err(issues) => {
            out.insert("compileError".into(), issues.to_string().into());
            return out;
        }
    };
    out.insert("type".into(), checked.output_type().to_string().into());
    let estimate = cel::cost::estimate(&env, &checked, &roots);
    out.insert("estimate".into(), json!([estimate.min.to_string(), estimate.max.to_string()]));
    let program = match env.program(&checked) {
        Ok(program) => program,
        Err(error) => {
            out.insert("programError".into(), error.to_string().into());
            return out;
        }
    };
    let mut failing = Vec::new();
    let mut variables = Variables::new();
    for (name, _, value) in bound {
        variables = variables.with(name, value);
    }
    for (name, var) in vars {
        let Some(object) = objects.get(name.as_str()) else { continue };
        let optional = var["optional"].as_bool().unwrap_or(false);
        let value = match schemas.get(name.as_str()) {
            Some(_) if optional && object.is_null() => Ok(Val::none()),
            Some(schema) if optional => Val::view(object, schema).map(Val::some),
            Some(schema) => Val::view(object, schema),
            None => Ok(value::typed_value(&base, &var["value"], object, var["type"].as_str().unwrap())),
        };
        match value {
            Ok(value) => variables = variables.with(name.clone(), value),
            Err(error) => failing.push((name.clone(), error)),
        }
    }
    let activation = Failing(variables, failing);
    let limit = case["limit"].as_u64().unwrap_or(cel::PER_CALL_LIMIT);
    let evaluation = program.eval_within(&activation, limit);
    let checks = rules.checks();
    if !checks.is_empty() {
        out.insert("checks".into(), checks.into());
    }
    out.insert("cost".into(), evaluation.cost.to_string().into());
    match evaluation.result {
        Ok(value) => out.insert("result".into(), value::typed(&value)),
        Err(error) => out.insert("error".into(), error.to_string().into()),
    };
    out
}

/// Variables, some of which are errors because their values do not fit their schemas.
struct Failing<'v>(Variables<'v>, Vec<(String, cel::Error)>);

impl cel::Activation for Failing<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Result<Val<'a>, cel::Error>> {
        match self.1.iter().find(|(own, _)| own == name) {
            Some((_, error)) => Some(Err(error.clone())),
            None => self.0.variable(name),
        }
    }
}

#[derive(Default)]
struct Declared(BTreeMap<String, BTreeMap<String, Type>>);

impl TypeProvider for Declared {
    fn is_object(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
    fn field(&self, object: &str, field: &str) -> Option<Type> {
        self.0.get(object)?.get(field).cloned()
    }
}

#[derive(Default)]
struct Sizes(BTreeMap<String, Decl>);

impl SizeEstimator for Sizes {
    fn size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        let (first, rest) = node.path.split_first()?;
        let mut decl = self.0.get(*first)?;
        for step in rest {
            decl = decl.step(step)?;
        }
        Some(Range { min: 0, max: decl.max_elements })
    }
}

/// Expressions with pieces cut out, doubled and swapped: whatever comes out, nothing panics.
#[test]
fn broken_expressions_do_not_panic() {
    let env = EnvironmentSet::of(Version(1, 36)).stored_expressions.extend(
        [("x".into(), Type::Dyn), ("l".into(), Type::list(Type::Int)), ("s".into(), Type::String)],
        None,
    );
    let object = value::to_object(&json!({"a": [1, "b", null], "c": {"d": 1.5}}));
    let activation = Variables::new()
        .with("x", Val::dynamic(&object))
        .with("l", Val::list(vec![Val::Int(3), Val::Int(-1)]))
        .with("s", "text");
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below.max(1) as u64) as usize
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let mut texts: Vec<String> = Vec::new();
    for file in ["expr-macros", "expr-syntax", "expr-random-vars", "expr-optional", "expr-strings"] {
        let lines = fs::read_to_string(format!("{folder}/{file}.jsonl")).unwrap();
        let cases = lines.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        texts.extend(cases.filter_map(|case| case["expr"].as_str().map(str::to_owned)));
    }
    for _ in 0..20_000 {
        let mut chars: Vec<char> = texts[next(texts.len())].chars().take(200).collect();
        for _ in 0..=next(3) {
            let from = next(chars.len());
            let to = (from + next(6)).min(chars.len());
            let piece: Vec<char> = chars[from..to].to_vec();
            match next(3) {
                0 => chars.drain(from..to).for_each(drop),
                1 => {
                    let at = next(chars.len());
                    chars.splice(at..at, piece).for_each(drop);
                }
                _ => {
                    let other: Vec<char> = texts[next(texts.len())].chars().take(20).collect();
                    chars.splice(from..to, other).for_each(drop);
                }
            }
        }
        let text: String = chars.into_iter().collect();
        if let Ok(checked) = env.compile(&text) {
            let estimate = cel::cost::estimate(&env, &checked, &());
            assert!(estimate.min <= estimate.max, "{text}");
            if let Ok(program) = env.program(&checked) {
                let _ = program.eval_within(&activation, 100_000);
            }
        }
    }
}
