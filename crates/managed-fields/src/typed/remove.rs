//! A value without some of its items, or with nothing but them.

use object::{Map, Value, deep, discard};

use super::field_set::field_set;
use super::items::element_of;
use crate::path::PathElement;
use crate::schema::{Form, ListType, MapType, TypeRef};
use crate::set::Set;

/// Takes the members of `set` out of `value`; what has nothing left is null.
pub fn remove_items(value: &mut Value, set: &Set, ty: TypeRef<'_>) {
    match (ty.resolve().of_value(Some(value)).first(), &mut *value) {
        (Some(Form::Scalar(_)), _) => {}
        (Some(Form::List(list)), Value::List(items)) if !items.is_empty() && !list.is_atomic() => {
            deep(|| remove_from_list(items, set, &list));
            if items.is_empty() {
                *value = Value::Null;
            }
        }
        (Some(Form::Map(map)), Value::Map(members)) if !members.is_empty() && !map.atomic => {
            deep(|| remove_from_map(members, set, &map));
            if members.is_empty() {
                *value = Value::Null;
            }
        }
        _ => discard(std::mem::replace(value, Value::Null)),
    }
}

fn remove_from_list(items: &mut Vec<Value>, set: &Set, ty: &ListType<'_>) {
    items.retain_mut(|item| {
        let Some(entry) = element_of(ty, item).ok().and_then(|element| set.find(&element)) else {
            return true;
        };
        if !entry.member && !entry.children.is_empty() {
            remove_items(item, &entry.children, ty.element);
        }
        !entry.member
    });
}

fn remove_from_map(members: &mut Map, set: &Set, ty: &MapType<'_>) {
    members.retain(|name, value| {
        let Some(entry) = set.find_field(name) else { return true };
        if !entry.member && !entry.children.is_empty() {
            remove_items(value, &entry.children, ty.member(name));
        }
        !entry.member
    });
}

/// A value with nothing but the members of `set`.
pub fn extract_items(value: &Value, set: &Set, ty: TypeRef<'_>) -> Value {
    match (ty.resolve().of_value(Some(value)).first(), value) {
        (Some(Form::Scalar(_)), value) => value.clone(),
        (Some(Form::List(list)), Value::List(items)) if !items.is_empty() && !list.is_atomic() => {
            deep(|| extract_from_list(items, set, &list))
        }
        (Some(Form::Map(map)), Value::Map(members)) if !members.is_empty() && !map.atomic => {
            deep(|| extract_from_map(members, set, &map))
        }
        (Some(Form::List(_)), Value::List(_)) | (Some(Form::Map(_)), Value::Map(_)) => value.clone(),
        _ => Value::Null,
    }
}

fn extract_from_list(items: &[Value], set: &Set, ty: &ListType<'_>) -> Value {
    let mut out = Vec::new();
    for item in items {
        let Some(entry) = element_of(ty, item).ok().and_then(|element| set.find(&element)) else { continue };
        out.push(if entry.children.is_empty() {
            item.clone()
        } else {
            extract_items(item, &entry.children, ty.element)
        });
    }
    if out.is_empty() { Value::Null } else { Value::List(out) }
}

fn extract_from_map(members: &Map, set: &Set, ty: &MapType<'_>) -> Value {
    let mut out = Map::default();
    for (name, value) in members.iter() {
        let Some(entry) = set.find_field(name) else { continue };
        // Of a member upstream goes on with the set itself, not with what is below the member: nearly always nothing is
        // found there, and the member stays empty unless it is a leaf.
        let set = if entry.member { set } else { &entry.children };
        out.push(name.clone(), extract_items(value, set, ty.member(name)));
    }
    if out.is_empty() { Value::Null } else { Value::Map(out) }
}

/// As [`extract_items`], with the keys of every element of a list on the way.
pub fn extract_items_and_keys(value: &Value, set: &Set, ty: TypeRef<'_>) -> Value {
    let has = field_set(value, ty);
    let mut all = set.clone();
    set.for_each(&mut |path| {
        if !has.has(path) {
            return;
        }
        for (i, element) in path.iter().enumerate() {
            let PathElement::Key(fields) = element else { continue };
            for (name, _) in fields.iter() {
                let mut key = path[..=i].to_vec();
                key.push(PathElement::Field(name.clone()));
                all.insert(&key);
            }
        }
    });
    extract_items(value, &all, ty)
}
