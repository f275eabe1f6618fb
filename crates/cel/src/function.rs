//! Functions: what the checker resolves calls to, what runs, and what it costs.

use std::fmt;
use std::sync::Arc;

use crate::ast::{Call, Id};
use crate::cost::Cost;
use crate::error::Error;
use crate::types::Type;
use crate::value::Val;

/// What a function does with its arguments, the receiver first. Errors among them have been handled already.
pub type Native = for<'a> fn(&[Val<'a>]) -> Result<Val<'a>, Error>;

/// A function specialised for a constant argument.
pub type Compiled = Arc<dyn for<'a> Fn(&[Val<'a>]) -> Result<Val<'a>, Error> + Send + Sync>;

/// Looks at a call with the expression: what is wrong with it, and at which node. Types are found by node.
pub type Validate = for<'t> fn(Id, &Call, &dyn Fn(Id) -> &'t Type) -> Result<(), (Id, String)>;

/// One signature of a function.
#[derive(Clone)]
pub struct Overload {
    pub id: &'static str,
    /// Called as `receiver.f(..)`; the receiver is the first parameter.
    pub member: bool,
    pub parameters: Vec<Type>,
    pub result: Type,
    pub(crate) call: Option<Native>,
    pub(crate) cost: Option<Cost>,
}

/// All signatures of a name. Libraries may add signatures to each other's functions.
#[derive(Clone)]
pub struct Function {
    pub name: &'static str,
    pub overloads: Vec<Overload>,
    /// Runs for every signature, instead of their own.
    pub(crate) singleton: Option<Native>,
    /// Whether arguments are compared with the signature before a call: not where the function itself does.
    pub(crate) guarded: bool,
    pub(crate) cost: Option<Cost>,
    pub(crate) pattern: Option<PatternArgument>,
    pub(crate) validate: Option<Validate>,
}

/// An argument that is compiled with the expression if it is constant, so that a bad one is refused early.
#[derive(Clone, Copy)]
pub struct PatternArgument {
    /// Counted with the receiver.
    pub index: usize,
    pub compile: fn(&str) -> Result<Compiled, Error>,
}

impl Overload {
    /// `f(a, b)`.
    pub fn global(
        id: &'static str,
        parameters: impl Into<Vec<Type>>,
        result: Type,
        call: Native,
    ) -> Overload {
        Overload { id, member: false, parameters: parameters.into(), result, call: Some(call), cost: None }
    }
    /// `a.f(b)`: the receiver's type comes first.
    pub fn member(
        id: &'static str,
        parameters: impl Into<Vec<Type>>,
        result: Type,
        call: Native,
    ) -> Overload {
        Overload { member: true, ..Overload::global(id, parameters, result, call) }
    }
    /// A signature without a body of its own: the function has one for all, or evaluation knows it.
    pub fn declared(
        id: &'static str,
        member: bool,
        parameters: impl Into<Vec<Type>>,
        result: Type,
    ) -> Overload {
        Overload { id, member, parameters: parameters.into(), result, call: None, cost: None }
    }
    /// What this signature costs; asked before the function's own.
    pub fn cost(self, cost: Cost) -> Overload {
        Overload { cost: Some(cost), ..self }
    }
}

impl Function {
    pub fn new(name: &'static str, overloads: impl Into<Vec<Overload>>) -> Function {
        Function {
            name,
            overloads: overloads.into(),
            singleton: None,
            guarded: true,
            cost: None,
            pattern: None,
            validate: None,
        }
    }
    /// One body for all signatures.
    pub fn singleton(self, call: Native) -> Function {
        Function { singleton: Some(call), ..self }
    }
    /// The bodies check their arguments themselves.
    pub fn unguarded(self) -> Function {
        Function { guarded: false, ..self }
    }
    pub fn cost(self, cost: Cost) -> Function {
        Function { cost: Some(cost), ..self }
    }
    pub fn pattern(self, index: usize, compile: fn(&str) -> Result<Compiled, Error>) -> Function {
        Function { pattern: Some(PatternArgument { index, compile }), ..self }
    }

    /// Calls are looked at with the expression, and literals in their arguments may mix types.
    pub fn validated(self, validate: Validate) -> Function {
        Function { validate: Some(validate), ..self }
    }

    /// Adds what another library declares under the same name.
    pub(crate) fn merge(&mut self, other: Function) {
        for overload in other.overloads {
            match self.overloads.iter_mut().find(|own| own.id == overload.id) {
                Some(own) => *own = overload,
                None => self.overloads.push(overload),
            }
        }
        self.singleton = other.singleton.or(self.singleton);
        self.guarded |= other.guarded;
        self.cost = other.cost.or(self.cost);
        self.pattern = other.pattern.or(self.pattern);
        self.validate = other.validate.or(self.validate);
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}
