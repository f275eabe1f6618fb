//! Taints as flags have them: `KEY[=VALUE]:EFFECT`.

use object::{Map, Value};

/// `None`: it is none.
pub fn parse(text: &str) -> Option<Value> {
    let (rest, effect) = text.rsplit_once(':')?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return None;
    }
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    if !object::validate_text::qualified_name(key).is_empty()
        || !object::validate_text::label_value(value).is_empty()
    {
        return None;
    }
    let mut taint = Map::with_capacity(3);
    taint.set("key", key);
    if !value.is_empty() {
        taint.set("value", value);
    }
    taint.set("effect", effect);
    Some(Value::Map(taint))
}
