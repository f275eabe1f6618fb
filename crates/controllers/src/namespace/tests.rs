//! Conditions, contents and finalizers of a namespace that goes.

use std::time::Duration;

use catalog::{Catalog, Verbs};
use client::resources::{CONFIG_MAPS, DEPLOYMENTS, EVENTS, PODS};
use client::{Aggregated, AggregatedResource, Gvr};
use object::Value;

use super::conditions::Found;
use super::content::{Content, aggregated_contents, contents};
use super::plan::{
    After, Deletion, Left, Required, after, age, finalized, grace_left, held_by_pods, how_to_delete,
    longest_grace, next, note, stages, terminating, what_is_left,
};

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
    found.remaining.insert(DEPLOYMENTS.clone(), 1);
    found.remaining.insert(CONFIG_MAPS.clone(), 12);
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
    for wanted in [&PODS, &CONFIG_MAPS, &EVENTS, &DEPLOYMENTS] {
        assert_eq!(contents.iter().filter(|c| c.resource == *wanted).count(), 1, "{wanted:?}");
    }
    for storage in catalog.storages().iter().filter(|s| s.namespaced) {
        let served = catalog
            .served_by(storage)
            .any(|r| contents.iter().any(|c| c.resource.group == r.group && c.resource.plural == r.plural));
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
fn only_our_finalizer_is_removed() {
    let mut namespace = json(
        r#"{"metadata":{"name":"n"},"spec":{"finalizers":["z","kubernetes","a"]},"status":{"phase":"Active"}}"#,
    );
    assert!(finalized(&mut namespace));
    assert_eq!(text(&namespace), r#"{"metadata":{"name":"n"},"spec":{"finalizers":["a","z"]}}"#);
    assert!(!finalized(&mut namespace));
}

#[test]
fn a_namespace_is_terminating_before_its_content_is_deleted() {
    let going = r#""metadata":{"deletionTimestamp":"1970-01-01T00:01:40Z"}"#;
    let ours = r#""spec":{"finalizers":["kubernetes"]}"#;
    for (namespace, wanted) in [
        (format!("{{{ours}}}"), Required::Nothing),
        (format!(r#"{{{ours},"metadata":{{"deletionTimestamp":null}}}}"#), Required::Nothing),
        (format!(r#"{{{going},{ours},"status":{{"phase":"Active"}}}}"#), Required::MarkTerminating),
        (format!(r#"{{{going},{ours},"status":{{"phase":"Terminating"}}}}"#), Required::Empty),
        (format!(r#"{{{going},"status":{{"phase":"Terminating"}}}}"#), Required::Nothing),
    ] {
        assert_eq!(next(&json(&namespace)), wanted, "{namespace}");
    }
    let mut namespace = json(&format!("{{{going}}}"));
    assert!(terminating(&mut namespace));
    assert!(!terminating(&mut namespace), "once");
    assert_eq!((age(&namespace, 130), age(&json("{}"), 130)), (30, 0));
}

#[test]
fn the_next_action_follows_from_the_content() {
    let failed = Found { failures: vec!["a".into(), "b".into()], ..Found::default() };
    assert_eq!(after(&failed, 20), After::Fail("a, b".into()));
    assert_eq!(after(&Found::default(), 30), After::Wait(Duration::from_secs(16)), "half of it, and one");
    assert_eq!(after(&Found::default(), 0), After::Finalize);
}

#[test]
fn remaining_content_waits_for_pods_then_finalizers_else_is_an_error() {
    let plain = json("{}");
    let held = json(r#"{"metadata":{"finalizers":["a/b","c/d"]}}"#);
    assert_eq!(what_is_left(&PODS, "n", &[], 30), (Left::default(), None));
    let (left, error) = what_is_left(&PODS, "n", &[plain.clone(), held.clone()], 30);
    assert_eq!((left.seconds, left.count, left.finalizers.len(), error), (30, 2, 2, None));
    let (left, error) = what_is_left(&CONFIG_MAPS, "n", std::slice::from_ref(&held), 0);
    assert_eq!((left.seconds, error), (15, None));
    let (left, error) = what_is_left(&DEPLOYMENTS, "n", &[plain], 0);
    assert_eq!((left.seconds, left.count), (0, 1));
    let told = "unexpected items still remain in namespace: n for gvr: apps/v1, Resource=deployments";
    assert_eq!(error.as_deref(), Some(told));

    let pod = json(r#"{"spec":{"terminationGracePeriodSeconds":30}}"#);
    let grace = |since| grace_left(std::slice::from_ref(&pod), since);
    assert_eq!((grace(29), grace(30)), (30, 0), "their time is over");
}

#[test]
fn only_pods_are_reported_while_pods_remain() {
    let contents = [&CONFIG_MAPS, &PODS, &EVENTS].map(|resource| Content {
        resource: resource.clone(),
        verbs: Verbs::DELETE | Verbs::LIST,
        aggregated: false,
    });
    let named = |stage: &[&Content]| stage.iter().map(|c| c.resource.clone()).collect::<Vec<_>>();
    let [first, then] = stages(&contents);
    assert_eq!(
        (named(&first), named(&then)),
        (vec![PODS.clone()], vec![CONFIG_MAPS.clone(), EVENTS.clone()])
    );
    assert_eq!(how_to_delete(Verbs::DELETE | Verbs::LIST), Deletion::OneByOne);
    assert_eq!(how_to_delete(Verbs::DELETE_COLLECTION | Verbs::LIST), Deletion::Collection);
    assert_eq!(how_to_delete(Verbs::DELETE), Deletion::Impossible);

    let (mut found, mut wait) = (Found::default(), 0);
    let left = |seconds| Left { seconds, count: 2, finalizers: [("a/b".to_owned(), 1)].into() };
    note(&mut found, &mut wait, &CONFIG_MAPS, left(15), None);
    note(&mut found, &mut wait, &DEPLOYMENTS, left(3), Some("no".into()));
    assert_eq!((wait, found.finalizers["a/b"], found.remaining[&CONFIG_MAPS]), (15, 2, 2));
    assert!(!held_by_pods(&mut found));
    note(&mut found, &mut wait, &PODS, left(30), None);
    assert!(held_by_pods(&mut found));
    assert_eq!((found, wait), (Found { failures: vec!["no".into()], ..Found::default() }, 30));
}

#[test]
fn a_namespace_waits_for_servers_that_cannot_be_asked_and_says_so() {
    let mut found = Found { stale: vec!["b/v1".into(), "a/v1".into()], ..Found::default() };
    let why = "unable to retrieve the complete list of server APIs: a/v1: stale GroupVersion discovery: a/v1, b/v1: stale GroupVersion discovery: b/v1";
    assert_eq!(after(&found, 0), After::Fail(why.to_owned()));
    let mut namespace = json(r#"{"status":{"phase":"Terminating"}}"#);
    found.update(&mut namespace, 0);
    let (status, reason, message, _) = condition(&namespace, "NamespaceDeletionDiscoveryFailure");
    assert_eq!((status, reason), ("True", "DiscoveryFailed"));
    assert_eq!(message, format!("Discovery failed for some groups, 2 failing: {why}"));
    found.remaining.insert(PODS.clone(), 1);
    assert!(held_by_pods(&mut found) && found.stale.len() == 2);
    found.stale.clear();
    found.update(&mut namespace, 0);
    assert_eq!(condition(&namespace, "NamespaceDeletionDiscoveryFailure").1, "ResourcesDiscovered");
}

#[test]
fn other_servers_resources_are_content_once_each() {
    let resource = |version: &'static str, namespaced, verbs| AggregatedResource {
        resource: Gvr::new("x.io", version, "things"),
        kind: "Thing".into(),
        namespaced,
        verbs,
    };
    let all = Verbs::DELETE | Verbs::LIST;
    let resources = vec![
        resource("v3", true, Verbs::LIST),
        resource("v4", false, all),
        resource("v1", true, all),
        resource("v2", true, all),
    ];
    let found = aggregated_contents(&Aggregated { resources, stale: Vec::new() });
    assert_eq!(found.iter().map(|content| &*content.resource.version).collect::<Vec<_>>(), ["v1"]);
}
