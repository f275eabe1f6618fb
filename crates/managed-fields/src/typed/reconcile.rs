//! Sets from before a schema changed: what is owned as a whole now was owned by its parts then.

use object::deep;

use crate::path::PathElement;
use crate::schema::{Form, MapType, TypeRef};
use crate::set::{Entry, Set};

/// The set as the schema has it now; `None` if nothing changes. From whole to parts nothing is done: nobody knows which.
pub fn reconcile(set: &Set, ty: TypeRef<'_>) -> Option<Set> {
    match ty.resolve().first()? {
        Form::Scalar(_) => None,
        Form::List(list) if list.is_atomic() => None,
        Form::List(list) => below(set, &|_| Some(list.element)),
        Form::Map(map) if map.is_deduced() || map.atomic => None,
        Form::Map(map) => below(set, &|element| member(&map, element)),
    }
}

fn below<'s>(set: &Set, ty: &dyn Fn(&PathElement) -> Option<TypeRef<'s>>) -> Option<Set> {
    let mut changed: Option<Vec<Entry>> = None;
    for (i, entry) in set.entries().iter().enumerate() {
        // Without members below there is nothing that could be owned by parts.
        if entry.children.is_empty() {
            continue;
        }
        let Some(new) = ty(&entry.element).and_then(|ty| reconciled(entry, ty)) else { continue };
        changed.get_or_insert_with(|| set.entries().to_vec())[i] = new;
    }
    changed.map(Set::of_sorted)
}

fn reconciled(entry: &Entry, ty: TypeRef<'_>) -> Option<Entry> {
    let is_atomic = match ty.resolve().first()? {
        Form::Scalar(_) => return None,
        Form::List(list) => list.is_atomic(),
        Form::Map(map) => map.atomic && !map.is_deduced(),
    };
    let children = if is_atomic { Set::new() } else { deep(|| reconcile(&entry.children, ty))? };
    Some(Entry { element: entry.element.clone(), member: entry.member || is_atomic, children })
}

/// `None` for what is not in the schema.
fn member<'s>(map: &MapType<'s>, element: &PathElement) -> Option<TypeRef<'s>> {
    let ty = match element {
        PathElement::Field(name) => map.member(name.as_str()),
        _ => map.element,
    };
    (!ty.is_nothing()).then_some(ty)
}
