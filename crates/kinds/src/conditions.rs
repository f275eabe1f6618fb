//! Conditions in a status: one of each type, with the time of its last transition.

use object::{Map, Value};

/// What a condition says now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Condition<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
    pub observed_generation: Option<i64>,
}

/// Sets a condition of `object.status`. The time of its last transition moves only when its status does.
pub fn set(object: &mut Value, condition: &Condition<'_>, now: i64) {
    let conditions = object.map_at(&["status"]).entry("conditions".into());
    if conditions.as_list().is_none() {
        *conditions = Value::List(Vec::new());
    }
    let Value::List(list) = conditions else { return };
    let at = list.iter().position(|c| c.str_at(&["type"]) == Some(condition.kind)).unwrap_or_else(|| {
        let mut fresh = Map::default();
        fresh.set("type", condition.kind);
        list.push(Value::Map(fresh));
        list.len() - 1
    });
    let here = list[at].make_map();
    let same = here.get("status").and_then(Value::as_str) == Some(condition.status);
    if !same || here.get("lastTransitionTime").is_none_or(Value::is_null) {
        here.set("lastTransitionTime", object::time::format_seconds(now));
    }
    here.set("status", condition.status);
    for (member, text) in [("reason", condition.reason), ("message", condition.message)] {
        here.set(member, text);
    }
    if let Some(generation) = condition.observed_generation {
        here.set("observedGeneration", generation);
    } else {
        // A new observation: the generation the previous one observed does not apply.
        here.remove("observedGeneration");
    }
}

/// The condition of that type, if there is one.
pub fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list)?;
    conditions.iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

/// Is the condition there, and "True"?
pub fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).and_then(|c| c.str_at(&["status"])) == Some("True")
}
