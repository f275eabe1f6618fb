//! `Object{..}` merged into an object.

use std::fmt::Write;

use cel::{Map, Object, Val};
use managed_fields::TypeRef;
use managed_fields::typed::{Duplicates, merge, validate};
use object::{Value, deep};

/// The object with what the expression constructed merged into it.
pub(super) fn apply(value: &Val<'_>, object: &Value, ty: TypeRef<'_>) -> Result<Value, String> {
    let Val::Object(constructed) = value else {
        return Err(format!(
            "unsupported return type from ApplyConfiguration expression: {}",
            value.type_name()
        ));
    };
    check_names(constructed)?;
    let mut tree = Tree::default();
    let mut patch =
        tree.object(constructed).map_err(|_| "invalid return type: *dynamic.ObjectVal".to_owned())?;
    // What is constructed is of the object's kind, whatever it says.
    let map = patch.make_map();
    for name in ["apiVersion", "kind"] {
        map.remove(name);
        if let Some(own) = object.get(name) {
            map.set(name, own.clone());
        }
    }
    merged(&patch, object, ty, tree.foreign).map_err(|error| format!("error applying patch: {error}"))
}

fn merged(patch: &Value, object: &Value, ty: TypeRef<'_>, foreign: Option<String>) -> Result<Value, String> {
    let not_typed =
        |error: &dyn std::fmt::Display| format!("failed to convert patch object to typed object: {error}");
    validate(patch, ty, Duplicates::Refused).map_err(|errors| not_typed(&errors))?;
    if let Some(foreign) = foreign {
        return Err(not_typed(&foreign));
    }
    let mut atomics = Vec::new();
    find_atomics(&mut String::new(), patch, ty, &mut atomics);
    if !atomics.is_empty() {
        let listed = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {listed}"
        ));
    }
    validate(object, ty, Duplicates::Allowed)
        .map_err(|errors| format!("failed to convert original object to typed object: {errors}"))?;
    merge(object, patch, ty).map_err(|errors| format!("failed to merge patch: {errors}"))
}

/// What is owned as a whole: a patch would replace what it does not know.
fn find_atomics(path: &mut String, value: &Value, ty: TypeRef<'_>, out: &mut Vec<String>) {
    let atom = ty.resolve();
    let here = path.len();
    match (value, atom.map, atom.list) {
        (Value::Map(members), Some(map), _) => {
            if map.atomic {
                out.push(path.clone());
            }
            for (name, value) in members.iter() {
                if let Some(field) = map.field(name) {
                    let _ = write!(path, ".{name}");
                    deep(|| find_atomics(path, value, field, out));
                    path.truncate(here);
                }
            }
        }
        (Value::List(items), _, Some(list)) => {
            if list.is_atomic() {
                out.push(path.clone());
            }
            for (i, value) in items.iter().enumerate() {
                let _ = write!(path, "[{i}]");
                deep(|| find_atomics(path, value, list.element, out));
                path.truncate(here);
            }
        }
        _ => {}
    }
}

/// The type of what is constructed for a field is named after the way to it: `Object.spec.template`.
pub(super) fn check_names(object: &Object<'_>) -> Result<(), String> {
    let mut errors = Vec::new();
    check_object(object, &object.name, &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", errors.join("\n"))) }
}

fn check_object(object: &Object<'_>, expected: &str, errors: &mut Vec<String>) {
    if *object.name != *expected {
        errors.push(format!(
            "unexpected type name \"{}\", expected \"{expected}\", which matches field name path from root Object type",
            object.name
        ));
    }
    for (name, value) in &object.fields {
        check_value(value, &format!("{expected}.{name}"), errors);
    }
}

fn check_value(value: &Val<'_>, expected: &str, errors: &mut Vec<String>) {
    deep(|| match value {
        Val::Object(object) => check_object(object, expected, errors),
        Val::List(list) => list.iter().flatten().for_each(|item| check_value(&item, expected, errors)),
        Val::Map(map @ Map::Owned(_)) => {
            map.entries().into_iter().filter_map(|(_, value)| value.ok()).for_each(|value| {
                check_value(&value, expected, errors);
            });
        }
        _ => {}
    });
}

/// Values as Go's native ones, which are not all JSON: what a list or map of the expression holds is not looked into again, and null is a number.
#[derive(Default)]
struct Tree {
    path: String,
    /// What is wrong with the first value that is none of JSON. A text stands in its place.
    foreign: Option<String>,
}

/// A key is no text.
struct WrongKey;

impl Tree {
    fn object(&mut self, object: &Object<'_>) -> Result<Value, WrongKey> {
        let mut out = Value::map();
        let map = out.make_map();
        for (name, value) in &object.fields {
            let value = self.below(name, |tree| tree.field(value))?;
            map.set((*name).to_owned(), value);
        }
        Ok(out)
    }

    fn below<R>(&mut self, name: &str, f: impl FnOnce(&mut Tree) -> R) -> R {
        let here = self.path.len();
        let _ = write!(self.path, ".{name}");
        let out = deep(|| f(self));
        self.path.truncate(here);
        out
    }

    /// The value of a field: a list or map of the expression is converted one level deep.
    fn field(&mut self, value: &Val<'_>) -> Result<Value, WrongKey> {
        match value {
            Val::List(list) if !matches!(list, cel::List::View { .. }) => list
                .iter()
                .flatten()
                .map(|item| self.native(&item))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::List),
            Val::Map(map @ Map::Owned(_)) => {
                let mut out = Value::map();
                for (key, value) in map.entries() {
                    let name = key.as_str().ok_or(WrongKey)?;
                    if let Ok(value) = value {
                        let value = self.below(name, |tree| tree.native(&value))?;
                        out.make_map().set(name.to_owned(), value);
                    }
                }
                Ok(out)
            }
            other => self.native(other),
        }
    }

    fn native(&mut self, value: &Val<'_>) -> Result<Value, WrongKey> {
        Ok(match value {
            Val::Bool(b) => Value::Bool(*b),
            Val::Int(i) => Value::Int(*i),
            Val::Double(d) => Value::Float(*d),
            Val::Str(text) => Value::Str(text.to_string()),
            Val::Type(ty) => Value::from(ty.name()),
            Val::List(cel::List::View { items, .. }) => Value::List(items.to_vec()),
            Val::Map(Map::View { map, .. }) => Value::Map((*map).clone()),
            Val::Preserved(value) => (*value).clone(),
            Val::Object(object) => return self.object(object),
            Val::Optional(Some(value)) => return self.native(value),
            Val::Null => self.foreign("NULL_VALUE".to_owned(), "0"),
            Val::Duration(nanos) => self.foreign(nanos.to_string(), &nanos.to_string()),
            Val::Uint(u) => self.foreign(u.to_string(), &format!("0x{u:x}")),
            other => self.foreign(other.to_string(), &other.to_string()),
        })
    }

    fn foreign(&mut self, text: String, go: &str) -> Value {
        if self.foreign.is_none() {
            let path = &self.path;
            self.foreign =
                Some(format!("{path}: expected string, got &value.valueUnstructured{{Value:{go}}}"));
        }
        Value::Str(text)
    }
}
