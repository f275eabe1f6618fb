//! A list is the same with and without an index: every selectable field of every kind, at every revision, in pages.

use std::collections::BTreeMap;
use std::time::Duration;

use catalog::{Resource, Selectable};

use super::*;

const SEED: u64 = 20_260_301;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// A stored object with these values at its selectable paths; `None` leaves a path out.
fn object(path: &str, namespaced: bool, fields: &[(&Selectable, Option<String>)]) -> String {
    #[derive(Default)]
    struct Tree(BTreeMap<String, Tree>, Option<String>);
    fn write(tree: &Tree, out: &mut String) {
        if let Some(leaf) = &tree.1 {
            out.push_str(leaf);
            return;
        }
        out.push('{');
        for (at, (name, child)) in tree.0.iter().enumerate() {
            out.push_str(if at > 0 { "," } else { "" });
            out.push_str(&format!("\"{name}\":"));
            write(child, out);
        }
        out.push('}');
    }
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    let mut root = Tree::default();
    for (field, value) in fields {
        let Some(value) = value else { continue };
        let mut at = &mut root;
        for part in &field.path {
            at = at.0.entry(part.to_string()).or_default();
        }
        at.1 = Some(format!("\"{value}\""));
    }
    let metadata = root.0.entry("metadata".into()).or_default();
    let text = |value: &str| Tree(BTreeMap::new(), Some(format!("\"{value}\"")));
    metadata.0.insert("name".into(), text(name));
    metadata.0.insert("uid".into(), text(&format!("u-{name}")));
    if namespaced {
        metadata.0.insert("namespace".into(), text(namespace));
    }
    let mut out = String::new();
    write(&root, &mut out);
    out
}

fn shown(page: &Page) -> (Vec<String>, bool) {
    (page.items.iter().map(|o| format!("{}@{}", o.key(), o.revision())).collect(), page.more)
}

/// What a selection gives of `f`, which may have indexes, and of a table that never has any.
fn same(f: &Fixture, plain: &Fixture, resource: &Resource, fields: &str, scope: &Scope, at: u64, what: &str) {
    let storage = resource.storage.as_ref().unwrap().id;
    let select = || {
        let fields = FieldSelector::parse(fields).unwrap();
        Selection::new(resource, scope.clone(), None, Some(&fields)).unwrap()
    };
    for limit in [0, 1, 3, 1000] {
        let mut after: Option<String> = None;
        loop {
            let page = |of: &Fixture| {
                let behind = after.as_deref().map(|key| PageStart { key, left: None });
                of.table.list(storage, &select(), Some(Revision(at)), behind, limit)
            };
            let (ours, theirs) = (page(f).unwrap(), page(plain).unwrap());
            assert_eq!(
                shown(&ours),
                shown(&theirs),
                "{what}: {fields} at {at}, limit {limit}, after {after:?}"
            );
            match ours.items.last().filter(|_| ours.more && limit > 1) {
                Some(last) => after = Some(last.key().to_owned()),
                None => break,
            }
        }
    }
}

/// Forces an index of a field, as a list over many objects would.
fn index(f: &Fixture, storage: StorageId, field: usize) {
    let cell = f.table.cell(storage).unwrap();
    while cell.shard.write().build_index(&cell.storage, field, 0) {}
}

#[test]
fn a_list_is_the_same_with_and_without_an_index_for_every_field_of_every_kind() {
    println!("seed {SEED}");
    let mut random = Random(SEED);
    let catalog = Arc::new(Catalog::builtin());
    let mut checked = 0;
    for resource in catalog.resources() {
        let Some(row) = &resource.storage else { continue };
        let storage = row.id;
        let labels: Vec<String> = if resource.field_labels.is_empty() {
            row.selectable.iter().map(|s| s.name.to_string()).collect()
        } else {
            resource.field_labels.iter().map(|(label, _)| label.to_string()).collect()
        };
        if row.selectable.is_empty() {
            continue;
        }
        let (mut f, mut plain) = (Fixture::new(HISTORY_BYTES), Fixture::new(HISTORY_BYTES));
        // An index begun on an empty table and one begun half way must agree with none at all.
        let half = row.selectable.len() / 2;
        (0..half.min(2)).for_each(|field| index(&f, storage, field));
        let (steps, values) = (80, 4);
        for step in 0..steps {
            if step == steps / 2 {
                (half..row.selectable.len().min(half + 2)).for_each(|field| index(&f, storage, field));
            }
            let (namespace, name) = (random.below(2), random.below(12));
            let path =
                if row.namespaced { format!("n{namespace}/o{name}") } else { format!("o{namespace}-{name}") };
            let deletes = random.below(4) == 0;
            let fields: Vec<(&Selectable, Option<String>)> = row
                .selectable
                .iter()
                .map(|s| (s, (random.below(5) > 0).then(|| format!("v{}", random.below(values)))))
                .collect();
            let value = (!deletes).then(|| object(&path, row.namespaced, &fields));
            for fixture in [&mut f, &mut plain] {
                fixture.commit_keys(vec![(format!("{}{path}", row.prefix).into(), value.clone())]);
            }
        }
        let made = f.table.indexes();
        assert!(made > 0 || row.indexed.is_some(), "{}", resource.plural);
        for label in &labels {
            for value in ["v0", "v3", ""] {
                for at in [1, 30, 79, 80] {
                    let scopes = if row.namespaced {
                        vec![Scope::All, Scope::Namespace("n1".into())]
                    } else {
                        vec![Scope::All]
                    };
                    for scope in &scopes {
                        same(&f, &plain, resource, &format!("{label}={value}"), scope, at, &resource.plural);
                    }
                    checked += 1;
                }
            }
            if let Some(other) = labels.iter().find(|other| *other != label) {
                let both = format!("{label}=v1,{other}=v2");
                same(&f, &plain, resource, &both, &Scope::All, 80, &resource.plural);
                let not = format!("{label}=v1,{other}!=v2");
                same(&f, &plain, resource, &not, &Scope::All, 55, &resource.plural);
            }
        }
        assert_eq!(plain.table.indexes(), 0);
    }
    assert!(checked > 200, "{checked}");
}

/// Events about many objects, as a busy cluster has them: ten of each.
fn events(f: &mut Fixture, from: usize, to: usize) {
    let row = f.row("events");
    let prefix = row.prefix.clone();
    for chunk in (from..to).collect::<Vec<_>>().chunks(1000) {
        let changes = chunk.iter().map(|n| {
            let (path, about) = (format!("default/e{n:06}"), n / 10);
            let value = format!(
                r#"{{"kind":"Event","apiVersion":"v1","metadata":{{"name":"e{n:06}","namespace":"default","uid":"u-{n}"}},"involvedObject":{{"kind":"Pod","namespace":"default","name":"pod-{about}","uid":"9f1c7c1e-0000-4000-8000-{about:012}"}},"reason":"Started","message":"{}","source":{{"component":"kubelet"}},"type":"Normal"}}"#,
                "a container was started ".repeat(20)
            );
            (format!("{prefix}{path}").into(), Some(value))
        });
        f.commit_keys(changes.collect());
    }
}

fn about(f: &Fixture, object: usize) -> Selection {
    let resource = f.catalog.find("", "v1", "events").unwrap();
    let fields = format!("involvedObject.uid=9f1c7c1e-0000-4000-8000-{object:012}");
    let fields = FieldSelector::parse(&fields).unwrap();
    Selection::new(resource, Scope::Namespace("default".into()), None, Some(&fields)).unwrap()
}

#[test]
fn an_index_is_built_for_selective_lists_and_follows_writes() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let storage = f.storage("events");
    events(&mut f, 0, 1000);
    let list =
        |f: &Fixture, object| f.table.list(storage, &about(f, object), None, None, 0).unwrap().items.len();
    assert_eq!((list(&f, 7), f.table.indexes()), (10, 0), "a thousand are quick to look through");
    events(&mut f, 1000, 5000);
    assert_eq!((list(&f, 7), f.table.indexes()), (10, 1));
    events(&mut f, 5000, 5005);
    assert_eq!((list(&f, 500), list(&f, 501), f.table.indexes()), (5, 0, 1));
    // Most of them: no index would help.
    let resource = f.catalog.find("", "v1", "events").unwrap();
    let fields = FieldSelector::parse("reason=Started").unwrap();
    let most = Selection::new(resource, Scope::All, None, Some(&fields)).unwrap();
    assert_eq!(f.table.list(storage, &most, None, None, 0).unwrap().items.len(), 5005);
    assert_eq!(f.table.indexes(), 1);
    // Of several fields the one that narrows most.
    let fields = FieldSelector::parse("involvedObject.kind=Pod,involvedObject.name=pod-3").unwrap();
    let both = Selection::new(resource, Scope::All, None, Some(&fields)).unwrap();
    assert_eq!(f.table.list(storage, &both, None, None, 500).unwrap().items.len(), 10);
    let name = f.table.cell(storage).unwrap().storage.selectable_at("involvedObject.name");
    assert!(f.table.cell(storage).unwrap().shard.read().has_index(name.unwrap()));
}

#[test]
fn indexes_are_bounded_and_unused_fields_give_way() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let storage = f.storage("events");
    events(&mut f, 0, 10);
    let row = &f.table.cell(storage).unwrap().storage;
    assert!(row.selectable.len() > 5);
    let build =
        |field, now| while f.table.cell(storage).unwrap().shard.write().build_index(row, field, now) {};
    (0..6).for_each(|field| build(field, 100));
    assert_eq!(f.table.indexes(), 4, "the fifth finds no room while the others are in use");
    build(5, 1000);
    assert_eq!(f.table.indexes(), 4);
    assert!(f.table.cell(storage).unwrap().shard.read().has_index(5), "one that was idle gave way");
}

#[tokio::test(start_paused = true)]
async fn an_unused_index_is_dropped() {
    let env = Env::simulated(1);
    let catalog = Arc::new(Catalog::builtin());
    let mut f = Fixture { table: Table::new(catalog.clone(), env.clone()), catalog, revision: 0 };
    let storage = f.storage("events");
    events(&mut f, 0, 3000);
    f.table.list(storage, &about(&f, 7), None, None, 0).unwrap();
    for _ in 0..3 {
        env.sleep(Duration::from_secs(500)).await;
        f.table.forget_old();
        assert_eq!(f.table.indexes(), 1);
        f.table.list(storage, &about(&f, 7), None, None, 0).unwrap();
    }
    env.sleep(Duration::from_secs(700)).await;
    f.table.forget_old();
    assert_eq!(f.table.indexes(), 0);
}

/// `cargo test --release -p table -- --ignored --nocapture list_ten`
#[test]
#[ignore = "a measurement, not a test"]
#[allow(clippy::disallowed_methods)]
fn list_ten_of_a_hundred_thousand_events() {
    let mut f = Fixture::new(HISTORY_BYTES);
    let storage = f.storage("events");
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096 / 1024
    };
    events(&mut f, 0, 100_000);
    f.table.compact(Revision(f.revision));
    let before = resident();
    for round in 0..4 {
        let begun = std::time::Instant::now();
        let found = f.table.list(storage, &about(&f, 7777 + round), None, None, 500).unwrap().items.len();
        println!("list {round}: {found} events in {:?}, {} kB more", begun.elapsed(), resident() - before);
    }
    let begun = std::time::Instant::now();
    events(&mut f, 100_000, 101_000);
    println!("1000 writes with the index: {:?}", begun.elapsed());
    f.table.cell(storage).unwrap().shard.write().drop_idle_indexes(u32::MAX);
    let begun = std::time::Instant::now();
    events(&mut f, 101_000, 102_000);
    println!("1000 writes without: {:?}", begun.elapsed());
    let uid = f.table.cell(storage).unwrap().storage.selectable_at("involvedObject.uid");
    let begun = std::time::Instant::now();
    index(&f, storage, uid.unwrap());
    println!("making the index (in the first list): {:?}", begun.elapsed());
}
