//! For the tests of patches: JSON text in, JSON text out, and a seeded source of trees.

use catalog::Name;

use crate::{Map, Value};

/// Reads JSON that is known to be right.
pub fn json(text: &str) -> Value {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    let value = reader.value();
    reader.space();
    assert_eq!(reader.at, text.len(), "text after the value in {text}");
    value
}

/// JSON with sorted names: equal trees are equal text, whatever the order of their members.
pub fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => format!("{f:?}"),
        Value::Str(s) => format!("{s:?}"),
        Value::Raw(text) => text.to_string(),
        Value::List(l) => format!("[{}]", l.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Map(m) => {
            let mut members: Vec<String> =
                m.iter().map(|(n, v)| format!("{:?}:{}", n.as_str(), show(v))).collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn space(&mut self) {
        while self.at < self.bytes.len() && self.bytes[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
    }
    fn peek(&mut self) -> u8 {
        self.space();
        self.bytes[self.at]
    }
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }
    fn value(&mut self) -> Value {
        match self.peek() {
            b'{' => {
                self.at += 1;
                let mut map = Map::default();
                while !self.eat(b'}') {
                    let Value::Str(name) = self.value() else { panic!("a name is text") };
                    assert!(self.eat(b':'), "colon at {}", self.at);
                    map.push(Name::from(name), self.value());
                    self.eat(b',');
                }
                Value::Map(map)
            }
            b'[' => {
                self.at += 1;
                let mut list = Vec::new();
                while !self.eat(b']') {
                    list.push(self.value());
                    self.eat(b',');
                }
                Value::List(list)
            }
            b'"' => {
                self.at += 1;
                let start = self.at;
                while self.bytes[self.at] != b'"' {
                    self.at += 1;
                }
                self.at += 1;
                Value::Str(String::from_utf8(self.bytes[start..self.at - 1].to_vec()).unwrap())
            }
            _ => {
                let start = self.at;
                while self.at < self.bytes.len() && !b",]} \n".contains(&self.bytes[self.at]) {
                    self.at += 1;
                }
                let word = std::str::from_utf8(&self.bytes[start..self.at]).unwrap();
                match word {
                    "null" => Value::Null,
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    _ => match word.parse() {
                        Ok(i) => Value::Int(i),
                        Err(_) => Value::Float(word.parse().expect(word)),
                    },
                }
            }
        }
    }
}

/// A small generator: the same seed, the same trees.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
    pub fn tree(&mut self, names: &[&'static str], depth: usize) -> Value {
        match self.below(if depth == 0 { 6 } else { 10 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::Int(self.below(3) as i64),
            3 => Value::Float(self.below(3) as f64),
            4 | 5 => Value::from(self.pick(&["a", "b", "delete", "replace", "x"])),
            6 | 7 => Value::List((0..self.below(4)).map(|_| self.tree(names, depth - 1)).collect()),
            _ => self.map(names, depth),
        }
    }
    pub fn map(&mut self, names: &[&'static str], depth: usize) -> Value {
        let depth = depth.max(1);
        let members = (0..self.below(5)).map(|_| {
            let name = names[self.below(names.len())];
            (Name::Static(name), self.tree(names, depth - 1))
        });
        Value::Map(members.collect())
    }
}
