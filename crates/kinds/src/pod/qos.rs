//! The quality-of-service class a pod's requests and limits give it.

use object::Value;
use object::quantity::Quantity;

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// No requests and limits: BestEffort. Limits of both for every container, equal to the requests: Guaranteed. Else Burstable.
pub fn class(pod: &Value) -> &'static str {
    let mut sums = Sums { requests: [None; 2], limits: [None; 2], all_limited: true };
    match pod.at(&["spec", "resources"]).filter(|r| !r.is_null()) {
        Some(resources) => {
            let limited = resources.get("limits").and_then(Value::as_map).is_some_and(|l| !l.is_empty());
            let before = sums.all_limited;
            sums.add(resources);
            if !limited {
                sums.all_limited = before;
            }
        }
        None => {
            for member in ["containers", "initContainers"] {
                for container in pod.at(&["spec", member]).and_then(Value::as_list).unwrap_or_default() {
                    sums.add(container.get("resources").unwrap_or(&Value::Null));
                }
            }
        }
    }
    if sums.requests == [None; 2] && sums.limits == [None; 2] {
        return "BestEffort";
    }
    if sums.all_limited && sums.requests == sums.limits { "Guaranteed" } else { "Burstable" }
}

/// Milli-units of cpu and memory, each only if above zero.
struct Sums {
    requests: [Option<i128>; 2],
    limits: [Option<i128>; 2],
    all_limited: bool,
}

impl Sums {
    fn add(&mut self, resources: &Value) {
        for (i, name) in COMPUTE.iter().enumerate() {
            if let Some(amount) = amount(resources, "requests", name) {
                *self.requests[i].get_or_insert(0) += amount;
            }
            match amount(resources, "limits", name) {
                Some(amount) => *self.limits[i].get_or_insert(0) += amount,
                None => self.all_limited = false,
            }
        }
    }
}

fn amount(resources: &Value, list: &str, name: &str) -> Option<i128> {
    let value = resources.at(&[list, name])?;
    let quantity = match value {
        Value::Str(text) => Quantity::parse(text).ok()?,
        Value::Int(i) => Quantity::parse(&i.to_string()).ok()?,
        _ => return None,
    };
    Some(i128::from(quantity.as_milli())).filter(|milli| *milli > 0)
}
