//! Structural schemas.

use catalog::Schema;
use object::Value;
use structural::{Additional, ListType as Listed, MapType as Mapped, Node, Structural, Type};

use super::built_in::Shaped;
use super::{Atom, Fields, Kind, ListRelation, ListType, MapType, Scalar, TypeRef};

/// A node of a structural schema.
#[derive(Clone, Copy)]
pub(super) struct Custom<'s> {
    node: Node<'s>,
    types: &'s Schema,
    /// `x-kubernetes-preserve-unknown-fields` here or anywhere above: upstream lets descendants inherit it.
    preserves: bool,
    /// An object with metadata of its own: the root, and embedded resources.
    is_object: bool,
}

impl<'s> Custom<'s> {
    pub(super) fn root(schema: &'s Structural, types: &'s Schema) -> Custom<'s> {
        let node = schema.root();
        Custom { node, types, preserves: node.preserves_unknown_fields(), is_object: true }
    }

    fn child(self, node: Node<'s>) -> TypeRef<'s> {
        TypeRef(Kind::Custom(Custom {
            node,
            types: self.types,
            preserves: self.preserves || node.preserves_unknown_fields(),
            is_object: node.is_embedded_resource(),
        }))
    }

    pub(super) fn resolve(self) -> Atom<'s> {
        match self.node.ty() {
            Type::Object => Atom::of_map(self.map()),
            Type::Array => Atom::of_list(self.list()),
            Type::Integer | Type::Number => Atom::of_scalar(Scalar::Numeric),
            Type::Boolean => Atom::of_scalar(Scalar::Boolean),
            Type::String if matches!(self.node.format(), "" | "byte") => Atom::of_scalar(Scalar::String),
            Type::String | Type::Odd => Atom::of_scalar(Scalar::Untyped),
            Type::None => {
                Atom { scalar: Some(Scalar::Untyped), list: Some(self.list()), map: Some(self.map()) }
            }
        }
    }

    fn list(self) -> ListType<'s> {
        let relation = match self.node.list_type() {
            Listed::None | Listed::Atomic => ListRelation::Atomic,
            Listed::Set => ListRelation::Set,
            Listed::Map => ListRelation::Map(self.node.list_map_keys()),
        };
        ListType { relation, element: self.node.items().map_or(TypeRef::UNTYPED, |node| self.child(node)) }
    }

    fn map(self) -> MapType<'s> {
        let declares = self.is_object || self.node.properties().len() > 0;
        let element = match self.node.additional_properties() {
            Additional::Schema(node) => self.child(node),
            Additional::Allowed(true) => TypeRef::DEDUCED,
            Additional::None if self.preserves || !declares => TypeRef::DEDUCED,
            Additional::None | Additional::Allowed(false) => TypeRef::NOTHING,
        };
        MapType {
            fields: if declares { Fields::Custom(self) } else { Fields::None },
            atomic: self.node.map_type() == Mapped::Atomic,
            element,
        }
    }

    pub(super) fn field(self, name: &str) -> Option<TypeRef<'s>> {
        if self.is_object {
            match name {
                "apiVersion" | "kind" => return Some(TypeRef(Kind::String)),
                "metadata" => {
                    let known = self.types.find("meta.v1.ObjectMeta");
                    let known = known.map(|ty| Kind::BuiltIn(Shaped::of_type(self.types, ty)));
                    return Some(TypeRef(known.unwrap_or(Kind::Object)));
                }
                _ => {}
            }
        }
        self.node.property(name).map(|node| self.child(node))
    }

    pub(super) fn default_of(self, name: &str) -> Option<Value> {
        self.node.property(name)?.default().cloned()
    }

    pub(super) fn names(self) -> Vec<&'s str> {
        let own = ["apiVersion", "kind", "metadata"].into_iter().filter(|_| self.is_object);
        let declared = self.node.properties().map(|(name, _)| name.as_str());
        own.chain(declared.filter(|name| self.field(name).is_some())).collect()
    }
}
