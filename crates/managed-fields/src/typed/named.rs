//! Sets that also have the declared fields above their members.

use object::deep;

use crate::path::PathElement;
use crate::schema::{Atom, TypeRef};
use crate::set::{Entry, Set};

/// The set, and every declared field that has a member below: who owns `.spec.replicas` has `.spec` with it, but not the
/// element of a list or map around it.
pub fn with_named_fields(set: &Set, ty: TypeRef<'_>) -> Set {
    if set.entries().iter().all(|entry| entry.children.is_empty()) {
        return set.clone();
    }
    let atom = ty.resolve();
    let named = |entry: &Entry| {
        if entry.children.is_empty() {
            return entry.clone();
        }
        let (declared, ty) = step(&atom, &entry.element);
        Entry {
            element: entry.element.clone(),
            member: entry.member || declared,
            children: deep(|| with_named_fields(&entry.children, ty)),
        }
    };
    Set::of_sorted(set.entries().iter().map(named).collect())
}

/// Whether the element is a declared field, and the type below it.
fn step<'s>(atom: &Atom<'s>, element: &PathElement) -> (bool, TypeRef<'s>) {
    match (element, &atom.map, &atom.list) {
        (PathElement::Field(name), Some(map), _) => match map.field(name.as_str()) {
            Some(ty) => (true, ty),
            None => (false, map.element),
        },
        (PathElement::Key(_), _, Some(list)) => (false, list.element),
        _ => (false, TypeRef::NOTHING),
    }
}
