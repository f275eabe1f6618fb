//! A small strict JSON reader, independent of the writer under test.

use std::collections::BTreeMap;

#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

impl Value {
    pub(super) fn get(&self, key: &str) -> &Value {
        match self {
            Value::Map(m) => m.get(key).unwrap_or(&Value::Null),
            _ => &Value::Null,
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Value::Text(s) => s,
            _ => "",
        }
    }

    pub(super) fn list(&self) -> &[Value] {
        match self {
            Value::List(all) => all,
            _ => &[],
        }
    }

    pub(super) fn members(&self) -> Vec<(&str, &Value)> {
        match self {
            Value::Map(m) => m.iter().map(|(k, v)| (k.as_str(), v)).collect(),
            _ => Vec::new(),
        }
    }

    /// Calls `visit` with every member named `key`, at any depth.
    pub(super) fn find(&self, key: &str, visit: &mut dyn FnMut(&Value)) {
        match self {
            Value::Map(m) => {
                for (k, v) in m {
                    if k == key {
                        visit(v);
                    }
                    v.find(key, visit);
                }
            }
            Value::List(all) => all.iter().for_each(|v| v.find(key, visit)),
            _ => {}
        }
    }
}

/// Panics if the text is not JSON, or an object has a key twice or out of order.
pub(super) fn parse(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let mut rest = text;
    let value = value(&mut rest);
    assert!(rest.is_empty(), "text after the value");
    value
}

fn value(rest: &mut &str) -> Value {
    match rest.as_bytes()[0] {
        b'{' => {
            let mut map = BTreeMap::new();
            let mut last = String::new();
            *rest = &rest[1..];
            while !eat(rest, "}") {
                assert!(map.is_empty() || eat(rest, ","), "no comma at {}", &rest[..rest.len().min(40)]);
                let key = string(rest);
                assert!(map.is_empty() || last < key, "{key} after {last}");
                assert!(eat(rest, ":"));
                last.clone_from(&key);
                map.insert(key, value(rest));
            }
            Value::Map(map)
        }
        b'[' => {
            let mut list = Vec::new();
            *rest = &rest[1..];
            while !eat(rest, "]") {
                assert!(list.is_empty() || eat(rest, ","), "no comma");
                list.push(value(rest));
            }
            Value::List(list)
        }
        b'"' => Value::Text(string(rest)),
        _ if eat(rest, "true") => Value::Bool(true),
        _ if eat(rest, "false") => Value::Bool(false),
        _ if eat(rest, "null") => Value::Null,
        _ => {
            let end = rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(rest.len());
            let number = rest[..end].parse().expect("a number");
            *rest = &rest[end..];
            Value::Number(number)
        }
    }
}

fn string(rest: &mut &str) -> String {
    assert!(eat(rest, "\""));
    let end = rest.find('"').expect("the end of a string");
    let text = rest[..end].to_owned();
    assert!(!text.contains('\\'), "no name of ours needs an escape");
    *rest = &rest[end + 1..];
    text
}

fn eat(rest: &mut &str, token: &str) -> bool {
    let found = rest.strip_prefix(token);
    *rest = found.unwrap_or(rest);
    found.is_some()
}
