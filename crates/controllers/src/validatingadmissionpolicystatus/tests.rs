use std::sync::Arc;

use admission_policy::GroupVersionKind;
use admission_policy::Kinds as _;
use object::Value;

use super::Served;
use super::plan::{is_due, plan};

fn served() -> Served {
    Served(Arc::new(catalog::Catalog::builtin()))
}

fn policy(expression: &str, generation: i64, observed: i64) -> Value {
    runtime::parse(&format!(
        "{{metadata: {{name: p, generation: {generation}}}, status: {{observedGeneration: {observed}}}, spec: {{\
         matchConstraints: {{resourceRules: [{{apiGroups: [apps], apiVersions: [v1], operations: ['*'], resources: [deployments]}}]}}, \
         validations: [{{expression: \"{expression}\"}}]}}}}"
    ))
    .expect("a policy")
}

#[test]
fn a_generation_is_checked_once() {
    assert!(is_due(&policy("true", 2, 1)));
    assert!(!is_due(&policy("true", 2, 2)));
}

#[test]
fn expressions_that_do_not_fit_get_a_warning() {
    let status = plan(&policy("object.spec.replicas == 'x'", 3, 1), &served());
    assert_eq!(status.at(&["status", "observedGeneration"]), Some(&Value::Int(3)));
    let warnings = status.at(&["status", "typeChecking", "expressionWarnings"]).and_then(Value::as_list);
    let warning = &warnings.expect("warnings")[0];
    assert_eq!(warning.str_at(&["fieldRef"]), Some("spec.validations[0].expression"));
    let text = warning.str_at(&["warning"]).unwrap_or_default();
    assert!(
        text.starts_with("apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload"),
        "{text}"
    );
}

#[test]
fn expressions_that_fit_leave_an_empty_type_checking() {
    let status = plan(&policy("object.spec.replicas > 1", 1, 0), &served());
    assert_eq!(status.at(&["status", "typeChecking"]), Some(&Value::map()));
}

#[test]
fn a_resource_without_a_group_is_looked_for_in_all() {
    let found = served().kinds_for("", "v1", "events");
    let event =
        |group: &str| GroupVersionKind { group: group.into(), version: "v1".into(), kind: "Event".into() };
    assert!(found.contains(&event("")) && found.contains(&event("events.k8s.io")), "{found:?}");
}
