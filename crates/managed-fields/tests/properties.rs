//! What holds for every object: those of the recorded cases, of all kinds and of random custom resources.

#![allow(clippy::unwrap_used)]

use std::fs;

use catalog::Catalog;
use managed_fields::typed::{self, Duplicates};
use managed_fields::{ApplyError, Converter, FieldManager, Managers, Operation, Set, TypeRef};
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

/// Who manages what.
fn sets(object: &Value) -> Vec<(String, String)> {
    let managers = managers(object);
    let mut sets: Vec<_> =
        managers.iter().map(|manager| (manager.id.to_string(), manager.set().to_json())).collect();
    sets.sort();
    sets
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

/// Every object with one scalar changed, each of a few of them; not what an object is called.
fn changes(object: &Value) -> Vec<Value> {
    fn count(value: &Value) -> usize {
        match value {
            Value::Map(map) => map.iter().map(|(_, value)| count(value)).sum(),
            Value::List(items) => items.iter().map(count).sum(),
            _ => 1,
        }
    }
    fn change(value: &mut Value, nth: &mut usize) {
        match value {
            Value::Map(map) => map.iter_mut().for_each(|(_, value)| change(value, nth)),
            Value::List(items) => items.iter_mut().for_each(|value| change(value, nth)),
            scalar => {
                if *nth == 0 {
                    *scalar = match &*scalar {
                        Value::Str(text) => Value::Str(format!("{text}x")),
                        Value::Int(number) => Value::Int(number ^ 1),
                        Value::Bool(on) => Value::Bool(!on),
                        other => other.clone(),
                    };
                }
                *nth = nth.wrapping_sub(1);
            }
        }
    }
    let leaves = count(object);
    let mut changed = Vec::new();
    for nth in (0..leaves).step_by(leaves / 6 + 1) {
        let mut new = object.clone();
        let mut nth = nth;
        change(&mut new, &mut nth);
        let is_named = |name: &str| {
            let at = |value: &Value| value.at(&["metadata", name]).cloned();
            new.get(name) == object.get(name) && at(&new) == at(object)
        };
        if ["apiVersion", "kind", "name", "namespace", "uid", "managedFields"].into_iter().all(is_named)
            && new != *object
        {
            changed.push(new);
        }
    }
    changed
}

fn set_of(object: &Value, name: &str, operation: Operation) -> Set {
    let managers = managers(object);
    let own =
        managers.iter().find(|manager| manager.id.name.as_str() == name && manager.id.operation == operation);
    own.map_or_else(Set::default, |own| own.set().clone())
}

#[test]
fn who_updates_takes_what_has_changed_and_nobody_loses_more() {
    let mut count = 0;
    let count = std::cell::RefCell::new(&mut count);
    for_each_object(|field_manager, config| {
        let live = field_manager.apply(field_manager.empty, config, "m", false).unwrap();
        let before = set_of(&live, "m", Operation::Apply);
        for mut new in changes(&live) {
            if field_manager.update(&live, &mut new, "u").is_err() {
                continue;
            }
            **count.borrow_mut() += 1;
            let (kept, taken) = (set_of(&new, "m", Operation::Apply), set_of(&new, "u", Operation::Update));
            assert_eq!(kept.difference(&before).paths(), Vec::<String>::new(), "nobody gets more");
            assert_eq!(kept.intersection(&taken).paths(), Vec::<String>::new(), "nobody else keeps it");
            let there = typed::field_set(&new, field_manager.ty);
            let lost = before.difference(&kept).difference(&taken);
            assert_eq!(
                lost.intersection(&there).leaves().paths(),
                Vec::<String>::new(),
                "what nobody has is gone: {new:?}"
            );
            assert_eq!(
                taken.leaves().difference(&there).paths(),
                Vec::<String>::new(),
                "who takes it has it"
            );
            let mut same = new.clone();
            field_manager.update(&new, &mut same, "v").unwrap();
            assert_eq!(sets(&same), sets(&new), "who changes nothing takes nothing");
            let text = |object: &Value| String::from_utf8(codec::json::to_vec(object)).unwrap();
            // Keys are read as upstream reads them: numbers above 2^53 lose their last digits.
            if !text(&new).contains("900719925474099") {
                assert_eq!(text(&same), text(&new), "and every byte stays");
            }
        }
    });
    assert!(*count.into_inner() > 500);
}

#[test]
fn force_takes_the_conflicts_and_nothing_else() {
    let mut count = 0;
    let count = std::cell::RefCell::new(&mut count);
    for_each_object(|field_manager, config| {
        let live = field_manager.apply(field_manager.empty, config, "m", false).unwrap();
        let before = set_of(&live, "m", Operation::Apply);
        for wanted in changes(config) {
            let Err(ApplyError::Conflicts(conflicts)) = field_manager.apply(&live, &wanted, "n", false)
            else {
                continue;
            };
            **count.borrow_mut() += 1;
            let forced = field_manager.apply(&live, &wanted, "n", true).unwrap();
            let (kept, own) =
                (set_of(&forced, "m", Operation::Apply), set_of(&forced, "n", Operation::Apply));
            assert_eq!(
                before.difference(&kept).difference(&conflicts.set()).paths(),
                Vec::<String>::new(),
                "no more is lost"
            );
            assert_eq!(
                kept.intersection(&conflicts.set()).paths(),
                Vec::<String>::new(),
                "what was in conflict is lost"
            );
            assert_eq!(
                conflicts.set().difference(&own).paths(),
                Vec::<String>::new(),
                "and the other has it"
            );
            assert_eq!(field_manager.apply(&forced, &wanted, "n", false).unwrap(), forced);
        }
    });
    assert!(*count.into_inner() > 500);
}
