//! The parts of a program.

use std::collections::HashSet;
use std::sync::Arc;

use crate::cost::Cost;
use crate::environment::TypeProvider;
use crate::error::Error;
use crate::function::{Compiled, Native};
use crate::types::Type;
use crate::value::Val;

/// A step of evaluation. What it costs is said where it is evaluated.
pub(super) enum Node {
    Const(Val<'static>),
    /// A constant that always fails.
    Fail(Error),
    /// A variable or a value, and what is selected of it.
    Attribute(Box<Attribute>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Equal(Box<[Node; 2]>),
    NotEqual(Box<[Node; 2]>),
    Call(Box<Call>),
    /// `x in [..]` with a constant list.
    InSet(Box<(Node, HashSet<SetKey>)>),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Construct(Box<Construct>),
    Fold(Box<Fold>),
    /// `optional.or(optional)`.
    OptionalOr(Box<[Node; 2]>),
    /// `optional.orValue(value)`.
    OptionalOrValue(Box<[Node; 2]>),
    /// `accumulator + list` in a loop: the list grows in place.
    Append(Box<(usize, Node)>),
    /// Nesting that may need more stack.
    Deep(Box<Node>),
}

/// Upstream's attribute: something to start from and qualifiers. Its parts cost what reading them costs, and the whole one
/// more where it is evaluated as such (not as a branch of `?:` or as an index).
pub(super) struct Attribute {
    pub root: Root,
    pub qualifiers: Vec<Qualifier>,
    /// `has(..)`: the last qualifier only asks.
    pub test: bool,
}

pub(super) enum Root {
    Variable(Arc<str>),
    /// A local variable.
    Slot(usize),
    Operand(Node),
    /// `?:`. Qualifiers apply to the chosen branch.
    Conditional(Box<Conditional>),
}

pub(super) struct Conditional {
    pub condition: Node,
    pub yes: Attribute,
    pub no: Attribute,
}

pub(super) struct Qualifier {
    pub key: Key,
    pub optional: bool,
}

pub(super) enum Key {
    Const {
        key: Val<'static>,
        /// The name an escaped field stands for; `None` if it stands for none.
        unescaped: Option<Box<str>>,
    },
    /// Shared where both branches of a `?:` have it.
    Attribute(Arc<Attribute>),
}

pub(super) struct Call {
    pub function: Arc<str>,
    /// Empty if several may be meant.
    pub overload: &'static str,
    pub args: Vec<Node>,
    pub body: Body,
    /// Errors among the arguments are values too.
    pub lenient: bool,
    /// The first failing argument ends it, before the others are evaluated.
    pub sequential: bool,
    pub cost: CallCost,
}

pub(super) enum Body {
    /// Checks its arguments itself.
    Free(Native),
    /// Runs if the arguments' types fit.
    Guarded(Vec<Type>, Native),
    /// The first whose types fit.
    Dispatch(Vec<(Vec<Type>, bool, Native)>),
    Compiled(Compiled),
    /// Declared, and nothing more.
    Missing,
}

/// How a call's cost follows from its arguments.
#[derive(Clone, Copy)]
pub(super) enum CallCost {
    One,
    /// Reading the first argument once.
    Traverse,
    /// The size of the list, the second argument.
    ListSize,
    /// Reading the shorter of two.
    Shorter,
    /// Reading both.
    Both,
    Regex,
    Contains,
    /// A library's own, first of the signature, then of the function; else by the signature's default.
    Custom(Option<Cost>, Option<Cost>, &'static CallCost),
}

pub(super) struct Construct {
    pub name: Arc<str>,
    pub provider: Option<Arc<dyn TypeProvider>>,
    /// For a wrapper: its value's zero.
    pub wrapper: Option<Type>,
    pub fields: Vec<(Arc<str>, Node, bool)>,
}

pub(super) struct Fold {
    pub range: Node,
    pub variable: usize,
    pub second: Option<usize>,
    pub accumulator: usize,
    pub init: Node,
    pub condition: Node,
    pub step: Node,
    pub result: Node,
}

/// A constant element of a set.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum SetKey {
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// Its bits.
    Double(u64),
    Str(Box<str>),
}

impl SetKey {
    pub(super) fn of(value: &Val<'_>) -> Option<SetKey> {
        Some(match value {
            Val::Bool(b) => SetKey::Bool(*b),
            Val::Int(i) => SetKey::Int(*i),
            Val::Uint(u) => SetKey::Uint(*u),
            // Both zeros are one key, and NaN is none.
            Val::Double(d) if !d.is_nan() => SetKey::Double((d + 0.0).to_bits()),
            Val::Str(text) => SetKey::Str(Box::from(&**text)),
            _ => return None,
        })
    }
}
