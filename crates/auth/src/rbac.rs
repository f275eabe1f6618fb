//! Role-based access control: rules, the indexed policy, escalation checks, aggregated roles.

mod aggregation;
mod escalation;
mod policy;
mod rule;
#[cfg(test)]
pub(crate) mod tests;

pub use aggregation::{RoleForAggregation, aggregated_rules, selectors_of};
pub use escalation::{check_binding_write, check_role_write, covers, escalation_message};
pub use policy::{Policy, RoleKind};
pub use rule::Rule;
pub(crate) use rule::{list as string_list, quoted_list, strings};

/// The API group of the four RBAC kinds, and of subjects that are users or groups.
pub const GROUP: &str = "rbac.authorization.k8s.io";
