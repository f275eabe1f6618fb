//! What two values of one type differ in.

use object::{Index, Value, deep};

use super::error::{Errors, Lazy, ValidationErrors};
use super::field_set::sorted;
use super::items::{Group, are_same, element_of, groups};
use super::validate::wrong_scalar;
use crate::path::{FieldName, PathElement};
use crate::schema::{Atom, Form, ListType, MapType, Scalar, TypeRef};
use crate::set::{Entry, Filter, Set};
use crate::values::equal;

/// The difference between two values; no field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

impl Comparison {
    pub fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    pub(crate) fn filter(&mut self, filter: Option<&Filter>) {
        if let Some(filter) = filter {
            for set in [&mut self.removed, &mut self.modified, &mut self.added] {
                *set = filter.apply(set);
            }
        }
    }
}

pub fn compare(old: &Value, new: &Value, ty: TypeRef<'_>) -> Result<Comparison, ValidationErrors> {
    let mut errors = Errors::default();
    let found = values(Some(old), Some(new), ty, &mut errors);
    errors.finish()?;
    let [removed, modified, added] = found.below;
    Ok(Comparison { removed, modified, added })
}

const REMOVED: usize = 0;
const MODIFIED: usize = 1;
const ADDED: usize = 2;

/// What a pair of values contributes to the three sets: itself, what is below it.
#[derive(Default)]
struct Found {
    own: [bool; 3],
    below: [Set; 3],
}

/// The entries of one level of the three sets, in any order.
#[derive(Default)]
struct Level([Vec<Entry>; 3]);

impl Level {
    fn add(&mut self, element: impl Fn() -> PathElement, found: Found) {
        for (i, (member, children)) in found.own.into_iter().zip(found.below).enumerate() {
            if member || !children.is_empty() {
                self.0[i].push(Entry { element: element(), member, children });
            }
        }
    }

    /// Of the element that was added last, if it was.
    fn mark(&mut self, which: usize, element: &PathElement) {
        match self.0[which].last_mut() {
            Some(entry) if entry.element == *element => entry.member = true,
            _ => {
                self.0[which].push(Entry { element: element.clone(), member: true, children: Set::new() });
            }
        }
    }
}

fn values(old: Option<&Value>, new: Option<&Value>, ty: TypeRef<'_>, errors: &mut Errors) -> Found {
    let mut found = Found::default();
    let atom = ty.resolve();
    let (old_atom, new_atom) = (atom.of_value(old), atom.of_value(new));
    let is_leaf = if new.is_none() {
        form(old_atom, old, new, &mut found, errors)
    } else if old.is_none() || old_atom.same_kinds(&new_atom) {
        form(new_atom, old, new, &mut found, errors)
    } else {
        form(old_atom, old, new, &mut found, errors);
        form(new_atom, old, new, &mut found, errors)
    };
    if !is_leaf {
        found.own[ADDED] |= old.is_none();
        found.own[REMOVED] |= new.is_none();
    }
    found
}

/// Whether it is a leaf.
fn form(
    atom: Atom<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    found: &mut Found,
    errors: &mut Errors,
) -> bool {
    match atom.first() {
        Some(Form::Scalar(scalar)) => {
            if !is_scalar(scalar, old, new, errors) {
                return false;
            }
        }
        Some(Form::List(ty)) => {
            let (olds, news) = (items_of(old), items_of(new));
            if !(ty.is_atomic() || olds.is_empty() && news.is_empty()) {
                // Unchanged lists are the rule, and finding out who is who in them the most expensive part.
                let unchanged = matches!((old, new), (Some(old), Some(new)) if equal(old, new));
                if !unchanged {
                    deep(|| items(&ty, olds, news, found, errors));
                }
                return false;
            }
        }
        Some(Form::Map(ty)) => {
            let full = |side: Option<&Value>| matches!(side, Some(Value::Map(map)) if !map.is_empty());
            if !ty.atomic && (full(old) || full(new)) {
                deep(|| members(&ty, old, new, found, errors));
                return false;
            }
        }
        None => {
            errors.add("schema error: invalid atom: inlined");
            return false;
        }
    }
    match (old, new) {
        (None, _) => found.own[ADDED] = true,
        (_, None) => found.own[REMOVED] = true,
        (Some(old), Some(new)) => found.own[MODIFIED] |= !equal(old, new),
    }
    true
}

/// One of the two may be something else; not both.
fn is_scalar(scalar: Scalar, old: Option<&Value>, new: Option<&Value>, errors: &mut Errors) -> bool {
    let wrong = |value: Option<&Value>, side| value.and_then(|value| wrong_scalar(scalar, value, side));
    match (wrong(old, "lhs: "), wrong(new, "rhs: ")) {
        (Some(old), Some(new)) => {
            errors.add(old);
            errors.add(new);
            false
        }
        _ => true,
    }
}

pub(super) fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_list).unwrap_or_default()
}

fn members(
    ty: &MapType<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    found: &mut Found,
    errors: &mut Errors,
) {
    let mut level = Level::default();
    let mut member = |name: &catalog::Name, old: Option<&Value>, new: Option<&Value>| {
        let element = || PathElement::Field(FieldName::from(name));
        let ty = ty.member(name);
        let found = if matches!((old, new), (Some(Value::Str(a)), Some(Value::Str(b))) if a == b) {
            return;
        } else {
            errors.below(format_args!(".{name}"), |errors| values(old, new, ty, errors))
        };
        level.add(element, found);
    };
    let (olds, news) = (old.and_then(Value::as_map), new.and_then(Value::as_map));
    let new_index = Index::of(new);
    if let Some(olds) = olds {
        // Canonical trees have their members in one order: the next one is mostly the one that is looked for.
        let mut ahead = news.map(|news| news.iter().peekable());
        for (name, old) in olds.iter() {
            let next = ahead.as_mut().and_then(|ahead| ahead.next_if(|(other, _)| *other == name));
            let new = next.map(|(_, value)| value).or_else(|| new_index.get(name));
            member(name, Some(old), new);
        }
    }
    if let Some(news) = news {
        let old_index = Index::of(old);
        for (name, new) in news.iter().filter(|(name, _)| old_index.get(name).is_none()) {
            member(name, None, Some(new));
        }
    }
    join(found, level);
}

/// The found below are of this level; of two looks at one pair, as a scalar and as a map, both count.
fn join(found: &mut Found, level: Level) {
    for (set, entries) in found.below.iter_mut().zip(level.0) {
        if !entries.is_empty() {
            *set = set.union(&sorted(entries));
        }
    }
}

fn items(ty: &ListType<'_>, olds: &[Value], news: &[Value], found: &mut Found, errors: &mut Errors) {
    let mut level = Level::default();
    if are_same(ty, olds, news) {
        for (old, new) in olds.iter().zip(news) {
            // As an item has been found in both, it has its path element.
            let element = || element_of(ty, old).unwrap_or(PathElement::Index(0));
            let found =
                errors.below(Lazy(&element), |errors| values(Some(old), Some(new), ty.element, errors));
            level.add(element, found);
        }
        return join(found, level);
    }
    let olds = groups(ty, olds, |i, why| errors.add(format!("element {i}: {why}")));
    let news = groups(ty, news, |i, why| errors.add(format!("element {i}: {why}")));
    let (mut i, mut j) = (0, 0);
    while i < olds.len() || j < news.len() {
        use std::cmp::Ordering;
        let order = match (olds.get(i), news.get(j)) {
            (Some(old), Some(new)) => old.element.cmp(&new.element),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let old = (order != Ordering::Greater).then(|| &olds[i]);
        let new = (order != Ordering::Less).then(|| &news[j]);
        i += usize::from(old.is_some());
        j += usize::from(new.is_some());
        group(ty, old, new, &mut level, errors);
    }
    join(found, level);
}

fn group(
    ty: &ListType<'_>,
    old: Option<&Group<'_>>,
    new: Option<&Group<'_>>,
    level: &mut Level,
    errors: &mut Errors,
) {
    let Some(element) = old.or(new).map(|group| &group.element) else { return };
    let (olds, news) = (old.map_or(&[][..], |g| &g.items), new.map_or(&[][..], |g| &g.items));
    let mut item = |level: &mut Level, old: Option<&Value>, new: Option<&Value>| {
        let found = errors.below(element, |errors| values(old, new, ty.element, errors));
        level.add(|| element.clone(), found);
    };
    match (olds, news) {
        (_, _) if olds.len() <= 1 && news.len() <= 1 => {
            item(level, olds.first().copied(), news.first().copied());
        }
        // Duplicates before and after are compared as a whole.
        (_, _) if olds.len() >= 2 && news.len() >= 2 => {
            let same = olds.len() == news.len() && olds.iter().zip(news).all(|(old, new)| equal(old, new));
            if !same {
                level.mark(MODIFIED, element);
            }
        }
        // No duplicates any more: the one that is left is new, field by field.
        (_, _) if olds.len() >= 2 => {
            if let Some(new) = news.first() {
                item(level, None, Some(new));
            }
            level.mark(REMOVED, element);
        }
        (_, _) => {
            if let Some(old) = olds.first() {
                item(level, Some(old), None);
            }
            level.mark(ADDED, element);
        }
    }
}
