use object::Obj;
use runtime::owners::{Verdict, verdict};

use super::{matches, not_everything, selector};

/// A stored object, from JSON without kind and apiVersion.
pub(crate) fn stored(group: &str, plural: &str, metadata: &str, rest: &str) -> Obj {
    let catalog = catalog::Catalog::builtin();
    let storage = catalog.find_storage(group, plural).expect("a resource of the catalogue");
    let body = format!(r#"{{"kind":"X","apiVersion":"v1","metadata":{metadata}{rest}}}"#);
    let tree = codec::json::parse(metadata.as_bytes(), None).expect("JSON");
    let text = |name: &str| tree.str_at(&[name]).unwrap_or("").to_owned();
    let key = storage.key(&text("namespace"), &text("name"));
    Obj::publish(storage, &key, body.as_bytes(), object::Revision(7), None).expect("an object")
}

fn pod(more: &str) -> Obj {
    stored("", "pods", &format!(r#"{{"name":"p","namespace":"d","uid":"pod"{more}}}"#), "")
}

fn owner(more: &str) -> Obj {
    stored("apps", "replicasets", &format!(r#"{{"name":"rs","namespace":"d","uid":"us"{more}}}"#), "")
}

const OURS: &str = r#","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"us","controller":true}]"#;
const THEIRS: &str = r#","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"them","controller":true}]"#;
const OWNED_ONLY: &str = r#","ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"x"}]"#;
const GOING: &str = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;

#[test]
fn objects_of_another_controller_are_left_alone() {
    for matches in [true, false] {
        assert_eq!(verdict(&owner(""), &pod(THEIRS), matches), Verdict::NotOurs);
    }
}

#[test]
fn owned_objects_are_kept_while_they_match_and_then_released() {
    assert_eq!(verdict(&owner(""), &pod(OURS), true), Verdict::Ours);
    assert_eq!(verdict(&owner(""), &pod(OURS), false), Verdict::Release);
}

#[test]
fn a_deleted_owner_keeps_its_objects_and_changes_nothing() {
    assert_eq!(verdict(&owner(GOING), &pod(OURS), true), Verdict::Ours);
    assert_eq!(verdict(&owner(GOING), &pod(OURS), false), Verdict::NotOurs);
    assert_eq!(verdict(&owner(GOING), &pod(""), true), Verdict::NotOurs);
}

#[test]
fn matching_orphans_are_adopted_unless_they_are_deleted() {
    assert_eq!(verdict(&owner(""), &pod(""), true), Verdict::Adopt);
    assert_eq!(verdict(&owner(""), &pod(OWNED_ONLY), true), Verdict::Adopt);
    assert_eq!(verdict(&owner(""), &pod(""), false), Verdict::NotOurs);
    assert_eq!(verdict(&owner(""), &pod(GOING), true), Verdict::NotOurs);
    let elsewhere = stored("", "pods", r#"{"name":"p","namespace":"other","uid":"pod"}"#, "");
    assert_eq!(verdict(&owner(""), &elsewhere, true), Verdict::NotOurs);
}

#[test]
fn an_invalid_selector_selects_nothing_and_says_why() {
    let read = |text: &str| selector(Some(&codec::json::parse(text.as_bytes(), None).expect("JSON")));
    let labelled = pod(r#","labels":{"app":"web"}"#);
    let good = read(r#"{"matchLabels":{"app":"web"}}"#);
    assert!(matches(&good, &labelled));
    let unknown = read(r#"{"matchExpressions":[{"key":"app","operator":"Near","values":["web"]}]}"#);
    assert_eq!(
        unknown.as_ref().err().map(String::as_str),
        Some("\"Near\" is not a valid label selector operator")
    );
    for bad in [unknown, read("null"), read("7"), selector(None), not_everything(read("{}"))] {
        assert!(bad.is_err() && !matches(&bad, &labelled), "{bad:?}");
    }
    assert!(not_everything(good).is_ok());
}
