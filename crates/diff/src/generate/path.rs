//! A path inside an object, and changes at it.

use catalog::{Name, Shape, TypeId};
use object::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathElement {
    Member(Name),
    Item(usize),
}

impl PathElement {
    /// Goes on to the first element of lists and maps, to the type they hold.
    pub fn push_inside(mut shape: &Shape, place: &mut Vec<PathElement>) -> Option<TypeId> {
        loop {
            match shape {
                Shape::List(of) => {
                    place.push(PathElement::Item(0));
                    shape = of;
                }
                Shape::Map(of) => {
                    place.push(PathElement::Member("k".into()));
                    shape = of;
                }
                Shape::Struct(ty) => return Some(*ty),
                _ => return None,
            }
        }
    }

    /// `spec.containers[0].name`.
    pub fn text(path: &[PathElement]) -> String {
        let mut out = String::new();
        for step in path {
            match step {
                PathElement::Member(name) if out.is_empty() => out.push_str(name),
                PathElement::Member(name) => out.extend([".", name.as_str()]),
                PathElement::Item(i) => out.push_str(&format!("[{i}]")),
            }
        }
        out
    }
}

/// Puts a value there; what is missing on the way is made.
pub fn set(root: &mut Value, path: &[PathElement], value: Value) {
    let mut here = root;
    for step in path {
        here = match step {
            PathElement::Member(name) => here.make_map().entry(name.clone()),
            PathElement::Item(at) => {
                if !matches!(here, Value::List(_)) {
                    *here = Value::List(Vec::new());
                }
                let Value::List(items) = here else { return };
                while items.len() <= *at {
                    items.push(Value::Null);
                }
                &mut items[*at]
            }
        };
    }
    *here = value;
}

/// Takes the value there away; a list closes up.
pub fn remove(root: &mut Value, path: &[PathElement]) {
    let Some((last, way)) = path.split_last() else { return };
    let mut here = root;
    for step in way {
        let next = match (step, here) {
            (PathElement::Member(name), Value::Map(map)) => map.get_mut(name),
            (PathElement::Item(at), Value::List(items)) => items.get_mut(*at),
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None => return,
        }
    }
    match (last, here) {
        (PathElement::Member(name), Value::Map(map)) => {
            map.remove(name);
        }
        (PathElement::Item(at), Value::List(items)) if *at < items.len() => {
            items.remove(*at);
        }
        _ => {}
    }
}

/// Every path of an object, parents before what is in them.
pub fn paths(value: &Value) -> Vec<(Vec<PathElement>, Value)> {
    let mut found = Vec::new();
    walk(value, &mut Vec::new(), &mut found);
    found
}

fn walk(value: &Value, here: &mut Vec<PathElement>, found: &mut Vec<(Vec<PathElement>, Value)>) {
    if !here.is_empty() {
        found.push((here.clone(), value.clone()));
    }
    match value {
        Value::Map(map) => {
            for (name, value) in map.iter() {
                here.push(PathElement::Member(name.clone()));
                walk(value, here, found);
                here.pop();
            }
        }
        Value::List(items) => {
            for (at, value) in items.iter().enumerate() {
                here.push(PathElement::Item(at));
                walk(value, here, found);
                here.pop();
            }
        }
        _ => {}
    }
}
