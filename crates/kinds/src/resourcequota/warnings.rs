//! Warnings about quotas: requests that are allowed more than limits.

use crate::check::{quantity, quantity_text};
use crate::warnings::{Accepted, Warnings};

/// An update gets no warnings, as upstream.
pub(crate) fn warn(write: &Accepted<'_>, warnings: &mut Warnings) {
    if !write.is_create() {
        return;
    }
    let hard = |name: &str| write.spec().at(&["hard", name]).filter(|v| !v.is_null());
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let mut of_requests = format!("requests.{name}");
        let mut request = hard(&of_requests);
        // The bare names of these two mean requests.
        if request.is_none() && matches!(name, "cpu" | "memory") {
            request = hard(name);
            of_requests = name.to_owned();
        }
        let of_limits = format!("limits.{name}");
        let (Some(request), Some(limit)) = (request, hard(&of_limits)) else { continue };
        if quantity(request) > quantity(limit) {
            warnings.push(format!(
                "ResourceQuota {of_requests} ({}) should be less than {of_limits} ({})",
                quantity_text(request),
                quantity_text(limit)
            ));
        }
    }
}
