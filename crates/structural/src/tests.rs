//! Random schemas and objects: nothing panics, nothing changes twice, and the quick answer is the long one's.

use catalog::Catalog;
use object::{Map, Value};

use crate::{Coerce, Structural, rules};

/// A small generator; each test prints its seed when it fails.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn name(&mut self) -> &'static str {
        self.pick(&["a", "b", "c", "kind", "metadata", "apiVersion", "x", "status", "spec"])
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 7 } else { 10 }) {
            0 => Value::Null,
            1 => Value::Bool(self.one_in(2)),
            2 => Value::Int(self.pick(&[0, 1, -1, 5, i64::MAX, i64::MIN, 1 << 40])),
            3 => Value::Float(self.pick(&[0.5, 1.0, -2.0, 1e300, 3.25])),
            4..=6 => Value::from(self.pick(&["", "a", "abc", "2020-01-01", "1h", "é", "1.2.3.4"])),
            7 => Value::List((0..self.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => {
                let mut map = Map::default();
                for _ in 0..self.below(5) {
                    map.push(self.name().into(), self.value(depth - 1));
                }
                Value::Map(map)
            }
        }
    }

    fn schema(&mut self, depth: u64) -> Value {
        let mut map = Map::default();
        let ty: &str = self.pick(&[
            "object", "object", "object", "array", "string", "integer", "number", "boolean", "", "odd",
        ]);
        if !ty.is_empty() {
            map.set("type", ty);
        }
        if depth > 0 {
            if ty == "object" || self.one_in(8) {
                let mut properties = Map::default();
                for _ in 0..self.below(5) {
                    properties.set(self.name(), self.schema(depth - 1));
                }
                map.set("properties", properties);
            }
            if ty == "array" || self.one_in(8) {
                map.set("items", self.schema(depth - 1));
            }
            if self.one_in(4) {
                let additional =
                    if self.one_in(3) { Value::Bool(self.one_in(2)) } else { self.schema(depth - 1) };
                map.set("additionalProperties", additional);
            }
            for name in ["allOf", "anyOf", "oneOf"] {
                if self.one_in(10) {
                    let parts: Vec<Value> = (0..self.below(3)).map(|_| self.schema(depth - 1)).collect();
                    map.set(name, parts);
                }
            }
            if self.one_in(12) {
                map.set("not", self.schema(depth - 1));
            }
        }
        for name in [
            "nullable",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "uniqueItems",
            "x-kubernetes-int-or-string",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-preserve-unknown-fields",
        ] {
            if self.one_in(10) {
                map.set(name, true);
            }
        }
        for name in ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] {
            if self.one_in(10) {
                map.set(name, self.below(4) as i64 - 1);
            }
        }
        for name in ["minimum", "maximum", "multipleOf"] {
            if self.one_in(10) {
                map.set(name, Value::Float(self.pick(&[0.0, 0.5, 2.0, -1.0, 1e20])));
            }
        }
        if self.one_in(4) {
            map.set("default", self.value(2));
        }
        if self.one_in(8) {
            map.set("enum", (0..self.below(4)).map(|_| self.value(1)).collect::<Vec<_>>());
        }
        if self.one_in(6) {
            map.set("required", (0..2).map(|_| Value::from(self.name())).collect::<Vec<_>>());
        }
        if self.one_in(6) {
            map.set("format", self.pick(&["date", "int32", "float", "ipv4", "nope", "duration", "int64"]));
        }
        if self.one_in(10) {
            map.set("pattern", self.pick(&["^a", "[", r"\d+", "(?i)A"]));
        }
        if self.one_in(5) {
            map.set("x-kubernetes-list-type", self.pick(&["set", "map", "atomic", "odd"]));
            map.set(
                "x-kubernetes-list-map-keys",
                (0..self.below(3)).map(|_| Value::from(self.name())).collect::<Vec<_>>(),
            );
        }
        Value::Map(map)
    }
}

#[test]
fn random_objects_are_treated_consistently() {
    let catalog = Catalog::builtin();
    let types = catalog.schema();
    for seed in 1..6000u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let schema = random.schema(4);
        let parsed =
            Structural::parse_to_serve(&schema, types).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let options = rules::Options {
            lenience: &rules::Lenience::of([&schema].into_iter(), types),
            has_status: seed % 2 == 0,
            may_be_unstructured: false,
            types,
            check_metadata: &|_| Vec::new(),
            check_rules: &|_, _, _| Vec::new(),
        };
        rules::check(&schema, "spec", &options);
        let old = random.value(5);
        for _ in 0..3 {
            let mut object = random.value(5);
            let coerce = Coerce { strict: true, drop_malformed_metadata: true, ..Coerce::default() };
            if parsed.coerce(&mut object, types, coerce).is_ok() {
                let once = object.clone();
                let unknown = parsed.coerce(&mut object, types, coerce).expect("coerced");
                assert_eq!(object, once, "seed {seed}: coercing twice");
                assert_eq!(unknown, Vec::<String>::new(), "seed {seed}");
            }
            parsed.default(&mut object);
            let once = object.clone();
            parsed.default(&mut object);
            assert_eq!(object, once, "seed {seed}: defaulting twice");
            let mut errors = Vec::new();
            parsed.explain(parsed.root, &object, None, None, &mut errors);
            assert_eq!(
                errors.is_empty(),
                parsed.is_valid(parsed.root, &object),
                "seed {seed}: {object:?} against {schema:?}: {errors:?}"
            );
            let mut changed = Vec::new();
            parsed.validate_update(&object, &old, &mut changed);
            assert!(changed.len() <= errors.len(), "seed {seed}: ratcheting adds nothing");
            changed.clear();
            parsed.validate_update(&object, &object, &mut changed);
            parsed.validate_status_update(&object, &old, &mut changed);
            parsed.validate_lists_update(&object, &old, &mut changed);
            parsed.validate_embedded(&object, &|_| Vec::new(), &mut changed);
        }
    }
}

/// A schema and an object as deep as a body can be.
#[test]
fn depth_is_no_danger() {
    let catalog = Catalog::builtin();
    let (mut schema, mut object) = (Value::map(), Value::from("x"));
    for _ in 0..3000 {
        let mut outer = Map::default();
        outer.set("type", "object");
        outer.set("properties", Value::Map([("a".into(), schema)].into_iter().collect()));
        schema = Value::Map(outer);
        object = Value::Map([("a".into(), object)].into_iter().collect());
    }
    let parsed = Structural::parse_to_serve(&schema, catalog.schema()).expect("a schema");
    let strict = Coerce { strict: true, ..Coerce::default() };
    assert_eq!(parsed.coerce(&mut object, catalog.schema(), strict), Ok(Vec::new()));
    parsed.default(&mut object);
    let mut errors = Vec::new();
    parsed.validate_update(&object, &object.clone(), &mut errors);
    assert!(errors.is_empty());
    let options = rules::Options {
        lenience: &rules::Lenience::default(),
        has_status: true,
        may_be_unstructured: false,
        types: catalog.schema(),
        check_metadata: &|_| Vec::new(),
        check_rules: &|_, _, _| Vec::new(),
    };
    assert_eq!(rules::check(&schema, "spec", &options).errors.len(), 1, "the innermost has no type");
}

#[test]
fn equal_schemas_are_one_node() {
    let json = br#"{"type":"object","properties":{"a":{"type":"object","description":"one","properties":{"x":{"type":"string"}}},
        "b":{"type":"object","description":"other","properties":{"x":{"type":"string"}}}}}"#;
    let parsed = Structural::parse(&codec::json::parse(json, None).expect("JSON")).expect("a schema");
    assert_eq!(parsed.len(), 3);
}
