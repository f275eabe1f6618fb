//! What objects use, as quotas count it: for admission, which charges it, and for the controller, which counts it again.

mod device_claims;
mod evaluator;
mod list;
mod pods;
mod quota;
mod scopes;
#[cfg(test)]
mod tests;

pub use device_claims::Lookup;
pub use evaluator::{Evaluator, Measured};
pub use list::{List, add, count, growth, show};
pub use object::quantity::Quantity;
pub use pods::is_terminating;
pub use quota::{Quota, evaluators};
pub use scopes::{Facts, Selector};
