//! Conditions, contents and finalizers of a namespace that goes.

use catalog::{Catalog, Verbs};
use client::resources::{CONFIG_MAPS, DEPLOYMENTS, EVENTS, PODS};
use object::Value;

use super::conditions::Found;
use super::content::{contents, longest_grace};
use super::finalized;

fn json(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn text(value: &Value) -> String {
    String::from_utf8(codec::json::to_vec(value)).unwrap()
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str, &'a str) {
    let all = namespace.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let found = all.iter().find(|c| c.str_at(&["type"]) == Some(kind)).unwrap();
    let text = |name: &str| found.str_at(&[name]).unwrap();
    (text("status"), text("reason"), text("message"), text("lastTransitionTime"))
}

#[test]
fn conditions_are_written_when_they_change() {
    let mut namespace =
        json(r#"{"status":{"phase":"Terminating","conditions":[{"type":"Mine","status":"True"}]}}"#);
    let mut found = Found::default();
    found.remaining.insert(DEPLOYMENTS, 1);
    found.remaining.insert(CONFIG_MAPS, 12);
    found.finalizers.insert("b/c".into(), 3);
    found.finalizers.insert("a/b".into(), 2);
    found.failures = vec!["y".into(), "x".into()];
    assert!(found.update(&mut namespace, 0));
    assert!(!found.update(&mut namespace, 60), "the same again");
    let begun = "1970-01-01T00:00:00Z";
    assert_eq!(
        condition(&namespace, "NamespaceContentRemaining"),
        (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 12 resource instances, deployments.apps has 1 resource instances",
            begun
        )
    );
    assert_eq!(
        condition(&namespace, "NamespaceFinalizersRemaining"),
        (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: a/b in 2 resource instances, b/c in 3 resource instances",
            begun
        )
    );
    assert_eq!(
        condition(&namespace, "NamespaceDeletionContentFailure"),
        ("True", "ContentDeletionFailed", "Failed to delete all resource types, 2 remaining: x, y", begun)
    );
    // Another message is no transition; another status is.
    found.failures.clear();
    found.finalizers.remove("b/c");
    assert!(found.update(&mut namespace, 60));
    assert_eq!(condition(&namespace, "NamespaceFinalizersRemaining").3, begun);
    let calm = condition(&namespace, "NamespaceDeletionContentFailure");
    assert_eq!((calm.0, calm.1, calm.3), ("False", "ContentDeleted", "1970-01-01T00:01:00Z"));
    assert_eq!(
        namespace.at(&["status", "conditions"]).and_then(Value::as_list).unwrap().len(),
        6,
        "and one of another"
    );
}

#[test]
fn contents_are_every_namespaced_resource_once() {
    let catalog = Catalog::builtin();
    let contents = contents(&catalog);
    assert!(contents.len() > 25, "only {}", contents.len());
    for wanted in [PODS, CONFIG_MAPS, EVENTS, DEPLOYMENTS] {
        assert_eq!(contents.iter().filter(|c| c.resource == wanted).count(), 1, "{wanted:?}");
    }
    for storage in catalog.storages().iter().filter(|s| s.namespaced) {
        let served = catalog.served_by(storage.id).any(|r| {
            contents.iter().any(|c| c.resource.group == &*r.group && c.resource.plural == &*r.plural)
        });
        assert!(served, "{} is left behind", storage.plural);
    }
    assert!(contents.iter().all(|c| c.verbs.contains(Verbs::DELETE)));
}

#[test]
fn the_longest_grace_of_a_pod_that_still_runs_counts() {
    let pod =
        |phase: &str, grace: &str| json(&format!(r#"{{"spec":{{{grace}}},"status":{{"phase":"{phase}"}}}}"#));
    let grace = |n: i64| format!(r#""terminationGracePeriodSeconds":{n}"#);
    assert_eq!(longest_grace(&[]), 0);
    assert_eq!(longest_grace(&[pod("Running", ""), pod("Pending", &grace(-5))]), 0);
    let pods = [
        pod("Running", &grace(10)),
        pod("Pending", &grace(20)),
        pod("Failed", &grace(99)),
        pod("Succeeded", &grace(98)),
    ];
    assert_eq!(longest_grace(&pods), 20);
}

#[test]
fn only_our_finalizer_is_taken() {
    let mut namespace = json(
        r#"{"metadata":{"name":"n"},"spec":{"finalizers":["z","kubernetes","a"]},"status":{"phase":"Active"}}"#,
    );
    assert!(finalized(&mut namespace));
    assert_eq!(text(&namespace), r#"{"metadata":{"name":"n"},"spec":{"finalizers":["a","z"]}}"#);
    assert!(!finalized(&mut namespace));
}
