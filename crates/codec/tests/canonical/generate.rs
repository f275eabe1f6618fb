//! Random documents along the catalogue's types: mostly right, as untidy as clients send them, all from one seed.

use catalog::{Field, Name, Schema, Shape, TypeId};
use object::{Map, Value};

/// SplitMix64: small, and the same on every machine.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// True in about `percent` of a hundred calls.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// How untidy: percentages.
#[derive(Clone, Copy)]
pub struct Mess {
    /// Unknown and repeated names.
    pub strangers: u64,
    /// Values of a wrong type.
    pub wrong: u64,
    pub nulls: u64,
}

pub fn document(schema: &Schema, ty: TypeId, mess: Mess, rng: &mut Rng) -> Value {
    value(schema, &Shape::Struct(ty), mess, 0, rng)
}

fn value(schema: &Schema, shape: &Shape, mess: Mess, depth: usize, rng: &mut Rng) -> Value {
    if rng.chance(mess.nulls) {
        return Value::Null;
    }
    if rng.chance(mess.wrong) {
        return anything(2, rng);
    }
    match shape {
        Shape::Struct(id) => {
            let mut map = Map::default();
            for field in &schema.get(*id).fields {
                // Deep down only little: some types hold themselves.
                let wanted = if depth == 0 { 80 } else { 40 / depth as u64 };
                if rng.chance(wanted) {
                    map.push(field.name.clone(), member(schema, field, mess, depth, rng));
                    if rng.chance(mess.strangers)
                        && !matches!(field.shape, Shape::Struct(_) | Shape::List(_) | Shape::Map(_))
                    {
                        map.push(field.name.clone(), member(schema, field, mess, depth, rng));
                    }
                }
                if rng.chance(mess.strangers) {
                    map.push(Name::from(format!("no{}", text(rng))), anything(2, rng));
                }
            }
            shuffle(map.entries_mut(), rng);
            Value::Map(map)
        }
        Shape::List(inner) => {
            Value::List((0..rng.below(3)).map(|_| value(schema, inner, mess, depth + 1, rng)).collect())
        }
        Shape::Map(inner) => {
            let mut map = Map::default();
            for i in 0..rng.below(4) {
                let name = Name::from(format!("{}{i}", text(rng)));
                let twice = rng.chance(mess.strangers);
                map.push(name.clone(), value(schema, inner, mess, depth + 1, rng));
                if twice {
                    map.push(name, value(schema, inner, mess, depth + 1, rng));
                }
            }
            shuffle(map.entries_mut(), rng);
            Value::Map(map)
        }
        Shape::String => Value::Str(text(rng)),
        Shape::Bool => Value::Bool(rng.chance(50)),
        Shape::Int32 => Value::Int(i64::from(rng.next() as i32 >> rng.below(32))),
        Shape::Int64 => Value::Int(rng.next() as i64 >> rng.below(64)),
        Shape::Float64 if rng.chance(30) => Value::Int(rng.next() as i64 >> rng.below(64)),
        Shape::Float64 => Value::Float(float(rng)),
        Shape::Bytes => Value::from(*rng.pick(&["", "YQ==", "YWI=", "YWJj", "YR==", "YW\nJj", "AAAA/+=="])),
        Shape::Time => Value::from(*rng.pick(&[
            "2024-02-29T12:00:00Z",
            "2024-02-29T12:00:00.5+02:00",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59-11:30",
            "9999-12-31T23:59:59Z",
        ])),
        Shape::MicroTime => Value::from(*rng.pick(&[
            "2024-02-29T12:00:00.000000Z",
            "2024-02-29T12:00:00.123456+02:00",
            "0001-01-01T00:00:00.000000Z",
        ])),
        Shape::Duration => Value::from(*rng.pick(&["0s", "1h", "90m", "1.5s", "100us"])),
        Shape::Quantity if rng.chance(20) => Value::Int(rng.next() as i64 >> rng.below(64)),
        Shape::Quantity => Value::Str(quantity(rng)),
        Shape::IntOrString if rng.chance(50) => Value::Int(i64::from(rng.next() as u16)),
        Shape::IntOrString => Value::from(*rng.pick(&["50%", "http", "", "8080"])),
        Shape::Any => anything(3, rng),
    }
}

fn member(schema: &Schema, field: &Field, mess: Mess, depth: usize, rng: &mut Rng) -> Value {
    // Zeros are where the rules differ most.
    if rng.chance(15) {
        return match field.shape {
            Shape::String | Shape::Bytes => Value::from(""),
            Shape::Bool => Value::Bool(false),
            Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => Value::Int(0),
            Shape::List(_) => Value::List(Vec::new()),
            Shape::Map(_) | Shape::Struct(_) => Value::map(),
            Shape::Quantity => Value::from("0"),
            Shape::Duration => Value::from("0s"),
            Shape::Time | Shape::MicroTime | Shape::Any => Value::Null,
        };
    }
    value(schema, &field.shape, mess, depth + 1, rng)
}

pub fn quantity(rng: &mut Rng) -> String {
    let mut out = String::new();
    if rng.chance(20) {
        out.push(*rng.pick(&['-', '+']));
    }
    for _ in 0..1 + rng.below(8) {
        out.push(*rng.pick(&['0', '0', '1', '2', '5', '8', '9']));
    }
    if rng.chance(30) {
        out.push('.');
        for _ in 0..rng.below(12) {
            out.push(*rng.pick(&['0', '0', '1', '5', '9']));
        }
    }
    let suffixes = [
        "", "", "m", "u", "n", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E2",
        "e-5", "e+12",
    ];
    out.push_str(rng.pick::<&str>(&suffixes));
    out
}

pub fn float(rng: &mut Rng) -> f64 {
    let f = match rng.below(4) {
        0 => f64::from_bits(rng.next()),
        1 => rng.next() as i32 as f64,
        2 => rng.next() as i32 as f64 / 1000.0,
        _ => *rng.pick(&[1e21, 1e20, 1e-6, 1e-7, 9.2e18, 1.8446744073709552e19, 0.1, -2.5]),
    };
    if f.is_finite() { f } else { 1.5 }
}

pub fn text(rng: &mut Rng) -> String {
    let words = [
        "a",
        "b",
        "name",
        "app.kubernetes.io/name",
        "x y",
        "",
        "\"",
        "\\",
        "<&>",
        "\u{2028}",
        "é",
        "日本",
        "\u{1f600}",
        "\n\t\r",
        "\u{8}\u{c}\u{1}",
        "\u{7f}",
        "0",
        "default",
        "nginx:1.27",
    ];
    (0..rng.below(4)).map(|_| *rng.pick(&words)).collect()
}

/// Any JSON at all.
pub fn anything(depth: usize, rng: &mut Rng) -> Value {
    match rng.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => Value::Bool(rng.chance(50)),
        2 => Value::Int(rng.next() as i64 >> rng.below(64)),
        3 => Value::Float(float(rng)),
        4 => Value::Str(text(rng)),
        5 => Value::List((0..rng.below(3)).map(|_| anything(depth - 1, rng)).collect()),
        _ => Value::Map(
            (0..rng.below(3))
                .map(|i| (Name::from(format!("{i}{}", text(rng))), anything(depth - 1, rng)))
                .collect(),
        ),
    }
}

fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for i in (1..items.len()).rev() {
        items.swap(i, rng.below(i + 1));
    }
}
