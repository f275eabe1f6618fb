use super::plan;
use crate::tests::{AT, json, text};

#[test]
fn accepted_names_establish() {
    let accepted = r#"{"type":"NamesAccepted","status":"True"}"#;
    let installing = r#"{"type":"Established","status":"False","reason":"Installing","message":"m","lastTransitionTime":"2020-01-01T00:00:00Z"}"#;
    let waiting = json(&format!(r#"{{"status":{{"conditions":[{accepted},{installing}]}}}}"#));
    let status = plan(&waiting, AT).expect("a new status");
    let established = r#"{"type":"Established","status":"True","reason":"InitialNamesAccepted","message":"the initial names have been accepted","lastTransitionTime":"2026-01-01T00:00:00Z"}"#;
    assert_eq!(text(&status), format!(r#"{{"conditions":[{accepted},{established}]}}"#));
    let done = json(&format!(r#"{{"status":{}}}"#, text(&status)));
    assert_eq!(plan(&done, AT), None);
    let conflict = json(r#"{"status":{"conditions":[{"type":"NamesAccepted","status":"False"}]}}"#);
    assert_eq!(plan(&conflict, AT), None);
    assert_eq!(plan(&json(r#"{"status":{"conditions":null}}"#), AT), None);
}

#[test]
fn a_bundle_without_a_certificate_keeps_it_from_being_established() {
    let definition = |status: &str| {
        json(&format!(
            r#"{{"spec":{{"conversion":{{"webhook":{{"clientConfig":{{"caBundle":"QUFB"}}}}}}}},"status":{status}}}"#
        ))
    };
    let waiting = definition(r#"{"conditions":[{"type":"NamesAccepted","status":"True"}]}"#);
    let status = plan(&waiting, AT).expect("a new status");
    let condition = &status.get("conditions").and_then(|c| c.as_list()).expect("conditions")[1];
    assert_eq!(
        text(condition),
        r#"{"type":"Established","lastTransitionTime":"2026-01-01T00:00:00Z","status":"False","reason":"InvalidCABundle","message":"The conversion webhook CABundle is invalid"}"#
    );
    assert_eq!(plan(&definition(&text(&status)), AT), None, "said once");
}
