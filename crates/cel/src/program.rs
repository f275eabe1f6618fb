//! A compiled expression: what runs, shared by all who run it.

mod attribute;
mod call;
mod eval;
mod fold;
mod node;
mod plan;

#[cfg(test)]
mod tests;

use std::fmt;

use catalog::Name;

use crate::error::Error;
use crate::value::Val;
use eval::Frame;
use node::Node;

pub(crate) use plan::plan;

/// What one evaluation may cost by default: upstream's `PerCallLimit`.
pub const PER_CALL_LIMIT: u64 = 1_000_000;

/// An expression ready to run. Share it behind an `Arc`.
pub struct Program {
    root: Node,
    /// How many local variables there are at once.
    slots: usize,
}

/// The values of variables.
pub trait Activation {
    /// A variable's value; `None` if it has none.
    fn variable<'a>(&'a self, name: &str) -> Option<Result<Val<'a>, Error>>;

    /// Whether nobody waits for the answer any more. Asked now and then in loops, which then end.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// What came out, and what it cost.
#[derive(Debug)]
pub struct Evaluation<'a> {
    pub result: Result<Val<'a>, Error>,
    pub cost: u64,
}

impl Program {
    /// Runs with the default limit.
    pub fn eval<'a>(&'a self, variables: &'a dyn Activation) -> Evaluation<'a> {
        self.eval_within(variables, PER_CALL_LIMIT)
    }
    /// Runs until it is done or costs more than `limit`.
    pub fn eval_within<'a>(&'a self, variables: &'a dyn Activation, limit: u64) -> Evaluation<'a> {
        let mut frame = Frame::new(variables, self.slots, limit);
        let result = self.root.eval(&mut frame);
        Evaluation { result, cost: frame.cost() }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// A few variables by name.
#[derive(Debug, Default)]
pub struct Variables<'v>(Vec<(Name, Val<'v>)>);

impl<'v> Variables<'v> {
    pub fn new() -> Variables<'v> {
        Variables::default()
    }
    #[must_use]
    pub fn with(mut self, name: impl Into<Name>, value: impl Into<Val<'v>>) -> Variables<'v> {
        self.0.push((name.into(), value.into()));
        self
    }
}

impl Activation for Variables<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Result<Val<'a>, Error>> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| Ok(value.reborrow()))
    }
}
impl Activation for () {
    fn variable<'a>(&'a self, _: &str) -> Option<Result<Val<'a>, Error>> {
        None
    }
}
