//! Equality that ignores what encoding would not show: the order of members, nulls, empty lists and maps.

use catalog::{Name, Schema, Shape, Storage, TypeId};
use object::quantity::Quantity;
use object::{Map, Value, deep};

/// Upstream's "semantic" equality of two members that may be absent.
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    // Maps are compared by their members; checking for emptiness first would visit every level once for each level above it.
    if let (Some(Value::Map(a)), Some(Value::Map(b))) = (a, b) {
        return deep(|| same_maps(a, b, &[]));
    }
    match (present(a), present(b)) {
        (None, None) => true,
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.len() == b.len() && deep(|| a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b))))
        }
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The type of a field of a kind, which defines equality of its values.
///
/// Upstream compares Go values: a pointer to an empty struct is not nil, while an empty list or map equals an absent one.
/// A tree shows both as an empty value; only the type distinguishes them.
pub(crate) struct FieldType<'a> {
    types: &'a Schema,
    /// The type of the field, and whether it is a pointer; `None` if there is no such field.
    shape: Option<(&'a Shape, bool)>,
    /// The kind itself, which is no field.
    whole: Option<TypeId>,
}

impl<'a> FieldType<'a> {
    /// `[]` in the path is an element of the list there.
    pub(crate) fn of(storage: &'a Storage, path: &[&str]) -> FieldType<'a> {
        let types = &*storage.types;
        let Some((first, rest)) = path.split_first() else {
            return FieldType { types, shape: None, whole: Some(storage.ty) };
        };
        let field = |ty: TypeId, name: &str| types.get(ty).field(name).map(|(_, f)| (&f.shape, f.pointer));
        let shape = rest.iter().fold(field(storage.ty, first), |at, name| match at? {
            (Shape::List(of) | Shape::Map(of), _) if *name == "[]" => Some((&**of, false)),
            (Shape::Struct(ty), _) => field(*ty, name),
            _ => None,
        });
        FieldType { types, shape, whole: None }
    }

    /// Upstream's "semantic" equality of two values here that may be absent.
    pub(crate) fn same(&self, a: Option<&Value>, b: Option<&Value>) -> bool {
        self.compare(a, b, false)
    }

    /// As [`FieldType::same`], but an empty list or map is not an absent one.
    pub(crate) fn identical(&self, a: Option<&Value>, b: Option<&Value>) -> bool {
        self.compare(a, b, true)
    }

    /// As [`FieldType::same`] of two structs, without these members.
    pub(crate) fn same_but(&self, a: &Value, b: &Value, without: &[&str]) -> bool {
        let ty = match self.shape {
            Some((Shape::Struct(ty), _)) => Some(*ty),
            _ => self.whole,
        };
        match ty {
            Some(ty) => Walk { types: self.types, exact: false }.structs(ty, Some(a), Some(b), without),
            None => same_but(a, b, without),
        }
    }

    fn compare(&self, a: Option<&Value>, b: Option<&Value>, exact: bool) -> bool {
        let walk = Walk { types: self.types, exact };
        match (self.shape, self.whole) {
            (Some((shape, pointer)), _) => walk.values(shape, pointer, a, b),
            (None, Some(ty)) => walk.structs(ty, a, b, &[]),
            (None, None) => same(a, b),
        }
    }
}

/// Two trees of a type, walked side by side.
#[derive(Clone, Copy)]
struct Walk<'a> {
    types: &'a Schema,
    exact: bool,
}

impl Walk<'_> {
    fn values(self, shape: &Shape, pointer: bool, a: Option<&Value>, b: Option<&Value>) -> bool {
        let (a, b) = (a.filter(|v| !v.is_null()), b.filter(|v| !v.is_null()));
        if pointer && a.is_some() != b.is_some() {
            return false;
        }
        let uneven = self.exact && a.is_some() != b.is_some();
        match shape {
            Shape::Struct(ty) => deep(|| self.structs(*ty, a, b, &[])),
            Shape::List(of) => {
                let (x, y) = (list(a), list(b));
                !uneven
                    && x.len() == y.len()
                    && deep(|| x.iter().zip(y).all(|(x, y)| self.values(of, false, Some(x), Some(y))))
            }
            Shape::Map(of) => {
                let (mut x, mut y) = (by_place(a), by_place(b));
                // Canonical trees have the same members in the same order: then one walk is enough.
                if x.iter().zip(&y).any(|(x, y)| x.0 != y.0) {
                    x.sort_by_key(|(name, _)| *name);
                    y.sort_by_key(|(name, _)| *name);
                }
                let alike = |((n, x), (m, y)): (&Member<'_>, &Member<'_>)| {
                    n == m && self.values(of, false, Some(x), Some(y))
                };
                !uneven && x.len() == y.len() && deep(|| x.iter().zip(&y).all(alike))
            }
            Shape::Quantity => match (a, b) {
                (Some(a), Some(b)) => a == b || amount(a).is_some_and(|x| amount(b) == Some(x)),
                (a, b) => a.or(b).is_none_or(|v| v.as_str() == Some("0") || is_zero(v)),
            },
            _ => match (a, b) {
                (Some(a), Some(b)) => a == b,
                (a, b) => a.or(b).is_none_or(is_zero),
            },
        }
    }

    /// Members of either; one that is absent is zero unless it is a pointer.
    fn structs(self, ty: TypeId, a: Option<&Value>, b: Option<&Value>, without: &[&str]) -> bool {
        let ty = self.types.get(ty);
        let (x, y) = (members(a), members(b));
        let one = |name: &str, x: Option<&Value>, y: Option<&Value>| match ty.field(name) {
            Some((_, field)) => self.values(&field.shape, field.pointer, x, y),
            None => same(x, y),
        };
        let ours = x.into_iter().flat_map(Map::iter).filter(|(name, _)| !without.contains(&&***name));
        let theirs = y.into_iter().flat_map(Map::iter).filter(|(name, _)| !without.contains(&&***name));
        let (in_x, in_y) =
            (|name: &str| x.and_then(|x| x.get(name)), |name: &str| y.and_then(|y| y.get(name)));
        ours.into_iter().all(|(name, value)| one(name, Some(value), in_y(name)))
            && theirs
                .into_iter()
                .filter(|(name, _)| in_x(name).is_none())
                .all(|(name, value)| one(name, None, Some(value)))
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_list).unwrap_or_default()
}

fn members(value: Option<&Value>) -> Option<&Map> {
    value.and_then(Value::as_map)
}

type Member<'a> = (&'a Name, &'a Value);

fn by_place(value: Option<&Value>) -> Vec<Member<'_>> {
    members(value).into_iter().flat_map(Map::iter).collect()
}

/// The members that encoding would show, sorted.
fn by_name<'a>(map: &'a Map, without: &[&str]) -> Vec<Member<'a>> {
    let shown = |(name, value): &Member<'_>| !without.contains(&&***name) && present(Some(value)).is_some();
    let mut members: Vec<_> = map.iter().filter(shown).collect();
    members.sort_by_key(|(name, _)| *name);
    members
}

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// What Go holds by value where nothing was written.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Str(text) => text.is_empty(),
        _ => false,
    }
}

/// As [`same`] on two objects, without these members at the top.
pub(crate) fn same_but(a: &Value, b: &Value, without: &[&str]) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => same_maps(a, b, without),
        _ => a == b,
    }
}

fn same_maps(a: &Map, b: &Map, without: &[&str]) -> bool {
    // Canonical trees have the same members in the same order: then one walk is enough.
    if a.len() == b.len() && a.iter().zip(b.iter()).all(|((n, _), (m, _))| n == m) {
        return a
            .iter()
            .zip(b.iter())
            .all(|((n, v), (_, w))| without.contains(&&**n) || same(Some(v), Some(w)));
    }
    // Sorted, because to look up each name among all would cost the product of two large maps.
    let (a, b) = (by_name(a, without), by_name(b, without));
    a.len() == b.len() && a.iter().zip(&b).all(|((n, v), (m, w))| n == m && same(Some(v), Some(w)))
}

/// `None` for what Go would leave out or write as null. A map whose members are all absent counts as one:
/// the struct held by value that one side did not write.
fn present(value: Option<&Value>) -> Option<&Value> {
    match value? {
        Value::Null => None,
        Value::List(l) if l.is_empty() => None,
        Value::Map(m) if deep(|| m.iter().all(|(_, v)| present(Some(v)).is_none())) => None,
        value => Some(value),
    }
}
