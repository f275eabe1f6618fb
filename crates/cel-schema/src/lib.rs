//! CEL over structural schemas: the rules of custom resources (`x-kubernetes-validations`).
//!
//! ```text
//! Structural ── place ──> types and sizes on demand ── compile ──> programs of a node ──┐
//!                 └─────> views of values ────────────────────────────────────────────── validate(new, old) ──> errors, warnings
//! ```
//! [`Rules`] are those of one schema, for serving: a node's are compiled when they first run. [`Definition`] checks them when
//! a CustomResourceDefinition is written: all are compiled, and what they may cost is estimated.
//!
//! Words, limits and oddities are those of apiextensions-apiserver.

mod compile;
mod correlate;
mod declare;
mod definition;
mod field_path;
mod meter;
mod path;
mod place;
mod rules;
mod validate;
mod view;

pub use compile::environments;
pub use declare::object_types;
pub use definition::{Definition, Expressions};
pub use meter::Meter;
pub use rules::Rules;
pub use validate::{Limits, Outcome};
