//! Constraints: what the devices of a claim must have in common, or not.
//!
//! A device that fails one fails it with more devices, too, so the search turns back at once.

use std::sync::Arc;

use crate::claim::{Claim, Constraint, ConstraintKind};
use crate::slice::{Attribute, Device};

pub(super) struct Check<'c> {
    constraint: &'c Constraint,
    attribute: &'c str,
    distinct: bool,
    /// The attribute of each device so far.
    values: Vec<Attribute>,
}

/// Which request a device is for: its name, and that of the subrequest.
#[derive(Clone, Copy)]
pub(super) struct For<'c> {
    pub request: &'c Arc<str>,
    pub subrequest: Option<&'c Arc<str>>,
}

impl<'c> Check<'c> {
    pub(super) fn all(claim: &'c Claim) -> Result<Vec<Check<'c>>, String> {
        let checks = claim.constraints.iter().enumerate().map(|(i, constraint)| {
            let (attribute, distinct) = match &constraint.kind {
                ConstraintKind::MatchAttribute(attribute) => (attribute, false),
                ConstraintKind::DistinctAttribute(attribute) => (attribute, true),
                ConstraintKind::Unknown => {
                    let claim = claim.key();
                    return Err(format!(
                        "claim {claim}, constraint #{i}: empty constraint (unsupported constraint type?)"
                    ));
                }
            };
            Ok(Check { constraint, attribute, distinct, values: Vec::new() })
        });
        checks.collect()
    }

    /// Takes a device in, if it may be.
    pub(super) fn add(&mut self, whom: For<'_>, device: &Device, driver: &str) -> bool {
        if !self.concerns(whom) {
            return true;
        }
        let Some(attribute) = device.attribute(self.attribute, driver) else { return false };
        // Differs from kube-scheduler: it remembers one device of each request only and forgets that one when it turns back, and so
        // may give two devices with the same value.
        let allowed = match (self.values.first(), attribute) {
            (None, _) => true,
            (Some(_), Attribute::Unknown) => false,
            (Some(first), _) if !self.distinct => first == attribute,
            (Some(_), _) => !self.values.contains(attribute),
        };
        if allowed {
            self.values.push(attribute.clone());
        }
        allowed
    }

    /// Takes back the device that came last.
    pub(super) fn remove(&mut self, whom: For<'_>) {
        if self.concerns(whom) {
            self.values.pop();
        }
    }

    fn concerns(&self, whom: For<'_>) -> bool {
        let named = |request: &Arc<str>| match (request.split_once('/'), whom.subrequest) {
            (Some((request, sub)), Some(subrequest)) if *request == **whom.request => *sub == **subrequest,
            _ => request == whom.request,
        };
        self.constraint.requests.is_empty() || self.constraint.requests.iter().any(named)
    }
}
