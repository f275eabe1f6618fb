//! Selectors of devices: CEL expressions over one, compiled when they are written.
//!
//! `device` has its driver, attributes and capacities; those by domain and name. What an attribute is shows at run time.

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use catalog::Name;
use cel::cost::{Node, Range, SizeEstimate, SizeEstimator};
use cel::{Environment, Type, TypeProvider};

use crate::check::{Errors, Path};

const MAX_COST: u64 = 1_000_000;
const DEVICE: &str = "kubernetes.DRADevice";
const MAX_ENTRIES: u64 = 32;
const MAX_DOMAIN_BYTES: u64 = 63;
const MAX_ID_BYTES: u64 = 32;
const MAX_DRIVER_BYTES: u64 = 63;
const MAX_VALUE_BYTES: u64 = 64;

static NEW: LazyLock<Environment> =
    LazyLock::new(|| environment(&cel_schema::environments().new_expressions));
static STORED: LazyLock<Environment> =
    LazyLock::new(|| environment(&cel_schema::environments().stored_expressions));

fn environment(base: &Environment) -> Environment {
    let device = (Name::from("device"), Type::object(DEVICE));
    base.with_bindings().extend([device], Some(Arc::new(Device)))
}

/// An expression that is new, or `stored` as it is.
pub(super) fn check(expression: &str, stored: bool, at: &Path<'_>, errors: &mut Errors) {
    let env: &Environment = if stored { &STORED } else { &NEW };
    let checked = match env.compile(expression) {
        Ok(checked) => checked,
        Err(issues) => return errors.invalid(at, expression, format!("compilation failed: {issues}")),
    };
    // It may be a boolean attribute, which nobody knows to be one.
    let ty = checked.output_type();
    if !matches!(ty, Type::Bool | Type::Any) {
        let detail = format!("must evaluate to bool or the unknown type, not {ty}");
        return errors.invalid(at, expression, detail);
    }
    if let Err(error) = env.program(&checked) {
        return errors.internal(at, format!("program instantiation failed: {error}"));
    }
    if cel::cost::estimate(env, &checked, &Device).max > MAX_COST {
        errors.forbidden(at, "too complex, exceeds cost limit");
    }
}

/// The type of `device`.
struct Device;

impl TypeProvider for Device {
    fn is_object(&self, name: &str) -> bool {
        name == DEVICE
    }
    fn field(&self, _object: &str, field: &str) -> Option<Type> {
        let by_name = |value| Type::map(Type::String, Type::map(Type::String, value));
        Some(match field {
            "driver" => Type::String,
            "allowMultipleAllocations" => Type::Bool,
            "attributes" => by_name(Type::Any),
            "capacity" => by_name(Type::object("kubernetes.Quantity")),
            _ => return None,
        })
    }
}

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
