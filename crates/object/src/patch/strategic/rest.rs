//! What is left of a patch after it was applied: upstream removes directives from the patch while it follows them, and shows the
//! rest in its errors.
//!
//! ```text
//! {"$patch": "replace", "a": 1}                                   {"a": 1}
//! {"$retainKeys": ["type"], "type": "Recreate"}                   {"type": "Recreate"}
//! {"$setElementOrder/args": [..], "args": [..], "b": 1}           {"b": 1}
//! {"new": {"a": null, "b": {"$patch": "delete"}, "c": 1}}         {"new": {"c": 1}}   where there was no "new"
//! ```

use std::collections::{HashMap, HashSet};

use super::order::Key;
use super::work::Work;
use super::{
    DELETE_FROM, DIRECTIVE, Level, Member, RETAIN_KEYS, SET_ORDER, discard_nulls, target, without_directives,
};
use crate::{Map, Value, deep};

/// Of a patch that could be applied to this map. Once the work is more than it may be, the rest is shown as it came.
pub(super) fn of_map(level: Level<'_>, original: &Map, patch: &mut Map, work: &mut Work) {
    if work.spend(original.len() + patch.len()).is_err() {
        return;
    }
    if let Some(directive) = patch.get(DIRECTIVE) {
        if directive.as_str() == Some("replace") {
            patch.remove(DIRECTIVE);
        }
        return;
    }
    let kept = match patch.remove(RETAIN_KEYS) {
        Some(Value::List(list)) => Some(list),
        _ => None,
    };
    let kept: Option<HashSet<&str>> = kept.as_ref().map(|l| l.iter().filter_map(Value::as_str).collect());
    let original: HashMap<&str, &Value> = original
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(|(name, _)| kept.as_ref().is_none_or(|kept| kept.contains(name)))
        .collect();
    let ordered: HashSet<String> =
        patch.iter().filter_map(|(name, _)| target(name, SET_ORDER)).map(str::to_owned).collect();
    patch.retain(|name, _| !name.starts_with(SET_ORDER) && !ordered.contains(name.as_str()));
    for (name, value) in patch.iter_mut() {
        if name.starts_with(DELETE_FROM) || value.is_null() {
            continue;
        }
        let member = level.member(name);
        match (original.get(name.as_str()), value) {
            (Some(Value::Map(old)), Value::Map(new)) => {
                if !member.replaces() {
                    deep(|| of_map(member.level(), old, new, work));
                }
            }
            (Some(Value::List(old)), Value::List(new)) => {
                if let Some(key) = member.key().filter(|_| member.merges()) {
                    of_list(member, old, new, key, work);
                }
            }
            (_, value) => {
                discard_nulls(value);
                clean(value);
            }
        }
    }
}

/// Elements are merged into those of the same key; one with `$patch` stays as it is.
fn of_list(member: Member<'_>, original: &[Value], patch: &mut [Value], key: &str, work: &mut Work) {
    if work.spend(original.len() + patch.len()).is_err() {
        return;
    }
    let special = |element: &Value| element.get(DIRECTIVE).is_some();
    if patch.iter().any(|element| element.get(DIRECTIVE).and_then(Value::as_str) == Some("replace")) {
        return;
    }
    let key_of = |element: &Value| element.get(key).map(Key::of);
    let gone: HashSet<Key> = patch.iter().filter(|e| special(e)).filter_map(key_of).collect();
    let mut standing: HashMap<Key, &Map> = HashMap::with_capacity(original.len());
    for element in original {
        if let (Some(key), Value::Map(map)) = (key_of(element), element)
            && !gone.contains(&key)
        {
            standing.entry(key).or_insert(map);
        }
    }
    for element in patch {
        let old = key_of(element).filter(|_| !special(element)).and_then(|key| standing.get(&key));
        if let (Some(old), Value::Map(new)) = (old, element) {
            deep(|| of_map(member.element_level(), old, new, work));
        }
    }
}

/// A value taken as it is loses the maps with `$patch` inside its maps; what a list holds itself stays in view.
fn clean(value: &mut Value) {
    match value {
        Value::Map(map) if map.contains(DIRECTIVE) => {}
        Value::Map(_) => {
            let whole = std::mem::replace(value, Value::Null);
            *value = without_directives(whole).unwrap_or(Value::Null);
        }
        Value::List(list) => deep(|| list.iter_mut().for_each(clean)),
        _ => {}
    }
}
