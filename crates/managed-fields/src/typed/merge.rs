//! An applied configuration merged into a live object.
//!
//! Nothing is removed. Where both have a leaf, the configuration's counts. The elements of a list keep the live object's order
//! if the configuration does not say otherwise.

use catalog::Name;
use object::{Index, Map, Value, deep};

use super::compare::items_of;
use super::error::{Errors, ValidationErrors};
use super::items::{are_same, element_of};
use super::validate::wrong_scalar;
use crate::path::PathElement;
use crate::schema::{Atom, Form, ListType, MapType, TypeRef};

/// `live` with `config` merged into it, both valid. Members are the live object's, then the configuration's.
pub fn merge(live: &Value, config: &Value, ty: TypeRef<'_>) -> Result<Value, ValidationErrors> {
    let mut errors = Errors::default();
    let merged = values(Some(live), Some(config), ty, &mut errors);
    errors.finish()?;
    Ok(merged.unwrap_or(Value::Null))
}

fn values(
    live: Option<&Value>,
    config: Option<&Value>,
    ty: TypeRef<'_>,
    errors: &mut Errors,
) -> Option<Value> {
    // What only one has is taken as it is.
    if live.is_none() || config.is_none() {
        return live.or(config).cloned();
    }
    let atom = ty.resolve();
    let (live_atom, config_atom) = (atom.of_value(live), atom.of_value(config));
    if live_atom.same_kinds(&config_atom) {
        form(config_atom, live, config, errors)
    } else {
        form(live_atom, live, config, errors);
        form(config_atom, live, config, errors)
    }
}

fn form(atom: Atom<'_>, live: Option<&Value>, config: Option<&Value>, errors: &mut Errors) -> Option<Value> {
    match atom.first() {
        Some(Form::Scalar(scalar)) => {
            let wrong =
                |value: Option<&Value>, side| value.and_then(|value| wrong_scalar(scalar, value, side));
            if let (Some(live), Some(config)) = (wrong(live, "lhs: "), wrong(config, "rhs: ")) {
                errors.add(live);
                errors.add(config);
                return None;
            }
        }
        Some(Form::List(ty)) => {
            let (lives, configs) = (items_of(live), items_of(config));
            if !(ty.is_atomic() || lives.is_empty() && configs.is_empty()) {
                return deep(|| items(&ty, lives, configs, errors));
            }
        }
        Some(Form::Map(ty)) => {
            let full = |side: Option<&Value>| matches!(side, Some(Value::Map(map)) if !map.is_empty());
            if !ty.atomic && (full(live) || full(config)) {
                return deep(|| members(&ty, live, config, errors));
            }
        }
        None => {
            errors.add("schema error: invalid atom: inlined");
            return None;
        }
    }
    config.or(live).cloned()
}

fn members(
    ty: &MapType<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    errors: &mut Errors,
) -> Option<Value> {
    let (lives, configs) = (live.and_then(Value::as_map), config.and_then(Value::as_map));
    let mut out = Map::with_capacity(lives.map_or(0, Map::len).max(configs.map_or(0, Map::len)));
    let mut member = |name: &Name, live: Option<&Value>, config: Option<&Value>| {
        let merged =
            errors.below(format_args!(".{name}"), |errors| values(live, config, ty.member(name), errors));
        if let Some(merged) = merged {
            out.push(name.clone(), merged);
        }
    };
    let config_index = Index::of(config);
    for (name, live) in lives.into_iter().flat_map(Map::iter) {
        member(name, Some(live), config_index.get(name));
    }
    let live_index = Index::of(live);
    for (name, config) in configs.into_iter().flat_map(Map::iter) {
        if live_index.get(name).is_none() {
            member(name, None, Some(config));
        }
    }
    (!out.is_empty()).then_some(Value::Map(out))
}

/// The elements of one side.
struct Side<'v> {
    /// In the list's order.
    elements: Vec<PathElement>,
    /// Positions of the different elements, sorted by element.
    sorted: Vec<usize>,
    /// What the element at that position is merged as: a duplicate is merged with nothing.
    values: Vec<&'v Value>,
}

static NULL: Value = Value::Null;

impl<'v> Side<'v> {
    fn of(ty: &ListType<'_>, items: &'v [Value], duplicates: bool, errors: &mut Errors) -> Side<'v> {
        let mut elements = Vec::with_capacity(items.len());
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            match element_of(ty, item) {
                Ok(element) => {
                    elements.push(element);
                    values.push(item);
                }
                Err(why) => errors.add(format!("element {i}: {why}")),
            }
        }
        let mut sorted: Vec<usize> = (0..elements.len()).collect();
        // Stable: the first of equal ones stays the first.
        sorted.sort_by(|a, b| elements[*a].cmp(&elements[*b]));
        let mut again = Vec::new();
        sorted.dedup_by(|later, first| {
            let same = elements[*later] == elements[*first];
            if same {
                values[*first] = &NULL;
                again.push(*later);
            }
            same
        });
        if !duplicates {
            again.sort_unstable();
            for i in again {
                errors.add(format!("duplicate entries for key {}", elements[i]));
            }
        }
        Side { elements, sorted, values }
    }

    fn get(&self, element: &PathElement) -> Option<&'v Value> {
        let found = self.sorted.binary_search_by(|at| self.elements[*at].cmp(element)).ok()?;
        Some(self.values[self.sorted[found]])
    }
}

fn items(ty: &ListType<'_>, lives: &[Value], configs: &[Value], errors: &mut Errors) -> Option<Value> {
    // Most configurations are applied again.
    if are_same(ty, lives, configs) {
        let both = lives.iter().zip(configs);
        let merge = |(live, config)| values(Some(live), Some(config), ty.element, &mut Errors::default());
        let out: Vec<Value> = both.filter_map(merge).collect();
        return (!out.is_empty()).then_some(Value::List(out));
    }
    let mut wrong = Errors::default();
    let config = Side::of(ty, configs, false, &mut wrong);
    let live = Side::of(ty, lives, true, &mut wrong);
    if !wrong.is_empty() {
        errors.append(wrong);
        return None;
    }
    let mut out = Vec::with_capacity(lives.len().max(configs.len()));
    let mut item = |live: Option<&Value>, config: Option<&Value>| {
        // Upstream drops what it finds wrong in here; both sides were validated before.
        out.extend(values(live, config, ty.element, &mut Errors::default()));
    };
    // Elements of both, in the configuration's order: the order they shall have.
    let mut shared = config.elements.iter().filter(|element| live.get(element).is_some());
    let mut next_shared = shared.next();
    let mut merged = vec![false; config.elements.len()];
    let position = |element: &PathElement| {
        let found = config.sorted.binary_search_by(|at| config.elements[*at].cmp(element)).ok()?;
        Some(config.sorted[found])
    };
    let (mut i, mut j) = (0, 0);
    while i < live.elements.len() || j < config.elements.len() {
        if let (Some(element), Some(other)) = (live.elements.get(i), config.elements.get(j)) {
            if element == other {
                merged[j] = true;
                item(live.get(element), Some(config.values[j]));
                i += 1;
                j += 1;
                next_shared = shared.next();
                continue;
            }
            // Shared, but not the one that is next.
            if position(element).is_some() && next_shared.is_some_and(|next| next != element) {
                i += 1;
                continue;
            }
        }
        if let Some(element) = live.elements.get(i) {
            match position(element) {
                None => {
                    item(Some(&lives[i]), None);
                    i += 1;
                    continue;
                }
                Some(at) if merged[at] => i += 1,
                Some(_) => {}
            }
        }
        if let Some(element) = config.elements.get(j) {
            merged[j] = true;
            item(live.get(element), Some(config.values[j]));
            j += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::List(out))
}
