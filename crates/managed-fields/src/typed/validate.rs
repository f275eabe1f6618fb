//! Whether a value is of its type.

use object::{Value, deep};

use super::error::{Errors, ValidationErrors, go_type, in_go, plain};
use super::items::element_of;
use crate::path::{FieldName, PathElement};
use crate::schema::{Form, ListType, MapType, Scalar, TypeRef};

/// Whether sets and associative lists may have an element twice: stored objects may, what is applied may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    Allowed,
    Refused,
}

/// Says all that is wrong with a value.
pub fn validate(value: &Value, ty: TypeRef<'_>, duplicates: Duplicates) -> Result<(), ValidationErrors> {
    let mut errors = Errors::default();
    Validate { duplicates }.value(value, ty, &mut errors);
    errors.finish()
}

struct Validate {
    duplicates: Duplicates,
}

impl Validate {
    fn value(&self, value: &Value, ty: TypeRef<'_>, errors: &mut Errors) {
        match ty.resolve().of_value(Some(value)).first() {
            Some(Form::Map(map)) => match value {
                Value::Map(_) => deep(|| self.members(value, &map, errors)),
                Value::Null => {}
                _ => errors.add(format!("expected map, got {}", plain(value))),
            },
            Some(Form::Scalar(scalar)) => {
                if let Some(wrong) = wrong_scalar(scalar, value, "") {
                    errors.add(wrong);
                }
            }
            Some(Form::List(list)) => match value {
                Value::List(items) => deep(|| self.items(items, &list, errors)),
                Value::Null => {}
                _ => errors.add(format!("expected list, got {}", plain(value))),
            },
            None => errors.add("schema error: invalid atom: inlined"),
        }
    }

    fn members(&self, value: &Value, ty: &MapType<'_>, errors: &mut Errors) {
        let Value::Map(map) = value else { return };
        for (name, value) in map.iter() {
            let member = ty.member(name);
            let element = || PathElement::Field(FieldName::from(name));
            if member.is_nothing() {
                errors.below(element(), |errors| errors.add("field not declared in schema"));
                return;
            }
            if !matches!(value, Value::Null) {
                errors.below(Lazy(&element), |errors| self.value(value, member, errors));
            }
        }
    }

    fn items(&self, items: &[Value], ty: &ListType<'_>, errors: &mut Errors) {
        if ty.is_atomic() {
            for (i, item) in items.iter().enumerate() {
                errors.below(PathElement::Index(i as i64), |errors| self.value(item, ty.element, errors));
            }
            return;
        }
        let mut seen = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            match element_of(ty, item) {
                Ok(element) => seen.push(element),
                Err(why) => {
                    errors.add(format!("element {i}: {why}"));
                    break;
                }
            }
        }
        let repeated = if self.duplicates == Duplicates::Refused { repeated(&seen) } else { Vec::new() };
        for (i, (item, element)) in items.iter().zip(&seen).enumerate() {
            if repeated.binary_search(&i).is_ok() {
                errors.add(format!("duplicate entries for key {element}"));
            }
            errors.below(element, |errors| self.value(item, ty.element, errors));
        }
    }
}

/// The positions of elements that were there before.
fn repeated(elements: &[PathElement]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by(|a, b| elements[*a].cmp(&elements[*b]));
    let mut out: Vec<usize> =
        order.windows(2).filter(|pair| elements[pair[0]] == elements[pair[1]]).map(|pair| pair[1]).collect();
    out.sort_unstable();
    out
}

/// A path element that is only made if there is something to say.
struct Lazy<'a>(&'a dyn Fn() -> PathElement);

impl std::fmt::Display for Lazy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self.0)().fmt(f)
    }
}

/// What is wrong with a value that should be a scalar.
pub(super) fn wrong_scalar(scalar: Scalar, value: &Value, prefix: &str) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Int(_) | Value::Float(_))
        | (Scalar::String, Value::Str(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Untyped, Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, _) => {
            Some(format!("{prefix}expected numeric (int or float), got {}", go_type(value)))
        }
        (Scalar::String, _) => Some(format!("{prefix}expected string, got {}", in_go(value))),
        (Scalar::Boolean, _) => Some(format!("{prefix}expected boolean, got {}", plain(value))),
        (Scalar::Untyped, _) => Some(format!("{prefix}expected any scalar, got {}", plain(value))),
    }
}
