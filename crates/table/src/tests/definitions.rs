//! Definitions come and go under stored keys and open watches.

use catalog::{Name, Resource, ResourceDef, Selectable};

use super::*;

/// ConfigMaps under another name: what a custom resource is to the table.
fn widgets(catalog: &Catalog, selectable: &[&str]) -> ResourceDef {
    let maps = catalog.definition("", "configmaps").unwrap();
    let storage = Arc::new(Storage {
        prefix: Name::Static("/registry/example.io/widgets/"),
        group: Name::Static("example.io"),
        plural: Name::Static("widgets"),
        kind: Name::Static("Widget"),
        selectable: selectable.iter().map(|path| Selectable::new(path)).collect(),
        ..Storage::clone(maps.storage.as_ref().unwrap())
    });
    let served = Resource {
        group: Name::Static("example.io"),
        plural: Name::Static("widgets"),
        kind: Name::Static("Widget"),
        ..Resource::clone(&maps.served[0])
    };
    ResourceDef { storage: Some(storage), served: vec![Arc::new(served)] }
}

fn key(name: &str) -> Key {
    format!("/registry/example.io/widgets/default/{name}").into()
}

fn put(f: &mut Fixture, name: &str, color: &str) -> u64 {
    let body = format!(
        "{{\"kind\":\"Widget\",\"apiVersion\":\"example.io/v1\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"default\",\"uid\":\"u\"}},\
         \"data\":{{\"color\":\"{color}\"}}}}"
    );
    f.commit_keys(vec![(key(name), Some(body))]);
    f.revision
}

fn names(f: &Fixture, def: &ResourceDef, selection: &Selection) -> Vec<String> {
    let page = f.table.list(def.storage.as_ref().unwrap().id, selection, None, None, 0).unwrap();
    page.items.iter().map(|o| format!("{}@{}", o.name(), o.revision())).collect()
}

fn all() -> Selection {
    Selection::everything(Scope::All)
}

#[test]
fn keys_stored_before_their_definition_count_for_guards_and_become_objects_when_it_comes() {
    let mut f = Fixture::new(1 << 20);
    let first = put(&mut f, "a", "red");
    put(&mut f, "b", "red");
    let second = put(&mut f, "b", "blue");
    put(&mut f, "c", "red");
    f.commit_keys(vec![(key("c"), None)]);
    assert_eq!(f.table.current(&key("a")), Some(Revision(first)), "a guard `Absent` must not hold");
    assert_eq!(f.table.current(&key("c")), None);
    assert_eq!((f.table.unclaimed(), f.table.revision()), (2, Revision(f.revision)));

    let def = f.table.define(widgets(&f.catalog, &[])).unwrap();
    assert_eq!(names(&f, &def, &all()), [format!("a@{first}"), format!("b@{second}")]);
    assert_eq!(f.table.unclaimed(), 0);
    assert_eq!(f.table.current(&key("a")), Some(Revision(first)), "as before");
    let third = put(&mut f, "a", "green");
    assert_eq!(names(&f, &def, &all()), [format!("a@{third}"), format!("b@{second}")]);
}

#[test]
fn a_watch_ends_with_its_definition_after_the_last_event() {
    let mut f = Fixture::new(1 << 20);
    let def = f.table.define(widgets(&f.catalog, &[])).unwrap();
    let storage = def.storage.as_ref().unwrap().id;
    let mut cursor = f.table.watch_from(storage, all(), f.table.revision()).unwrap();
    put(&mut f, "a", "red");
    let generation = f.table.catalog().generation();
    assert!(f.table.undefine("example.io", "widgets").is_some());
    assert!(f.table.catalog().generation() > generation);
    let mut events = Vec::new();
    assert!(!cursor.pull(&mut events, usize::MAX).unwrap(), "there is more to say: the end");
    assert_eq!(events.len(), 1);
    assert!(cursor.pull(&mut events, usize::MAX).is_err());
    assert!(matches!(f.table.watch_from(storage, all(), Revision(0)), Err(ReadError::Undefined)));
    assert!(matches!(f.table.list(storage, &all(), None, None, 0), Err(ReadError::Undefined)));
    assert!(f.table.get(storage, &key("a")).is_none());
    assert_eq!(f.table.unclaimed(), 1, "what was stored stays stored");
    assert!(f.table.undefine("example.io", "widgets").is_none());
    let again = f.table.define(widgets(&f.catalog, &[])).unwrap();
    assert_eq!(names(&f, &again, &all()).len(), 1);
}

#[test]
fn a_definition_that_is_being_deleted_keeps_objects_ids_and_watches() {
    let mut f = Fixture::new(1 << 20);
    let first = f.table.define(widgets(&f.catalog, &[])).unwrap();
    let storage = first.storage.clone().unwrap();
    let before = put(&mut f, "a", "red");
    let mut cursor = f.table.watch_from(storage.id, all(), Revision(before)).unwrap();
    f.table.mark_terminating("example.io", "widgets");
    assert!(Arc::ptr_eq(f.table.catalog().find_storage("example.io", "widgets").unwrap(), &storage));
    assert!(f.table.catalog().find("example.io", "v1", "widgets").unwrap().terminating);
    let after = put(&mut f, "a", "blue");
    let mut events = Vec::new();
    assert!(cursor.pull(&mut events, usize::MAX).unwrap(), "it goes on");
    assert_eq!(events.iter().map(|event| event.obj.revision().0).collect::<Vec<_>>(), [after]);
    // Who comes late is told as well.
    assert!(f.table.watch_from(storage.id, all(), Revision(before)).is_ok());
    assert!(f.table.undefine("example.io", "widgets").is_some());
    assert!(!f.table.is_defined(storage.id));
}

#[test]
fn another_definition_selects_by_its_own_fields_and_ends_the_watches_of_the_first() {
    let mut f = Fixture::new(1 << 20);
    let first = f.table.define(widgets(&f.catalog, &["metadata.uid"])).unwrap();
    put(&mut f, "a", "red");
    put(&mut f, "b", "blue");
    let old = first.storage.as_ref().unwrap().id;
    let mut cursor = f.table.watch_from(old, all(), f.table.revision()).unwrap();
    let by_color = widgets(&f.catalog, &["data.color", "metadata.uid"]);
    let second = f.table.define(by_color).unwrap();
    assert!(cursor.pull(&mut Vec::new(), usize::MAX).is_err());
    assert!(!f.table.is_defined(old));
    let fields = FieldSelector::parse("data.color=blue").unwrap();
    let blue = Selection::new(&second.served[0], Scope::All, None, Some(&fields)).unwrap();
    assert_eq!(names(&f, &second, &blue), ["b@2"]);
    // The same fields in the same places: the objects themselves are shared.
    let before = f.table.get(second.storage.as_ref().unwrap().id, &key("a")).unwrap();
    let third = f.table.define(widgets(&f.catalog, &["data.color", "metadata.uid"])).unwrap();
    assert!(Arc::ptr_eq(&before, &f.table.get(third.storage.as_ref().unwrap().id, &key("a")).unwrap()));
    assert_eq!(f.table.floor(third.storage.as_ref().unwrap().id), f.table.revision());
    put(&mut f, "c", "blue");
    assert_eq!(names(&f, &third, &blue), ["b@2", "c@3"]);
}

#[test]
fn a_value_that_is_no_object_stays_unreadable_under_any_definition() {
    let mut f = Fixture::new(1 << 20);
    f.commit_keys(vec![(key("bad"), Some("[]".into()))]);
    assert!(f.table.unreadable().is_none(), "nobody knows what it should be");
    for _ in 0..2 {
        let def = f.table.define(widgets(&f.catalog, &[])).unwrap();
        assert!(f.table.read(def.storage.as_ref().unwrap().id, &key("bad")).is_err());
        assert_eq!(f.table.current(&key("bad")), Some(Revision(1)));
        f.table.undefine("example.io", "widgets");
        assert_eq!(f.table.current(&key("bad")), Some(Revision(1)));
    }
}

#[test]
fn a_reset_brings_unclaimed_keys_too() {
    let f = Fixture::new(1 << 20);
    let value = "{\"kind\":\"Widget\",\"apiVersion\":\"example.io/v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"u\"}}";
    let entry = |name: &str, revision| Entry {
        key: key(name),
        value: Bytes::from(value.replace("\"a\"", &format!("\"{name}\""))),
        revision: Revision(revision),
        expires_at: None,
    };
    f.table.reset(Revision(7), vec![entry("a", 3), entry("b", 5)]);
    let def = f.table.define(widgets(&f.catalog, &[])).unwrap();
    assert_eq!(names(&f, &def, &all()), ["a@3", "b@5"]);
    f.table.reset(Revision(9), vec![entry("b", 8)]);
    assert_eq!(names(&f, &def, &all()), ["b@8"]);
    assert_eq!(f.table.unclaimed(), 0);
}

#[test]
fn definitions_may_come_and_go_while_everything_is_loaded_anew() {
    let f = Fixture::new(1 << 20);
    let value = "{\"kind\":\"Widget\",\"apiVersion\":\"example.io/v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"u\"}}";
    let entry = || Entry { key: key("a"), value: value.into(), revision: Revision(3), expires_at: None };
    let mut reload = f.table.reload();
    reload.add(entry());
    let def = f.table.define(widgets(&f.catalog, &[])).unwrap();
    reload.finish(Revision(7));
    assert_eq!(names(&f, &def, &all()), ["a@3"]);
    let mut reload = f.table.reload();
    reload.add(entry());
    f.table.undefine("example.io", "widgets");
    reload.finish(Revision(8));
    assert_eq!((f.table.unclaimed(), f.table.current(&key("a"))), (1, Some(Revision(3))));
}
