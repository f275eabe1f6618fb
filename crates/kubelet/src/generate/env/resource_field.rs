//! Requests and limits of containers as text: variables here, files in `volumes::downward`.
//!
//! Upstream's two places differ in what stands for a limit that an init container does not have: nothing in a variable, all of the
//! node's in a file.

use object::Value;
use object::quantity::Quantity;

use crate::generate::ContainerInputs;
use crate::generate::read::{list, text};
use crate::generate::resources::{amount, amount_of_pod, quantity};

/// What a container without a limit may use: all the pod may, or all there is.
const DEFAULTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn value(inputs: &ContainerInputs<'_>, field: &Value) -> Result<String, String> {
    let node = inputs.node.node.ok_or("failed to find node object, expected a node")?;
    resource_value(inputs.pod, inputs.container, node, field)
}

/// The value of a variable's `resourceFieldRef`.
fn resource_value(pod: &Value, own: &Value, node: &Value, field: &Value) -> Result<String, String> {
    let (container, defaulted) = match text(field, &["containerName"]) {
        "" => (own, true),
        name => {
            let (container, is_init) = named(pod, name)?;
            (container, !is_init)
        }
    };
    container_value(container, field, &|name| defaulted.then(|| default_limit(pod, node, name)))
}

/// The container of that name, and whether it is an init container.
pub fn named<'a>(pod: &'a Value, name: &str) -> Result<(&'a Value, bool), String> {
    let find = |member: &str| {
        list(pod, &["spec", member]).iter().find(|container| text(container, &["name"]) == name)
    };
    let init = || find("initContainers").map(|container| (container, true));
    let found = find("containers").map(|container| (container, false)).or_else(init);
    found.ok_or_else(|| format!("container {name} not found"))
}

/// A limit or request of one container, in whole divisors, rounded up. `default`: what stands for a limit that is missing.
pub fn container_value(
    container: &Value,
    field: &Value,
    default: &dyn Fn(&str) -> Option<Quantity>,
) -> Result<String, String> {
    let resource = text(field, &["resource"]);
    let unsupported = || format!("unsupported container resource : {resource}");
    let (list_name, name) = resource.split_once('.').ok_or_else(unsupported)?;
    if !matches!(list_name, "limits" | "requests")
        || !(DEFAULTED.contains(&name) || name.starts_with("hugepages-"))
    {
        return Err(unsupported());
    }
    let mut found = amount(container, list_name, name);
    if found.is_zero() && list_name == "limits" && DEFAULTED.contains(&name) {
        found = default(name).unwrap_or(found);
    }
    let divisor = field.get("divisor").and_then(quantity).filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or(Quantity::from_milli(1000, object::quantity::Format::DecimalSi));
    let number = |quantity: Quantity| if name == "cpu" { quantity.as_milli() } else { quantity.as_i64() };
    let (found, divisor) = (number(found) as f64, number(divisor) as f64);
    Ok(((found / divisor).ceil() as i64).to_string())
}

fn default_limit(pod: &Value, node: &Value, name: &str) -> Quantity {
    let Some(allocatable) = node.at(&["status", "allocatable", name]).and_then(quantity) else {
        return Quantity::ZERO;
    };
    let of_pod = amount_of_pod(pod, "limits", name);
    if of_pod.is_zero() || name == "ephemeral-storage" { allocatable } else { of_pod }
}
