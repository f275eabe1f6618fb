//! Types of the catalogue.

use catalog::{AnyKind, Field, ListKind, MapKind, PatchRule, Schema, Shape, TypeId};
use object::Value;

use super::{Atom, Fields, Kind, ListRelation, ListType, MapType, Scalar, TypeRef};

/// A place in a catalogue type.
#[derive(Clone, Copy)]
pub(super) struct Shaped<'s> {
    schema: &'s Schema,
    place: Place<'s>,
}

#[derive(Clone, Copy)]
enum Place<'s> {
    /// A type by itself.
    Type(TypeId),
    /// A field, which may say otherwise than its type how its parts belong together.
    Field(&'s Field),
    /// An element of a field's list or map.
    Element(&'s Field, &'s Shape),
}

impl<'s> Shaped<'s> {
    pub(super) fn of_type(schema: &'s Schema, ty: TypeId) -> Shaped<'s> {
        Shaped { schema, place: Place::Type(ty) }
    }

    pub(super) fn resolve(self) -> Atom<'s> {
        match self.place {
            Place::Type(ty) => self.structure(ty, MapKind::OfType),
            Place::Field(field) => self.shape(field, &field.shape, true),
            Place::Element(field, shape) => self.shape(field, shape, false),
        }
    }

    /// `whole`: the field itself, so that what it says about its list or map is about this one.
    fn shape(self, field: &'s Field, shape: &'s Shape, whole: bool) -> Atom<'s> {
        let element = |inner| {
            TypeRef(Kind::BuiltIn(Shaped { schema: self.schema, place: Place::Element(field, inner) }))
        };
        let map = if whole { field.map } else { MapKind::OfType };
        match shape {
            Shape::Struct(ty) => self.structure(*ty, map),
            Shape::List(inner) => {
                let relation = if whole { relation(field) } else { ListRelation::Atomic };
                Atom::of_list(ListType { relation, element: element(inner) })
            }
            Shape::Map(inner) => Atom::of_map(MapType::open(element(inner), map == MapKind::Atomic)),
            Shape::String | Shape::Bytes | Shape::Duration => Atom::of_scalar(Scalar::String),
            Shape::Bool => Atom::of_scalar(Scalar::Boolean),
            Shape::Int32 | Shape::Int64 | Shape::Float64 => Atom::of_scalar(Scalar::Numeric),
            Shape::Time | Shape::MicroTime | Shape::Quantity => Atom::of_scalar(Scalar::Untyped),
            // Published without a type: any, of whose map nothing is known.
            Shape::IntOrString => Atom::untyped(false, TypeRef::DEDUCED),
            Shape::Any => match field.any {
                AnyKind::Raw => Atom::untyped(true, TypeRef::UNTYPED),
                AnyKind::Fields => Atom::of_map(MapType::open(TypeRef::DEDUCED, false)),
                _ => Atom::untyped(false, TypeRef::DEDUCED),
            },
        }
    }

    fn structure(self, ty: TypeId, map: MapKind) -> Atom<'s> {
        let declared = self.schema.get(ty);
        let atomic = match map {
            MapKind::OfType => declared.atomic,
            MapKind::Atomic => true,
            MapKind::Granular => false,
        };
        let open = declared.open || declared.fields.is_empty();
        let fields = if declared.fields.is_empty() { Fields::None } else { Fields::BuiltIn(self.schema, ty) };
        let element = if open { TypeRef::DEDUCED } else { TypeRef::NOTHING };
        Atom::of_map(MapType { fields, atomic, element })
    }
}

/// Without a list type the patch strategy counts.
fn relation(field: &Field) -> ListRelation<'_> {
    match (&field.list, &field.patch) {
        (ListKind::Atomic, _) => ListRelation::Atomic,
        (ListKind::Set, _) => ListRelation::Set,
        (ListKind::Map(keys), _) => ListRelation::Map(keys),
        (ListKind::None, PatchRule { merge: true, key: Some(key), .. }) => {
            ListRelation::Map(std::slice::from_ref(key))
        }
        (ListKind::None, PatchRule { merge: true, key: None, .. }) => ListRelation::Set,
        (ListKind::None, _) => ListRelation::Atomic,
    }
}

pub(super) fn field<'s>(schema: &'s Schema, ty: TypeId, name: &str) -> Option<TypeRef<'s>> {
    let (_, field) = schema.get(ty).field(name)?;
    Some(TypeRef(Kind::BuiltIn(Shaped { schema, place: Place::Field(field) })))
}

pub(super) fn default_of(schema: &Schema, ty: TypeId, name: &str) -> Option<Value> {
    let (_, field) = schema.get(ty).field(name)?;
    match &field.default {
        Some(json) => codec::json::parse(json.as_bytes(), None).ok(),
        // Go writes the zero of such a field, and so it is the default of the published schema.
        None if !field.pointer && !field.omit_empty && !field.omit_zero => zero(&field.shape),
        None => None,
    }
}

fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::String => Some(Value::Str(String::new())),
        Shape::Bool => Some(Value::Bool(false)),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Some(Value::Int(0)),
        _ => None,
    }
}

impl Shaped<'_> {
    /// The name of the type, of a struct with fields.
    #[cfg(test)]
    pub(super) fn name(self) -> Option<&'static str> {
        let ty = match self.place {
            Place::Type(ty) => ty,
            Place::Field(Field { shape: Shape::Struct(ty), .. }) => *ty,
            Place::Element(_, Shape::Struct(ty)) => *ty,
            _ => return None,
        };
        match (&self.schema.get(ty).name, self.schema.get(ty).fields.is_empty()) {
            (catalog::Name::Static(name), false) => Some(name),
            _ => None,
        }
    }
}
