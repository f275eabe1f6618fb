//! The table against a plain model, and what cursors promise.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Catalog, Storage, StorageId};
use env::Env;
use object::selector::{FieldSelector, LabelSelector};
use store::{Change, Entry, Key, Revision, State};

use crate::history::Due;
use crate::*;

mod definitions;
mod indexes;

struct Fixture {
    table: Arc<Table>,
    catalog: Arc<Catalog>,
    revision: u64,
}

impl Fixture {
    fn new(history_bytes: usize) -> Fixture {
        let catalog = Arc::new(Catalog::builtin());
        let table = Table::with_history_bytes(catalog.clone(), Env::machine(), history_bytes);
        Fixture { table, catalog, revision: 0 }
    }
    fn row(&self, plural: &str) -> &Arc<Storage> {
        self.catalog.find_storage("", plural).unwrap()
    }
    fn storage(&self, plural: &str) -> StorageId {
        self.row(plural).id
    }
    fn key(&self, plural: &str, path: &str) -> Key {
        format!("{}{path}", self.row(plural).prefix).into()
    }
    /// One commit of several keys; `None` deletes.
    fn commit(&mut self, changes: &[(&str, &str, Option<String>)]) -> u64 {
        self.revision += 1;
        let revision = Revision(self.revision);
        let changes = changes
            .iter()
            .map(|(plural, path, value)| Change {
                revision,
                key: self.key(plural, path),
                value: value.clone().map(Bytes::from),
                expires_at: None,
            })
            .collect();
        self.table.publish(changes, revision);
        self.revision
    }
    /// One commit of full keys.
    fn commit_keys(&mut self, changes: Vec<(Key, Option<String>)>) {
        self.revision += 1;
        let revision = Revision(self.revision);
        let change = |(key, value): (Key, Option<String>)| Change {
            revision,
            key,
            value: value.map(Bytes::from),
            expires_at: None,
        };
        self.table.publish(changes.into_iter().map(change).collect(), revision);
    }
    fn put(&mut self, path: &str, label: &str, data: &str) -> u64 {
        let value = config_map(path, label, data);
        self.commit(&[("configmaps", path, Some(value))])
    }
    fn delete(&mut self, path: &str) -> u64 {
        self.commit(&[("configmaps", path, None)])
    }
    fn list(&self, selection: &Selection, at: Option<u64>) -> Result<Vec<String>, ReadError> {
        let page = self.table.list(self.storage("configmaps"), selection, at.map(Revision), None, 0)?;
        Ok(page.items.iter().map(|o| format!("{}@{}", o.path(), o.revision())).collect())
    }
    fn select(&self, scope: Scope, labels: &str, fields: &str) -> Selection {
        let resource = self.catalog.find("", "v1", "configmaps").unwrap();
        let labels = (!labels.is_empty()).then(|| LabelSelector::parse(labels).unwrap());
        let fields = (!fields.is_empty()).then(|| FieldSelector::parse(fields).unwrap());
        Selection::new(resource, scope, labels, fields.as_ref()).unwrap()
    }
    fn watch(&self, selection: Selection, from: u64) -> Cursor {
        self.table.watch_from(self.storage("configmaps"), selection, Revision(from)).unwrap()
    }
}

fn config_map(path: &str, label: &str, data: &str) -> String {
    let (namespace, name) = path.split_once('/').unwrap();
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{name}","labels":{{"x":"{label}"}}}},"data":{{"k":"{data}"}}}}"#
    )
}

fn drain(cursor: &mut Cursor) -> Vec<String> {
    let mut events = Vec::new();
    while !cursor.pull(&mut events, 1).expect("history is there") {}
    events.iter().map(|e| format!("{:?} {}@{}", e.kind, e.obj.path(), e.obj.revision())).collect()
}

#[test]
fn body_carries_the_revision_and_gives_the_value_back() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let value = config_map("a/b", "1", "v");
    f.commit(&[("configmaps", "a/b", Some(value.clone()))]);
    let obj = f.table.get(f.storage("configmaps"), &f.key("configmaps", "a/b")).unwrap();
    let body = std::str::from_utf8(obj.body()).unwrap();
    assert!(body.contains(r#""uid":"u-b","resourceVersion":"1","labels":{"x":"1"}"#), "{body}");
    assert_eq!(obj.stored_value(), value.as_bytes());
    assert!(obj.is_stored_as(value.as_bytes()));
    assert!(!obj.is_stored_as(config_map("a/b", "1", "w").as_bytes()));
    assert_eq!((obj.namespace(), obj.name(), obj.uid(), obj.label("x")), ("a", "b", "u-b", Some("1")));
    assert!(obj.body_after_type().starts_with(b"\"metadata\""));
}

#[test]
fn reads_at_a_revision_see_that_revision() {
    let mut f = Fixture::new(HISTORY_BYTES);
    f.put("a/x", "1", "1"); // 1
    f.put("a/y", "1", "1"); // 2
    f.put("a/x", "1", "2"); // 3
    f.delete("a/y"); // 4
    f.put("b/z", "1", "1"); // 5
    let all = Selection::everything(Scope::All);
    assert_eq!(f.list(&all, None).unwrap(), ["a/x@3", "b/z@5"]);
    assert_eq!(f.list(&all, Some(1)).unwrap(), ["a/x@1"]);
    assert_eq!(f.list(&all, Some(2)).unwrap(), ["a/x@1", "a/y@2"]);
    assert_eq!(f.list(&all, Some(3)).unwrap(), ["a/x@3", "a/y@2"]);
    assert_eq!(f.list(&Selection::everything(Scope::Namespace("b".into())), None).unwrap(), ["b/z@5"]);
    assert_eq!(f.list(&all, Some(6)).unwrap_err(), ReadError::Future { current: Revision(5) });
    f.table.compact(Revision(2));
    assert_eq!(f.list(&all, Some(1)).unwrap_err(), ReadError::Expired { floor: Revision(2) });
    assert_eq!(f.list(&all, Some(2)).unwrap(), ["a/x@1", "a/y@2"]);
}

#[test]
fn pages_of_one_list_are_one_snapshot() {
    let mut f = Fixture::new(HISTORY_BYTES);
    for i in 0..10 {
        f.put(&format!("a/n{i}"), "1", "1");
    }
    let all = Selection::everything(Scope::All);
    let storage = f.storage("configmaps");
    let first = f.table.list(storage, &all, None, None, 4).unwrap();
    assert_eq!((first.items.len(), first.more, first.remaining), (4, true, Some(6)));
    f.delete("a/n7");
    f.put("a/n99", "1", "1");
    let last = first.items.last().unwrap().key().to_owned();
    let behind = PageStart { key: &last, left: first.remaining };
    let rest = f.table.list(storage, &all, Some(first.revision), Some(behind), 0).unwrap();
    let names: Vec<&str> = rest.items.iter().map(|o| o.name()).collect();
    assert_eq!(names, ["n4", "n5", "n6", "n7", "n8", "n9"]);
}

#[test]
fn the_remaining_count_is_the_same_counted_or_from_the_token() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let storage = f.storage("configmaps");
    for i in 0..30 {
        f.put(&format!("{}/{i:02}", ["a", "b", "c"][i % 3]), "1", "1");
    }
    for i in 0..6 {
        f.delete(&format!("{}/{i:02}", ["a", "b", "c"][i % 3]));
    }
    f.put("b/07", "1", "2");
    for (scope, in_all) in
        [(Scope::All, 24), (Scope::Namespace("b".into()), 8), (Scope::Namespace("z".into()), 0)]
    {
        let selection = Selection::everything(scope);
        let at = f.table.revision();
        let (mut key, mut left, mut seen) = (None::<String>, None, 0);
        loop {
            let page = |left| {
                let behind = key.as_deref().map(|key| PageStart { key, left });
                f.table.list(storage, &selection, Some(at), behind, 5).unwrap()
            };
            let (told, counted) = (page(left), page(None));
            seen += told.items.len();
            assert_eq!(told.remaining, counted.remaining);
            if !told.more {
                break;
            }
            assert_eq!(told.remaining, Some(in_all - seen));
            (key, left) = (told.items.last().map(|obj| obj.key().to_owned()), told.remaining);
            // What happens meanwhile is not counted.
            f.put(&format!("b/new-{seen}"), "1", "1");
            f.put(&format!("d/new-{seen}"), "1", "1");
        }
        assert_eq!(seen, in_all);
        for name in 0..=24 {
            f.delete(&format!("b/new-{name}"));
            f.delete(&format!("d/new-{name}"));
        }
    }
}

#[test]
fn objects_enter_and_leave_a_selection() {
    let mut f = Fixture::new(HISTORY_BYTES);
    f.put("a/s", "1", "1"); // 1
    let mut cursor = f.watch(f.select(Scope::Namespace("a".into()), "x=1", ""), 1);
    f.put("a/s", "2", "1"); // 2: leaves
    f.put("a/s", "2", "3"); // 3: outside
    f.put("a/s", "1", "3"); // 4: enters
    f.delete("a/s"); // 5
    f.put("b/s", "1", "1"); // 6: other namespace
    let mut events = Vec::new();
    while !cursor.pull(&mut events, 1).unwrap() {}
    let seen: Vec<_> =
        events.iter().map(|e| (e.kind, e.obj.revision().0, e.obj.label("x").unwrap())).collect();
    assert_eq!(
        seen,
        [(EventKind::Deleted, 2, "1"), (EventKind::Added, 4, "1"), (EventKind::Deleted, 5, "1")]
    );
    assert_eq!(cursor.caught_up(), Revision(6));
}

#[test]
fn a_watch_of_one_name_from_a_future_revision() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let mut one = f.watch(f.select(Scope::Namespace("a".into()), "", "metadata.name=n"), 0);
    let mut future = f.watch(Selection::everything(Scope::All), 2);
    f.put("a/n", "1", "1");
    f.put("a/m", "1", "1");
    f.put("a/n", "1", "2");
    assert_eq!(drain(&mut one), ["Added a/n@1", "Modified a/n@3"]);
    assert_eq!(drain(&mut future), ["Modified a/n@3"]);
}

#[test]
fn a_revision_of_several_keys_appears_at_once() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let namespace = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"q","uid":"1"}}"#.to_owned();
    f.commit(&[
        ("configmaps", "a/1", Some(config_map("a/1", "1", "1"))),
        ("namespaces", "q", Some(namespace)),
        ("configmaps", "a/2", Some(config_map("a/2", "1", "1"))),
    ]);
    assert_eq!(f.list(&Selection::everything(Scope::All), Some(1)).unwrap(), ["a/1@1", "a/2@1"]);
    assert_eq!(f.table.count(f.storage("namespaces")), 1);
}

#[test]
fn a_cursor_that_falls_behind_ends_instead_of_skipping() {
    let mut f = Fixture::new(20_000);
    f.put("a/n", "1", "0");
    let mut slow = f.watch(Selection::everything(Scope::All), 0);
    for i in 0..1000 {
        f.put("a/n", "1", &i.to_string());
    }
    assert!(slow.pull(&mut Vec::new(), usize::MAX).is_err());
    let floor = f.table.floor(f.storage("configmaps"));
    assert!(floor.0 > 500, "the size bound holds: floor {floor}");
    // The newest state is never forgotten.
    assert_eq!(f.list(&Selection::everything(Scope::All), None).unwrap(), ["a/n@1001"]);
}

#[test]
fn a_quiet_cursor_outlives_the_history_of_others_but_not_that_of_its_own() {
    let mut f = Fixture::new(20_000);
    f.put("a/n", "1", "0");
    f.put("b/n", "1", "0");
    let mut cursors = [
        f.watch(Selection::everything(Scope::Namespace("a".into())), 0),
        f.watch(f.select(Scope::All, "", "metadata.name=quiet"), 0),
        f.watch(f.select(Scope::Namespace("a".into()), "", "metadata.name=n"), 0),
    ];
    // What came before they did is in the log of all, and theirs.
    assert_eq!(drain(&mut cursors[0]), ["Added a/n@1"]);
    assert_eq!(drain(&mut cursors[1]), Vec::<String>::new());
    assert_eq!(drain(&mut cursors[2]), ["Added a/n@1"]);
    for i in 0..1000 {
        f.put("b/n", "1", &i.to_string());
    }
    assert!(f.table.floor(f.storage("configmaps")).0 > 500);
    f.put("a/n", "1", "1");
    f.put("b/quiet", "1", "1");
    assert_eq!(drain(&mut cursors[0]), ["Modified a/n@1003"]);
    assert_eq!(drain(&mut cursors[1]), ["Added b/quiet@1004"]);
    assert_eq!(drain(&mut cursors[2]), ["Modified a/n@1003"]);
    // One more for each, which it does not fetch before it is forgotten.
    f.put("a/n", "1", "2");
    for i in 0..1000 {
        f.put("b/n", "1", &i.to_string());
    }
    assert!(cursors[0].pull(&mut Vec::new(), usize::MAX).is_err());
    assert!(cursors[2].pull(&mut Vec::new(), usize::MAX).is_err());
    assert_eq!(drain(&mut cursors[1]), Vec::<String>::new(), "nothing happened to it");
}

#[test]
fn a_cursor_that_joins_a_group_continues_at_its_position() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let of_a = || Selection::everything(Scope::Namespace("a".into()));
    f.put("a/n", "1", "0"); // 1
    f.put("b/n", "1", "0"); // 2
    let mut first = f.watch(of_a(), 1);
    f.put("a/n", "1", "1"); // 3
    let mut second = f.watch(of_a(), 0);
    let mut third = f.watch(of_a(), 3);
    f.put("a/n", "1", "2"); // 4
    assert_eq!(drain(&mut first), ["Modified a/n@3", "Modified a/n@4"]);
    assert_eq!(drain(&mut second), ["Added a/n@1", "Modified a/n@3", "Modified a/n@4"]);
    assert_eq!(drain(&mut third), ["Modified a/n@4"]);
    drop((first, second, third));
    f.put("a/n", "1", "3"); // 5
    let mut again = f.watch(of_a(), 3);
    assert_eq!(drain(&mut again), ["Modified a/n@4", "Modified a/n@5"]);
    // The numbers begin anew.
    f.table.reset(Revision(9), Vec::new());
    f.revision = 9;
    let mut anew = f.watch(of_a(), 9);
    f.put("a/m", "1", "1"); // 10
    assert_eq!(drain(&mut anew), ["Added a/m@10"]);
    assert!(again.pull(&mut Vec::new(), usize::MAX).is_err());
}

#[test]
fn concurrent_history_drops_leave_no_superseded_version() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let storage = f.storage("configmaps");
    for i in 0..4 {
        f.put("a/n", "1", &i.to_string());
    }
    let everything = Selection::everything(Scope::All);
    let page = f.table.list(storage, &everything, Some(Revision(3)), None, 0).unwrap();
    let superseded = Arc::downgrade(&page.items[0]);
    drop(page);
    f.table.forget(Due { revision: Revision(4), storage });
    f.table.forget(Due { revision: Revision(2), storage });
    assert!(superseded.upgrade().is_none(), "a version nobody can read is still held");
    assert_eq!(f.list(&everything, None).unwrap(), ["a/n@4"]);

    // One that was found before a reset and is carried out after it.
    f.table.reset(Revision(9), Vec::new());
    f.revision = 9;
    let mut cursor = f.watch(Selection::everything(Scope::All), 9);
    f.put("a/m", "1", "1"); // 10
    f.table.forget(Due { revision: Revision(4), storage });
    assert_eq!(drain(&mut cursor), ["Added a/m@10"]);
}

#[test]
fn a_deletion_is_charged_for_the_object_it_keeps() {
    let mut f = Fixture::new(100_000);
    let large = "x".repeat(1_000);
    for i in 0..200 {
        let path = format!("a/{i:03}");
        f.put(&path, "1", &large);
        f.delete(&path);
    }
    // Some 2,400 bytes for each that was deleted.
    let kept = 400 - f.table.floor(f.storage("configmaps")).0;
    assert!(kept < 100, "{kept} events are kept");
}

#[test]
fn a_long_log_without_a_match_is_walked_in_steps() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let mut cursor = f.watch(f.select(Scope::All, "x=wanted", ""), 0);
    for _ in 0..10_000 {
        f.put("a/n", "other", "1");
    }
    f.put("a/m", "wanted", "1");
    let mut events = Vec::new();
    let mut pulls = 1;
    while !cursor.pull(&mut events, usize::MAX).unwrap() {
        assert!(events.is_empty());
        pulls += 1;
    }
    assert_eq!((pulls, events.len(), cursor.caught_up()), (3, 1, Revision(10_001)));
}

#[test]
fn a_reset_ends_cursors_and_keeps_revisions() {
    let mut f = Fixture::new(HISTORY_BYTES);
    f.put("a/n", "1", "0");
    let mut cursor = f.watch(Selection::everything(Scope::All), 1);
    let entry = Entry {
        key: f.key("configmaps", "a/m"),
        value: config_map("a/m", "1", "1").into(),
        revision: Revision(7),
        expires_at: None,
    };
    f.table.reset(Revision(9), vec![entry]);
    assert!(cursor.pull(&mut Vec::new(), 1).is_err());
    assert_eq!(f.list(&Selection::everything(Scope::All), None).unwrap(), ["a/m@7"]);
    assert_eq!(f.table.revision(), Revision(9));
}

#[tokio::test]
async fn a_change_wakes_the_cursors_it_concerns_and_no_others() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let mut mine = f.watch(Selection::everything(Scope::Namespace("a".into())), 0);
    let other = f.watch(Selection::everything(Scope::Namespace("b".into())), 0);
    let waker = futures_util::task::noop_waker();
    let cx = std::task::Context::from_waker(&waker);
    assert!(mine.poll_changed(&cx).is_pending() && other.poll_changed(&cx).is_pending());
    f.put("a/n", "1", "1");
    assert!(mine.poll_changed(&cx).is_ready());
    assert!(other.poll_changed(&cx).is_pending());
    assert_eq!(drain(&mut mine), ["Added a/n@1"]);

    // One name in every namespace: others of it do not wake anyone.
    let mut named = f.watch(Selection::named(Scope::All, "m"), 1);
    assert!(named.poll_changed(&cx).is_pending());
    f.put("a/n", "1", "2");
    assert!(named.poll_changed(&cx).is_pending());
    f.put("b/m", "1", "1");
    assert!(named.poll_changed(&cx).is_ready());
    assert_eq!(drain(&mut named), ["Added b/m@3"]);
}

/// Random commits; every read at every kept revision, and every cursor from every start, agrees with a model.
#[test]
fn random_histories_agree_with_a_model() {
    for seed in 0..20u64 {
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut f = Fixture::new(HISTORY_BYTES);
        let mut model: BTreeMap<String, (u64, String)> = BTreeMap::new();
        let mut snapshots: Vec<BTreeMap<String, (u64, String)>> = vec![model.clone()];
        for _ in 0..60 {
            let path = format!("{}/n{}", ["a", "b"][random(2) as usize], random(5));
            if random(3) == 0 && model.contains_key(&path) {
                f.delete(&path);
                model.remove(&path);
            } else {
                let label = random(2).to_string();
                let revision = f.put(&path, &label, &random(100).to_string());
                model.insert(path, (revision, label));
            }
            snapshots.push(model.clone());
        }
        let all = Selection::everything(Scope::All);
        for (revision, snapshot) in snapshots.iter().enumerate() {
            let expected: Vec<String> = snapshot.iter().map(|(p, (r, _))| format!("{p}@{r}")).collect();
            assert_eq!(
                f.list(&all, Some(revision as u64)).unwrap(),
                expected,
                "seed {seed} revision {revision}"
            );
            // Replaying the watch of a selection from here must end at the newest state of that selection.
            let mut cursor = f.watch(f.select(Scope::All, "x=1", ""), revision as u64);
            let mut events = Vec::new();
            while !cursor.pull(&mut events, 1).unwrap() {}
            let mut replay: BTreeMap<String, u64> =
                snapshot.iter().filter(|(_, (_, l))| l == "1").map(|(p, (r, _))| (p.clone(), *r)).collect();
            let mut last = revision as u64;
            for event in events {
                assert!(event.obj.revision().0 > last, "seed {seed}: in order and once");
                last = event.obj.revision().0;
                let path = event.obj.path().to_owned();
                let known = match event.kind {
                    EventKind::Deleted => replay.remove(&path).is_some(),
                    _ => replay.insert(path, last).is_some(),
                };
                assert_eq!(known, event.kind != EventKind::Added, "seed {seed}: the event's kind fits");
            }
            let newest: BTreeMap<String, u64> =
                model.iter().filter(|(_, (_, l))| l == "1").map(|(p, (r, _))| (p.clone(), *r)).collect();
            assert_eq!(replay, newest, "seed {seed} from {revision}");
        }
    }
}

const MAP: &str =
    r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u"},"data":{"k":" v "}}"#;

fn everything() -> Selection {
    Selection::everything(Scope::All)
}

#[test]
fn foreign_values_in_another_order_are_served_in_ours() {
    let mut f = Fixture::new(1 << 20);
    let maps = f.storage("configmaps");
    for theirs in [
        r#"{"apiVersion":"v1","data":{"k":" v "},"kind":"ConfigMap","metadata":{"name":"a","uid":"u"}}"#,
        "{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": { \"name\": \"a\", \"uid\": \"u\" },\n  \
         \"data\": {\"k\": \" v \"}\n}\n",
    ] {
        let revision = f.commit(&[("configmaps", "d/a", Some(theirs.to_owned()))]);
        let obj = f.table.get(maps, &f.key("configmaps", "d/a")).unwrap();
        let ours = MAP.replace(r#""uid":"u""#, &format!(r#""uid":"u","resourceVersion":"{revision}""#));
        assert_eq!(std::str::from_utf8(obj.body()).unwrap(), ours);
        assert!(obj.body_after_type().starts_with(b"\"metadata\":"), "an item of a list loses nothing");
    }
}

#[test]
fn a_revision_that_others_left_in_the_value_is_replaced_each_time() {
    let mut f = Fixture::new(1 << 20);
    let maps = f.storage("configmaps");
    let mut cursor = f.table.watch_from(maps, everything(), Revision(0)).unwrap();
    for said in ["\"123456\"", "\"\""] {
        let value = MAP.replace(r#""uid":"u""#, &format!(r#""resourceVersion":{said},"uid":"u""#));
        let put = f.commit(&[("configmaps", "d/a", Some(value))]);
        let deleted = f.commit(&[("configmaps", "d/a", None)]);
        let mut events = Vec::new();
        cursor.pull(&mut events, usize::MAX).unwrap();
        for (event, revision) in events.iter().zip([put, deleted]) {
            let body = std::str::from_utf8(event.obj.body()).unwrap();
            assert_eq!(body.matches("resourceVersion").count(), 1, "{body}");
            assert!(body.contains(&format!(r#""resourceVersion":"{revision}","uid":"u""#)), "{body}");
        }
        assert_eq!(events.len(), 2);
    }
}

#[test]
fn a_value_of_another_kind_or_version_is_unreadable() {
    let mut f = Fixture::new(1 << 20);
    let (maps, key) = (f.storage("configmaps"), f.key("configmaps", "d/a"));
    let half = &MAP[..MAP.len() - 5];
    let twice = MAP.replace(r#""data":"#, r#""data":{},"data":"#);
    let spaced = |text: &str| format!(" {text}");
    for bad in [
        "".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        "k8s\0\n".to_owned(),
        half.to_owned(),
        spaced(half),
        twice.clone(),
        spaced(&twice),
        twice.replace(r#""data":{},"#, &(0..40).map(|i| format!(r#""m{}":1,"#, i % 39)).collect::<String>()),
        MAP.replace("ConfigMap", "Secret"),
        MAP.replace("\"v1\"", "\"v2\""),
        MAP.replace(r#""kind":"ConfigMap","#, ""),
        MAP.replace(r#"{"name":"a","uid":"u"}"#, "[]"),
        format!("{MAP}{MAP}"),
        MAP.replace(r#""data":"#, r#""metadata":{},"data":"#),
        MAP.replace(r#""uid":"u""#, r#""resourceVersion":"1","resourceVersion":"2""#),
    ] {
        f.commit(&[("configmaps", "d/a", Some(MAP.to_owned()))]);
        assert!(f.table.read(maps, &key).is_ok(), "before {bad:?}");
        f.commit(&[("configmaps", "d/a", Some(bad.clone()))]);
        let told = f.table.read(maps, &key).err().unwrap_or_else(|| panic!("{bad:?} is taken for an object"));
        assert_eq!((&told.key, told.protobuf, told.count), (&key, bad.starts_with("k8s"), 1));
    }
}

#[test]
fn an_unreadable_key_fails_its_readers_until_it_is_repaired() {
    let mut f = Fixture::new(1 << 20);
    let maps = f.storage("configmaps");
    let map = |name: &str| MAP.replace("\"a\"", &format!("\"{name}\""));
    let put = |name: &str| ("configmaps", name.to_owned(), Some(map(name.rsplit('/').next().unwrap())));
    for name in ["d/a", "d/b", "e/a"] {
        let (plural, path, value) = put(name);
        f.commit(&[(plural, &path, value)]);
    }
    let before = f.table.revision();
    let version = f.table.version(maps);
    let scopes = || {
        [
            (everything(), true),
            (Selection::everything(Scope::Namespace("d".into())), true),
            (Selection::everything(Scope::Namespace("e".into())), false),
            (Selection::named(Scope::All, "a"), true),
            (Selection::named(Scope::All, "b"), false),
            (Selection::named(Scope::Namespace("d".into()), "a"), true),
            (Selection::named(Scope::Namespace("d".into()), "b"), false),
            (Selection::named(Scope::Namespace("e".into()), "a"), false),
        ]
    };
    let table = f.table.clone();
    let watch = |selection| table.watch_from(maps, selection, before).unwrap();
    let mut strict: Vec<(Cursor, bool)> =
        scopes().into_iter().map(|(selection, hit)| (watch(selection).strict().ok().unwrap(), hit)).collect();
    let mut own = watch(everything());

    f.commit(&[("configmaps", "d/a", Some("no JSON".into()))]);
    let broken_at = f.table.revision();
    let key = f.key("configmaps", "d/a");
    assert_ne!(f.table.version(maps), version, "what was derived from it is made anew");
    assert_eq!(f.table.unreadable().unwrap().key, key);
    assert_eq!(f.table.unreadable_at(&key).unwrap().count, 1);
    assert_eq!(f.table.current(&key), Some(broken_at), "guards compare with what stands there");
    assert_eq!(f.table.read(maps, &f.key("configmaps", "d/b")).unwrap().unwrap().name(), "b");
    for (number, (selection, hit)) in scopes().into_iter().enumerate() {
        let list = |at| f.table.list(maps, &selection, at, None, 0).unwrap().unreadable.is_some();
        assert_eq!(list(None), hit, "list {number}");
        assert!(!list(Some(before)), "list {number} as of before");
        assert_eq!(watch(selection).strict().is_err(), hit, "watch {number}");
    }
    for (number, (cursor, hit)) in strict.iter_mut().enumerate() {
        assert_eq!(cursor.pull(&mut Vec::new(), usize::MAX).is_err(), *hit, "open watch {number}");
    }
    // What the server itself needs goes on with the last that is known.
    assert_eq!(f.table.get(maps, &key).unwrap().revision(), Revision(1));
    let mut events = Vec::new();
    assert!(own.pull(&mut events, usize::MAX).unwrap() && events.is_empty());

    // A load finds it so, too, and keeps what was known.
    let entry = |path: &str, value: &str| Entry {
        key: f.key("configmaps", path),
        value: Bytes::from(value.to_owned()),
        revision: broken_at,
        expires_at: None,
    };
    f.table.reset(broken_at, vec![entry("d/a", "[]"), entry("d/b", &map("b"))]);
    assert_eq!(f.table.unreadable().unwrap().count, 1);
    assert_eq!(f.table.get(maps, &key).unwrap().revision(), Revision(1));

    let mut own = f.table.watch_from(maps, everything(), broken_at).unwrap();
    f.commit(&[("configmaps", "d/a", Some(map("a")))]);
    f.commit(&[("configmaps", "d/a", Some("[]".into()))]);
    assert!(f.table.unreadable().is_some());
    f.commit(&[("configmaps", "d/a", None)]);
    assert!(f.table.unreadable().is_none() && f.table.read(maps, &key).unwrap().is_none());
    own.pull(&mut events, usize::MAX).unwrap();
    let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Modified, EventKind::Deleted], "nobody misses how it went on");
}

/// Bytes from others: whatever they are, nobody panics, and what is accepted is JSON with one revision.
#[test]
fn flipped_and_cut_values_are_refused_or_served_whole() {
    let seed: u64 = 0x5eed_0b1e;
    println!("seed {seed}");
    let mut rng = store::testing::Rng(seed);
    let mut below = |n: usize| rng.below(n as u64) as usize;
    let mut f = Fixture::new(1 << 20);
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","labels":{"a":"b","c\"d":"e"},"ownerReferences":[{"uid":"o"}]},"spec":{"nodeName":"n\u0041","hostNetwork":true},"status":{"phase":"Running","podIP":"1.2.3.4"}}"#;
    let mut accepted = 0;
    for round in 0..20_000 {
        let (plural, path, value) =
            if round % 2 == 0 { ("pods", "d/a", pod) } else { ("configmaps", "d/a", MAP) };
        let mut bytes = value.as_bytes().to_vec();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes[at] = b"{}[]\",:\\ 0a\n\x01"[below(13)],
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"{}[]\",:\\ 0a\n\x01"[below(13)]),
            }
            if bytes.is_empty() {
                bytes.push(b'{');
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        f.commit(&[(plural, path, Some(text.clone()))]);
        let (storage, key) = (f.storage(plural), f.key(plural, path));
        if let Ok(Some(obj)) = f.table.read(storage, &key) {
            accepted += 1;
            let body = std::str::from_utf8(obj.body()).unwrap();
            let members = object::scan::members(obj.body());
            assert!(members.is_some(), "{text} is served as {body}");
            assert!(body.contains(&format!("\"resourceVersion\":\"{}\"", f.revision)), "{text}: {body}");
            let _ = (
                obj.uid(),
                obj.label("a"),
                obj.field(0),
                obj.owners(),
                obj.metadata(),
                obj.body_after_type(),
            );
        }
        f.commit(&[(plural, path, None)]);
    }
    assert!(accepted > 100, "{accepted}: some changes leave an object one");
}
