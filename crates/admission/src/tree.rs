//! Short ways into a tree: absent, null and empty are the same to most rules.

use object::Value;

/// The items of a member; none when it is absent.
pub fn items<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_list).unwrap_or_default()
}

/// The text of a member; empty when it is absent.
pub fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A member that is there.
pub fn member<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    of.get(name).filter(|value| !value.is_null())
}

pub fn flag(of: &Value, name: &str) -> Option<bool> {
    of.get(name).and_then(Value::as_bool)
}

pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations"])?.get(name)?.as_str()
}

/// The list of a member of a map, made where it is absent.
pub fn list_mut<'a>(of: &'a mut object::Map, name: &'static str) -> &'a mut Vec<Value> {
    let slot = of.entry(name.into());
    if !matches!(slot, Value::List(_)) {
        *slot = Value::List(Vec::new());
    }
    match slot {
        Value::List(list) => list,
        _ => unreachable!("made a list above"),
    }
}

/// A map out of names and values.
pub fn map<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
}
