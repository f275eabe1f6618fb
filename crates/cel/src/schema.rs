//! What the value of an API object means: the schema behind a view of an [`object::Value`].

use std::fmt;

/// A node of a schema, as far as values depend on it. Whoever owns schemas implements this on them: nothing is copied.
pub trait Schema: Send + Sync + fmt::Debug {
    fn shape(&self) -> Shape<'_>;
    /// Whether null is a value. Otherwise it is an error, except for a field of an object, which counts as absent.
    fn nullable(&self) -> bool {
        false
    }
    /// The schema of a member: a property of an object, the values of a map.
    fn member(&self, name: &str) -> Option<&dyn Schema>;
}

#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// Has properties: keys are escaped, null members are absent, members without a schema are only compared.
    Object,
    /// Has `additionalProperties` with a schema, or neither: keys are as they are.
    Map,
    List(&'a dyn Schema, ListKind<'a>),
    String(Format),
    Number,
    Integer,
    Boolean,
    IntOrString,
    /// `x-kubernetes-preserve-unknown-fields` without a type: can only be compared.
    Preserved,
    /// No type this language knows, named as the schema names it.
    Unknown(&'a str),
    /// An array without items.
    ListWithoutItems,
}

/// `x-kubernetes-list-type`: decides what `==` and `+` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind<'a> {
    Atomic,
    Set,
    /// By the values of these members.
    Map(&'a [catalog::Name]),
}

/// Formats of strings that are values of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Plain,
    Duration,
    Date,
    DateTime,
    Byte,
}
