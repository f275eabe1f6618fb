//! A Swagger document as facts: what a client generator reads of it, a line each.
//!
//! ```text
//! = 1f0c..  query pretty string, ... | consumes */* | produces application/json   what many operations share
//! /api/v1/pods                                                                    a path; below it its operations:
//!  get listCoreV1PodForAllNamespaces core_v1 list /v1/Pod 200:.core.v1.PodList 401: =1f0c..
//! .core.v1.Pod (metadata:..apis.meta.v1.ObjectMeta, ...) gvk=/v1/Pod              a definition
//! ```
//!
//! `.` stands for `io.k8s.api.` and `..` for `io.k8s.apimachinery.pkg.`; `(a:string, b:[string]) !a` is an object of
//! which `a` is required and `b` is a list, `{string}` a map, `integer/int32` a type with its format, and `@list-type`
//! an `x-kubernetes-list-type`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// By path and method, or by the name of a definition.
pub(in crate::tests) struct Facts(pub BTreeMap<String, String>);

impl Facts {
    pub(in crate::tests) fn of(document: &[u8]) -> Facts {
        let document: Value = serde_json::from_slice(document).expect("a JSON document");
        let mut facts = BTreeMap::new();
        for (path, item) in members(&document["paths"]) {
            for (method, operation) in members(item).filter(|(name, _)| *name != "parameters") {
                let both = [&item["parameters"], &operation["parameters"]];
                let parameters = both.into_iter().flat_map(list).map(|p| parameter(&document, p));
                facts.insert(format!("{path} {method}"), self::operation(operation, parameters.collect()));
            }
        }
        for (name, definition) in members(&document["definitions"]) {
            facts.insert(short(name), schema(definition));
        }
        Facts(facts)
    }

    /// What v3 documents say is filled in, by definition.
    pub(in crate::tests) fn defaults(documents: impl Iterator<Item = Vec<u8>>) -> Facts {
        let mut facts = BTreeMap::new();
        for document in documents {
            let document: Value = serde_json::from_slice(&document).expect("a JSON document");
            for (name, definition) in members(&document["components"]["schemas"]) {
                let mut found = Vec::new();
                for (field, property) in members(&definition["properties"]) {
                    defaults(field, property, &mut found);
                }
                if !found.is_empty() {
                    found.sort();
                    facts.insert(short(name), found.join(" "));
                }
            }
        }
        Facts(facts)
    }

    pub(in crate::tests) fn write(&self) -> String {
        let is_path = |key: &str| key.starts_with('/');
        let shared: BTreeMap<String, &str> = self
            .0
            .iter()
            .filter(|(key, _)| is_path(key))
            .filter_map(|(_, fact)| fact.split_once(" = "))
            .map(|(_, shared)| (crate::fingerprint(shared.as_bytes())[..16].to_owned(), shared))
            .collect();
        let mut out = String::new();
        for (hash, text) in shared {
            out += &format!("= {hash} {text}\n");
        }
        let mut last = "";
        for (key, fact) in &self.0 {
            let Some((path, method)) = key.split_once(' ').filter(|_| is_path(key)) else {
                out += &format!("{key} {fact}\n");
                continue;
            };
            if path != last {
                out += &format!("{path}\n");
                last = path;
            }
            let (own, shared) = fact.split_once(" = ").expect("an operation's fact has both parts");
            out += &format!(" {method} {own} ={}\n", &crate::fingerprint(shared.as_bytes())[..16]);
        }
        out
    }

    pub(in crate::tests) fn read(text: &str) -> Facts {
        let mut facts = BTreeMap::new();
        let mut shared = BTreeMap::new();
        let mut path = "";
        for line in text.lines() {
            if let Some((hash, text)) = line.strip_prefix("= ").and_then(|rest| rest.split_once(' ')) {
                shared.insert(hash, text);
            } else if line.starts_with('/') {
                path = line;
            } else if let Some((method, fact)) = line.strip_prefix(' ').and_then(|rest| rest.split_once(' '))
            {
                let (own, hash) = fact.rsplit_once(" =").expect("an operation refers to what it shares");
                facts.insert(format!("{path} {method}"), format!("{own} = {}", shared[hash]));
            } else if let Some((name, fact)) = line.split_once(' ') {
                facts.insert(name.to_owned(), fact.to_owned());
            }
        }
        Facts(facts)
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// The texts of a list in alphabetical order.
fn words(value: &Value, between: &str) -> String {
    let mut words: Vec<&str> = list(value).iter().map(text).collect();
    words.sort_unstable();
    words.join(between)
}

fn short(name: &str) -> String {
    let name = name.strip_prefix("#/definitions/").unwrap_or(name);
    match (name.strip_prefix("io.k8s.api."), name.strip_prefix("io.k8s.apimachinery.pkg.")) {
        (Some(rest), _) => format!(".{rest}"),
        (_, Some(rest)) => format!("..{rest}"),
        _ => name.to_owned(),
    }
}

fn gvk(value: &Value) -> String {
    format!("{}/{}/{}", text(&value["group"]), text(&value["version"]), text(&value["kind"]))
}

fn parameter(document: &Value, p: &Value) -> String {
    let shared = p["$ref"].as_str().and_then(|r| r.strip_prefix("#/parameters/"));
    let p = shared.map_or(p, |name| &document["parameters"][name]);
    let ty = p["type"].as_str().map_or_else(|| schema(&p["schema"]), str::to_owned);
    let always = if p["required"] == true { "!" } else { "" };
    format!("{} {} {ty}{always}", text(&p["in"]), text(&p["name"]))
}

fn operation(op: &Value, mut parameters: Vec<String>) -> String {
    parameters.sort();
    let kind = &op["x-kubernetes-group-version-kind"];
    let answers: Vec<String> = members(&op["responses"])
        .map(|(code, answer)| format!("{code}:{}", answer.get("schema").map(schema).unwrap_or_default()))
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    format!(
        "{} {} {} {} {} = {} | consumes {} | produces {}",
        text(&op["operationId"]),
        words(&op["tags"], ","),
        text(&op["x-kubernetes-action"]),
        if kind.is_null() { "-".to_owned() } else { gvk(kind) },
        answers.join(" "),
        parameters.join(", "),
        words(&op["consumes"], " "),
        words(&op["produces"], " "),
    )
}

fn schema(value: &Value) -> String {
    let empty = Map::new();
    let map = value.as_object().unwrap_or(&empty);
    let sorted: BTreeMap<&str, &Value> = map.iter().map(|(name, value)| (name.as_str(), value)).collect();
    // The shape says these two types already.
    let implied = if map.contains_key("items") { "array" } else { "object" };
    let shaped = ["items", "properties", "additionalProperties"].iter().any(|key| map.contains_key(*key));
    let mut parts = Vec::new();
    for (key, value) in sorted {
        parts.push(match key {
            // Prose, and what v2 does not keep.
            "description" | "default" => continue,
            "type" if shaped && text(value) == implied => continue,
            "type" => match map.get("format") {
                Some(format) => format!("{}/{}", text(value), text(format)),
                None => text(value).to_owned(),
            },
            "format" if map.contains_key("type") => continue,
            "$ref" => short(text(value)),
            "items" => format!("[{}]", schema(value)),
            "additionalProperties" => format!("{{{}}}", schema(value)),
            "properties" => {
                let all: BTreeMap<&str, String> = members(value).map(|(n, p)| (n, schema(p))).collect();
                let all: Vec<String> = all.into_iter().map(|(name, p)| format!("{name}:{p}")).collect();
                format!("({})", all.join(", "))
            }
            "required" => format!("!{}", words(value, ",")),
            "enum" => format!("enum={}", words(value, "|")),
            "x-kubernetes-group-version-kind" => {
                let mut all: Vec<String> = list(value).iter().map(gvk).collect();
                all.sort();
                format!("gvk={}", all.join(","))
            }
            other => match other.strip_prefix("x-kubernetes-") {
                Some(name) => format!("@{name}={}", flat(value)),
                None => format!("{other}={}", flat(value)),
            },
        });
    }
    parts.join(" ")
}

/// `protocol=TCP`, `args[]=` of a property and of what its list or map has.
fn defaults(path: &str, property: &Value, found: &mut Vec<String>) {
    if let Some(default) = property.get("default") {
        found.push(format!("{path}={}", flat(default)));
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = property.get(key) {
            defaults(&format!("{path}{mark}"), inner, found);
        }
    }
}

/// A value without quotes, its members in alphabetical order.
fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => format!("[{}]", all.iter().map(flat).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let all: BTreeMap<&str, String> = map.iter().map(|(n, v)| (n.as_str(), flat(v))).collect();
            let all: Vec<String> = all.into_iter().map(|(name, v)| format!("{name}={v}")).collect();
            format!("{{{}}}", all.join(","))
        }
        other => other.to_string(),
    }
}
