use object::Value;

use super::{Instances, Outcome, begin, end, instances, is_due};
use crate::tests::{AT, LATER, json, text};

fn definition(group: &str, plural: &str, conditions: &str) -> Value {
    json(&format!(
        r#"{{"metadata":{{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b","customresourcecleanup.apiextensions.k8s.io","c/d"]}},
            "spec":{{"group":"{group}","names":{{"plural":"{plural}"}}}},"status":{{"conditions":[{conditions}]}}}}"#
    ))
}

const ESTABLISHED: &str = r#"{"type":"Established","status":"True"}"#;

#[test]
fn deleted_definitions_with_our_finalizer_are_due() {
    assert!(is_due(&definition("g.io", "foos", "")));
    assert!(!is_due(&json(r#"{"metadata":{"finalizers":["customresourcecleanup.apiextensions.k8s.io"]}}"#)));
    assert!(!is_due(&json(
        r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b"]}}"#
    )));
}

#[test]
fn only_objects_of_established_definitions_are_deleted() {
    assert_eq!(instances(&definition("g.io", "foos", ESTABLISHED)), Instances::Delete);
    assert_eq!(instances(&definition("g.io", "foos", "")), Instances::Keep(Outcome::NeverEstablished));
    for (group, plural) in
        [("apiregistration.k8s.io", "apiservices"), ("apiextensions.k8s.io", "customresourcedefinitions")]
    {
        let kept = instances(&definition(group, plural, ESTABLISHED));
        assert_eq!(kept, Instances::Keep(Outcome::OverlappingBuiltIn));
    }
}

#[test]
fn the_condition_follows_the_steps() {
    let pending = r#"{"type":"Terminating","status":"True","reason":"InstanceDeletionPending","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}"#;
    let status = begin(&definition("g.io", "foos", pending), LATER).expect("a new status");
    let progress = r#"{"type":"Terminating","status":"True","reason":"InstanceDeletionInProgress","message":"CustomResource deletion is in progress","lastTransitionTime":"2026-01-01T00:00:00Z"}"#;
    assert_eq!(text(&status), format!(r#"{{"conditions":[{progress}]}}"#));
    let deleting = definition("g.io", "foos", progress);
    assert_eq!(begin(&deleting, LATER), None, "said once");

    let two = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()];
    for (outcome, status, reason, message) in [
        (Outcome::Completed, "False", "InstanceDeletionCompleted", "removed all instances"),
        (Outcome::NeverEstablished, "False", "NeverEstablished", "resource was never established"),
        (
            Outcome::OverlappingBuiltIn,
            "False",
            "OverlappingBuiltInResource",
            "instances overlap with built-in resources in storage",
        ),
        (Outcome::NotListed("e".into()), "True", "InstanceDeletionFailed", "could not list instances: e"),
        (Outcome::NotDeleted(two), "True", "InstanceDeletionFailed", "could not issue all deletes: [a, b]"),
        (
            Outcome::NotGone("context deadline exceeded".into()),
            "True",
            "InstanceDeletionCheck",
            "could not confirm zero CustomResources remaining: context deadline exceeded",
        ),
    ] {
        let end = end(&deleting, &outcome, AT);
        let time = r#""lastTransitionTime":"2026-01-01T00:00:00Z""#;
        let said = format!(
            r#"{{"conditions":[{{"type":"Terminating","status":"{status}","reason":"{reason}","message":"{message}",{time}}}]}}"#
        );
        assert_eq!(text(&end.status), said);
        let left = (status == "False").then(|| vec![Value::from("a/b"), Value::from("c/d")]);
        assert_eq!(end.finalizers, left, "{outcome:?}");
    }
}
