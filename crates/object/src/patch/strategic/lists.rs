//! Lists that merge: elements with a key into those with the same key, scalars as a set.

use std::collections::{HashMap, HashSet};

use super::order::{self, Key};
use super::work::Work;
use super::{DIRECTIVE, Member, bad_directive, merge_maps, no_merge_key, print, type_name};
use crate::{Map, Status, Value, deep};

/// Merges `patch` into `original`; with `deletes`, scalars of `patch` are removed from it instead.
pub(super) fn merge(
    member: Member<'_>,
    original: Vec<Value>,
    patch: Vec<Value>,
    deletes: bool,
    work: &mut Work,
) -> Result<Vec<Value>, Status> {
    work.spend(original.len() + patch.len())?;
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !of_maps(&original, &patch)? {
        if deletes {
            let gone: HashSet<Key> = patch.iter().map(Key::of).collect();
            return Ok(original.into_iter().filter(|v| !gone.contains(&Key::of(v))).collect());
        }
        let server = order::Order::new(original.iter(), None);
        let wanted = order::Order::new(patch.iter(), None);
        let mut seen = HashSet::new();
        let merged = original.into_iter().chain(patch).filter(|v| seen.insert(Key::of(v))).collect();
        return order::arrange(merged, &wanted, &server, member.key());
    }
    let Some(key) = member.key() else {
        return Err(Status::unknown("cannot merge lists without merge key for struct"));
    };
    let (original, patch) = apply_special_elements(original, patch, key)?;
    let server = order::Order::new(original.iter(), Some(key));
    let wanted = order::Order::new(patch.iter(), Some(key));
    let merged = merge_elements(member, original, patch, key, work)?;
    order::arrange(merged, &wanted, &server, Some(key))
}

/// Whether the elements are maps. All must be of one type, and lists of lists do not merge.
pub(super) fn of_maps(original: &[Value], patch: &[Value]) -> Result<bool, Status> {
    let mut elements = original.iter().chain(patch);
    let Some(first) = elements.next() else {
        return Err(Status::unknown("no elements in any of the given slices"));
    };
    if matches!(first, Value::List(_)) {
        return Err(Status::unprocessable());
    }
    if first.is_null() || elements.any(|v| type_name(v) != type_name(first)) {
        let [original, patch] = [original, patch].map(|list| print(&Value::List(list.to_vec())));
        return Err(Status::unknown(format!("list element types are not identical: [{original} {patch}]")));
    }
    Ok(matches!(first, Value::Map(_)))
}

/// Elements with `$patch` act on the list and vanish: `delete` removes the elements of the same key,
/// `replace` makes the other elements of the patch the whole list.
fn apply_special_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Status> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut gone = HashSet::new();
    let mut replace = false;
    for element in patch {
        let Some(directive) = element.get(DIRECTIVE) else {
            plain.push(element);
            continue;
        };
        match directive.as_str() {
            Some("delete") => match element.get(key) {
                Some(value) => drop(gone.insert(Key::of(value))),
                None => return Err(no_merge_key(&element, key)),
            },
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Status::unknown("merging lists cannot yet be specified in the patch"));
            }
            _ => {
                let directive = directive.clone();
                return Err(bad_directive(&directive, into_map(element)));
            }
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !gone.is_empty() {
        original.retain(|element| element.get(key).is_none_or(|value| !gone.contains(&Key::of(value))));
    }
    Ok((original, plain))
}

fn merge_elements(
    member: Member<'_>,
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    work: &mut Work,
) -> Result<Vec<Value>, Status> {
    let mut positions: HashMap<Key, usize> = HashMap::with_capacity(original.len());
    for (i, element) in original.iter().enumerate() {
        if let Some(value) = element.get(key) {
            positions.entry(Key::of(value)).or_insert(i);
        }
    }
    for element in patch {
        let Some(value) = element.get(key) else {
            return Err(no_merge_key(&element, key));
        };
        let value = Key::of(value);
        match positions.get(&value) {
            Some(at) => {
                let old = into_map(std::mem::replace(&mut original[*at], Value::Null));
                let merged = deep(|| merge_maps(member.element_level(), old, into_map(element), work))?;
                original[*at] = Value::Map(merged);
            }
            None => {
                positions.insert(value, original.len());
                original.push(element);
            }
        }
    }
    Ok(original)
}

/// For elements already seen to be maps.
fn into_map(value: Value) -> Map {
    match value {
        Value::Map(map) => map,
        _ => Map::default(),
    }
}
