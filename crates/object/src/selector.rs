//! Label and field selectors: parse, match, print.

mod field;
mod label;
mod node;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelOperator, LabelRequirement, LabelSelector};
pub use node::{NodeNameRequirement, NodeSelector, NodeSelectorTerm};
