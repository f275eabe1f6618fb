//! The types of a schema, and the sizes its values may have. Everything is computed when it is asked for: an expression
//! touches a few fields of a schema that may have thousands.
//!
//! A type with fields is named after the way to it (`selfType.spec.containers.@idx`), so its name is enough to find it.

use std::sync::Arc;

use cel::cost::{Node as Argument, Range, SizeEstimate, SizeEstimator};
use cel::{Type, TypeProvider, escape};
use object::deep;
use structural::{Structural, Type as Written};

use crate::place::{Place, Spot};

/// The largest request there can be.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// The name of the type of `self`. Upstream adds digits of the clock, so that nobody comes to depend on it.
pub(crate) const SELF: &str = "selfType";

/// What a place is to expressions.
#[derive(Clone, Copy)]
pub(crate) enum Decl<'s> {
    Plain(Plain),
    List(Place<'s>),
    Map(Place<'s>),
    Object,
}

#[derive(Clone, Copy)]
pub(crate) enum Plain {
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
}

impl Plain {
    fn ty(self) -> Type {
        match self {
            Plain::IntOrString => Type::Dyn,
            Plain::Bool => Type::Bool,
            Plain::Int => Type::Int,
            Plain::Double => Type::Double,
            Plain::String => Type::String,
            Plain::Bytes => Type::Bytes,
            Plain::Duration => Type::Duration,
            Plain::Date | Plain::DateTime => Type::Timestamp,
        }
    }
    fn min_bytes(self) -> u64 {
        match self {
            Plain::IntOrString | Plain::Int | Plain::Double => 1,
            Plain::String | Plain::Bytes => 2,
            Plain::Duration => 3,
            Plain::Bool => 4,
            Plain::Date => 12,
            Plain::DateTime => 21,
        }
    }
}

impl<'s> Place<'s> {
    /// `None` if expressions cannot see it: it has no type, or is made of what has none.
    pub(crate) fn decl(self) -> Option<Decl<'s>> {
        let visible = |place: &Place<'s>| deep(|| place.decl()).is_some();
        let node = self.node();
        if node.is_some_and(|node| node.is_int_or_string()) {
            return Some(Decl::Plain(Plain::IntOrString));
        }
        Some(match self.ty() {
            Written::Array => Decl::List(self.items().filter(visible)?),
            Written::Object => match self.values() {
                Some(values) => Decl::Map(Some(values).filter(visible)?),
                None => Decl::Object,
            },
            Written::String => Decl::Plain(match node.map_or("", |node| node.format()) {
                "byte" => Plain::Bytes,
                "duration" => Plain::Duration,
                "date" => Plain::Date,
                "date-time" => Plain::DateTime,
                _ => Plain::String,
            }),
            Written::Boolean => Decl::Plain(Plain::Bool),
            Written::Number => Decl::Plain(Plain::Double),
            Written::Integer => Decl::Plain(Plain::Int),
            Written::None | Written::Odd => return None,
        })
    }

    /// A property that expressions can see.
    pub(crate) fn field(self, name: &str) -> Option<Place<'s>> {
        match self.decl()? {
            Decl::Object => self.property(name).filter(|place| place.decl().is_some()),
            Decl::Plain(_) | Decl::List(_) | Decl::Map(_) => None,
        }
    }

    /// What a list or a map holds.
    pub(crate) fn element(self) -> Option<Place<'s>> {
        match self.decl()? {
            Decl::List(element) | Decl::Map(element) => Some(element),
            Decl::Plain(_) | Decl::Object => None,
        }
    }

    /// A type with fields gets this name.
    fn named_type(self, name: &str) -> Option<Type> {
        Some(match self.decl()? {
            Decl::Plain(plain) => plain.ty(),
            Decl::Object => Type::object(name.to_owned()),
            Decl::List(element) => Type::list(deep(|| element.named_type(&format!("{name}.@idx")))?),
            Decl::Map(element) => {
                Type::map(Type::String, deep(|| element.named_type(&format!("{name}.@elem")))?)
            }
        })
    }

    /// The fewest bytes its JSON has.
    fn min_bytes(self) -> u64 {
        match self.decl() {
            None => 0,
            Some(Decl::Plain(plain)) => plain.min_bytes(),
            Some(Decl::List(_) | Decl::Map(_)) => 2,
            Some(Decl::Object) => {
                let required = self.node().map(|node| node.required()).unwrap_or_default();
                let mut bytes = 2u64;
                for (i, name) in required.iter().enumerate() {
                    let Some(property) = self.field(name).filter(|_| !required[..i].contains(name)) else {
                        continue;
                    };
                    // What has a default need not be sent.
                    if property.node().is_none_or(|node| node.default().is_none()) {
                        let own = deep(|| property.min_bytes());
                        bytes = bytes.saturating_add(name.len() as u64 + own + 4);
                    }
                }
                bytes
            }
        }
    }

    /// How many elements or characters it can have.
    fn max_elements(self) -> u64 {
        let limit = |most: Option<i64>| most.map(|most| most.max(0) as u64);
        let node = self.node();
        // `maxLength` counts characters, of up to four bytes.
        let length = || limit(node.and_then(|node| node.max_length())).map(|length| length.saturating_mul(4));
        match self.decl() {
            None | Some(Decl::Object) => 0,
            Some(Decl::List(element)) => limit(node.and_then(|node| node.max_items()))
                .unwrap_or_else(|| (MAX_REQUEST_BYTES - 2) / (element.min_bytes() + 1)),
            Some(Decl::Map(element)) => limit(node.and_then(|node| node.max_properties()))
                .unwrap_or_else(|| (MAX_REQUEST_BYTES - 2) / (element.min_bytes() + 6)),
            Some(Decl::Plain(plain)) => match plain {
                Plain::Bool | Plain::Int | Plain::Double => 0,
                Plain::IntOrString => length().unwrap_or(MAX_REQUEST_BYTES - 2),
                Plain::Bytes => {
                    limit(node.and_then(|node| node.max_length())).unwrap_or(MAX_REQUEST_BYTES - 2)
                }
                Plain::Duration | Plain::DateTime => 32,
                Plain::Date => 12,
                Plain::String => length().unwrap_or_else(|| {
                    let values = node.map(|node| node.enumeration()).unwrap_or_default();
                    let longest = values.iter().map(|value| value.as_str().map_or(0, str::len)).max();
                    longest.map_or(MAX_REQUEST_BYTES - 2, |longest| longest as u64)
                }),
            },
        }
    }

    /// How many of them fit into a request.
    pub(crate) fn max_cardinality(self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_bytes() + 1)
    }
}

/// The types of `self` and what it is made of.
pub(crate) struct Declared {
    pub(crate) schema: Arc<Structural>,
    pub(crate) root: Spot,
    /// What the type of `self` is called; the others are named after it.
    pub(crate) name: Box<str>,
}

impl Declared {
    fn root(&self) -> Place<'_> {
        self.root.place(&self.schema)
    }

    /// The type of `self`; `None` if expressions cannot see it.
    pub(crate) fn ty(&self) -> Option<Type> {
        self.root().named_type(&self.name)
    }

    /// What a type's name leads to.
    fn find(&self, object: &str) -> Option<Place<'_>> {
        let mut here = self.root();
        for step in object.strip_prefix(&*self.name)?.split('.').skip(1) {
            here = match step {
                "@idx" | "@elem" => here.element()?,
                field => escaped_field(here, field)?,
            };
        }
        Some(here)
    }
}

/// A field by the name expressions have for it.
fn escaped_field<'s>(place: Place<'s>, field: &str) -> Option<Place<'s>> {
    let name = escape::unescape(field)?;
    place.field(&name).filter(|_| escape::escape(&name).is_some_and(|escaped| escaped == field))
}

impl TypeProvider for Declared {
    fn is_object(&self, name: &str) -> bool {
        self.find(name).is_some_and(|place| matches!(place.decl(), Some(Decl::Object)))
    }
    fn field(&self, object: &str, field: &str) -> Option<Type> {
        escaped_field(self.find(object)?, field)?.named_type(&format!("{object}.{field}"))
    }
}

impl SizeEstimator for Declared {
    fn size(&self, argument: &Argument<'_>) -> Option<SizeEstimate> {
        let (_, steps) = argument.path.split_first()?;
        let mut here = self.root();
        for (i, step) in steps.iter().enumerate() {
            here = match *step {
                "@items" | "@values" => here.element()?,
                // Of keys nothing is known but that they are strings.
                "@keys" => {
                    let last = i + 1 == steps.len() && matches!(here.decl(), Some(Decl::Map(_)));
                    return last.then_some(Range::ZERO);
                }
                field => escaped_field(here, field)?,
            };
        }
        Some(Range { min: 0, max: here.max_elements() })
    }
}

/// The types of the objects of a schema, for expressions that are not the schema's own; the root's is called `name`.
pub fn object_types(schema: &Arc<Structural>, name: &str) -> Arc<dyn TypeProvider> {
    let root = Place::Node { node: schema.root(), resource: true }.spot();
    Arc::new(Declared { schema: Arc::clone(schema), root, name: name.into() })
}
