//! Admission policies: compiled once, evaluated over plain trees.
//!
//! ```text
//! policy ── Scope ──> ValidatingPolicy ── matches, validate(Inputs) ──> decisions, audit annotations
//!                 └─> MutatingPolicy ──── matches, mutate(Inputs) ────> the object, changed
//! webhook ─ Scope ──> MatchConditions ─── matches(Inputs) ────────────> whether it is called
//! ```
//! Nothing here knows a server: which policies concern a request, where parameters come from and what becomes of a denial is
//! decided by the caller. Words, budgets and oddities are those of apiserver's `admission/plugin/{cel,policy}`.

mod activation;
mod denial;
mod expression;
mod inputs;
mod match_conditions;
mod mutating;
mod type_check;
mod types;
mod validating;

pub use denial::{ErrorType, MAX_ANNOTATION_BYTES, config_error, denied, failure_annotation, warning};
pub use expression::{Failure, Scope, Use};
pub use inputs::{Authorization, Inputs, Source, namespace_object};
pub use match_conditions::{MatchConditions, Matching};
pub use mutating::{MutatingPolicy, MutationError};
pub use type_check::{ExpressionWarning, GroupVersionKind, Kinds, ObjectType, type_check};
pub use validating::{
    Action, Annotated, AuditAnnotation, Decision, Evaluation, Outcome, Reason, ValidatingPolicy,
};

/// What all validations of a policy may cost for one binding and parameter, and each of its mutations.
pub const BUDGET: u64 = 10_000_000;
/// What all match conditions of a policy or webhook may cost.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// What happens to a request where an expression fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

impl FailurePolicy {
    /// As `failurePolicy` says it; absent: `Fail`.
    pub fn of(text: Option<&str>) -> FailurePolicy {
        if text == Some("Ignore") { FailurePolicy::Ignore } else { FailurePolicy::Fail }
    }
}
