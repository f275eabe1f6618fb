//! The Common Expression Language as Kubernetes uses it: compiled once, checked against types, evaluated in about a microsecond
//! over borrowed [`object::Value`]s, with upstream's errors and costs.
//!
//! ```text
//! text ──parse──> Ast ──check──> Ast with types and overloads ──plan──> Program (shared) ──eval(variables)──> Val
//!        macros          │                                        constants folded,        runtime cost counted
//!        expanded        └─estimate──> cost before it ever runs   patterns compiled        against a limit
//! ```
//!
//! [`EnvironmentSet`] says what an expression may use: the libraries of a Kubernetes version for new expressions, all there are
//! for stored ones. A library is one file below `library/` and one row of its list.

pub mod ast;
mod check;
pub mod cost;
mod environment;
mod error;
pub mod escape;
mod function;
mod issue;
pub mod library;
mod messages;
pub mod ops;
pub mod parse;
mod program;
mod schema;
mod types;
pub mod value;

pub use check::Checked;
pub use environment::{Environment, EnvironmentSet, Feature, TypeProvider, Version};
pub use error::Error;
pub use function::{Compiled, Function, Native, Overload, PatternArgument, Validate};
pub use issue::{Issue, Issues};
pub use program::{Activation, Evaluation, PER_CALL_LIMIT, Program, Variables};
pub use schema::{Format, ListKind, Schema, Shape};
pub use types::Type;
pub use value::{List, Map, Mapper, Object, Opaque, Text, Timestamp, Val};
