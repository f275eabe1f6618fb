//! What the algorithms ask about types: which of scalar, list and map a value may be, and how its parts belong together.
//!
//! ```text
//! catalogue types (built-in kinds) ──┐
//! structural schemas (CRDs) ─────────┼─> TypeRef ── resolve ──> Atom { scalar?, list?, map? }
//! no schema at all ──────────────────┘
//! ```
//! A [`TypeRef`] is a few pointers; resolving one allocates nothing.

mod built_in;
mod custom;

use catalog::{Name, Schema, TypeId};
use object::Value;
use structural::Structural;

use built_in::Shaped;
use custom::Custom;

/// The type of a value.
#[derive(Clone, Copy)]
pub struct TypeRef<'s>(Kind<'s>);

#[derive(Clone, Copy)]
enum Kind<'s> {
    /// No type: what is not declared.
    Nothing,
    /// Anything, owned as a whole.
    Untyped,
    /// Anything: maps by their members, lists as a whole.
    Deduced,
    /// A map of anything.
    Object,
    String,
    BuiltIn(Shaped<'s>),
    Custom(Custom<'s>),
}

/// What a value may be. Nearly all types are one of the three.
#[derive(Clone, Copy)]
pub struct Atom<'s> {
    pub scalar: Option<Scalar>,
    pub list: Option<ListType<'s>>,
    pub map: Option<MapType<'s>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    /// Any of them.
    Untyped,
}

#[derive(Clone, Copy)]
pub struct ListType<'s> {
    pub relation: ListRelation<'s>,
    pub element: TypeRef<'s>,
}

/// Who the elements of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListRelation<'s> {
    /// Owned as a whole.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Maps, known by these members.
    Map(&'s [Name]),
}

#[derive(Clone, Copy)]
pub struct MapType<'s> {
    fields: Fields<'s>,
    /// Owned as a whole.
    pub atomic: bool,
    /// The type of members that are not declared.
    pub element: TypeRef<'s>,
}

#[derive(Clone, Copy)]
enum Fields<'s> {
    None,
    BuiltIn(&'s Schema, TypeId),
    Custom(Custom<'s>),
}

impl<'s> TypeRef<'s> {
    /// A type of the catalogue.
    pub fn built_in(schema: &'s Schema, ty: TypeId) -> TypeRef<'s> {
        TypeRef(Kind::BuiltIn(Shaped::of_type(schema, ty)))
    }

    /// Objects of a custom resource; `types` has `meta.v1.ObjectMeta`.
    pub fn custom(schema: &'s Structural, types: &'s Schema) -> TypeRef<'s> {
        TypeRef(Kind::Custom(Custom::root(schema, types)))
    }

    /// Anything: maps are owned by their members, lists as a whole.
    pub fn deduced() -> TypeRef<'s> {
        TypeRef(Kind::Deduced)
    }

    /// Objects of a custom resource without a schema.
    pub fn object() -> TypeRef<'s> {
        TypeRef(Kind::Object)
    }

    const UNTYPED: TypeRef<'s> = TypeRef(Kind::Untyped);
    const DEDUCED: TypeRef<'s> = TypeRef(Kind::Deduced);
    pub(crate) const NOTHING: TypeRef<'s> = TypeRef(Kind::Nothing);

    /// Whether there is no type: upstream refuses values there.
    pub(crate) fn is_nothing(self) -> bool {
        matches!(self.0, Kind::Nothing)
    }

    pub fn resolve(self) -> Atom<'s> {
        match self.0 {
            Kind::Nothing => Atom::NONE,
            Kind::Untyped => Atom::untyped(true, TypeRef::UNTYPED),
            Kind::Deduced => Atom::untyped(false, TypeRef::DEDUCED),
            Kind::Object => Atom::of_map(MapType::open(TypeRef::DEDUCED, false)),
            Kind::String => Atom::of_scalar(Scalar::String),
            Kind::BuiltIn(shaped) => shaped.resolve(),
            Kind::Custom(custom) => custom.resolve(),
        }
    }
}

impl<'s> Atom<'s> {
    const NONE: Atom<'s> = Atom { scalar: None, list: None, map: None };

    fn of_scalar(scalar: Scalar) -> Atom<'s> {
        Atom { scalar: Some(scalar), ..Atom::NONE }
    }
    fn of_list(list: ListType<'s>) -> Atom<'s> {
        Atom { list: Some(list), ..Atom::NONE }
    }
    fn of_map(map: MapType<'s>) -> Atom<'s> {
        Atom { map: Some(map), ..Atom::NONE }
    }
    fn untyped(atomic: bool, members: TypeRef<'s>) -> Atom<'s> {
        Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(ListType { relation: ListRelation::Atomic, element: TypeRef::UNTYPED }),
            map: Some(MapType::open(members, atomic)),
        }
    }

    /// The one the value is, if the type allows it; otherwise all, and who looks at the value says what is wrong.
    pub(crate) fn of_value(self, value: Option<&Value>) -> Atom<'s> {
        match value {
            Some(Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_))
                if self.scalar.is_some() =>
            {
                Atom { scalar: self.scalar, ..Atom::NONE }
            }
            Some(Value::List(_)) if self.list.is_some() => Atom { list: self.list, ..Atom::NONE },
            Some(Value::Map(_) | Value::Raw(_)) if self.map.is_some() => Atom { map: self.map, ..Atom::NONE },
            _ => self,
        }
    }

    /// Whether two atoms of one type, each for its value, are the same.
    pub(crate) fn same_kinds(&self, other: &Atom<'_>) -> bool {
        let kinds = |atom: &Atom<'_>| (atom.scalar.is_some(), atom.list.is_some(), atom.map.is_some());
        kinds(self) == kinds(other)
    }

    /// The first of map, scalar, list: the order in which upstream asks.
    pub(crate) fn first(self) -> Option<Form<'s>> {
        let map = self.map.map(Form::Map);
        map.or_else(|| self.scalar.map(Form::Scalar)).or_else(|| self.list.map(Form::List))
    }
}

/// The form in which a value is looked at.
#[derive(Clone, Copy)]
pub(crate) enum Form<'s> {
    Scalar(Scalar),
    List(ListType<'s>),
    Map(MapType<'s>),
}

impl ListType<'_> {
    pub fn is_atomic(&self) -> bool {
        self.relation == ListRelation::Atomic
    }
}

impl<'s> MapType<'s> {
    fn open(element: TypeRef<'s>, atomic: bool) -> MapType<'s> {
        MapType { fields: Fields::None, atomic, element }
    }

    /// The type of a declared field.
    pub fn field(&self, name: &str) -> Option<TypeRef<'s>> {
        match self.fields {
            Fields::None => None,
            Fields::BuiltIn(schema, ty) => built_in::field(schema, ty, name),
            Fields::Custom(custom) => custom.field(name),
        }
    }

    /// The type of a member, declared or not.
    pub fn member(&self, name: &str) -> TypeRef<'s> {
        self.field(name).unwrap_or(self.element)
    }

    /// The default of a field, for keys that an element leaves out.
    pub fn default_of(&self, name: &str) -> Option<Value> {
        match self.fields {
            Fields::None => None,
            Fields::BuiltIn(schema, ty) => built_in::default_of(schema, ty, name),
            Fields::Custom(custom) => custom.default_of(name),
        }
    }

    /// The names of the declared fields.
    pub fn names(&self) -> Vec<&'s str> {
        match self.fields {
            Fields::None => Vec::new(),
            Fields::BuiltIn(schema, ty) => schema.get(ty).fields.iter().map(|f| f.name.as_str()).collect(),
            Fields::Custom(custom) => custom.names(),
        }
    }

    /// Whether nothing is declared but that there may be anything: such maps have no types that could have changed.
    pub(crate) fn is_deduced(&self) -> bool {
        matches!(self.fields, Fields::None) && self.element.is_deduced()
    }
}

impl TypeRef<'_> {
    /// Upstream compares names, where a type has one: a catalogue type is never taken for a deduced one.
    fn is_deduced(self) -> bool {
        match self.0 {
            Kind::Deduced => true,
            Kind::Custom(custom) => custom.resolve().scalar == Some(Scalar::Untyped),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
