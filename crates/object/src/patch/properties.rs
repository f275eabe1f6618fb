//! Seeded properties of the patches: nothing panics, and they agree with one another where they must.

use catalog::{Catalog, Name};

use super::json::JsonPatch;
use super::testing::{Seeded, json, show};
use super::{MAX_DEPTH, merge, strategic};
use crate::{Map, Value};

const NAMES: &[&str] = &[
    "metadata",
    "spec",
    "containers",
    "name",
    "env",
    "ports",
    "containerPort",
    "finalizers",
    "ownerReferences",
    "uid",
    "labels",
    "volumes",
    "tolerations",
    "$patch",
    "$retainKeys",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/containers",
    "$setElementOrder/finalizers",
    "$setElementOrder",
    "$deleteFromPrimitiveList",
];

#[test]
fn no_document_and_patch_make_a_patch_panic() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let pod = schema.find("core.v1.Pod").unwrap();
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Seeded(seed);
        for _ in 0..100 {
            let (doc, patch) = (random.map(NAMES, 6), random.tree(NAMES, 6));
            let _ = strategic::apply(schema, pod, &mut doc.clone(), patch.clone());
            let _ = merge::apply(&mut doc.clone(), patch.clone());
            let _ = JsonPatch::parse(patch);
            let operations = (0..4).map(|_| {
                let mut op = Map::default();
                op.set("op", random.pick(&["add", "remove", "replace", "move", "copy", "test", "x"]));
                for member in ["path", "from"] {
                    let path: String = (0..random.below(4))
                        .map(|_| {
                            format!(
                                "/{}",
                                random.pick(&["spec", "metadata", "0", "1", "-1", "-", "~1", "name"])
                            )
                        })
                        .collect();
                    op.set(member, path);
                }
                op.set("value", random.tree(NAMES, 3));
                Value::Map(op)
            });
            let patch = JsonPatch::parse(Value::List(operations.collect())).unwrap();
            let _ = patch.apply(&mut doc.clone());
        }
    }
}

/// The merge patch that turns `old` into `new`. Works where `new` holds no nulls.
fn difference(old: &Map, new: &Map) -> Map {
    let mut out = Map::default();
    for (name, value) in new.iter() {
        match (old.get(name), value) {
            (Some(old), new) if show(old) == show(new) => {}
            (Some(Value::Map(old)), Value::Map(new)) => {
                out.set(name.clone(), Value::Map(difference(old, new)))
            }
            _ => out.set(name.clone(), value.clone()),
        }
    }
    for (name, _) in old.iter().filter(|(name, _)| !new.contains(name)) {
        out.set(name.clone(), Value::Null);
    }
    out
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut out = Map::default();
            for (name, value) in map {
                if !value.is_null() {
                    out.set(name, without_nulls(value));
                }
            }
            Value::Map(out)
        }
        Value::List(list) => {
            Value::List(list.into_iter().filter(|v| !v.is_null()).map(without_nulls).collect())
        }
        other => other,
    }
}

#[test]
fn a_merge_patch_of_the_difference_gives_the_target() {
    let names = ["a", "b", "c", "d"];
    for seed in 0..2000 {
        let mut random = Seeded(seed);
        let (old, new) = (without_nulls(random.map(&names, 5)), without_nulls(random.map(&names, 5)));
        let patch = difference(old.as_map().unwrap(), new.as_map().unwrap());
        let mut got = old.clone();
        merge::apply(&mut got, Value::Map(patch.clone())).unwrap();
        assert_eq!(show(&got), show(&new), "seed {seed} {old:?} {patch:?}");
    }
}

#[test]
fn a_strategic_patch_of_plain_maps_is_a_merge_patch() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let revision = schema.find("apps.v1.ControllerRevision").unwrap();
    let names = ["a", "b", "c", "d"];
    for seed in 0..2000 {
        let mut random = Seeded(seed);
        let wrap = |value: Value| Value::Map([(Name::Static("data"), value)].into_iter().collect());
        let doc = wrap(without_nulls(random.map(&names, 5)));
        let patch = wrap(random.map(&names, 5));
        let (mut by_merge, mut by_strategy) = (doc.clone(), doc.clone());
        merge::apply(&mut by_merge, patch.clone()).unwrap();
        strategic::apply(schema, revision, &mut by_strategy, patch.clone()).unwrap();
        // They differ only in nulls inside lists that replace a map or a list.
        let [a, b] = [by_merge, by_strategy].map(without_nulls);
        assert_eq!(show(&a), show(&b), "seed {seed} {doc:?} {patch:?}");
    }
}

/// Less than a worker has.
const SMALL_STACK: usize = 512 * 1024;

#[test]
fn the_deepest_documents_are_patched_on_a_small_stack() {
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK);
    #[allow(clippy::disallowed_methods, reason = "a test of stacks needs a thread of its own")]
    thread.spawn(patch_the_deepest_documents).unwrap().join().unwrap();
}

fn patch_the_deepest_documents() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let revision = schema.find("apps.v1.ControllerRevision").unwrap();
    let nested = |leaf: &str| {
        let mut value = json(leaf);
        for _ in 0..MAX_DEPTH - 1 {
            value = Value::Map([(Name::Static("data"), value)].into_iter().collect());
        }
        value
    };
    let (doc, patch) = (nested(r#"{"a":1}"#), nested(r#"{"b":2}"#));
    let want = nested(r#"{"a":1,"b":2}"#);
    let mut by_operation = doc.clone();
    let path = format!("{}/b", "/data".repeat(MAX_DEPTH - 1));
    let operation = [("op", "add".into()), ("path", path.into()), ("value", Value::from(2_i64))];
    let operation = operation.map(|(name, value): (_, Value)| (Name::Static(name), value));
    let operation = Value::Map(operation.into_iter().collect());
    JsonPatch::parse(Value::List(vec![operation])).unwrap().apply(&mut by_operation).unwrap();
    assert_eq!(by_operation, want);
    let (mut by_merge, mut by_strategy) = (doc.clone(), doc);
    merge::apply(&mut by_merge, patch.clone()).unwrap();
    strategic::apply(schema, revision, &mut by_strategy, patch).unwrap();
    assert_eq!(by_merge, want);
    assert_eq!(by_strategy, want);
}
