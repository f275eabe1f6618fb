//! A place inside an object, and changes there.

use catalog::Name;
use object::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Member(Name),
    Item(usize),
}

impl Place {
    /// `spec.containers[0].name`.
    pub fn text(place: &[Place]) -> String {
        let mut out = String::new();
        for step in place {
            match step {
                Place::Member(name) if out.is_empty() => out.push_str(name),
                Place::Member(name) => out.extend([".", name.as_str()]),
                Place::Item(i) => out.push_str(&format!("[{i}]")),
            }
        }
        out
    }
}

/// Puts a value there; what is missing on the way is made.
pub fn set(root: &mut Value, place: &[Place], value: Value) {
    let mut here = root;
    for step in place {
        here = match step {
            Place::Member(name) => here.make_map().entry(name.clone()),
            Place::Item(at) => {
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
pub fn remove(root: &mut Value, place: &[Place]) {
    let Some((last, way)) = place.split_last() else { return };
    let mut here = root;
    for step in way {
        let next = match (step, here) {
            (Place::Member(name), Value::Map(map)) => map.get_mut(name),
            (Place::Item(at), Value::List(items)) => items.get_mut(*at),
            _ => None,
        };
        match next {
            Some(next) => here = next,
            None => return,
        }
    }
    match (last, here) {
        (Place::Member(name), Value::Map(map)) => {
            map.remove(name);
        }
        (Place::Item(at), Value::List(items)) if *at < items.len() => {
            items.remove(*at);
        }
        _ => {}
    }
}

/// Every place of an object, parents before what is in them.
pub fn places(value: &Value) -> Vec<(Vec<Place>, Value)> {
    let mut found = Vec::new();
    walk(value, &mut Vec::new(), &mut found);
    found
}

fn walk(value: &Value, here: &mut Vec<Place>, found: &mut Vec<(Vec<Place>, Value)>) {
    if !here.is_empty() {
        found.push((here.clone(), value.clone()));
    }
    match value {
        Value::Map(map) => {
            for (name, value) in map.iter() {
                here.push(Place::Member(name.clone()));
                walk(value, here, found);
                here.pop();
            }
        }
        Value::List(items) => {
            for (at, value) in items.iter().enumerate() {
                here.push(Place::Item(at));
                walk(value, here, found);
                here.pop();
            }
        }
        _ => {}
    }
}
