//! Every schema of `data/schemas.jsonl` as that of `value`, and values for it.
//!
//! ```text
//! {"name":"minLength","schema":{"type":"string","minLength":2},"values":["a","ab"],"updates":[["ab","a"]]}
//! ```
//! | member | what it is for |
//! |---|---|
//! | `schema` | the schema of the member `value`; `root` instead is one of the whole object, and its values are objects |
//! | `values` | each is created, leniently and strictly |
//! | `updates` | pairs: the first is created, then replaced and patched to be the second |
//! | `before` | the schema (or root) under which the first ones of `updates` are created: what holds today may refuse them |
//!
//! Values of every JSON type are created besides.

use object::Value;

use super::definition::{change, close, of_value, open, widgets, with_schema};
use super::{name_of, rows, scenario};
use crate::case::{JSON_PATCH, MERGE, Scenario, Step, parse, text_of};

const ROWS: &str = include_str!("../../../data/schemas.jsonl");

/// A few of each type, and what programs easily take for something else.
const ANY: &[&str] = &[
    "null",
    "true",
    "0",
    "-1",
    "2.5",
    "1.0",
    "9007199254740993",
    r#""""#,
    r#""a""#,
    r#""10""#,
    r#""a b""#,
    "[]",
    r#"["a"]"#,
    "[1,1]",
    "[null]",
    "[{}]",
    "{}",
    r#"{"a":1}"#,
    r#"{"a":"b","c":null}"#,
];

pub fn scenarios() -> Vec<Scenario> {
    rows(ROWS).map(|row| scenario(&format!("schema, {}", name_of(&row)), steps(&row))).collect()
}

fn steps(row: &Value) -> Vec<Step> {
    let whole = row.get("root").is_some();
    let schema = |member: &str| row.get(member).map(|s| if whole { s.clone() } else { of_value(s) });
    let target = widgets("v1", true);
    let all = target.collection();
    let object = |name: &str, value: &Value| {
        let mut object = Value::map();
        object.make_map().set("apiVersion", target.api_version.clone());
        object.make_map().set("kind", target.kind.clone());
        object.map_at(&["metadata"]).set("name", name.to_owned());
        if !whole {
            object.make_map().set("value", value.clone());
            return object;
        }
        for (name, value) in value.as_map().into_iter().flat_map(|members| members.iter()) {
            match (name.as_str(), value) {
                ("metadata", Value::Map(more)) => {
                    let metadata = object.map_at(&["metadata"]);
                    more.iter().for_each(|(name, value)| metadata.set(name.clone(), value.clone()));
                }
                _ => object.make_map().set(name.clone(), value.clone()),
            }
        }
        object
    };
    let list = |member: &str| row.get(member).and_then(Value::as_list).unwrap_or_default();
    let now = schema(if whole { "root" } else { "schema" }).unwrap_or(Value::map());
    let before = schema("before");
    let mut steps = open(&with_schema(before.as_ref().unwrap_or(&now)), &target).to_vec();
    let pairs = || {
        list("updates").iter().filter_map(|pair| Some((pair.as_list()?.first()?, pair.as_list()?.get(1)?)))
    };
    for (at, (old, _)) in pairs().enumerate() {
        steps.push(Step::with(
            format!("update {at}: create {}", text_of(old)),
            "POST",
            &all,
            &object(&format!("u{at}"), old),
        ));
    }
    if before.is_some() {
        steps.push(change(&now));
    }
    if !whole {
        for text in ANY {
            let value = parse(text).expect("the values are JSON, a test says so");
            let step =
                Step::with(format!("any {text}"), "POST", format!("{all}?dryRun=All"), &object("a", &value));
            steps.push(step);
        }
    }
    for value in list("values") {
        let (object, text) = (object("a", value), text_of(value));
        for how in ["Warn", "Strict", "Ignore"] {
            let path = format!("{all}?dryRun=All&fieldValidation={how}");
            steps.push(Step::with(format!("{how} {text}"), "POST", path, &object));
        }
    }
    for (at, (_, new)) in pairs().enumerate() {
        let one = format!("{all}/u{at}");
        let text = text_of(new);
        steps.push(Step::new(format!("update {at}: get"), "GET", &one));
        let mut object = object(&format!("u{at}"), new);
        object.map_at(&["metadata"]).set("resourceVersion", "$RV");
        let dry = format!("{one}?dryRun=All");
        steps.push(Step::with(format!("update {at}: replace by {text}"), "PUT", &dry, &object));
        if whole {
            steps.push(Step::text(format!("update {at}: merge {text}"), "PATCH", &dry, MERGE, text));
            continue;
        }
        let merge = format!(r#"{{"value":{text}}}"#);
        steps.push(Step::text(format!("update {at}: merge {text}"), "PATCH", &dry, MERGE, merge));
        let patch = format!(r#"[{{"op":"add","path":"/value","value":{text}}}]"#);
        steps.push(Step::text(format!("update {at}: patch to {text}"), "PATCH", &dry, JSON_PATCH, patch));
    }
    steps.push(close());
    steps
}
