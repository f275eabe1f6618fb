use std::sync::Arc;

use codec::json;
use object::Value;

use super::{Change, Restorer, Revision, change, hash, name, sort, surplus, template_patch};
use crate::claim::tests::stored;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), None).expect("JSON")
}

fn revision(name: &str, number: i64, created: &str, data: &str) -> Revision {
    let metadata =
        format!(r#"{{"name":"{name}","namespace":"d","uid":"u-{name}","creationTimestamp":"{created}"}}"#);
    let rest = format!(r#","data":{data},"revision":{number}"#);
    Revision::new(Arc::new(stored("apps", "controllerrevisions", &metadata, &rest)))
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

fn names(revisions: &[Revision]) -> Vec<&str> {
    revisions.iter().map(Revision::name).collect()
}

#[test]
fn revisions_are_sorted_by_number_then_age_then_name() {
    let mut all = vec![
        revision("e", 2, LATE, "{}"),
        revision("d", 2, EARLY, "{}"),
        revision("b", 2, EARLY, "{}"),
        revision("z", 1, LATE, "{}"),
    ];
    sort(&mut all);
    assert_eq!(names(&all), ["z", "b", "d", "e"]);
}

#[test]
fn the_newest_is_kept_an_older_one_comes_back_and_a_new_one_is_made() {
    let all = [revision("a", 1, EARLY, r#"{"a":1}"#), revision("b", 4, LATE, r#"{"b":1}"#)];
    let never = |_: &Revision| false;
    assert_eq!(change(&[], b"{}", never), Change::Create { number: 1 });
    assert_eq!(change(&all, br#"{"b":1}"#, never), Change::Keep { at: 1 });
    assert_eq!(change(&all, br#"{"a":1}"#, never), Change::Renumber { at: 0, number: 5 });
    assert_eq!(change(&all, br#"{"c":1}"#, never), Change::Create { number: 5 });
    let newest = |revision: &Revision| revision.name() == "b";
    assert_eq!(change(&all, br#"{"c":1}"#, newest), Change::Keep { at: 1 }, "only its bytes differ");
}

#[test]
fn what_lives_does_not_count_against_the_limit() {
    let all: Vec<Revision> =
        ["a", "b", "c", "d"].iter().zip(1..).map(|(name, n)| revision(name, n, EARLY, "{}")).collect();
    let over = |limit: i64, live: &[&str]| {
        let over = surplus(&all, limit, |name| live.contains(&name));
        over.into_iter().map(|revision| revision.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(over(1, &["d"]), ["a", "b"]);
    assert_eq!(over(1, &["a", "d"]), ["b"]);
    assert_eq!(over(0, &["d"]), ["a", "b", "c"]);
    assert!(over(3, &["d"]).is_empty());
    assert!(over(-1, &[]).is_empty(), "a negative limit is no limit");
}

/// Of the data kube-controller-manager v1.36.4 wrote for a set, and the name it gave it.
#[test]
fn names_are_upstreams() {
    let data = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"one","imagePullPolicy":"Always","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":1}}}}"#;
    assert_eq!(name("web", &hash(data.as_bytes(), 0)), "web-64c85cd8d6");
    assert_ne!(hash(data.as_bytes(), 1), "64c85cd8d6", "another after a collision");
    assert_eq!(name(&"w".repeat(250), "abc").len(), 223 + 4, "a long name is cut");
}

const SET: &str = r#"{"metadata":{"name":"web"},"spec":{"replicas":3,"template":{"metadata":{"labels":{"app":"web"}},
    "spec":{"containers":[{"name":"c","image":"two","resources":{}}],"schedulerName":"x"}},"serviceName":"web"},"status":{"replicas":0}}"#;

#[test]
fn the_data_of_a_revision_is_the_template_with_its_members_sorted() {
    let text = String::from_utf8(json::to_vec(&template_patch(&tree(SET)))).unwrap();
    let expected = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"two","name":"c","resources":{}}],"schedulerName":"x"}}}}"#;
    assert_eq!(text, expected);
}

fn restorer() -> Restorer {
    let catalog = catalog::Catalog::builtin();
    Restorer::of(catalog.find("apps", "v1", "statefulsets").expect("built in").clone())
}

#[test]
fn a_revision_puts_the_whole_template_back_and_nothing_else() {
    let old = SET.replace("two", "one").replace(r#","schedulerName":"x""#, "");
    let data = json::to_vec(&template_patch(&tree(&old)));
    let restored = restorer().restored(&tree(SET), &data).unwrap();
    assert_eq!(restored.at(&["spec", "template"]), tree(&old).at(&["spec", "template"]));
    assert_eq!(restored.at(&["spec", "replicas"]), Some(&Value::Int(3)));
    assert!(restorer().restored(&tree(SET), b"no JSON").is_err());
    assert!(restorer().restored(&tree(SET), br#"{"spec":{"replicas":"many"}}"#).is_err());
}

#[test]
fn data_that_lacks_later_defaults_or_spells_out_nulls_means_the_same() {
    let catalog = catalog::Catalog::builtin();
    let resource = catalog.find("apps", "v1", "statefulsets").expect("built in").clone();
    let mut set = tree(SET);
    kinds::defaults::apply(kinds::kind_of_resource(&resource), "v1", &mut set);
    let restorer = Restorer::of(resource);
    // In canonical order, as the server stores it.
    let set = restorer.restored(&set, b"{}").unwrap();
    let now = json::to_vec(&template_patch(&set));
    let earlier = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},
        "spec":{"containers":[{"image":"two","name":"c","resources":{}}],"schedulerName":"x"}}}}"#;
    assert!(restorer.means_the_same(&set, &now, earlier.as_bytes()));
    assert!(!restorer.means_the_same(&set, &now, earlier.replace("two", "one").as_bytes()));
    assert!(!restorer.means_the_same(&set, &now, b"no JSON"));
}
