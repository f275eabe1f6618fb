//! Selectors of devices: CEL expressions over one, compiled when they are written.
//!
//! `device` has its driver, attributes and capacities; those by domain and name. What an attribute is shows at run time.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use cel::Environment;
use cel::cost::{Node, Range, SizeEstimate, SizeEstimator};
use devices::selectors::{self, CompileError};

use crate::check::{Errors, Path};

const MAX_ENTRIES: u64 = 32;
const MAX_DOMAIN_BYTES: u64 = 63;
const MAX_ID_BYTES: u64 = 32;
const MAX_DRIVER_BYTES: u64 = 63;
const MAX_VALUE_BYTES: u64 = 64;

static NEW: LazyLock<Environment> =
    LazyLock::new(|| selectors::environment(&cel_schema::environments().new_expressions));

/// An expression that is new, or `stored` as it is.
pub(super) fn check(expression: &str, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    let env = if stored { selectors::stored() } else { &*NEW };
    let checked = match selectors::compile(env, expression) {
        Ok((checked, _)) => checked,
        Err(CompileError::Invalid(detail)) => return errors.invalid(at, expression, detail),
        Err(CompileError::Internal(detail)) => return errors.internal(at, detail),
    };
    if cel::cost::estimate(env, &checked, &Device).max > selectors::MAX_COST {
        errors.forbidden(at, "too complex, exceeds cost limit");
    }
}

/// What `device` can be at most.
struct Device;

impl SizeEstimator for Device {
    fn size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        let steps = node.path.strip_prefix(&["device"])?;
        let max = match steps {
            [] => 0,
            ["driver"] => MAX_DRIVER_BYTES,
            ["allowMultipleAllocations"] => 1,
            ["attributes" | "capacity"] => MAX_ENTRIES,
            ["attributes" | "capacity", "@keys"] => MAX_DOMAIN_BYTES,
            ["attributes" | "capacity", "@items" | "@values"] => MAX_ENTRIES,
            ["attributes" | "capacity", "@items" | "@values", "@keys"] => MAX_ID_BYTES,
            ["attributes", "@items" | "@values", _] => MAX_VALUE_BYTES,
            ["capacity", "@items" | "@values", "@items" | "@values"] => 0,
            _ => return None,
        };
        Some(Range { min: 0, max })
    }
}
