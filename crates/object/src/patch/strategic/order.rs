//! The order of a merged list: `$setElementOrder` first, then the patch's order, then the live list's.

use std::collections::HashMap;

use catalog::Name;

use super::super::entries::Entries;
use super::work::Work;
use super::{
    DIRECTIVE, Level, SET_ORDER, lists, no_merge_key, not_a_list, not_a_map, print, target,
    without_directives,
};
use crate::{Map, Status, Value};

/// A scalar to compare by. Maps and lists are equal to nothing, so each is a key of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    Str(String),
    Other(String),
}

impl Key {
    pub fn of(value: &Value) -> Key {
        match value {
            Value::Null => Key::Null,
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(i) => Key::Int(*i),
            Value::Float(f) => Key::Float(f.to_bits()),
            Value::Str(text) => Key::Str(text.clone()),
            // Go would panic on comparing these; equal print is equal enough.
            other => Key::Other(print(other)),
        }
    }
    /// Of an element: its merge key, or itself where elements are scalars.
    fn of_element(element: &Value, key: Option<&str>) -> Key {
        match key {
            Some(key) => element.get(key).map_or(Key::Null, Key::of),
            None => Key::of(element),
        }
    }
}

/// Where each key first occurs in a list.
pub(super) struct Order {
    positions: HashMap<Key, usize>,
    /// The first element that has no merge key, which is an error once elements are sorted by it.
    keyless: Option<Value>,
}

impl Order {
    pub fn new<'a>(list: impl Iterator<Item = &'a Value>, key: Option<&str>) -> Order {
        let mut out = Order { positions: HashMap::new(), keyless: None };
        for (i, element) in list.enumerate() {
            out.positions.entry(Key::of_element(element, key)).or_insert(i);
            if let Some(key) = key
                && out.keyless.is_none()
                && element.get(key).is_none()
            {
                out.keyless = Some(element.clone());
            }
        }
        out
    }
    fn position(&self, key: &Key) -> Option<usize> {
        self.positions.get(key).copied()
    }
    fn check(&self, key: Option<&str>) -> Result<(), Status> {
        match (&self.keyless, key) {
            (Some(element), Some(key)) => Err(missing_key(element, key)),
            _ => Ok(()),
        }
    }
}

/// Orders `merged`: elements of `wanted` as there, the others as in `server`, each of the others before the
/// first wanted one that the server had after it.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &Order,
    server: &Order,
    key: Option<&str>,
) -> Result<Vec<Value>, Status> {
    let mut asked = Vec::new();
    let mut others = Vec::new();
    for element in merged {
        if let Some(key) = key
            && element.get(key).is_none()
        {
            return Err(missing_key(&element, key));
        }
        let by = Key::of_element(&element, key);
        if wanted.position(&by).is_some() { asked.push((by, element)) } else { others.push((by, element)) }
    }
    wanted.check(key)?;
    server.check(key)?;
    asked.sort_by_key(|(by, _)| wanted.position(by));
    others.sort_by_key(|(by, _)| server.position(by).unwrap_or(usize::MAX));

    let mut out = Vec::with_capacity(asked.len() + others.len());
    let mut asked = asked.into_iter().peekable();
    for (by, element) in others {
        while let Some((next, _)) = asked.peek() {
            if matches!((server.position(&by), server.position(next)), (Some(here), Some(there)) if here < there)
            {
                break;
            }
            out.extend(asked.next().map(|(_, element)| element));
        }
        out.push(element);
    }
    out.extend(asked.map(|(_, element)| element));
    Ok(out)
}

/// Takes every `$setElementOrder/x` and its `x` out of the patch, and leaves `x` of `original` merged and ordered.
pub(super) fn apply_set_order(
    level: Level<'_>,
    original: &mut Entries,
    patch: Map,
    work: &mut Work,
) -> Result<Map, Status> {
    if !patch.iter().any(|(name, _)| name.starts_with(SET_ORDER)) {
        return Ok(patch);
    }
    let mut orders = Vec::new();
    let mut rest = Map::with_capacity(patch.len());
    for (name, value) in patch {
        if name.starts_with(SET_ORDER) { orders.push((name, value)) } else { rest.push(name, value) }
    }
    let mut rest = Entries::open(rest);
    for (name, wanted) in orders {
        let Value::List(wanted) = wanted else { return Err(not_a_list(&wanted)) };
        let field = target(&name, SET_ORDER)
            .ok_or_else(|| Status::bad_request("invalid patch format of setElementOrder list"))?;
        set_order(level, original, &mut rest, field, &wanted, work)?;
    }
    Ok(rest.close())
}

fn set_order(
    level: Level<'_>,
    original: &mut Entries,
    patch: &mut Entries,
    field: &str,
    wanted: &[Value],
    work: &mut Work,
) -> Result<(), Status> {
    for side in [original.get(field), patch.get(field)].into_iter().flatten() {
        if !matches!(side, Value::List(_)) {
            return Err(not_a_list(side));
        }
    }
    let member = level.known_member(field)?;
    let key = member.key();
    let (old, new) = (original.remove(field).map(into_list), patch.remove(field).map(into_list));
    work.spend(wanted.len() + old.as_ref().map_or(0, Vec::len) + new.as_ref().map_or(0, Vec::len))?;
    check_patch_follows_order(new.as_deref().unwrap_or_default(), wanted, key)?;
    let server = Order::new(old.as_deref().unwrap_or_default().iter(), key);
    if old.is_some() || new.is_some() {
        lists::of_maps(old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default())?;
    }
    let merged = match (old, new) {
        (None, None) => return Ok(()),
        (Some(old), None) => old,
        (None, Some(new)) => into_list(without_directives(Value::List(new)).unwrap_or(Value::Null)),
        (Some(old), Some(new)) if member.merges() => lists::merge(member, old, new, false, work)?,
        (Some(_), Some(new)) => new,
    };
    if let (Some(_), Some(at)) = (key, wanted.iter().position(|v| !matches!(v, Value::Map(_)))) {
        return Err(Status::unknown(format!("value for key {at} is not a map")));
    }
    let merged = arrange(merged, &Order::new(wanted.iter(), key), &server, key)?;
    original.set(Name::from(field.to_owned()), Value::List(merged));
    Ok(())
}

/// What the patch adds or changes must be listed, in the same relative order; deletions need not be.
fn check_patch_follows_order(patch: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), Status> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut positions = wanted.iter();
    for element in patch {
        if key.is_some() && !matches!(element, Value::Map(_)) {
            return Err(not_a_map(element));
        }
        // Deletions come after everything else; another directive must not.
        let directive = element.get(DIRECTIVE);
        if directive.is_some_and(|d| positions.len() > 0 || d.as_str() == Some("delete")) {
            continue;
        }
        let listed = loop {
            let Some(position) = positions.next() else { break false };
            if let Some(key) = key {
                for side in [element, position] {
                    if side.get(key).is_none() {
                        return Err(missing_key(side, key));
                    }
                }
            }
            if Key::of_element(element, key) == Key::of_element(position, key) {
                break true;
            }
        };
        if !listed {
            let [patch, wanted] = [patch, wanted].map(|list| print(&Value::List(list.to_vec())));
            return Err(Status::unknown(format!(
                "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{wanted}\n"
            )));
        }
    }
    Ok(())
}

fn missing_key(element: &Value, key: &str) -> Status {
    if matches!(element, Value::Map(_)) { no_merge_key(element, key) } else { not_a_map(element) }
}

fn into_list(value: Value) -> Vec<Value> {
    match value {
        Value::List(list) => list,
        _ => Vec::new(),
    }
}
