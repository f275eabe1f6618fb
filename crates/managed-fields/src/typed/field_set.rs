//! The set of fields a value has: every leaf, every element of a set or map, every member that is not a declared field.

use object::{Value, deep};

use super::items::groups;
use crate::path::{FieldName, PathElement};
use crate::schema::{Form, ListType, MapType, TypeRef};
use crate::set::{Entry, Set};

/// The fields of a valid value.
pub fn field_set(value: &Value, ty: TypeRef<'_>) -> Set {
    of_value(value, ty).below
}

/// What a value contributes: itself, what is below it.
pub(super) struct Fields {
    pub(super) own: bool,
    pub(super) below: Set,
}

impl Fields {
    pub(super) const NONE: Fields = Fields { own: false, below: Set::EMPTY };
    pub(super) const OWN: Fields = Fields { own: true, below: Set::EMPTY };

    fn below(below: Set) -> Fields {
        Fields { own: false, below }
    }
}

fn of_value(value: &Value, ty: TypeRef<'_>) -> Fields {
    match (ty.resolve().of_value(Some(value)).first(), value) {
        (Some(Form::Scalar(_)), _) => Fields::OWN,
        (Some(Form::List(list)), _) if list.is_atomic() => Fields::OWN,
        (Some(Form::Map(map)), _) if map.atomic => Fields::OWN,
        (Some(Form::List(list)), Value::List(items)) => Fields::below(deep(|| of_items(items, &list))),
        (Some(Form::Map(map)), Value::Map(_)) => Fields::below(deep(|| of_members(value, &map))),
        _ => Fields::NONE,
    }
}

fn of_items(items: &[Value], ty: &ListType<'_>) -> Set {
    let entries = groups(ty, items, |_, _| {}).into_iter().map(|group| Entry {
        // Duplicates are owned as one.
        children: match group.items[..] {
            [item] => of_value(item, ty.element).below,
            _ => Set::new(),
        },
        element: group.element,
        member: true,
    });
    Set::of_sorted(entries.collect())
}

fn of_members(value: &Value, ty: &MapType<'_>) -> Set {
    let Value::Map(map) = value else { return Set::new() };
    let mut entries = Vec::with_capacity(map.len());
    for (name, value) in map.iter() {
        let declared = ty.field(name);
        let fields = of_value(value, declared.unwrap_or(ty.element));
        let is_empty = match value {
            Value::Null => true,
            Value::Map(map) => map.is_empty(),
            _ => false,
        };
        entries.push(Entry {
            element: PathElement::Field(FieldName::from(name)),
            member: fields.own || is_empty || declared.is_none(),
            children: fields.below,
        });
    }
    sorted(entries)
}

/// A set of entries in any order, each element once.
pub(super) fn sorted(mut entries: Vec<Entry>) -> Set {
    entries.sort_unstable_by(|a, b| a.element.cmp(&b.element));
    Set::of_sorted(entries)
}
