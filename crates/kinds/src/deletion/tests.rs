//! What DELETE decides, table by table.

use catalog::Catalog;
use object::Value;

use super::*;
use crate::kind_of;
use crate::tests::{NOW, NOW_TEXT, json, storage, text};

fn decision(catalog: &Catalog, plural: &str, object: &str, options: &str) -> Decision {
    let storage = storage(catalog, plural);
    let options = crate::delete_options(&json(options)).unwrap();
    decide(kind_of(storage), storage, &json(object), "9", &options, NOW).unwrap()
}

fn kept(decision: Decision) -> Value {
    match decision {
        Decision::Keep(value) => value,
        other => panic!("not kept: {other:?}"),
    }
}

#[test]
fn finalizers_and_propagation_decide_for_kinds_without_grace() {
    let catalog = Catalog::builtin();
    // kind, finalizers before, options, finalizers after (None: gone at once)
    let table = [
        ("configmaps", "[]", "{}", None),
        ("configmaps", r#"["a/b"]"#, "{}", Some(vec!["a/b"])),
        ("configmaps", "[]", r#"{"propagationPolicy":"Background"}"#, None),
        ("configmaps", "[]", r#"{"propagationPolicy":"Foreground"}"#, Some(vec!["foregroundDeletion"])),
        ("configmaps", "[]", r#"{"propagationPolicy":"Orphan"}"#, Some(vec!["orphan"])),
        ("configmaps", "[]", r#"{"orphanDependents":true}"#, Some(vec!["orphan"])),
        ("configmaps", r#"["orphan"]"#, r#"{"orphanDependents":false}"#, None),
        (
            "configmaps",
            r#"["orphan","a/b"]"#,
            r#"{"propagationPolicy":"Foreground"}"#,
            Some(vec!["a/b", "foregroundDeletion"]),
        ),
        ("configmaps", r#"["foregroundDeletion"]"#, r#"{"propagationPolicy":"Background"}"#, None),
        ("configmaps", r#"["foregroundDeletion"]"#, "{}", Some(vec!["foregroundDeletion"])),
        ("configmaps", r#"["orphan"]"#, "{}", Some(vec!["orphan"])),
        ("jobs", "[]", "{}", Some(vec!["orphan"])),
        ("jobs", "[]", r#"{"propagationPolicy":"Background"}"#, None),
        ("replicationcontrollers", "[]", "{}", Some(vec!["orphan"])),
        ("events", "[]", r#"{"propagationPolicy":"Foreground"}"#, None),
    ];
    for (plural, before, options, after) in table {
        let object = format!(r#"{{"metadata":{{"name":"x","finalizers":{before}}}}}"#);
        match (decision(&catalog, plural, &object, options), after) {
            (Decision::Remove { marked: None }, None) => {}
            (Decision::Keep(new), Some(after)) => {
                assert_eq!(
                    crate::metadata::strings(&new, "finalizers"),
                    after,
                    "{plural} {before} {options}"
                );
                assert_eq!(new.str_at(&["metadata", "deletionTimestamp"]), Some(NOW_TEXT));
                assert_eq!(new.at(&["metadata", "deletionGracePeriodSeconds"]), Some(&Value::Int(0)));
            }
            (found, wanted) => panic!("{plural} {before} {options}: {found:?}, not {wanted:?}"),
        }
    }
}

#[test]
fn marking_increments_the_generation_once() {
    let catalog = Catalog::builtin();
    let object = r#"{"metadata":{"name":"x","generation":3,"finalizers":["a/b"]}}"#;
    let first = kept(decision(&catalog, "deployments", object, "{}"));
    assert_eq!(first.at(&["metadata", "generation"]), Some(&Value::Int(4)));
    let again = kept(decision(&catalog, "deployments", &text(&first), "{}"));
    assert_eq!(again, first);
    let none =
        kept(decision(&catalog, "configmaps", r#"{"metadata":{"name":"x","finalizers":["a/b"]}}"#, "{}"));
    assert_eq!(none.at(&["metadata", "generation"]), None);
}

#[test]
fn pods_get_their_grace_period() {
    let catalog = Catalog::builtin();
    let pod = |spec: &str, phase: &str| {
        format!(
            r#"{{"metadata":{{"name":"p","generation":1}},"spec":{{{spec}}},"status":{{"phase":"{phase}"}}}}"#
        )
    };
    let scheduled = r#""nodeName":"n","terminationGracePeriodSeconds":20"#;
    // spec, phase, options, grace (None: gone at once, marked before)
    let table = [
        (scheduled, "Running", "{}", Some(20)),
        (r#""nodeName":"n""#, "Running", "{}", Some(30)),
        (scheduled, "Running", r#"{"gracePeriodSeconds":5}"#, Some(5)),
        (scheduled, "Running", r#"{"gracePeriodSeconds":-3}"#, Some(1)),
        (scheduled, "Running", r#"{"gracePeriodSeconds":0}"#, None),
        (scheduled, "Succeeded", "{}", None),
        (scheduled, "Failed", r#"{"gracePeriodSeconds":5}"#, None),
        (r#""terminationGracePeriodSeconds":20"#, "Pending", "{}", None),
        (r#""nodeName":"n","terminationGracePeriodSeconds":-1"#, "Running", "{}", Some(1)),
    ];
    for (spec, phase, options, grace) in table {
        let new = match (decision(&catalog, "pods", &pod(spec, phase), options), grace) {
            (Decision::Remove { marked: Some(new) }, None) => new,
            (Decision::Keep(new), Some(_)) => new,
            (found, _) => panic!("{spec} {phase} {options}: {found:?}"),
        };
        let seconds = grace.unwrap_or(0);
        assert_eq!(new.at(&["metadata", "deletionGracePeriodSeconds"]), Some(&Value::Int(seconds)));
        let wanted = object::time::format_seconds(NOW + seconds);
        assert_eq!(new.str_at(&["metadata", "deletionTimestamp"]), Some(wanted.as_str()));
        assert_eq!(new.at(&["metadata", "generation"]), Some(&Value::Int(2)));
    }
}

#[test]
fn a_second_delete_can_only_shorten_the_grace() {
    let catalog = Catalog::builtin();
    // Deleted at NOW - 10 with 30 seconds: 20 are left.
    let pod = |grace: i64, left: i64, finalizers: &str| {
        let at = object::time::format_seconds(NOW + left);
        format!(
            r#"{{"metadata":{{"name":"p","generation":2,"deletionTimestamp":"{at}","deletionGracePeriodSeconds":{grace},"finalizers":{finalizers}}},"spec":{{"nodeName":"n"}}}}"#
        )
    };
    let delete = |object: &str, options: &str| decision(&catalog, "pods", object, options);
    assert_eq!(delete(&pod(30, 20, "[]"), "{}"), Decision::Nothing);
    assert_eq!(delete(&pod(30, 20, "[]"), r#"{"gracePeriodSeconds":30}"#), Decision::Nothing);
    assert_eq!(delete(&pod(30, 20, "[]"), r#"{"propagationPolicy":"Orphan"}"#), Decision::Nothing);
    let shorter = kept(delete(&pod(30, 20, "[]"), r#"{"gracePeriodSeconds":15}"#));
    assert_eq!(shorter.at(&["metadata", "deletionGracePeriodSeconds"]), Some(&Value::Int(15)));
    assert_eq!(
        shorter.str_at(&["metadata", "deletionTimestamp"]),
        Some(object::time::format_seconds(NOW + 5).as_str())
    );
    assert_eq!(shorter.at(&["metadata", "generation"]), Some(&Value::Int(2)));
    let overdue = kept(delete(&pod(30, 20, "[]"), r#"{"gracePeriodSeconds":5}"#));
    assert_eq!(overdue.at(&["metadata", "deletionGracePeriodSeconds"]), Some(&Value::Int(1)));
    assert_eq!(overdue.str_at(&["metadata", "deletionTimestamp"]), Some(NOW_TEXT));
    assert!(matches!(
        delete(&pod(30, 20, "[]"), r#"{"gracePeriodSeconds":0}"#),
        Decision::Remove { marked: Some(_) }
    ));
    let held = kept(delete(&pod(30, 20, r#"["a/b"]"#), r#"{"gracePeriodSeconds":0}"#));
    assert_eq!(held.at(&["metadata", "deletionGracePeriodSeconds"]), Some(&Value::Int(0)));
    assert_eq!(delete(&pod(0, 0, "[]"), "{}"), Decision::Remove { marked: None });
}

#[test]
fn a_precondition_that_does_not_hold_is_a_conflict() {
    let catalog = Catalog::builtin();
    let refused = |plural: &str, options: &str| {
        let storage = storage(&catalog, plural);
        let old = json(r#"{"metadata":{"name":"a","uid":"U"}}"#);
        let options = crate::delete_options(&json(options)).unwrap();
        let status = decide(kind_of(storage), storage, &old, "258", &options, NOW).unwrap_err();
        assert_eq!((status.code, status.reason), (409, "Conflict"));
        status.message
    };
    assert_eq!(
        refused("configmaps", r#"{"preconditions":{"uid":"V"}}"#),
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (V) does not match the UID in record (U). The object might have been deleted and then recreated"
    );
    assert_eq!(
        refused("configmaps", r#"{"preconditions":{"resourceVersion":"1"}}"#),
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (258). The object might have been modified"
    );
    assert_eq!(
        refused("namespaces", r#"{"preconditions":{"uid":"V"}}"#),
        "Operation cannot be fulfilled on namespaces \"a\": Precondition failed: UID in precondition: V, UID in object meta: U"
    );
    let held = r#"{"preconditions":{"uid":"U","resourceVersion":"9"}}"#;
    let object = r#"{"metadata":{"name":"a","uid":"U"}}"#;
    assert_eq!(decision(&catalog, "configmaps", object, held), Decision::Remove { marked: None });
}

#[test]
fn namespaces_terminate_before_they_go() {
    let catalog = Catalog::builtin();
    let kind = kind_of(storage(&catalog, "namespaces"));
    let active =
        r#"{"metadata":{"name":"n"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#;
    let going = kept(decision(&catalog, "namespaces", active, r#"{"propagationPolicy":"Foreground"}"#));
    assert_eq!(going.str_at(&["status", "phase"]), Some("Terminating"));
    assert_eq!(going.str_at(&["metadata", "deletionTimestamp"]), Some(NOW_TEXT));
    assert_eq!(going.at(&["metadata", "deletionGracePeriodSeconds"]), None);
    assert_eq!(crate::metadata::strings(&going, "finalizers"), ["foregroundDeletion"]);
    assert_eq!(decision(&catalog, "namespaces", &text(&going), "{}"), Decision::Nothing);
    assert!(!should_remove_after_update(kind, &going, &going));

    let empty = json(&text(&going).replace(r#"["kubernetes"]"#, "[]"));
    assert!(!should_remove_after_update(kind, &empty, &going), "a finalizer is left");
    let mut done = empty.clone();
    set_finalizers(&mut done, Vec::new());
    assert!(should_remove_after_update(kind, &done, &going));
    assert_eq!(decision(&catalog, "namespaces", &text(&done), "{}"), Decision::Remove { marked: None });
}

#[test]
fn an_update_without_finalizers_removes_a_deleted_object() {
    let catalog = Catalog::builtin();
    let kind = kind_of(storage(&catalog, "configmaps"));
    let object = |finalizers: &str, deleted: bool, grace: i64| {
        let at = if deleted { r#","deletionTimestamp":"2023-11-14T22:13:20Z""# } else { "" };
        json(&format!(
            r#"{{"metadata":{{"name":"x","finalizers":{finalizers},"deletionGracePeriodSeconds":{grace}{at}}}}}"#
        ))
    };
    let held = object(r#"["a/b"]"#, true, 0);
    assert!(should_remove_after_update(kind, &object("[]", true, 0), &held));
    assert!(!should_remove_after_update(kind, &held, &held));
    assert!(!should_remove_after_update(kind, &object("[]", false, 0), &object("[]", false, 0)));
    assert!(!should_remove_after_update(kind, &object("[]", true, 5), &object(r#"["a/b"]"#, true, 5)));
}
