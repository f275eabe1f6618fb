//! Costs: of a call that ran, and estimated before it ever does.

mod estimate;

use std::ops::{Add, Mul};

pub use estimate::estimate;

use crate::types::Type;
use crate::value::Val;

/// Reading a variable or a member.
pub const SELECT: u64 = 1;
pub const CREATE_LIST: u64 = 10;
pub const CREATE_MAP: u64 = 30;
pub const CREATE_OBJECT: u64 = 40;
/// Of reading a string once, a character.
pub const STRING_TRAVERSAL: f64 = 0.1;
/// Of applying a pattern to a character, a character of the pattern.
pub const REGEX_LENGTH: f64 = 0.25;

/// What a function or one of its signatures costs. Both may answer `None`: then the language's defaults hold (mostly 1).
#[derive(Clone, Copy)]
pub struct Cost {
    pub actual: fn(&ActualCall<'_, '_>) -> Option<u64>,
    pub estimate: fn(&EstimatedCall<'_>) -> Option<CallEstimate>,
}

/// A call that has been made.
pub struct ActualCall<'c, 'a> {
    pub function: &'c str,
    /// Empty if the types of the arguments left more than one open.
    pub overload: &'c str,
    /// The receiver first; null in place of an error.
    pub args: &'c [Val<'a>],
    /// Null in place of an error.
    pub result: &'c Val<'a>,
}

/// A call to be estimated.
pub struct EstimatedCall<'c> {
    pub function: &'c str,
    pub overload: &'c str,
    pub target: Option<&'c Node<'c>>,
    /// Without the receiver.
    pub args: &'c [Node<'c>],
    pub sizes: &'c dyn SizeEstimator,
}

/// What is known of an argument: where its value comes from, its type, its size.
#[derive(Clone, Debug)]
pub struct Node<'c> {
    /// `self`, `spec`, `@items`: of a variable's member. Empty if it has no such path.
    pub path: Vec<&'c str>,
    pub ty: &'c Type,
    pub size: Option<SizeEstimate>,
    /// The value of a literal.
    pub literal: Option<&'c Val<'static>>,
}

/// Knows the sizes of variables and their members, from `maxLength`, `maxItems` and their like.
pub trait SizeEstimator {
    fn size(&self, node: &Node<'_>) -> Option<SizeEstimate>;
}

/// Knows nothing.
impl SizeEstimator for () {
    fn size(&self, _: &Node<'_>) -> Option<SizeEstimate> {
        None
    }
}

/// A range, of sizes or of costs. Sums and products stop at the largest number there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}
pub type SizeEstimate = Range;
pub type CostEstimate = Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEstimate {
    pub cost: CostEstimate,
    /// Of what the call returns.
    pub result_size: Option<SizeEstimate>,
}

impl EstimatedCall<'_> {
    /// The size of an argument, as far as anybody knows.
    pub fn size(&self, node: &Node<'_>) -> SizeEstimate {
        node.size.or_else(|| self.sizes.size(node)).unwrap_or(Range::UNKNOWN)
    }
    /// What stands for the elements of a list; `None` if the type has no parameters.
    pub fn element<'n>(&self, list: &Node<'n>) -> Option<Node<'n>> {
        let ty = list.ty.parameters().first()?;
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items");
        }
        Some(Node { path, ty, size: None, literal: None })
    }
}

impl Range {
    pub const ZERO: Range = Range { min: 0, max: 0 };
    pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

    pub fn fixed(n: u64) -> Range {
        Range { min: n, max: n }
    }
    fn add_fixed(self, n: u64) -> Range {
        self + Range::fixed(n)
    }
    pub fn union(self, other: Range) -> Range {
        Range { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
    /// Times a factor, rounded up.
    pub fn scale(self, factor: f64) -> Range {
        Range { min: scale(self.min, factor), max: scale(self.max, factor) }
    }
}

fn scale(n: u64, factor: f64) -> u64 {
    let scaled = (n as f64 * factor).ceil();
    // A cast from a double stops at the largest number.
    if n as f64 > u64::MAX as f64 / factor { u64::MAX } else { scaled as u64 }
}

impl Add for Range {
    type Output = Range;
    fn add(self, other: Range) -> Range {
        Range { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }
}
impl Mul for Range {
    type Output = Range;
    fn mul(self, other: Range) -> Range {
        Range { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }
}

impl From<CostEstimate> for CallEstimate {
    fn from(cost: CostEstimate) -> Self {
        CallEstimate { cost, result_size: None }
    }
}

/// The cost of reading `size` characters once, as evaluation counts it.
pub fn traversal(size: u64) -> u64 {
    (size as f64 * STRING_TRAVERSAL).ceil() as u64
}
