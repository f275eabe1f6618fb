//! Properties of the canonical form, over every type of the catalogue; and no input makes the readers panic.

#[path = "canonical/generate.rs"]
mod generate;

use catalog::{Catalog, TypeId};
use codec::{json, yaml};
use generate::{Mess, Rng};
use object::Value;
use object::normalise::{Strict, normalise, normalise_decoded};

const TIDY: Mess = Mess { strangers: 5, wrong: 0, nulls: 3 };
const WRONG: Mess = Mess { strangers: 5, wrong: 3, nulls: 3 };

/// Runs the check with a few seeds; a failure prints the one to run again.
fn with_seeds(count: u64, check: impl Fn(&mut Rng)) {
    for seed in 1..=count {
        println!("seed {seed}");
        check(&mut Rng(seed));
    }
}

fn types(catalog: &Catalog) -> Vec<TypeId> {
    catalog.schema().iter().map(|(id, _)| id).collect()
}

#[test]
fn normalising_twice_changes_nothing_and_bytes_read_back() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    with_seeds(25, |rng| {
        for ty in types(&catalog) {
            let name = &schema.get(ty).name;
            let sent = generate::document(schema, ty, TIDY, rng);
            let mut once = sent.clone();
            if let Err(error) = normalise(schema, ty, &mut once, &mut Strict::off()) {
                panic!("{name}: {error}: {sent:?}");
            }
            let mut twice = once.clone();
            let mut strict = Strict::on();
            normalise(schema, ty, &mut twice, &mut strict).expect("canonical values fit their type");
            assert_eq!(once, twice, "{name}");
            assert_eq!(strict.messages(), Vec::<String>::new(), "{name}");

            let bytes = json::to_vec(&once);
            assert_eq!(json::parse(&bytes, Some((schema, ty))).as_ref(), Ok(&once), "{name}");
            assert_eq!(json::parse(&bytes, None).as_ref(), Ok(&once), "{name}");
            let mut pretty = Vec::new();
            json::write_pretty(&once, &mut pretty);
            assert_eq!(json::parse(&pretty, None).as_ref(), Ok(&once), "{name}");
            let mut text = Vec::new();
            yaml::write(&once, &mut text);
            let read = yaml::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            // YAML is written by name, for people.
            assert_eq!(sorted(&read), sorted(&once), "{name}");
        }
    });
}

#[test]
fn empty_values_kept_for_validation_are_not_encoded() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let mut kept = 0;
    with_seeds(8, |rng| {
        for ty in types(&catalog) {
            let name = &schema.get(ty).name;
            let sent = generate::document(schema, ty, TIDY, rng);
            let (mut once, mut decoded) = (sent.clone(), sent);
            let (mut said, mut said_decoded) = (Strict::on(), Strict::on());
            normalise(schema, ty, &mut once, &mut said).expect("generated values fit");
            let has_empty = normalise_decoded(schema, ty, &mut decoded, &mut said_decoded).expect("as above");
            assert_eq!(said.messages(), said_decoded.messages(), "{name}");
            let mut again = decoded.clone();
            normalise_decoded(schema, ty, &mut again, &mut Strict::off()).expect("canonical values fit");
            assert_eq!(again, decoded, "{name}: twice is once");
            assert!(has_empty || decoded == once, "{name}: only what is empty may differ");
            normalise(schema, ty, &mut decoded, &mut Strict::off()).expect("canonical values fit");
            assert_eq!(decoded, once, "{name}");
        }
    });
    for (sent, empty) in [(r#"{"items":[]}"#, true), (r#"{"items":null}"#, false), ("{}", false)] {
        let ty = schema.find("core.v1.ConfigMapVolumeSource").expect("the catalogue has it");
        let mut value = json::parse(sent.as_bytes(), None).expect("JSON");
        assert_eq!(normalise_decoded(schema, ty, &mut value, &mut Strict::off()), Ok(empty), "{sent}");
        kept += usize::from(value.get("items").is_some());
    }
    assert_eq!(kept, 1, "an empty list is kept, null is not");
}

#[test]
fn the_order_of_members_does_not_matter() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    with_seeds(4, |rng| {
        for ty in types(&catalog) {
            let mut a = generate::document(schema, ty, Mess { strangers: 0, ..TIDY }, rng);
            let mut b = reversed(&a);
            normalise(schema, ty, &mut a, &mut Strict::off()).expect("generated values fit");
            normalise(schema, ty, &mut b, &mut Strict::off()).expect("generated values fit");
            let catalog_name = &schema.get(ty).name;
            // What is kept as it came keeps its order too.
            assert_eq!(sorted(&a), sorted(&b), "{catalog_name}");
        }
    });
}

#[test]
fn wrong_types_are_errors_or_read_and_never_panic() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    with_seeds(25, |rng| {
        for ty in types(&catalog) {
            let mut value = generate::document(schema, ty, WRONG, rng);
            let _ = normalise(schema, ty, &mut value, &mut Strict::on());
            let mut value = generate::anything(4, rng);
            let _ = normalise(schema, ty, &mut value, &mut Strict::on());
        }
    });
}

#[test]
fn mutated_and_random_bytes_never_panic() {
    let catalog = Catalog::builtin();
    let schema = catalog.schema();
    let pod = schema.find("core.v1.Pod").expect("the catalogue has pods");
    let tokens: [&[u8]; 16] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\\",
        b"\\u",
        b"d800",
        b"1e",
        b"-",
        b"\xff",
        b"null",
        b"9999999999",
        b" ",
    ];
    with_seeds(400, |rng| {
        let mut bytes = json::to_vec(&generate::document(schema, pod, WRONG, rng));
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes.truncate(at),
                1 => bytes[at..=at].fill(rng.next() as u8),
                2 => drop(bytes.splice(at..at, rng.pick(&tokens).iter().copied())),
                _ => drop(bytes.drain(at..(at + rng.below(9)).min(bytes.len()))),
            }
            if bytes.is_empty() {
                bytes.push(b'{');
            }
        }
        if let Ok(mut value) = json::parse(&bytes, Some((schema, pod))) {
            let _ = normalise(schema, pod, &mut value, &mut Strict::on());
        }
        let noise: Vec<u8> =
            (0..rng.below(200)).map(|_| rng.pick(&tokens)[0] ^ u8::from(rng.chance(5))).collect();
        let _ = json::parse(&noise, Some((schema, pod)));
    });
}

fn reversed(value: &Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(map.iter().rev().map(|(n, v)| (n.clone(), reversed(v))).collect()),
        Value::List(items) => Value::List(items.iter().map(reversed).collect()),
        other => other.clone(),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().map(|(n, v)| (n.clone(), sorted(v))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Map(entries.into_iter().collect())
        }
        Value::List(items) => Value::List(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
