//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
//!
//! ```text
//! policies ──┐ compiled once a generation                 ┌─ parameters of the binding ── Inputs ── decisions or mutations
//! bindings ──┴─ of the request's: criteria, match policy ─┘
//! ```
//! A policy without bindings is nobody's. What expressions may read is made when one reads it.

mod configured;
mod metrics;
mod mutating;
mod notes;
mod params;
mod subject;
mod validating;

pub use metrics::PolicyMetrics;
pub use mutating::MutatingPolicies;
pub use validating::ValidatingPolicies;

const GROUP: &str = "admissionregistration.k8s.io";
