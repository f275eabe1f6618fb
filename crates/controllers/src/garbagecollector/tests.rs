//! The graph, change by change, and what is decided about an object.

mod model;

use std::sync::Arc;

use catalog::Catalog;
use client::Propagation;
use object::{Obj, Revision, Value};

use super::graph::{Graph, WorkItems};
use super::identity::{Identity, Uid};
use super::kinds::{KindId, WatchedKind, watched};
use super::plan::{Decision, OwnerState, decide, let_go, merged_references, unblock, without_finalizer};

pub const MAP: &str = "v1/ConfigMap";
pub const SECRET: &str = "v1/Secret";
pub const ROLE: &str = "rbac.authorization.k8s.io/v1/ClusterRole";

/// A graph with a hand to feed it.
pub struct World {
    catalog: Arc<Catalog>,
    kinds: Vec<WatchedKind>,
    pub graph: Graph,
    revision: u64,
}

/// An owner reference: kind, name, uid, and whether it blocks.
pub type Ref<'a> = (&'a str, &'a str, &'a str, bool);

impl World {
    pub fn new() -> World {
        World::of(&Arc::new(Catalog::builtin()))
    }

    pub fn of(catalog: &Arc<Catalog>) -> World {
        let kinds = watched(catalog, &client::Aggregated::default(), []);
        let mut graph = Graph::default();
        for kind in &kinds {
            graph.add_kind(kind.clone());
        }
        World { catalog: catalog.clone(), graph, kinds, revision: 0 }
    }

    pub fn kind(&self, kind: &str) -> KindId {
        let (version, kind) = kind.rsplit_once('/').unwrap();
        let found = self.kinds.iter().position(|k| k.api_version == version && k.kind == kind);
        found.expect("a watched kind") as KindId
    }

    pub fn object(
        &mut self,
        kind: &str,
        path: &str,
        uid: &str,
        owners: &[Ref<'_>],
        finalizers: Option<&[&str]>,
    ) -> Arc<Obj> {
        self.revision += 1;
        let watched = &self.kinds[usize::from(self.kind(kind))];
        let storage = self.catalog.find_storage(&watched.resource.group, &watched.resource.plural).unwrap();
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        let owners: Vec<String> = owners
            .iter()
            .map(|(kind, name, uid, blocking)| {
                let (version, kind) = kind.rsplit_once('/').unwrap();
                format!(r#"{{"apiVersion":"{version}","kind":"{kind}","name":"{name}","uid":"{uid}","blockOwnerDeletion":{blocking}}}"#)
            })
            .collect();
        let owners = if owners.is_empty() {
            String::new()
        } else {
            format!(r#","ownerReferences":[{}]"#, owners.join(","))
        };
        // Finalizers are given for what is being deleted.
        let deletion = finalizers.map_or(String::new(), |finalizers| {
            format!(r#","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":{finalizers:?}"#)
        });
        let (version, kind) = (&watched.api_version, &watched.kind);
        let body = format!(
            r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}"{deletion}{owners}}}}}"#
        );
        let key = storage.key(namespace, name);
        let obj = Obj::publish(storage, &key, body.as_bytes(), Revision(self.revision), None);
        Arc::new(obj.unwrap_or_else(|_| panic!("{body}")))
    }

    pub fn see(&mut self, kind: &str, obj: &Arc<Obj>) -> WorkItems {
        let mut wanted = WorkItems::default();
        let kind = self.kind(kind);
        self.graph.seen(kind, obj, &mut wanted);
        wanted
    }

    fn seen(&mut self, kind: &str, path: &str, uid: &str, owners: &[Ref<'_>]) -> WorkItems {
        let obj = self.object(kind, path, uid, owners, None);
        self.see(kind, &obj)
    }

    fn going(
        &mut self,
        kind: &str,
        path: &str,
        uid: &str,
        owners: &[Ref<'_>],
        finalizers: &[&str],
    ) -> WorkItems {
        let obj = self.object(kind, path, uid, owners, Some(finalizers));
        self.see(kind, &obj)
    }

    pub fn gone(&mut self, kind: &str, path: &str, uid: &str) -> WorkItems {
        let obj = self.object(kind, path, uid, &[], None);
        let mut wanted = WorkItems::default();
        let kind = self.kind(kind);
        self.graph.gone(kind, &obj, &mut wanted);
        wanted
    }

    fn absent(&mut self, identity: &Identity) -> WorkItems {
        let mut wanted = WorkItems::default();
        self.graph.absent(identity, &mut wanted);
        wanted
    }

    fn is_virtual(&self, uid: &str) -> bool {
        self.graph.look(&Uid::read(uid)).is_some_and(|node| !node.observed)
    }
}

fn identity(kind: &str, path: &str, uid: &str) -> Identity {
    let (api_version, kind) = kind.rsplit_once('/').unwrap();
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    Identity {
        kind: kind.into(),
        api_version: api_version.into(),
        namespace: namespace.into(),
        name: name.into(),
        uid: uid.into(),
    }
}

fn delete(uids: &[&str]) -> WorkItems {
    WorkItems { delete: uids.iter().map(|uid| Uid::read(uid)).collect(), ..WorkItems::default() }
}

fn nothing() -> WorkItems {
    WorkItems::default()
}

#[test]
fn uids_keep_their_text() {
    let uuid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    assert!(matches!(Uid::read(uuid), Uid::Uuid(_)));
    for text in [uuid, "", "x", "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9", "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f"]
    {
        assert_eq!(Uid::read(text).to_string(), text);
    }
    assert_ne!(Uid::read(uuid), Uid::read(&uuid.to_uppercase()));
}

#[test]
fn a_node_is_small() {
    // There is one for every object of the cluster: of 150,000 pods they are 8 MB.
    const { assert!(Graph::NODE_BYTES <= 56) };
}

#[test]
fn every_kind_but_events_is_watched_once() {
    let catalog = Catalog::builtin();
    let kinds = watched(&catalog, &client::Aggregated::default(), []);
    assert!(kinds.len() > 50);
    assert!(!kinds.iter().any(|kind| kind.kind == "Event"));
    let mut names: Vec<_> = kinds.iter().map(|kind| (&kind.resource.group, &kind.resource.plural)).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), kinds.len());
}

#[test]
fn an_unknown_owner_is_looked_up() {
    let mut world = World::new();
    assert_eq!(world.seen(MAP, "ns/child", "c", &[(MAP, "owner", "o", false)]), delete(&["o"]));
    assert!(world.is_virtual("o"));
    assert_eq!(world.seen(MAP, "ns/other", "d", &[(MAP, "owner", "o", false)]), nothing());
    assert_eq!(world.seen(MAP, "ns/owner", "o", &[]), nothing());
    assert!(!world.is_virtual("o"));
    assert_eq!(world.gone(MAP, "ns/owner", "o"), delete(&["c", "d"]));
    assert!(world.graph.absent_owners().has(&identity(MAP, "ns/owner", "o")));
    assert_eq!(world.gone(MAP, "ns/owner", "o"), nothing(), "told twice");
}

#[test]
fn an_absent_owner_frees_its_dependents() {
    let mut world = World::new();
    world.seen(MAP, "ns/child", "c", &[(MAP, "owner", "o", false)]);
    assert_eq!(world.absent(&identity(MAP, "ns/owner", "o")), delete(&["c"]));
    assert_eq!(world.graph.look(&Uid::read("o")), None);
    assert!(world.graph.absent_owners().has(&identity(MAP, "ns/owner", "o")));
    assert_eq!(world.absent(&identity(MAP, "ns/owner", "o")), nothing());
    // The informer was behind: it tells of the owner's life afterwards.
    assert_eq!(world.seen(MAP, "ns/owner", "o", &[]), nothing());
    assert_eq!(world.gone(MAP, "ns/owner", "o"), nothing());
}

#[test]
fn a_status_change_queues_nothing() {
    let mut world = World::new();
    world.seen(MAP, "ns/owner", "o", &[]);
    let owners = [(MAP, "owner", "o", true)];
    assert_eq!(world.seen(MAP, "ns/child", "c", &owners), nothing());
    for _ in 0..3 {
        assert_eq!(world.seen(MAP, "ns/child", "c", &owners), nothing());
    }
    assert_eq!(world.graph.look(&Uid::read("o")).map(|node| (node.dependents, node.blocking)), Some((1, 1)));
}

#[test]
fn a_recreated_owner_has_no_old_dependents() {
    let mut world = World::new();
    world.seen(MAP, "ns/owner", "o", &[]);
    world.seen(MAP, "ns/child", "c", &[(MAP, "owner", "o", false)]);
    assert_eq!(world.gone(MAP, "ns/owner", "o"), delete(&["c"]));
    assert_eq!(world.seen(MAP, "ns/owner", "p", &[]), nothing());
    assert_eq!(world.graph.look(&Uid::read("p")).map(|node| node.dependents), Some(0));
    assert!(!world.graph.absent_owners().has(&identity(MAP, "ns/owner", "p")));
}

#[test]
fn foreground_deletion_queues_dependents_and_the_last_blocker_the_owner() {
    let mut world = World::new();
    world.seen(MAP, "ns/owner", "o", &[]);
    for (path, uid, blocking) in [("ns/a", "a", true), ("ns/b", "b", true), ("ns/c", "c", false)] {
        world.seen(MAP, path, uid, &[(MAP, "owner", "o", blocking)]);
    }
    assert_eq!(
        world.going(MAP, "ns/owner", "o", &[], &["foregroundDeletion"]),
        delete(&["a", "b", "c", "o"])
    );
    assert_eq!(
        world.going(MAP, "ns/owner", "o", &[], &["foregroundDeletion"]),
        nothing(),
        "only when it begins"
    );
    let node = world.graph.look(&Uid::read("o")).unwrap();
    assert!(node.deleting_dependents && node.being_deleted);
    assert_eq!(world.graph.blocking_dependents(&Uid::read("o")), [Uid::read("a"), Uid::read("b")]);
    // What is on its way needs no second push.
    world.going(MAP, "ns/a", "a", &[(MAP, "owner", "o", true)], &["x/y"]);
    assert_eq!(world.graph.blocking_dependents(&Uid::read("o")), [Uid::read("b")]);
    assert_eq!(world.gone(MAP, "ns/a", "a"), nothing());
    assert_eq!(world.gone(MAP, "ns/b", "b"), delete(&["o"]));
    // One who comes late is deleted, and waited for, if it blocks.
    assert_eq!(world.seen(MAP, "ns/d", "d", &[(MAP, "owner", "o", false)]), nothing());
    assert_eq!(world.seen(MAP, "ns/e", "e", &[(MAP, "owner", "o", true)]), delete(&["e"]));
    assert_eq!(world.graph.look(&Uid::read("o")).unwrap().blocking, 1);
    assert_eq!(world.seen(MAP, "ns/d", "d", &[(MAP, "owner", "o", true)]), delete(&["d"]), "now it blocks");
    // It stays so even after the finalizer: another one may hold it.
    assert_eq!(world.going(MAP, "ns/owner", "o", &[], &["x/y"]), nothing());
    assert!(world.graph.look(&Uid::read("o")).unwrap().deleting_dependents);
}

#[test]
fn a_missed_deletion_mark_is_handled_when_seen() {
    let mut world = World::new();
    world.seen(MAP, "ns/child", "c", &[(MAP, "owner", "o", true)]);
    assert_eq!(world.going(MAP, "ns/owner", "o", &[], &["foregroundDeletion"]), delete(&["c", "o"]));
    assert!(world.graph.look(&Uid::read("o")).unwrap().deleting_dependents);
    let orphan = world.going(MAP, "ns/p", "p", &[], &["x/y", "orphan"]);
    assert_eq!(orphan, WorkItems { orphan: vec![Uid::read("p")], ..WorkItems::default() });
    assert_eq!(world.going(MAP, "ns/p", "p", &[], &["orphan"]), nothing());
    // Not being deleted, a finalizer means nothing.
    assert_eq!(world.seen(MAP, "ns/q", "q", &[]), nothing());
    let later = world.going(MAP, "ns/q", "q", &[], &["x/y"]);
    assert_eq!(later, nothing());
    let chosen = world.going(MAP, "ns/q", "q", &[], &["x/y", "orphan"]);
    assert_eq!(chosen, WorkItems { orphan: vec![Uid::read("q")], ..WorkItems::default() });
}

#[test]
fn unblocked_owners_are_queued() {
    let mut world = World::new();
    world.seen(MAP, "ns/o", "o", &[]);
    world.seen(MAP, "ns/p", "p", &[]);
    let (o, p) = ((MAP, "o", "o", true), (MAP, "p", "p", true));
    world.seen(MAP, "ns/c", "c", &[o, p]);
    assert_eq!(
        world.seen(MAP, "ns/c", "c", &[(MAP, "o", "o", false), p]),
        delete(&["o"]),
        "no longer blocks"
    );
    assert_eq!(world.graph.look(&Uid::read("o")).map(|n| (n.dependents, n.blocking)), Some((1, 0)));
    assert_eq!(world.seen(MAP, "ns/c", "c", &[o, p]), nothing(), "blocks again");
    assert_eq!(world.graph.look(&Uid::read("o")).map(|n| (n.dependents, n.blocking)), Some((1, 1)));
    assert_eq!(world.seen(MAP, "ns/c", "c", &[o]), delete(&["p"]), "let go");
    assert_eq!(world.graph.look(&Uid::read("p")).map(|n| n.dependents), Some(0));
    assert_eq!(world.seen(MAP, "ns/c", "c", &[]), delete(&["o"]));
    assert_eq!(
        world.seen(MAP, "ns/c", "c", &[(MAP, "x", "x", false)]),
        delete(&["x"]),
        "a new owner, not seen yet"
    );
}

#[test]
fn an_owner_in_another_namespace_is_reported_in_any_order() {
    let stray = |wanted: &WorkItems| {
        let told = wanted.strays.iter().map(|stray| (stray.dependent.to_string(), stray.owner.to_string()));
        told.collect::<Vec<_>>()
    };
    let wanted = [(
        "[v1/ConfigMap, namespace: b, name: child, uid: c]".to_owned(),
        "[v1/ConfigMap, namespace: b, name: owner, uid: o]".to_owned(),
    )];
    let mut world = World::new();
    world.seen(MAP, "a/owner", "o", &[]);
    let told = world.seen(MAP, "b/child", "c", &[(MAP, "owner", "o", false)]);
    assert_eq!((stray(&told), told.delete), (wanted.to_vec(), vec![Uid::read("c")]));

    let mut world = World::new();
    world.seen(MAP, "b/child", "c", &[(MAP, "owner", "o", false)]);
    let told = world.seen(MAP, "a/owner", "o", &[]);
    assert_eq!((stray(&told), told.delete), (wanted.to_vec(), vec![Uid::read("c")]));
    // The server is asked for the owner in the dependent's namespace. It is not there, but it is here.
    assert_eq!(world.absent(&identity(MAP, "b/owner", "o")), delete(&["c"]));
    assert!(!world.is_virtual("o"));
    assert!(world.graph.look(&Uid::read("o")).is_some());
}

#[test]
fn a_reference_with_wrong_coordinates_is_queued_in_any_order() {
    let mut world = World::new();
    world.seen(MAP, "ns/owner", "o", &[]);
    assert_eq!(world.seen(MAP, "ns/child", "c", &[(SECRET, "owner", "o", false)]), delete(&["c"]));
    assert_eq!(world.absent(&identity(SECRET, "ns/owner", "o")), delete(&["c"]));
    assert!(world.graph.absent_owners().has(&identity(SECRET, "ns/owner", "o")));
    assert!(world.graph.look(&Uid::read("o")).is_some(), "the real one stays");

    let mut world = World::new();
    world.seen(MAP, "ns/wrong", "w", &[(SECRET, "owner", "o", false)]);
    assert_eq!(
        world.seen(MAP, "ns/right", "r", &[(MAP, "owner", "o", false)]),
        delete(&["r"]),
        "who is right?"
    );
    assert_eq!(world.seen(MAP, "ns/owner", "o", &[]), delete(&["w"]));
    assert_eq!(world.absent(&identity(SECRET, "ns/owner", "o")), delete(&["w"]));
    assert_eq!(world.gone(MAP, "ns/owner", "o"), delete(&["r", "w"]));
}

#[test]
fn dependents_that_disagree_on_an_absent_owner_are_all_queued() {
    let mut world = World::new();
    world.seen(MAP, "ns/x", "x", &[(MAP, "owner", "o", false)]);
    world.seen(MAP, "ns/y", "y", &[(SECRET, "owner", "o", false)]);
    world.seen(MAP, "other/z", "z", &[(MAP, "owner", "o", false)]);
    let name = |world: &World| world.graph.look(&Uid::read("o")).map(|node| node.identity);
    let later = |uids: &[&str]| WorkItems { delete_later: vec![Uid::read("o")], ..delete(uids) };
    assert_eq!(name(&world), Some(identity(MAP, "ns/owner", "o")));
    assert_eq!(world.absent(&identity(MAP, "ns/owner", "o")), later(&["x"]));
    assert_eq!(name(&world), Some(identity(MAP, "other/owner", "o")), "the next in order");
    assert_eq!(world.absent(&identity(MAP, "ns/owner", "o")), delete(&["x"]), "that is known already");
    assert_eq!(world.absent(&identity(MAP, "other/owner", "o")), later(&["z"]));
    assert_eq!(name(&world), Some(identity(SECRET, "ns/owner", "o")));
    assert_eq!(world.absent(&identity(SECRET, "ns/owner", "o")), later(&["y"]));
    assert_eq!(name(&world), Some(identity(MAP, "ns/owner", "o")), "round again");
    for uid in ["x", "y", "z"] {
        let path = if uid == "z" { "other/z".to_owned() } else { format!("ns/{uid}") };
        world.gone(MAP, &path, uid);
    }
    assert_eq!(world.absent(&identity(MAP, "ns/owner", "o")), nothing());
    assert_eq!(name(&world), None, "and nothing stays");
}

#[test]
fn an_owner_without_a_namespace_owns_in_all_of_them() {
    let mut world = World::new();
    world.seen(ROLE, "lord", "l", &[]);
    assert_eq!(world.seen(MAP, "a/x", "x", &[(ROLE, "lord", "l", false)]), nothing());
    assert_eq!(world.seen(ROLE, "vassal", "v", &[(ROLE, "lord", "l", true)]), nothing());
    assert_eq!(world.gone(ROLE, "lord", "l"), delete(&["v", "x"]));
    // Not seen yet, it is taken to live where its first dependent does; who lives elsewhere is looked at.
    let mut world = World::new();
    assert_eq!(world.seen(MAP, "a/x", "x", &[(ROLE, "lord", "l", false)]), delete(&["l"]));
    assert_eq!(world.seen(MAP, "b/y", "y", &[(ROLE, "lord", "l", false)]), delete(&["y"]));
    assert_eq!(world.seen(ROLE, "lord", "l", &[]), nothing(), "both meant it");
    // Something without a namespace refers to a kind that has them: the next child must not trust that.
    let mut world = World::new();
    assert_eq!(world.seen(ROLE, "stray", "s", &[(MAP, "owner", "o", false)]), delete(&["o"]));
    assert_eq!(world.seen(MAP, "a/x", "x", &[(MAP, "owner", "o", false)]), delete(&["x"]));
}

#[test]
fn cycles_and_self_owners_do_no_harm() {
    let mut world = World::new();
    world.seen(MAP, "ns/a", "a", &[(MAP, "a", "a", true)]);
    assert_eq!(world.graph.look(&Uid::read("a")).map(|n| (n.dependents, n.blocking)), Some((1, 1)));
    assert_eq!(world.gone(MAP, "ns/a", "a"), nothing());
    world.seen(MAP, "ns/a", "a", &[(MAP, "b", "b", true)]);
    world.seen(MAP, "ns/b", "b", &[(MAP, "a", "a", true)]);
    assert_eq!(
        world.going(MAP, "ns/a", "a", &[(MAP, "b", "b", true)], &["foregroundDeletion"]),
        delete(&["b", "a"])
    );
    assert!(world.graph.has_waiting_dependent(&Uid::read("b")));
    assert!(!world.graph.has_waiting_dependent(&Uid::read("a")));
    assert!(!world.graph.waits_for_itself(&Uid::read("a")), "b does not wait");
    world.going(MAP, "ns/b", "b", &[(MAP, "a", "a", true)], &["foregroundDeletion"]);
    assert!(world.graph.waits_for_itself(&Uid::read("a")));
    assert!(world.graph.waits_for_itself(&Uid::read("b")));
    world.going(MAP, "ns/b", "b", &[(MAP, "a", "a", false)], &["foregroundDeletion"]);
    assert!(!world.graph.waits_for_itself(&Uid::read("a")));
    // Twice the same owner in one list: the server refuses that, another may not.
    world.seen(MAP, "ns/c", "c", &[(MAP, "b", "b", false), (MAP, "b", "b", true)]);
    assert_eq!(world.graph.look(&Uid::read("b")).map(|n| (n.dependents, n.blocking)), Some((2, 2)));
    world.seen(MAP, "ns/c", "c", &[(MAP, "b", "b", false)]);
    world.gone(MAP, "ns/c", "c");
    assert_eq!(world.graph.look(&Uid::read("b")).map(|n| (n.dependents, n.blocking)), Some((1, 1)));
}

#[test]
fn owners_decide_what_becomes_of_an_object() {
    use OwnerState::*;
    let gone = |propagation| Decision::Delete { propagation, unblock: false };
    let let_go = |uids: &[&str]| Decision::LetGo(uids.iter().map(|uid| (*uid).to_owned()).collect());
    // owners a, b, c...; dependents; a dependent waits; finalizers; what is done
    type Case = (&'static [OwnerState], usize, bool, &'static [&'static str], Decision);
    let table: &[Case] = &[
        (&[Solid], 0, false, &[], Decision::Keep),
        (&[Solid, Solid], 3, true, &["orphan"], Decision::Keep),
        (&[Solid, Dangling], 0, false, &[], let_go(&["b"])),
        (&[Waiting, Solid, Dangling], 0, false, &[], let_go(&["c", "a"])),
        (&[Dangling], 0, false, &[], gone(Propagation::Background)),
        (&[Dangling, Dangling], 5, true, &[], gone(Propagation::Background)),
        (&[Dangling], 0, false, &["x/y", "orphan"], gone(Propagation::Orphan)),
        (&[Dangling], 0, false, &["foregroundDeletion"], gone(Propagation::Foreground)),
        (&[Waiting], 0, false, &[], gone(Propagation::Background)),
        (&[Waiting], 1, false, &["orphan"], gone(Propagation::Foreground)),
        (
            &[Waiting, Dangling],
            1,
            true,
            &[],
            Decision::Delete { propagation: Propagation::Foreground, unblock: true },
        ),
    ];
    for (states, dependents, circle, finalizers, wanted) in table {
        let owners: Vec<(String, OwnerState)> =
            ["a", "b", "c"].iter().zip(*states).map(|(uid, state)| ((*uid).to_owned(), *state)).collect();
        let finalizers: Vec<String> = finalizers.iter().map(|f| (*f).to_owned()).collect();
        assert_eq!(decide(&owners, *dependents, || *circle, &finalizers), *wanted, "{states:?} {dependents}");
    }
}

#[test]
fn patches_carry_uid_and_version() {
    let text = |value: &Value| String::from_utf8(codec::json::to_vec(value)).unwrap();
    let read = |text: &str| codec::json::parse(text.as_bytes(), None).unwrap();
    assert_eq!(
        text(&let_go("u", &["a".into(), "b".into()])),
        r#"{"metadata":{"uid":"u","ownerReferences":[{"$patch":"delete","uid":"a"},{"$patch":"delete","uid":"b"}]}}"#
    );
    let mut world = World::new();
    let obj = world.object(MAP, "ns/c", "c", &[(MAP, "a", "a", true), (MAP, "b", "b", false)], None);
    let owners = runtime::owners::owners_of(&obj);
    assert_eq!(
        text(&unblock("c", &owners)),
        r#"{"metadata":{"uid":"c","ownerReferences":[{"uid":"a","blockOwnerDeletion":false}]}}"#
    );
    let object = read(
        r#"{"metadata":{"resourceVersion":"7","finalizers":["x/y","orphan"],"ownerReferences":[{"uid":"a"},{"uid":"b"}]}}"#,
    );
    assert_eq!(
        text(&merged_references(&object, |r| r.get("uid").and_then(Value::as_str) != Some("a"))),
        r#"{"metadata":{"resourceVersion":"7","ownerReferences":[{"uid":"b"}]}}"#
    );
    assert_eq!(
        without_finalizer(&object, "orphan").map(|patch| text(&patch)).as_deref(),
        Some(r#"{"metadata":{"resourceVersion":"7","finalizers":["x/y"]}}"#)
    );
    assert_eq!(without_finalizer(&object, "foregroundDeletion"), None);
    assert_eq!(without_finalizer(&read("{}"), "orphan"), None);
}

#[test]
fn an_unserved_kind_blocks_nobody_and_loses_nobody() {
    let mut world = World::new();
    world.seen(MAP, "ns/root", "r", &[]);
    world.seen(SECRET, "ns/middle", "m", &[(MAP, "root", "r", true)]);
    world.seen(SECRET, "ns/leaf", "l", &[(MAP, "root", "r", true)]);
    world.seen(SECRET, "ns/alone", "a", &[]);
    world.seen(MAP, "ns/child", "c", &[(SECRET, "middle", "m", false)]);
    world.going(MAP, "ns/root", "r", &[], &["foregroundDeletion"]);
    assert_eq!(world.graph.look(&Uid::read("r")).unwrap().blocking, 2);

    let (secrets, mut wanted) = (world.kind(SECRET), WorkItems::default());
    world.graph.forget_kind(secrets, &mut wanted);
    assert_eq!(wanted, delete(&["r"]), "the owner that waited for them goes on");
    assert_eq!(world.graph.look(&Uid::read("r")).unwrap().blocking, 0);
    assert!(world.is_virtual("m"), "what it owns stays until it can be asked for");
    assert!(!world.graph.absent_owners().has(&identity(SECRET, "ns/middle", "m")));
    for uid in ["l", "a"] {
        assert_eq!(world.graph.look(&Uid::read(uid)), None);
    }
    // It is served again.
    let again = world.kinds[usize::from(secrets)].clone();
    assert_eq!(world.graph.add_kind(again), secrets);
    world.seen(SECRET, "ns/middle", "m", &[]);
    assert!(!world.is_virtual("m"));
    assert_eq!(world.gone(SECRET, "ns/middle", "m"), delete(&["c"]));
}
