//! A configuration file as a tree of known fields: strict about names and types, with defaults filled in.

use codec::{json, yaml};
use object::{Map, Value};

use super::fields::{FIELDS, Field, Kind};
use super::{ConfigError, duration};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// All fields in their order, with their defaults; those without any are left out.
pub fn decode(bytes: &[u8]) -> Result<Map, ConfigError> {
    let document = yaml::parse_document(bytes).map_err(|error| ConfigError::NotYaml(error.to_string()))?;
    let mut tree = document.value;
    let mut errors: Vec<String> = Vec::new();
    if tree.as_map().is_none() {
        return Err(ConfigError::NotYaml("it is no map of fields".to_owned()));
    }
    let text = |tree: &Value, name: &str| tree.str_at(&[name]).unwrap_or("").to_owned();
    let (kind, version) = (text(&tree, "kind"), text(&tree, "apiVersion"));
    if kind != "KubeletConfiguration" || version != API_VERSION {
        return Err(ConfigError::OtherKind { kind, version });
    }
    errors.extend(document.duplicates);
    let map = tree.make_map();
    map.remove("kind");
    map.remove("apiVersion");
    let out = fields(FIELDS, map, "", &mut errors);
    if errors.is_empty() { Ok(out) } else { Err(ConfigError::Strict(errors)) }
}

/// What nobody wrote anything about.
pub fn defaults() -> Map {
    fields(FIELDS, &mut Map::default(), "", &mut Vec::new())
}

fn fields(known: &[Field], given: &mut Map, path: &str, errors: &mut Vec<String>) -> Map {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, _) in given.iter().filter(|(name, _)| !known.iter().any(|field| field.name == name.as_str())) {
        errors.push(format!("unknown field \"{}\"", at(name.as_str())));
    }
    let mut out = Map::with_capacity(known.len());
    for field in known {
        let mut value = given.remove(field.name).filter(|value| !value.is_null());
        if !field.zero_counts {
            value = value.filter(|value| !is_zero(field, value));
        }
        let value = value.or_else(|| default(field));
        if let Some(value) = value.and_then(|value| read(&field.kind, value, &at(field.name), errors)) {
            out.set(field.name, value);
        }
    }
    out
}

fn default(field: &Field) -> Option<Value> {
    (!field.default.is_empty()).then(|| json::parse(field.default.as_bytes(), None).ok()).flatten()
}

/// An object is never nothing: its members have defaults.
fn is_zero(field: &Field, value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Str(text) if matches!(field.kind, Kind::Duration) => duration::parse(text) == Some(0),
        Value::Str(text) => text.is_empty(),
        Value::List(list) => list.is_empty() && field.default.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// The value if it is of that kind; else an error.
fn read(kind: &Kind, value: Value, path: &str, errors: &mut Vec<String>) -> Option<Value> {
    let wanted = match (kind, value) {
        (Kind::Bool, value @ Value::Bool(_))
        | (Kind::Int, value @ Value::Int(_))
        | (Kind::Float, value @ (Value::Float(_) | Value::Int(_)))
        | (Kind::Text, value @ Value::Str(_)) => return Some(value),
        // Quantities may be written as numbers.
        (Kind::Text, Value::Int(number)) if path.ends_with("infoBufferSize") => {
            return Some(number.to_string().into());
        }
        (Kind::Duration, Value::Str(text)) => match duration::parse(&text) {
            Some(nanos) => return Some(duration::format(nanos).into()),
            None => format!("{text:?} is not a duration: write it as 90s, 5m or 1h30m"),
        },
        (Kind::Texts, Value::List(list)) if list.iter().all(|item| item.as_str().is_some()) => {
            return Some(Value::List(list));
        }
        (Kind::Ints, Value::List(list)) if list.iter().all(|item| item.as_int().is_some()) => {
            return Some(Value::List(list));
        }
        (Kind::TextMap, Value::Map(map)) if map.iter().all(|(_, value)| value.as_str().is_some()) => {
            return Some(sorted(map));
        }
        (Kind::BoolMap, Value::Map(map)) if map.iter().all(|(_, value)| value.as_bool().is_some()) => {
            return Some(sorted(map));
        }
        (Kind::TextsMap, Value::Map(map)) if map.iter().all(|(_, value)| is_texts(value)) => {
            return Some(sorted(map));
        }
        (Kind::Object(known), Value::Map(mut map)) => {
            return Some(Value::Map(fields(known, &mut map, path, errors)));
        }
        (Kind::Objects(known), Value::List(list)) => {
            let item = |(at, item): (usize, Value)| {
                let path = format!("{path}[{at}]");
                let Value::Map(mut map) = item else {
                    errors.push(format!("{path}: must be an object"));
                    return Value::Null;
                };
                Value::Map(fields(known, &mut map, &path, errors))
            };
            return Some(Value::List(list.into_iter().enumerate().map(item).collect()));
        }
        (kind, _) => format!("must be {}", told(kind)),
    };
    errors.push(format!("{path}: {wanted}"));
    None
}

fn is_texts(value: &Value) -> bool {
    value.as_list().is_some_and(|list| list.iter().all(|item| item.as_str().is_some()))
}

fn sorted(mut map: Map) -> Value {
    map.entries_mut().sort_by(|(a, _), (b, _)| a.cmp(b));
    Value::Map(map)
}

fn told(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bool => "true or false",
        Kind::Int => "a whole number",
        Kind::Float => "a number",
        Kind::Text => "text",
        Kind::Duration => "a duration, such as 90s or 5m",
        Kind::Texts => "a list of text",
        Kind::Ints => "a list of whole numbers",
        Kind::TextMap => "a map of text: put numbers in quotes",
        Kind::BoolMap => "a map of true and false",
        Kind::TextsMap => "a map of lists of text",
        Kind::Object(_) => "an object",
        Kind::Objects(_) => "a list of objects",
    }
}
