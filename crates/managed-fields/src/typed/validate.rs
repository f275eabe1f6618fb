//! Whether a value is of its type.

use object::patch::go_type;
use object::{Map, Value, deep};

use super::error::{Errors, Lazy, ValidationErrors, in_go, plain};
use super::items::{check, element_of, repeated};
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

/// As [`validate`], of an object whose `metadata.managedFields` are known to be right: they are larger than most of the rest.
pub(crate) fn validate_object(
    object: &Value,
    ty: TypeRef<'_>,
    duplicates: Duplicates,
) -> Result<(), ValidationErrors> {
    let validate = Validate { duplicates };
    let mut errors = Errors::default();
    let map = ty.resolve().map;
    let metadata = map.and_then(|map| map.member("metadata").resolve().map);
    match (object, map, object.get("metadata"), metadata) {
        (Value::Map(members), Some(map), Some(Value::Map(metadata)), Some(metadata_map)) => {
            validate.members(members, &map, "metadata", &mut errors);
            errors.below(".metadata", |errors| {
                validate.members(metadata, &metadata_map, "managedFields", errors);
            });
        }
        _ => validate.value(object, ty, &mut errors),
    }
    errors.finish()
}

/// No member has this name.
const NOTHING: &str = "\0";

struct Validate {
    duplicates: Duplicates,
}

impl Validate {
    fn value(&self, value: &Value, ty: TypeRef<'_>, errors: &mut Errors) {
        match ty.resolve().of_value(Some(value)).first() {
            Some(Form::Map(map)) => match value {
                Value::Map(members) => deep(|| self.members(members, &map, NOTHING, errors)),
                Value::Null | Value::Raw(_) => {}
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

    fn members(&self, members: &Map, ty: &MapType<'_>, without: &str, errors: &mut Errors) {
        for (name, value) in members.iter().filter(|(name, _)| name.as_str() != without) {
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
        let wrong = items.iter().enumerate().find_map(|(i, item)| Some((i, check(ty, item).err()?)));
        let valid = wrong.as_ref().map_or(items, |(i, _)| &items[..*i]);
        let repeated = if self.duplicates == Duplicates::Refused { repeated(ty, valid) } else { Vec::new() };
        for (i, item) in valid.iter().enumerate() {
            let element = || element_of(ty, item).unwrap_or(PathElement::Index(i as i64));
            if repeated.binary_search(&i).is_ok() {
                errors.add(format!("duplicate entries for key {}", element()));
            }
            errors.below(Lazy(&element), |errors| self.value(item, ty.element, errors));
        }
        if let Some((i, why)) = wrong {
            errors.add(format!("element {i}: {why}"));
        }
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
