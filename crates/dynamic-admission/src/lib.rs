//! Dynamic admission control: what users extend admission by.
//!
//! ```text
//! configuration objects ── compiled once a change (Memo) ── Index: by resource and operation ── concerns(attempt): by rules alone
//!   │
//!   └─ MatchCriteria (rules, equivalent resources, selectors) ─ match conditions ─ Invocation: the version that is asked about
//!        ├─ webhooks   AdmissionReview ── webhook::WebhookClient ── response: allowed, patch, warnings
//!        └─ policies   CEL over object, oldObject, request, params
//! ```
//! Nothing is locked while somebody is asked, and nobody is asked about the configuration of admission itself.

pub mod authorizer;
pub mod conditions;
pub mod configuration;
pub mod criteria;
pub mod index;
pub mod policies;
pub mod request;
pub mod rule;
#[cfg(test)]
mod testing;
mod turn;
pub mod webhooks;

pub use conditions::MatchConditionMetrics;
pub use configuration::{AdmissionConfiguration, ConfigurationError};
pub use criteria::{Invocation, MatchCriteria};
pub use policies::{MutatingPolicies, PolicyMetrics, ValidatingPolicies};
pub use webhooks::{WebhookMetrics, Webhooks};
