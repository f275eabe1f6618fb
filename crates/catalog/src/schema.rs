//! Types and fields of the API.
//!
//! Catalogue types and, later, CRD schemas become the same `Schema`; decoding, normalising, patching,
//! apply, protobuf and OpenAPI are written once over it.

use std::sync::Arc;

use crate::Name;
use crate::name::NameMap;

/// Index of a struct type in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// Struct types; a [`Shape`] refers to them by [`TypeId`].
///
/// A resource that is defined while the server runs has its own schema: the built-in types, shared, followed by its own.
#[derive(Debug, Default)]
pub struct Schema {
    /// The types that its own types may refer to.
    base: Option<Types>,
    /// The id of the first own type.
    first: u32,
    pub(crate) types: Vec<StructType>,
    pub(crate) by_name: NameMap<TypeId>,
}

impl Schema {
    /// Empty except for the types of `base`.
    pub fn extending(base: Types) -> Schema {
        let first = base.first + base.types.len() as u32;
        Schema { base: Some(base), first, ..Schema::default() }
    }

    pub fn get(&self, id: TypeId) -> &StructType {
        match &self.base {
            Some(base) if id.0 < self.first => base.get(id),
            _ => &self.types[(id.0 - self.first) as usize],
        }
    }

    /// Whether there is such a type; one of another definition is none here.
    pub fn contains(&self, id: TypeId) -> bool {
        id.0 < self.next_id().0
    }

    /// Whether a type is one of its own, not of its base.
    pub fn is_own(&self, id: TypeId) -> bool {
        id.0 >= self.first
    }

    /// The id that the next own type gets.
    pub(crate) fn next_id(&self) -> TypeId {
        TypeId(self.first + self.types.len() as u32)
    }

    pub(crate) fn own_mut(&mut self, id: TypeId) -> &mut StructType {
        &mut self.types[(id.0 - self.first) as usize]
    }

    /// By full short name, such as `core.v1.Pod` or `meta.v1.ObjectMeta`.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied().or_else(|| self.base.as_ref()?.find(name))
    }

    /// Its own types.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &StructType)> {
        self.types.iter().zip(self.first..).map(|(t, id)| (TypeId(id), t))
    }
}

/// The types of a catalogue, shared by it and all that it describes.
#[derive(Clone, Default)]
pub struct Types(Arc<Schema>);

impl Types {
    pub(crate) fn new(schema: Schema) -> Types {
        Types(Arc::new(schema))
    }
}

impl std::ops::Deref for Types {
    type Target = Schema;
    fn deref(&self) -> &Schema {
        &self.0
    }
}

/// Omits the thousands of types.
impl std::fmt::Debug for Types {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} types", self.0.types.len())
    }
}

/// A struct of the API, its fields in the order upstream declares (and so encodes) them.
#[derive(Debug)]
pub struct StructType {
    /// `core.v1.Pod`.
    pub name: Name,
    /// `Pod`: what Go calls the type in error messages.
    pub short: Name,
    /// `v1.ObjectMeta`: Go's package-qualified name, as in "of type v1.ObjectMeta".
    pub go_name: Name,
    pub fields: Vec<Field>,
    /// (group, version, kind) when the type is a kind of its own.
    pub gvk: Option<(Name, Name, Name)>,
    /// `x-kubernetes-map-type: atomic`: apply replaces it as a whole.
    pub atomic: bool,
    /// Members that are no fields are kept, whatever they are: custom resources, whose own schema decides about them.
    pub open: bool,
    /// `x-kubernetes-unions` discriminators; kept for OpenAPI.
    pub union: Option<Name>,
    /// Positions of the fields that are written although nobody set them ([`Field::is_always_written`]): few, in most types
    /// none, so that a pass over an object need not ask every field that is not there.
    pub always_written: Vec<u16>,
    pub(crate) index: NameMap<u16>,
}

impl StructType {
    /// Up to so many fields are looked through; hashing a name costs more than that.
    pub(crate) const SCANNED: usize = 8;

    /// The field and its position in `fields`.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        let i = if self.fields.len() <= Self::SCANNED {
            self.fields.iter().position(|f| f.name == *name)?
        } else {
            *self.index.get(name)? as usize
        };
        Some((i, &self.fields[i]))
    }
}

#[derive(Debug)]
pub struct Field {
    pub name: Name,
    /// Protobuf field number; 0 when the message has none.
    pub number: u32,
    /// Numbers of the embedded messages the field travels in, outermost first; empty for nearly all.
    /// Go embeds the struct, so JSON shows its fields flat (`volumes[].hostPath`) while protobuf nests
    /// them (`Volume.volumeSource = 2` holds `hostPath = 1`: `within` is `[2]`, `number` is 1).
    pub within: Vec<u32>,
    pub shape: Shape,
    pub required: bool,
    /// Go pointer: absent and zero are different.
    pub pointer: bool,
    /// Dropped from JSON when zero (false, 0, "", empty list or map; never a struct held by value).
    pub omit_empty: bool,
    /// Dropped from JSON when the struct is all zero.
    pub omit_zero: bool,
    /// A Go struct held by value: always emitted unless `omit_zero`. Its zero is `{}` for a struct, `null` for
    /// Time, MicroTime and Any, `"0"` for Quantity, `0` for IntOrString.
    pub by_value: bool,
    pub list: ListKind,
    /// Says otherwise than the field's type whether apply sees a map or struct as a whole.
    pub map: MapKind,
    /// Which Go type a [`Shape::Any`] (or a list or map of them) stands for.
    pub any: AnyKind,
    pub patch: PatchRule,
    /// Allowed values, when the type (of a list or map: of its elements) is a documented enum.
    pub values: Vec<Name>,
    /// The default marker of the schema (JSON text) that apply keys and OpenAPI need.
    pub default: Option<Name>,
}

impl Field {
    /// Whether Go writes the field even if nobody set it.
    pub fn is_always_written(&self) -> bool {
        if self.pointer {
            !self.omit_empty
        } else {
            !(self.omit_zero || self.omit_empty && self.shape.can_be_empty())
        }
    }
}

/// The shape of a field or an element.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Struct(TypeId),
    List(Box<Shape>),
    /// Keys are always strings. A map of lists is, in protobuf, a map of messages whose field 1 is the list.
    Map(Box<Shape>),
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    /// base64 in JSON.
    Bytes,
    /// RFC 3339, whole seconds, UTC.
    Time,
    /// RFC 3339 with six digits.
    MicroTime,
    /// Go duration text such as `1h0m0s`.
    Duration,
    Quantity,
    IntOrString,
    /// Any JSON value, unchanged (RawExtension, JSON, FieldsV1, JSONSchemaPropsOrBool ...).
    Any,
}

impl Shape {
    /// Go's omitempty knows these kinds only; structs are never empty to it.
    pub fn can_be_empty(&self) -> bool {
        match self {
            Shape::List(_) | Shape::Map(_) | Shape::String | Shape::Bool => true,
            Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::Bytes => true,
            Shape::Struct(_) | Shape::Time | Shape::MicroTime | Shape::Duration => false,
            Shape::Quantity | Shape::IntOrString | Shape::Any => false,
        }
    }
}

/// How apply and OpenAPI see a list.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum ListKind {
    #[default]
    None,
    Atomic,
    Set,
    Map(Vec<Name>),
}

/// How apply sees a map or a struct in this place; without a word the type decides (`StructType::atomic`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MapKind {
    #[default]
    OfType,
    Atomic,
    Granular,
}

/// The Go types behind [`Shape::Any`]: equal in JSON, different in protobuf and OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AnyKind {
    /// `RawExtension`: message { 1: the JSON or encoded object as bytes }.
    #[default]
    Raw,
    /// `FieldsV1`: message { 1: JSON as bytes }.
    Fields,
    /// `JSON`: message { 1: JSON as bytes }.
    Json,
    /// `JSONSchemaPropsOrArray`: message { 1: one schema, 2: repeated schemas }.
    SchemaOrArray,
    /// `JSONSchemaPropsOrBool`: message { 1: bool, 2: schema }.
    SchemaOrBool,
    /// `JSONSchemaPropsOrStringArray`: message { 1: schema, 2: repeated strings }.
    SchemaOrStrings,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PatchRule {
    pub merge: bool,
    pub retain_keys: bool,
    pub replace: bool,
    /// Merge key of a list of structs; a list of scalars merges as a set.
    pub key: Option<Name>,
}
