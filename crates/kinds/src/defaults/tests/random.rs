//! Seeded random trees along the schema, with the words that make defaulting decide.

use catalog::{Name, Schema, Shape, TypeId};
use object::{Map, Value};

pub(super) struct Trees {
    state: u64,
}

/// Words some default looks at, and some that none does.
const WORDS: [&str; 22] = [
    "",
    "x",
    "RollingUpdate",
    "Recreate",
    "None",
    "ClientIP",
    "ClusterIP",
    "LoadBalancer",
    "NodePort",
    "ExternalName",
    "ExactCount",
    "All",
    "Container",
    "User",
    "Group",
    "Always",
    "nginx",
    "nginx:latest",
    "a.b/c:1",
    "OnDelete",
    "v1",
    "metadata.name",
];
const KEYS: [&str; 7] =
    ["cpu", "memory", "hugepages-2Mi", "example.com/gpu", "a", "storage", "kubernetes.io/metadata.name"];
const QUANTITIES: [&str; 8] = ["0", "1", "1500u", "1.500500", "100m", "1Gi", "1e-6", "3n"];

impl Trees {
    pub(super) fn new(seed: u64) -> Trees {
        Trees { state: seed }
    }

    /// An object with about half of its fields, and always a spec.
    pub(super) fn object(&mut self, schema: &Schema, ty: TypeId) -> Value {
        // Thin trees and full ones, so that deep fields are reached without all trees being huge.
        let density = 20 + self.below(70);
        self.structure(schema, ty, 0, density)
    }

    /// Puts values of other types in some places.
    pub(super) fn break_some(&mut self, value: &mut Value) {
        if self.below(100) < 8 {
            *value = match self.below(6) {
                0 => Value::Null,
                1 => Value::Bool(false),
                2 => Value::Int(-1),
                3 => Value::from("broken"),
                4 => Value::List(vec![Value::Null, Value::map(), Value::Int(0)]),
                _ => Value::map(),
            };
            return;
        }
        match value {
            Value::List(items) => items.iter_mut().for_each(|item| self.break_some(item)),
            Value::Map(map) => map.iter_mut().for_each(|(_, member)| self.break_some(member)),
            _ => {}
        }
    }

    fn structure(&mut self, schema: &Schema, ty: TypeId, depth: u32, density: u64) -> Value {
        let mut map = Map::default();
        for field in &schema.get(ty).fields {
            let leaf = !matches!(field.shape, Shape::Struct(_) | Shape::List(_) | Shape::Map(_));
            // Deeper down trees grow thinner, and end.
            let chance = if leaf { density } else { density.saturating_sub(u64::from(depth) * 6) };
            let wanted = self.below(100) < chance || (depth == 0 && field.name == "spec");
            if wanted && (leaf || depth < 9) {
                let value = self.value(schema, &field.shape, depth + 1, density);
                map.push(field.name.clone(), value);
            }
        }
        Value::Map(map)
    }

    fn value(&mut self, schema: &Schema, shape: &Shape, depth: u32, density: u64) -> Value {
        match shape {
            Shape::Struct(ty) => self.structure(schema, *ty, depth, density),
            Shape::List(inner) => {
                let count = self.below(3);
                Value::List((0..count).map(|_| self.value(schema, inner, depth, density)).collect())
            }
            Shape::Map(inner) => {
                let mut map = Map::default();
                for key in KEYS {
                    if self.below(3) == 0 {
                        map.push(Name::Static(key), self.value(schema, inner, depth, density));
                    }
                }
                Value::Map(map)
            }
            Shape::String => Value::from(self.pick(&WORDS)),
            Shape::Bool => Value::Bool(self.below(2) == 0),
            Shape::Int32 | Shape::Int64 => Value::Int(self.below(4) as i64 - 1),
            Shape::Float64 => Value::Float(0.5),
            Shape::Bytes => Value::from("YQ=="),
            Shape::Time => Value::from("2023-11-14T22:13:20Z"),
            Shape::MicroTime => Value::from("2023-11-14T22:13:20.000000Z"),
            Shape::Duration => Value::from("1h0m0s"),
            Shape::Quantity => Value::from(self.pick(&QUANTITIES)),
            Shape::IntOrString if self.below(2) == 0 => Value::Int(self.below(2) as i64),
            Shape::IntOrString => Value::from(self.pick(&["", "25%", "http"])),
            Shape::Any => Value::map(),
        }
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len() as u64) as usize]
    }

    fn below(&mut self, bound: u64) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
