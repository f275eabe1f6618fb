//! What upstream said of definitions whose schemas have rules.

use catalog::Catalog;
use object::Value;

use crate::samples::{changed, ready};
use crate::tests::{NOW, json, storage};
use crate::{Context, kind_of, validate_create, validate_update};

/// A definition with one version of that schema.
fn definition(schema: &Value, has_status: bool) -> Value {
    let mut crd = json(
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
            "spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"},
            "versions":[]}}"#,
    );
    let mut version = json(r#"{"name":"v1","served":true,"storage":true}"#);
    version.map_at(&["schema"]).set("openAPIV3Schema", schema.clone());
    if has_status {
        version.map_at(&["subresources"]).set("status", Value::map());
    }
    crd.map_at(&["spec"]).set("versions", Value::List(vec![version]));
    crd
}

fn errors_of(catalog: &Catalog, case: &Value) -> Vec<String> {
    let storage = storage(catalog, "customresourcedefinitions");
    let (kind, ctx) = (kind_of(storage), Context::plain(storage, NOW));
    let has_status = case.get("statusSubresource").and_then(Value::as_bool) == Some(true);
    let new = definition(case.get("schema").unwrap(), has_status);
    let errors = match case.get("oldSchema") {
        None => validate_create(kind, storage, &ready(catalog, storage, new), &ctx),
        Some(old) => {
            let old = definition(old, has_status);
            let (old, new) = changed(catalog, storage, old, new, &ctx);
            validate_update(kind, storage, &new, &old, &ctx)
        }
    };
    errors.iter().map(ToString::to_string).collect()
}

/// Schemas that Go's decoder refuses, or changes before they are validated: the cases have them as they are.
fn is_decoded_otherwise(text: &str) -> bool {
    text.contains("metadata.generation")
}

#[test]
fn rules_of_definitions_are_refused_as_upstream_refuses_them() {
    let catalog = Catalog::builtin();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cel-schema/tests/data");
    let (mut cases, mut wrong) = (0, Vec::new());
    for name in ["cost", "crd-schema", "crd-update", "messages", "nodes", "ratcheting", "transitions"] {
        let lines = std::fs::read_to_string(format!("{folder}/rule-{name}.jsonl")).unwrap();
        for line in lines.lines() {
            let case = json(line);
            let want = case.at(&["want", "crd"]).and_then(Value::as_list).unwrap_or_default();
            let mut want: Vec<String> =
                want.iter().map(|error| error.str_at(&["text"]).unwrap_or_default().to_owned()).collect();
            want.retain(|text| !is_decoded_otherwise(text));
            let mut got = errors_of(&catalog, &case);
            // Go's maps have no order.
            want.sort();
            got.sort();
            cases += 1;
            if got != want {
                let id = case.str_at(&["id"]).unwrap();
                wrong.push(format!("{id}\n   got  {got:#?}\n   want {want:#?}"));
            }
        }
    }
    assert!(cases > 1000, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong.join("\n"));
}
