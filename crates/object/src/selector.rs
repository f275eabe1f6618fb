//! Label and field selectors: parse, match, print.

mod field;
mod label;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelOperator, LabelRequirement, LabelSelector};
