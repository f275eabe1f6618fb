//! What holds for every object: those of the recorded cases, of all kinds and of random custom resources.

#![allow(clippy::unwrap_used)]

use std::fs;

use catalog::Catalog;
use managed_fields::typed::{self, Duplicates};
use managed_fields::{Converter, FieldManager, Managers, Set, TypeRef};
use object::Value;
use structural::Structural;

fn parse(text: &str) -> Value {
    codec::json::parse(text.as_bytes(), None).unwrap()
}

fn lines(file: &str) -> Vec<Value> {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap().lines().map(parse).collect()
}

struct OneVersion<'a>(&'a str, TypeRef<'a>);

impl Converter for OneVersion<'_> {
    fn type_of(&self, version: &str) -> Option<TypeRef<'_>> {
        (version == self.0).then_some(self.1)
    }
    fn convert(&self, _: &Value, _: &str) -> Result<Value, String> {
        Err("there is one version".to_owned())
    }
}

/// Runs `f` for every object that can be applied, with a field manager and the object of which nothing is set.
fn for_each_object(f: impl Fn(&FieldManager<'_>, &Value)) {
    let catalog = Catalog::builtin();
    let crd = |crd: Value| {
        let versions = crd.at(&["spec", "versions"]).unwrap().as_list().unwrap().to_vec();
        Structural::parse(versions[0].at(&["schema", "openAPIV3Schema"]).unwrap()).unwrap()
    };
    let crds: Vec<Structural> = lines("crds.jsonl").into_iter().map(crd).collect();
    let mut count = 0;
    for case in ["merge.jsonl", "compare.jsonl", "set.jsonl"].into_iter().flat_map(lines) {
        let object = case.at(&["in", "value"]).unwrap();
        let text = |name| object.get(name).and_then(Value::as_str).unwrap();
        let version = text("apiVersion");
        let ty = match case.at(&["in", "crd"]).and_then(Value::as_int) {
            Some(crd) => TypeRef::custom(&crds[crd as usize], catalog.schema()),
            None if case.at(&["in", "deduced"]).is_some() => TypeRef::deduced(),
            None => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                TypeRef::built_in(catalog.schema(), catalog.find_type(group, version, text("kind")).unwrap())
            }
        };
        let mut object = object.clone();
        without_empty(&mut object);
        if typed::validate(&object, ty, Duplicates::Refused).is_err() {
            continue;
        }
        count += 1;
        let empty = parse(&format!(r#"{{"apiVersion":"{version}","kind":"{}"}}"#, text("kind")));
        let field_manager = FieldManager {
            api_version: version,
            kind: text("kind"),
            ty,
            subresource: "",
            converter: &OneVersion(version, ty),
            reset: &[],
            empty: &empty,
            now: 1_600_000_000,
        };
        f(&field_manager, &object);
    }
    assert!(count > 500, "{count} objects");
}

/// Nulls and empty lists have no owner, so that nobody can give them up; canonical objects have neither.
fn without_empty(value: &mut Value) {
    match value {
        Value::Map(map) => map.retain(|_, value| {
            without_empty(value);
            match value {
                Value::Null => false,
                Value::Map(map) => !map.is_empty(),
                Value::List(items) => !items.is_empty(),
                _ => true,
            }
        }),
        Value::List(items) => items.iter_mut().for_each(without_empty),
        _ => {}
    }
}

fn without_managers(mut object: Value) -> Value {
    object.map_at(&["metadata"]).remove("managedFields");
    object
}

fn managers(object: &Value) -> Managers {
    Managers::decode(object.at(&["metadata", "managedFields"]).cloned()).unwrap()
}

fn sorted(mut value: Value) -> Value {
    fn sort(value: &mut Value) {
        match value {
            Value::Map(map) => {
                map.entries_mut().sort_by(|a, b| a.0.cmp(&b.0));
                map.iter_mut().for_each(|(_, value)| sort(value));
            }
            Value::List(items) => items.iter_mut().for_each(sort),
            _ => {}
        }
    }
    sort(&mut value);
    value
}

#[test]
fn applying_twice_is_applying_once() {
    for_each_object(|field_manager, config| {
        let once = field_manager.apply(field_manager.empty, config, "m", false).unwrap();
        let later = FieldManager { now: field_manager.now + 60, ..*field_manager };
        assert_eq!(later.apply(&once, config, "m", false).unwrap(), once);
        assert_eq!(sorted(without_managers(once)), sorted(config.clone()), "nothing else is there");
    });
}

#[test]
fn what_a_manager_gives_up_goes_unless_another_one_has_it() {
    for_each_object(|field_manager, config| {
        let nothing = {
            let mut nothing = field_manager.empty.clone();
            let name = config.at(&["metadata", "name"]).cloned();
            nothing.map_at(&["metadata"]).set("name", name.unwrap_or(Value::Null));
            nothing
        };
        let one = field_manager.apply(field_manager.empty, config, "m", false).unwrap();
        let two = field_manager.apply(&one, config, "n", false).unwrap();
        let shared = field_manager.apply(&two, &nothing, "m", false).unwrap();
        assert_eq!(
            sorted(without_managers(shared.clone())),
            sorted(without_managers(two)),
            "the other has it"
        );
        assert_eq!(managers(&shared).len(), managers(&one).len());
        let mut gone = without_managers(field_manager.apply(&shared, &nothing, "n", false).unwrap());
        without_empty(&mut gone);
        let left = gone.as_map_mut().unwrap();
        left.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        assert!(left.is_empty(), "{left:?} of {config:?}");
    });
}

#[test]
fn managers_of_different_fields_come_in_any_order() {
    for_each_object(|field_manager, config| {
        let part = |odd: bool| {
            let mut part = config.clone();
            let Some(Value::Map(spec)) = part.as_map_mut().unwrap().get_mut("spec") else { return part };
            let mut i = 0;
            spec.retain(|_, _| {
                i += 1;
                (i % 2 == 1) == odd
            });
            part
        };
        let apply = |first: bool| {
            let names = if first { ["m", "n"] } else { ["n", "m"] };
            let one = field_manager.apply(field_manager.empty, &part(first), names[0], false).unwrap();
            field_manager.apply(&one, &part(!first), names[1], false).unwrap()
        };
        let (a, b) = (apply(true), apply(false));
        assert_eq!(sorted(without_managers(a.clone())), sorted(without_managers(b.clone())));
        let sets = |object: &Value| {
            let mut sets: Vec<_> = managers(object)
                .iter()
                .map(|manager| (manager.id.to_string(), manager.set().to_json()))
                .collect();
            sets.sort();
            sets
        };
        assert_eq!(sets(&a), sets(&b));
    });
}

#[test]
fn every_leaf_has_an_owner() {
    for_each_object(|field_manager, object| {
        let mut created = object.clone();
        field_manager.update(field_manager.empty, &mut created, "c").unwrap();
        let mut owned = Set::of_fields(&[&["apiVersion"], &["kind"]]);
        for name in ["name", "namespace", "uid", "generation", "creationTimestamp"] {
            owned = owned.union(&Set::of_fields(&[&["metadata", name]]));
        }
        for manager in managers(&created).iter() {
            owned = owned.union(manager.set());
        }
        let leaves = typed::field_set(object, field_manager.ty).leaves();
        assert_eq!(leaves.difference(&owned).paths(), Vec::<String>::new());
    });
}
