//! The types of built-in kinds, as their OpenAPI shows them to expressions.
//!
//! A type with fields is named after the way to it (`Pod.spec.containers.@idx`), so its name is enough to find it.

use catalog::{AnyKind, Field, Shape, TypeId, Types};
use cel::{Type, TypeProvider, escape};

pub(super) struct BuiltIn {
    types: Types,
    root: TypeId,
    name: Box<str>,
}

/// What a name leads to.
enum Found<'t> {
    Struct(TypeId),
    Shape(&'t Shape, &'t Field),
}

impl BuiltIn {
    pub(super) fn new(types: &Types, root: TypeId, name: &str) -> BuiltIn {
        BuiltIn { types: types.clone(), root, name: name.into() }
    }

    /// The type of a field, and whether it has fields of its own.
    fn ty(&self, shape: &Shape, field: &Field, name: &str) -> Option<Type> {
        Some(match shape {
            Shape::Struct(_) => Type::object(name.to_owned()),
            Shape::List(element) => Type::list(self.ty(element, field, &format!("{name}.@idx"))?),
            Shape::Map(element) => {
                Type::map(Type::String, self.ty(element, field, &format!("{name}.@elem"))?)
            }
            Shape::String | Shape::Duration => Type::String,
            Shape::Bool => Type::Bool,
            Shape::Int32 | Shape::Int64 => Type::Int,
            Shape::Float64 => Type::Double,
            Shape::Bytes => Type::Bytes,
            Shape::Time | Shape::MicroTime => Type::Timestamp,
            Shape::IntOrString => Type::Dyn,
            // Its schema is one of two types, and so has none: upstream does not show it, nor what is made of it.
            Shape::Quantity => return None,
            Shape::Any => match field.any {
                AnyKind::Raw | AnyKind::Fields => Type::object(name.to_owned()),
                AnyKind::Json | AnyKind::SchemaOrArray | AnyKind::SchemaOrBool | AnyKind::SchemaOrStrings => {
                    return None;
                }
            },
        })
    }

    fn find(&self, name: &str) -> Option<Found<'_>> {
        let rest = name.strip_prefix(&*self.name)?;
        if !(rest.is_empty() || rest.starts_with('.')) {
            return None;
        }
        let mut here = Found::Struct(self.root);
        for step in rest.split('.').skip(1) {
            here = match (here, step) {
                (Found::Shape(Shape::List(element), field), "@idx")
                | (Found::Shape(Shape::Map(element), field), "@elem") => Found::Shape(element, field),
                (Found::Struct(id), step) => self.member(id, step)?,
                (Found::Shape(Shape::Struct(id), _), step) => self.member(*id, step)?,
                _ => return None,
            };
        }
        Some(here)
    }

    fn member(&self, id: TypeId, escaped: &str) -> Option<Found<'_>> {
        let field = self.field_of(id, escaped)?;
        Some(Found::Shape(&field.shape, field))
    }

    fn field_of(&self, id: TypeId, escaped: &str) -> Option<&Field> {
        let name = escape::unescape(escaped)?;
        self.types.get(id).field(&name).map(|(_, field)| field)
    }
}

impl TypeProvider for BuiltIn {
    fn is_object(&self, name: &str) -> bool {
        matches!(self.find(name), Some(Found::Struct(_) | Found::Shape(Shape::Struct(_) | Shape::Any, _)))
    }
    fn field(&self, object: &str, field: &str) -> Option<Type> {
        let id = match self.find(object)? {
            Found::Struct(id) => id,
            Found::Shape(Shape::Struct(id), _) => *id,
            Found::Shape(..) => return None,
        };
        let found = self.field_of(id, field)?;
        self.ty(&found.shape, found, &format!("{object}.{field}"))
    }
}
