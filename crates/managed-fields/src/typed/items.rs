//! Elements of associative lists and the path elements they are known by.

use std::cmp::Ordering;

use catalog::Name;
use object::Value;

use crate::path::{FieldName, PathElement};
use crate::schema::{ListRelation, ListType};
use crate::values::compare;

/// The path element of an item; why it has none.
pub(super) fn element_of(list: &ListType<'_>, item: &Value) -> Result<PathElement, String> {
    match list.relation {
        ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelation::Set => set_element(item),
        ListRelation::Map([]) => set_element(item),
        ListRelation::Map(keys) => keyed_element(list, keys, item),
    }
}

/// As [`element_of`], when only the reason is of interest. Nearly all items have a key, and nothing is allocated.
pub(super) fn check(list: &ListType<'_>, item: &Value) -> Result<(), String> {
    let known = match (list.relation, item) {
        (ListRelation::Map(keys), Value::Map(map)) => keys.iter().any(|key| map.contains(key)),
        (ListRelation::Set, item) => !matches!(item, Value::Map(_) | Value::List(_) | Value::Null),
        _ => false,
    };
    if known { Ok(()) } else { element_of(list, item).map(drop) }
}

/// Whether two items have the same path element; both have one.
fn is_same(list: &ListType<'_>, a: &Value, b: &Value) -> bool {
    match list.relation {
        ListRelation::Map(keys) if !keys.is_empty() => keys.iter().all(|key| {
            match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => compare(a, b) == Ordering::Equal,
                (None, None) => true,
                // One of them may have what is the other's default.
                _ => element_of(list, a).ok() == element_of(list, b).ok(),
            }
        }),
        _ => compare(a, b) == Ordering::Equal,
    }
}

/// So many items are compared with each other; for more it is better to sort their path elements.
const FEW: usize = 16;

/// Whether the items of both lists are the same in the same order, as far as their path elements go, none of them twice.
/// False for long lists, too.
pub(super) fn are_same(list: &ListType<'_>, a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len()
        && a.len() <= FEW
        && a.iter().chain(b).all(|item| check(list, item).is_ok())
        && a.iter().zip(b).all(|(a, b)| is_same(list, a, b))
        && !has_duplicates(list, a)
}

fn has_duplicates(list: &ListType<'_>, items: &[Value]) -> bool {
    (1..items.len()).any(|i| repeats(list, &items[..i], &items[i]))
}

fn repeats(list: &ListType<'_>, before: &[Value], item: &Value) -> bool {
    before.iter().any(|other| is_same(list, other, item))
}

/// The positions of items that were there before, sorted; all items have a path element.
pub(super) fn repeated(list: &ListType<'_>, items: &[Value]) -> Vec<usize> {
    if items.len() <= FEW {
        return (1..items.len()).filter(|i| repeats(list, &items[..*i], &items[*i])).collect();
    }
    let mut elements: Vec<(PathElement, usize)> = items
        .iter()
        .enumerate()
        .filter_map(|(i, item)| element_of(list, item).ok().map(|element| (element, i)))
        .collect();
    elements.sort();
    let pairs = elements.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    let mut out: Vec<usize> = pairs.map(|pair| pair[1].1).collect();
    out.sort_unstable();
    out
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    let wrong = match item {
        Value::Map(_) => "associative list without keys has an element that's a map type",
        Value::List(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(PathElement::value(scalar.clone())),
    };
    Err(wrong.to_owned())
}

fn keyed_element(list: &ListType<'_>, keys: &[Name], item: &Value) -> Result<PathElement, String> {
    let map = match item {
        Value::Map(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut fields = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(value) = map.get(key) {
            fields.push((FieldName::from(key), value.clone()));
            continue;
        }
        let Some(element) = list.element.resolve().map else {
            let why = "associative list may not have non-map types";
            return Err(format!("couldn't find default value for {key}: {why}"));
        };
        // A key without a value or default is left out: with it, it would be another element.
        if let Some(default) = element.default_of(key) {
            fields.push((FieldName::from(key), default));
        }
    }
    if fields.is_empty() {
        let quoted: Vec<_> = keys.iter().map(|key| object::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            quoted.join(" ")
        ));
    }
    Ok(PathElement::key(fields))
}

/// The items of a list with one path element.
pub(super) struct Group<'v> {
    pub(super) element: PathElement,
    /// In the order of the list; at least one.
    pub(super) items: Vec<&'v Value>,
}

/// Items by their path elements, sorted; `wrong` hears of those without.
pub(super) fn groups<'v>(
    list: &ListType<'_>,
    items: &'v [Value],
    mut wrong: impl FnMut(usize, String),
) -> Vec<Group<'v>> {
    let mut found: Vec<(PathElement, &'v Value)> = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        match element_of(list, item) {
            Ok(element) => found.push((element, item)),
            Err(why) => wrong(i, why),
        }
    }
    // Stable: equal ones stay in the list's order.
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out: Vec<Group<'v>> = Vec::with_capacity(found.len());
    for (element, item) in found {
        match out.last_mut() {
            Some(group) if group.element == element => group.items.push(item),
            _ => out.push(Group { element, items: vec![item] }),
        }
    }
    out
}
