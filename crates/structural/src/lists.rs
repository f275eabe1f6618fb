//! Lists that are sets or maps: no element twice.

use std::collections::HashMap;

use object::{FieldError, FieldErrorKind, Map, Value, deep};

use crate::at::At;
use crate::node::{Flags, ListType, NodeData, NodeId, Structural};
use crate::show::{json, show};

/// Up to so many elements are compared with each other; more are looked up.
const COMPARED: usize = 16;

impl Structural {
    /// The duplicates in the sets and maps of an object.
    pub fn validate_lists(&self, value: &Value, errors: &mut Vec<FieldError>) {
        self.validate_lists_at(self.root, value, &At::Root, errors);
    }

    /// The same of an update: an object that was wrong before may stay so.
    pub fn validate_lists_update(&self, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        if !self.node(self.root).flags.has(Flags::LISTS_BELOW) {
            return;
        }
        let before = errors.len();
        self.validate_lists(new, errors);
        if errors.len() > before {
            let mut known = Vec::new();
            self.validate_lists(old, &mut known);
            if !known.is_empty() {
                errors.truncate(before);
            }
        }
    }

    fn validate_lists_at(&self, id: NodeId, value: &Value, at: &At<'_>, errors: &mut Vec<FieldError>) {
        let node = self.node(id);
        if !node.flags.has(Flags::LISTS_BELOW) {
            return;
        }
        match value {
            Value::Map(map) => deep(|| {
                let mut next = 0;
                for (name, member) in map.iter() {
                    if let Some(property) = self.property(node, name, &mut next) {
                        self.validate_lists_at(property, member, &At::Child(at, name), errors);
                    } else if let Some(schema) = node.additional.some() {
                        self.validate_lists_at(schema, member, &At::Key(at, name), errors);
                    }
                }
            }),
            Value::List(list) => {
                match node.list {
                    ListType::Set => {
                        for i in repeated(list.iter().map(Key::Whole).collect()) {
                            errors.push(duplicate(&At::Index(at, i), show(&list[i])));
                        }
                    }
                    ListType::Map => check_map(node, list, at, errors),
                    ListType::None | ListType::Atomic => {}
                }
                let Some(items) = node.items.some() else { return };
                deep(|| {
                    for (i, item) in list.iter().enumerate() {
                        self.validate_lists_at(items, item, &At::Index(at, i), errors);
                    }
                });
            }
            _ => {}
        }
    }
}

fn duplicate(at: &At<'_>, shown: String) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Duplicate,
        field: at.to_string(),
        bad_value: shown,
        detail: String::new(),
    }
}

fn check_map(node: &NodeData, list: &[Value], at: &At<'_>, errors: &mut Vec<FieldError>) {
    let odd = |item: &&Value| !matches!(item, Value::Null | Value::Map(_));
    if let Some((i, item)) = list.iter().enumerate().find(|(_, item)| odd(item)) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(At::Index(at, i).to_string(), show(item), detail));
        return;
    }
    let names = node.keys();
    let keys = match names {
        // A single key that is absent is told from one that is null.
        [name] => list.iter().map(|item| item.get(name).map_or(Key::Absent, Key::Whole)).collect(),
        _ => {
            let key = |item: &Value| -> Map {
                names.iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect()
            };
            list.iter().map(|item| Key::Made(Value::Map(key(item)))).collect::<Vec<_>>()
        }
    };
    for i in repeated(keys) {
        let key: Map =
            names.iter().filter_map(|name| Some((name.clone(), list[i].get(name)?.clone()))).collect();
        errors.push(duplicate(&At::Index(at, i), json(&Value::Map(key))));
    }
}

/// What tells an element from others.
#[derive(Clone)]
enum Key<'v> {
    Absent,
    Whole(&'v Value),
    Made(Value),
}

impl Key<'_> {
    fn value(&self) -> Option<&Value> {
        match self {
            Key::Absent => None,
            Key::Whole(value) => Some(value),
            Key::Made(value) => Some(value),
        }
    }
    /// Numbers of different types differ, unless they are inside of something, which is compared as text.
    fn is(&self, other: &Key<'_>) -> bool {
        match (self.value(), other.value()) {
            (None, None) => true,
            (Some(a @ (Value::List(_) | Value::Map(_))), Some(b @ (Value::List(_) | Value::Map(_)))) => {
                crate::check::same(a, b) || json(a) == json(b)
            }
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }
    fn text(&self) -> String {
        match self.value() {
            None => String::new(),
            Some(Value::Float(f)) => format!("f{f}"),
            Some(value) => json(value),
        }
    }
}

/// The positions at which something comes for the second time; third ones are not told.
fn repeated(keys: Vec<Key<'_>>) -> Vec<usize> {
    let mut found = Vec::new();
    if keys.len() <= COMPARED {
        for (i, key) in keys.iter().enumerate() {
            if keys[..i].iter().filter(|other| other.is(key)).take(2).count() == 1 {
                found.push(i);
            }
        }
        return found;
    }
    let mut times: HashMap<String, usize> = HashMap::with_capacity(keys.len());
    for (i, key) in keys.iter().enumerate() {
        let times = times.entry(key.text()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(i);
        }
    }
    found
}
