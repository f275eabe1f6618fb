//! A configuration file as a tree of known fields: strict about names and types, with defaults filled in.

use codec::{json, yaml};
use object::{Map, Value};

use super::fields::{FIELDS, Field, Kind};
use super::{ConfigError, duration};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";

/// All fields in their order, with their defaults; those without any are left out.
pub fn decode(bytes: &[u8]) -> Result<Map, ConfigError> {
    let (given, errors) = document(bytes)?;
    complete(given, errors)
}

/// What a file that is merged into others says, checked and as it is: null takes away what they say.
pub fn drop_in(bytes: &[u8]) -> Result<Map, ConfigError> {
    let (given, errors) = document(bytes)?;
    let mut without_nulls = Value::map();
    merge(&mut without_nulls, given.clone())?;
    complete(without_nulls.as_map().cloned().unwrap_or_default(), errors)?;
    Ok(given)
}

/// The files that were merged, by the rules of JSON merge patches: lists are replaced.
pub fn merged(base: Map, drop_ins: impl IntoIterator<Item = Map>) -> Result<Map, ConfigError> {
    let mut tree = Value::Map(base);
    drop_ins.into_iter().try_for_each(|drop_in| merge(&mut tree, drop_in))?;
    complete(tree.as_map().cloned().unwrap_or_default(), Vec::new())
}

fn merge(tree: &mut Value, with: Map) -> Result<(), ConfigError> {
    object::patch::merge::apply(tree, Value::Map(with))
        .map_err(|status| ConfigError::Strict(vec![status.message]))
}

fn complete(mut given: Map, mut errors: Vec<String>) -> Result<Map, ConfigError> {
    let out = fields(FIELDS, &mut given, "", &mut errors);
    if errors.is_empty() { Ok(out) } else { Err(ConfigError::Strict(errors)) }
}

/// The fields of a file, and those that are there twice.
fn document(bytes: &[u8]) -> Result<(Map, Vec<String>), ConfigError> {
    let document = yaml::parse_document(bytes).map_err(|error| ConfigError::NotYaml(error.to_string()))?;
    let mut tree = document.value;
    if tree.as_map().is_none() {
        return Err(ConfigError::NotYaml("it is no map of fields".to_owned()));
    }
    let text = |tree: &Value, name: &str| tree.str_at(&[name]).unwrap_or("").to_owned();
    let (kind, version) = (text(&tree, "kind"), text(&tree, "apiVersion"));
    if kind != "KubeletConfiguration" || version != API_VERSION {
        return Err(ConfigError::OtherKind { kind, version });
    }
    let map = tree.make_map();
    map.remove("kind");
    map.remove("apiVersion");
    Ok((std::mem::take(map), document.duplicates.into_iter().collect()))
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
