//! Our Swagger document agrees with kube-apiserver's: every operation and every definition, fact by fact.
//!
//! `tests/golden/v2.txt` has the facts of what kube-apiserver v1.36.4 answers, without its prose; they are those of
//! `api/openapi-spec/swagger.json` of that version, but for what is off unless asked for (alpha, beta, CBOR) and with
//! enums. From a document of any server (`kubectl get --raw /openapi/v2`) it is made by
//! `OPENAPI_FACTS=document.json cargo test -p openapi upstream`.
//!
//! `tests/golden/v3_defaults.txt` has what only v3 says, the defaults; made by `OPENAPI_FACTS_V3=folder` with a v3
//! document a file: those of `api/openapi-spec/v3` of the group versions we serve.

pub(super) mod facts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use catalog::Catalog;
use facts::Facts;
use serde_json::Value;

/// Known differences and their reasons. A row that no longer differs must be removed.
const DIFFERS: [(&str, &str); 0] = [];

pub(super) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Facts that differ, as a text; a fact named by `known` may.
pub(super) fn differences(upstream: &Facts, ours: &Facts, known: &[(&str, &str)]) -> String {
    let mut wrong = String::new();
    let mut excused = Vec::new();
    for key in upstream.0.keys().chain(ours.0.keys().filter(|key| !upstream.0.contains_key(*key))) {
        let [theirs, ours] = [upstream, ours].map(|f| f.0.get(key).map_or("(absent)", String::as_str));
        if theirs == ours {
            continue;
        }
        if known.iter().any(|(known, _)| key == known) {
            excused.push(key.as_str());
        } else {
            wrong += &format!("{key}\n  upstream {theirs}\n  ours     {ours}\n");
        }
    }
    for (key, _) in known.iter().filter(|(key, _)| !excused.contains(key)) {
        wrong += &format!("{key} is as upstream's: take it off the list\n");
    }
    wrong
}

#[test]
fn v2_has_the_operations_and_definitions_of_upstream() {
    if let Ok(document) = std::env::var("OPENAPI_FACTS") {
        let facts = Facts::of(&std::fs::read(&document).expect("OPENAPI_FACTS names a file"));
        return std::fs::write(golden("v2.txt"), facts.write()).unwrap();
    }
    let upstream = Facts::read(&std::fs::read_to_string(golden("v2.txt")).unwrap());
    let ours = Facts::of(&super::of(&Catalog::builtin()).v2());
    assert!(upstream.0.len() > 1_300, "only {} facts in the golden file", upstream.0.len());

    let wrong = differences(&upstream, &ours, &DIFFERS);
    assert!(wrong.is_empty(), "not as upstream:\n{wrong}");
}

#[test]
fn v3_has_the_defaults_of_upstream() {
    if let Ok(folder) = std::env::var("OPENAPI_FACTS_V3") {
        let files = std::fs::read_dir(folder).expect("OPENAPI_FACTS_V3 names a folder");
        let documents = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
        return std::fs::write(golden("v3_defaults.txt"), Facts::defaults(documents).write()).unwrap();
    }
    let c = Catalog::builtin();
    let upstream = Facts::read(&std::fs::read_to_string(golden("v3_defaults.txt")).unwrap());
    let paths = super::of(&c).v3_entries();
    let ours = Facts::defaults(paths.keys().map(|path| super::of(&c).v3(path).expect("listed")));
    assert!(upstream.0.len() > 300, "only {} facts in the golden file", upstream.0.len());
    let wrong = differences(&upstream, &ours, &[]);
    assert!(wrong.is_empty(), "not as upstream:\n{wrong}");
}

/// What server-side apply and patches go by: kinds of lists and maps, keys, strategies; by definition and place.
fn extensions(schemas: &Value) -> BTreeMap<String, String> {
    fn collect(schema: &Value, path: &str, out: &mut BTreeMap<String, String>) {
        // In v3 a reference with a description is the only member of `allOf`, which says nothing itself.
        for (name, value) in schema.as_object().into_iter().flatten() {
            match name.as_str() {
                "properties" => {
                    for (field, property) in value.as_object().into_iter().flatten() {
                        collect(property, &format!("{path}.{field}"), out);
                    }
                }
                "items" | "additionalProperties" => collect(value, &format!("{path}[]"), out),
                // Each v3 document has those of its own group version.
                "x-kubernetes-group-version-kind" => {}
                name if name.starts_with("x-kubernetes-") => {
                    out.insert(format!("{path} {name}"), value.to_string());
                }
                _ => {}
            }
        }
    }
    let mut out = BTreeMap::new();
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        collect(schema, name, &mut out);
    }
    out
}

/// Those of v2 are upstream's (above). Clients that extract what they applied read either.
#[test]
fn v3_has_the_extensions_and_patches_of_v2() {
    let catalog = Catalog::builtin();
    let documents = super::of(&catalog);
    let v2: Value = serde_json::from_slice(&documents.v2()).unwrap();
    let of_v2 = extensions(&v2["definitions"]);
    assert!(of_v2.len() > 400, "only {}", of_v2.len());
    let managers = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta.managedFields x-kubernetes-list-type";
    assert_eq!(of_v2[managers], "\"atomic\"");
    let (mut seen, mut patches) = (BTreeMap::new(), 0);
    for path in documents.v3_entries().keys() {
        let v3: Value = serde_json::from_slice(&documents.v3(path).expect("listed")).unwrap();
        seen.extend(extensions(&v3["components"]["schemas"]));
        for (path, item) in v3["paths"].as_object().into_iter().flatten() {
            // What a proxy passes on has no body of ours.
            let patch = &item["patch"];
            let Some(content) = patch["requestBody"]["content"].as_object() else { continue };
            patches += 1;
            let consumes: Vec<&str> = content.keys().map(String::as_str).collect();
            let mut of_v2: Vec<&str> = v2["paths"][path]["patch"]["consumes"]
                .as_array()
                .expect("v2 has it")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            of_v2.sort_unstable();
            assert_eq!(consumes, of_v2, "{path}");
            assert!(consumes.contains(&"application/apply-patch+yaml"), "{path}");
            let named = |name: &str| {
                patch["parameters"].as_array().is_some_and(|all| all.iter().any(|p| p["name"] == name))
            };
            assert!(["dryRun", "fieldManager", "fieldValidation", "force"].into_iter().all(named), "{path}");
        }
    }
    let differ: Vec<_> = seen.iter().filter(|(at, value)| of_v2.get(*at) != Some(value)).collect();
    assert!(differ.is_empty() && seen.len() == of_v2.len(), "{} and {}: {differ:?}", seen.len(), of_v2.len());
    assert!(patches > 90, "only {patches} patches");
}

#[test]
fn recorded_facts_parse() {
    let ours = Facts::of(&super::of(&Catalog::builtin()).v2());
    assert_eq!(Facts::read(&ours.write()).0, ours.0);
}
