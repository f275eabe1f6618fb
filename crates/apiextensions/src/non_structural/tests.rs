use object::Value;

use super::plan;
use crate::tests::{AT, json, text};

fn definition(spec: &str, conditions: &str) -> Value {
    json(&format!(r#"{{"spec":{spec},"status":{{"conditions":[{conditions}]}}}}"#))
}

fn condition(status: Option<Value>) -> Option<String> {
    let status = status?;
    status.get("conditions")?.as_list()?.first().map(text)
}

const TWO: &str = r#"{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2"},{"name":"v3","schema":{"openAPIV3Schema":{}}}]}"#;

#[test]
fn violations_are_said_and_taken_back() {
    let said = r#"{"type":"NonStructuralSchema","lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","reason":"Violations","message":"spec.versions[2].schema.openAPIV3Schema.type: Required value: must not be empty at the root"}"#;
    assert_eq!(condition(plan(&definition(TWO, ""), AT)).as_deref(), Some(said));
    assert_eq!(plan(&definition(TWO, said), AT), None);
    let good = r#"{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]}"#;
    assert_eq!(plan(&definition(good, ""), AT), None);
    let status = plan(&definition(good, said), AT).expect("a new status");
    assert_eq!(text(&status), r#"{"conditions":[]}"#);
}

#[test]
fn fields_that_are_kept_are_a_violation_too() {
    let spec = TWO.replacen('{', r#"{"preserveUnknownFields":true,"#, 1);
    let status = plan(&definition(&spec, ""), AT).expect("a new status");
    let message = status.get("conditions").and_then(Value::as_list).and_then(|c| c[0].str_at(&["message"]));
    assert_eq!(
        message,
        Some(
            "[spec.preserveUnknownFields: Invalid value: true: must be false, spec.versions[2].schema.openAPIV3Schema.type: Required value: must not be empty at the root]"
        )
    );
}

#[test]
fn a_schema_that_cannot_be_read_is_unknown() {
    let spec = r#"{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","$ref":"x"}}}]}"#;
    let said = condition(plan(&definition(spec, ""), AT)).expect("a condition");
    assert!(said.contains(r#""status":"Unknown","reason":"StructuralError","message":"failed to check validation schema for version v1: OpenAPIV3Schema '$ref' is not supported""#), "{said}");
}
