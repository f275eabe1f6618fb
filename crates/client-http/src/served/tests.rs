//! Custom resources come, change and go in what a client knows; built-in ones stay.

use catalog::Verbs;
use client::resources::PODS;

use super::*;

const WIDGETS: Gvr = Gvr::new("example.io", "v1", "widgets");

fn widgets(version: &'static str, namespaced: bool) -> Discovered {
    Discovered {
        group: "example.io".into(),
        version: version.into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        kind: "Widget".into(),
        namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: Verbs::GET,
        subresources: Vec::new(),
    }
}

fn of(version: &str, resources: Option<Vec<Discovered>>) -> GroupVersion {
    GroupVersion { group: "example.io".to_owned(), version: version.to_owned(), resources }
}

fn served() -> Served {
    Served::new(Arc::new(Catalog::builtin()))
}

fn versions(served: &Served) -> Vec<String> {
    let def = served.catalog().definition("example.io", "widgets");
    def.map(|def| def.served.iter().map(|r| r.version.to_string()).collect()).unwrap_or_default()
}

#[test]
fn versions_are_learned_one_by_one_and_forgotten_together() {
    let served = served();
    served.learn(widgets("v1", true));
    served.learn(widgets("v2", true));
    assert_eq!(versions(&served), ["v2", "v1"], "newest first");
    let first = served.find(&WIDGETS).unwrap();
    served.learn(widgets("v1", true));
    assert_eq!(served.find(&WIDGETS).unwrap().id, first.id, "nothing changed");
    // Made again with another scope: what was known of it is of the old one.
    served.learn(widgets("v1", false));
    assert_eq!(versions(&served), ["v1"]);
    assert!(!served.find(&WIDGETS).unwrap().namespaced);
    assert!(served.forget(&first), "it was looked up again meanwhile");
    assert_eq!(versions(&served), ["v1"]);
    assert!(served.forget(&served.find(&WIDGETS).unwrap()));
    assert!(versions(&served).is_empty());
}

#[test]
fn what_is_built_in_is_neither_forgotten_nor_replaced() {
    let served = served();
    let pods = served.find(&PODS).unwrap();
    assert!(!served.forget(&pods));
    served.learn(Discovered {
        group: "".into(),
        plural: "pods".into(),
        kind: "Pod".into(),
        ..widgets("v1", false)
    });
    served.take_over(Vec::new());
    assert!(served.find(&PODS).is_some_and(|now| now.id == pods.id && now.namespaced));
}

#[test]
fn a_whole_discovery_replaces_what_was_known() {
    let served = served();
    served.learn(widgets("v1alpha1", true));
    served.take_over(vec![
        of("v1", Some(vec![widgets("v1", true)])),
        of("v2", Some(vec![widgets("v2", true)])),
    ]);
    assert_eq!(versions(&served), ["v2", "v1"]);
    // The same again changes nothing; a version that cannot be asked stays; one that is gone goes.
    let generation = served.catalog().generation();
    served.take_over(vec![of("v1", Some(vec![widgets("v1", true)])), of("v2", None)]);
    assert_eq!(
        (versions(&served), served.catalog().generation()),
        (vec!["v2".into(), "v1".into()], generation)
    );
    served.take_over(vec![of("v1", Some(vec![widgets("v1", true)]))]);
    assert_eq!(versions(&served), ["v1"]);
    // The kind under another name.
    let other = Discovered { plural: "gadgets".into(), ..widgets("v1", true) };
    served.take_over(vec![of("v1", Some(vec![other]))]);
    assert!(versions(&served).is_empty());
    assert!(served.find(&Gvr::new("example.io", "v1", "gadgets")).is_some());
}

#[test]
fn only_a_path_that_is_not_served_makes_it_look_again() {
    let about = object::About { group: "example.io", resource: "widgets" };
    assert!(!is_unserved(&Status::not_found(about, "a")));
    assert!(is_unserved(&Status::no_such_resource()));
    assert!(is_unserved(&crate::refusal::of_answer(404, b"404 page not found\n")));
    assert!(!is_unserved(&Status::internal("x")));
}
