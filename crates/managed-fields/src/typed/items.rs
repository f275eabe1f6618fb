//! Elements of associative lists and the path elements they are known by.

use catalog::Name;
use object::Value;

use crate::path::{FieldName, PathElement};
use crate::schema::{ListRelation, ListType};

/// The path element of an item; why it has none.
pub(super) fn element_of(list: &ListType<'_>, item: &Value) -> Result<PathElement, String> {
    match list.relation {
        ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelation::Set => set_element(item),
        ListRelation::Map([]) => set_element(item),
        ListRelation::Map(keys) => keyed_element(list, keys, item),
    }
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
